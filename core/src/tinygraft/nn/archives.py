"""Archives as dicts of tensors: what a tar or zip file holds, each member the bytes of a tensor.

A path, or a tensor of bytes, in; out the members by name. A member that lies in the archive as it is stays there until
it is read; one that is compressed is unpacked at once.
"""

from __future__ import annotations

import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.tensor.tensor import Tensor

Archive = Tensor | str | os.PathLike[str]
LOCAL_HEADER = 30  # bytes before the name of a member of a zip file


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
        """Go to an offset from the start, from here or from the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._tensor.size}[whence]
        self._place = max(base + offset, 0)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes, as many as there are."""
        view = memoryview(buffer).cast("B")
        end = min(self._place + view.nbytes, self._tensor.size)
        count = max(end - self._place, 0)
        if count:
            view[:count] = self._tensor[self._place : end].data()
            self._place = end
        return count


def as_bytes(source: Archive) -> Tensor:
    """A tensor of bytes: the one that is given, or that of a file."""
    return source if isinstance(source, Tensor) else Tensor(Path(source))


def tar_extract(t: Archive) -> dict[str, Tensor]:
    """The files in a tar archive by name. Raises FileFormatError for what is none.

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
    try:
        with tarfile.open(fileobj=io.BufferedReader(TensorIO(data)), mode="r:") as tar:
            members = [member for member in tar if member.isfile()]
            return {m.name: data[m.offset_data : m.offset_data + m.size] for m in members}
    except tarfile.ReadError:
        pass
    try:
        with tarfile.open(fileobj=io.BufferedReader(TensorIO(data)), mode="r:*") as tar:
            return {m.name: _of(tar.extractfile(m).read()) for m in tar if m.isfile()}  # type: ignore[union-attr]
    except (tarfile.ReadError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FileFormatError(f"this is no tar archive, compressed or not: {error}") from None


def zip_extract(t: Archive) -> dict[str, Tensor]:
    """The files in a zip archive by name. Raises FileFormatError for what is none."""
    data = as_bytes(t)
    try:
        with zipfile.ZipFile(io.BufferedReader(TensorIO(data))) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            return {info.filename: _member(data, archive, info) for info in members}
    except zipfile.BadZipFile as error:
        raise FileFormatError(f"this is no zip archive: {error}") from None


def _member(data: Tensor, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Tensor:
    """The bytes of a member: a part of the archive where they are stored as they are."""
    encrypted = info.flag_bits & 1
    if info.compress_type != zipfile.ZIP_STORED or encrypted:
        try:
            return _of(archive.read(info))
        except (zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:  # RuntimeError: a method or a password
            raise FileFormatError(f"{info.filename!r} in this zip archive cannot be unpacked: {error}") from None
    start, end = info.header_offset, info.header_offset + LOCAL_HEADER
    if end <= data.size:
        name, extra = struct.unpack("<HH", bytes(data[start:end].data())[26:30])
        start = end + name + extra
        end = start + info.file_size
    if end > data.size:
        raise FileFormatError(
            f"{info.filename!r} in this zip archive needs bytes {start} to {end}, the archive has {data.size}"
        )
    return data[start:end]


def _of(content: bytes) -> Tensor:
    return Tensor(content)
