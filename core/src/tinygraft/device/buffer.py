"""Buffer: one allocation on a backend, and the table from BUFFER nodes to their buffers.

A Buffer gets memory when something first needs it and gives it back when nothing refers to it any more.

>>> from tinygraft.dtype import dtypes
>>> Buffer("PYTHON", 100, dtypes.float32)
<buf real:False device:PYTHON size:100 dtype:dtypes.float offset:0>
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.pool import Pool, pool_of
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.errors import DeviceLostError
from tinygraft.uop import uop as uop_table
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class Buffer:
    """size elements of dtype in the memory of a device. A buffer of no elements never allocates."""

    __module__ = "tinygraft.device"  # the place where people import it from, and which its type prints
    __slots__ = ("__weakref__", "_handle", "_lock", "_pool", "device", "dtype", "filled", "nbytes", "size")

    def __init__(self, device: str, size: int, dtype: DType) -> None:
        self.device, self.size, self.dtype = Device.canonicalize(device), size, dtype
        self.nbytes = size * dtype.itemsize
        self.filled = False  # whether it was made to hold data from Python
        self._handle: Handle = None
        self._pool: Pool | None = None
        self._lock = threading.Lock()

    @property
    def backend(self) -> Backend:
        """The backend whose memory this is, opened when it is not open yet."""
        return Device[self.device]

    def is_allocated(self) -> bool:
        """Whether the buffer has its memory."""
        return self._pool is not None or self.nbytes == 0

    def allocate(self) -> Buffer:
        """Get memory, unless the buffer has it. Raises DeviceMemoryError when the device is full."""
        if self._pool is None and self.nbytes:
            pool = pool_of(self.backend)
            with self._lock:
                if self._pool is None:
                    self._handle = pool.take(self.nbytes)
                    self._pool = pool
        return self

    def deallocate(self) -> None:
        """Give the memory back now; the buffer can be allocated again."""
        with self._lock:
            pool, handle = self._pool, self._handle
            self._pool = self._handle = None
        if pool is not None:
            pool.give(handle, self.nbytes)

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.deallocate()

    @property
    def handle(self) -> Handle:
        """What the allocator calls this memory; allocates. None for a buffer of no elements."""
        self.allocate()
        if self._pool is not None and (self._pool.lost or self._pool.closed):
            raise DeviceLostError(self._pool.why_lost())
        return self._handle

    @property
    def _buf(self) -> Any:
        """The memory itself: something memoryview() takes where it is host memory, else the allocator's handle."""
        view = self.as_memoryview()
        return self.handle if view is None else view

    def as_memoryview(self) -> memoryview | None:
        """The bytes of the buffer without a copy, as the host sees them; None where the host cannot."""
        if self.nbytes == 0:
            return memoryview(bytearray())
        handle = self.handle
        self.backend.synchronize()
        return self.backend.allocator.as_host(handle)

    def copy_in(self, source: memoryview) -> Buffer:
        """Fill the buffer with nbytes bytes from the host."""
        self._check(source)
        if self.nbytes:
            self.backend.allocator.copy_in(self.handle, source)
        return self

    def copy_out(self, target: memoryview) -> memoryview:
        """Copy the buffer into nbytes bytes of the host; waits for kernels that write it."""
        self._check(target)
        if self.nbytes:
            self.backend.allocator.copy_out(target, self.handle)
        return target

    def _check(self, view: memoryview) -> None:
        if view.nbytes != self.nbytes:
            raise ValueError(f"{self!r} has {self.nbytes} bytes, the host memory given has {view.nbytes}")

    def __repr__(self) -> str:
        return f"<buf real:{self.is_allocated()} device:{self.device} size:{self.size} dtype:{self.dtype!r} offset:0>"


_buffers: weakref.WeakKeyDictionary[UOp, Buffer] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def buffer_of(node: UOp) -> Buffer:
    """The Buffer of a BUFFER node, made (not allocated) when it is first asked for."""
    with _lock:
        buffer = _buffers.get(node)
        if buffer is None:
            if node.op is not Ops.BUFFER:
                raise ValueError(f"only a BUFFER node has memory, this is {node.op}")
            buffer = _buffers[node] = Buffer(node.src[0].arg, node.arg.size, node.dtype)
        return buffer


def realized(node: UOp) -> Buffer | None:
    """The Buffer of a BUFFER node if it has its memory, else None; of any other node None."""
    with _lock:
        buffer = _buffers.get(node)
    return buffer if buffer is not None and buffer.is_allocated() else None


def bind(node: UOp, buffer: Buffer) -> None:
    """Make buffer the memory of a BUFFER node."""
    if (buffer.device, buffer.size, buffer.dtype) != (node.src[0].arg, node.arg.size, node.dtype):
        raise ValueError(f"{buffer!r} does not fit a node of {node.arg.size} {node.dtype!r} on {node.src[0].arg}")
    with _lock:
        _buffers[node] = buffer


uop_table.memory_of = realized


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
