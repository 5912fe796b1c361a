"""The lock of the graphs: one thread at a time changes the nodes of live tensors, or the memory that they share.

Modules that are imported when they are first used are imported under this lock, too. A fork acquires it first: else the
child could have a module that another thread was importing. The child does not have that thread, and would wait for the
end of the import for ever.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

exclusive = threading.RLock()  # to be acquired before the graphs of live tensors change
_imported: dict[str, ModuleType] = {}
_fork_locks: list[Any] = [exclusive]  # in the order in which they are acquired


def lock_over_forks(lock: Any) -> None:
    """Acquire `lock` before every fork, after `exclusive`, and release it in both processes.

    Else a thread that the child does not have could own it in the child for ever.
    """
    _fork_locks.append(lock)


def _acquire() -> None:
    """Acquire all locks, before a fork."""
    for lock in _fork_locks:  # one handler for each lock would run in the opposite order
        lock.acquire()


def _release() -> None:
    """Release all locks, after a fork."""
    for lock in reversed(_fork_locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)


def import_late(name: str) -> ModuleType:
    """Return the module `name`, imported at its first use, never during a fork. It may be in a layer above this one.

    It is imported once, also where it is removed from sys.modules again, as mock.patch.dict does: a second copy would
    have classes of its own. Raises ImportError where there is no such module.
    """
    with exclusive:
        if name not in sys.modules:
            sys.modules.update((known, module) for known, module in _imported.items() if known not in sys.modules)
            already = set(sys.modules)
            import_module(name)
            new = sys.modules.keys() - already
            _imported.update((found, sys.modules[found]) for found in new if found.startswith("tinygraft."))
        return import_module(name)
