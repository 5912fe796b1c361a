"""Which tensors are alive, which of them a computation may concern, and which wait for a new value in their memory.

A tensor that only reads memory rests: it is listed under its BUFFERs, and looked at when one of these is written. The
others are awake: expressions, those that ask for a gradient, and whoever was given another node or flag since. So what
a computation costs does not depend on how many tensors there are, but on how many have to do with it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from tinygraft.engine.assigns import HasNode
from tinygraft.engine.exclusive import exclusive
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.primitives.base import TensorBase


class SharedValue(HasNode, Protocol):
    """The whole value that some tensors are views of, as far as who lists live tensors asks it: storage.py has it."""

    _lender: LiveEntry | None

    def is_shared(self, tensor: TensorBase) -> bool:
        """Whether a tensor over this value still needs it."""


class LiveEntry(weakref.ref["TensorBase"]):
    """A live tensor. number counts those that were made: the order is the same in every process."""

    __slots__ = ("number",)
    number: int


class _Assigned(weakref.ref["TensorBase"]):
    """A tensor that was given a new value, listed in home under key."""

    __slots__ = ("home", "key")
    home: dict[int, _Assigned]
    key: int


class _Waiting(threading.local):
    """The tensors that a thread has given new values."""

    def __init__(self) -> None:
        self.tensors: dict[int, _Assigned] = {}


Entries = dict[int, LiveEntry]  # by the id of the tensor


class _Growth:
    """When to look for the dead in a list: whenever it may have doubled."""

    def __init__(self) -> None:
        self.added, self.room = 0, 1 << 10

    def is_due(self) -> bool:
        """Whether that is now, after one more entry."""
        self.added += 1
        return self.added > self.room

    def pruned(self, left: int) -> None:
        """So many entries are left."""
        self.added, self.room = 0, left + (1 << 10)


_all: Entries = {}
_awake: Entries = {}
_resting: dict[int, Entries] = {}  # by the number of a BUFFER
_all_grown = _Growth()
_resting_grown = _Growth()
_assigned = _Waiting()
_numbers = itertools.count(1)
_by_number = itemgetter(0)


def enter(tensor: TensorBase) -> None:
    """List a tensor that is being made, awake."""
    entry = LiveEntry(tensor)
    entry.number = next(_numbers)
    _all[id(tensor)] = _awake[id(tensor)] = entry
    if _all_grown.is_due():
        _all_grown.pruned(len(live_tensors()))


def entry_of(tensor: TensorBase) -> LiveEntry:
    """The entry of a live tensor."""
    return _all[id(tensor)]


def borrows(holder: TensorBase | SharedValue) -> bool:
    """Whether the memory of a tensor, or a storage, or what is written there soon, is that of another tensor, whose
    value it was given. That may have been written to since: its memory is still its own."""
    lender = None if holder._lender is None else holder._lender()
    if lender is None:
        return False
    mine, base = memory_base(holder.uop), memory_base(lender.uop)
    while base is not mine and base.op is Ops.ASSIGN:
        base = memory_base(base.src[0])
    return base is mine and (base.op in HELD or base.op is Ops.ASSIGN)


def has_twin(tensor: TensorBase) -> bool:
    """Whether another live tensor has the same node by itself: a view of all of it, or one that was computed alike."""
    node = tensor.uop
    with exclusive:
        entries = list(_awake.values())
        for buffer in buffers_of(node.base) if node.base.op in HELD else ():
            entries += _resting.get(buffer.arg.uid, {}).values()
        others = [other for entry in entries if (other := entry()) is not None and other is not tensor]
        return any(other.uop is node and not borrows(other) for other in others)


def wake(tensor: TensorBase) -> None:
    """A tensor has another node, flag or storage than when it was last looked at."""
    key = id(tensor)
    if key not in _awake:
        _awake[key] = _all[key]


def live_tensors() -> list[TensorBase]:
    """Every tensor that is still referred to, in the order in which they were made."""
    found = []
    for key, entry in sorted(_all.copy().items(), key=lambda item: item[1].number):
        tensor = entry()
        if tensor is not None:
            found.append(tensor)
        elif _all.get(key) is entry:
            del _all[key]
    return found


def live_holders() -> list[TensorBase | SharedValue]:
    """Every live tensor, and after them each storage that some share: all whose node a result may replace."""
    return _with_storages(live_tensors())


class Live:
    """The live tensors and storages, as realising asks for them."""

    @staticmethod
    def near(memory: Collection[UOp]) -> list[TensorBase | SharedValue]:
        """Those that are awake and those over some BUFFERs, with the storages that some of them share.

        All others read memory besides these and nothing else, and none of them asks for a gradient.
        """
        with exclusive:
            entries = dict(_awake)
            for buffer in memory:  # a dead one may have had the id of one that is awake
                resting = list(_resting.get(buffer.arg.uid, {}).items())
                entries |= {key: entry for key, entry in resting if entry() is not None}
            found = []
            for key, entry in entries.items():
                tensor = entry()
                if tensor is None:
                    if _awake.get(key) is entry:
                        del _awake[key]
                    continue
                if tensor._storage is not None:
                    tensor._storage.is_shared(tensor)
                if not _rests(tensor, entry) or (memory and not _memory_of(tensor).isdisjoint(memory)):
                    found.append((entry.number, tensor))
            if len(found) > 1:
                found.sort(key=_by_number)
            return _with_storages([tensor for _, tensor in found])


LIVE = Live()


def _rests(tensor: TensorBase, entry: LiveEntry) -> bool:
    """Whether a tensor rests; it is put where it belongs."""
    if not _may_rest(tensor):
        return False
    key = id(tensor)
    if _awake.pop(key, None) is not None:
        for buffer in _memory_of(tensor):
            _resting.setdefault(buffer.arg.uid, {})[key] = entry
        if not _may_rest(tensor):  # another thread has given it another node, and found it awake
            _awake[key] = entry
            return False
        if _resting_grown.is_due():
            _prune()
    return True


def _may_rest(tensor: TensorBase) -> bool:
    """Whether a tensor reads memory only, and so do those of its storage, and no gradient is asked for."""
    storage = tensor._storage
    if tensor.requires_grad or tensor.uop.base.op not in HELD:
        return False
    return storage is None or not (storage.requires_grad or storage.uop.base.op not in HELD)


def _memory_of(tensor: TensorBase) -> set[UOp]:
    """The BUFFERs of a tensor that may rest, and those of its storage."""
    storage = tensor._storage
    own = buffers_of(tensor.uop.base)
    return {*own} if storage is None else {*own, *buffers_of(storage.uop.base)}


def _prune() -> None:
    """Forget who no longer rests."""
    left = 0
    for uid, entries in list(_resting.items()):
        alive = {key: entry for key, entry in entries.items() if entry() is not None and key not in _awake}
        left += len(alive)
        if alive:
            _resting[uid] = alive
        else:
            del _resting[uid]
    _resting_grown.pruned(left)


def _with_storages(tensors: list[TensorBase]) -> list[TensorBase | SharedValue]:
    """Tensors, and after them each storage that some of them share.

    A realised tensor that has outlived the others of its storage lets go of that here: nobody reads the rest of it.
    """
    storages: dict[int, SharedValue] = {}
    for tensor in tensors:
        storage = tensor._storage
        if storage is not None and storage.is_shared(tensor):
            storages[id(storage)] = storage
    return [*tensors, *storages.values()]


def assigned_tensors() -> list[TensorBase]:
    """The tensors that this thread gave a new value, and that have not computed it yet.

    They stay listed until they have: whoever asked may be interrupted.
    """
    if not _assigned.tensors:
        return []
    found = []
    for key, entry in reversed(list(_assigned.tensors.items())):
        tensor = entry()
        if tensor is not None and tensor.uop.base.op is Ops.ASSIGN:
            found.append(tensor)
        elif _assigned.tensors.get(key) is entry:
            del _assigned.tensors[key]
    return found


def note_assigned(tensor: TensorBase) -> None:
    """Remember that a tensor has a new value, which is not in its memory yet."""
    entry = _Assigned(tensor, _forget_assigned)
    entry.key, entry.home = id(tensor), _assigned.tensors
    entry.home[entry.key] = entry


def _forget_assigned(entry: _Assigned) -> None:
    if entry.home.get(entry.key) is entry:
        del entry.home[entry.key]
