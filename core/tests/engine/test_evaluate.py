"""The evaluator: each op of the tensor graph is what a plain NumPy expression, or the numbers of dtype.py, say."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tensor_nodes import assign, filled, move, numbers, reduced
from tinygraft import Tensor, Variable, dtypes
from tinygraft.dtype import DType, bits_of, coerce, of_bits, values_of
from tinygraft.engine.arithmetic import elementwise, numpy_array, of_memory, rounded
from tinygraft.engine.evaluate import CannotEvaluate, Evaluation, contracted_products, evaluate, needed
from tinygraft.uop.meanings import threefry2x32
from tinygraft.uop.ops import FACTS, FunctionArg, Ops, ScanArg, ScatterArg, WindowArg
from tinygraft.uop.uop import UOp

SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 1e-3, 1e-8, 7e4, -3e9, 1e19, 1e39, math.inf, -math.inf, math.nan, 0.1]
TWO = ("PYTHON", "PYTHON:1")


def same(found: Any, wanted: Any) -> None:
    """Equal to the bit, but for the bits of a NaN."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f":
        known = ~np.isnan(wanted.astype(np.float64))
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(wanted)[known])


def constants(dtype: DType, *values: Any) -> UOp:
    """A graph of numbers, one after another, without memory."""
    ones = [move(Ops.RESHAPE, UOp.const(dtype, value, "PYTHON"), (1,)) for value in values]
    return UOp(Ops.CAT, dtype, tuple(ones), 0)


@pytest.mark.parametrize("target", [*dtypes.all, *dtypes.fp8s], ids=lambda d: d.name)
@pytest.mark.parametrize("source", [dtypes.float64, dtypes.float32, dtypes.int64, dtypes.uint64, dtypes.int8],
                         ids=lambda d: d.name)  # fmt: skip
def test_a_cast_is_what_coerce_says(source: DType, target: DType) -> None:
    """Integers wrap, floats saturate and are rounded once, NaN gives 0."""
    whole = [0, 1, -1, 127, 128, -129, 300, 2**31, 2**53 + 1, -(2**53) - 1, 2**62 + 2**38 + 1, 2**63 - 1, 2**64 - 1]
    given = [coerce(v, source) for v in (SPECIAL if source.kind == "float" else whole)]
    wanted = [coerce(v, target) for v in given]
    same(evaluate(constants(source, *given).cast(target)), numpy_array(wanted, target) if target.kind == "float" else
         np.array(wanted, numpy_array(0, target).dtype))  # fmt: skip


@pytest.mark.parametrize("dtype", [*dtypes.fp8s, dtypes.bfloat16, dtypes.float16], ids=lambda d: d.name)
def test_small_floats_have_their_values_and_bits(dtype: DType) -> None:
    """All of them are read from memory as values_of says, rounded to themselves, and have their bits back."""
    values = np.array(values_of(dtype))
    kind = np.uint8 if dtype.itemsize == 1 else np.uint16
    memory = of_memory(bytearray(np.arange(len(values), dtype=kind).tobytes()), dtype)
    same(memory, values.astype(memory.dtype))
    known = memory[~np.isnan(memory)]
    same(rounded(known.astype(np.float64), dtype), known)
    node = constants(dtype, *known.tolist()[:300]).bitcast(dtypes.uint8 if dtype.itemsize == 1 else dtypes.uint16)
    assert evaluate(node).tolist() == [bits_of(v, dtype) for v in known.tolist()[:300]]
    assert evaluate(node.bitcast(dtype)).tolist() == known.tolist()[:300]
    halfway = (known[:-1].astype(np.float64) + known[1:]) / 2
    same(rounded(halfway, dtype), numpy_array([coerce(v, dtype) for v in halfway.tolist()], dtype))


INTEGER = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.MIN, Ops.POW, Ops.AND, Ops.OR, Ops.XOR, Ops.CMPLT,
           Ops.CMPEQ, Ops.CMPNE)  # fmt: skip


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.uint64],
                         ids=lambda d: d.name)  # fmt: skip
