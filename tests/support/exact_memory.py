"""Memory of the CPU device that ends where a buffer ends, so that AddressSanitizer finds accesses past it.

python exact_memory.py MODULE ARGUMENT ...    runs a module as python -m does, with such memory
"""

from __future__ import annotations

import ctypes
import runpy
import sys

from tinygraft.conformance import kernels
from tinygraft_cpu.allocator import ALIGNMENT, HostMemory, ProcessAllocator

libc = ctypes.CDLL(None)
libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(lambda capsule: libc.free(pointer_of(capsule, None)))


def exactly(self: ProcessAllocator, nbytes: int) -> HostMemory:
    """Allocate `nbytes` by the C library's allocator, which the sanitizer's runtime replaces.

    They are freed with a capsule, when nothing can reach it any more. weakref.finalize is too early: the garbage
    collector calls it before a block's __del__, which returns the memory to the pool, where it is reused.
    """
    found = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(found), ALIGNMENT, nbytes) == 0
    assert found.value is not None
    whole = (ctypes.c_ubyte * nbytes).from_address(found.value)
    whole.owner = new_capsule(found.value, None, ctypes.cast(release, ctypes.c_void_p).value)  # type: ignore[attr-defined]
    return HostMemory(memoryview(whole).cast("B"), found.value)


def install() -> None:
    """Let the CPU's allocator allocate such memory from now on, and the kit use no guard after the buffers."""
    ProcessAllocator.alloc = exactly  # type: ignore[method-assign]
    kernels.GUARD = b""


if __name__ == "__main__":
    install()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
