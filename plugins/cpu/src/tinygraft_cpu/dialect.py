"""The words of this device: function attributes of LLVM IR and the dialect of C."""

from __future__ import annotations

from tinygraft.plugin import LLVMRenderer, Renderer, Target


def llvm_renderer(target: Target) -> Renderer:
    """LLVM IR whose vectors are as wide as the machine's registers."""
    return LLVMRenderer(f'"prefer-vector-width"="{target.vector_bytes * 8}"')
