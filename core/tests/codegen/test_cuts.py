"""Loops are cut where a condition on them changes: the parts are copies without conditions, of the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.codegen import cuts
from tinygraft.codegen.collapse import collapse
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop import logic
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

F, PLAIN = dtypes.float32, Target(vector_bytes=64)
X = np.arange(5 * 6 * 70, dtype=np.float32).reshape(5, 6, 70)


def joined(first: int, size: int, slots: tuple[int, int, int] = (0, 1, 2)) -> UOp:
    """A kernel that stores `first` elements of one memory and then others of another."""
    i = UOp.range(size, 0)
    before = logic.lt(i, first)
    left = load(param(slots[1], F, size), i, before)
    right = load(param(slots[2], F, size), ix.sub(i, first), logic.not_(before))
    value = UOp(Ops.WHERE, F, (before, left, right))
    return UOp(Ops.SINK, src=(store(param(slots[0], F, size), i, value),))


def sizes(sink: UOp) -> list[int]:
    """The trip counts of a kernel's loops, outermost first."""
    return [r.src[0].arg for r in sorted((n for n in postorder(sink) if n.op is Ops.RANGE), key=lambda r: r.arg.axis)]


def test_parts_have_no_conditions() -> None:
    """Each is a store in a loop of its own, from one memory."""
    found = cuts.cut(joined(30, 100), PLAIN)
    assert sizes(found) == [30, 70] and len(found.src) == 2
    assert not any(n.op in (Ops.CMPLT, Ops.WHERE) for n in postorder(found))
    assert [sum(n.op is Ops.LOAD for n in postorder(part)) for part in found.src] == [1, 1]


def test_what_stays_whole() -> None:
    """Short loops, threads of a grid, what is loaded from where it is stored, and too many parts."""
    for sink, target in (
        (joined(5, 12), PLAIN),
        (joined(30, 100), Target(grid_dims=3, block_threads=4)),
        (joined(30, 100, (0, 1, 0)), PLAIN),
    ):
        assert cuts.cut(sink, target) is sink
    i = UOp.range(10_000, 0)
    value = load(param(1, F, 10_000), i)
    for place in range(100, 10_000, 100):
        value = UOp(Ops.WHERE, F, (logic.lt(i, place), value, value * 2.0))
    many = UOp(Ops.SINK, src=(store(param(0, F, 10_000), i, value),))
    assert cuts.cut(many, PLAIN) is many


def test_long_rows_keep_their_conditions_simple() -> None:
    """Rows are not merged into one loop where a condition would need a division for each lane; short ones are."""
    for length, at, loops in ((70, 17, [20, 17, 53]), (20, 17, [20, 17, 3]), (4, 2, [80])):
        i, j = UOp.range(20, 0), UOp.range(length, 1)
        place = ix.add(ix.mul(i, length), j)
        before = logic.lt(j, at)
        value = UOp(Ops.WHERE, F, (before, load(param(1, F, 20 * length), place), UOp.const(F, 1.0)))
        sink = UOp(Ops.SINK, src=(store(param(0, F, 20 * length), place, value),))
        assert sizes(cuts.cut(collapse(sink), PLAIN)) == loops


def test_what_is_no_longer_asked_cuts_nothing() -> None:
    """A row above an image is one loop of zeros, whatever its columns are: two such rows, two ends and the middle."""
    i, j = UOp.range(40, 0), UOp.range(70, 1)
    inside = logic.and_(
        logic.and_(logic.not_(logic.lt(i, 1)), logic.lt(i, 39)), logic.and_(logic.not_(logic.lt(j, 2)), logic.lt(j, 69))
    )
    image = load(param(1, F, 38 * 67), ix.add(ix.mul(ix.sub(i, 1), 67), ix.sub(j, 2)), inside)
    found = cuts.cut(UOp(Ops.SINK, src=(store(param(0, F, 2800), ix.add(ix.mul(i, 70), j), image),)), PLAIN)
    assert sorted([r.src[0].arg for r in postorder(part) if r.op is Ops.RANGE] for part in found.src) == [
        [38], [38, 2], [38, 67], [70], [70]
    ]  # fmt: skip
    assert not any(n.op in (Ops.CMPLT, Ops.WHERE) for n in postorder(found))


