"""Batches on their way between processes: small parts in a pickle, large ones in shared memory that is used again.

A worker writes a parcel, the process that asked for it opens it. Arrays that become Tensors are copied once, from the
shared memory to the device's; all others have memory of their own after that.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from tinygraft.nn.data.collate import as_tensors
from tinygraft.uop.uop import Place

_ALIGNMENT = 64  # bytes, given: what kernels and copies like
_INLINE = 1 << 15  # bytes, assumed: below that a pipe is as fast
_NONE = pickle.dumps(None)


@dataclass(frozen=True)
class Parcel:
    """A batch: its pickle, where its buffers are (offset, size), and the shared memory, or else the bytes themselves.

    The first `arrays` buffers become Tensors. `dropped` is shared memory that its worker does not use any more.
    """

    pickled: bytes
    places: list[tuple[int, int]]
    arrays: int
    segment: str | None
    inline: bytes
    dropped: str | None
    is_full: bool


class _BatchPickler(pickle.Pickler):
    """Leaves arrays out that become Tensors: their bytes are in `arrays`, and other large buffers in `others`.

    Without `tensors` no array becomes one: all are pickled.
    """

    def __init__(self, file: Any, tensors: bool) -> None:
        self.arrays: list[Any] = []
        self.others: list[Any] = []
        super().__init__(file, protocol=5, buffer_callback=lambda buffer: self.others.append(buffer.raw()))
        self._tensors = tensors

    def persistent_id(self, value: Any) -> Any:
        """Return the index in `arrays`, dtype and shape of an array of numbers; None for what is pickled."""
        if not self._tensors or type(value) is not np.ndarray or value.dtype.kind not in "biufc":
            return None
        self.arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return len(self.arrays) - 1, value.dtype.str, value.shape


class _BatchUnpickler(pickle.Unpickler):
    """Makes Tensors of the arrays that were left out. It reads what our own workers have written, and nothing else."""

    def __init__(self, pickled: bytes, arrays: Sequence[memoryview], others: Sequence[Any], device: Place) -> None:
        super().__init__(io.BytesIO(pickled), buffers=others)
        self._arrays, self._device = arrays, device

    def persistent_load(self, pid: Any) -> Any:
        """Return the Tensor of the array (index, dtype, shape) `pid`, whose values are copied."""
        place, dtype, shape = pid
        return as_tensors(np.frombuffer(self._arrays[place], dtype).reshape(shape), self._device)


class ParcelWriter:
    """The worker's side: the shared memory that it has made, by name."""

    def __init__(self) -> None:
        self._segments: dict[str, SharedMemory] = {}

    def write(self, batch: Any, tensors: bool, free: str | None) -> Parcel:
        """Return a parcel of a batch, whose large buffers are in shared memory where the system has room for it.

        With `tensors` arrays of numbers are to become Tensors. `free` is shared memory of this worker that is not read
        any more and may be written again.
        """
        file = io.BytesIO()
        pickler = _BatchPickler(file, tensors)
        pickler.dump(batch)
        buffers = [*pickler.arrays, *pickler.others]
        places, size = [], 0
        for buffer in buffers:
            places.append((size, buffer.nbytes))
            size += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        segment, dropped = (None, None) if size < _INLINE else self._segment(size, free)
        inline = bytearray(size if segment is None else 0)
        target = memoryview(inline) if segment is None else _memory(segment)
        for (offset, count), buffer in zip(places, buffers, strict=True):
            target[offset : offset + count] = buffer
        name = None if segment is None else segment.name
        is_full = name is None and size >= _INLINE
        return Parcel(file.getvalue(), places, len(pickler.arrays), name, bytes(inline), dropped, is_full)

    def _segment(self, size: int, free: str | None) -> tuple[SharedMemory | None, str | None]:
        """Return shared memory of at least `size` bytes, None where there is no room; and the name of what it replaces.

        It is that of the name `free` where that is large enough.
        """
        old = self._segments.get(free) if free is not None else None
        if old is not None and old.size >= size:
            return old, None
        if old is not None:
            del self._segments[old.name]
            old.close()
        made = _reserved(size + size // 4)
        if made is not None:
            self._segments[made.name] = made
        return made, None if old is None else old.name

    def close(self) -> None:
        """Remove the shared memory of parcels that are not opened any more."""
        for segment in self._segments.values():
            _remove(segment)
        self._segments.clear()


def _reserved(size: int) -> SharedMemory | None:
    """Return new shared memory whose pages there are: without them a write would end the process by a signal.

    None where the system has no room.
    """
    try:
        made = SharedMemory(create=True, size=size)
    except OSError:
        return None
    number = getattr(made, "_fd", -1)
    if number >= 0 and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(number, 0, size)
        except OSError:
            made.close()
            made.unlink()
            return None
    return made


def _memory(segment: SharedMemory) -> memoryview:
    """Return the bytes of shared memory that is not closed."""
    assert segment.buf is not None  # it is, until the segment is closed
    return segment.buf


def _remove(segment: SharedMemory) -> None:
    """Remove shared memory; the other side may have done so."""
    with contextlib.suppress(BufferError):
        segment.close()
    with contextlib.suppress(FileNotFoundError):
        segment.unlink()


class ParcelReader:
    """The other side: the shared memory of one worker by name, which is removed by `close`.

    `free` has the names of what may be written again.
    """

    def __init__(self) -> None:
        self._segments: dict[str, SharedMemory] = {}
        self.free: list[str] = []

    def read(self, parcel: Parcel, device: Place) -> Any:
        """Return the batch of a parcel, its Tensors on `device`; its shared memory is free after that."""
        if parcel.dropped is not None:
            self._forget(parcel.dropped)
        if parcel.segment is None:
            return self._opened(parcel, memoryview(parcel.inline), device)
        if parcel.segment not in self._segments:
            self._segments[parcel.segment] = SharedMemory(parcel.segment)
        try:
            return self._opened(parcel, _memory(self._segments[parcel.segment]), device)
        finally:
            self.free.append(parcel.segment)

    def skip(self, parcel: Parcel) -> None:
        """Make the shared memory of a parcel free without opening its batch."""
        self.read(replace(parcel, pickled=_NONE, places=[], arrays=0), None)

    def _opened(self, parcel: Parcel, memory: memoryview, device: Place) -> Any:
        """Return the batch of a parcel whose buffers are in `memory`; all of them are copied."""
        with contextlib.ExitStack() as views:
            parts = [views.enter_context(memory[offset : offset + size]) for offset, size in parcel.places]
            others = [bytearray(part) for part in parts[parcel.arrays :]]
            return _BatchUnpickler(parcel.pickled, parts[: parcel.arrays], others, device).load()

    def _forget(self, name: str) -> None:
        """Close and remove shared memory by its name; nothing where it is not known."""
        segment = self._segments.pop(name, None)
        if segment is not None:
            _remove(segment)

    def close(self) -> None:
        """Remove all shared memory of the worker that is known here."""
        for name in list(self._segments):
            self._forget(name)
        self.free.clear()
