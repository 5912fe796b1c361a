"""Files: read in parts when they are needed, and written as a whole or not at all.

Nothing here depends on tensors. `OpenFile` and `FilePart` read bytes when they are needed, and raise where the file has
changed meanwhile; `write_atomic` is for a file that may be lost, `replacing` for one that must not be.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from tinygraft.errors import FileFormatError
from tinygraft.temporary import remove_leftovers, written_beside

if TYPE_CHECKING:
    from pathlib import Path

_BLOCKS = 1 << 30  # bytes that one call reads; some systems refuse more than 2**31
_TICK = 0.02  # seconds: twice the tick of the slowest clock of a file system
_CONTENT = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
_RIGHTS = ("st_mode", "st_uid", "st_gid", "st_nlink")
_SPECIAL = {
    stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a block device",
}  # fmt: skip


def text_of_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a file as text. Raises TypeError for what is no path."""
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.fsdecode(path)
    raise TypeError(f"a file is named by its path, a str or os.PathLike, got {path!r}")


class OpenFile:
    """A file to be read in parts later: it may be renamed, replaced or removed, but not written to in between.

    It is closed when it is freed. Raises FileFormatError for what is no regular file, OSError where it cannot be
    opened.
    """

    path: str

    __slots__ = ("_file", "_lock", "_number", "_stamp", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._number = text_of_path(path), -1
        if not (stat.S_ISREG(mode := os.stat(path).st_mode) or stat.S_ISDIR(mode)):  # open says what a folder is
            raise FileFormatError(
                f"{self.path} is no regular file: what comes out of it cannot be read later, in parts\n"
                "  hint: make the tensor of its bytes, Tensor(open(path, 'rb').read())"
            )
        with open(path, "rb", buffering=0) as file:  # a descriptor of our own is closed without a ResourceWarning
            self._number = os.dup(file.fileno())
        self._file = open(self._number, "rb", buffering=0, closefd=False)  # noqa: SIM115
        self._lock = threading.Lock()
        self._stamp = _settled(self._number)
        self.size: int = self._stamp.st_size
        if not self.size and self._file.read(1):
            raise FileFormatError(
                f"{self.path} says that it has 0 bytes and has some: the system makes them up when they are read\n"
                "  hint: make the tensor of its bytes, Tensor(open(path, 'rb').read())"
            )

    def __del__(self) -> None:
        if getattr(self, "_number", -1) >= 0:
            os.close(self._number)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset` on. Raises FileFormatError as `read_into` does."""
        target = bytearray(count)
        self.read_into(offset, memoryview(target))
        return bytes(target)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `offset` on.

        Raises FileFormatError when the file was written to since it was opened, also while it is read.
        """
        with self._lock:
            self._check()
            self._file.seek(offset)
            done = 0
            while done < target.nbytes:
                count = self._file.readinto(target[done : done + _BLOCKS])
                if not count:
                    raise FileFormatError(
                        f"{self.path} ends after {offset + done} bytes, {offset + target.nbytes} are needed"
                    )
                done += count
            self._check()

    def _check(self) -> None:
        """Raise FileFormatError where the file is not as it was when it was opened.

        The time of modification can be set back (rsync, cp -p), the time of change cannot. That also moves when the
        file is renamed, removed, linked or given other rights, which leaves its bytes as they are.
        """
        now, then = os.fstat(self._number), self._stamp
        if all(getattr(now, field) == getattr(then, field) for field in _CONTENT):
            if now.st_ctime_ns == then.st_ctime_ns:
                return
            if any(getattr(now, field) != getattr(then, field) for field in _RIGHTS) or not self._is_at_its_path(now):
                self._stamp = now
                return
        raise FileFormatError(
            f"{self.path} was written to after tensors were made of it and before they were read: it had "
            f"{self.size} bytes, and has {now.st_size}\n  hint: realize the tensors before, or write a new file"
        )

    def _is_at_its_path(self, now: os.stat_result) -> bool:
        """Return whether the path still leads to the file that was opened, whose status now is `now`."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (now.st_dev, now.st_ino)


def _settled(number: int) -> os.stat_result:
    """Return the status of an open file, after waiting until the clock of its times has moved on.

    The clock of a file system ticks every 1 to 10 ms, and all writes between two ticks have one time: a write after
    this has a later one, which `_check` finds.
    """
    found = os.fstat(number)
    for _ in range(2):  # not longer: a file that is written all the time is found by the check
        age = time.time() - max(found.st_mtime_ns, found.st_ctime_ns) * 1e-9
        if not 0 <= age < _TICK:
            break
        time.sleep(_TICK - age)
        found = os.fstat(number)
    return found


class FilePart:
    """`nbytes` of a file, from `offset` on."""

    file: OpenFile
    offset: int
    nbytes: int

    __slots__ = ("file", "nbytes", "offset")

    def __init__(self, file: OpenFile, offset: int, nbytes: int) -> None:
        self.file, self.offset, self.nbytes = file, offset, nbytes

    def read_into(self, target: memoryview) -> None:
        """Fill `target`, of `nbytes`, with these bytes. Raises FileFormatError."""
        self.file.read_into(self.offset, target)


def write_atomic(path: Path, data: bytes) -> bool:
    """Write a file so that readers see the old or the new content, as a whole. Returns False where that fails."""
    return write_through(path.parent, path, data)


def write_through(folder: Path, path: Path, data: bytes) -> bool:
    """Write a file as `write_atomic` does, by a temporary one in `folder`, of the same file system."""
    try:
        with written_beside(path, folder, mode=0o644) as file:  # caches do not trust what others can write
            file.write(data)
    except OSError:
        return False
    return True


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` when the block ends without an error; after one `path` is as it was.

    The bytes go to a temporary file in the same folder, which is flushed to the disk before it is renamed,
    and the folder after it: at every moment there is either the whole old file or the whole new one. A
    replaced file keeps its mode bits, a link keeps pointing to where it did. What killed processes left in the folder
    is removed.

    Raises FileFormatError for what is no regular file: a pipe or a device would be gone. Raises IsADirectoryError for a
    folder, and FileNotFoundError where there is no folder to write to.
    """
    _refuse_special(text_of_path(path))
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no folder for the file, os.makedirs makes one", os.fspath(path))
    remove_leftovers(folder)
    with written_beside(target) as file:
        yield file
        with suppress(FileNotFoundError):
            os.chmod(file.name, os.stat(target).st_mode & 0o7777)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)


def _refuse_special(path: str) -> None:
    """Raise FileFormatError where a path leads to a pipe, a socket or a device, IsADirectoryError for a folder.

    A path that ends in a separator is one of a folder, whether that is there or not; an empty one is none.
    """
    if not path:
        raise FileNotFoundError(errno.ENOENT, "an empty path is not the name of a file", path)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.basename(path):
            raise IsADirectoryError(errno.EISDIR, "a path that ends so is one of a folder", path) from None
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _SPECIAL.items() if test(mode)), "no regular file")
        raise FileFormatError(
            f"{path} is {kind}: a file would take its place\n  hint: write to a file, and copy that to where it goes"
        )


def _sync_folder(folder: str) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