@pytest.mark.parametrize("op", INTEGER, ids=lambda op: op.name)
def test_integer_operations_are_those_of_python(op: Ops, dtype: DType) -> None:
    """// and % floor, by 0 they give 0; everything wraps."""
    values = [coerce(v, dtype) for v in (0, 1, 2, 3, -1, -2, 7, -7, dtypes.max(dtype), dtypes.min(dtype), 100)]
    pairs = list(itertools.product(values, values))
    meaning = FACTS[op].python
    assert meaning is not None
    a, b = (constants(dtype, *column) for column in zip(*pairs, strict=True))
    node = a.alu(op, b)
    assert evaluate(node).tolist() == [coerce(meaning(x, y), node.dtype) for x, y in pairs]


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint32, dtypes.int64], ids=lambda d: d.name)
@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR], ids=lambda op: op.name)
def test_shifts_by_the_width_or_more_give_0_or_the_sign(op: Ops, dtype: DType) -> None:
    """All amounts, negative ones too, which count as too many."""
    for value in (1, -1, 77, dtypes.min(dtype)):
        value = coerce(value, dtype)
        for amount in (0, 1, dtype.bits - 1, dtype.bits, 100):
            inside = amount < dtype.bits
            left = value << amount if inside else 0
            right = value >> amount if inside else -(value < 0)
            node = constants(dtype, value).alu(op, constants(dtype, amount))
            assert evaluate(node).tolist() == [coerce(left if op is Ops.SHL else right, dtype)]


FLOAT = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)


@pytest.mark.parametrize("dtype", [*dtypes.floats, dtypes.fp8e5m2, dtypes.fp8e4m3], ids=lambda d: d.name)
@pytest.mark.parametrize("op", FLOAT, ids=lambda op: op.name)
def test_float_operations_are_rounded_once(op: Ops, dtype: DType) -> None:
    """As Python computes them in float64 and coerce rounds them."""
    values = [coerce(v, dtype) for v in (*SPECIAL, 1 / 3, 1 + 2**-10, 1e-40)]
    pairs = [p for p in itertools.product(values, values) if op not in (Ops.MAX, Ops.MIN) or p[0] != p[1]]
    meaning = FACTS[op].python
    assert meaning is not None
    a, b = (constants(dtype, *column) for column in zip(*pairs, strict=True))
    wanted = [coerce(meaning(x, y), dtypes.bool if op.name.startswith("CMP") else dtype) for x, y in pairs]
    found = evaluate(a.alu(op, b))
    known = [not isinstance(w, float) or w == w for w in wanted]
    same(found[known], np.array(wanted)[known].astype(found.dtype))
    if op not in (Ops.MAX, Ops.MIN):
        assert all(math.isnan(v) for v in found[~np.array(known)].tolist())
    else:  # NaN goes through
        assert np.isnan(found.astype(np.float64)).tolist() == [x != x or y != y for x, y in pairs]


@pytest.mark.parametrize("op", [Ops.RECIPROCAL, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC, Ops.NEG])
def test_functions_of_one_number(op: Ops) -> None:
    """To half a unit of float32, infinities and NaN included."""
    values = [coerce(v, dtypes.float32) for v in SPECIAL]
    meaning = FACTS[op].python
    assert meaning is not None
    same(evaluate(constants(dtypes.float32, *values).alu(op)), np.array(
        [coerce(meaning(v), dtypes.float32) for v in values], np.float32))  # fmt: skip


def test_fma_is_rounded_once() -> None:
    """Where rounding the product first, or float64 in between, would give something else; in float64 too."""
    a, c = 1 + 2.0**-12, -1 - 2.0**-11
    found = evaluate(UOp(Ops.FMA, dtypes.float32, tuple(constants(dtypes.float32, v) for v in (a, a, c))))
    assert found.tolist() == [2.0**-24]
    for more, wanted in ((0.0, 1.0), (2.0**-35, 1 + 2.0**-23)):  # half a unit above 1, which is a tie, and a bit more
        factors = (2.0**-12 + more, 2.0**-12, 1.0)
        found = evaluate(UOp(Ops.FMA, dtypes.float32, tuple(constants(dtypes.float32, v) for v in factors)))
        assert found.tolist() == [wanted]
    b = 1 + 2.0**-30
    found = evaluate(UOp(Ops.FMA, dtypes.float64, tuple(constants(dtypes.float64, v) for v in (b, b, -1 - 2.0**-29))))
    assert found.tolist() == [2.0**-60]


def test_threefry_is_that_of_the_vocabulary() -> None:
    """64 bits at a time, with all words of counter and key used."""
    counters, keys = [0, 1, 2**32, 2**64 - 1, 12345678901234], [0, 7, 2**63, 2**64 - 1, 2**33 + 5]
    node = constants(dtypes.uint64, *counters).alu(Ops.THREEFRY, constants(dtypes.uint64, *keys))
    assert evaluate(node).tolist() == [threefry2x32(c, k) for c, k in zip(counters, keys, strict=True)]


