"""Files: written whole or not at all, and fetched from the web once.

Nothing here knows of tensors. `OpenFile` and `FilePart` read bytes when they are needed. `cache_folder` says where
tinygraft's own files live; `write_atomic` is for a file that may be lost, `replacing` for one that must not; `fetch`
keeps what it downloads. What only fetch needs is imported there, because this file is on the way of `import tinygraft`.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tinygraft.config import CACHEDIR, CACHELEVEL
from tinygraft.errors import FetchError, FileFormatError

_STALE_SECONDS = 3600
_BLOCK = 1 << 20
_BLOCKS = 1 << 30  # bytes that one call reads; some systems refuse more than 2**31


def cache_folder() -> Path | None:
    """The folder of all disk caches, made when it is missing; None where nothing may or can be kept on disk.

    It is TINYGRAFT_CACHE, or tinygraft in the user's cache folder. A file in it may vanish or be corrupt at any time.
    """
    if CACHELEVEL.value < 1:
        return None
    try:
        folder = Path(CACHEDIR.value) if CACHEDIR.value else _users_caches() / "tinygraft"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder


def _users_caches() -> Path:
    """Where programs keep what can be made again. Raises RuntimeError when there is no home folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


class OpenFile:
    """A file to be read in parts, later: it may be renamed, replaced or removed, but not written to in between."""

    __slots__ = ("_file", "_lock", "_stamp", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not (stat.S_ISREG(mode := os.stat(path).st_mode) or stat.S_ISDIR(mode)):  # open says what a folder is
            raise FileFormatError(
                f"{self.path} is no regular file: what comes out of it cannot be read later, in parts\n"
                "  hint: make the tensor of its bytes, Tensor(open(path, 'rb').read())"
            )
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  closed when nothing refers to it any more
        self._lock = threading.Lock()
        found = os.fstat(self._file.fileno())
        self.size, self._stamp = found.st_size, (found.st_size, found.st_mtime_ns)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill target with the bytes from offset on. Raises FileFormatError when the file was written to since."""
        with self._lock:
            now = os.fstat(self._file.fileno())
            if (now.st_size, now.st_mtime_ns) != self._stamp:
                raise FileFormatError(
                    f"{self.path} was written to after tensors were made of it and before they were read: it had "
                    f"{self.size} bytes, and has {now.st_size}\n  hint: realize the tensors before, or write a new file"
                )
            self._file.seek(offset)
            done = 0
            while done < target.nbytes:
                count = self._file.readinto(target[done : done + _BLOCKS])
                if not count:
                    raise FileFormatError(
                        f"{self.path} ends after {offset + done} bytes, {offset + target.nbytes} are needed"
                    )
                done += count


class FilePart:
    """nbytes of a file, from offset on."""

    __slots__ = ("file", "nbytes", "offset")

    def __init__(self, file: OpenFile, offset: int, nbytes: int) -> None:
        self.file, self.offset, self.nbytes = file, offset, nbytes

    def read_into(self, target: memoryview) -> None:
        """Fill target, of nbytes, with these bytes. Raises FileFormatError."""
        self.file.read_into(self.offset, target)


def write_atomic(path: Path, data: bytes) -> bool:
    """Write a file so that readers see the old or the new content, never a part; False where that cannot be."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        return False
    return True


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that takes the place of path when the block ends well; after an error path is as it was.

    The bytes go to a temporary file in the same folder, which is flushed to the disk before it is renamed,
    and the folder after it: at every moment there is either the whole old file or the whole new one. A
    replaced file keeps its mode bits, a link keeps pointing to where it did. What a killed process left
    behind an hour ago or earlier is removed.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _remove_stale(folder, name)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{time.monotonic_ns()}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            with suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _remove_stale(folder: str, name: str) -> None:
    """Remove the temporary files of name that nobody has written to for an hour."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f".{name}.") and entry.name.endswith(".tmp"):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                        os.unlink(entry.path)


def _sync_folder(folder: str) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def fetch(
    url: str,
    name: str | None = None,
    subdir: str = "",
    *,
    checksum: str | None = None,
    gunzip: bool = False,
    hint: str = "",
) -> Path:
    """The file at url, downloaded the first time and kept as downloads/subdir/name in the cache folder.

    Without a cache folder it is kept in the system's temporary one.

    checksum is the MD5 (32 hex digits) or SHA-256 (64) of what is downloaded, before gunzip unpacks it; a
    kept file that does not have it is downloaded again. name is by default a digest of the url. hint is added
    to an error.

    Raises FetchError when the download fails or is not what checksum says; nothing is kept then.
    """
    import gzip
    import hashlib
    import tempfile

    name = name or hashlib.sha256(url.encode()).hexdigest()[:32] + (".gunzip" if gunzip else "")
    path = (cache_folder() or Path(tempfile.gettempdir(), "tinygraft")) / "downloads" / subdir / name
    if path.is_file() and (gunzip or not checksum or _digest(path.read_bytes(), checksum) == checksum):
        return path
    data = _download(url, path.parent, hint)
    if checksum and (found := _digest(data, checksum)) != checksum:
        raise FetchError(
            f"{url} is not the file that was expected: checksum {found}, expected {checksum} "
            f"({len(data)} bytes); nothing was kept{_with(hint)}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(gzip.decompress(data) if gunzip else data)
    return path


def _download(url: str, folder: Path, hint: str) -> bytes:
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "tinygraft"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return b"".join(iter(lambda: response.read(_BLOCK), b""))
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"cannot download {url}: {reason}\n  it would be kept in {folder}, where you can put it yourself"
            f"{_with(hint)}"
        ) from error


def _digest(data: bytes, like: str) -> str:
    """The digest of data, of the kind that like is."""
    import hashlib

    return hashlib.new("md5" if len(like) == 32 else "sha256", data, usedforsecurity=False).hexdigest()


def _with(hint: str) -> str:
    return f"\n  hint: {hint}" if hint else ""
