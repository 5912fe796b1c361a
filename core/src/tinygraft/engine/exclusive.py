"""The lock of the graphs: one thread at a time changes the nodes of live tensors, or the memory that they share.

Modules that are imported late are so under this lock, too. A fork takes it first: else it could leave the child with a
module that a thread, which the child does not have, was importing, and whoever asks for that would wait for ever.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

exclusive = threading.RLock()  # held while the graphs of live tensors change
_late: dict[str, ModuleType] = {}
_over_forks: list[Any] = [exclusive]  # locks in the order in which they are taken


def hold_over_forks(lock: Any) -> None:
    """Have whoever forks take a lock first, after `exclusive`: the child has no thread that would give it back."""
    _over_forks.append(lock)


def _take() -> None:
    for lock in _over_forks:  # handlers of their own would run in the opposite order
        lock.acquire()


def _give_back() -> None:
    for lock in reversed(_over_forks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give_back, after_in_child=_give_back)


def import_late(name: str) -> ModuleType:
    """Import a module when it is needed, and not while the process forks; it may be above the module that asks.

    It is imported once, also where somebody takes it out of sys.modules again, as mock.patch.dict does: a second copy
    would have classes of its own.
    """
    with exclusive:
        if name not in sys.modules:
            sys.modules.update((known, module) for known, module in _late.items() if known not in sys.modules)
            before = set(sys.modules)
            import_module(name)
            new = sys.modules.keys() - before
            _late.update((found, sys.modules[found]) for found in new if found.startswith("tinygraft."))
        return import_module(name)
