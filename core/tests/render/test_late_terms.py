"""Terms of unrolled sums are written beside the addition that uses them."""

from __future__ import annotations

from tinygraft.conformance.linears import Build, number
from tinygraft.dtype import dtypes
from tinygraft.render.late_terms import late_terms
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.uop.linear import ranges_of
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp


def distances(copies: int, also: bool = False) -> tuple[Linear, list[UOp]]:
    """Sums over 5 of (a[k] - b[k, copy])**2 for `copies` copies, and what a sum alone needs.

    `also`: the squares are stored too.
    """
    b = Build("distances", (dtypes.float32, copies), (dtypes.float32, 5), (dtypes.float32, 5 * copies),
              (dtypes.float32, 5 * copies), written=(0, 3))  # fmt: skip
    u = b.range(copies, AxisKind.UNROLL)
    total = b.reg(0, UOp.const(dtypes.float32, 0.0), u)
    k = b.range(5)
    apart = b.load(1, k) - b.load(2, k * number(copies) + u)
    b.accum(total, b.add(apart * apart))
    if also:
        b.store(3, k * number(copies) + u, apart * apart)
    b.end(k)
    b.store(0, u, b.get(total))
    return b.done(), [apart, apart * apart]


def found(linear: Linear) -> list[list[UOp]]:
    """What belongs to each sum of a kernel."""
    return list(late_terms(linear.uops, ranges_of(linear.uops, AxisKind.UNROLL)).values())


def test_what_a_sum_alone_needs_belongs_to_it() -> None:
    """The difference and its square; what is stored too, and what few copies have room for, stays where it is."""
    linear, terms = distances(12)
    (mine,) = found(linear)
    assert [t for t in mine if t.dtype is dtypes.float32] == terms
    assert found(distances(12, also=True)[0]) == []
    assert found(distances(8)[0]) == []


def test_each_copy_is_computed_where_it_is_added() -> None:
    """In LLVM's IR one difference is between two additions, and not all differences before the first one."""
    lines = LLVMRenderer().render(distances(12)[0]).text.splitlines()
    words = [line.split(" = ")[1].split()[0] for line in lines if " = f" in line]
    assert words == ["fsub", "fmul", "fadd"] * 12
    several = LLVMRenderer().render(distances(12, also=True)[0]).text.splitlines()
    words = [line.split(" = ")[1].split()[0] for line in several if " = f" in line]
    assert words[:24] == ["fsub"] * 12 + ["fmul"] * 12


def test_other_loops_are_not_reached() -> None:
    """What is computed before the loop of a sum stays there."""
    b = Build("outside", (dtypes.float32, 12), (dtypes.float32, 12), (dtypes.float32, 5))
    u = b.range(12, AxisKind.UNROLL)
    total = b.reg(0, UOp.const(dtypes.float32, 0.0), u)
    outside = b.add(b.load(1, u) * 3.0)
    k = b.range(5)
    b.accum(total, b.add(outside + b.load(2, k)))
    b.end(k)
    b.store(0, u, b.get(total))
    linear = b.done()
    (mine,) = found(linear)
    assert [n.op for n in mine if n.dtype is dtypes.float32] == [Ops.ADD] and outside not in mine
