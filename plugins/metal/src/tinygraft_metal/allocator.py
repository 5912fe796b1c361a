"""Buffers in memory that the host and the GPU share. A handle is a buffer and an offset.

The host reads and writes them where they are, without a copy. Memory of others is not used in place: Metal takes whole
pages from mmap or vm_allocate only, and refuses what malloc gave.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from tinygraft.plugin import Allocator, DeviceMemoryError
from tinygraft_metal.binding import binding


class MetalMemory:
    """`nbytes` of Metal's `buffer` from `offset` bytes on, which the host has at `address`."""

    __slots__ = ("__weakref__", "address", "buffer", "nbytes", "offset")

    def __init__(self, buffer: Any, offset: int, nbytes: int, address: int) -> None:
        self.buffer, self.offset, self.nbytes, self.address = buffer, offset, nbytes, address

    def __repr__(self) -> str:
        return f"<{self.nbytes} bytes at {self.offset} of a Metal buffer>"

    def view(self) -> memoryview:
        """Return the bytes as the host has them, which keep the buffer."""
        found = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
        found.buffer = self.buffer  # type: ignore[attr-defined]
        return memoryview(found).cast("B")


class MetalAllocator(Allocator):
    """Shared memory of one GPU, which may have `largest` bytes in a buffer."""

    def __init__(self, name: str, device: Any, queue: Any) -> None:
        self.name, self.device, self.queue = name, device, queue
        self.binding = binding()
        self.largest = int(device.maxBufferLength())
        # by address: in a forked child, where Metal may not be called, nothing of it is released
        self._living: dict[int, MetalMemory] = {}

    def alloc(self, nbytes: int) -> MetalMemory:
        """Allocate `nbytes`. Raises DeviceMemoryError when there is no room, or the GPU has no buffers of that size."""
        found = self.new(nbytes)
        self._living[found.address] = found
        return found

    def new(self, nbytes: int) -> MetalMemory:
        """Return memory that goes when nothing refers to it. Raises DeviceMemoryError."""
        if nbytes > self.largest:
            raise DeviceMemoryError(
                f"{self.name} could not allocate {nbytes} bytes: its largest buffer has {self.largest} bytes"
            )
        with self.binding.objc.autorelease_pool():
            shared = self.binding.metal.MTLResourceStorageModeShared
            buffer = self.device.newBufferWithLength_options_(nbytes, shared)
            if buffer is None:
                used, most = self.device.currentAllocatedSize(), self.device.recommendedMaxWorkingSetSize()
                raise DeviceMemoryError(
                    f"{self.name} could not allocate {nbytes} bytes: {used} of the {most} that Metal recommends are "
                    "allocated"
                )
            whole = buffer.contents().as_buffer(nbytes)
            address = ctypes.addressof(ctypes.c_ubyte.from_buffer(whole))
        return MetalMemory(buffer, 0, nbytes, address)

    def free(self, handle: MetalMemory, nbytes: int) -> None:
        """Free memory; in a forked child nothing, as it is the parent's."""
        if self.binding.process == os.getpid():
            self._living.pop(handle.address, None)

    def copy_in(self, target: MetalMemory, source: memoryview) -> None:
        """Copy host bytes into a buffer, after what was launched before."""
        if source.nbytes:
            self.queue.finish()
            target.view()[: source.nbytes] = source.cast("B")

    def copy_out(self, target: memoryview, source: MetalMemory) -> None:
        """Wait for what was launched before, and copy a buffer to host bytes, which are contiguous."""
        if target.nbytes:
            self.queue.finish()
            target.cast("B")[:] = source.view()[: target.nbytes]

    def copy(self, target: MetalMemory, source: MetalMemory, nbytes: int) -> None:
        """Copy `nbytes` from one buffer to another, after what was launched before; does not wait."""
        self.queue.copy(target, source, nbytes)

    def view(self, handle: MetalMemory, offset: int, nbytes: int) -> MetalMemory:
        """Return a part of a buffer, which keeps the whole alive."""
        return MetalMemory(handle.buffer, handle.offset + offset, nbytes, handle.address + offset)

    def as_host(self, handle: MetalMemory) -> memoryview:
        """Return the buffer's memory, which is the host's too."""
        return handle.view()
