"""Files from the web, downloaded and stored: a stored file is always complete.

Modules that only `fetch` needs are imported in it, because `import tinygraft` imports this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinygraft.caches import cache_folder, is_private
from tinygraft.errors import FetchError
from tinygraft.files import replacing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_BLOCK = 1 << 20  # bytes that are in memory at a time
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive


def fetch(
    url: str | os.PathLike[str],
    name: str | None = None,
    subdir: str = "",
    *,
    checksum: str | None = None,
    gunzip: bool = False,
    hint: str = "",
) -> Path:
    """Return the path of the file at `url`, downloaded the first time to downloads/subdir/name in the cache folder.

    Without a cache folder it is stored in a folder of this user in the system's temporary one. A url without a scheme
    is the path of a file, which is used where it is; with `gunzip` its content is unpacked as that of a download.

    `checksum` is the MD5 (32 hex digits) or SHA-256 (64) of the downloaded bytes, before they are unpacked; a
    stored file with another one is downloaded again. `name` is by default a digest of the url. `hint` is added
    to an error.

    With a checksum, a download that ends early is kept as name.partial, and the next call asks for the rest.

    Raises FetchError when the download fails, ends early, or has another checksum; nothing is stored at `name` then.
    """
    import hashlib

    local = _path_of(url)
    if local is not None and not gunzip:
        return _checked(local, checksum, hint)
    url = local.absolute().as_uri() if local is not None else os.fspath(url)
    name = name or hashlib.sha256(url.encode()).hexdigest()[:32] + (".gunzip" if gunzip else "")
    path = _downloads(url, hint) / subdir / name
    is_stored = path.is_file() and local is None
    if is_stored and (gunzip or not checksum or _digest(path, checksum) == checksum):
        return path
    _download(url, path, checksum, gunzip, hint)
    return path


def _path_of(url: str | os.PathLike[str]) -> Path | None:
    """Return the path that `url` is, None where it has a scheme."""
    if isinstance(url, os.PathLike):
        return Path(url)
    return None if _SCHEME.match(url) else Path(url)


def _checked(path: Path, checksum: str | None, hint: str) -> Path:
    """Return `path`, a file of this machine. Raises FetchError where it does not exist or has another checksum."""
    try:
        if not path.is_file():
            raise FetchError(f"cannot use {path}: there is no such file{_with(hint)}")
        found = _digest(path, checksum) if checksum else None
    except (OSError, ValueError) as error:
        if isinstance(error, FetchError):
            raise
        raise FetchError(f"cannot use {path}: {error}{_with(hint)}") from error
    if found != checksum:
        raise FetchError(
            f"{path} is not the file that was expected: checksum {found}, expected {checksum}{_with(hint)}"
        )
    return path


def _downloads(url: str, hint: str) -> Path:
    """Return the folder of downloads. Raises FetchError where others could write to it."""
    import tempfile

    folder = cache_folder()
    if folder is None:
        user = getattr(os, "geteuid", lambda: "files")()
        folder = Path(tempfile.gettempdir(), f"tinygraft-{user}")
        if not is_private(folder):
            raise FetchError(
                f"cannot download {url}: there is no folder for it; {folder} is not this user's alone to write"
                f"\n  hint: name another folder with TINYGRAFT_CACHE{_with(hint)}"
            )
    return folder / "downloads"


def _download(url: str, path: Path, checksum: str | None, gunzip: bool, hint: str) -> None:
    """Download the file at `url` to `path`, as a whole or not at all. Raises FetchError."""
    import gzip
    import http.client
    import shutil
    import urllib.error
    import zlib

    kept = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _partial(path, checksum) as partial:
            try:
                if partial is not None:
                    _complete(url, path, partial, str(checksum), hint)
                with replacing(path) as file:
                    if partial is not None and not gunzip:
                        shutil.copyfileobj(partial, file, _BLOCK)
                    elif partial is not None:
                        shutil.copyfileobj(gzip.GzipFile(fileobj=partial, mode="rb"), file, _BLOCK)
                    else:
                        _read_at_once(url, path.name, file, checksum, gunzip, hint)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise FetchError(f"{url} cannot be unpacked: {error}; nothing was kept{_with(hint)}") from error
            except (http.client.HTTPException, OSError):
                size = 0 if partial is None else partial.seek(0, os.SEEK_END)
                kept = f"\n  {size} bytes are kept, and the next call goes on from there" if size else ""
                raise
    except FetchError:
        raise
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(
            f"cannot download {url}: {reason}\n  it would be kept in {path.parent}, where you can put it yourself"
            f"{kept}{_with(hint)}"
        ) from error


def _opened(url: str, begin: int = 0) -> Any:
    """Return the response of a server, from byte `begin` on where it can do that."""
    import urllib.request

    headers = {"User-Agent": "tinygraft", **({"Range": f"bytes={begin}-"} if begin else {})}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30)


def _read_at_once(url: str, name: str, file: Any, checksum: str | None, gunzip: bool, hint: str) -> None:
    """Write the file at `url` to `file`. Raises FetchError for another checksum."""
    import gzip
    import shutil

    from tinygraft.progress import downloading

    with _opened(url) as response:
        source: Any = _Whole(response, checksum)
        with downloading.work(f"downloading {name}", source.announced) as source.step:
            plain = gzip.GzipFile(fileobj=source, mode="rb") if gunzip else source
            shutil.copyfileobj(plain, file, _BLOCK)
        if source.checksum != checksum:
            raise _unexpected(url, source, str(checksum), hint)


def _unexpected(url: str, source: Any, checksum: str, hint: str) -> FetchError:
    return FetchError(
        f"{url} is not the file that was expected: checksum {source.checksum}, expected {checksum} "
        f"({source.size} bytes); nothing was kept{_with(hint)}"
    )


@contextmanager
def _partial(path: Path, checksum: str | None) -> Iterator[Any]:
    """Yield the file beside `path` in which a broken download is kept; None where there is none.

    That is without a checksum, by which the parts are known to be of one file; on a system without locks; and where
    another process is downloading the same. It is removed when the block ends without an error, or with a FetchError.
    """
    if checksum is None or fcntl is None:
        yield None
        return
    name = path.with_name(path.name + ".partial")
    with open(name, "ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_own = os.path.samestat(os.fstat(file.fileno()), os.stat(name))
        except OSError:
            is_own = False
        if not is_own:
            yield None
            return
        try:
            yield file
        except BaseException as error:
            if isinstance(error, FetchError) or not os.fstat(file.fileno()).st_size:
                name.unlink(missing_ok=True)
            raise
        name.unlink(missing_ok=True)


def _complete(url: str, path: Path, partial: Any, checksum: str, hint: str) -> None:
    """Download what a partial file lacks, and go to its start. Raises FetchError where the whole is something else.

    A server that sends all of it again, or whose rest does not fit, has it downloaded from the start.
    """
    import shutil
    import urllib.error

    from tinygraft.progress import downloading

    begin = partial.seek(0, os.SEEK_END)
    try:
        response = _opened(url, begin)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not begin:  # there is nothing behind what is kept
            raise
        response = _opened(url)
    with response:
        if begin and getattr(response, "status", None) != 206:
            begin = 0
        partial.truncate(begin)
        partial.seek(0)
        source = _Whole(response, checksum, partial)
        with downloading.work(f"downloading {path.name}", source.announced) as source.step:
            shutil.copyfileobj(source, partial, _BLOCK)
    partial.flush()
    if source.checksum != checksum:
        partial.truncate(0)
        if begin:
            return _complete(url, path, partial, checksum, hint)
        raise _unexpected(url, source, checksum, hint)
    partial.seek(0)
    return None


class _Whole:
    """The response of a server as a file, whose end raises OSError where the server has announced more.

    `size` is how much was read, `checksum` its digest, of the same kind as `like`, and of what `before` has before it.
    """

    def __init__(self, response: Any, like: str | None, before: Any = None) -> None:
        import hashlib

        self._response, self.size = response, 0
        self._announced = response.headers.get("Content-Length")
        self.step: Callable[[int], None] = lambda count: None  # called with the size of each block
        self._digest = hashlib.new(_kind(like), usedforsecurity=False) if like else None
        while self._digest is not None and before is not None and (block := before.read(_BLOCK)):
            self._digest.update(block)

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, none at the end."""
        block: bytes = self._response.read(_BLOCK if size < 0 else size)
        self.size += len(block)
        self.step(len(block))
        if self._digest is not None:
            self._digest.update(block)
        if size and not block and self._announced is not None and self._announced != str(self.size):
            raise OSError(f"the connection ended after {self.size} of {self._announced} bytes")
        return block

    @property
    def announced(self) -> int:
        """Return how many bytes the server has announced; 0 where it has not."""
        text = str(self._announced)
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def checksum(self) -> str | None:
        """Return the digest of what was read; None where none was requested."""
        return None if self._digest is None else self._digest.hexdigest()


def _kind(checksum: str) -> str:
    """Return the algorithm of a checksum, by its length."""
    return "md5" if len(checksum) == 32 else "sha256"


def _digest(path: Path, like: str) -> str:
    """Return the digest of a file, of the same kind as `like`."""
    import hashlib

    found = hashlib.new(_kind(like), usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _with(hint: str) -> str:
    return f"\n  hint: {hint}" if hint else ""
