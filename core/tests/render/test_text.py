"""The text of kernels: golden source of both grammars, tables without gaps, and what is refused."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.conformance.linears import KERNELS, Build, group_sum, number
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.render import cstyle_expr, llvm_expr
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp

HOST = Dialect(
    vectors=True,
    calls={Ops.SQRT: "__builtin_sqrt{f}"},
    stream={32: "store_past_caches({pointer}, {value});"},
    fence="wait_for_stores();",
)
GROUPS = Dialect(
    kernel="__global__ void",
    function="__device__ inline",
    packed=False,
    pointer="",
    restrict="__restrict__",
    group="blockIdx.{axis}",
    thread="threadIdx.x",
    shared="__shared__ ",
    barrier="__syncthreads();",
)
RENDERERS = {"c": CStyleRenderer(HOST), "ll": LLVMRenderer('"prefer-vector-width"="256"', fence="llvm.x86.sse.sfence")}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("language", RENDERERS)
def test_kernel_is_written_as_the_golden_file_says(
    language: str, name: str, golden: Callable[[str, str], None]
) -> None:
    """Each hand-built kernel has the checked-in text in each grammar."""
    golden(f"{name}.{language}", RENDERERS[language].render(KERNELS[name]()).text)


def test_groups_of_threads_are_written_with_the_words_of_the_dialect(golden: Callable[[str, str], None]) -> None:
    """Grid and lane positions, shared memory, a barrier and separate parameters come from the Dialect alone."""
    golden("group_sum.gpu", CStyleRenderer(GROUPS).render(group_sum()).text)


@pytest.mark.parametrize("table", [cstyle_expr.EXPR, llvm_expr.EXPR], ids=["cstyle", "llvm"])
def test_table_covers_every_elementwise_op(table: dict[Ops, object]) -> None:
    """Each elementwise op has a row, and nothing else has."""
    assert set(table) == ELEMENTWISE


@pytest.mark.parametrize("language", RENDERERS)
def test_a_folded_constant_is_visible(language: str) -> None:
    """A float constant stands in the source as a decimal number."""
    text = RENDERERS[language].render(KERNELS["plain"]()).text
    assert {"c": "x0 + 3.0f", "ll": "fadd float %load2, 3.0"}[language] in text


def test_header_names_the_kernel_and_its_actions() -> None:
    """The first line is a comment with the kernel's name and the actions taken."""
    kernel = KERNELS["matmul"]()
    assert RENDERERS["c"].render(kernel).text.splitlines()[0] == "/* matmul: unroll 3, vectorise 8 */"
    assert RENDERERS["ll"].render(kernel).text.splitlines()[0] == "; matmul: unroll 3, vectorise 8"


def test_a_language_without_words_for_it_stores_a_stream_as_anything_else() -> None:
    """The hint changes no value, so a dialect may leave it out: then there is no fence either."""
    plainly = CStyleRenderer(Dialect(vectors=True)).render(KERNELS["streamed"]()).text
    assert "*(floatx8_in_memory *)(data0 + r0 * 8) = " in plainly
    assert "wait_for_stores" not in plainly
    assert "fence" not in LLVMRenderer().render(KERNELS["streamed"]()).text


def one_value(build: Callable[[UOp], UOp]) -> Linear:
    """A kernel that stores one value made from a float32."""
    probe = build(UOp.const(dtypes.float32, 1.0))
    b = Build("one", (probe.dtype, 4), (dtypes.float32, 4))
    b.store(0, number(0), build(b.load(1, number(0))))
    return b.done()


@pytest.mark.parametrize("language", RENDERERS)
def test_an_op_without_a_word_is_refused(language: str) -> None:
    """An op that decompose should have rewritten is named, with the kernel."""
    words = {"c": "native_ops of the Target has EXP2, and calls", "ll": r"EXP2 has no .* rules\.decompose writes it"}
    with pytest.raises(GraphError, match="kernel one: " + words.get(language, words["ll"])):
        RENDERERS[language].render(one_value(lambda x: x.alu(Ops.EXP2)))


@pytest.mark.parametrize("language", RENDERERS)
def test_a_cast_of_a_half_goes_through_float32(language: str) -> None:
    """A half type that is cast to anything but float32 is refused."""
    with pytest.raises(
        GraphError, match="CAST from dtypes.half to dtypes.double; rules.narrow lets half types convert"
    ):
        RENDERERS[language].render(one_value(lambda x: x.cast(dtypes.float16).cast(dtypes.float64)))