def test_bits_of_floats_and_integers() -> None:
    """BITCAST keeps every bit."""
    assert evaluate(constants(dtypes.float32, 1.0, -0.0).bitcast(dtypes.uint32)).tolist() == [0x3F800000, 0x80000000]
    same(evaluate(constants(dtypes.uint64, 1 << 63).bitcast(dtypes.float64)), [of_bits(1 << 63, dtypes.float64)])
    assert evaluate(constants(dtypes.int8, -1, 0).bitcast(dtypes.uint8)).tolist() == [255, 0]


X = np.arange(24.0).reshape(2, 3, 4)


def node_of(x: np.ndarray[Any, Any], dtype: DType = dtypes.float32) -> UOp:
    """Values in memory."""
    return filled(x.reshape(-1).tolist(), *x.shape, dtype=dtype)


def test_movements() -> None:
    """RESHAPE, PERMUTE, FLIP, PAD, SHRINK, EXPAND, CAT."""
    x = node_of(X)
    same(evaluate(move(Ops.RESHAPE, x, (4, 6))), X.reshape(4, 6))
    same(evaluate(move(Ops.PERMUTE, x, (2, 0, 1))), X.transpose(2, 0, 1))
    same(evaluate(move(Ops.FLIP, x, (0, 2))), X[::-1, :, ::-1])
    same(evaluate(move(Ops.PAD, x, ((1, 0), (0, 2), (0, 0)))), np.pad(X, ((1, 0), (0, 2), (0, 0))))
    same(evaluate(move(Ops.SHRINK, x, ((0, 1), (1, 3), (2, 2)))), X[0:1, 1:3, 2:2])
    same(evaluate(move(Ops.EXPAND, node_of(X[:, :1]), (2, 5, 4))), np.repeat(X[:, :1], 5, 1))
    same(evaluate(UOp(Ops.CAT, dtypes.float32, (x, x), 1)), np.concatenate([X, X], 1))


@pytest.mark.parametrize(("size", "stride", "dilation"), [((2, 2), (1, 2), (1, 1)), ((1, 3), (3, 1), (1, 2)),
                                                          ((2, 1), (1, 1), (3, 1))])  # fmt: skip
def test_windows_and_folds(size: Any, stride: Any, dilation: Any) -> None:
    """Element [o, k] of a window is x[o * stride + k * dilation]; a FOLD adds what lands on a place."""
    arg = WindowArg((5, 7), size, stride, dilation)
    x = np.arange(70.0).reshape(2, 5, 7)
    windows = np.zeros((2, *arg.count, *size))
    back = np.zeros(x.shape)
    for o in np.ndindex(*arg.count):
        for k in np.ndindex(*size):
            place = tuple(a * s + b * d for a, s, b, d in zip(o, stride, k, dilation, strict=True))
            windows[(slice(None), *o, *k)] = x[(slice(None), *place)]
            back[(slice(None), *place)] += windows[(slice(None), *o, *k)]
    same(evaluate(move(Ops.WINDOW, node_of(x), arg)), windows)
    same(evaluate(move(Ops.FOLD, node_of(windows), arg)), back)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN, Ops.OR, Ops.AND, Ops.XOR], ids=lambda op: op.name)
def test_reductions_and_scans(op: Ops) -> None:
    """Integers wrap; over nothing a reduction is its identity."""
    from functools import reduce

    x = np.array([[100, 3, -7, 90], [5, 100, 27, -128]], np.int8)
    meaning, dtype = FACTS[op].python, dtypes.int8
    assert meaning is not None

    def fold(row: Any) -> int:
        return int(coerce(reduce(meaning, [int(v) for v in row]), dtype))

    assert evaluate(reduced(node_of(x, dtype), op, 1)).tolist() == [[fold(row)] for row in x]
    scan = UOp(Ops.SCAN, dtype, (node_of(x, dtype),), ScanArg(op, 1))
    assert evaluate(scan).tolist() == [[fold(row[: i + 1]) for i in range(4)] for row in x]
    none = move(Ops.SHRINK, node_of(x, dtype), ((0, 2), (1, 1)))
    identity = FACTS[op].identity
    assert identity is not None
    assert evaluate(reduced(none, op, 1)).tolist() == [[identity(dtype)]] * 2


