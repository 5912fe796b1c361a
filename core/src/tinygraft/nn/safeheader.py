"""The header of a safetensors file: which tensors there are and where, checked before anything is allocated.

    8 bytes     N, little endian
    N bytes     JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [start, end]}, ...}
    then        the tensors' bytes, row-major and little endian, with no hole between them

A file can have a million tensors in 100 MB of header. So what is right is checked in one walk without a call for each
tensor, and stays as JSON has it; only where something is wrong are the tensors looked at one by one, to say what.

Source: https://github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.helpers import disable_gc, prod

MAX_HEADER = 100_000_000
"""No header is longer than this many bytes, by the format's own rule."""

NAMES = {
    dtypes.bool: "BOOL", dtypes.uint8: "U8", dtypes.int8: "I8", dtypes.fp8e5m2: "F8_E5M2", dtypes.fp8e4m3: "F8_E4M3",
    dtypes.fp8e4m3fnuz: "F8_E4M3FNUZ", dtypes.fp8e5m2fnuz: "F8_E5M2FNUZ", dtypes.int16: "I16", dtypes.uint16: "U16",
    dtypes.float16: "F16", dtypes.bfloat16: "BF16", dtypes.int32: "I32", dtypes.uint32: "U32",
    dtypes.float32: "F32", dtypes.complex64: "C64", dtypes.float64: "F64", dtypes.int64: "I64", dtypes.uint64: "U64",
}  # fmt: skip
"""The dtypes by the format's names, in the format's order."""
_DTYPES = {name: dtype for dtype, name in NAMES.items()}
_SIZES = {name: dtype.itemsize for name, dtype in _DTYPES.items()}
_NOT_OURS = frozenset({"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0"})
_MOST = 1 << 64  # no number of a header is as large
_FIELDS = ("dtype", "shape", "data_offsets")
METADATA = "__metadata__"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """One tensor of a file: its bytes are [start, end) of what follows the header."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """The tensors in the order of the file, as JSON has them, the metadata, and where the data starts."""

    tensors: Json
    metadata: dict[str, str]
    start: int

    def entry(self, name: str, label: str) -> HeaderEntry:
        """Return the tensor `name`, checked. Raises KeyError where there is none, FileFormatError, UnsupportedError."""
        return _entry(name, self.tensors[name], label)


def read_header(read: Callable[[int, int], bytes], size: int, label: str) -> Header:
    """Return the header of a file of `size` bytes, checked against that; read(offset, count) gives its bytes.

    `label` is the file's name for errors. Raises FileFormatError for a header that is none or does not fill the file,
    and UnsupportedError for a dtype of the format that is not read.
    """
    if size < 8:
        raise FileFormatError(
            f"{label}: a safetensors file starts with 8 bytes for the header's length, this has {size}"
        )
    (length,) = struct.unpack("<Q", read(0, 8))
    if length > MAX_HEADER:
        raise FileFormatError(
            f"{label}: the header claims {length} bytes, the format allows {MAX_HEADER}{other_format(read(0, 8))}"
        )
    if length > size - 8:
        raise FileFormatError(f"{label}: the header claims {length} bytes, the file has {size - 8} after its length")
    with disable_gc():  # it would walk through millions of lists that nothing can free
        tensors = _parse(read(8, length), label)
        metadata = _metadata(tensors.pop(METADATA, {}), label)
        return Header(_laid_out(tensors, size - 8 - length, label), metadata, 8 + length)


def other_format(start: bytes) -> str:
    """Return a hint where the first bytes are those of a format that has a function of its own."""
    of_torch = "torch_load reads files of PyTorch"
    for magic, name in (
        (b"PK\x03\x04", f"it is a zip archive; {of_torch}, npz_load those of NumPy"),
        (b"\x80\x02", f"it is a pickle; {of_torch}"),
        (b"GGUF", "gguf_load reads it"),
    ):
        if start.startswith(magic):
            return f"\n  hint: {name}"
    if start[8:9] == b"{":
        return "\n  hint: safe_load reads it, if it is a safetensors file"
    return ""


def brief(value: Any) -> str:
    """Return the repr of a value for a message, cut at 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# JSON


def _parse(data: bytes, label: str) -> Json:
    """Return the JSON object of a header. Raises FileFormatError for anything else, and for a key given twice.

    The parser that looks for such keys is slow, so it runs only where a count of words in the text is not conclusive.
    """
    if not data.startswith(b"{"):
        raise FileFormatError(f"{label}: the header must be a JSON object, it starts with {bytes(data[:8])!r}")
    try:
        text = data.decode()
        header: Json = json.loads(text, parse_constant=_no_constant)
        if not _has_each_key_once(text, header, label):
            header = _Careful(label).decode(text)
    except RecursionError:
        raise FileFormatError(f"{label}: the header is nested too deeply to be a list of tensors") from None
    except FileFormatError:
        raise
    except ValueError as error:
        raise FileFormatError(f"{label}: the header is not JSON: {error}") from None
    return header


def _no_constant(word: str) -> None:
    """Raise ValueError for NaN or Infinity, which Python's parser takes for JSON."""
    raise ValueError(f"{word} is no JSON")


