"""Buffers of a device: in its own memory, or in that of the host where the device computes there.

A handle is a ClMemory. A view of a buffer is a sub-buffer, which begins at a multiple of the device's base alignment.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from tinygraft.plugin import Allocator, DeviceMemoryError, UnsupportedError
from tinygraft_opencl.platforms import binding
from tinygraft_opencl.queues import ClQueue

PAGE = 4096  # bytes: the granularity of mmap, and of host memory that drivers use in place


class ClMemory:
    """A buffer of `nbytes`, or such a part of the buffer `whole` from `offset` bytes on.

    `buffer` is pyopencl's; `host` is the same memory as Python sees it, None where it does not.
    """

    offset: int
    nbytes: int
    host: memoryview[int] | None

    __slots__ = ("__weakref__", "buffer", "host", "nbytes", "offset", "whole")

    def __init__(self, buffer: Any, nbytes: int, host: memoryview | None) -> None:
        self.buffer, self.whole, self.offset = buffer, buffer, 0
        self.nbytes, self.host = nbytes, host

    def __repr__(self) -> str:
        return f"<{self.nbytes} bytes at {self.offset} of an OpenCL buffer>"


class ClAllocator(Allocator):
    """Memory of one context. `alignment` is that of views, in bytes; `on_host`: the device uses host memory."""

    name: str
    queue: ClQueue
    alignment: int
    on_host: bool

    def __init__(self, name: str, context: Any, queue: ClQueue, alignment: int, on_host: bool) -> None:
        self.name, self.context, self.queue = name, context, queue
        self.alignment, self.on_host = alignment, on_host
        self.cl = binding()

    def alloc(self, nbytes: int) -> ClMemory:
        """Allocate `nbytes`, at page boundaries where the device uses host memory.

        Raises DeviceMemoryError when there is no room, or the device has no buffers of that size.
        """
        largest = self.context.devices[0].max_mem_alloc_size
        if nbytes > largest:
            raise DeviceMemoryError(
                f"{self.name} could not allocate {nbytes} bytes: its largest buffer has {largest} bytes"
            )
        try:
            if self.on_host:
                return self._over(memoryview(mmap.mmap(-1, -(-nbytes // PAGE) * PAGE))[:nbytes])
            return ClMemory(self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, nbytes), nbytes, None)
        except (OSError, MemoryError, ValueError, OverflowError, self.cl.Error) as error:
            raise DeviceMemoryError(f"{self.name} could not allocate {nbytes} bytes: {error}") from error

    def _over(self, view: memoryview) -> ClMemory:
        """Return a buffer over host memory, without a copy."""
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.USE_HOST_PTR
        return ClMemory(self.cl.Buffer(self.context, flags, hostbuf=view), view.nbytes, view)

    def alloc_host(self, nbytes: int) -> memoryview:
        """Allocate pinned memory by the driver, which is mapped as long as the view exists.

        A device that uses host memory gets ordinary memory. Raises DeviceMemoryError when there is no room.
        """
        if self.on_host:
            return super().alloc_host(nbytes)
        cl = self.cl
        try:
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, nbytes)
            access = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(self.queue.queue, buffer, access, 0, (nbytes,), np.uint8)
        except cl.Error as error:
            raise DeviceMemoryError(f"{self.name} could not allocate {nbytes} bytes of host memory: {error}") from error
        return memoryview(array)

    def copy_in(self, target: ClMemory, source: memoryview) -> None:
        """Copy host bytes into a buffer, after what was launched before; the source need not be contiguous."""
        data = source if source.c_contiguous else memoryview(source.tobytes())
        if data.nbytes:
            self.queue.copy_in(target, data).wait()

    def copy_out(self, target: memoryview, source: ClMemory) -> None:
        """Wait for what was launched before, and copy a buffer to host bytes, which are contiguous."""
        if target.nbytes:
            self.queue.copy_out(target, source).wait()

    def copy(self, target: ClMemory, source: ClMemory, nbytes: int) -> None:
        """Copy `nbytes` from one buffer to another, after what was launched before; does not wait."""
        self.queue.copy(target, source, nbytes)

    def view(self, handle: ClMemory, offset: int, nbytes: int) -> ClMemory:
        """Return a part of a buffer, which keeps the whole alive. Raises UnsupportedError for an unaligned offset."""
        start = handle.offset + offset
        if start % self.alignment:
            raise UnsupportedError(
                f"a part of a buffer of {self.name} begins at a multiple of {self.alignment} bytes, and {start} is none"
            )
        host = None if handle.host is None else handle.host[offset : offset + nbytes]
        part = ClMemory(handle.whole.get_sub_region(start, nbytes), nbytes, host)
        part.whole, part.offset = handle.whole, start
        return part

    def at_address(self, address: int, nbytes: int) -> ClMemory:
        """Return borrowed memory of this process as a buffer. Raises UnsupportedError where the device has its own."""
        if not self.on_host:
            return super().at_address(address, nbytes)  # type: ignore[no-any-return]
        return self._over(memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B"))

    def as_host(self, handle: ClMemory) -> memoryview | None:
        """Return the buffer's memory where it is host memory; else None."""
        return handle.host
