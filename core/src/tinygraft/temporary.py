"""Temporary files beside the file that they become, and the removal of those whose process is gone.

    with written_beside(path) as file:     a file that replaces path at the end of the block
    remove_leftovers(folder)               removes the temporary files of killed processes

A process has a lock on its temporary file as long as it writes there, and the system ends that lock with the process:
so a file that can be locked has no process. A process number would not do: it is another one in another container, and
is reused. A file of another machine, or on a file system without locks, is removed an hour after it was last written
to.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".tinygraft-tmp"
_LONGEST = 64  # bytes of a file's name that its temporary name repeats: some file systems end names at 143 bytes
_STALE_SECONDS = 3600


def _digest(data: bytes, size: int) -> str:
    """Return `size` bytes of a hash of `data` in hexadecimal digits."""
    from hashlib import blake2b  # here: it loads OpenSSL, and `import tinygraft` writes no file

    return blake2b(data, digest_size=size).hexdigest()


def _host() -> str:
    """Return a hash of the name of this machine."""
    return _digest(getattr(os, "uname", lambda: ("", "windows"))()[1].encode(), 4)


def temporary_name(name: str) -> str:
    """Return a new name, of at most 120 bytes, for a temporary file that becomes `name`."""
    encoded = os.fsencode(name)
    if len(encoded) > _LONGEST:
        name = _digest(encoded, 12)
    return f".{name}.{_host()}{os.urandom(6).hex()}{SUFFIX}"


@contextmanager
def written_beside(
    path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` when the block ends without an error, and is removed after one.

    It is made in the folder of `path`, or in `folder`, of the same file system. `mode` are its rights at most. An
    OSError about it names `path`.
    """
    own_folder, name = os.path.split(path)
    temporary = os.path.join(own_folder if folder is None else folder, temporary_name(name))
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            try:
                if fcntl is not None:
                    with suppress(OSError):  # a file system without locks
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield file
                file.flush()
                if fcntl is None:  # Windows renames no open file; elsewhere the lock is kept until it is renamed
                    file.close()
                os.replace(temporary, path)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
    except OSError as error:
        if error.filename != temporary:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files in a folder that no process writes any more, as far as they can be removed."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(".") and entry.name.endswith(SUFFIX):
                with suppress(OSError):
                    if _is_abandoned(entry):
                        os.unlink(entry.path)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    """Return whether a temporary file has no process. An empty, young one may be about to be locked."""
    found = entry.stat(follow_symlinks=False)
    if time.time() - found.st_mtime > _STALE_SECONDS:
        return True
    is_from_here = entry.name.removesuffix(SUFFIX).rpartition(".")[2].startswith(_host())
    if not is_from_here or not found.st_size or not stat.S_ISREG(found.st_mode) or fcntl is None:
        return False
    with open(entry.path, "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its process has the lock, or the file system has no locks
            return False
    return True
