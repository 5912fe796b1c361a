"""Which tensors are live, which of them a computation may concern, and which have a pending assignment.

A tensor that only reads memory is resting: it is listed under its BUFFERs, and looked at when one of these is
written. All other tensors are awake: expressions, tensors that require a gradient, and tensors whose node or flag was
set since they were last looked at. So the cost of a computation does not grow with the number of live tensors, but
with the number of those that it concerns.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from tinygraft.engine.assigns import HasNode
from tinygraft.engine.exclusive import exclusive
from tinygraft.tensor.state.recording import impure
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.primitives.base import TensorBase


class SharedValue(HasNode, Protocol):
    """The whole value that some tensors are views of: what this file needs of SharedStorage (storage.py)."""

    _lender: LiveEntry | None

    def is_shared(self, tensor: TensorBase) -> bool:
        """Return whether `tensor`, which is over this value, still needs it."""

    def is_left_by(self, tensor: TensorBase) -> bool:
        """Return whether `tensor` leaves this value when it is realised."""


class LiveEntry(weakref.ref["TensorBase"]):
    """A weak reference to a live tensor. `serial` counts tensors as they are made.

    Lists of tensors are sorted by it and not by id(), so that their order is the same in every process.
    """

    __slots__ = ("serial",)
    serial: int


class _Assigned(weakref.ref["TensorBase"]):
    """A weak reference to a tensor that was given a new value, listed in `registry` under `key`."""

    __slots__ = ("key", "registry")
    registry: dict[int, _Assigned]  # of the thread that assigned: the tensor may die in another thread
    key: int


class _AssignedHere(threading.local):
    """The tensors that this thread has given new values, by id."""

    def __init__(self) -> None:
        self.tensors: dict[int, _Assigned] = {}


# assumed: never measured
MOST_BESIDE = 256  # nodes of other tensors that are looked at before a write takes the shortcut

Entries = dict[int, LiveEntry]  # by the id of the tensor


class TouchedTensors:
    """The tensors that were written to, or got a grad or a flag, in this thread while it was open: by id."""

    __slots__ = ("flags", "grads", "written")

    def __init__(self) -> None:
        self.written: Entries = {}
        self.grads: Entries = {}
        self.flags: Entries = {}


class _Noting(threading.local):
    touched: tuple[TouchedTensors, ...] = ()


_noting = _Noting()


@contextmanager
def noting_touched() -> Iterator[TouchedTensors]:
    """Note the tensors that the block writes to, and those that it gives a grad or a flag."""
    touched, outer = TouchedTensors(), _noting.touched
    _noting.touched = (*outer, touched)
    try:
        yield touched
    finally:
        _noting.touched = outer


def alive(entries: Entries) -> list[TensorBase]:
    """Return the tensors of `entries` that still exist."""
    return [tensor for entry in entries.values() if (tensor := entry()) is not None]


def note_touched(what: str, tensor: TensorBase) -> None:
    """Note a tensor as one of `what`, a field of TouchedTensors, where that is open in this thread."""
    for touched in _noting.touched:
        getattr(touched, what)[id(tensor)] = _all[id(tensor)]


class _Growth:
    """When to remove dead entries from a list: whenever it may have doubled, so that an entry costs O(1) on average."""

    def __init__(self) -> None:
        self.added, self.room = 0, 1 << 10  # assumed: below 1,024 entries a walk costs less than it is worth

    def is_due(self) -> bool:
        """Count one more entry. Return whether the list is to be pruned now."""
        self.added += 1
        return self.added > self.room

    def pruned(self, left: int) -> None:
        """Start to count again after the list was pruned to `left` entries."""
        self.added, self.room = 0, left + (1 << 10)


_all: Entries = {}
_awake: Entries = {}
_resting: dict[int, Entries] = {}  # by the id of a BUFFER
_all_grown = _Growth()
_resting_grown = _Growth()
_assigned = _AssignedHere()
_serials = itertools.count(1)
_by_serial = itemgetter(0)


def enter(tensor: TensorBase) -> None:
    """List a tensor that is being made, as awake."""
    entry = LiveEntry(tensor)
    entry.serial = next(_serials)
    key = id(tensor)
    _all[key] = _awake[key] = entry
    _all_grown.added += 1  # as `is_due`, without the call
    if _all_grown.added > _all_grown.room:
        _all_grown.pruned(len(live_tensors()))


def next_serial() -> int:
    """Return a serial that is greater than those of all tensors that there are, and less than those of later ones."""
    return next(_serials)


def entry_of(tensor: TensorBase) -> LiveEntry:
    """Return the entry of a live tensor."""
    return _all[id(tensor)]


def borrows(holder: TensorBase | SharedValue) -> bool:
    """Return whether a tensor or a storage has the memory of another tensor, its lender, whose node it was given.

    Pending writes of the lender do not change that: their ASSIGNs are over the same memory.
    """
    lender = None if holder._lender is None else holder._lender()
    if lender is None:
        return False
    mine, base = memory_base(holder.uop), memory_base(lender.uop)
    while base is not mine and base.op is Ops.ASSIGN:
        base = memory_base(base.src[0])
    return base is mine and (base.op in HELD or base.op is Ops.ASSIGN)


def has_twin(tensor: TensorBase) -> bool:
    """Return whether another live tensor has the same node and does not borrow it: a view of all of it, or an equal."""
    node = tensor.uop
    with exclusive:
        entries = list(_awake.values())
        for buffer in buffers_of(node.base) if node.base.op in HELD else ():
            entries += _resting.get(buffer.arg.uid, {}).values()
        others = [other for entry in entries if (other := entry()) is not None and other is not tensor]
        return any(other.uop is node and not borrows(other) for other in others)


def wake(tensor: TensorBase) -> None:
    """List a tensor as awake, because its node, flag or storage is another one than when it was last looked at."""
    key = id(tensor)
    if key not in _awake:
        _awake[key] = _all[key]


def live_tensors() -> list[TensorBase]:
    """Return all live tensors in the order in which they were made. Removes the entries of dead ones."""
    found = []
    for key, entry in sorted(_all.copy().items(), key=lambda item: item[1].serial):
        tensor = entry()
        if tensor is not None:
            found.append(tensor)
        elif _all.get(key) is entry:  # a new tensor may have the id of the dead one by now
            del _all[key]
    return found


def live_holders() -> list[TensorBase | SharedValue]:
    """Return all live tensors, and after them each storage that some share: all whose node a result may replace."""
    return _with_storages(live_tensors())


class Live:
    """The live tensors and storages, in the form that `realize_tensors` takes."""

    @staticmethod
    def near(memory: Collection[UOp]) -> list[TensorBase | SharedValue]:
        """Return the tensors that are awake and those over the BUFFERs `memory`, with the storages that they share.

        All other tensors read only other memory, and none of them requires a gradient.
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
                if (key in _awake and not _rests(tensor, entry)) or (memory and _is_over(tensor, memory)):
                    found.append((entry.serial, tensor))
            if len(found) > 1:
                found.sort(key=_by_serial)
            return _with_storages([tensor for _, tensor in found])

    @staticmethod
    def beside(tensors: Sequence[HasNode], serial: int) -> list[TensorBase | SharedValue] | None:
        """Return the awake tensors that require a gradient, without `tensors`, the oldest of whose nodes has `serial`.

        None where the graph of another one may have such a node, as it is not older, and where one of them is a view or
        has views, and they do not rest. Of `tensors` one may be a view that no other one is left beside, and that its
        storage is left by when it is realised; such storages follow in the result.
        """
        found: list[TensorBase | SharedValue] = []
        own: set[int] = set()
        left: list[TensorBase | SharedValue] = []
        for tensor in tensors:
            storage: Any = getattr(tensor, "_storage", tensor)
            if storage is not None:
                if storage is tensor or not storage.is_left_by(tensor):
                    return None
                left.append(storage)
            own.add(id(tensor))
        for key, entry in list(_awake.items()):
            other = entry()
            if other is None:
                if _awake.get(key) is entry:
                    del _awake[key]
            elif key not in own:
                if other._storage is not None:
                    other._storage.is_shared(other)
                    if not _rests(other, entry):
                        return None
                elif other._requires_grad:
                    found.append(other)
                elif _rests(other, entry):
                    continue
                if other._node.serial >= serial:
                    return None
        if len(found) > 1:
            found.sort(key=_entry_serial)
        return found + left if left else found

    @staticmethod
    def beside_write(
        tensor: HasNode, target: UOp, order: Sequence[UOp]
    ) -> tuple[list[TensorBase], list[SharedValue]] | None:
        """Return the awake tensors that require a gradient, without `tensor`, and the storage that it has alone.

        `tensor` is about to write to the BUFFER `target`, by the graph `order`. None where another one reads `target`
        or has a part of that graph, where it is a view or has views, and where more than MOST_BESIDE nodes of others
        would have to be looked at.
        """
        writer: Any = tensor
        storage = getattr(writer, "_storage", writer)
        if storage is not None and (storage is writer or writer._chain or storage.has_several()):
            return None
        for entry in list(_resting.get(target.arg.uid, {}).values()):
            if (other := entry()) is not None and other is not tensor:
                return None
        found: list[TensorBase] = []
        lazy: list[UOp] = []
        for key, entry in list(_awake.items()):
            other = entry()
            if other is None:
                if _awake.get(key) is entry:
                    del _awake[key]
            elif other is not tensor:
                if other._storage is not None:
                    other._storage.is_shared(other)
                if _rests(other, entry):
                    if target in _memory_of(other):
                        return None
                    continue
                if other._storage is not None:
                    return None
                if other._requires_grad:
                    found.append(other)
                lazy.append(other._node)
        if lazy and not _is_apart(lazy, target, order):
            return None
        if len(found) > 1:
            found.sort(key=_entry_serial)
        return found, [] if storage is None else [storage]


