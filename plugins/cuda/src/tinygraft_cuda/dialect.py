"""The words of CUDA C, and a card in numbers by its compute capability.

Kernels include no header: all that they need is in the language. Numbers mean what they mean everywhere, by the options
that `compiler` gives NVRTC; half types are stored as bits and converted by integer arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.plugin import BASIC_OPS, C_TYPES, CStyleRenderer, Dialect, Ops, Renderer, Target, dtypes

Capability = tuple[int, int]  # (9, 0) of a Hopper card

# The language divides and shifts as the machine does, so rules.decompose makes operands safe; its casts saturate.
PLAIN_OPS = {Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}
NATIVE_OPS = BASIC_OPS - PLAIN_OPS | {Ops.MAX, Ops.MIN, Ops.SQRT, Ops.TRUNC, Ops.FMA, Ops.RECIPROCAL}
DECLARED = 48 << 10  # bytes of shared memory that a kernel may declare; more is asked for at its launch
ARCHITECTURES = (9, 0)  # from here on a card has instructions of its own, which code for sm_90a, not sm_90, may use
THREADS = 256  # of a thread block: more seldom pay
REGISTERS = 64  # of a thread, with which 1024 threads run on a multiprocessor
HEADER = """#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)"""

DIALECT = Dialect(
    language="cuda",
    header=HEADER,
    kernel='extern "C" __global__ void __launch_bounds__({threads})',
    function="static __device__ __forceinline__",
    packed=False,
    restrict="__restrict__",
    part="0",  # the grid is what shares a kernel out
    parts="1",
    types={**C_TYPES, dtypes.bool: "bool"},
    wraps=False,
    group="blockIdx.{axis}",
    thread="threadIdx.x",
    shared="__shared__ ",
    declared=DECLARED,
    pool="extern __shared__ __align__(16) unsigned char shared_bytes[];",
    barrier="__syncthreads();",
    infinity="INFINITY",
    nan="NAN",
    calls={Ops.SQRT: "sqrt{f}", Ops.TRUNC: "trunc{f}", Ops.FMA: "fma{f}"},
)


@dataclass(frozen=True, slots=True)
class Card:
    """What a device says of itself, as far as kernels depend on it. The defaults are those of every card."""

    capability: Capability = (7, 5)
    threads: int = 1024  # the most in a thread block
    shared: int = DECLARED  # bytes of shared memory that a thread block can have
    l2: int = 4 << 20  # bytes of the cache that all multiprocessors share
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)


def architecture(capability: Capability) -> str:
    """Return the name that compilers have for a compute capability: code for exactly this card.

    >>> architecture((8, 6)), architecture((9, 0))
    ('sm_86', 'sm_90a')
    """
    major, minor = capability
    return f"sm_{major}{minor}{'a' if capability >= ARCHITECTURES else ''}"


def target_of(card: Card) -> Target:
    """Return a card in numbers."""
    return Target(
        arch=architecture(card.capability),
        native_ops=frozenset(NATIVE_OPS),
        registers=REGISTERS,
        grid_dims=3,
        max_grid=card.grid,
        block_threads=min(THREADS, card.threads),
        shared_memory=card.shared,
        l3_bytes=card.l2,
        fused_sums=True,
        alignment=256,
    )


def cuda_renderer() -> Renderer:
    """Return what writes kernels in CUDA C."""
    return CStyleRenderer(DIALECT)


def offline() -> tuple[Target, Renderer]:
    """Return a usual card in numbers, and what writes its kernels, on a machine without one."""
    return target_of(Card((8, 0), shared=163 << 10, l2=40 << 20)), cuda_renderer()
