"""Recording what runs: every launch in this thread while a capture is open, for TinyJit to run it again.

    with capturing() as capture:
        ...
    capture.launches, capture.memory, capture.values

A capture keeps no memory alive that a run without it would have given back: of a buffer it notes what it is like, and
the buffer itself only as long as somebody else holds it. Buffers with data from Python are the exception: the data is
there only once.
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
    from tinygraft.engine.compile import Compiled


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch of a kernel, or a copy when there is none, on buffers by the numbers of their BUFFER nodes.

    A copy has its target and its source. Numbers grow with time. saves says that it keeps an old value for whoever
    still has to read it.
    """

    kernel: Compiled | None
    device: str
    uids: tuple[int, ...]
    saves: bool = False

    def written(self) -> tuple[int, ...]:
        """The numbers of the buffers that it writes."""
        if self.kernel is None:
            return self.uids[:1]
        params = self.kernel.signature.params
        return tuple([uid for uid, param in zip(self.uids, params, strict=True) if param.written])


@dataclass(frozen=True, slots=True)
class CapturedMemory:
    """What a captured buffer is like, and the buffer while it lives. data is the buffer that holds data from Python."""

    device: str
    size: int
    dtype: DType
    buffer: weakref.ref[Buffer]
    data: Buffer | None


@dataclass(slots=True)
class Capture:
    """The launches of everything that ran in this thread while the capture was open.

    memory and nodes are by number: what each buffer is like, and its BUFFER node, dead when nobody holds the value.
    before has the tensors that existed when it was opened, with their nodes, by id. read says that Python was told a
    value, which may decide what it does next; varied that a variable had two values, in launches or in one expression.
    """

    launches: list[Recorded] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    memory: dict[int, CapturedMemory] = field(default_factory=dict)
    nodes: dict[int, weakref.ref[UOp]] = field(default_factory=dict)
    before: dict[int, tuple[weakref.ref[Any], weakref.ref[UOp]]] = field(default_factory=dict)
    read: bool = False
    varied: bool = False

    def had(self, tensor: object) -> bool:
        """Whether a tensor was there before the capture was opened."""
        entry = self.before.get(id(tensor))
        return entry is not None and entry[0]() is tensor

    def add(self, launch: Recorded, buffers: Sequence[Buffer]) -> None:
        """Record a launch on its buffers."""
        self.launches.append(launch)
        for uid, b in zip(launch.uids, buffers, strict=True):
            if uid not in self.memory:
                self.memory[uid] = CapturedMemory(b.device, b.size, b.dtype, weakref.ref(b), b if b.filled else None)


class _Open(threading.local):
    captures: tuple[Capture, ...] = ()


_open = _Open()


def open_captures() -> tuple[Capture, ...]:
    """The captures of this thread."""
    return _open.captures


def note_read() -> None:
    """Tell the captures of this thread that Python reads a value."""
    for capture in _open.captures:
        capture.read = True


def note_varied() -> None:
    """Tell the captures of this thread that a variable has two values in one schedule."""
    for capture in _open.captures:
        capture.varied = True


def is_from_before(tensor: object, node: UOp) -> bool:
    """Whether a tensor was there with this node before an open capture of this thread: none of the captured work.

    What a capture computed for it would be computed again, and differently, by each replay.
    """
    return any(capture.had(tensor) and capture.before[id(tensor)][1]() is node for capture in _open.captures)


@contextmanager
def capturing(live: Iterable[Any] = ()) -> Iterator[Capture]:
    """Record the launches of the block. live are the tensors that exist now."""
    capture = Capture(before={id(t): (weakref.ref(t), weakref.ref(t.uop)) for t in live})
    del live  # a tensor that the block gives up gives up its memory
    before = _open.captures
    _open.captures = (*before, capture)
    try:
        yield capture
    finally:
        _open.captures = before


@contextmanager
def uncaptured() -> Iterator[None]:
    """Tell no capture of this thread what the block launches."""
    before, _open.captures = _open.captures, ()
    try:
        yield
    finally:
        _open.captures = before


def note(launch: Recorded, buffers: Sequence[Buffer], nodes: Sequence[UOp], values: Mapping[str, int]) -> None:
    """Tell the captures of this thread of a launch on its buffers, the nodes of those that have one, its variables."""
    for capture in _open.captures:
        capture.add(launch, buffers)
        for name, value in values.items():
            capture.varied |= capture.values.setdefault(name, value) != value
        capture.nodes.update((node.arg.uid, weakref.ref(node)) for node in nodes)
