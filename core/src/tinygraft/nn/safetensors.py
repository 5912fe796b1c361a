"""The safetensors format: a dict of tensors as one file, and such a file as a dict of tensors.

Why not the `safetensors` package: its Python side gives numpy arrays, which have no bfloat16, and its
messages do not say which tensor is wrong by how many bytes. Here the whole header is checked against the size
of the file before anything is allocated (safeheader.py has the format). What we write is byte for byte what the
package writes; the tests hold us to it.

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Mapping
from typing import Any

from tinygraft.device.registry import Device
from tinygraft.dtype import DType, part_of
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.files import OpenFile, replacing
from tinygraft.helpers import prod
from tinygraft.nn.lazily import LazyTensors
from tinygraft.nn.safeheader import METADATA, NAMES, HeaderEntry, read_header
from tinygraft.tensor.data.ondisk import file_node, whole_file
from tinygraft.tensor.data.reading import bytes_of
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.uop import Place

FilePath = str | os.PathLike[str]
FileSource = FilePath | bytes | bytearray | memoryview | Tensor

_ORDER = {dtype: rank for rank, dtype in enumerate(NAMES)}


def safe_save(tensors: Mapping[str, Tensor], path: FilePath, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file at path, whole or not at all.

    Works for all dtypes but complex128, and any shape, also over the file that the tensors were loaded from. The
    tensors are realised. metadata is text by text. Raises DTypeError for what is neither tensor nor text, or no dict,
    FileFormatError for a name that the format keeps to itself or that UTF-8 does not have, UnsupportedError for a
    symbolic shape; and as files do, FileNotFoundError where there is no folder for the file, IsADirectoryError for a
    folder, FileFormatError for a device or a pipe.

    >>> import tempfile, os
    >>> from tinygraft import Tensor
    >>> path = os.path.join(tempfile.mkdtemp(), "small.safetensors")
    >>> safe_save({"a": Tensor([1, 2, 3])}, path)
    >>> safe_load(path)["a"].tolist()
    [1, 2, 3]
    """
    check_request(tensors, {} if metadata is None else metadata)
    if tensors:
        first, *others = tensors.values()
        first.realize(*others)
    named = sorted(tensors.items(), key=lambda item: (-_ORDER[item[1].dtype], item[0]))
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in named:
        start, end = end, end + prod(_sizes(name, tensor)) * tensor.dtype.itemsize
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in named:
            file.write(_to_bytes(tensor))


