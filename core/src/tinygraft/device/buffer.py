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
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.pool import Allocation, Pool, note_lost, pool_of
from tinygraft.device.registry import Device, raise_noted
from tinygraft.dtype import DType
from tinygraft.errors import DeviceLostError
from tinygraft.events import MemoryEvent
from tinygraft.files import FilePart
from tinygraft.uop import uop as uop_table
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.device.timeline import Uses
    from tinygraft.device.transfers import CopyOperand


class Borrowed:
    """Memory that somebody else made: owner keeps it alive. It is no part of the pool and not counted.

    The owner is kept until the last launch that uses the memory has run.
    """

    __slots__ = ("owner", "pool", "uses")
    is_foreign = True

    def __init__(self, pool: Pool, owner: object) -> None:
        self.pool, self.owner = pool, owner
        self.uses: Uses | None = None

    def __del__(self) -> None:
        if (timeline := self.pool.timeline) is not None and not self.pool.lost:
            timeline.leave(self.owner, self.uses)


class Buffer:
    """size elements of dtype in the memory of a device. A buffer of no elements never allocates."""

    __module__ = "tinygraft.device"  # the place where people import it from, and which its type prints
    times_shared = 0  # how often memory was given to somebody who can write it
    __slots__ = ("__weakref__", "_block", "_handle", "_lease", "_lock", "_source", "device", "dtype", "filled",
                 "nbytes", "offset", "size")  # fmt: skip

    def __init__(self, device: str, size: int, dtype: DType) -> None:
        self.device, self.size, self.dtype = Device.canonicalize(device), size, dtype
        self.nbytes = size * dtype.itemsize
        self.filled = False  # whether it was made to hold data from Python
        self.offset = 0  # bytes into the memory that it is a part of
        self._handle: Handle = None
        self._block: Allocation | Borrowed | None = None
        self._lease: weakref.ref[Any] | None = None
        self._source: FilePart | None = None
        self._lock = threading.Lock()

    @property
    def backend(self) -> Backend:
        """The backend whose memory this is, opened when it is not open yet."""
        return Device[self.device]

    @property
    def block(self) -> Allocation | Borrowed | None:
        """The memory that this is a part of: it notes who used it. None where there is none yet."""
        return self._block

    def is_allocated(self) -> bool:
        """Whether the buffer has its memory."""
        return self._block is not None or self.nbytes == 0

    def allocate(self, briefly: bool = False) -> Buffer:
        """Get memory, unless the buffer has it. Raises DeviceMemoryError when the device is full.

        briefly says that it is soon given back, so that a much larger block may serve.
        """
        if self._block is None and self.nbytes:
            pool = pool_of(self.backend)
            with self._lock:
                if self._block is None:
                    try:
                        block = pool.take(self.nbytes, briefly)
                    except (Exception, SystemExit) as error:
                        raise_noted(error, f"taking {self.nbytes} bytes", self.device)
                    if self._source is not None:
                        _read(self._source, self.backend, block)
                        self._source = None
                    self._handle, self._block = block.handle, block
        return self

    def read_later(self, source: FilePart) -> Buffer:
        """Have the bytes of a file, read when the buffer gets its memory."""
        if source.nbytes != self.nbytes or self._block is not None:
            raise ValueError(f"{self!r} with {self.nbytes} bytes cannot be read from {source.nbytes} bytes of a file")
        self._source, self.filled = source, True
        return self

    @property
    def unread(self) -> FilePart | None:
        """The bytes of a file that this buffer has yet to read; None when it has them, or never will."""
        return self._source

    def deallocate(self) -> None:
        """Give the memory back, as soon as nobody else holds it; the buffer can be allocated again."""
        with self._lock:
            self._block = self._handle = self._lease = None
            self.offset = 0

    def lie_in(self, home: Buffer, offset: int) -> None:
        """Be a part of home, which gets its memory now, from offset bytes on; it stays as long as a part of it does.

        Raises ValueError when this buffer has memory of its own, or does not fit.
        """
        if self._block is not None or self.device != home.device or not 0 <= offset <= home.nbytes - self.nbytes:
            raise ValueError(f"{self!r} with {self.nbytes} bytes cannot lie at {offset} of {home.nbytes} in {home!r}")
        whole = home.handle
        with self._lock:
            is_all = self.nbytes == home.nbytes
            self._handle = whole if is_all else self.backend.allocator.view(whole, offset, self.nbytes)
            self._block, self.offset = home._block, offset

    def borrow(self, handle: Handle, owner: object) -> None:
        """Be memory that somebody else made, and that owner keeps alive."""
        with self._lock:
            self._handle, self._block = handle, Borrowed(pool_of(self.backend), owner)

    @property
    def handle(self) -> Handle:
        """What the allocator calls this memory; allocates. None for a buffer of no elements."""
        if self._block is None:
            self.allocate()
        block = self._block
        if block is not None and (block.pool.lost or block.pool.closed):
            raise DeviceLostError(block.pool.why_lost())
        return self._handle

    @property
    def _buf(self) -> Any:
        """The memory itself: something memoryview() takes where it is host memory, else the allocator's handle."""
        view = self.share()
        return self.handle if view is None else view

    def as_memoryview(self) -> memoryview | None:
        """The bytes of the buffer without a copy, as the host sees them; None where the host cannot.

        It is for a look at once: the memory may be used again when the buffer is gone. `share` gives one to keep.
        """
        if self.nbytes == 0:
            return memoryview(bytearray())
        handle = self.handle
        wait_for(self.backend)
        return self.backend.allocator.as_host(handle)

    def share(self) -> memoryview | None:
        """The bytes without a copy, as as_memoryview gives them; the memory is not used again while they are held."""
        view = self.as_memoryview()
        if view is None or not self.nbytes:
            return view
        Buffer.times_shared += 1
        lease = self._lease() if self._lease is not None else None
        if lease is None:
            from ctypes import c_ubyte

            lease = (c_ubyte * self.nbytes).from_buffer(view)
            lease.block = block = self._block  # type: ignore[attr-defined]
            self._lease = weakref.ref(lease)
            if isinstance(block, Allocation):
                block.lease = self._lease
        return memoryview(lease).cast("B")

    def is_shared(self) -> bool:
        """Whether somebody holds what share gave."""
        return self._lease is not None and self._lease() is not None

    def may_change(self) -> bool:
        """Whether somebody else can write the memory: it is shared, or it is theirs."""
        return self.is_shared() or isinstance(self._block, Borrowed)

    def copy_in(self, source: memoryview) -> Buffer:
        """Fill the buffer with nbytes bytes from the host."""
        self._check(source)
        if self.nbytes:
            try:
                if (backend := self.backend).timeline is None:
                    backend.allocator.copy_in(self.handle, source)
                else:
                    _late().write(self._operand(), source)
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"writing {self.nbytes} bytes", self.device)
            if events.on_memory:
                self._tell_copy()
        return self

    def copy_out(self, target: memoryview) -> memoryview:
        """Copy the buffer into nbytes bytes of the host; waits for kernels that write it."""
        self._check(target)
        if self.nbytes:
            try:
                if (backend := self.backend).timeline is None:
                    backend.allocator.copy_out(target, self.handle)
                else:
                    _late().read(target, self._operand())
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"reading {self.nbytes} bytes", self.device)
            if events.on_memory:
                self._tell_copy()
        return target

    def copy_from(self, source: Buffer) -> Buffer:
        """Fill the buffer with another one of its size: within a device, or as the backend takes it from a peer."""
        if self.nbytes:
            try:
                here, there = self.backend, source.backend
                if here.timeline is not None or there.timeline is not None:
                    _late().transfer(self._operand(), source._operand())
                elif here is there:
                    here.synchronize()
                    here.allocator.copy(self.handle, source.handle, self.nbytes)
                else:
                    here.copy_from(self.handle, there, source.handle, self.nbytes)
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"copying {self.nbytes} bytes from {source.device}", self.device)
            if events.on_memory:
                self._tell_copy()
        return self

    def _operand(self) -> CopyOperand:
        handle, block = self.handle, self._block
        assert block is not None
        return _late().CopyOperand(self.backend, handle, block, self.nbytes)  # type: ignore[no-any-return]

    def _tell_copy(self) -> None:
        pool = pool_of(self.backend)
        event = MemoryEvent(action="copy", device=self.device, bytes=self.nbytes, used=pool.used, kept=pool.kept)
        events.tell(event)

    def _check(self, view: memoryview) -> None:
        if view.nbytes != self.nbytes:
            raise ValueError(f"{self!r} has {self.nbytes} bytes, the host memory given has {view.nbytes}")

    def __repr__(self) -> str:
        real = self.is_allocated()
        return f"<buf real:{real} device:{self.device} size:{self.size} dtype:{self.dtype!r} offset:{self.offset}>"


