"""Host memory for buffers: aligned to 64 bytes, and to huge pages from 2 MiB up."""

from __future__ import annotations

import ctypes
import mmap

from tinygraft.plugin import Allocator, DeviceMemoryError
from tinygraft_cpu import extension

ALIGNMENT = 64
HUGE = 2 << 20  # bytes of a huge page
SMALL = 64 << 10  # bytes below which a bytearray is cheaper than separate pages


class HostMemory:
    """`nbytes` of memory at `address`. `view` is the same memory as Python sees it, and keeps it alive."""

    view: memoryview[int]
    nbytes: int
    address: int

    __slots__ = ("__weakref__", "address", "nbytes", "view")

    def __init__(self, view: memoryview, address: int) -> None:
        self.view, self.nbytes, self.address = view, view.nbytes, address

    def __buffer__(self, flags: int) -> memoryview:
        return self.view

    def __repr__(self) -> str:
        return f"<{self.nbytes} bytes of host memory at {self.address:#x}>"


class ProcessAllocator(Allocator):
    """Memory of this process, copied by up to `threads` threads. A handle is a HostMemory."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name, self.threads = name, threads

    def alloc(self, nbytes: int) -> HostMemory:
        """Allocate `nbytes` at a multiple of ALIGNMENT, or of HUGE for that much and more.

        Raises DeviceMemoryError when the system has no room.
        """
        step = HUGE if nbytes >= HUGE else ALIGNMENT
        try:
            if nbytes < SMALL:
                whole = memoryview(bytearray(nbytes + step))
            else:
                pages = _pages(nbytes + step)
                if nbytes >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
                    _advise_huge(pages)
                whole = memoryview(pages)
        except (OSError, MemoryError, OverflowError, ValueError) as error:
            raise DeviceMemoryError(f"{self.name} could not allocate {nbytes} bytes of host memory: {error}") from error
        address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
        start = -address % step
        return HostMemory(whole[start : start + nbytes], address + start)

    def copy_in(self, target: HostMemory, source: memoryview) -> None:
        """Copy host bytes into a buffer; the source need not be contiguous."""
        data = source if source.c_contiguous else memoryview(source.tobytes())
        if data.nbytes:
            target.view[: data.nbytes] = data.cast("B")

    def copy_out(self, target: memoryview, source: HostMemory) -> None:
        """Copy a buffer to host bytes, which must be contiguous."""
        if target.nbytes:
            target.cast("B")[:] = source.view[: target.nbytes]

    def copy(self, target: HostMemory, source: HostMemory, nbytes: int) -> None:
        """Copy the first `nbytes` of one buffer to another."""
        library = extension.library()
        if library is None:
            self.copy_in(target, source.view[:nbytes])
        else:
            library.tg_copy(target.address, source.address, nbytes, self.threads)

    def view(self, handle: HostMemory, offset: int, nbytes: int) -> HostMemory:
        """Return a part of a buffer, `nbytes` from `offset` on, which keeps the whole alive."""
        return HostMemory(handle.view[offset : offset + nbytes], handle.address + offset)

    def at_address(self, address: int, nbytes: int) -> HostMemory:
        """Return borrowed memory of this process as a buffer; its owner keeps it alive."""
        return HostMemory(memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B"), address)

    def as_host(self, handle: HostMemory) -> memoryview:
        """Return the buffer's memory itself: kernels have run when `launch` returns, so it is current."""
        return handle.view


def _pages(nbytes: int) -> mmap.mmap:
    """Return new pages, zeroed, private to this process: a forked child gets copies."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, nbytes)


def _advise_huge(pages: mmap.mmap) -> None:
    """Advise the system to use huge pages, where it has them."""
    try:
        pages.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without huge pages: slower, nothing else
        pass