def _has_each_key_once(text: str, header: Json, label: str) -> bool:
    """Return whether no key was given twice, of which JSON keeps the last. False also where this cannot tell.

    Each field of each tensor is in the text once. A tensor or a text of that name, or an escape that may spell it, is
    more than this can see.
    """
    count = len(header) - (METADATA in header)
    if "\\" in text or any(text.count(f'"{field}"') != count for field in _FIELDS):
        return False
    quoted = f'"{METADATA}"'
    if METADATA not in header:
        return quoted not in text
    after = re.compile(r"\s*:\s*").match(text, text.index(quoted) + len(quoted))
    if after is None or text.count(quoted) != 1:
        return False
    return bool(_Careful(label).raw_decode(text, after.end())[0] == header[METADATA])


class _Careful(json.JSONDecoder):
    """Reads JSON in which no object may have a key twice. Raises FileFormatError."""

    def __init__(self, label: str) -> None:
        super().__init__(object_pairs_hook=self._unique, parse_constant=_no_constant)
        self._label = label

    def _unique(self, pairs: list[tuple[str, Any]]) -> Json:
        """Make a dict of the keys and values of a JSON object. Raises FileFormatError for a key given twice."""
        found = dict(pairs)
        if len(found) != len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise FileFormatError(f"{self._label}: the header has the key {twice!r} twice")
        return found


def _metadata(found: Any, label: str) -> dict[str, str]:
    """Return `found`. Raises FileFormatError unless it is a dict of text by text."""
    if not isinstance(found, dict):
        raise FileFormatError(f"{label}: {METADATA} must map text to text, it is {brief(found)}")
    for key, value in found.items():
        if not isinstance(value, str):
            raise FileFormatError(f"{label}: {METADATA} must map text to text, {key!r} is {brief(value)}")
    return found


# Tensors


def _laid_out(tensors: Json, size: int, label: str) -> Json:
    """Return the tensors in the order of the file, whose data has `size` bytes.

    Raises FileFormatError unless they fill it.
    """
    found = _as_they_should_be(tensors, size)
    if found is None:
        entries = [_entry(name, fields, label) for name, fields in tensors.items()]
        entries.sort(key=lambda entry: (entry.start, entry.end))
        _check_layout(entries, size, label)
        found = {entry.name: tensors[entry.name] for entry in entries}
    return found


def _as_they_should_be(tensors: Json, size: int) -> Json | None:
    """Return the tensors in file order, None where one is not valid; `_entry` and `_check_layout` say why."""
    last, in_order = 0, True
    for fields in tensors.values():
        if type(fields) is not dict or len(fields) != 3:
            return None
        try:
            shape, offsets = fields["shape"], fields["data_offsets"]
            nbytes = _SIZES[fields["dtype"]]
        except (KeyError, TypeError):
            return None
        if type(shape) is not list or type(offsets) is not list or len(offsets) != 2:
            return None
        for length in shape:
            if type(length) is not int or not 0 <= length < _MOST:
                return None
            nbytes *= length
        start, end = offsets
        if type(start) is not int or type(end) is not int or end - start != nbytes or start < 0:
            return None
        in_order = in_order and start == last
        last = end
    if in_order:
        return tensors if last == size else None
    offsets = {name: fields["data_offsets"] for name, fields in tensors.items()}
    order = sorted(offsets, key=offsets.__getitem__)
    last = 0
    for name in order:
        start, end = offsets[name]
        if start != last:
            return None
        last = end
    return {name: tensors[name] for name in order} if last == size else None


def _entry(name: str, fields: Any, label: str) -> HeaderEntry:
    """Return one entry of the header.

    Raises FileFormatError for a wrong one, UnsupportedError for a dtype that is not read.
    """
    if not isinstance(fields, dict) or fields.keys() != set(_FIELDS):
        keys = sorted(fields) if isinstance(fields, dict) else fields
        raise FileFormatError(f"{label}: tensor {name!r} must have dtype, shape and data_offsets, it has {brief(keys)}")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        if isinstance(dtype, str) and dtype in _NOT_OURS:
            raise UnsupportedError(f"{label}: tensor {name!r} is {dtype}, which tinygraft has no dtype for")
        raise FileFormatError(f"{label}: tensor {name!r} has the unknown dtype {brief(dtype)}")
    if not _are_sizes(shape):
        raise FileFormatError(f"{label}: tensor {name!r} has the shape {brief(shape)}; sizes are integers from 0")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FileFormatError(f"{label}: tensor {name!r} has the data_offsets {brief(offsets)}, not [start, end]")
    expected, actual = prod(shape) * _DTYPES[dtype].itemsize, offsets[1] - offsets[0]
    if expected != actual:
        raise FileFormatError(
            f"{label}: tensor {name!r} of {dtype} and shape {tuple(shape)} needs {expected} bytes, its "
            f"offsets {offsets} hold {actual}"
        )
    return HeaderEntry(name, _DTYPES[dtype], tuple(shape), offsets[0], offsets[1])


def _are_sizes(value: Any) -> bool:
    """Return whether `value` is a list of integers from 0 to 2**64 - 1."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < _MOST for item in value)


def _check_layout(entries: list[HeaderEntry], size: int, label: str) -> None:
    """Raise unless the tensors fill the `size` bytes after the header: no overlap, no gap, nothing missing."""
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
                f"{size} of data; it was cut short or the header is wrong"
            )
        end, last = entry.end, repr(entry.name)
    if end != size:
        raise FileFormatError(f"{label}: the tensors take {end} bytes, the file has {size}: {size - end} too many")
