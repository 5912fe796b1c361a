"""Matrix units that work on registers: reductions by words, at sizes that nothing divides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.codegen.action import parse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.packed import factors
from tinygraft.conformance.kernels import load, pack, param, run_kernel, store, unpack
from tinygraft.conformance.product_cases import BF16_DOT, INT8_DOT, matmul, product, run_matmul, small
from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.engine.debug_print import as_c
from tinygraft.errors import ActionError, GraphError
from tinygraft.reference.python import TARGET, PythonBackend
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.target import BASIC_OPS
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.show import show_linear
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

UNITS = (BF16_DOT, INT8_DOT)
WIDE = replace(TARGET, vector_bytes=64, registers=32, local_memory=64 << 10, fused_sums=True, matrix=UNITS)
BACKEND = PythonBackend("PYTHON", 0, WIDE)
SUMS = {dtypes.bfloat16: dtypes.float32, dtypes.int8: dtypes.int32}
SIZES = [(17, 29, 37), (13, 32, 41), (23, 47, 17), (7, 92, 32)]


def units_of(sink: UOp, target=WIDE) -> set[str]:
    """The units that a kernel's instructions name."""
    uops = to_linear(Kernel(sink), target, Options()).uops
    return {u.arg.name for u in uops if u.op is Ops.ACCUM and not isinstance(u.arg, Ops)}


@pytest.mark.parametrize("dtype", SUMS, ids=lambda d: d.name)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_by_words_are_exact_where_sums_are(dtype: DType, turned: bool, m: int, k: int, n: int) -> None:
    """Every element of small whole numbers, with terms that fill no word and columns that fill no vector."""
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    sink = matmul(m, k, n, dtype, SUMS[dtype], turned)
    assert units_of(sink)
    assert run_matmul(BACKEND, sink, a, b, dtype) == product(a, b, m, k, n, turned)


@pytest.mark.parametrize("dtype", SUMS, ids=lambda d: d.name)
def test_a_unit_is_used_where_it_fits(dtype: DType) -> None:
    """The instruction is there for a product of its dtype, and not where its words are longer than the reduction."""
    name = {dtypes.bfloat16: "dot2", dtypes.int8: "dot4"}[dtype]
    assert units_of(matmul(31, 29, 37, dtype, SUMS[dtype])) == {name}
    assert units_of(matmul(31, 1, 37, dtype, SUMS[dtype])) == set()
    assert units_of(matmul(31, 29, 37, dtype, SUMS[dtype]), replace(WIDE, matrix=())) == set()
    assert units_of(matmul(31, 29, 37, dtypes.float16, dtypes.float32)) == set()
    assert units_of(matmul(31, 29, 37, dtypes.uint8, dtypes.int32)) == set()
    assert units_of(matmul(31, 29, 37, dtypes.int8, dtypes.int64)) == set()


def test_the_ends_of_int8_are_exact() -> None:
    """-128 and 127 in every combination: the flipped bit and what it adds are both within the sum."""
    m, k, n = 19, 29, 33
    a = [(-128, 127, -1, 0)[place % 4] for place in range(m * k)]
    b = [(-128, 127, 1)[place % 3] for place in range(k * n)]
    sink = matmul(m, k, n, dtypes.int8, dtypes.int32)
    assert units_of(sink) == {"dot4"}
    assert run_matmul(BACKEND, sink, a, b, dtypes.int8) == product(a, b, m, k, n)


