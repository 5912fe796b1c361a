"""The words of HIP C without headers, and a card in numbers.

Kernels include nothing: they are written in what clang itself has for these processors, so that hipRTC, ROCm's clang
and that of ziglang compile the same text. Half types are stored as bits and converted by integer arithmetic. Nothing
depends on how many threads a wave has: threads exchange values by local memory (LDS) and barriers of the block.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.plugin import BASIC_OPS, C_TYPES, CStyleRenderer, Dialect, Ops, Renderer, Target, dtypes

# The language divides and shifts as the machine does, so rules.decompose makes operands safe.
PLAIN_OPS = {Ops.CAST, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}
NATIVE_OPS = BASIC_OPS - PLAIN_OPS | {Ops.MAX, Ops.MIN, Ops.SQRT, Ops.TRUNC, Ops.FMA, Ops.RECIPROCAL}
LDS = 64 << 10  # bytes that a thread block of every card can have
THREADS = 256  # of a thread block: whole waves of 32 and of 64
REGISTERS = 64  # of a thread, with which eight waves of 64 run on a SIMD of gfx90a and later
MOST_ITEMS = (1 << 32) - 1  # threads along a dimension of a grid, which the hardware counts in 32 bits

DIALECT = Dialect(
    language="hip",
    kernel='extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size({threads}, {threads})))',
    function="static __attribute__((device)) __attribute__((always_inline)) inline",
    packed=False,
    restrict="__restrict__",
    part="0",  # the grid is what shares a kernel out
    parts="1",
    types={**C_TYPES, dtypes.bool: "bool", dtypes.float16: "_Float16"},
    vectors=True,
    spelled=True,
    wraps=False,
    group="__builtin_amdgcn_workgroup_id_{axis}()",
    thread="__builtin_amdgcn_workitem_id_x()",
    shared="__attribute__((shared)) ",
    barrier='__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); '
    '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");',
    calls={Ops.SQRT: "__builtin_sqrt{f}", Ops.TRUNC: "__builtin_trunc{f}", Ops.FMA: "__builtin_fma{f}"},
)


@dataclass(frozen=True, slots=True)
class AmdCard:
    """What a card says of itself, as far as kernels depend on it. The defaults are those of every card."""

    arch: str = "gfx90a"
    wave: int = 64  # threads that go together; no kernel depends on it
    threads: int = 1024  # the most in a thread block
    shared: int = LDS
    l2: int = 4 << 20
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    has_pools: bool = False


def target_of(card: AmdCard) -> Target:
    """Return a card in numbers."""
    threads = min(THREADS, card.threads)
    return Target(
        arch=card.arch,
        native_ops=frozenset(NATIVE_OPS),
        registers=REGISTERS,
        vector_bytes=16,
        grid_dims=3,
        max_grid=(min(card.grid[0], MOST_ITEMS // card.threads), min(card.grid[1], 65535), min(card.grid[2], 65535)),
        block_threads=threads,
        shared_memory=min(card.shared, LDS),
        l3_bytes=card.l2,
        fused_sums=True,
        alignment=256,
    )


def amd_renderer() -> Renderer:
    """Return what writes kernels in HIP C."""
    return CStyleRenderer(DIALECT)


def offline() -> tuple[Target, Renderer]:
    """Return a usual card in numbers, and what writes its kernels, on a machine without one."""
    return target_of(AmdCard("gfx942")), amd_renderer()
