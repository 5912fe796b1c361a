"""The folder of tinygraft's own files on disk, and reading what is in it: only what this user alone can have written.

What is cached there becomes machine code of this process, so a folder or a file that belongs to somebody else, or
that others can write, is not used, and reported once. Links, pipes and devices are as good as absent, and so is a file
that is too long. A file there may vanish or be corrupt at any time.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tinygraft.config import CACHEDIR, CACHELEVEL
from tinygraft.temporary import remove_leftovers

_user: Callable[[], int] | None = getattr(os, "geteuid", None)  # Windows has its own rights, by folders of the user
_reported: set[str] = set()
_cleaned: set[Path] = set()  # folders whose leftovers this process has looked for
_OPEN = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # a pipe without a writer would wait for one
    _OPEN |= getattr(os, _flag, 0)
LONGEST_JSON = 1 << 20  # bytes: what is cached as JSON is a few lines


def cache_folder() -> Path | None:
    """The folder of all disk caches, made when it is missing; None where nothing may or can be cached on disk.

    It is TINYGRAFT_CACHE, or tinygraft in the user's cache folder, where that belongs to this user and others cannot
    write to it.
    """
    if CACHELEVEL.value < 1:
        return None
    try:
        folder = Path(CACHEDIR.value) if CACHEDIR.value else _users_caches() / "tinygraft"
    except RuntimeError:
        return None
    return folder if is_private(folder) else None


def _users_caches() -> Path:
    """Where programs keep what can be made again. Raises RuntimeError when there is no home folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def is_private(folder: Path) -> bool:
    """Whether a folder, made when it is missing, is this user's alone to write; reported once where it is not."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = os.stat(folder)
    except OSError as error:
        if CACHEDIR.value:  # which somebody has asked for
            _report(folder, f"there is no such folder, and none can be made: {error.strerror or error}")
        return False
    if not _is_mine(found, folder):
        return False
    clean(folder)
    return True


def clean(folder: Path) -> None:
    """Remove what killed processes have left in a folder; looks once in each process."""
    if folder not in _cleaned:
        _cleaned.add(folder)
        remove_leftovers(folder)


def _is_mine(found: os.stat_result, path: Path) -> bool:
    """Whether a file or folder belongs to this user and nobody else can write it."""
    if _user is None:
        return True
    if found.st_uid != _user():
        why = f"it belongs to user {found.st_uid}, this process to user {_user()}"
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = f"others can write it (mode {stat.S_IMODE(found.st_mode):o}); chmod go-w makes it safe from now on"
    else:
        return True
    if stat.S_ISDIR(found.st_mode):
        _report(path, why)
    elif "" not in _reported:  # one file stands for all
        _reported.add("")
        _report(path, f"{why}; others like it are passed over in silence")
    return False


def _report(path: Path, why: str) -> None:
    """Say once why a file or folder is not used."""
    if str(path) not in _reported:
        _reported.add(str(path))
        print(f"tinygraft: {path} is not used as a cache: {why}\n"
              "  hint: name another folder with TINYGRAFT_CACHE, or remove this one", file=sys.stderr)  # fmt: skip


def read_cached(path: Path, longest: int) -> bytes | None:
    """The bytes of a file in the cache folder; None unless it is a plain file of this user, not longer than that."""
    return _read(path, longest, _OPEN, _is_mine)


def read_plain(path: Path, longest: int) -> bytes | None:
    """The bytes of a file that somebody named, also through a link; None unless it is a plain file of that length."""
    return _read(path, longest, _OPEN & ~getattr(os, "O_NOFOLLOW", 0), lambda found, path: True)


def _read(path: Path, longest: int, flags: int, trusted: Callable[[os.stat_result, Path], bool]) -> bytes | None:
    """The content of a regular file of at most `longest` bytes that is `trusted`; None of any other.

    It is opened before it is looked at, so that what is read is what was checked.
    """
    with suppress(OSError):
        number = os.open(path, flags)
        with open(number, "rb", buffering=0) as file:
            found = os.fstat(number)
            if stat.S_ISREG(found.st_mode) and found.st_size <= longest and trusted(found, path):
                return file.read(found.st_size)  # what was added since is not part of it
    return None


def parsed(data: bytes | None) -> Any:
    """What JSON says; None where there is no data, or none that is JSON."""
    with suppress(ValueError, RecursionError):
        return None if data is None else json.loads(data)
    return None