def test_what_stands_before_and_behind_the_product_stays() -> None:
    """relu of an operand, a scale by rows and a sum rounded once to bfloat16."""
    m, k, n = 23, 17, 37
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2)
    x = load(param(1, dtypes.bfloat16, m * k), ix.add(ix.mul(i, k), r))
    positive = (x > 0.0).where(x, 0.0)
    y = load(param(2, dtypes.bfloat16, k * n), ix.add(ix.mul(r, n), j))
    total = UOp(Ops.REDUCE, dtypes.float, (positive.cast(dtypes.float) * y.cast(dtypes.float), r), ReduceArg(Ops.ADD))
    value = (total * load(param(3, dtypes.float, m), i)).cast(dtypes.bfloat16)
    sink = UOp(Ops.SINK, src=(store(param(0, dtypes.bfloat16, m * n), ix.add(ix.mul(i, n), j), value),))
    assert units_of(sink) == {"dot2"}
    a, b = small(m * k, 1, dtypes.bfloat16), small(k * n, 2, dtypes.bfloat16)
    scale = [0.25 * (place + 1) for place in range(m)]
    raw = product([max(v, 0.0) for v in a], b, m, k, n)
    expected = [coerce(v * scale[place // n], dtypes.bfloat16) for place, v in enumerate(raw)]
    assert run_matmul(BACKEND, sink, a, b, dtypes.bfloat16, pack(scale, dtypes.float)) == expected


def test_only_sums_of_products_have_factors() -> None:
    """A sum of sums, a greatest product and a sum of another dtype are no work for a unit."""
    total = matmul(17, 29, 37, dtypes.int8, dtypes.int32).src[0].src[2]
    product_, term = total.src
    x, y = product_.src
    assert factors(total, INT8_DOT) == (x.src[0], y.src[0])
    assert factors(total, BF16_DOT) is None
    assert factors(total.replace(src=(x + y, term)), INT8_DOT) is None
    assert factors(total.replace(arg=ReduceArg(Ops.MAX)), INT8_DOT) is None


def two_loops(channels: int, taps: int) -> UOp:
    """out[i, j] = sum over c and t of x[t, i, c] * y[c, t, j]."""
    i, j, c, t = UOp.range(27, 0), UOp.range(18, 1), UOp.range(channels, 2), UOp.range(taps, 3)
    inner = ix.add(ix.mul(c, taps), t)
    place = ix.add(ix.mul(ix.add(ix.mul(t, 27), i), channels), c)
    x = load(param(1, dtypes.int8, 27 * channels * taps), place)
    y = load(param(2, dtypes.int8, channels * taps * 18), ix.add(ix.mul(inner, 18), j))
    total = UOp(Ops.REDUCE, dtypes.int, (x.cast(dtypes.int) * y.cast(dtypes.int), c, t), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, dtypes.int, 27 * 18), ix.add(ix.mul(i, 18), j), total),))


@pytest.mark.parametrize(("channels", "taps", "fits"), [(8, 5, True), (5, 8, True), (5, 9, False)])
def test_of_several_loops_one_that_words_divide_is_packed(channels: int, taps: int, fits: bool) -> None:
    """Words are made along a loop of terms that they divide; where there is none the kernel stays as it is."""
    k = channels * taps
    a, b = small(27 * k, 1, dtypes.int8), small(k * 18, 2, dtypes.int8)
    sink = two_loops(channels, taps)
    assert units_of(sink) == ({"dot4"} if fits else set())
    x = [a[i * k + c * taps + t] for t in range(taps) for i in range(27) for c in range(channels)]
    buffers = [bytes(27 * 18 * 4), pack(x, dtypes.int8), pack(b, dtypes.int8)]
    assert unpack(run_kernel(BACKEND, sink, buffers)[0], dtypes.int) == product(a, b, 27, k, 18)


