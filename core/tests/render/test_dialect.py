"""The words of a Dialect that languages for accelerators need: memory spaces, shares, halves, wrapping, division."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.kernels import load, param, store
from tinygraft.conformance.linears import KERNELS, group_sum
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES, Dialect
from tinygraft.target import BASIC_OPS, COMPUTED, Target
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Kernel, Linear, Param, Signature
from tinygraft.uop.uop import UOp

SPACES = Dialect(
    kernel="kernel({threads})", packed=False, pointer="far ", group="group({dim})", thread="thread()", shared="near ",
    barrier="wait();", own="own ", spaces=True, part="group(0)", parts="groups(0)", vectors=True, wraps=False,
    types={**C_TYPES, dtypes.int64: "long", dtypes.uint64: "ulong"},
)  # fmt: skip
HALVES = replace(
    SPACES,
    widen={dtypes.float16: "return wide(h);"},
    narrow={dtypes.float16: "return half_of(x);"},
    calls={Ops.FDIV: "divide{f}"},
)


def text_of(dialect: Dialect, build: Callable[..., UOp], *inputs: DType, native: frozenset[Ops] = BASIC_OPS) -> str:
    """The source of a kernel that maps build over its inputs, without vectors."""
    r = UOp.range(5, 0)
    value = build(*(load(param(i + 1, dtype, 5), r) for i, dtype in enumerate(inputs)))
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, value.dtype, 5), r, value),))
    return CStyleRenderer(dialect).render(to_linear(Kernel(sink), Target(native_ops=native))).text


@pytest.mark.parametrize("name", ["scratch", "strided", "gather"])
def test_memory_spaces_are_written_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    """Pointers, helpers of vectors and scratch memory carry the word of their memory; arrays stand at the head."""
    golden(f"{name}.spaces", CStyleRenderer(SPACES).render(KERNELS[name]()).text)


def test_a_kernel_says_how_many_threads_a_group_has() -> None:
    """{threads} in the word before a kernel is the number of threads of a group."""
    assert "\nkernel(8) group_sum(far float *" in "\n" + CStyleRenderer(SPACES).render(group_sum()).text


def test_shared_memory_is_declared_where_the_kernel_begins() -> None:
    """The array of a group is the first line of the kernel, whatever loop uses it."""
    lines = CStyleRenderer(SPACES).render(group_sum()).text.splitlines()
    opening = next(i for i, line in enumerate(lines) if line.startswith("kernel("))
    assert lines[opening + 1] == "    near float local0[8] __attribute__((aligned(64)));"


def test_a_share_is_an_expression_or_a_parameter() -> None:
    """With words for part and parts a kernel reads its share; without them it is given it."""
    p = UOp(Ops.PARAM, dtypes.float32, (), param(0, dtypes.float32, 64).arg)
    r = UOp.range(64, 0, AxisKind.PARALLEL)
    size, one = r.src[0], UOp.const(dtypes.float32, 1.0)
    body = (size, p, one, r, UOp(Ops.STORE, dtypes.void, (p, r, one)), UOp(Ops.END, dtypes.void, (r,)))
    linear = Linear("fill", body, Signature((Param(dtypes.float32, 64, True),), chunked=True), Target(chunks=2))
    read = CStyleRenderer(SPACES).render(linear).text
    assert "fill(far float *restrict data0) {\n    const long long part = group(0), parts = groups(0);" in read
    given = CStyleRenderer(replace(SPACES, part="")).render(linear).text
    assert "fill(far float *restrict data0, long long part, long long parts) {\n    for (" in given


@pytest.mark.parametrize(
    ("dtype", "op", "text"),
    [
        (dtypes.int32, Ops.ADD, "(int)((unsigned int)x0 + (unsigned int)x1)"),
        (dtypes.int64, Ops.MUL, "(long)((ulong)x0 * (ulong)x1)"),
        (dtypes.int16, Ops.SUB, "(short)(x0 - x1)"),
        (dtypes.uint16, Ops.MUL, "(unsigned short)((unsigned int)x0 * (unsigned int)x1)"),
        (dtypes.uint16, Ops.ADD, "(unsigned short)(x0 + x1)"),
        (dtypes.uint32, Ops.ADD, "x0 + x1"),
        (dtypes.float32, Ops.ADD, "x0 + x1"),
    ],
)
def test_sums_of_integers_wrap_where_the_language_does_not_promise_it(dtype: DType, op: Ops, text: str) -> None:
    """What could overflow is computed as unsigned; a dialect whose integers wrap needs none of that."""
    assert f"= {text};" in text_of(SPACES, lambda x, y: x.alu(op, y), dtype, dtype)
    assert "(unsigned int)x" not in text_of(replace(SPACES, wraps=True), lambda x, y: x.alu(op, y), dtype, dtype)


def test_a_negated_integer_wraps_too() -> None:
    """The least integer is its own negative."""
    assert "= (int)(-(unsigned int)x0);" in text_of(SPACES, lambda x: x.alu(Ops.NEG), dtypes.int32)


def test_halves_are_converted_by_the_words_of_the_dialect() -> None:
    """A dialect's own conversions stand in the helpers; a dtype without them is converted by integer arithmetic."""
    text = text_of(HALVES, lambda x: x.cast(dtypes.float32).cast(dtypes.float16), dtypes.float16)
    assert "float float_from_half(unsigned short h) {\n    return wide(h);\n}" in text
    assert "unsigned short half_from_float(float x) {\n    return half_of(x);\n}" in text
    brain = text_of(HALVES, lambda x: x.cast(dtypes.float32), dtypes.bfloat16)
    assert "wide(h)" not in brain
    assert "<< 16" in brain


