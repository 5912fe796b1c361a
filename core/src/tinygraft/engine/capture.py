"""Recording what runs: every launch in this thread while a capture is open, for TinyJit to run it again.

    with capturing() as capture:
        ...
    capture.launches, capture.memory, capture.values

A capture keeps no memory alive that a run without it would have freed: of a buffer it records size, dtype and device,
and a weak reference. Buffers with data from Python are the exception: nothing else could provide that data again.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import Buffer
from tinygraft.dtype import DType
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.engine.own_numbers import Compiled
    from tinygraft.engine.tape_entry import TapeEntry


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch of a kernel, or a copy where `kernel` is None, on buffers by the ids of their BUFFER nodes.

    A copy has two buffers, its target and its source. Ids grow with time. `saves` says that it copies an old value
    that is about to be overwritten and still has readers. `origins` are the lines of the user that it computes, while a
    recording is on (origins.py).
    """

    kernel: Compiled | None
    device: str
    uids: tuple[int, ...]
    saves: bool = False
    origins: tuple[Any, ...] = field(default=(), compare=False)

    def written(self) -> tuple[int, ...]:
        """Return the ids of the buffers that it writes."""
        if self.kernel is None:
            return self.uids[:1]
        params = self.kernel.signature.params
        return tuple([uid for uid, param in zip(self.uids, params, strict=True) if param.written])


@dataclass(frozen=True, slots=True)
class CapturedMemory:
    """The device, size and dtype of a captured buffer, and a weak reference to it.

    `data` is the buffer itself where it has data from Python, which the capture retains.
    """

    device: str
    size: int
    dtype: DType
    buffer: weakref.ref[Buffer]
    data: Buffer | None


@dataclass(slots=True)
class Capture:
    """The launches of everything that ran in this thread while the capture was open.

    `values` are those of variables by name. `memory` and `nodes` have, by id, each buffer and a weak reference to its
    BUFFER node, which is dead when the value is. `existing` has the tensors that existed when the capture was opened,
    with their nodes, by the `id` of the tensor; `pinned` has those of them that stay lazy, and whose values were
    computed on the way. `read` says that Python has read a value, which may decide what it does next; `varied` that a
    variable had two values, in launches or in one expression. `others` says that the function was called with other
    arguments before: numbers that differ are arguments of kernels then, each launch with its own. BUFFERs and times
    above `start` are of the block.
    """

    start: int = field(default_factory=UOp.next_buffer)
    launches: list[Recorded] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    memory: dict[int, CapturedMemory] = field(default_factory=dict)
    nodes: dict[int, weakref.ref[UOp]] = field(default_factory=dict)
    existing: dict[int, tuple[weakref.ref[Any], weakref.ref[UOp]]] = field(default_factory=dict)
    pinned: dict[int, weakref.ref[Any]] = field(default_factory=dict)
    read: bool = False
    why_read: str = ""  # what read it, and where
    varied: bool = False
    others: bool = False
    realised: list[int] = field(default_factory=list)  # of each launch, the number of the realisation that made it
    count: int = 0  # of realisations that have begun

    def existed(self, tensor: object) -> bool:
        """Return whether `tensor` existed when the capture was opened."""
        entry = self.existing.get(id(tensor))
        return entry is not None and entry[0]() is tensor

    def add(self, launch: Recorded, buffers: Sequence[Buffer]) -> None:
        """Record a launch on `buffers`, which are those of `launch.uids`, and in `memory` those that are new here."""
        self.launches.append(launch)
        self.realised.append(self.count)
        for uid, b in zip(launch.uids, buffers, strict=True):
            if uid not in self.memory:
                self.memory[uid] = CapturedMemory(b.device, b.size, b.dtype, weakref.ref(b), b if b.filled else None)


class _Open(threading.local):
    captures: tuple[Capture, ...] = ()


_open = _Open()


def open_captures() -> tuple[Capture, ...]:
    """Return the open captures of this thread, the outermost first."""
    return _open.captures


def note_read(what: str = "") -> None:
    """Record in the captures of this thread that Python reads a value; the first `what`, a sentence, says where."""
    for capture in _open.captures:
        capture.read, capture.why_read = True, capture.why_read or what


def note_backward(entries: Iterable[TapeEntry]) -> None:
    """Record in the captures of this thread that a backward went through entries of the tape.

    What is on the tape of a value from before a capture may be another graph in the next call, though the memory is
    the same: it decides what is computed, as a value that Python reads does.
    """
    for capture in _open.captures:
        if any(entry.at <= capture.start for entry in entries):
            capture.read = True
            capture.why_read = capture.why_read or "it goes backward through what was computed before it was called"


def note_realisation() -> None:
    """Record in the captures of this thread that a realisation begins: launches up to the next one are of it."""
    for capture in _open.captures:
        capture.count += 1


def note_varied() -> None:
    """Record in the captures of this thread that a variable has two values in one schedule."""
    for capture in _open.captures:
        capture.varied = True


def note_pinned(tensors: Iterable[Any]) -> None:
    """Record in the captures of this thread that the values of lazy tensors from outside were computed on the way."""
    for capture in _open.captures:
        capture.pinned.update((id(tensor), weakref.ref(tensor)) for tensor in tensors)


def predates_capture(tensor: object, node: UOp) -> bool:
    """Return whether `tensor` had this node already when an open capture of this thread was opened.

    If the capture computed it, each replay would compute it again, and from other values.
    """
    return any(capture.existed(tensor) and capture.existing[id(tensor)][1]() is node for capture in _open.captures)


@contextmanager
def capturing(live: Iterable[Any] = (), others: bool = False) -> Iterator[Capture]:
    """Record the launches of the block in the Capture that is yielded. `live` are the tensors that exist now.

    `others` says that the function was called with other arguments before.
    """
    capture = Capture(existing={id(t): (weakref.ref(t), weakref.ref(t.uop)) for t in live}, others=others)
    del live  # or this frame would keep the memory of tensors that the block drops
    outer = _open.captures
    _open.captures = (*outer, capture)
    try:
        yield capture
    finally:
        _open.captures = outer


@contextmanager
def uncaptured() -> Iterator[None]:
    """Hide the launches of the block from the captures of this thread."""
    outer, _open.captures = _open.captures, ()
    try:
        yield
    finally:
        _open.captures = outer


def note(launch: Recorded, buffers: Sequence[Buffer], nodes: Sequence[UOp], values: Mapping[str, int]) -> None:
    """Record a launch in the captures of this thread.

    `buffers` are those of the launch, `nodes` the BUFFER nodes of those that have one, `values` those of variables.
    """
    for capture in _open.captures:
        capture.add(launch, buffers)
        for name, value in values.items():
            capture.varied |= capture.values.setdefault(name, value) != value
        capture.nodes.update((node.arg.uid, weakref.ref(node)) for node in nodes)
