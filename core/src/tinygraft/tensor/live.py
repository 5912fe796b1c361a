"""Which tensors are alive, and which were given a new value that is not in their memory yet.

A computation gives every live tensor that it computed its result, and backward looks for those that have a gradient.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.base import TensorBase
    from tinygraft.tensor.storage import Storage


class _Assigned(weakref.ref["TensorBase"]):
    """A tensor that was given a new value, listed in home under key."""

    __slots__ = ("home", "key")
    home: dict[int, _Assigned]
    key: int


class _Waiting(threading.local):
    """The tensors that a thread has given new values."""

    def __init__(self) -> None:
        self.tensors: dict[int, _Assigned] = {}


LIVE: dict[int, weakref.ref[TensorBase]] = {}
_assigned = _Waiting()


def live_tensors() -> list[TensorBase]:
    """Every tensor that is still referred to, in the order in which they were made."""
    found = []
    for key, entry in list(LIVE.items()):
        tensor = entry()
        if tensor is not None:
            found.append(tensor)
        elif LIVE.get(key) is entry:
            del LIVE[key]
    return found


def live_holders() -> list[TensorBase | Storage]:
    """Every live tensor, and after them each storage that some share: all whose node a result may replace.

    A realised tensor that has outlived the others of its storage lets go of that here: nobody reads the rest of it.
    """
    found: list[TensorBase | Storage] = list(live_tensors())
    storages: dict[int, Storage] = {}
    for tensor in found:
        storage = tensor._storage  # type: ignore[union-attr]
        if storage is not None and storage.is_shared(tensor):  # type: ignore[arg-type]
            storages[id(storage)] = storage
    found += storages.values()
    return found


def assigned_tensors() -> list[TensorBase]:
    """The tensors that this thread gave a new value since it last asked, and that have not computed it yet."""
    found = []
    while _assigned.tensors:
        tensor = _assigned.tensors.popitem()[1]()
        if tensor is not None and tensor.uop.base.op is Ops.ASSIGN:
            found.append(tensor)
    return found


def note_assigned(tensor: TensorBase) -> None:
    """Remember that a tensor has a new value, which is not in its memory yet."""
    entry = _Assigned(tensor, _forget_assigned)
    entry.key, entry.home = id(tensor), _assigned.tensors
    entry.home[entry.key] = entry


def _forget_assigned(entry: _Assigned) -> None:
    if entry.home.get(entry.key) is entry:
        del entry.home[entry.key]
