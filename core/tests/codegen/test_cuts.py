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
    for length, loops in ((70, [20, 17, 53]), (20, [400])):
        i, j = UOp.range(20, 0), UOp.range(length, 1)
        place = ix.add(ix.mul(i, length), j)
        before = logic.lt(j, 17)
        value = UOp(Ops.WHERE, F, (before, load(param(1, F, 20 * length), place), UOp.const(F, 1.0)))
        sink = UOp(Ops.SINK, src=(store(param(0, F, 20 * length), place, value),))
        assert sizes(cuts.cut(collapse(sink), PLAIN)) == loops


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
}


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, device: str) -> None:
    """Those of NumPy, and without optimisations."""
    ours, theirs = CASES[name]
    for setting in (0, 1):
        with Context(NOOPT=setting):
            np.testing.assert_array_equal(ours(Tensor(X, device=device)).numpy(), theirs(X))