@pytest.mark.parametrize("language", RENDERERS)
def test_two_vector_ranges_in_one_value_are_refused(language: str) -> None:
    """A value that is a vector over two axes has no width."""
    b = Build("square", (dtypes.float32, 16), (dtypes.float32, 16))
    u, v = b.range(4, AxisKind.VECTOR), b.range(4, AxisKind.VECTOR)
    b.store(0, u * 4 + v, b.load(1, u * 4 + v))
    with pytest.raises(
        GraphError, match="kernel square: LOAD is a vector over axes 0 and 1; a node may have one VECTOR"
    ):
        RENDERERS[language].render(b.done())


@pytest.mark.parametrize("language", RENDERERS)
def test_a_vector_does_not_fit_a_scalar_register(language: str) -> None:
    """ACCUM of a vector into a scalar is refused."""
    b = Build("mix", (dtypes.float32, 1), (dtypes.float32, 4))
    v = b.range(4, AxisKind.VECTOR)
    acc = b.reg(0, UOp.const(dtypes.float32, 0.0))
    b.accum(acc, b.load(1, v))
    with pytest.raises(GraphError, match="kernel mix: ACCUM puts a vector into a scalar register; LANES comes first"):
        RENDERERS[language].render(b.done())


@pytest.mark.parametrize("language", RENDERERS)
def test_products_of_a_row_follow_each_other(language: str) -> None:
    """Sums of 2 vectors by 3 rows are written row by row, though the copies of vectors are the outer ones."""
    b = Build("rows", (dtypes.float32, 24), (dtypes.float32, 8), (dtypes.float32, 3))
    copies, rows, lane = b.range(2, AxisKind.UNROLL), b.range(3, AxisKind.UNROLL), b.range(4, AxisKind.VECTOR)
    column = copies * 4 + lane
    acc = b.reg(0, UOp.const(dtypes.float32, 0.0), copies, rows, lane)
    b.add(UOp(Ops.ACCUM, dtypes.float32, (acc, b.load(1, column), b.load(2, rows)), Ops.FMA))
    b.store(0, rows * 8 + column, b.get(acc))
    fused = CStyleRenderer(replace(HOST, calls={Ops.FMA: "__builtin_fma{f}"})) if language == "c" else RENDERERS["ll"]
    changed = {"c": r"^ *acc0_(\d_\d) = fma", "ll": r"store <4 x float> %call\d+, ptr %acc0_(\d_\d)"}[language]
    written = re.findall(changed, fused.render(b.done()).text, re.MULTILINE)
    assert written == ["0_0", "1_0", "0_1", "1_1", "0_2", "1_2"]


@pytest.mark.parametrize("language", RENDERERS)
def test_lanes_are_folded_in_halves(language: str) -> None:
    """A vector of six lanes has no half of three halves."""
    b = Build("six", (dtypes.float32, 1), (dtypes.float32, 6))
    v = b.range(6, AxisKind.VECTOR)
    b.store(0, number(0), b.lanes(b.load(1, v), v))
    with pytest.raises(GraphError, match="kernel six: LANES folds halves, and 6 lanes cannot be halved down to one"):
        RENDERERS[language].render(b.done())


@pytest.mark.parametrize("language", RENDERERS)
def test_a_host_has_no_grid(language: str) -> None:
    """A range of a kind without words is refused by its number and kind."""
    with pytest.raises(
        GraphError, match="kernel group_sum: range 0 is a grid range, which the language of this renderer"
    ):
        RENDERERS[language].render(group_sum())


@pytest.mark.parametrize("language", RENDERERS)
def test_a_tensor_op_is_no_instruction(language: str) -> None:
    """What does not belong into the linear form is refused by name."""
    b = Build("wrong", (dtypes.float32, 4))
    b.add(UOp(Ops.CONTIGUOUS, dtypes.float32, (UOp.const(dtypes.float32, 1.0),)))
    with pytest.raises(GraphError, match="kernel wrong: CONTIGUOUS is no instruction of the linear form"):
        RENDERERS[language].render(b.done())


def test_a_dialect_without_vectors_refuses_them() -> None:
    """A vector in a language that has none is refused, with its number of lanes."""
    with pytest.raises(
        GraphError, match="kernel elementwise: this dialect of c has no vectors, and a value has 8 lanes"
    ):
        CStyleRenderer(GROUPS).render(KERNELS["elementwise"]())


@pytest.mark.parametrize("missing", ["barrier", "shared"])
def test_a_dialect_without_words_for_groups_is_told_so(missing: str) -> None:
    """A barrier that was left out without a word would be wrong only now and then."""
    words = "kernel group_sum: 8 threads share memory and wait at a barrier; this dialect of c needs words for both"
    with pytest.raises(GraphError, match=words):
        CStyleRenderer(replace(GROUPS, **{missing: ""})).render(group_sum())
