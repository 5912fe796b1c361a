"""A loaded kernel and how it is called: on the native thread pool, or plainly on the calling thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from tinygraft.plugin import Program, Signature
from tinygraft_cpu import extension
from tinygraft_cpu.allocator import HostMemory


class Code(Protocol):
    """Machine code somewhere: stays at address while this object lives."""

    address: int


class CpuProgram(Program):
    """A kernel `void f(void **buffers, const long long *variables)` on up to threads threads.

    A chunked kernel takes its share (part, parts) behind its variables; shares never overlap and results do not
    depend on their number.
    """

    def __init__(self, code: Code, signature: Signature, threads: int) -> None:
        self.code, self.signature = code, signature
        self.parts = threads if signature.chunked else 1
        self.library: Any = extension.library()
        if self.library is None:
            self.parts = 1
            self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)

    def launch(
        self, buffers: Sequence[HostMemory | None], variables: Sequence[int], grid: tuple[int, int, int]
    ) -> None:
        """Run the kernel and wait for it. A buffer of no elements is None."""
        addresses = [0 if b is None else b.address for b in buffers]
        if self.library is not None:
            self.library.tg_launch(self.code.address, addresses, variables, len(variables), self.parts)
            return
        values = [*variables, 0, 1]
        self.function((ctypes.c_void_p * len(addresses))(*addresses), (ctypes.c_longlong * len(values))(*values))
