"""Archives as dicts of tensors: what a tar or zip file holds, each member the bytes of a tensor.

A path, or a tensor of bytes, in; out the members by name. A member that is in the archive as it is stays there until
it is read; one that is compressed is unpacked at once. No size that an archive claims is believed: nothing is read past
its end, and memory is allocated for unpacked bytes, not for the size that a header claims.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, FileFormatError, TinygraftError, UnsupportedError
from tinygraft.files import FilePart, text_of_path
from tinygraft.tensor.data.ondisk import unread
from tinygraft.tensor.tensor import Tensor

Archive = Tensor | str | os.PathLike[str]
LOCAL_HEADER = 30  # bytes before the name of a member of a zip file
UTF8 = 0x800  # the flag of a member whose name is in UTF-8
_PIECE = 1 << 20  # bytes that are unpacked at once
_LONGEST_HEADER = 16 << 20  # bytes that a name and other notes of a member of a tar archive may have
_PACKED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
)  # fmt: skip  what the standard library raises for an archive that is none


class TensorIO(io.RawIOBase):
    """A tensor of bytes as a file to be read. Raises DTypeError for another dtype or more than one axis.

    >>> from tinygraft import Tensor
    >>> file = TensorIO(Tensor(b"some bytes"))
    >>> file.seek(5), file.read(3)
    (5, b'byt')
    """

    def __init__(self, t: Tensor) -> None:
        if t.ndim != 1 or t.dtype is not dtypes.uint8:
            raise DTypeError(f"a file is a tensor of bytes with one axis, got shape {t.shape} of {t.dtype}")
        self._tensor, self._place = t, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to an offset from the start, from here or from the end.

        Returns the new offset, which is at least 0 and may be past the end.
        """
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._tensor.size}[whence]
        self._place = max(base + offset, 0)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, as many as there are; return how many, 0 at the end."""
        view = memoryview(buffer).cast("B")
        end = min(self._place + view.nbytes, self._tensor.size)
        count = max(end - self._place, 0)
        if count:
            source = unread(self._tensor.uop)
            if source is None:
                view[:count] = self._tensor[self._place : end].data()
            else:
                FilePart(source.file, source.offset + self._place, count).read_into(view[:count])
            self._place = end
        return count


class BoundedFile(io.BufferedReader):
    """A tensor of bytes as a file that is read in order: a read past its end takes no memory for what is not there.

    `longest` is the most bytes that one read may want, None any number; DTypeError is raised as by TensorIO.
    """

    longest: int | None

    def __init__(self, t: Tensor, longest: int | None = None) -> None:
        super().__init__(TensorIO(t))
        self.longest, self._end = longest, t.size

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, at most as many as there are; all of them for None or a negative number.

        Raises FileFormatError where these are more than `longest`.
        """
        left = max(self._end - self.tell(), 0)
        size = left if size is None or size < 0 else min(size, left)
        if self.longest is not None and size > self.longest:
            raise FileFormatError(f"this archive has a header of {size} bytes, {self.longest} are allowed")
        return super().read(size)


def as_bytes(source: Archive) -> Tensor:
    """Return `source` where it is a tensor, else the uint8 tensor, on disk, of the file at that path."""
    return source if isinstance(source, Tensor) else Tensor(Path(text_of_path(source)))


def tar_extract(t: Archive) -> dict[str, Tensor]:
    """Return the regular files in a tar archive by name, uint8 tensors of one axis.

    `t` is a path or such a tensor; the archive may be compressed by gzip, bzip2 or xz. Folders and links are left out,
    of two files with one name the last is returned. Raises FileFormatError for what is no such archive or a damaged
    one, UnsupportedError for a sparse file.

    >>> import io, tarfile
    >>> from tinygraft import Tensor
    >>> out = io.BytesIO()
    >>> with tarfile.open(fileobj=out, mode="w") as tar:
    ...     info = tarfile.TarInfo("greeting")
    ...     info.size = 5
    ...     tar.addfile(info, io.BytesIO(b"hello"))
    >>> bytes(tar_extract(Tensor(out.getvalue()))["greeting"].tolist())
    b'hello'
    """
    data = as_bytes(t)
    head = bytes(data[: min(6, data.size)].data()) if data.size else b""
    unpack = next((opener for magic, opener in _PACKED.items() if head.startswith(magic)), None)
    try:
        with BoundedFile(data, _LONGEST_HEADER) as file:
            if unpack is None:
                return dict(
                    _tar_members(
                        file, lambda _, m: _part(data, f"{m.name!r} in this tar archive", m.offset_data, m.size)
                    )
                )
            with unpack(file) as stream:
                return dict(_tar_members(_Stream(stream), _unpacked))
    except TinygraftError:
        raise
    except _DAMAGE as error:
        raise FileFormatError(f"this is no tar archive, compressed or not: {error}") from error


