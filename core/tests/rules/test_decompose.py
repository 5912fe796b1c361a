"""decompose leaves only what a Target has, leaves alone what it has, and says what it cannot write."""

import re
from dataclasses import replace

import pytest

from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.rules.decompose import RULES, decompose
from tinygraft.rules.pairs import halves
from tinygraft.target import BASIC_OPS, CHECKED_OPS, Target
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops, ReduceArg
from tinygraft.uop.uop import UOp, toposort

LEAST = Target(arch="least")
HALVES = (dtypes.float16, dtypes.bfloat16)


def kernel(op: Ops, dtype: DType, count: int = 0) -> UOp:
    """A kernel that stores op of loads."""
    r = UOp.range(8, 0)
    loads = [load(param(i + 1, dtype, 8), r) for i in range(count or FACTS[op].arity or 0)]
    value = loads[0].alu(op, *loads[1:])
    return UOp(Ops.SINK, src=(store(param(0, value.dtype, 8), r, value),))


def ops_of(sink: UOp) -> set[Ops]:
    """The elementwise ops of a kernel."""
    return {u.op for u in toposort(sink)} & ELEMENTWISE


def size_of(sink: UOp) -> int:
    """How many elementwise nodes a kernel has."""
    return sum(u.op in ELEMENTWISE for u in toposort(sink))


def test_every_elementwise_op_is_basic_or_has_a_rule() -> None:
    """There is no op that some Target could have no way to compute."""
    assert set(RULES) | BASIC_OPS == ELEMENTWISE
    assert CHECKED_OPS <= BASIC_OPS


@pytest.mark.parametrize("op", sorted(RULES), ids=lambda op: op.name)
def test_only_basic_ops_are_left(op: Ops) -> None:
    """A Target with the least ops gets a kernel of BASIC_OPS for each op and each dtype of it."""
    floats = (dtypes.float32, dtypes.float64, *HALVES)
    wanted = {
        Ops.THREEFRY: (dtypes.uint64,), Ops.FMA: (dtypes.float32, *HALVES),
        Ops.POW: (*floats, dtypes.int32, dtypes.uint8), Ops.MAX: (*floats, dtypes.int8, dtypes.bool),
        Ops.MIN: (*floats, dtypes.uint64, dtypes.bool),
    }  # fmt: skip
    whole = (dtypes.int8, dtypes.uint32, dtypes.int64)
    for dtype in wanted.get(op, whole if op in CHECKED_OPS else floats):
        assert ops_of(decompose(kernel(op, dtype), LEAST)) <= BASIC_OPS, dtype


def test_a_kernel_with_nothing_to_do_is_the_same_object() -> None:
    """A Target that has every op and dtype gets its kernel back."""
    able = Target(arch="able", native_ops=ELEMENTWISE, compute_dtypes=frozenset(dtypes.all))
    for op in RULES:
        whole = op in CHECKED_OPS or op is Ops.THREEFRY
        sink = kernel(op, dtypes.uint64 if whole else dtypes.float16)
        assert decompose(sink, able) is sink
    plain = kernel(Ops.ADD, dtypes.float32)
    assert decompose(plain, LEAST) is plain


@pytest.mark.parametrize(("op", "dtype", "most"), [
    (Ops.EXP2, dtypes.float32, 28), (Ops.EXP2, dtypes.float64, 38), (Ops.LOG2, dtypes.float32, 77),
    (Ops.SIN, dtypes.float32, 110), (Ops.SIN, dtypes.float64, 200), (Ops.POW, dtypes.float32, 175),
    (Ops.MAX, dtypes.float32, 4), (Ops.THREEFRY, dtypes.uint64, 145), (Ops.IDIV, dtypes.int32, 25),
    (Ops.RECIPROCAL, dtypes.float32, 1), (Ops.TRUNC, dtypes.float32, 12), (Ops.EXP, dtypes.float32, 38),
    (Ops.EXPM1, dtypes.float32, 47), (Ops.LOG, dtypes.float32, 40), (Ops.LOG1P, dtypes.float32, 46),
    (Ops.COS, dtypes.float32, 111), (Ops.TAN, dtypes.float32, 158), (Ops.ASIN, dtypes.float32, 125),
    (Ops.ACOS, dtypes.float32, 131), (Ops.ATAN, dtypes.float32, 64), (Ops.TANH, dtypes.float32, 87),
    (Ops.ERF, dtypes.float32, 93), (Ops.ERFC, dtypes.float32, 165), (Ops.LGAMMA, dtypes.float32, 249),
    (Ops.FMOD, dtypes.float32, 207), (Ops.FMOD, dtypes.float64, 837),
])  # fmt: skip
def test_decompositions_stay_small(op: Ops, dtype: DType, most: int) -> None:
    """The number of nodes that stand for an op does not grow unnoticed."""
    assert size_of(decompose(kernel(op, dtype), LEAST)) <= most


