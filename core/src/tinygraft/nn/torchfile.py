"""Files that torch.save wrote, read without PyTorch: their tensors stay in the file until they are needed.

A pickle inside such a file says which tensors there are. Reading a pickle calls what it names, so only the functions
and classes of a list are known here, none of which does more than make a tensor or a container; any other name is
refused.

    zip (since PyTorch 1.6)   NAME/data.pkl, and NAME/data/KEY with the bytes of each storage
    older                     five pickles one after another, then each storage: its length as int64, its bytes
"""

from __future__ import annotations

import collections
import io
import pickle
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.nn.archives import Archive, TensorIO, as_bytes, zip_extract
from tinygraft.tensor.tensor import Tensor

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of an older file
STORAGES = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool,
    "UInt16Storage": dtypes.uint16, "UInt32Storage": dtypes.uint32, "UInt64Storage": dtypes.uint64,
    "ComplexFloatStorage": dtypes.complex64, "ComplexDoubleStorage": dtypes.complex128,
    "Float8_e4m3fnStorage": dtypes.fp8e4m3, "Float8_e5m2Storage": dtypes.fp8e5m2,
    "Float8_e4m3fnuzStorage": dtypes.fp8e4m3fnuz, "Float8_e5m2fnuzStorage": dtypes.fp8e5m2fnuz,
}  # fmt: skip
Storage = tuple[Tensor, DType]  # bytes, and of which dtype


def torch_load(fn: Archive) -> Any:
    """What torch.save wrote to a file: nested dicts and lists with tensors.

    Raises FileFormatError for what is no such file, UnsupportedError for an object of a kind that is not data.
    """
    data = as_bytes(fn)
    head = bytes(data[: min(4, data.size)].data()) if data.size else b""
    return _from_zip(data) if head == b"PK\x03\x04" else _from_pickles(data)


def _from_zip(data: Tensor) -> Any:
    members = zip_extract(data)
    found = next((name for name in members if name.endswith("/data.pkl")), None)
    if found is None:
        raise FileFormatError(f"this zip archive is not from torch.save: it has no data.pkl, but {sorted(members)[:5]}")
    folder = found.removesuffix("data.pkl")
    order = members.get(f"{folder}byteorder")
    if order is not None and bytes(order.data()) != b"little":
        raise UnsupportedError("this file is from a machine whose numbers begin with the high byte; save it on another")

    def storage(key: str, dtype: DType, count: int) -> Storage:
        return members[f"{folder}data/{key}"], dtype

    return _Reader(io.BytesIO(bytes(members[found].data())), storage).load()


def _from_pickles(data: Tensor) -> Any:
    """An older file: it is read twice, since the places of its storages come after the pickle that names them."""
    file = io.BufferedReader(TensorIO(data))
    asked: dict[str, DType] = {}

    def noted(key: str, dtype: DType, count: int) -> Storage:
        asked[key] = dtype
        return Tensor.empty(count * dtype.itemsize, dtype=dtypes.uint8), dtype

    try:
        if _Reader(file, noted).load() != MAGIC:
            raise FileFormatError("this file is not from torch.save: it does not begin with its number")
        _Reader(file, noted).load()
        _Reader(file, noted).load()
        start = file.tell()
        _Reader(file, noted).load()
        keys = _Reader(file, noted).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"this file is not from torch.save: {error}") from None
    places: dict[str, Tensor] = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        first = file.tell()
        end = first + count * asked[key].itemsize
        places[key] = data[first:end]
        file.seek(end)
    file.seek(start)
    return _Reader(file, lambda key, dtype, count: (places[key], dtype)).load()


class _Reader(pickle.Unpickler):
    """Reads a pickle of torch.save. storage(key, dtype, elements) gives the bytes of one."""

    def __init__(self, file: io.BytesIO | BinaryIO | io.BufferedReader, storage: Callable[..., Storage]) -> None:
        super().__init__(file)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for. Raises UnsupportedError for one that is not known here."""
        if module.startswith("torch") and name in STORAGES:
            return STORAGES[name]
        known = KNOWN.get(f"{module}.{name}")
        if known is None:
            raise UnsupportedError(
                f"this file has an object of {module}.{name}, which torch_load does not make: it reads tensors in "
                "dicts, lists and tuples\n  hint: save model.state_dict() instead of the model"
            )
        return known

    def persistent_load(self, pid: Any) -> Storage:
        """The storage that the pickle refers to."""
        kind, dtype, key, _, count = pid[:5]
        if kind != "storage" or not isinstance(dtype, DType):
            raise FileFormatError(f"this file refers to {kind!r} of {dtype!r}; only storages of a dtype are known")
        return self._storage(key, dtype, count)


def _tensor(storage: Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    """A view of a storage: its shape and strides count elements."""
    data, dtype = storage
    if 0 in size:
        return Tensor.empty(*size, dtype=dtype)
    order = sorted(range(len(size)), key=lambda axis: (-stride[axis], axis))
    sorted_size = [size[axis] for axis in order]
    count = 1
    is_dense = True
    for axis in reversed(order):
        is_dense = is_dense and (size[axis] == 1 or stride[axis] == count)
        count *= size[axis]
    last = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    part = data[offset * dtype.itemsize : (offset + last) * dtype.itemsize]
    flat = part.bool() if dtype is dtypes.bool else part.bitcast(dtype)
    if is_dense:
        back = [order.index(axis) for axis in range(len(size))]
        return flat.reshape(sorted_size).permute(back)
    place = Tensor([0])
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        steps = Tensor.arange(length, dtype=dtypes.int64) * step
        place = place + steps.reshape((1,) * axis + (length,) + (1,) * (len(size) - axis - 1))
    return flat[place]


def _parameter(data: Tensor, *_: Any) -> Tensor:
    return data


def _from_type(make: Callable[..., Any], kind: Any, arguments: tuple[Any, ...], state: Any) -> Any:
    return make(*arguments)


KNOWN: dict[str, Any] = {
    "collections.OrderedDict": collections.OrderedDict,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.nn.parameter.Parameter": _parameter,
    "torch.Size": tuple,
    "torch.Tensor": _parameter,
}