def _is_apart(nodes: Sequence[UOp], target: UOp, order: Sequence[UOp]) -> bool:
    """Return whether graphs have no node of `order` but memory, such as a leaf, and of that not `target`.

    False, too, where more than MOST_BESIDE of their nodes would have to be looked at.
    """
    shared = {node for node in order if node is target or memory_base(node).op is not Ops.BUFFER}
    first = min([node.serial for node in shared])
    seen: set[UOp] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.serial >= first and node not in seen:  # an older one has no user of `order` in its graph
            if node in shared or len(seen) >= MOST_BESIDE:
                return False
            seen.add(node)
            stack += node.src
    return True


def _entry_serial(tensor: TensorBase | SharedValue) -> int:
    """Return the serial of the entry of a live tensor."""
    return _all[id(tensor)].serial


LIVE = Live()


def _rests(tensor: TensorBase, entry: LiveEntry) -> bool:
    """Return whether a tensor is resting. Moves its entry from the list of those awake to the lists of its BUFFERs."""
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
    """Return whether a tensor and its storage only read memory and neither requires a gradient."""
    storage = tensor._storage
    if tensor.requires_grad or tensor.uop.base.op not in HELD:
        return False
    return storage is None or not (storage.requires_grad or storage.uop.base.op not in HELD)


