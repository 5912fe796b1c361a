"""The renderers of this device: the attributes of its LLVM functions, and the dialect of its C."""

from __future__ import annotations

from dataclasses import replace

from tinygraft.plugin import CStyleRenderer, Dialect, LLVMRenderer, Ops, Renderer, Target
from tinygraft_cpu import machine, units

# known: GCC 12 (its bug 110309) loads all lanes of a masked load whose mask it knows, also where there is no memory
UNKNOWN_MASK = '__asm__("" : "+m"(c));'
HOST_C = Dialect(
    vectors=True,
    gated=UNKNOWN_MASK,
    calls={Ops.SQRT: "__builtin_sqrt{f}", Ops.TRUNC: "__builtin_trunc{f}", Ops.FMA: "__builtin_fma{f}"},
    matrix=units.C,
)
GCC_STREAM = {
    16: "__builtin_ia32_movntdq({pointer}, {value});",
    32: "__builtin_ia32_movntdq256({pointer}, {value});",
    64: "__builtin_ia32_movntdq512({pointer}, {value});",
}
CLANG_STREAM = dict.fromkeys(GCC_STREAM, "__builtin_nontemporal_store({value}, {pointer});")


def llvm_renderer(target: Target) -> Renderer:
    """Return the renderer of LLVM IR whose vectors are as wide as the machine's registers."""
    fence = "llvm.x86.sse.sfence" if target.stream_bytes else ""
    attributes = f'"prefer-vector-width"="{target.vector_bytes * 8}"'
    return LLVMRenderer(attributes, machine.has_half_conversion(), fence, units.LLVM, target.gathers)


def c_renderer(target: Target, compiler: str) -> Renderer:
    """Return the renderer of C99 with GCC's vector extensions, which clang has too; no header is included.

    `compiler` is its --version: clang has another builtin for stores past the caches, and leaves a loop over the lanes
    of a vector a loop, which takes five times as long as lanes that are written out.
    """
    clang = "clang" in compiler
    dialect = replace(HOST_C, spelled=clang)
    if target.stream_bytes:
        words = CLANG_STREAM if clang else GCC_STREAM
        stream = {size: text for size, text in words.items() if size <= target.vector_bytes}
        dialect = replace(dialect, stream=stream, fence="__builtin_ia32_sfence();")
    return CStyleRenderer(dialect)
