"""Compiled kernels and packs on disk, for the next process: bytes by a digest of all that they were made from.

An entry is one file: MAGIC, the digest of its content, the content. It is written whole or not at all, so any number of
processes can share the folder; one that is cut short, changed or of another format counts as absent. No failure of the
disk ever reaches the user: without a folder, without space or without permission everything is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from tinygraft.files import cache_folder, write_atomic

MAGIC = b"tgkern1\n"
LIMIT = 512 << 20  # bytes of all entries; the oldest go first

_pruned: set[Path] = set()  # folders that this process has looked through


def digest(*parts: str) -> str:
    """A name for what was made from parts."""
    joined = b"".join(len(part).to_bytes(8, "little") + part.encode() for part in parts)
    return hashlib.blake2b(joined, digest_size=24).hexdigest()


def get(name: str) -> bytes | None:
    """The content of an entry, or None when there is no sound one."""
    path = _path(name)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + 32
    content = data[head:]
    sound = data[: len(MAGIC)] == MAGIC and data[len(MAGIC) : head] == _check(content)
    return content if sound else None


def put(name: str, content: bytes) -> None:
    """Keep content as an entry, where that is possible."""
    path = _path(name)
    if path is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if write_atomic(path, MAGIC + _check(content) + content):
            _prune(path.parent.parent)


def is_kept() -> bool:
    """Whether anything is kept on disk."""
    return _folder() is not None


def clear() -> None:
    """Remove every entry."""
    folder = _folder()
    if folder is not None:
        for path, _, _ in _entries(folder):
            with suppress(OSError):
                path.unlink()


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def _folder() -> Path | None:
    caches = cache_folder()
    return None if caches is None else caches / "kernels"


def _path(name: str) -> Path | None:
    folder = _folder()
    return None if folder is None else folder / name[:2] / name[2:]


def _entries(folder: Path) -> list[tuple[Path, float, int]]:
    """(path, time, bytes) of each entry."""
    found = []
    with suppress(OSError):
        for path in folder.glob("*/*"):
            with suppress(OSError):
                stat = os.stat(path)
                found.append((path, stat.st_mtime, stat.st_size))
    return found


def _prune(folder: Path) -> None:
    """Remove the oldest entries of a folder that has grown past LIMIT; looks once in each process."""
    if folder in _pruned:
        return
    _pruned.add(folder)
    entries = sorted(_entries(folder), key=lambda entry: entry[1])
    total = sum(size for _, _, size in entries)
    for path, _, size in entries:
        if total <= LIMIT:
            return
        with suppress(OSError):
            path.unlink()
            total -= size