def test_stores_of_the_same_loops_stay_together() -> None:
    """Where one of them asks and the other does not: they may share loads. What is in other loops is as it was."""
    asks, other = joined(30, 100).src[0], joined(30, 100, (5, 1, 2)).src[0]
    i, j = UOp.range(100, 0), UOp.range(100, 1)
    plain = store(param(3, F, 100), i, load(param(4, F, 100), i))
    apart = store(param(6, F, 100), j, load(param(7, F, 100), j))
    found = cuts.cut(UOp(Ops.SINK, src=(asks, plain, other, apart)), PLAIN)
    assert sorted(sizes(found)) == [30, 70, 100] and len(found.src) == 7


CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "roll": (lambda t: t.roll(17, 2), lambda x: np.roll(x, 17, 2)),
    "roll of rows": (lambda t: t.roll((1, -2), (0, 1)), lambda x: np.roll(x, (1, -2), (0, 1))),
    "cat": (lambda t: t.cat(t * 2, t[:, :, :3], dim=2), lambda x: np.concatenate([x, x * 2, x[:, :, :3]], 2)),
    "pad": (lambda t: t.pad((20, 30, 1, 2)), lambda x: np.pad(x, ((0, 0), (1, 2), (20, 30)))),
    "reflect": (
        lambda t: t.pad((20, 30, 1, 2), mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (1, 2), (20, 30)), "reflect"),
    ),
    "edges": (
        lambda t: t.pad((1, 17, 2, 0), mode="replicate"),
        lambda x: np.pad(x, ((0, 0), (2, 0), (1, 17)), "edge"),
    ),
    "flip": (lambda t: t.flip(2).cat(t, dim=2).flip(1), lambda x: np.concatenate([x[:, :, ::-1], x], 2)[:, ::-1]),
    "differences": (lambda t: t.diff(dim=2), lambda x: np.diff(x, axis=2)),
    "a line": (lambda t: t.flatten().pad((1, 1)).roll(1, 0), lambda x: np.roll(np.pad(x.ravel(), 1), 1)),
}


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, device: str) -> None:
    """Those of NumPy, and without optimisations."""
    ours, theirs = CASES[name]
    for setting in (0, 1):
        with Context(NOOPT=setting):
            np.testing.assert_array_equal(ours(Tensor(X, device=device)).numpy(), theirs(X))


LARGE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "line": (lambda t: t.flatten().pad((1, 1)), lambda x: np.pad(x.ravel(), 1)),
    "roll by one": (lambda t: t.flatten().roll(1, 0), lambda x: np.roll(x.ravel(), 1)),
    "planes": (lambda t: t.pad((1, 2, 1, 1)), lambda x: np.pad(x, ((0, 0), (1, 1), (1, 2)))),
    "all sides": (
        lambda t: t.pad((17, 1, 1, 2, 1, 1), value=3.0),
        lambda x: np.pad(x, ((1, 1), (1, 2), (17, 1)), constant_values=3),
    ),
    "two outputs": (
        lambda t: t.pad((1, 1, 1, 1)) + t.pad((2, 0, 0, 2)),
        lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1))) + np.pad(x, ((0, 0), (0, 2), (2, 0))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(3, 101, 99), (2, 128, 130), (1, 7, 4097)])
@pytest.mark.parametrize("name", LARGE)
def test_values_by_several_threads(name: str, shape: tuple[int, ...]) -> None:
    """Large enough for threads to share: what no loop concerns, as an element at the end, is stored by one of them."""
    x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    ours, theirs = LARGE[name]
    np.testing.assert_array_equal(ours(Tensor(x, device="CPU")).numpy(), theirs(x))
