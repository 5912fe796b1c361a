"""The folder of tinygraft's own files on disk, and reading files in it that only this user can have written.

What is cached there becomes machine code of this process, so a folder or a file that belongs to another user, or
that others can write, is not used, and reported once. Links, pipes, devices and files that are too long count as
absent. A file there may be removed or corrupt at any time.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tinygraft.config import CACHEDIR, CACHELEVEL
from tinygraft.temporary import remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path

_user: Callable[[], int] | None = getattr(os, "geteuid", None)  # None on Windows, where rights go by the user's folders
_reported: set[str] = set()
_cleaned: set[Path] = set()  # folders in which this process has looked for leftovers
_OPEN = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # a pipe without a writer would wait for one
    _OPEN |= getattr(os, _flag, 0)
LONGEST_JSON = 1 << 20  # bytes: cached JSON has a few lines


def cache_folder() -> Path | None:
    """Return the folder of all disk caches, made when it is missing; None where nothing may or can be cached on disk.

    It is TINYGRAFT_CACHE, or tinygraft in the user's cache folder, where that belongs to this user and others cannot
    write to it.
    """
    if CACHELEVEL.value < 1:
        return None
    from pathlib import Path  # here and below: `from tinygraft import Tensor` needs no folder

    try:
        folder = Path(CACHEDIR.value) if CACHEDIR.value else _users_caches() / "tinygraft"
    except RuntimeError:
        return None
    return folder if is_private(folder) else None


def _users_caches() -> Path:
    """Return the system's folder for the caches of this user. Raises RuntimeError when there is no home folder."""
    from pathlib import Path

    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def is_private(folder: Path) -> bool:
    """Return whether only this user can write to a folder, which is made when it is missing; report once if not."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = os.stat(folder)
    except OSError as error:
        if CACHEDIR.value:  # the user has named it
            _report(folder, f"there is no such folder, and none can be made: {error.strerror or error}")
        return False
    if not _is_mine(found, folder):
        return False
    clean(folder)
    return True


def clean(folder: Path) -> None:
    """Remove temporary files of killed processes in a folder; a second call in a process does nothing."""
    if folder not in _cleaned:
        _cleaned.add(folder)
        remove_leftovers(folder)


def _is_mine(found: os.stat_result, path: Path) -> bool:
    """Return whether a file or folder belongs to this user and no other user can write it; report once if not."""
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
    elif "" not in _reported:  # one file is reported for all
        _reported.add("")
        _report(path, f"{why}; others like it are skipped in silence")
    return False


def _report(path: Path, why: str) -> None:
    """Print, once for each path, why a file or folder is not used."""
    if str(path) not in _reported:
        _reported.add(str(path))
        print(f"tinygraft: {path} is not used as a cache: {why}\n"
              "  hint: name another folder with TINYGRAFT_CACHE, or remove this one", file=sys.stderr)  # fmt: skip


def read_cached(path: Path, longest: int) -> bytes | None:
    """Return the bytes of a file in the cache folder; None unless it is this user's plain file, at most `longest`."""
    return _read(path, longest, _OPEN, _is_mine)


def read_plain(path: Path, longest: int) -> bytes | None:
    """Return the bytes of a file that the user named, also through a link; None unless plain, at most `longest`."""
    return _read(path, longest, _OPEN & ~getattr(os, "O_NOFOLLOW", 0), lambda found, path: True)


def _read(path: Path, longest: int, flags: int, trusted: Callable[[os.stat_result, Path], bool]) -> bytes | None:
    """Return the content of a regular file of at most `longest` bytes that is `trusted`; None for any other.

    The file is opened before it is checked, so that the file that is read is the one that was checked.
    """
    with suppress(OSError):
        number = os.open(path, flags)
        with open(number, "rb", buffering=0) as file:
            found = os.fstat(number)
            if stat.S_ISREG(found.st_mode) and found.st_size <= longest and trusted(found, path):
                return file.read(found.st_size)  # without what was appended since
    return None


def parsed(data: bytes | None) -> Any:
    """Return the value of JSON data; None where there is no data, or it is no JSON."""
    import json  # here: only what was cached is parsed

    with suppress(ValueError, RecursionError):
        return None if data is None else json.loads(data)
    return None
