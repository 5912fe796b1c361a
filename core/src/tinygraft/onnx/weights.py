"""An onnx.TensorProto as a Tensor that is made when it is first used.

`Weight.tensor()` is the tensor: over the file where the data is external, of the proto's bytes where it is not.
`Weight.numbers()` is the same on the host, for what steers. How many bytes there are is compared with the shape before
anything is allocated.
"""

from __future__ import annotations

import math
import struct
from array import array
from pathlib import Path
from typing import Any

from tinygraft.device.registry import Device
from tinygraft.dtype import DType, dtypes, part_of
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.files import OpenFile
from tinygraft.onnx.element_types import E8M0, FLOAT4, NARROW, STRING, held_in
from tinygraft.onnx.modelfile import external_file
from tinygraft.tensor.data.ondisk import file_node
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.uop import Place

_FIELDS = {1: "float_data", 7: "int64_data", 11: "double_data", 12: "uint64_data", 13: "uint64_data", 14: "float_data",
           15: "double_data"}  # fmt: skip
MOST = 4096  # assumed: more elements than any list of axes or sizes has; a longer constant is data
_CODES = {"float_data": "f", "double_data": "d", "int64_data": "q", "uint64_data": "Q"}
_SIX = (
    0.0,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    4.0,
    6.0,
)  # the values of float4e2m1 without a sign (OCP Microscaling formats 1.0)


class Weight:
    """A constant of a graph, made when it is first used.

    Raises FileFormatError where the proto contradicts itself or the file.
    """

    shape: tuple[int, ...]
    element: int

    def __init__(self, proto: Any, folder: Path | None, label: str, device: Place) -> None:
        self.element, self.shape = proto.data_type, tuple(int(size) for size in proto.dims)
        self._proto, self._label, self._device = proto, f"{label}: the tensor {proto.name!r}", device
        self._tensor: Tensor | None = None
        self._file: OpenFile | None = None
        self._offset, self._data = 0, b""
        if any(size < 0 for size in self.shape):
            raise FileFormatError(f"{self._label} has the shape {self.shape}; sizes are integers from 0")
        self.count: int = math.prod(self.shape)
        self.text: bool = self.element == STRING
        if self.text:
            self._proto = None
            return
        self.dtype: DType = held_in(self.element, self._label)
        self._check(proto, folder, label)
        if self._file is None and self.count <= MOST:  # the proto, and with it the whole model, is let go of
            self._data, self._proto = self._raw(), None

    def tensor(self) -> Tensor:
        """The tensor; the same one each time. Raises UnsupportedError for text."""
        if self._tensor is None:
            self._tensor = self._made()
            self._proto = None
        return self._tensor

    def numbers(self) -> Any:
        """The elements as nested lists, read on the host: no tensor is made where a dtype is one of Python's."""
        if self.count <= MOST and self.dtype.fmt and self.element not in (*NARROW, FLOAT4, E8M0):
            items = struct.unpack(f"<{self.count}{self.dtype.fmt}", self._raw())
            return nested(self.shape, list(items))
        return self.tensor().tolist()

    def _stored_bytes(self) -> int:
        """How many bytes the elements take in the file."""
        if self.element in NARROW or self.element == FLOAT4:
            bits = NARROW.get(self.element, (4, False))[0]
            return (self.count * bits + 7) // 8
        return self.count * (1 if self.element == E8M0 else self.dtype.itemsize)

    def _check(self, proto: Any, folder: Path | None, label: str) -> None:
        """Raise FileFormatError unless the data has as many bytes as the shape says."""
        expected = self._stored_bytes()
        if proto.data_location == 1:  # EXTERNAL
            found = self._open(proto, folder, label, expected)
        elif proto.HasField("raw_data"):
            found = len(proto.raw_data)
        else:
            field = getattr(proto, _FIELDS.get(self.element, "int32_data"))
            parts = 2 if self.dtype.kind == "complex" else 1
            packed = self.element in NARROW or self.element == FLOAT4
            found = len(field) if packed else len(field) // parts * self._stored_bytes() // max(self.count, 1)
            if not packed and len(field) != self.count * parts:
                found = len(field) * part_of(self.dtype).itemsize
        if found != expected:
            raise FileFormatError(
                f"{self._label} of {self.dtype} and shape {self.shape} needs {expected} bytes, the file has {found}"
            )

    def _open(self, proto: Any, folder: Path | None, label: str, expected: int) -> int:
        """Open the external file; return how many bytes it has for this tensor.

        Raises FileFormatError where an offset or a length is no number or is outside of the file.
        """
        entries = {entry.key: entry.value for entry in proto.external_data}
        self._file = external_file(entries.get("location", ""), folder, label)
        try:
            self._offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or expected)
        except ValueError:
            raise FileFormatError(f"{self._label} has an offset or a length that is no number: {entries}") from None
        if self._offset < 0 or length < 0 or self._offset + length > self._file.size:
            raise FileFormatError(
                f"{self._label} needs bytes {self._offset} to {self._offset + length} of {self._file.path}, which has "
                f"{self._file.size}"
            )
        return length

    def _made(self) -> Tensor:
        """Make the tensor. Raises UnsupportedError for text."""
        if self.text:
            raise UnsupportedError(f"{self._label} is text, which no tensor holds")
        if self.element in NARROW:
            bits, signed = NARROW[self.element]
            return _unpacked(self._bytes(), bits, signed, self.count).reshape(self.shape)
        if self.element == FLOAT4:
            codes = _unpacked(self._bytes(), 4, False, self.count).reshape(self.shape)
            return float4_values(codes)
        if self.element == E8M0:
            return e8m0_values(self._bytes().reshape(self.shape))
        if self._file is not None and self.dtype.kind != "complex":
            device = Device.canonicalize(self._device)
            first = local_devices(device)[0] if isinstance(device, tuple) else device
            return Tensor(file_node(self._file, self._offset, self.shape, first, self.dtype)).to(device)
        return Tensor(self._raw(), dtype=self.dtype, device=self._device).reshape(self.shape)

    def _bytes(self) -> Tensor:
        """The stored bytes."""
        return Tensor(self._raw(), dtype=dtypes.uint8, device=self._device)

    def _raw(self) -> bytes:
        """The bytes as raw_data has them, from whichever field they are in."""
        proto = self._proto
        if self._file is not None:
            return self._file.read(self._offset, self._stored_bytes())
        if proto is None:
            return self._data
        if proto.HasField("raw_data"):
            return bytes(proto.raw_data)
        field = _FIELDS.get(self.element, "int32_data")
        if self.element == 12:
            return array("I", proto.uint64_data).tobytes()
        if field in _CODES:
            return array(_CODES[field], getattr(proto, field)).tobytes()
        width = 1 if self.element in NARROW or self.element in (FLOAT4, E8M0) else self.dtype.itemsize
        whole = (1 << 8 * width) - 1
        return b"".join(struct.pack("<I", value & whole)[:width] for value in proto.int32_data)