def wait_for(backend: Backend) -> None:
    """Wait until everything that was launched has run. Raises DeviceLostError, after which nothing there is read."""
    try:
        if backend.timeline is None:
            backend.synchronize()
        else:
            backend.timeline.synchronize()
    except DeviceLostError as error:
        note_lost(error, backend)
        raise


def _read(source: FilePart, backend: Backend, block: Allocation) -> None:
    """The bytes of a file into memory, through the host where they cannot be read into it."""
    view = backend.allocator.as_host(block.handle)
    if view is not None:
        wait_for(backend)  # a kernel that was launched before may still use this memory
        source.read_into(view[: source.nbytes])
        return
    data = memoryview(bytearray(source.nbytes))
    source.read_into(data)
    if backend.timeline is None:
        backend.allocator.copy_in(block.handle, data)
    else:
        _late().write(_late().CopyOperand(backend, block.handle, block, source.nbytes), data)


def _late() -> Any:
    """The module of copies on devices that do not wait for them; few devices need it."""
    from tinygraft.device import transfers

    return transfers


_buffers: dict[int, Buffer] = {}  # by the number of the BUFFER node; goes when the node does
_lock = threading.RLock()


def buffer_of(node: UOp) -> Buffer:
    """The Buffer of a BUFFER node, made (not allocated) when it is first asked for."""
    if node.op is not Ops.BUFFER:
        raise ValueError(f"only a BUFFER node has memory, this is {node.op}")
    buffer = _buffers.get(node.arg.uid)
    if buffer is None:
        with _lock:
            buffer = _buffers.get(node.arg.uid)
            if buffer is None:
                buffer = _buffers[node.arg.uid] = Buffer(node.src[0].arg, node.arg.size, node.dtype)
    return buffer


def unread(node: UOp) -> FilePart | None:
    """The bytes of a file that the Buffer of a BUFFER node has yet to read; None of any other node."""
    buffer = _buffers.get(node.arg.uid) if node.op is Ops.BUFFER else None
    return None if buffer is None else buffer.unread


def realized(node: UOp) -> Buffer | None:
    """The Buffer of a BUFFER node if it has its memory, else None; of any other node None."""
    buffer = _buffers.get(node.arg.uid) if node.op is Ops.BUFFER else None
    return buffer if buffer is not None and buffer.is_allocated() else None


def bind(node: UOp, buffer: Buffer) -> None:
    """Make buffer the memory of a BUFFER node."""
    if (buffer.device, buffer.size, buffer.dtype) != (node.src[0].arg, node.arg.size, node.dtype):
        raise ValueError(f"{buffer!r} does not fit a node of {node.arg.size} {node.dtype!r} on {node.src[0].arg}")
    with _lock:
        _buffers[node.arg.uid] = buffer


def _forget(uid: int) -> None:
    _buffers.pop(uid, None)


uop_table.memory_of, uop_table.forget_memory = realized, _forget


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
