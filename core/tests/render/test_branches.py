"""Which instructions belong to a branch alone."""

from __future__ import annotations

from tinygraft.conformance.linears import Build
from tinygraft.dtype import dtypes
from tinygraft.render.branches import behind_gates, rare_operands
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


def long_chain(b: Build, x: UOp, count: int) -> UOp:
    """`count` operations, one after another."""
    for number in range(count):
        x = x + float(number + 1)
    return x


def kernel(count: int, also: bool = False, limit: float = 2.0**16) -> tuple[list[UOp], UOp]:
    """A loop that stores where(x > `limit`, a chain of `count` operations, x); `also`: the chain is stored too."""
    b = Build("rare", (dtypes.float32, 64), (dtypes.float32, 64), (dtypes.float32, 64))
    r = b.range(64)
    x = b.load(1, r)
    chain = long_chain(b, x, count)
    chosen = (x > limit).where(chain, x)
    b.store(0, r, chosen)
    if also:
        b.store(2, r, chain)
    b.end(r)
    return list(b.done().uops), chosen


def test_a_long_operand_that_nothing_else_needs_is_rare() -> None:
    """All of the chain belongs to the first WHERE of its condition."""
    uops, chosen = kernel(40)
    found = rare_operands(uops)
    assert list(found) == [chosen]
    assert len(found[chosen].nodes) == 40 and found[chosen].operands == (chosen.src[1],)


def test_what_is_short_or_used_elsewhere_or_often_is_computed_always() -> None:
    """A branch costs more than a few operations; what is stored too is needed; small limits are passed often."""
    assert not rare_operands(kernel(39)[0])
    assert not rare_operands(kernel(40, also=True)[0])
    assert not rare_operands(kernel(40, limit=2.0**15)[0])


def test_a_load_with_the_gate_of_its_store_is_behind_that_gate() -> None:
    """With what is computed from it; not where another store needs it."""
    for stored_too in (False, True):
        b = Build("gated", (dtypes.float32, 64), (dtypes.float32, 64))
        r = b.range(64)
        gate = b.load(1, r) < 0.0
        old = b.load(0, r, gate)
        new = old + 1.0
        if stored_too:
            b.store(1, r, new)
        b.store(0, r, new, gate)
        b.end(r)
        uops = list(b.done().uops)
        found = behind_gates(uops)
        last = [u for u in uops if u.op is Ops.STORE][-1]
        assert found == ({} if stored_too else {last: [old, new]})
