"""The words of the Metal Shading Language (MSL), and a GPU in numbers.

A kernel has its buffers first, in the order of their slots, then one array of its variables. Threads of a thread block
(a threadgroup) share threadgroup memory and wait at its barrier; nothing depends on how many of them are a simdgroup.
float16 is `half`, converted by the hardware; bfloat16 is stored as bits and converted by integer arithmetic; float64 is
stored and moved as bits, since MSL has no double.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.plugin import BASIC_OPS, C_TYPES, CStyleRenderer, Dialect, Ops, Renderer, Target, dtypes

# The language divides and shifts as the machine does, so rules.decompose makes operands safe.
PLAIN_OPS = {Ops.CAST, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}
NATIVE_OPS = BASIC_OPS - PLAIN_OPS | {Ops.MAX, Ops.MIN, Ops.SQRT, Ops.TRUNC, Ops.FMA, Ops.RECIPROCAL}
SIMDGROUP = 32  # threads that go together; no kernel depends on it
THREADS = 256  # of a thread block: whole simdgroups
REGISTERS = 64  # assumed: of a thread, with which several thread blocks run on a core
SHARED = 32 << 10  # bytes that a thread block of every GPU can have
SLOTS = 31  # given: buffers of a kernel in Metal's argument table
MOST_ITEMS = (1 << 32) - 1  # threads along a dimension of a grid, which MSL counts in 32 bits
# Nothing is contracted and nothing is fast, whatever the compiler's options say; older ones know clang's word only.
HEADER = """#include <metal_stdlib>
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#else
#pragma clang fp contract(off)
#endif
using namespace metal;"""
TYPES = {
    **C_TYPES, dtypes.bool: "bool", dtypes.index: "long", dtypes.int8: "char", dtypes.int64: "long",
    dtypes.uint8: "uchar", dtypes.uint16: "ushort", dtypes.uint32: "uint", dtypes.uint64: "ulong",
    dtypes.float16: "half", dtypes.bfloat16: "ushort",
}  # fmt: skip

DIALECT = Dialect(
    language="metal",
    header=HEADER,
    kernel="[[max_total_threads_per_threadgroup({threads})]] kernel void",
    function="static inline",
    packed=False,
    values="constant long *variables",
    positions="uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]",
    pointer="device ",
    restrict="",
    part="0",  # the grid is what shares a kernel out
    parts="1",
    types=TYPES,
    vectors=True,
    spelled=True,
    wraps=False,
    spaces=True,
    group="block_index.{axis}",
    thread="thread_index",
    shared="threadgroup ",
    own="thread ",
    barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
    infinity="INFINITY",
    nan="NAN",
    calls={Ops.SQRT: "precise::sqrt", Ops.TRUNC: "trunc", Ops.FMA: "fma"},
)
# Bytes that a blit cannot copy, as their number is no multiple of 4.
COPY_BYTES = f"""{HEADER}
[[max_total_threads_per_threadgroup(4)]] kernel void copy_bytes(device uchar *data0, device const uchar *data1, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {{
    data0[block_index.x] = data1[block_index.x];
}}
"""  # noqa: E501 - a line of MSL, as the renderer writes it
# Vectors as kernels have them. Whether Apple's compiler takes clang's vectors is asked when a device is opened.
TRY_VECTORS = f"""{HEADER}
typedef float floatx4 __attribute__((vector_size(16), may_alias));
typedef floatx4 floatx4_in_memory __attribute__((aligned(4), may_alias));
typedef int intx4 __attribute__((vector_size(16), may_alias));
[[max_total_threads_per_threadgroup(1)]] kernel void try_vectors(device float *data0, device const float *data1, uint3 block_index [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {{
    const floatx4 x = *(device const floatx4_in_memory *)(data1);
    const intx4 mask = x < (floatx4){{1.0f, 2.0f, 3.0f, x[0]}};
    const floatx4 y = (floatx4)((intx4)x & mask) + __builtin_convertvector(mask, floatx4);
    *(device floatx4_in_memory *)(data0) = y;
}}
"""  # noqa: E501 - the same


@dataclass(frozen=True, slots=True)
class MetalCard:
    """What a GPU says of itself, as far as kernels depend on it. The defaults are those of every one."""

    arch: str = "Apple GPU"
    threads: int = 1024  # the most in a thread block
    shared: int = SHARED
    vectors: bool = True  # whether its compiler takes clang's vectors


def target_of(card: MetalCard) -> Target:
    """Return a GPU in numbers."""
    threads = min(THREADS, card.threads // SIMDGROUP * SIMDGROUP)
    return Target(
        arch=card.arch,
        compute_dtypes=Target().compute_dtypes - {dtypes.float64},
        native_ops=frozenset(NATIVE_OPS),
        registers=REGISTERS,
        vector_bytes=16 if card.vectors else 0,
        grid_dims=3,
        max_grid=(min(2**31 - 1, MOST_ITEMS // threads), 65535, 65535),
        block_threads=threads,
        shared_memory=card.shared,
        fused_sums=True,
        max_params=SLOTS - 1,  # the last slot is that of the variables
        alignment=256,
        subnormals=False,
    )


def metal_renderer() -> Renderer:
    """Return what writes kernels in MSL."""
    return CStyleRenderer(DIALECT)


def offline() -> tuple[Target, Renderer]:
    """Return a usual GPU in numbers, and what writes its kernels, on a machine without one."""
    return target_of(MetalCard()), metal_renderer()
