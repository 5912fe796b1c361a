"""The cost of a kernel: operations for each turn of the loops that they depend on, bytes of buffers once."""

from __future__ import annotations

from tinygraft.codegen.cost import cost
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Cost
from tinygraft.uop.uop import UOp

F = dtypes.float32


def test_a_product_of_matrices() -> None:
    """A multiplication and an addition for each i, j and k; three buffers."""
    i, j, k = UOp.range(4, 0), UOp.range(5, 1), UOp.range(6, 2)
    value = load(param(1, F, 24), ix.add(ix.mul(i, 6), k)) * load(param(2, F, 30), ix.add(ix.mul(k, 5), j))
    total = UOp(Ops.REDUCE, F, (value, k), ReduceArg(Ops.ADD))
    sink = UOp(Ops.SINK, src=(store(param(0, F, 20), ix.add(ix.mul(i, 5), j), total),))
    assert cost(sink) == Cost(2 * 4 * 5 * 6, 4 * (20 + 24 + 30))


def test_what_is_hoisted_counts_once() -> None:
    """An operation on a row's value is done for each row, one on a constant place once; casts and integers are free."""
    i, j = UOp.range(4, 0), UOp.range(5, 1)
    row, single = load(param(1, F, 4), i), load(param(2, F, 1), ix.const(0))
    value = (row * row) + (single * single) + j.cast(dtypes.int).cast(F)
    sink = UOp(Ops.SINK, src=(store(param(0, F, 20), ix.add(ix.mul(i, 5), j), value),))
    assert cost(sink).flops == 4 + 1 + 4 + 20


def test_a_sum_of_integers_is_no_flop() -> None:
    """Its bytes count, its additions do not; a sum of floats of as many terms has four times five."""
    i, k = UOp.range(4, 0), UOp.range(5, 1)
    for dtype, flops in ((dtypes.int32, 0), (F, 20)):
        total = UOp(Ops.REDUCE, dtype, (load(param(1, dtype, 20), ix.add(ix.mul(i, 5), k)), k), ReduceArg(Ops.ADD))
        assert cost(UOp(Ops.SINK, src=(store(param(0, dtype, 4), i, total),))) == Cost(flops, 4 * (4 + 20))


def test_symbolic_sizes_are_put_in_later() -> None:
    """The cost of a loop of n turns is an expression in n."""
    n = UOp.variable("n", 1, 100)
    i = UOp.range(n, 0)
    sink = UOp(Ops.SINK, src=(store(param(0, F, 100), i, load(param(1, F, 100), i) * 2.0),))
    assert size_of(cost(sink).flops, {"n": 7}) == 7
    assert cost(sink).bytes == 800
