"""StagedMemory: memory that the host does not see, copied to the host and back in pieces, beside what is on the wire.

While one piece is sent the next one is copied to pinned memory of the host, and the result of the one before is copied
back, by the copies of a device with queues. On other devices each copy waits, and pieces only save memory of the host.
"""

from __future__ import annotations

from typing import Any

from tinygraft.collectives.pieces import RankMemory
from tinygraft.collectives.rank_sums import RankArray
from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.queues import Event
from tinygraft.device.timeline import turn
from tinygraft.errors import UnsupportedError

PIECE = 4 << 20  # assumed: bytes of a piece, of which a few are in flight; a message of MPI costs microseconds
ALIGNED = 4096  # assumed: a multiple of the alignment of each device, as the ranks agree on one size


class StagedMemory(RankMemory):
    """Operand and result of a collective in buffers of `backend`: handles of (senders, columns), (receivers, columns).

    `bits` is the dtype of NumPy for an element.
    """

    def __init__(
        self, backend: Backend, source: Handle, target: Handle, rows: tuple[int, int], columns: int, bits: Any
    ):
        self.backend, self.source, self.target, self.bits = backend, source, target, bits
        self.senders: int = rows[0]
        self.receivers: int = rows[1]
        self.columns: int = columns
        self.size: int = bits.itemsize
        most = max(ALIGNED // self.size, PIECE // (max(rows) * self.size) // ALIGNED * ALIGNED)
        if columns > most and (max(rows) == 1 or columns * self.size % ALIGNED == 0):
            self.wanted = most
        self._read: dict[int, tuple[memoryview, Event]] = {}
        self._written: dict[int, memoryview] = {}

    def begin(self, first: int, last: int) -> None:
        """Let the queue copy the columns to pinned memory."""
        count = (last - first) * self.size
        block = self._block(self.senders * count)
        event = self._copies(self.source, self.senders, block, first, count, out=True)
        self._read[first] = block, event

    def operand(self, first: int, last: int) -> RankArray:
        """Wait for the copy, and return it."""
        block, event = self._read[first]
        timeline = self.backend.timeline
        event.wait() if timeline is None else timeline.wait(event)
        return self._array(block, self.senders, last - first)

    def room(self, first: int, last: int) -> RankArray:
        """Return pinned memory."""
        block = self._written[first] = self._block(self.receivers * (last - first) * self.size)
        return self._array(block, self.receivers, last - first)

    def put(self, first: int, last: int, result: RankArray) -> None:
        """Let the queue copy the columns back."""
        block = self._written.pop(first)
        event = self._copies(self.target, self.receivers, block, first, (last - first) * self.size, out=False)
        self._return(block, event)
        self._return(*self._read.pop(first))

    def end(self) -> None:
        """Wait for the device, which may still copy. Raises DeviceLostError."""
        self._read.clear()
        self._written.clear()
        timeline = self.backend.timeline
        self.backend.synchronize() if timeline is None else timeline.synchronize()

    def _copies(self, handle: Handle, rows: int, block: memoryview, first: int, count: int, out: bool) -> Event:
        """Copy `count` bytes of each row, from column `first` on, to `block` or from it. Returns an event after."""
        queue, timeline = self.backend.queue, self.backend.timeline
        whole = count == self.columns * self.size
        event = Event()
        with turn():
            for row in range(1 if whole else rows):
                size = rows * count if whole else count
                part = block[row * count : row * count + size]
                place = handle if whole else self._view(handle, (row * self.columns + first) * self.size, size)
                event = queue.copy_out(part, place) if out else queue.copy_in(place, part)
                if timeline is not None:
                    timeline.ran(queue, f"copy of {size} bytes {'to' if out else 'from'} the host, for other ranks")
            queue.submit()
        return event

    def _view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Return the memory of a buffer from `offset` on."""
        return self.backend.allocator.view(handle, offset, nbytes)

    def _block(self, nbytes: int) -> memoryview:
        """Return pinned memory, perhaps more than that."""
        timeline = self.backend.timeline
        return self.backend.allocator.alloc_host(nbytes) if timeline is None else timeline.staging(nbytes)

    def _return(self, block: memoryview, event: Event) -> None:
        """Let pinned memory be used again after an event."""
        if (timeline := self.backend.timeline) is not None:
            timeline.staged(block, event)

    def _array(self, block: memoryview, rows: int, columns: int) -> RankArray:
        """Return the start of a block as an array."""
        import numpy as np

        return np.frombuffer(block, self.bits, rows * columns).reshape(rows, columns)


def has_views(backend: Backend, handle: Handle) -> bool:
    """Return whether a backend can copy parts of a buffer, which pieces need."""
    try:
        backend.allocator.view(handle, 0, 1)
    except UnsupportedError:
        return False
    return True