def test_fma_shortens_polynomials_where_the_target_has_it() -> None:
    """Where FMA is an instruction of a Target it gets EXP2 in 22 nodes, six of them FMA; where it is slow, none."""
    native = LEAST.native_ops | {Ops.FMA}
    able = replace(LEAST, native_ops=native, fused_sums=True)
    sink = decompose(kernel(Ops.EXP2, dtypes.float32), able)
    assert size_of(sink) == 22
    assert sum(u.op is Ops.FMA for u in toposort(sink)) == 6
    slow = decompose(kernel(Ops.EXP2, dtypes.float32), replace(LEAST, native_ops=native))
    assert not any(u.op is Ops.FMA for u in toposort(slow))


@pytest.mark.parametrize(("op", "most"), [
    (Ops.EXP, 31), (Ops.EXPM1, 38), (Ops.LOG, 36), (Ops.LOG1P, 41), (Ops.COS, 104), (Ops.TAN, 123), (Ops.ASIN, 37),
    (Ops.ACOS, 43), (Ops.ATAN, 36), (Ops.TANH, 55), (Ops.ERF, 58), (Ops.ERFC, 91), (Ops.LGAMMA, 158), (Ops.FMOD, 47),
])  # fmt: skip
def test_pairs_are_short_where_the_target_has_fma(op: Ops, most: int) -> None:
    """What two numbers lose in a product is one FMA, and what is exact in float64 needs no pairs."""
    native = LEAST.native_ops | {Ops.FMA, Ops.SQRT, Ops.TRUNC}
    able = replace(LEAST, native_ops=native, fused_sums=True)
    assert size_of(decompose(kernel(op, dtypes.float32), able)) <= most


