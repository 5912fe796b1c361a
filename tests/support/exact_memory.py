"""Memory of the CPU device that ends where a buffer ends, so that AddressSanitizer sees what a kernel does behind it.

python exact_memory.py MODULE ARGUMENT ...    runs a module as python -m does, with such memory
"""

from __future__ import annotations

import ctypes
import runpy
import sys
import weakref

from tinygraft.conformance import kernels
from tinygraft_cpu.allocator import ALIGNMENT, HostAllocator, HostMemory

libc = ctypes.CDLL(None)
libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def exactly(self: HostAllocator, nbytes: int) -> HostMemory:
    """nbytes of the C library, in whose place the sanitizer's runtime is."""
    found = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(found), ALIGNMENT, nbytes) == 0
    assert found.value is not None
    whole = (ctypes.c_ubyte * nbytes).from_address(found.value)
    weakref.finalize(whole, libc.free, found.value)
    return HostMemory(memoryview(whole).cast("B"), found.value)


def install() -> None:
    """Give out such memory from now on. The kit's kernels get no guard behind their buffers: nothing is there."""
    HostAllocator.alloc = exactly  # type: ignore[method-assign]
    kernels.GUARD = b""


if __name__ == "__main__":
    install()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
