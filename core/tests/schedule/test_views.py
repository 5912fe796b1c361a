"""Movement as indices: every element of a movement op is found where numpy has it, gates included."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from graph_numpy import Evaluation
from kernel_numpy import node_values
from tinygraft.dtype import dtypes
from tinygraft.schedule.views import both, flatten, reshape_index, source_index, unflatten
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, WindowArg
from tinygraft.uop.uop import UOp, postorder

TRUE, FALSE = UOp.const(dtypes.bool, True), UOp.const(dtypes.bool, False)


def source(*shape: int) -> UOp:
    """A tensor in memory."""
    return UOp(Ops.RESHAPE, dtypes.float32, (UOp.buffer("PYTHON", int(np.prod(shape)), dtypes.float32),), shape)


def numbers(node: UOp | None, size: int) -> Any:
    """The values of an index or condition, which always holds when it is None, over size loops."""
    if node is None:
        return np.ones((1,) * size, bool)
    value = np.asarray(node_values(node, {})[node])
    return value.reshape(value.shape + (1,) * (size - value.ndim))


def loops(shape: tuple[int, ...]) -> tuple[UOp, ...]:
    """An index with a loop for each axis."""
    return tuple(UOp.range(size, axis) for axis, size in enumerate(shape))


def check(op: Ops, shape: tuple[int, ...], arg: Any) -> None:
    """A movement of shape reads, at every index, the element that numpy moves there."""
    node = UOp(op, dtypes.float32, (source(*shape),), arg)
    places, inside = source_index(node, loops(node.shape))
    n = len(node.shape)
    gate = np.broadcast_to(numbers(inside, n), node.shape)
    position = np.broadcast_to(numbers(flatten(places, shape), n), node.shape)
    expected = Evaluation(()).moved(op, np.arange(1, int(np.prod(shape)) + 1).reshape(shape), arg)
    assert np.where(gate, position + 1, 0).tolist() == expected.tolist()
    for place, size in zip(places, shape, strict=True):
        one = np.broadcast_to(numbers(place, n), node.shape)[gate]
        assert one.size == 0 or (one.min() >= 0 and one.max() < size)


WINDOWS = [
    ((7,), (3,), (1,), (1,)),
    ((9,), (2,), (2,), (3,)),
    ((5, 6), (2, 3), (1, 2), (2, 1)),
    ((4,), (4,), (1,), (1,)),
]
MOVES = [
    (Ops.RESHAPE, (4, 6), (2, 12)), (Ops.RESHAPE, (4, 6), (24,)), (Ops.RESHAPE, (3, 1, 4), (1, 3, 4, 1)),
    (Ops.RESHAPE, (2, 3, 5), (5, 3, 2)), (Ops.RESHAPE, (1,), ()), (Ops.RESHAPE, (1, 1), (1,)),
    (Ops.RESHAPE, (), (1, 1)), (Ops.RESHAPE, (6, 5, 4), (3, 2, 20)),
    (Ops.RESHAPE, (6, 4), (8, 3)), (Ops.RESHAPE, (2, 2, 9), (4, 3, 3)),
    (Ops.EXPAND, (1, 3), (4, 3)), (Ops.EXPAND, (2, 1, 1), (2, 3, 4)), (Ops.EXPAND, (1,), (1,)),
    (Ops.PERMUTE, (2, 3, 4), (2, 0, 1)), (Ops.PERMUTE, (2, 3), (1, 0)),
    (Ops.PAD, (3, 4), ((1, 2), (0, 0))), (Ops.PAD, (3,), ((0, 2),)), (Ops.PAD, (3,), ((2, 0),)),
    (Ops.PAD, (2, 2), ((1, 1), (3, 0))),
    (Ops.SHRINK, (5, 4), ((1, 4), (0, 4))), (Ops.SHRINK, (5,), ((2, 3),)),
    (Ops.FLIP, (3, 4), (0,)), (Ops.FLIP, (3, 4), (0, 1)), (Ops.FLIP, (1, 5), (0, 1)),
    *[(Ops.WINDOW, (2, *window[0]), WindowArg(*window)) for window in WINDOWS],
]  # fmt: skip


@pytest.mark.parametrize(("op", "shape", "arg"), MOVES, ids=lambda v: v.name if isinstance(v, Ops) else str(v)[:24])
def test_elements_come_from_where_numpy_takes_them(op: Ops, shape: tuple[int, ...], arg: Any) -> None:
    """Each movement op, by hand-picked shapes: sizes of one, whole and empty paddings, windows that overlap or not."""
    check(op, shape, arg)


def test_random_reshapes() -> None:
    """Any shape of equal size, with ones anywhere."""
    rng = random.Random(3)
    for _ in range(60):
        factors = [rng.choice((1, 2, 2, 3, 5)) for _ in range(4)]
        shapes = []
        for _ in range(2):
            rng.shuffle(factors)
            shape: list[int] = []
            for factor in factors:
                if shape and rng.random() < 0.5:
                    shape[-1] *= factor
                else:
                    shape.append(factor)
            shapes.append(tuple(shape))
        check(Ops.RESHAPE, *shapes)


def test_random_paddings_shrinks_and_flips() -> None:
    """Any amounts on any axes."""
    rng = random.Random(4)
    for _ in range(40):
        shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3)))
        check(Ops.PAD, shape, tuple((rng.randint(0, 2), rng.randint(0, 2)) for _ in shape))
        starts = [rng.randrange(size) for size in shape]
        check(Ops.SHRINK, shape, tuple((s, rng.randint(s + 1, n)) for s, n in zip(starts, shape, strict=True)))
        check(Ops.FLIP, shape, tuple(a for a in range(len(shape)) if rng.random() < 0.5))


def test_equal_axes_are_taken_over() -> None:
    """Axes that a reshape keeps are the same index, without a division, next to ones that are split; symbolic too."""
    n = UOp.variable("n", 1, 9)
    i, j, k = UOp.range(n, 0), UOp.range(6, 1), UOp.range(5, 2)
    moved = reshape_index((i, j, k), (n, 6, 5), (n, 2, 3, 5))
    assert (moved[0], moved[3]) == (i, k)
    assert [op for op in (Ops.IDIV, Ops.MOD) if any(x.op is op for x in postorder(*moved))] == [Ops.IDIV, Ops.MOD]
    assert reshape_index((i, j), (n, 6), (n, 1, 6)) == (i, ix.const(0), j)
    assert reshape_index((i, j), (n, 6), (n, 6)) == (i, j)


@pytest.mark.parametrize(("new", "old"), [((0,), (0, 5)), ((0, 5), (0,)), ((0,), (5, 0)), ((2, 0), (0, 3, 1, 4))])
def test_an_index_into_nothing_has_every_axis(new: tuple[int, ...], old: tuple[int, ...]) -> None:
    """Of an empty tensor no element is read, but an index has to have its length: a PAD may stand behind it."""
    assert len(reshape_index(loops(new), new, old)) == len(old)


def test_no_padding_has_no_gate() -> None:
    """A PAD is gated only at the sides that it pads."""
    node = UOp(Ops.PAD, dtypes.float32, (source(3, 4),), ((0, 2), (0, 0)))
    i, j = loops(node.shape)
    assert source_index(node, (i, j)) == ((i, j), ix.lt(i, 3))


def test_a_position_is_an_index_and_back() -> None:
    """flatten and unflatten are inverse to each other."""
    shape = (3, 4, 5)
    back = unflatten(flatten(loops(shape), shape), shape)
    assert back == loops(shape)
    position = UOp.range(60, 0)
    assert flatten(unflatten(position, shape), shape) is position
    assert flatten((), ()) is ix.const(0)


def test_conditions_join() -> None:
    """None always holds, and so does a condition that is decided."""
    a, b = ix.lt(UOp.range(9, 0), 5), ix.ge(UOp.range(9, 1), 3)
    assert both(None, None) is None
    assert (both(a, None), both(None, a)) == (a, a)
    assert both(a, b) is ix.and_(a, b)
    assert (both(TRUE, a), both(a, TRUE), both(None, TRUE)) == (a, a, None)
    assert both(a, FALSE) is FALSE
