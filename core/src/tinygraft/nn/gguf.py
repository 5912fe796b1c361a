"""GGUF files, of llama.cpp: metadata, and tensors that are dequantised on the device when they are used.

A path in; the metadata as a dict, and the tensors by name, each made when it is first read: its bytes stay in the file
until they are needed, and become float32 by operations of Tensor (ggufblocks.py, ggufgrids.py). The header is read
here, with bounds: no count, length or offset that a file claims is believed before the file is that long.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.device.registry import Device
from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.files import OpenFile
from tinygraft.helpers import prod
from tinygraft.nn.ggufblocks import BLOCKS, dequantised
from tinygraft.nn.lazily import LazyTensors
from tinygraft.nn.safeheader import other_format
from tinygraft.tensor.data.ondisk import file_node, whole_file
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.uop import Place

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_PLAIN = {0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
          27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16}  # fmt: skip
_NOT_DONE = {9: "Q8_1", 15: "Q8_K", 41: "Q1_0"}
_DEEPEST = 8  # assumed: arrays of arrays in metadata; files have one level
_MOST_AXES = 4  # given: ggml has four
_LEAST_ENTRY, _LEAST_TENSOR = 13, 24  # given: bytes of the shortest entry of metadata, and of a tensor
_LONGEST = 1 << 26  # assumed: bytes of a header. One with 500,000 tokens and merges has 20 MB; it is all kept in memory
_MOST_VALUES = 1 << 21  # assumed: texts and lists in lists of metadata; 260,000 tokens and 510,000 merges are many
# assumed: numbers in lists of metadata, of 8 to 40 bytes each in Python; 500,000 tokens have two lists of as many
_MOST_NUMBERS = 1 << 22
_MOST_ENTRIES, _MOST_TENSORS = (
    1 << 16,
    1 << 18,
)  # assumed: of metadata, which has some 50; a model has some 10,000 tensors
_PIECE = 1 << 16  # bytes of the header that are read at once


@dataclass(frozen=True)
class _Entry:
    """A tensor of the file: its shape here, the type of its blocks, and where it begins after the header."""

    shape: tuple[int, ...]
    kind: int
    start: int


def gguf_load(path: str | os.PathLike[str] | Tensor, device: Place = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata of a GGUF file as a dict, and its tensors by name.

    `path` may be Tensor(Path(...)) that was not read, as in tinygrad; DTypeError is raised for another tensor.
    A tensor is made when it is first read, on `device`. Quantised ones are float32, equal bit for bit to what the
    package gguf makes of them; others keep their dtype. Shapes are in NumPy's order, the reverse of the file's. The
    IQ1, IQ2 and IQ3 types need the package (`pip install tinygraft[gguf]`) for its tables. Raises FileFormatError for a
    file that is damaged or claims what it does not have, UnsupportedError for a version, or for a type of blocks when
    that tensor is read.
    """
    file, name = _opened(path), Device.canonicalize(device)
    label = file.path
    header = GgufHeader(file, label)
    metadata, entries = header.metadata, header.tensors
    first = local_devices(name)[0] if isinstance(name, tuple) else name

    def make(key: str, entry: _Entry) -> Tensor:
        """Make the tensor of one entry, over its bytes in the file."""
        where = header.start + entry.start
        if entry.kind in _PLAIN:
            return Tensor(file_node(file, where, entry.shape, first, _PLAIN[entry.kind])).to(name)
        if entry.kind not in BLOCKS:
            raise UnsupportedError(
                f"{label}: the tensor {key!r} has blocks of the type {_kind(entry.kind)}, not read here"
            )
        block = BLOCKS[entry.kind]
        shape = (prod(entry.shape) // block.length, block.nbytes)
        blocks = Tensor(file_node(file, where, shape, first, dtypes.uint8)).to(name)
        return dequantised(blocks, entry.kind).reshape(entry.shape)

    return metadata, LazyTensors(entries, make)


def _opened(path: str | os.PathLike[str] | Tensor) -> OpenFile:
    """Return the file at a path, or that of a tensor which is still in it. Raises DTypeError for another tensor."""
    file = whole_file(path.uop) if isinstance(path, Tensor) else OpenFile(path)
    if file is None:
        raise DTypeError("gguf_load reads a file in parts: give its path, or Tensor(Path(path)) that was not read")
    return file


def _kind(kind: int) -> str:
    """Return the number and the name of a type of blocks, for an error."""
    return f"{kind} ({BLOCKS[kind].name if kind in BLOCKS else _NOT_DONE.get(kind, 'unknown')})"


class GgufHeader:
    """What is before the data: `metadata`, `tensors` by name and `start`, the offset of the data, read and checked.

    Raises FileFormatError for what is no whole header, or has tensors outside the file, and UnsupportedError for a
    version. `label` is the file's name for errors.
    """

    def __init__(self, file: OpenFile, label: str) -> None:
        self._file, self._label, self._at = file, label, 0
        self._piece, self._piece_at, self._values, self._numbers = b"", 0, 0, 0
        if (start := self._bytes(4)) != b"GGUF":
            raise FileFormatError(f"{label} is no GGUF file: it does not begin with GGUF{other_format(start)}")
        version = self._number("I")
        if version not in (2, 3):
            why = "of the other byte order" if version & 0xFFFF == 0 else "not read here"
            raise UnsupportedError(f"{label} is GGUF of version {version}, {why}; 2 and 3 are, little endian")
        tensors, entries = (
            self._count("Q", _LEAST_TENSOR, "tensors", _MOST_TENSORS),
            self._count("Q", _LEAST_ENTRY, "entries of metadata", _MOST_ENTRIES),
        )
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            self._once(self.metadata, self._text(), lambda: self._value(self._number("I"), 0))
        self.tensors: dict[str, _Entry] = {}
        for _ in range(tensors):
            self._once(self.tensors, self._text(), self._entry)
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise FileFormatError(f"{label} has the alignment {alignment!r}, which is no power of two")
        self.start: int = -(-self._at // alignment) * alignment
        self._check_layout(alignment)

    def _once(self, found: dict[str, Any], key: str, read: Callable[[], Any]) -> None:
        """Add what `read` returns under a key. Raises FileFormatError for a key that is there."""
        if key in found:
            raise FileFormatError(f"{self._label}: the header has {key!r} twice")
        found[key] = read()

    def _bytes(self, count: int) -> bytes:
        """The next bytes. Raises FileFormatError where the file ends before."""
        if count > self._file.size - self._at:
            raise FileFormatError(
                f"{self._label}: the header needs {count} bytes from byte {self._at} on, the file has {self._file.size}"
            )
        if self._at + count > _LONGEST:  # a file may have holes, and be as long as it claims
            raise FileFormatError(
                f"{self._label}: the header has {count} bytes from byte {self._at} on; at most {_LONGEST} are read"
            )
        first = self._at - self._piece_at
        if first + count > len(self._piece):
            self._piece_at, first = self._at, 0
            self._piece = self._file.read(self._at, min(max(count, _PIECE), self._file.size - self._at))
        self._at += count
        return self._piece[first : first + count]

    def _number(self, code: str) -> Any:
        """Return the next number, little endian; `code` is that of struct."""
        return struct.unpack(f"<{code}", self._bytes(struct.calcsize(f"<{code}")))[0]

    def _count(self, code: str, least: int, what: str, most: int | None = None) -> int:
        """Return the next number, which counts things of at least `least` bytes each.

        Raises FileFormatError, with `what` they are, where the rest of the file is too short for so many, or there are
        more than `most`.
        """
        count = int(self._number(code))
        if count * least > self._file.size - self._at:
            raise FileFormatError(
                f"{self._label} claims {count} {what}, and has {self._file.size - self._at} bytes for them"
            )
        if most is not None and count > most:
            raise FileFormatError(f"{self._label}: the header has {count} {what}; at most {most} are read")
        return count

    def _text(self) -> str:
        """Return the next text: its length, then UTF-8. Raises FileFormatError for bytes that are none."""
        data = self._bytes(self._count("Q", 1, "bytes of text"))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise FileFormatError(f"{self._label}: the header has text that is not UTF-8: {data[:40]!r}") from None

    def _value(self, kind: int, depth: int) -> Any:
        """Return a value of the metadata by its type `kind`: a number, text, or a list.

        `depth` is how many lists it is in. Raises FileFormatError for an unknown type, and lists nested too deeply.
        """
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == _TEXT:
            return self._text()
        if kind != _ARRAY or depth >= _DEEPEST:
            what = "is nested too deeply" if kind == _ARRAY else f"has the unknown type {kind}"
            raise FileFormatError(f"{self._label}: a value of the metadata {what}")
        inner = self._number("I")
        if inner in _NUMBERS:
            code = _NUMBERS[inner]
            count = self._count("Q", struct.calcsize(f"<{code}"), "numbers")
            self._numbers += count
            if self._numbers > _MOST_NUMBERS:
                raise FileFormatError(
                    f"{self._label}: metadata has lists of {self._numbers} numbers; at most {_MOST_NUMBERS} are read"
                )
            return list(struct.unpack(f"<{count}{code}", self._bytes(count * struct.calcsize(f"<{code}"))))
        count = self._count("Q", 8, "values")
        self._values += count
        if self._values > _MOST_VALUES:
            raise FileFormatError(
                f"{self._label}: the metadata has lists of {self._values} texts; at most {_MOST_VALUES} are read"
            )
        return [self._value(inner, depth + 1) for _ in range(count)]

    def _entry(self) -> _Entry:
        """Return the next tensor: its sizes, the fastest first, its type and its offset.

        FileFormatError for too many axes.
        """
        axes = self._number("I")
        if axes > _MOST_AXES:
            raise FileFormatError(f"{self._label}: a tensor has {axes} axes; GGUF has at most {_MOST_AXES}")
        sizes = [self._number("Q") for _ in range(axes)]
        return _Entry(tuple(reversed(sizes)), self._number("I"), self._number("Q"))

    def _check_layout(self, alignment: int) -> None:
        """Raise FileFormatError for a tensor that is not within the file, or not aligned, or no whole blocks."""
        for name, entry in self.tensors.items():
            length, nbytes = _block(entry.kind)
            count = prod(entry.shape)
            if count >= 1 << 63:
                raise FileFormatError(
                    f"{self._label}: the tensor {name!r} has the shape {entry.shape}: too many elements"
                )
            if entry.shape and entry.shape[-1] % length:
                raise FileFormatError(
                    f"{self._label}: the tensor {name!r} has the shape {entry.shape}, rows of which are no whole "
                    f"blocks of {length}"
                )
            end = self.start + entry.start + count // length * nbytes
            if entry.start % alignment or (nbytes and end > self._file.size):
                raise FileFormatError(
                    f"{self._label}: the tensor {name!r} needs bytes {self.start + entry.start} to {end}, at a "
                    f"multiple of {alignment}; the file has {self._file.size}"
                )


def _block(kind: int) -> tuple[int, int]:
    """Return how many elements a block of a type has, and how many bytes; (1, 0) where the type is not known."""
    if kind in _PLAIN:
        return 1, _PLAIN[kind].itemsize
    return (BLOCKS[kind].length, BLOCKS[kind].nbytes) if kind in BLOCKS else (1, 0)
