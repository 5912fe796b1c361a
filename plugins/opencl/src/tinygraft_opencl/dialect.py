"""OpenCL C for the Target of a device: one dialect for work-groups (thread blocks) and one for loops.

Where a device runs work-groups, their threads share `__local` memory and wait at barriers. Where it does not (a
processor, whose local memory is ordinary memory and whose barriers are slow), a work-group has one thread, which runs
one chunk of the parallel loop; vectors are those of clang, on which all compilers for processors are based, and
`__local` memory is its scratch memory.
"""

from __future__ import annotations

from dataclasses import replace

from tinygraft.plugin import BASIC_OPS, C_TYPES, CStyleRenderer, Dialect, Ops, Renderer, Target, dtypes

HEADER = "#pragma OPENCL FP_CONTRACT OFF"
FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"
# A half that the device cannot compute with: its bits in memory, of a type that may alias the half that is read there.
HALF = "typedef ushort bits_of_half __attribute__((may_alias));"
WIDEN = "bits_of_half bits = h;\n    return vload_half(0, (const half *)&bits);"
NARROW = "bits_of_half bits;\n    vstore_half{rte}(x, 0, (half *)&bits);\n    return bits;"
# For a device that does not round / of floats correctly: division of the mantissas as integers, rounded once to nearest
# even.
DIVIDE = """static inline float exact_dividef(float x, float y) {
    const uint sign = (as_uint(x) ^ as_uint(y)) & 0x80000000u;
    ulong a = as_uint(x) & 0x7fffffffu, b = as_uint(y) & 0x7fffffffu;
    if (a == 0 || b == 0 || a >= 0x7f800000u || b >= 0x7f800000u) return x / y;
    int of_a = a >> 23, of_b = b >> 23;  /* exponents */
    const int shift_a = of_a ? 0 : clz((uint)a) - 8, shift_b = of_b ? 0 : clz((uint)b) - 8;
    a = of_a ? (a & 0x7fffffu) | 0x800000u : a << shift_a;
    b = of_b ? (b & 0x7fffffu) | 0x800000u : b << shift_b;
    int exponent = (of_a ? of_a : 1 - shift_a) - (of_b ? of_b : 1 - shift_b) + 127;
    if (a < b) {
        a <<= 1;
        exponent -= 1;
    }
    const ulong quotient = (a << 32) / b | ((a << 32) % b != 0);  /* 33 bits; the last one says that more follow */
    const int beyond = exponent > 0 ? 9 : min(10 - exponent, 40);
    const ulong rest = quotient & ((1ul << beyond) - 1), middle = 1ul << (beyond - 1);
    ulong bits = quotient >> beyond;
    bits += rest > middle || (rest == middle && (bits & 1));
    if (exponent > 0) bits += (ulong)(exponent - 1) << 23;
    return as_float(sign | (uint)min(bits, 0x7f800000ul));
}"""
# The same through doubles, whose division is correct everywhere: a quotient rounded to double and then to float is
# the one rounded to float directly, since double has more than twice the bits; so is a root.
BY_DOUBLE = """static inline float exact_dividef(float x, float y) {
    return (float)((double)x / (double)y);
}
static inline double exact_divide(double x, double y) {
    return x / y;
}
static inline float exact_sqrtf(float x) {
    return (float)sqrt((double)x);
}
static inline double exact_sqrt(double x) {
    return sqrt(x);
}"""

# The language divides and shifts as the machine does, so rules.decompose makes operands safe; its casts saturate.
PLAIN_OPS = {Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}
NATIVE_OPS = BASIC_OPS - PLAIN_OPS | {Ops.MAX, Ops.MIN, Ops.SQRT, Ops.TRUNC, Ops.FMA, Ops.RECIPROCAL}
GPU_TARGET = Target(  # what a GPU has at least, for rendering without a device
    native_ops=NATIVE_OPS, registers=64, grid_dims=3, block_threads=256, shared_memory=32 << 10, fused_sums=True
)
TYPES = {
    **C_TYPES, dtypes.bool: "bool", dtypes.index: "long", dtypes.int8: "char", dtypes.int64: "long",
    dtypes.uint8: "uchar", dtypes.uint16: "ushort", dtypes.uint32: "uint", dtypes.uint64: "ulong",
    dtypes.float16: "ushort", dtypes.bfloat16: "ushort",
}  # fmt: skip
BASE = Dialect(
    language="opencl", function="static inline", packed=False, pointer="__global ", types=TYPES, wraps=False,
    spaces=True, infinity="INFINITY", nan="NAN",
    calls={Ops.SQRT: "sqrt", Ops.TRUNC: "trunc", Ops.FMA: "fma"},
)  # fmt: skip
WORK_GROUPS = replace(
    BASE,
    kernel="__kernel __attribute__((reqd_work_group_size({threads}, 1, 1))) void",
    group="get_group_id({dim})",
    thread="get_local_id(0)",
    part="0",  # the whole kernel is mapped to the grid, so loops have one chunk
    parts="1",
    shared="__local ",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
)
LOOPS = replace(
    BASE,
    kernel="__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void",
    own="__local ",
    part="get_group_id(0)",
    parts="get_num_groups(0)",
    vectors=True,
    spelled=True,
    calls={op: f"__builtin_{word}{{f}}" for op, word in BASE.calls.items()},
)


def opencl_renderer(target: Target, exact: bool = True) -> Renderer:
    """Return the renderer of OpenCL C for a Target; `exact`: the device rounds / and sqrt of floats correctly."""
    dialect = WORK_GROUPS if target.grid_dims else LOOPS
    header = [HEADER]
    if dtypes.float16 in target.compute_dtypes:
        header.append(FP16)
        dialect = replace(dialect, types={**TYPES, dtypes.float16: "half"}, calls=BASE.calls)  # of every float type
    else:
        header.append(HALF)
        # GPUs need the name of the rounding, to nearest even; processors round so by default, with fewer instructions
        narrow = NARROW.format(rte="_rte" if target.grid_dims else "")
        dialect = replace(dialect, widen={dtypes.float16: WIDEN}, narrow={dtypes.float16: narrow})
    if not exact:
        has_double = dtypes.float64 in target.compute_dtypes
        header.append(BY_DOUBLE if has_double else DIVIDE)
        words = {Ops.FDIV: "exact_divide{f}"} | ({Ops.SQRT: "exact_sqrt{f}"} if has_double else {})
        dialect = replace(dialect, calls={**dialect.calls, **words})
    return CStyleRenderer(replace(dialect, header="\n".join(header)))


def offline() -> tuple[Target, Renderer]:
    """Return the Target and the renderer of a usual GPU, for a machine without one."""
    return GPU_TARGET, opencl_renderer(GPU_TARGET)
