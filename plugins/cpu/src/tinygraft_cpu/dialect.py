"""The words of this device: the attributes of its LLVM functions, and the dialect of its C."""

from __future__ import annotations

from tinygraft.plugin import CStyleRenderer, Dialect, LLVMRenderer, Ops, Renderer, Target
from tinygraft_cpu import machine

HOST_C = Dialect(
    vectors=True,
    calls={Ops.SQRT: "__builtin_sqrt{f}", Ops.TRUNC: "__builtin_trunc{f}", Ops.FMA: "__builtin_fma{f}"},
)


def llvm_renderer(target: Target) -> Renderer:
    """LLVM IR whose vectors are as wide as the machine's registers."""
    return LLVMRenderer(f'"prefer-vector-width"="{target.vector_bytes * 8}"', machine.has_half_conversion())


def c_renderer(target: Target) -> Renderer:
    """C99 with GCC's vector extensions, which clang has too; no header is included."""
    return CStyleRenderer(HOST_C)
