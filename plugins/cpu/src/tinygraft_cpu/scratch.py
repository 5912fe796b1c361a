"""Folders for the files between this process and a C compiler, and the removal of those whose process was killed.

A process holds a lock in its folder, which the system releases with the process. A folder whose lock is free belongs to
no process any more, unless it is so new that its process may be about to take the lock.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "tinygraft-cc-"
YOUNG = 60.0  # assumed: seconds in which a new folder may have no lock yet, or one that is not held yet
_cleaned: set[str] = set()


@contextmanager
def folder() -> Iterator[Path]:
    """Make a new folder, removed at the end of the block. The first call of a process removes those of killed ones."""
    system = tempfile.gettempdir()
    if system not in _cleaned:
        _cleaned.add(system)
        remove_leftovers(Path(system))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        if fcntl is None:
            yield Path(name)
            return
        with open(Path(name) / "lock", "wb") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield Path(name)


def remove_leftovers(system: Path) -> None:
    """Remove the folders in `system`, the folder of temporary files, whose process of this user was killed."""
    with suppress(OSError), os.scandir(system) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    if _is_left(entry):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(entry: os.DirEntry[str]) -> bool:
    """Return whether a folder of this user is old enough and its lock free."""
    found = entry.stat(follow_symlinks=False)
    is_mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if fcntl is None or not is_mine or not stat.S_ISDIR(found.st_mode) or time.time() - found.st_mtime <= YOUNG:
        return False
    try:
        with open(Path(entry.path) / "lock", "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:  # a process holds the lock
        return False
    return True