def test_division_is_an_operator_unless_there_is_a_word_for_it() -> None:
    """A device whose / is not rounded correctly divides by a function, in 1 / x too."""

    def divided(x: UOp, y: UOp) -> UOp:
        return x.alu(Ops.FDIV, y)

    def turned(x: UOp) -> UOp:
        return x.alu(Ops.RECIPROCAL)

    native = BASIC_OPS | {Ops.RECIPROCAL}
    assert "= x0 / x1;" in text_of(SPACES, divided, dtypes.float32, dtypes.float32)
    assert "= divide(x0, x1);" in text_of(HALVES, divided, dtypes.float64, dtypes.float64)
    assert "= 1.0f / x0;" in text_of(SPACES, turned, dtypes.float32, native=native)
    assert "= dividef(1.0f, x0);" in text_of(HALVES, turned, dtypes.float32, native=native)


def test_lanes_are_a_loop_or_written_out() -> None:
    """A function of vectors loops over lanes, or has an expression for each where the dialect asks for that."""
    looped = CStyleRenderer(SPACES).render(KERNELS["strided"]()).text
    assert "for (int k = 0; k < 4; k++) r[k] = p[k * step];" in looped
    spelled = CStyleRenderer(replace(SPACES, spelled=True)).render(KERNELS["strided"]()).text
    assert "    return (intx4){p[0 * step], p[1 * step], p[2 * step], p[3 * step]};" in spelled


def test_a_half_that_is_computed_is_rounded_after_every_operation() -> None:
    """A language may keep more bits between operations; a cast takes them away."""
    native = replace(SPACES, types={**SPACES.types, dtypes.float16: "half_t"})
    r = UOp.range(5, 0)
    x, y = (load(param(i, dtypes.float16, 5), r) for i in (1, 2))
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtypes.float16, 5), r, x * y + x),))
    target = Target(compute_dtypes=COMPUTED | {dtypes.float16})
    text = CStyleRenderer(native).render(to_linear(Kernel(sink), target)).text
    assert "= (half_t)((half_t)(x0 * x1) + x0);" in text
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtypes.float16, 5), r, x / y - x),))
    divided = replace(native, calls={Ops.FDIV: "divide{f}"})
    assert (
        "= (half_t)((half_t)dividef(x0, x1) - x0);"
        in CStyleRenderer(divided).render(to_linear(Kernel(sink), target)).text
    )


def test_infinities_of_double_have_their_type() -> None:
    """A word that is a float's is cast, so that a function of several types knows which is meant."""
    one_type = replace(SPACES, infinity="INFINITY", nan="NAN")
    assert "x0 * (double)INFINITY;" in text_of(one_type, lambda x: x * math.inf, dtypes.float64)
    assert "x0 * (double)(-INFINITY);" in text_of(one_type, lambda x: x * -math.inf, dtypes.float64)
    assert "x0 * INFINITY;" in text_of(one_type, lambda x: x * math.inf, dtypes.float32)
    assert "x0 * __builtin_inf();" in text_of(SPACES, lambda x: x * math.inf, dtypes.float64)


@pytest.mark.parametrize(("word", "suffix"), [("long", "l"), ("long long", "ll")])
def test_literals_of_64_bits_have_the_suffix_of_their_type(word: str, suffix: str) -> None:
    """long has l and long long has ll."""
    dialect = replace(SPACES, types={**C_TYPES, dtypes.int64: word})
    assert f"x0 & 5000000000{suffix};" in text_of(dialect, lambda x: x & 5000000000, dtypes.int64)


@pytest.mark.parametrize("name", KERNELS)
def test_no_name_is_a_type_of_another_language(name: str) -> None:
    """Names that kernels and helpers give to their variables are no words of the languages of the family."""
    words = set(re.findall(r"[a-z_]\w*", CStyleRenderer(SPACES).render(KERNELS[name]()).text))
    assert not words & {"half", "half4", "event_t", "constant", "device", "thread", "threadgroup", "global", "local"}


def test_what_a_kernel_may_not_declare_is_asked_for_at_its_launch() -> None:
    """Shared arrays beyond `declared` bytes are parts of the pool, and the Source says how large that is."""
    pool = "extern near char shared_bytes[];"
    declared = CStyleRenderer(replace(SPACES, declared=32, pool=pool)).render(group_sum())
    pooled = CStyleRenderer(replace(SPACES, declared=31, pool=pool)).render(group_sum())
    assert pool not in declared.text
    assert f"    {pool}\n    float *local0 = (float *)(shared_bytes + 0);\n" in pooled.text
    assert (declared.signature.shared, pooled.signature.shared) == (0, 32)


def test_a_native_op_without_a_word() -> None:
    """An op that a Target lists and its Dialect cannot call is told so: what to add, or what to leave out."""
    with pytest.raises(GraphError, match="kernel E_5: native_ops of the Target has TRUNC, and calls of the") as caught:
        text_of(SPACES, lambda x: UOp(Ops.TRUNC, x.dtype, (x,)), dtypes.float32, native=BASIC_OPS | {Ops.TRUNC})
    assert str(caught.value).partition("calls of ")[2] == (
        "the Dialect (c) has no word for it\n"
        '  hint: add calls={Ops.TRUNC: "..."} to the Dialect, or leave TRUNC out of native_ops'
    )