def safe_load(source: FileSource, device: Place = None) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, or of its bytes, by name, in the order of the file.

    Bytes may be a uint8 tensor too; Tensor(Path(...)) that was not read is the file, as in tinygrad.
    A tensor is made on `device` when it is first read, and its bytes are read when they are needed, so that a few
    tensors of a large file cost what they take. The file may be replaced or removed before, but not written to: that
    raises FileFormatError when it is read. Raises FileFormatError, before anything is allocated, when the file is
    corrupt, truncated or has a wrong header, and UnsupportedError for a dtype that tinygraft does not have.
    """
    content, name = _content(source), Device.canonicalize(device)
    label = _label(content)
    header = read_header(content.read, content.size, label)
    first = local_devices(name)[0] if isinstance(name, tuple) else name

    def make(key: str, _: Any) -> Tensor:
        """Make the tensor of one entry: lazy over a file, else of its bytes, swapped on a big-endian host."""
        entry = header.entry(key, label)
        if isinstance(content, OpenFile) and sys.byteorder == "little":
            return _in_file(content, entry, header.start, first).to(name)
        return _from_bytes(content.read(header.start + entry.start, entry.end - entry.start), entry, device)

    return LazyTensors(header.tensors, make)


def safe_load_metadata(source: FileSource) -> dict[str, str]:
    """Return the metadata of a safetensors file, text by text; no tensor is read. Raises as safe_load does."""
    content = _content(source)
    return read_header(content.read, content.size, _label(content)).metadata


# Reading


class _BytesFile:
    """Bytes in memory, to be read as a file is. What may change is copied."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = bytes(data)
        self.size = len(self._data)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset` on, fewer at the end."""
        return self._data[offset : offset + count]


def _content(source: FileSource) -> OpenFile | _BytesFile:
    """Return what `source`, a path, bytes or a tensor of them, is read from.

    Raises DTypeError for a tensor of anything else, and what files raise.
    """
    if isinstance(source, Tensor):
        if source.dtype.itemsize != 1 or source.ndim != 1:
            raise DTypeError(f"a file is a line of bytes, got a tensor of {source.dtype} and shape {source.shape}")
        return whole_file(source.uop) or _BytesFile(bytes_of(source))
    return _BytesFile(source) if isinstance(source, (bytes, bytearray, memoryview)) else OpenFile(source)


def _label(content: OpenFile | _BytesFile) -> str:
    """Return the path of a file for errors, or "<bytes>"."""
    return content.path if isinstance(content, OpenFile) else "<bytes>"


def _in_file(file: OpenFile, entry: HeaderEntry, start: int, device: str) -> Tensor:
    """Return a lazy tensor whose bytes are read from the file when they are needed; the data begins at byte `start`."""
    is_complex = entry.dtype.kind == "complex"
    shape = (*entry.shape, 2) if is_complex else entry.shape
    found = Tensor(file_node(file, start + entry.start, shape, device, part_of(entry.dtype)))
    return found.view_as_complex() if is_complex else found


# Tensors and bytes


def _from_bytes(data: bytes, entry: HeaderEntry, device: Place) -> Tensor:
    """Return the tensor of an entry from its bytes, little endian, on `device`."""
    return Tensor(_little_endian(data, entry.dtype), dtype=entry.dtype, device=device).reshape(entry.shape)


def _to_bytes(tensor: Tensor) -> bytes | bytearray:
    """Return the bytes of a realised tensor, row-major and little endian."""
    return _little_endian(bytes_of(tensor), tensor.dtype)


def _little_endian(data: bytes | bytearray, dtype: DType) -> bytes | bytearray:
    """Return `data` between the order of this machine and little endian; of a complex dtype each part is swapped."""
    width = part_of(dtype).itemsize
    if sys.byteorder == "little" or width == 1:
        return data
    swapped = bytearray(data)
    for byte in range(width):
        swapped[byte::width] = data[width - 1 - byte :: width]
    return swapped


# What the caller asks to write


def check_request(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Raise, before anything is written, for what the format cannot have: a name, a value, a dtype, a size.

    Raises DTypeError, FileFormatError and UnsupportedError as safe_save says.
    """
    for what, given in (("tensors by their names", tensors), ("metadata, text by text", metadata)):
        if not isinstance(given, Mapping):
            hint = "" if given is metadata else "\n  hint: nn.state.get_state_dict(model) has those of a model"
            raise DTypeError(f"safe_save writes a dict of {what}, got {type(given).__name__}{hint}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == METADATA:
            raise FileFormatError(
                f"a tensor in a safetensors file cannot be named {name!r}; names are text, and {METADATA} is the "
                "format's own"
            )
        _check_text(name)
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"safe_save writes tensors, {name!r} is {type(tensor).__name__}; hint: Tensor(value)")
        if tensor.dtype not in NAMES:
            raise DTypeError(f"the safetensors format has no {tensor.dtype}, which {name!r} is; cast it first")
        _sizes(name, tensor)
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise DTypeError(f"safetensors metadata is text by text, {key!r} is {value!r}; hint: str({value!r})")
        _check_text(key)
        _check_text(value)


def _check_text(text: str) -> None:
    """Raise FileFormatError for text that UTF-8 does not have: half of a pair of surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FileFormatError(
            f"a safetensors file has its text in UTF-8, which has no {text[error.start]!r}: that is at {error.start} "
            f"of {text!r}"
        ) from None


def _sizes(name: str, tensor: Tensor) -> tuple[int, ...]:
    """Return the tensor's shape as ints. Raises UnsupportedError for a symbolic one."""
    sizes = tuple(size for size in tensor.shape if isinstance(size, int))
    if len(sizes) != tensor.ndim:
        raise UnsupportedError(
            f"cannot save {name!r}: its shape {tensor.shape} is symbolic; shrink it to integers first"
        )
    return sizes
