"""Compiled kernels and packs on disk, for later processes: bytes by a digest of all that they were made from.

An entry is one file: MAGIC, the digest of its name and content, the content. It is written as a whole or not at all, so
any number of processes can share the folder. One that is truncated, changed, renamed or of another format counts as
absent, and so does one that another user can have written (caches.py). No failure of the disk reaches the user: without
a folder, space or permission everything is compiled anew.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from tinygraft.caches import cache_folder, clean, read_cached
from tinygraft.files import write_through

MAGIC = b"tgkern2\n"
# assumed: bounds on a folder, far above what a program writes
LIMIT = 512 << 20  # bytes of all entries; the oldest are removed first
LONGEST = 64 << 20  # bytes of an entry
PARTS = 256  # folders of entries, by the first two digits of their names

_written: dict[Path, int] = {}  # folder -> bytes that this process has written since it last added up the entries


def digest(*parts: str) -> str:
    """Return the name of an entry that was made from `parts`: a hash, in which their lengths count too."""
    joined = b"".join(len(part).to_bytes(8, "little") + part.encode() for part in parts)
    return hashlib.blake2b(joined, digest_size=24).hexdigest()


def get(name: str) -> bytes | None:
    """Return the content of an entry; None where it is absent or damaged."""
    path = _path(name)
    if path is None:
        return None
    data = read_cached(path, LONGEST)
    if data is None:
        return None
    head = len(MAGIC) + 32
    content = data[head:]
    sound = data[: len(MAGIC)] == MAGIC and data[len(MAGIC) : head] == _check(name, content)
    return content if sound else None


def put(name: str, content: bytes) -> None:
    """Store `content` as the entry `name`, a digest; nothing happens where it is above LONGEST or the disk fails."""
    path = _path(name)
    if path is None or len(content) > LONGEST - 100:
        return
    folder = path.parent.parent
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if write_through(folder, path, MAGIC + _check(name, content) + content):
            _count(folder, path.parent.name, len(content))


def remove(name: str) -> None:
    """Remove the entry `name`; nothing happens where it does not exist, or that fails."""
    path = _path(name)
    if path is not None:
        with suppress(OSError):
            path.unlink()


def is_enabled() -> bool:
    """Return whether entries are stored on disk at all."""
    return _folder() is not None


def clear() -> None:
    """Remove every entry from the folder on disk, as far as that is allowed."""
    folder = _folder()
    if folder is not None:
        for path, _, _ in _entries(folder):
            with suppress(OSError):
                path.unlink()


def _check(name: str, content: bytes) -> bytes:
    """Return the 32 bytes by which a damaged or renamed entry is known: a hash of name and content."""
    return hashlib.blake2b(content, digest_size=32, key=name.encode()).digest()


def _folder() -> Path | None:
    """Return the folder of the entries; None where nothing is stored on disk."""
    caches = cache_folder()
    return None if caches is None else caches / "kernels"


def _path(name: str) -> Path | None:
    """Return the file of an entry, which may not exist, by its digest `name`; None where nothing is stored on disk.

    Removes temporary files that a killed process left in the folder.
    """
    folder = _folder()
    if folder is None:
        return None
    clean(folder)  # removes temporary files that a killed process left there
    return folder / name[:2] / name[2:]


def _entries(folder: Path, part: str = "[0-9a-f][0-9a-f]") -> list[tuple[Path, float, int]]:
    """Return (path, time of writing in seconds, bytes) of each entry; of none where the folder cannot be read.

    `part` names one of the PARTS folders in it, or is a pattern for all.
    """
    found = []
    with suppress(OSError):
        for path in folder.glob(f"{part}/*"):
            with suppress(OSError):
                stat = os.lstat(path)
                found.append((path, stat.st_mtime, stat.st_size))
    return found


def _count(folder: Path, part: str, nbytes: int) -> None:
    """Count `nbytes` that were written, and prune the folder at the first write and then after each LIMIT / 16.

    At the first write not where the entries beside the new one say that there is room: names are digests, so that each
    of the PARTS folders has about as much. To look at 60,000 entries takes a second, of each process.
    """
    total = _written.get(folder)
    _written[folder] = 0 if total is None else total + nbytes
    if total is None and PARTS * sum(size for _, _, size in _entries(folder, part)) < LIMIT // 2:
        return
    if total is None or _written[folder] > LIMIT // 16:
        _written[folder] = 0
        _prune(folder)


def _prune(folder: Path) -> None:
    """Remove the oldest entries of a folder while all of them together are larger than LIMIT."""
    entries = sorted(_entries(folder), key=lambda entry: entry[1])
    total = sum(size for _, _, size in entries)
    for path, _, size in entries:
        if total <= LIMIT:
            return
        with suppress(OSError):
            path.unlink()
            total -= size
