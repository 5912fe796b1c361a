"""Buffer: the memory of some elements on a device, and the table from BUFFER nodes to their buffers.

A Buffer gets memory when something first needs it; the memory is freed when nothing refers to it any more.

>>> from tinygraft.dtype import dtypes
>>> Buffer("PYTHON", 100, dtypes.float32)
<buf real:False device:PYTHON size:100 dtype:dtypes.float offset:0>
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.pool import Allocation, Pool, note_lost, pool_of
from tinygraft.device.registry import Device, raise_noted
from tinygraft.dtype import DType
from tinygraft.errors import DeviceLostError
from tinygraft.events import MemoryEvent
from tinygraft.files import FilePart
from tinygraft.interrupt import come_again
from tinygraft.uop import uop as uop_table
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.device.timeline import Uses
    from tinygraft.device.transfers import CopyOperand


class Borrowed:
    """Memory that is not of the pool and not counted: `owner` is the object that made it and keeps it alive.

    The owner is retained until the last launch that uses the memory has run.
    """

    pool: Pool
    owner: object

    __slots__ = ("owner", "pool", "uses")
    is_foreign = True

    def __init__(self, pool: Pool, owner: object) -> None:
        self.pool, self.owner = pool, owner
        self.uses: Uses | None = None

    def __del__(self) -> None:
        try:
            self._release()
        except KeyboardInterrupt:  # Python drops exceptions of finalisers: raise it later
            self._release()
            come_again()

    def _release(self) -> None:
        if (timeline := self.pool.timeline) is not None and not self.pool.lost:
            timeline.release_later(self.owner, self.uses)


class Lent:
    """Memory that another library on the device uses: where it is, and what has to stay as long as this is held."""

    address: int
    block: Allocation | Borrowed | None

    __slots__ = ("__weakref__", "address", "block")

    def __init__(self, address: int, block: Allocation | Borrowed | None) -> None:
        self.address, self.block = address, block


class Buffer:
    """`size` elements of `dtype` in the memory of a device. A buffer of no elements never allocates.

    `filled` says that it was made to hold data from Python; `offset` is its offset in the block that it is a part of.
    """

    size: int
    dtype: DType
    filled: bool
    offset: int
    device: str

    __module__ = "tinygraft.device"  # where people import it from, and what its type prints
    times_shared: int = (
        0  # how often memory was lent (`share`, `lend`): what was cached of values before may be out of date
    )
    __slots__ = ("__weakref__", "_block", "_handle", "_lease", "_lent", "_lock", "_source", "device", "dtype", "filled",
                 "nbytes", "offset", "size")  # fmt: skip

    def __init__(self, device: str, size: int, dtype: DType) -> None:
        self.device, self.size, self.dtype = Device.canonicalize(device), size, dtype
        self.nbytes: int = size * dtype.itemsize
        self.filled = False
        self.offset = 0  # in bytes
        self._handle: Handle = None
        self._block: Allocation | Borrowed | None = None
        self._lease: weakref.ref[Any] | None = None
        self._lent: Lent | None = None
        self._source: FilePart | None = None
        self._lock = threading.Lock()

    @property
    def backend(self) -> Backend:
        """Return the backend whose memory this is. Opens it where it is not open yet; raises DeviceUnavailable."""
        return Device[self.device]

    @property
    def block(self) -> Allocation | Borrowed | None:
        """Return the allocation that this is a part of, which records which queues use it; None before there is one."""
        return self._block

    def is_allocated(self) -> bool:
        """Return whether the buffer has its memory, or needs none."""
        return self._block is not None or self.nbytes == 0

    def allocate(self, briefly: bool = False) -> Buffer:
        """Get memory, unless the buffer has it; read the file of `read_later` into it. Returns the buffer.

        `briefly` says that the memory is soon freed, so that a cached block much larger than needed may be used. Raises
        DeviceMemoryError when the device is full, DeviceLostError when the backend is lost or closed.
        """
        if self._block is None and self.nbytes:
            backend = Device[self.device]
            pool: Pool = backend.core_pool or pool_of(backend)
            with self._lock:
                if self._block is None:
                    try:
                        block = pool.take(self.nbytes, briefly)
                    except (Exception, SystemExit) as error:
                        raise_noted(error, f"taking {self.nbytes} bytes", self.device)
                    if self._source is not None:
                        _read(self._source, backend, block)
                        self._source = None
                    self._handle, self._block = block.handle, block
        return self

    def read_later(self, source: FilePart) -> Buffer:
        """Fill the buffer from a part of a file, which is read when the buffer gets its memory. Returns the buffer.

        Raises ValueError when `source` has another number of bytes, or the buffer has memory already.
        """
        if source.nbytes != self.nbytes or self._block is not None:
            raise ValueError(f"{self!r} with {self.nbytes} bytes cannot be read from {source.nbytes} bytes of a file")
        self._source, self.filled = source, True
        return self

    @property
    def unread(self) -> FilePart | None:
        """Return the part of a file that is still to be read into this buffer; None where nothing is."""
        return self._source

    def deallocate(self) -> None:
        """Drop the memory, which is freed when nothing else refers to it; the buffer can be allocated again."""
        with self._lock:
            self._block = self._handle = self._lease = self._lent = None
            self.offset = 0

    def suballocate(self, base: Buffer, offset: int) -> None:
        """Let this buffer be the bytes of `base` from `offset` on, which allocates `base`.

        The memory of `base` is retained as long as a buffer is a part of it. Raises ValueError when this buffer has
        memory already, is on another device, or does not fit.
        """
        if self._block is not None or self.device != base.device or not 0 <= offset <= base.nbytes - self.nbytes:
            raise ValueError(f"{self!r} with {self.nbytes} bytes cannot be at {offset} of {base.nbytes} in {base!r}")
        whole = base.handle
        with self._lock:
            is_all = self.nbytes == base.nbytes
            self._handle = whole if is_all else self.backend.allocator.view(whole, offset, self.nbytes)
            self._block, self.offset = base._block, base.offset + offset

    def borrow(self, handle: Handle, owner: object) -> None:
        """Let this buffer be borrowed memory: `handle`, as its allocator knows it, which lives as long as `owner`."""
        with self._lock:
            self._handle, self._block = handle, Borrowed(pool_of(self.backend), owner)

    def region(self) -> tuple[Hashable, int, int] | None:
        """Return which block of the pool this memory is in, and from which byte of it to which.

        None for memory of other libraries, of which two buffers may have the same bytes.
        """
        _ = self.handle
        if isinstance(self._block, Borrowed):
            return None
        return id(self._block), self.offset, self.offset + self.nbytes

    @property
    def handle(self) -> Handle:
        """Return the allocator's handle of this memory, which is allocated now; None for a buffer of no elements.

        Raises DeviceLostError when the backend is lost or closed.
        """
        if self._block is None:
            self.allocate()
        block = self._block
        if block is not None and (block.pool.lost or block.pool.closed):
            raise DeviceLostError(block.pool.why_lost())
        return self._handle

    @property
    def _buf(self) -> Any:
        """Return a memoryview of the memory where the host sees it, else the allocator's handle; for scripts."""
        view = self.share()
        return self.handle if view is None else view

    def as_memoryview(self) -> memoryview | None:
        """Wait for the device, and return the bytes without a copy; None where the host cannot see them.

        The view is for immediate use: the memory may be reused when the buffer is gone. `share` lends one to keep.
        """
        if self.nbytes == 0:
            return memoryview(bytearray())
        handle = self.handle
        wait_for(self.backend)
        return self.backend.allocator.as_host(handle)

    def share(self) -> memoryview | None:
        """Lend the memory: `as_memoryview`, whose memory the pool does not reuse while the result is referred to.

        It is None where the host does not see the memory.
        """
        view = self.as_memoryview()
        if view is None or not self.nbytes:
            return view
        Buffer.times_shared += 1
        lease = self._lease() if self._lease is not None else None
        if lease is None:
            from ctypes import c_ubyte

            # a ctypes array can be weakly referred to and have attributes; a memoryview has neither
            lease = (c_ubyte * self.nbytes).from_buffer(view)
            lease.block = block = self._block  # type: ignore[attr-defined]
            self._lease = weakref.ref(lease)
            if isinstance(block, Allocation):
                block.lease = self._lease
        return memoryview(lease).cast("B")

    def lend(self, for_good: bool = False) -> Lent:
        """Say where the memory is to another library on its device; it is not used again while what this gives is held.

        With `for_good` it is held as long as the buffer is. Raises UnsupportedError where memory has no addresses.
        """
        address = self.backend.allocator.address(self.handle)
        Buffer.times_shared += 1
        lent = self._lease() if self._lease is not None else None
        if lent is None:
            lent = Lent(address, block := self._block)
            self._lease = weakref.ref(lent)
            if isinstance(block, Allocation):
                block.lease, block.was_lent = self._lease, True
        if for_good:
            self._lent = lent
        return lent

    def is_shared(self) -> bool:
        """Return whether the memory is lent: whether a result of `share` or `lend` is still referred to."""
        return self._lease is not None and self._lease() is not None

    def may_change(self) -> bool:
        """Return whether other code than the runtime's can write the memory: it is lent or borrowed."""
        return self.is_shared() or isinstance(self._block, Borrowed)

    def copy_in(self, source: memoryview) -> Buffer:
        """Fill the buffer with `source`, which has its number of bytes. Returns the buffer.

        Allocates memory if there is none yet. On a device with queues the copy may still run on return; `source` may be
        changed then. Raises ValueError for another number of bytes, and what the device raises, with a note of what
        was being done.
        """
        if source.nbytes != self.nbytes:
            self._refuse(source)
        if self.nbytes:
            try:
                if (backend := Device[self.device]).timeline is None:
                    backend.allocator.copy_in(self.handle, source)
                else:
                    _transfers().write(self._operand(), source)
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"writing {self.nbytes} bytes", self.device)
            if events.on_memory:
                self._report_copy()
        return self

    def copy_out(self, target: memoryview) -> memoryview:
        """Wait for kernels that write the buffer, and copy it to `target`, which has its number of bytes.

        Returns `target`. Raises ValueError for another number of bytes.
        """
        if target.nbytes != self.nbytes:
            self._refuse(target)
        if self.nbytes:
            try:
                if (backend := Device[self.device]).timeline is None:
                    backend.allocator.copy_out(target, self.handle)
                else:
                    _transfers().read(target, self._operand())
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"reading {self.nbytes} bytes", self.device)
            if events.on_memory:
                self._report_copy()
        return target

    def copy_from(self, source: Buffer) -> Buffer:
        """Fill the buffer with the bytes of `source`, a buffer of its size on any device. Returns the buffer.

        What the plugin raises is raised with a note; after a DeviceLostError the pool counts as lost.
        """
        if self.nbytes:
            try:
                here, there = self.backend, source.backend
                if here.timeline is not None or there.timeline is not None:
                    _transfers().transfer(self._operand(), source._operand())
                elif here is there:
                    here.synchronize()
                    here.allocator.copy(self.handle, source.handle, self.nbytes)
                else:
                    here.copy_from(self.handle, there, source.handle, self.nbytes)
            except (Exception, SystemExit) as error:
                note_lost(error, self.backend)
                raise_noted(error, f"copying {self.nbytes} bytes from {source.device}", self.device)
            if events.on_memory:
                self._report_copy()
        return self

    def _operand(self) -> CopyOperand:
        """Return the memory of this buffer for a copy; it is allocated where it was not."""
        handle, block = self.handle, self._block
        assert block is not None
        return _transfers().CopyOperand(self.backend, handle, block, self.nbytes)  # type: ignore[no-any-return]

    def _report_copy(self) -> None:
        """Notify observers of memory of a copy into this buffer."""
        pool = pool_of(self.backend)
        event = MemoryEvent(action="copy", device=self.device, bytes=self.nbytes, used=pool.used, kept=pool.kept)
        events.notify(event)

    def _refuse(self, view: memoryview) -> None:
        """Raise ValueError for host memory that has not as many bytes as this buffer."""
        raise ValueError(f"{self!r} has {self.nbytes} bytes, the host memory given has {view.nbytes}")

    def __repr__(self) -> str:
        real = self.is_allocated()
        return f"<buf real:{real} device:{self.device} size:{self.size} dtype:{self.dtype!r} offset:{self.offset}>"