def _memory_of(tensor: TensorBase) -> set[UOp]:
    """Return the BUFFERs of a tensor for which `_may_rest` holds, and those of its storage."""
    storage = tensor._storage
    own = buffers_of(tensor.uop.base)
    return {*own} if storage is None else {*own, *buffers_of(storage.uop.base)}


def _is_over(tensor: TensorBase, memory: Collection[UOp]) -> bool:
    """Return whether a tensor for which `_may_rest` holds, or its storage, is over one of `memory`."""
    base = tensor.uop.base
    if tensor._storage is None and base.op is Ops.BUFFER:
        return base in memory
    return not _memory_of(tensor).isdisjoint(memory)


def _prune() -> None:
    """Remove the entries of tensors that are dead or awake from the lists of BUFFERs."""
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
    """Return `tensors`, and after them each storage that some of them share.

    A realised tensor that is the last of its storage leaves it here: no tensor reads the other elements any more.
    """
    storages: dict[int, SharedValue] = {}
    for tensor in tensors:
        storage = tensor._storage
        if storage is not None and storage.is_shared(tensor):
            storages[id(storage)] = storage
    return [*tensors, *storages.values()]


def _is_pending(tensor: TensorBase) -> bool:
    """Return whether a tensor, or the whole value that it is a view of, was written to and is not computed yet."""
    storage = tensor._storage
    return tensor.uop.base.op is Ops.ASSIGN or (storage is not None and storage.uop.base.op is Ops.ASSIGN)


def assigned_tensors() -> list[TensorBase]:
    """Return the tensors that this thread gave a new value which has not been computed, the latest first.

    They stay listed until it is computed, since the caller may be interrupted before.
    """
    if not _assigned.tensors:
        return []
    found = []
    for key, entry in reversed(list(_assigned.tensors.items())):
        tensor = entry()
        if tensor is not None and _is_pending(tensor):
            found.append(tensor)
        elif _assigned.tensors.get(key) is entry:
            del _assigned.tensors[key]
    return found


def note_assigned(tensor: TensorBase) -> None:
    """List a tensor with a pending assignment for `assigned_tensors` of this thread."""
    impure()
    if _noting.touched:
        note_touched("written", tensor)
    entry = _Assigned(tensor, _forget_assigned)
    entry.key, entry.registry = id(tensor), _assigned.tensors
    entry.registry[entry.key] = entry


def _forget_assigned(entry: _Assigned) -> None:
    """Remove the entry of a dead tensor from its registry."""
    if entry.registry.get(entry.key) is entry:
        del entry.registry[entry.key]