def nested(shape: tuple[int, ...], items: list[Any]) -> Any:
    """Elements in row-major order as nested lists; a number where there is no axis."""
    if not shape:
        return items[0]
    step = math.prod(shape[1:])
    return [nested(shape[1:], items[i * step : (i + 1) * step]) for i in range(shape[0])]


def _unpacked(data: Tensor, bits: int, signed: bool, count: int) -> Tensor:
    """Return elements of a few bits, the first in the lowest, one to a byte: int8 where they are signed, else uint8."""
    mask, parts = (1 << bits) - 1, 8 // bits
    found = Tensor.stack(*[(data >> (bits * part)) & mask for part in range(parts)], dim=-1).reshape(-1)[:count]
    if not signed:
        return found
    held = found.cast(dtypes.int8)
    return (held > mask >> 1).where(held - (mask + 1), held)


def float4_values(codes: Tensor) -> Tensor:
    """The values of float4e2m1 by their codes."""
    table = Tensor([*_SIX, *(-value for value in _SIX)], dtype=dtypes.float32, device=codes.device)
    return table[codes.cast(dtypes.int32)]


def e8m0_values(codes: Tensor) -> Tensor:
    """The powers of two that float8e8m0 has, 2**(code - 127); 255 is NaN."""
    exponent = codes.cast(dtypes.int32)
    value = (exponent == 0).where(1 << 22, exponent << 23).bitcast(dtypes.float32)  # 2**-127 is subnormal
    return (exponent == 255).where(float("nan"), value)


class Given:
    """A constant that a node has as numbers."""

    element: int

    text = False

    def __init__(self, value: Any, element: int, device: Place) -> None:
        self._value, self.element, self._device = value, element, device
        self.shape: tuple[int] | tuple[()] = (len(value),) if isinstance(value, list) else ()
        self.count: int = math.prod(self.shape)
        self._tensor: Tensor | None = None

    def tensor(self) -> Tensor:
        """The tensor; the same one each time."""
        if self._tensor is None:
            self._tensor = Tensor(self._value, dtype=held_in(self.element, "a constant"), device=self._device)
        return self._tensor

    def numbers(self) -> Any:
        """The elements as they are given."""
        return self._value