def test_gather_and_scatter() -> None:
    """What lies outside reads 0 and is dropped; of what is set twice the last stays; what is added, is added."""
    x, index = node_of(X[0]), filled([1, 5, 0, 1, -1], 5, dtype=dtypes.int32)
    gathered = UOp(Ops.GATHER, dtypes.float32, (x, index), 1)
    same(evaluate(gathered), np.stack([X[0, :, 1], X[0, :, 3] * 0, X[0, :, 0], X[0, :, 1], X[0, :, 0] * 0], 1))
    value = np.arange(15.0).reshape(3, 5) + 1
    wanted, added = X[0].copy(), X[0].copy()
    for place, at in enumerate([1, 5, 0, 1, -1]):
        if 0 <= at < 4:
            wanted[:, at] = value[:, place]
            added[:, at] += value[:, place]
    for arg, result in ((ScatterArg(1, None), wanted), (ScatterArg(1, Ops.ADD), added)):
        same(evaluate(UOp(Ops.SCATTER, dtypes.float32, (x, index, node_of(value)), arg)), result)


def test_an_assignment_is_the_old_value_with_the_new_one_in_its_place() -> None:
    """Whole, where the old value is not even read, and through a view that turns and strides."""
    old, new = node_of(X[0]), node_of(-X[0])
    whole = assign(old, new)
    assert old.src[0] not in needed([whole])
    same(evaluate(whole), -X[0])
    view = move(Ops.FLIP, move(Ops.PERMUTE, move(Ops.SHRINK, old, ((0, 2), (1, 3))), (1, 0)), (0,))
    wanted = X[0].copy()
    wanted[0:2, 1:3].T[::-1] = -np.ones((2, 2))
    same(evaluate(assign(old, node_of(-np.ones((2, 2))), view)), wanted)


def test_values_on_several_devices_are_whole() -> None:
    """SHARD, COPY, MULTI cut unevenly or whole on each, and operations between them."""
    x = Tensor(X[0].tolist(), device="PYTHON")
    for axis, splits in ((None, None), (0, None), (1, (1, 3)), (0, (0, 3))):
        laid = x.shard(TWO, axis, splits)
        same(evaluate(laid.uop), X[0])
        laid.realize()
        assert laid.uop.base.op is Ops.MULTI
        same(evaluate((laid * 2).uop), X[0] * 2)
        same(evaluate(laid.sum(0).to("PYTHON:1").uop), X[0].sum(0))


def test_what_is_its_first_source() -> None:
    """CONTIGUOUS, DETACH, AFTER and FUNCTION."""
    x, y = node_of(X), node_of(X + 1)
    rule = FunctionArg("rule", lambda node, gradient, places: ())
    for node in (UOp(Ops.AFTER, dtypes.float32, (x, y)), UOp(Ops.FUNCTION, dtypes.float32, (x, y), rule),
                 UOp(Ops.CONTIGUOUS, dtypes.float32, (x,)), UOp(Ops.DETACH, dtypes.float32, (x,))):  # fmt: skip
        same(evaluate(node), X)


def test_symbolic_sizes_have_the_values_of_their_variables() -> None:
    """In shapes and as numbers, with arithmetic on them."""
    n = Variable("n", 1, 9).bind(3)
    x = Tensor(list(range(10)))
    same(evaluate((x[: n + 1] * 2).uop), np.arange(4) * 2)
    same(evaluate(x[n : n + 2].sum().uop), 7)


def test_a_large_product_that_is_summed_is_never_written_down() -> None:
    """A product of matrices as large as one that would not fit has the values of NumPy's."""
    a, b = np.random.default_rng(0).integers(-3, 4, (2, 300, 200)).astype(np.float32)
    node = (Tensor(a.copy()) @ Tensor(b.T.copy())).uop
    assert contracted_products(needed([node]), [node])
    same(evaluate(node), a @ b.T)
    batch = Tensor(a[None].copy()).expand(3, 300, 200)
    same(evaluate((batch * Tensor(b)).sum(0).sum(1).uop), (a * b).sum(1) * 3)


def test_a_placeholder_has_no_value() -> None:
    """It is said so."""
    with pytest.raises(CannotEvaluate, match="no meaning of PLACEHOLDER in NumPy"):
        Evaluation([UOp.placeholder((2,), dtypes.float32, "PYTHON", "vmap")]).run()


def test_an_unknown_operation_is_refused() -> None:
    """An op without a meaning in NumPy is no silent guess."""
    with pytest.raises(NotImplementedError, match="NumPy has no meaning for Ops.REDUCE_AXIS"):
        elementwise(reduced(numbers(2), Ops.MAX, 0), [np.ones(2)])
