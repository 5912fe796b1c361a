"""The safetensors format: a dict of tensors as one file, and such a file as a dict of tensors.

Why not the `safetensors` package: its Python side gives numpy arrays, which have no bfloat16, and its
messages do not say which tensor is wrong by how many bytes. Here the whole header is checked against the size
of the file before anything is allocated. What we write is byte for byte what the package writes; the tests
hold us to it.

    8 bytes   N, little endian N bytes   JSON: {"__metadata__": {text: text}, name: {"dtype", "shape",
    "data_offsets": [start, end]}, ...} the rest  the tensors' bytes, row-major and little endian, with no
    hole between them

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from tinygraft.device.registry import Device
from tinygraft.dtype import DType, dtypes, part_of
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.files import OpenFile, replacing
from tinygraft.helpers import prod
from tinygraft.tensor.ondisk import file_node
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

Path = str | os.PathLike[str]

MAX_HEADER = 100_000_000
"""No header is longer than this many bytes, by the format's own rule."""

_NAMES = {
    dtypes.bool: "BOOL", dtypes.uint8: "U8", dtypes.int8: "I8", dtypes.fp8e5m2: "F8_E5M2", dtypes.fp8e4m3: "F8_E4M3",
    dtypes.fp8e4m3fnuz: "F8_E4M3FNUZ", dtypes.fp8e5m2fnuz: "F8_E5M2FNUZ", dtypes.int16: "I16", dtypes.uint16: "U16",
    dtypes.float16: "F16", dtypes.bfloat16: "BF16", dtypes.int32: "I32", dtypes.uint32: "U32",
    dtypes.float32: "F32", dtypes.complex64: "C64", dtypes.float64: "F64", dtypes.int64: "I64", dtypes.uint64: "U64",
}  # fmt: skip
"""The dtypes by the format's names, in the format's order."""
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_ORDER = {dtype: place for place, dtype in enumerate(_NAMES)}
_NOT_OURS = frozenset({"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: its bytes are [start, end) of what follows the header."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def safe_save(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a safetensors file at path, whole or not at all.

    Works for all dtypes but complex128, and any shape, also over the file that the tensors were loaded from.
    metadata is text by text. Raises DTypeError for what is neither tensor nor text, FileFormatError for a name the
    format keeps to itself.

    >>> import tempfile, os
    >>> from tinygraft import Tensor
    >>> path = os.path.join(tempfile.mkdtemp(), "small.safetensors")
    >>> safe_save({"a": Tensor([1, 2, 3])}, path)
    >>> safe_load(path)["a"].tolist()
    [1, 2, 3]
    """
    _check_request(tensors, metadata or {})
    if tensors:
        first, *others = tensors.values()
        first.realize(*others)
    named = sorted(tensors.items(), key=lambda item: (-_ORDER[item[1].dtype], item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in named:
        start, end = end, end + prod(_sizes(name, tensor)) * tensor.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in named:
            file.write(_to_bytes(tensor))


def safe_load(source: Path | bytes | bytearray | memoryview, device: Place = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of its bytes, in the order of the file.

    The bytes of a tensor are read when they are needed, so that a few tensors of a large file cost what they take. The
    file may be replaced or removed before, but not written to: that raises FileFormatError when it is read. Raises
    FileFormatError, before anything is allocated, when the file is corrupt, truncated or lies about its content, and
    UnsupportedError for a dtype that tinygraft does not have.
    """
    with _open(source) as file:
        entries, _, start = _read_header(file, _label(source))
        if isinstance(source, (bytes, bytearray, memoryview)) or sys.byteorder != "little":
            return {entry.name: _read_tensor(file, entry, start, _label(source), device) for entry in entries}
    opened, name = OpenFile(source), Device.canonicalize(device)
    first = name[0] if isinstance(name, tuple) else name
    return {e.name: _in_file(opened, e, start, first).to(name) for e in entries}


def safe_load_metadata(source: Path | bytes | bytearray | memoryview) -> dict[str, str]:
    """The metadata of a safetensors file, text by text; no tensor is read. Raises as safe_load does."""
    with _open(source) as file:
        return _read_header(file, _label(source))[1]


# Reading


def _open(source: Path | bytes | bytearray | memoryview) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, (bytes, bytearray, memoryview)) else open(source, "rb")


def _label(source: Path | bytes | bytearray | memoryview) -> str:
    return "<bytes>" if isinstance(source, (bytes, bytearray, memoryview)) else os.fspath(source)


def _read_header(file: BinaryIO, label: str) -> tuple[list[Entry], dict[str, str], int]:
    """(tensors in the order of the file, metadata, start of the data), checked against the file's size."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size < 8:
        raise FileFormatError(
            f"{label}: a safetensors file starts with 8 bytes for the header's length, this has {size}"
        )
    (length,) = struct.unpack("<Q", file.read(8))
    if length > MAX_HEADER:
        raise FileFormatError(f"{label}: the header claims {length} bytes, the format allows {MAX_HEADER}")
    if length > size - 8:
        raise FileFormatError(f"{label}: the header claims {length} bytes, the file has {size - 8} after its length")
    header = _parse(file.read(length), label)
    metadata = _metadata(header.pop("__metadata__", {}), label)
    entries = [_entry(name, fields, label) for name, fields in header.items()]
    entries.sort(key=lambda entry: (entry.start, entry.end))
    _check_layout(entries, size - 8 - length, label)
    return entries, metadata, 8 + length


def _parse(text: bytes, label: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise FileFormatError(f"{label}: the header has the key {twice!r} twice")
        return found

    if not text.startswith(b"{"):
        raise FileFormatError(f"{label}: the header must be a JSON object, it starts with {bytes(text[:8])!r}")
    try:
        header = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=_no_constant)
    except RecursionError:
        raise FileFormatError(f"{label}: the header is nested too deeply to be a list of tensors") from None
    except FileFormatError:
        raise
    except ValueError as error:
        raise FileFormatError(f"{label}: the header is not JSON: {error}") from None
    return header  # type: ignore[no-any-return]


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _metadata(found: Any, label: str) -> dict[str, str]:
    if not isinstance(found, dict):
        raise FileFormatError(f"{label}: __metadata__ must map text to text, it is {_brief(found)}")
    for key, value in found.items():
        if not isinstance(value, str):
            raise FileFormatError(f"{label}: __metadata__ must map text to text, {key!r} is {_brief(value)}")
    return found


def _entry(name: str, fields: Any, label: str) -> Entry:
    """One line of the header, checked by itself."""
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        keys = sorted(fields) if isinstance(fields, dict) else fields
        raise FileFormatError(
            f"{label}: tensor {name!r} must have dtype, shape and data_offsets, it has {_brief(keys)}"
        )
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        if isinstance(dtype, str) and dtype in _NOT_OURS:
            raise UnsupportedError(f"{label}: tensor {name!r} is {dtype}, which tinygraft has no dtype for")
        raise FileFormatError(f"{label}: tensor {name!r} has the unknown dtype {_brief(dtype)}")
    if not _are_sizes(shape):
        raise FileFormatError(f"{label}: tensor {name!r} has the shape {_brief(shape)}; sizes are integers from 0")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FileFormatError(f"{label}: tensor {name!r} has the data_offsets {_brief(offsets)}, not [start, end]")
    expected, actual = prod(shape) * _DTYPES[dtype].itemsize, offsets[1] - offsets[0]
    if expected != actual:
        raise FileFormatError(
            f"{label}: tensor {name!r} of {dtype} and shape {tuple(shape)} needs {expected} bytes, its "
            f"offsets {offsets} hold {actual}"
        )
    return Entry(name, _DTYPES[dtype], tuple(shape), offsets[0], offsets[1])


def _are_sizes(value: Any) -> bool:
    """Whether value is a list of integers from 0 to 2**64 - 1."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 64 for item in value)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_layout(entries: list[Entry], size: int, label: str) -> None:
    """The tensors must fill the size bytes after the header: no overlap, no hole, nothing missing or left."""
    end, last = 0, "the header"
    for entry in entries:
        if entry.start != end:
            what = "overlaps" if entry.start < end else "leaves a hole after"
            raise FileFormatError(
                f"{label}: tensor {entry.name!r} {what} {last}: it starts at byte {entry.start}, expected {end}"
            )
        if entry.end > size:
            raise FileFormatError(
                f"{label}: tensor {entry.name!r} needs bytes {entry.start} to {entry.end}, the file has "
                f"{size} of data; it was cut short or the header lies"
            )
        end, last = entry.end, repr(entry.name)
    if end != size:
        raise FileFormatError(f"{label}: the tensors take {end} bytes, the file has {size}: {size - end} too many")


def _read_tensor(file: BinaryIO, entry: Entry, start: int, label: str, device: Place) -> Tensor:
    file.seek(start + entry.start)
    data = file.read(entry.end - entry.start)
    if len(data) != entry.end - entry.start:
        raise FileFormatError(
            f"{label}: tensor {entry.name!r} needs {entry.end - entry.start} bytes, got {len(data)}: the "
            "file changed while it was read"
        )
    return _from_bytes(data, entry, device)


def _in_file(file: OpenFile, entry: Entry, start: int, device: str) -> Tensor:
    """A tensor whose bytes are read when they are needed."""
    is_complex = entry.dtype.kind == "complex"
    shape = (*entry.shape, 2) if is_complex else entry.shape
    found = Tensor(file_node(file, start + entry.start, shape, device, part_of(entry.dtype)))
    return found.view_as_complex() if is_complex else found


# Tensors and bytes


def _from_bytes(data: bytes, entry: Entry, device: Place) -> Tensor:
    return Tensor(_little_endian(data, entry.dtype), dtype=entry.dtype, device=device).reshape(entry.shape)


def _to_bytes(tensor: Tensor) -> bytes | bytearray:
    """The bytes of a realised tensor, row-major and little endian."""
    return _little_endian(tensor._bytes(), tensor.dtype)


def _little_endian(data: bytes | bytearray, dtype: DType) -> bytes | bytearray:
    """data between the order of this machine and little endian."""
    width = part_of(dtype).itemsize
    if sys.byteorder == "little" or width == 1:
        return data
    swapped = bytearray(data)
    for place in range(width):
        swapped[place::width] = data[width - 1 - place :: width]
    return swapped


# What the caller asks to write


def _check_request(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise FileFormatError(
                f"a tensor in a safetensors file cannot be named {name!r}; names are text, and __metadata__ is the "
                "format's own"
            )
        if not isinstance(tensor, Tensor):
            raise DTypeError(f"safe_save writes tensors, {name!r} is {type(tensor).__name__}; hint: Tensor(value)")
        if tensor.dtype not in _NAMES:
            raise DTypeError(f"the safetensors format has no {tensor.dtype}, which {name!r} is; cast it first")
        _sizes(name, tensor)
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise DTypeError(f"safetensors metadata is text by text, {key!r} is {value!r}; hint: str({value!r})")


def _sizes(name: str, tensor: Tensor) -> tuple[int, ...]:
    """The tensor's shape as ints. Raises UnsupportedError for a symbolic one."""
    sizes = tuple(size for size in tensor.shape if isinstance(size, int))
    if len(sizes) != tensor.ndim:
        raise UnsupportedError(
            f"cannot save {name!r}: its shape {tensor.shape} is symbolic; shrink it to integers first"
        )
    return sizes