@pytest.mark.parametrize("loaded", [True, False], ids=["gated load", "gated value"])
def test_what_is_0_outside_of_a_border_is_packed(loaded: bool) -> None:
    """A factor that is 0 under a condition, as padding is, also where the condition is beside the cast."""
    m, k, n = 17, 23, 37
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2)
    gate = ix.lt(ix.add(i, r), 30)
    x = param(1, dtypes.bfloat16, m * k)
    place = ix.add(ix.mul(i, k), r)
    value = UOp(Ops.LOAD, dtypes.bfloat16, (x, place, gate)) if loaded else load(x, place) * 2.0
    y = load(param(2, dtypes.bfloat16, k * n), ix.add(ix.mul(r, n), j))
    factor = gate.where(value.cast(dtypes.float), UOp.const(dtypes.float, 0.0))
    total = UOp(Ops.REDUCE, dtypes.float, (factor * y.cast(dtypes.float), r), ReduceArg(Ops.ADD))
    sink = UOp(Ops.SINK, src=(store(param(0, dtypes.float, m * n), ix.add(ix.mul(i, n), j), total),))
    assert units_of(sink) == {"dot2"}
    a, b = small(m * k, 1, dtypes.bfloat16), small(k * n, 2, dtypes.bfloat16)
    times = 1.0 if loaded else 2.0
    inside = [v * times if at // k + at % k < 30 else 0.0 for at, v in enumerate(a)]
    assert run_matmul(BACKEND, sink, a, b, dtypes.bfloat16) == product(inside, b, m, k, n)


HOST = replace(
    WIDE, registers=8, native_ops=BASIC_OPS | {Ops.FMA}, compute_dtypes=TARGET.compute_dtypes - {dtypes.bfloat16}
)
C = Dialect(
    vectors=True,
    matrix={"dot2": MatrixWords(header="#include <dots.h>", multiply="add_dot2({c}, {a}, {b})")},
)
LLVM = {
    "dot2": MatrixWords(
        header="declare <16 x float> @dot2(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        operand="<32 x bfloat>",
        multiply="call <16 x float> @dot2(<16 x float> {c}, <32 x bfloat> {a}, <32 x bfloat> {b})",
    )
}
TAKEN = Options(actions=parse("dot(2, 0, 0), stage(1, 2, 32, 16)"))
RENDERERS = {"c": CStyleRenderer(C), "ll": LLVMRenderer(matrix=LLVM)}


def product_for_text() -> UOp:
    """A matrix product whose rows, terms and columns all leave a rest, rounded to bfloat16."""
    return matmul(37, 41, 29, dtypes.bfloat16, dtypes.float32, finish=lambda total, i, j: total.cast(dtypes.bfloat16))


def test_the_linear_form_is_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    """A panel of words, one ACCUM by the unit for each register, and the term that fills no word."""
    golden("dot.linear", show_linear(to_linear(Kernel(product_for_text()), HOST, TAKEN).uops) + "\n")


@pytest.mark.parametrize("language", RENDERERS)
def test_a_dot_is_written_with_the_words_of_the_language(language: str, golden: Callable[[str, str], None]) -> None:
    """Header and instruction come from the words that a device gives, in each grammar."""
    linear = to_linear(Kernel(product_for_text()), HOST, TAKEN)
    golden(f"dot.{language}", RENDERERS[language].render(linear).text)


@pytest.mark.parametrize("renderer", [CStyleRenderer(Dialect(vectors=True)), LLVMRenderer()], ids=["c", "ll"])
def test_a_unit_without_words_is_an_error(renderer) -> None:
    """The error names the unit, what the renderer has words for, and what to do."""
    linear = to_linear(Kernel(product_for_text()), HOST, TAKEN)
    message = "matrix unit dot2 has no words in the language of this renderer, which has words for none; leave it out"
    with pytest.raises(GraphError, match=message):
        renderer.render(linear)


def test_the_source_that_debug_prints_calls_the_unit_by_its_name() -> None:
    """A language to be read has no words for a unit; it raised."""
    assert "dot2(acc" in as_c(to_linear(Kernel(product_for_text()), HOST, TAKEN))


def test_the_actions_of_a_kernel_make_it_again() -> None:
    """What choose took, written down and read again, gives the same instructions."""
    kernel = Kernel(product_for_text())
    linear = to_linear(kernel, HOST, Options())
    assert linear.actions[0] == "dot(2, 0, 0)"
    again = to_linear(kernel, HOST, Options(actions=parse(", ".join(linear.actions))))
    assert again.uops == linear.uops


@pytest.mark.parametrize("text", ["dot(2, 7, 0)", "dot(1, 0, 0)", "dot(2, 1, 0)", "dot(2, 0, 2)"])
def test_a_dot_that_does_not_fit_is_refused(text: str) -> None:
    """A unit that is not there, a loop that is no sum, a unit of another dtype, a third factor."""
    with pytest.raises(ActionError, match="the kernel has no such sum of products for a matrix unit of the Target"):
        to_linear(Kernel(product_for_text()), HOST, Options(actions=parse(text)))