def wait_for(backend: Backend) -> None:
    """Wait until everything that was launched has run.

    Raises DeviceLostError, and marks the pool as lost, so that nothing on the backend is read any more.
    """
    try:
        if backend.timeline is None:
            backend.synchronize()
        else:
            backend.timeline.synchronize()
    except DeviceLostError as error:
        note_lost(error, backend)
        raise


def _read(source: FilePart, backend: Backend, block: Allocation) -> None:
    """Read a part of a file into a block, through host memory where the host does not see the block."""
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
        _transfers().write(_transfers().CopyOperand(backend, block.handle, block, source.nbytes), data)


def _transfers() -> Any:
    """Return the module of copies on asynchronous devices. Imported when it is needed, since few devices do."""
    from tinygraft.device import transfers

    return transfers


_buffers: dict[int, Buffer] = {}  # by the uid of the BUFFER node; an entry is removed with its node
_lock = threading.RLock()


def buffer_of(node: UOp) -> Buffer:
    """Return the Buffer of a BUFFER node, made (not allocated) by the first call. Raises ValueError for other nodes."""
    if node.op is not Ops.BUFFER:
        raise ValueError(f"only a BUFFER node has memory, this is {node.op}")
    buffer = _buffers.get(node.arg.uid)
    if buffer is None:
        with _lock:
            buffer = _buffers.get(node.arg.uid)
            if buffer is None:
                buffer = _buffers[node.arg.uid] = Buffer(node.src[0].arg, node.arg.size, node.dtype)
    return buffer