def test_division_by_a_positive_number_is_short() -> None:
    """Flooring a signed number divided by a positive constant takes three more nodes, one not below 0 none."""
    r = UOp.range(8, 0)
    x = load(param(1, dtypes.int32, 8), r)

    def divided(value: UOp) -> UOp:
        return decompose(UOp(Ops.SINK, src=(store(param(0, value.dtype, 8), r, value),)), LEAST)

    assert size_of(divided(x // 7)) == 4
    assert size_of(divided((x & 255) // 7)) == 2
    assert size_of(divided(x.bitcast(dtypes.uint32) // 7)) == 2
    assert ops_of(divided(x << 3)) == {Ops.SHL}


def test_division_by_a_negative_number_keeps_its_bounds() -> None:
    """-7 as a constant: by 7, with the sign turned; the least number has no opposite, and a sum may not wrap."""
    r = UOp.range(8, 0)
    x = load(param(1, dtypes.int32, 8), r)

    def divided(value: UOp) -> UOp:
        sink = decompose(UOp(Ops.SINK, src=(store(param(0, value.dtype, 8), r, value),)), LEAST)
        return sink.src[0].src[2]

    remainder, some = divided(x % -7), divided((x & 255) // -7)
    assert (remainder.lo, remainder.hi) == (-6, 0)
    assert (some.lo, some.hi) == (-37, 0)
    assert size_of(remainder) < size_of(divided(x % -(2**31)))
    assert size_of(some) < size_of(divided(x // -7))


def test_index_arithmetic_is_left_alone() -> None:
    """IDIV and MOD of indices are already of non-negative by positive numbers."""
    r = UOp.range(8, 0)
    data = param(1, dtypes.int32, 4)
    sink = UOp(Ops.SINK, src=(store(param(0, dtypes.int32, 8), r, load(data, r // 2) + load(data, r % 4)),))
    assert decompose(sink, LEAST) is sink


@pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)
def test_stored_halves_are_only_moved(dtype: DType) -> None:
    """On a half type that is stored and not computed with, only moves and casts to and from float32 are left."""
    moves = {Ops.LOAD, Ops.STORE, Ops.PARAM, Ops.CONST, Ops.WHERE, Ops.BITCAST, Ops.AFTER}
    for op in (Ops.ADD, Ops.FMA, Ops.POW, Ops.CMPLT, Ops.MAX, Ops.SIN, Ops.NEG):
        for u in toposort(decompose(kernel(op, dtype), LEAST)):
            if u.op is Ops.CAST:
                assert u.dtype is not dtype or u.src[0].dtype is dtypes.float32
                assert u.src[0].dtype is not dtype or u.dtype is dtypes.float32
            elif u.dtype is dtype or any(s.dtype is dtype for s in u.src):
                assert u.op in moves, u


def test_a_reduction_of_halves_runs_in_float32() -> None:
    """A REDUCE over a stored half type is one in float32, rounded at its end."""
    r = UOp.range(8, 0)
    total = UOp(Ops.REDUCE, dtypes.float16, (load(param(1, dtypes.float16, 8), r), r), ReduceArg(Ops.ADD))
    sink = decompose(UOp(Ops.SINK, src=(store(param(0, dtypes.float16, 1), UOp.const(dtypes.index, 0), total),)), LEAST)
    value = sink.src[0].src[2]
    assert (value.op, value.dtype, value.src[0].op, value.src[0].dtype) == (
        Ops.CAST,
        dtypes.float16,
        Ops.REDUCE,
        dtypes.float32,
    )


def test_a_dtype_that_a_target_cannot_store_is_refused() -> None:
    """The error names the dtype and the device."""
    target = replace(
        LEAST, dtypes=LEAST.dtypes - {dtypes.float64}, compute_dtypes=LEAST.compute_dtypes - {dtypes.float64}
    )
    with pytest.raises(UnsupportedError, match="a kernel needs dtypes.double, which device least cannot store; "
                                               "cast to a dtype that it has"):  # fmt: skip
        decompose(kernel(Ops.ADD, dtypes.float64), target)


def test_a_dtype_that_a_target_cannot_compute_is_refused() -> None:
    """A float64 cannot be widened to float32, so a Target that only stores it cannot add two."""
    target = replace(LEAST, compute_dtypes=LEAST.compute_dtypes - {dtypes.float64})
    message = ("a kernel computes with dtypes.double, which device least can only store, move and cast to and from "
               "other floats; cast to a dtype that it computes with$")  # fmt: skip
    with pytest.raises(UnsupportedError, match=message):
        decompose(kernel(Ops.ADD, dtypes.float64), target)


def test_a_dtype_that_is_only_stored_can_be_chosen_and_seen_as_bits() -> None:
    """WHERE and BITCAST move bits: of a float64 that a Target cannot compute with no node is left."""
    target, r = replace(LEAST, compute_dtypes=LEAST.compute_dtypes - {dtypes.float64}), UOp.range(8, 0)
    a, b = (load(param(i, dtypes.float64, 8), r) for i in (1, 2))
    chosen = load(param(3, dtypes.bool, 8), r).where(a, b)
    for value in (chosen, chosen.bitcast(dtypes.int64), a.bitcast(dtypes.int64).bitcast(dtypes.float64)):
        sink = UOp(Ops.SINK, src=(store(param(0, value.dtype, 8), r, value),))
        assert dtypes.float64 not in {node.dtype for node in toposort(decompose(sink, target))}
    with pytest.raises(UnsupportedError, match="a kernel computes with dtypes.double"):
        decompose(UOp(Ops.SINK, src=(store(param(0, a.dtype, 8), r, (a < b).where(a, b)),)), target)


def test_fma_of_doubles_cannot_be_written() -> None:
    """Without the op there is no way to round a * b + c once in float64, and the error says what to use."""
    message = ("a kernel needs FMA of dtypes.double, which device least has no op for and which cannot be written in "
               "its others; use a * b + c, which rounds twice")  # fmt: skip
    with pytest.raises(UnsupportedError, match=re.escape(message)):
        decompose(kernel(Ops.FMA, dtypes.float64), LEAST)


def test_constants_of_two_words_are_exact() -> None:
    """The high part of a pair has half of the mantissa, and both parts together are good to three halves of it."""
    from fractions import Fraction

    for dtype, bits in ((dtypes.float32, 24), (dtypes.float64, 53)):
        high, low = halves(Fraction(2, 3), dtype)
        assert Fraction(high).numerator.bit_length() <= bits // 2
        assert abs(Fraction(high) + Fraction(low) - Fraction(2, 3)) <= Fraction(1, 2 ** (bits + bits // 2 - 1))


@pytest.mark.parametrize("dtype", [dtypes.float32, *HALVES], ids=lambda d: d.name)
def test_an_exact_fma_needs_float64(dtype: DType) -> None:
    """A Target without FMA and without float64 cannot round a * b + c once."""
    target = replace(LEAST, compute_dtypes=LEAST.compute_dtypes - {dtypes.float64})
    with pytest.raises(UnsupportedError) as error:
        decompose(kernel(Ops.FMA, dtype), target)
    assert str(error.value) == (
        f"a kernel needs FMA of {dtype!r}, which device least has no op for and which cannot be written in its others; "
        "use a * b + c, which rounds twice"
    )