def _tar_members(file: Any, content: Callable[[tarfile.TarFile, tarfile.TarInfo], Tensor]
                 ) -> Iterator[tuple[str, Tensor]]:  # fmt: skip
    """Yield name and content of each regular file of the uncompressed archive `file`; `content` makes a tensor of one.

    Raises FileFormatError where the archive leads back to where it was, or a size is negative, and UnsupportedError for
    a sparse file.
    """
    last = -1
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            if member.size < 0 or member.offset <= last:
                raise FileFormatError(f"{member.name!r} in this tar archive has {member.size} bytes")
            last = member.offset
            if member.issparse():
                raise UnsupportedError(
                    f"{member.name!r} in this tar archive is a sparse file, with holes that are not in the archive\n"
                    "  hint: make the archive without --sparse"
                )
            if member.isfile():
                yield member.name, content(tar, member)


def _unpacked(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Tensor:
    """Return the content of a member, read piece by piece: memory is used only for bytes that exist.

    Raises FileFormatError where fewer exist than the header says.
    """
    source = tar.extractfile(member)
    assert source is not None
    found = bytearray()
    while piece := source.read(_PIECE):
        found += piece
    if len(found) != member.size:
        raise FileFormatError(
            f"{member.name!r} in this tar archive has {member.size} bytes, of which {len(found)} exist"
        )
    return Tensor(found)


class _Stream:
    """A file that is unpacked while it is read, a piece at a time: no memory is used for bytes that do not exist."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.seek, self.tell = source.seek, source.tell

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`; fewer only at the end. A negative `size` reads nothing."""
        found = bytearray()
        while (left := size - len(found)) > 0 and (piece := self._source.read(min(left, _PIECE))):
            found += piece
        return bytes(found)


def zip_extract(t: Archive) -> dict[str, Tensor]:
    """Return the files in a zip archive by name, uint8 tensors of one axis.

    `t` is a path or a uint8 tensor of one axis. Stored files are views of the archive, compressed ones are unpacked at
    once. Folders are left out, of two files with one name the last is returned. Raises FileFormatError for what is no
    zip archive, a damaged one, and a file with a password or an unknown compression.
    """
    files = ZipFiles(as_bytes(t))
    return {name: files.tensor(name) for name in files.names}


class ZipFiles:
    """The files in a zip archive, which are looked at one by one. Raises FileFormatError for what is no archive.

    `data` is a uint8 tensor of one axis. `names` has the entry of each file, folders left out, by its name.
    """

    def __init__(self, data: Tensor) -> None:
        self._data, self._file = data, BoundedFile(data)
        try:
            self._archive = zipfile.ZipFile(self._file)
        except TinygraftError:
            raise
        except _DAMAGE as error:
            raise FileFormatError(f"this is no zip archive: {error}") from error
        self.names: dict[str, zipfile.ZipInfo] = {
            info.filename: info for info in self._archive.infolist() if not info.is_dir()
        }

    def tensor(self, name: str, most: int | None = None) -> Tensor:
        """Return the bytes of a file, or its first `most`, as uint8.

        It is a view of the archive unless it is compressed. Raises FileFormatError where the file is not in the
        archive, has less than `most` bytes, reaches past the end of the archive or cannot be unpacked. The checksum is
        checked only where a compressed file is read to its end.
        """
        info = self._found(name)
        if most is not None and info.file_size < most:
            raise FileFormatError(f"{name!r} in this zip archive has {info.file_size} bytes, {most} are needed")
        size = info.file_size if most is None else most
        if self._is_plain(info):
            start = self._start(info)
            return _part(self._data, f"{name!r} in this zip archive", start, size)
        return Tensor(self._unpack(info, size))

    def read(self, name: str, longest: int) -> bytes:
        """Return the bytes of a file, whose checksum is checked; one of 0 stands for none.

        Raises FileFormatError where the file is not in the archive, has more than `longest` bytes, or is damaged.
        """
        info = self._found(name)
        if info.file_size > longest:
            raise FileFormatError(f"{name!r} in this zip archive has {info.file_size} bytes, {longest} are allowed")
        if not self._is_plain(info):
            return bytes(self._unpack(info, info.file_size))
        data = bytes(self.tensor(name).data()) if info.file_size else b""
        found = zlib.crc32(data)
        if info.CRC not in (found, 0):  # 0: PyTorch was configured to write none
            raise FileFormatError(
                f"{name!r} in this zip archive is damaged: the checksum of its bytes is {found:08x}, and should be "
                f"{info.CRC:08x}"
            )
        return data

    def _found(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of a file. Raises FileFormatError where the archive has none of that name."""
        if name not in self.names:
            raise FileFormatError(f"there is no {name!r} in this zip archive")
        return self.names[name]

    @staticmethod
    def _is_plain(info: zipfile.ZipInfo) -> bool:
        """Return whether the bytes of a file are in the archive as they are: neither compressed nor encrypted."""
        is_encrypted = info.flag_bits & 1
        return info.compress_type == zipfile.ZIP_STORED and not is_encrypted

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Return the offset of the bytes of a stored file: after a header of its own, with its name and extra fields.

        Raises FileFormatError where that header is not there, or not whole: its lengths would lead anywhere.
        """
        self._file.seek(max(info.header_offset, 0))
        header = self._file.read(LOCAL_HEADER)
        if len(header) < LOCAL_HEADER or header[:4] != b"PK\x03\x04" or info.header_offset < 0:
            raise FileFormatError(f"{info.filename!r} in this zip archive is not where the archive says")
        name, extra = struct.unpack("<HH", header[26:30])
        is_named = self._file.read(name) == info.orig_filename.encode("utf-8" if info.flag_bits & UTF8 else "cp437")
        if not is_named or not _is_whole(self._file.read(extra), extra):
            raise FileFormatError(f"the header of {info.filename!r} in this zip archive is damaged")
        return int(info.header_offset + LOCAL_HEADER + name + extra)

    def _unpack(self, info: zipfile.ZipInfo, size: int) -> bytearray:
        """Return the first `size` bytes of a compressed file, read piece by piece: only bytes that exist take memory.

        Raises FileFormatError where there are fewer, and for a method or a password that is needed.
        """
        found = bytearray()
        try:
            with self._archive.open(info) as source:
                while (left := size - len(found)) > 0 and (piece := source.read(min(left, _PIECE))):
                    found += piece
        except TinygraftError:
            raise
        except _DAMAGE as error:  # RuntimeError: a method or a password
            raise FileFormatError(f"{info.filename!r} in this zip archive cannot be unpacked: {error}") from error
        if len(found) < size:
            raise FileFormatError(
                f"{info.filename!r} in this zip archive cannot be unpacked: {size} bytes are needed, "
                f"of which {len(found)} exist"
            )
        return found


def _is_whole(extra: bytes, length: int) -> bool:
    """Return whether extra fields fill `length` bytes: each has an id and a length, and zeros may come after them."""
    offset = 0
    while offset + 4 <= len(extra):
        offset += 4 + int.from_bytes(extra[offset + 2 : offset + 4], "little")
    return len(extra) == length and offset <= length and not any(extra[offset:])


def _part(data: Tensor, what: str, start: int, size: int) -> Tensor:
    """Return bytes `start` to `start + size` of an archive as a view of `data`; `what` names them in the error.

    Raises FileFormatError where they reach past the end.
    """
    if start + size > data.size:
        raise FileFormatError(f"{what} needs bytes {start} to {start + size}, the archive has {data.size}")
    return data[start : start + size]
