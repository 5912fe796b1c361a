"""Folders for the files between this process and a C compiler, and the removal of those whose process was killed.

A process has a lock in its folder, which the system ends with the process: a folder whose lock can be had is nobody's,
unless it is so young that its process may be about to take the lock.
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
YOUNG = 60.0  # seconds in which a folder may have no lock yet, or one that nobody holds yet; assumed
_cleaned: set[str] = set()


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder, removed at the end of the block. The first call of a process removes those of killed ones."""
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
    """Remove the folders of this user that no process has any more."""
    with suppress(OSError), os.scandir(system) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    if _is_left(entry):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(entry: os.DirEntry[str]) -> bool:
    found = entry.stat(follow_symlinks=False)
    is_mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if fcntl is None or not is_mine or not stat.S_ISDIR(found.st_mode) or time.time() - found.st_mtime <= YOUNG:
        return False
    try:
        with open(Path(entry.path) / "lock", "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:  # somebody has the lock
        return False
    return True
