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

    `compiler` is its --version, by which the builtin for stores past the caches is chosen.
    """
    if not target.stream_bytes:
        return CStyleRenderer(HOST_C)
    words = CLANG_STREAM if "clang" in compiler else GCC_STREAM
    stream = {size: text for size, text in words.items() if size <= target.vector_bytes}
    return CStyleRenderer(replace(HOST_C, stream=stream, fence="__builtin_ia32_sfence();"))