def new_buffer(device: str, size: int, dtype: DType) -> tuple[UOp, Buffer]:
    """Return a new BUFFER node and its Buffer, which is not allocated; `device` is a canonical name."""
    node = UOp.buffer(device, size, dtype)
    buffer = _buffers[node.arg.uid] = Buffer(device, size, dtype)
    return node, buffer


def unread(node: UOp) -> FilePart | None:
    """Return the part of a file that the Buffer of a BUFFER node has yet to read; None of any other node."""
    buffer = _buffers.get(node.arg.uid) if node.op is Ops.BUFFER else None
    return None if buffer is None else buffer.unread


def realized(node: UOp) -> Buffer | None:
    """Return the Buffer of a BUFFER node if it has its memory, else None; of any other node None."""
    buffer = _buffers.get(node.arg.uid) if node.op is Ops.BUFFER else None
    return buffer if buffer is not None and buffer.is_allocated() else None


def bind(node: UOp, buffer: Buffer) -> None:
    """Make `buffer` the memory of a BUFFER node. Raises ValueError where device, size or dtype differ."""
    if (buffer.device, buffer.size, buffer.dtype) != (node.src[0].arg, node.arg.size, node.dtype):
        raise ValueError(f"{buffer!r} does not fit a node of {node.arg.size} {node.dtype!r} on {node.src[0].arg}")
    with _lock:
        _buffers[node.arg.uid] = buffer


def _forget(uid: int) -> None:
    """Drop the buffer of a BUFFER node that was freed."""
    _buffers.pop(uid, None)


uop_table.memory_of, uop_table.forget_memory = realized, _forget


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
