"""Files that torch.save wrote, read without PyTorch: their tensors stay in the file until they are needed.

A pickle inside such a file says which tensors there are. It is read as data (pickled.py): only what is in a list here
has a meaning, none of which does more than make a tensor or a container, and everything else is refused. Of an archive
only what the pickle names is looked at. Numbers of a file are checked against its real size before anything is made.

    zip (since PyTorch 1.6)   NAME/data.pkl, and NAME/data/KEY with the bytes of each storage
    older                     five pickles one after another, then each storage: its length as int64, its bytes
"""

from __future__ import annotations

import collections
import io
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import FileFormatError, TinygraftError, UnsupportedError
from tinygraft.nn import pickled
from tinygraft.nn.archives import Archive, BoundedFile, ZipFiles, as_bytes
from tinygraft.nn.safeheader import other_format
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
    "UntypedStorage": dtypes.uint8,
}  # fmt: skip
DTYPES = {
    "float64": dtypes.float64, "float32": dtypes.float32, "float16": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "int64": dtypes.int64, "int32": dtypes.int32, "int16": dtypes.int16, "int8": dtypes.int8, "uint8": dtypes.uint8,
    "uint16": dtypes.uint16, "uint32": dtypes.uint32, "uint64": dtypes.uint64, "bool": dtypes.bool,
    "complex64": dtypes.complex64, "complex128": dtypes.complex128, "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2, "float8_e4m3fnuz": dtypes.fp8e4m3fnuz, "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}  # fmt: skip
# dtypes of NumPy's numbers, as it pickles them: kind and bytes
NUMBERS = frozenset(["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1", "c8", "c16"])
_STATE = (None, None, None, -1, -1, 0)  # of a dtype of NumPy behind its version and the order of bytes
_MOST_AXES = 64
_MOST_ELEMENTS = 1 << 60
_LONGEST_PICKLE = 64 << 20  # bytes, where it is compressed: more only where the archive itself is larger


@dataclass(frozen=True, slots=True)
class Storage:
    """count elements of dtype, and their bytes; no bytes yet while the first pass over an older file is made."""

    dtype: DType
    count: int
    data: Tensor | None


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of storages by name: what its elements are."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class NumberKind:
    """A dtype of NumPy's numbers, by its name in NUMBERS."""

    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """Something else that a file may name. make is what a call of it gives, where it can be called."""

    name: str
    make: Callable[..., Any] | None = None


def torch_load(fn: Archive) -> Any:
    """Return what torch.save wrote to a file: nested dicts and lists with tensors, which are lazy over the file.

    `fn` is a path or a uint8 tensor of its bytes. Strides become views, or gathers where they are not dense. Raises
    FileFormatError for what is no such file or a damaged one, UnsupportedError for an object of a kind that is not
    data, and for a file of a big-endian machine.
    """
    data = as_bytes(fn)
    head = bytes(data[: min(9, data.size)].data()) if data.size else b""
    if not head.startswith((b"PK\x03\x04", b"\x80")) and (hint := other_format(head)):
        raise FileFormatError(f"this file is not from torch.save: it begins with {head!r}{hint}")
    try:
        return _from_zip(data) if head.startswith(b"PK\x03\x04") else _from_pickles(data)
    except TinygraftError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, struct.error) as error:
        raise FileFormatError(f"this file is not from torch.save, or is damaged: {error}") from error


def _from_zip(data: Tensor) -> Any:
    """Read the format of PyTorch 1.6 and later: a zip archive of data.pkl and one member for each storage.

    Members become tensors only as the pickle refers to them, each once. Raises FileFormatError for another archive,
    UnsupportedError for a file of a big-endian machine.
    """
    members = ZipFiles(data)
    found = next((name for name in members.names if name.endswith("/data.pkl")), None)
    if found is None:
        shown = sorted(members.names)[:5]
        raise FileFormatError(f"this zip archive is not from torch.save: it has no data.pkl, but {shown}")
    folder = found.removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in members.names and members.read(order, 100) != b"little":
        raise UnsupportedError("this file is from a machine whose numbers begin with the high byte; save it on another")
    made: dict[str, Tensor] = {}

    def bytes_of(key: str, dtype: DType, count: int) -> Tensor:
        if key not in made:
            made[key] = members.tensor(f"{folder}data/{key}", count * dtype.itemsize)
        return made[key]

    pickle = members.read(found, max(_LONGEST_PICKLE, data.size))
    return pickled.load(io.BytesIO(pickle), _TorchMeaning(bytes_of, len(pickle)))


def _from_pickles(data: Tensor) -> Any:
    """Return the content of an older file.

    It is read twice, since the offsets of its storages come after the pickle that names them. Raises FileFormatError
    for another file, UnsupportedError for one of a big-endian machine.
    """
    file = BoundedFile(data)
    asked: dict[str, DType] = {}

    def note(key: str, dtype: DType, count: int) -> None:
        asked[key] = dtype

    first_pass = _TorchMeaning(note, data.size)
    try:
        if pickled.load(file, first_pass) != MAGIC:
            raise FileFormatError("this file is not from torch.save: it does not begin with its number")
        pickled.load(file, first_pass)
        system = pickled.load(file, first_pass)
        start = file.tell()
        pickled.load(file, first_pass)
        keys = pickled.load(file, first_pass)
    except FileFormatError as error:
        if "is not from torch.save" in str(error):
            raise
        raise FileFormatError(f"this file is not from torch.save, or is damaged: {error}") from None
    if type(system) is dict and system.get("little_endian") is False:
        raise UnsupportedError("this file is from a machine whose numbers begin with the high byte; save it on another")
    storages: dict[str, Tensor] = {}
    for key in keys if type(keys) is list else ():
        (count,) = struct.unpack("<q", file.read(8))
        first = file.tell()
        end = first + count * asked[key].itemsize
        if count < 0 or end > data.size:
            raise FileFormatError(f"storage {key!r} of this file needs bytes {first} to {end}, it has {data.size}")
        storages[key] = data[first:end]
        file.seek(end)
    file.seek(start)
    return pickled.load(file, _TorchMeaning(lambda key, dtype, count: storages[key], data.size))


class _TorchMeaning:
    """What names stand for in a file of torch.save. bytes_of(key, dtype, elements) gives the bytes of a storage.

    size is how long the pickle may be: all that its calls copy is no more.
    """

    def __init__(self, bytes_of: Callable[[str, DType, int], Tensor | None], size: int) -> None:
        self._bytes_of, self._room = bytes_of, size
        self._storages: dict[str, tuple[DType, int]] = {}

    def find(self, module: str, name: str) -> Any:
        """Return what a name in the pickle stands for: a Kind, a DType or a Named.

        Raises UnsupportedError for one that is not known here.
        """
        if module.split(".")[0] == "torch" and name in STORAGES:  # each device has a module of the same names there
            return Kind(STORAGES[name])
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        known = KNOWN.get(f"{module}.{name}")
        if known is None:
            raise UnsupportedError(
                f"this file has an object of {module}.{name}, which torch_load does not make: it reads tensors in "
                "dicts, lists and tuples\n  hint: save model.state_dict() instead of the model"
            )
        return known

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Return the tensor or container that a call of a Named makes. Raises FileFormatError for another call."""
        if type(function) is not Named or function.make is None:
            raise FileFormatError(f"this file calls {_kind(function)}")
        if function is _FROM_TYPE:
            make, kind, inner, *_ = arguments
            if (kind is not _PARAMETER and kind is not _TENSOR) or type(inner) is not tuple or make is _FROM_TYPE:
                raise FileFormatError(f"this file makes {_kind(kind)} of {_kind(inner)}")
            return self.call(make, inner)
        self._room -= sum(len(argument) for argument in arguments if type(argument) in (list, str))
        if self._room < 0:
            raise FileFormatError("this file copies more than it has")
        return function.make(*arguments)

    def build(self, target: Any, state: Any) -> bool:
        """Return whether this is the state of a dtype of NumPy: that of a number, its low byte first.

        Raises FileFormatError for another state of one, UnsupportedError for another order of bytes.
        """
        if type(target) is not NumberKind:
            return False
        if type(state) is not tuple or len(state) != 8 or state[0] != 3 or state[2:] != _STATE:
            raise FileFormatError(f"this file gives {target.name!r} of NumPy a state that is not that of a number")
        if state[1] not in ("<", "|"):
            raise UnsupportedError(
                "this file has numbers of NumPy whose high byte is first; save it on another machine"
            )
        return True

    def refer(self, reference: Any) -> Storage:
        """Return the storage that the pickle refers to.

        Raises FileFormatError for another reference, UnsupportedError for a view.
        """
        if type(reference) is not tuple or not 5 <= len(reference) <= 6:
            raise FileFormatError(f"this file refers to {_kind(reference)}; only storages are known")
        what, kind, key, _, count, *view = reference
        if what != "storage" or type(kind) is not Kind or type(key) is not str or not _is_size(count):
            raise FileFormatError(
                f"this file refers to {_kind(what)} of {_kind(kind)}; only storages of a dtype are known"
            )
        if view and view[0] is not None:
            raise UnsupportedError("this file has storages that are parts of others, as PyTorch before 0.4 wrote them")
        if self._storages.setdefault(key, (kind.dtype, count)) != (kind.dtype, count):
            raise FileFormatError(f"this file has storage {_kind(key)} with two dtypes or sizes")
        return Storage(kind.dtype, count, self._bytes_of(key, kind.dtype, count))


def _kind(value: Any) -> str:
    """Return a short name of something in a pickle for a message: its text, or its class."""
    if type(value) is str and len(value) <= 40:
        return repr(value)
    return value.name if type(value) is Named else f"a {type(value).__name__}"


def _is_size(value: Any) -> bool:
    """Return whether a value is an int from 0 to 2**60."""
    return type(value) is int and 0 <= value <= _MOST_ELEMENTS


def _sizes(value: Any) -> tuple[int, ...]:
    """Return a shape or strides, checked. Raises FileFormatError for what is none."""
    if type(value) not in (tuple, list) or len(value) > _MOST_AXES or not all(map(_is_size, value)):
        raise FileFormatError("this file has a tensor whose shape or strides are no numbers from 0")
    return tuple(value)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None,
            metadata: Any = None) -> Tensor | None:  # fmt: skip
    """Return a view of a storage; shape and strides count elements. `metadata` says if it is conjugate or negative.

    It is None in the first pass. Raises FileFormatError for what is no storage, or reaches past it.
    """
    if type(storage) is not Storage:
        raise FileFormatError(f"this file makes a tensor of {_kind(storage)}")
    return _marked(_view(storage, offset, _sizes(size), _sizes(stride)), metadata)


def _tensor_of_bytes(storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
                     metadata: Any = None) -> Tensor | None:  # fmt: skip
    """Return a view as `_tensor` does, of a storage of bytes whose elements are of a dtype.

    Raises FileFormatError for what is no storage or dtype.
    """
    if type(storage) is not Storage or type(dtype) is not DType:
        raise FileFormatError(f"this file makes a tensor of {_kind(storage)} and {_kind(dtype)}")
    typed = Storage(dtype, storage.count * storage.dtype.itemsize // dtype.itemsize, storage.data)
    return _marked(_view(typed, offset, _sizes(size), _sizes(stride)), metadata)


def _marked(tensor: Tensor | None, metadata: Any) -> Tensor | None:
    """Return `tensor` with the operations applied that PyTorch had postponed: its conjugate, its negative, or both.

    `metadata` is None or a dict of the flags `conj` and `neg`; raises UnsupportedError for anything else. A `tensor` of
    None, from the first pass over an older file, stays None.
    """
    if metadata is None or metadata == {} or tensor is None:
        return tensor
    if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
        raise UnsupportedError("this file has a tensor with attributes that torch_load does not support")
    if metadata.get("conj"):
        tensor = tensor.conj()
    return -tensor if metadata.get("neg") else tensor


def _view(storage: Storage, offset: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor | None:
    """Return a view of a storage, from element `offset` on; None in the first pass over an older file.

    Strides are in elements. Dense ones, in any order of axes, are a reshape and a permute; others gather elements, each
    stride of 0 an expand. Raises FileFormatError where it would reach past the storage.
    """
    if len(size) != len(stride) or not _is_size(offset) or math.prod(size) > _MOST_ELEMENTS:
        raise FileFormatError(f"this file has a tensor of shape {size} with strides {stride} from element {offset} on")
    data, dtype = storage.data, storage.dtype
    if 0 in size:
        return Tensor.empty(*size, dtype=dtype)
    last = 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if offset + last > storage.count:
        raise FileFormatError(
            f"this file has a tensor of shape {size} with strides {stride} from element {offset} on: its storage has "
            f"{storage.count} elements, {offset + last} are needed"
        )
    if data is None:
        return None
    part = data[offset * dtype.itemsize : (offset + last) * dtype.itemsize]
    flat = part.bool() if dtype is dtypes.bool else part.bitcast(dtype)
    order = sorted(range(len(size)), key=lambda axis: (-stride[axis], axis))
    count = 1
    is_dense = True
    for axis in reversed(order):
        is_dense = is_dense and (size[axis] == 1 or stride[axis] == count)
        count *= size[axis]
    if is_dense:
        back = [order.index(axis) for axis in range(len(size))]
        return flat.reshape([size[axis] for axis in order]).permute(back)
    index = Tensor([0])
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        steps = Tensor.arange(length if step else 1, dtype=dtypes.int64) * step
        index = index + steps.reshape((1,) * axis + (-1,) + (1,) * (len(size) - axis - 1))
    return flat[index].expand(size)


def _parameter(data: Any, *_: Any) -> Any:
    """Return the tensor of a parameter; None in the first pass. Raises FileFormatError for anything else."""
    if not isinstance(data, Tensor | None):
        raise FileFormatError(f"this file makes a parameter of {_kind(data)}")
    return data


def _ordered(items: Any = ()) -> collections.OrderedDict[Any, Any]:
    """Return an OrderedDict of pairs, which PyTorch on Python 2 wrote as lists.

    Raises FileFormatError for other items.
    """
    if type(items) not in (list, tuple) or any(type(p) not in (list, tuple) or len(p) != 2 for p in items):
        raise FileFormatError(f"this file makes an OrderedDict of {_kind(items)}")
    return collections.OrderedDict((pickled.key(name), value) for name, value in items)


def _set(items: Any = ()) -> set[Any]:
    """Return a set of a list or tuple. Raises FileFormatError for anything else."""
    if type(items) not in (list, tuple):
        raise FileFormatError(f"this file makes a set of {_kind(items)}")
    return {pickled.key(item) for item in items}


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    """Return bytes, which protocol 2 has as a text of one character for each.

    Raises FileFormatError for anything else.
    """
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise FileFormatError(f"this file makes bytes of {_kind(text)}")
    return text.encode("latin-1")


def _shape(sizes: Any = ()) -> tuple[int, ...]:
    """Return torch.Size as a tuple of ints from 0 on. Raises FileFormatError for anything else."""
    return _sizes(sizes)


def _number_kind(name: Any, align: Any = False, copy: Any = True) -> NumberKind:
    """Return a dtype of NumPy's numbers. Raises FileFormatError for another."""
    if type(name) is not str or name not in NUMBERS:
        raise FileFormatError(f"this file has the dtype {_kind(name)} of NumPy; known are those of numbers")
    return NumberKind(name)


def _number(kind: Any, data: Any) -> Any:
    """Return a scalar of NumPy from its bytes. Raises FileFormatError for another kind, or another number of bytes."""
    if type(kind) is not NumberKind or type(data) is not bytes:
        raise FileFormatError(f"this file makes a number of {_kind(kind)} and {_kind(data)}")
    import numpy as np  # here, as few files have such a number

    dtype = np.dtype(kind.name)
    if len(data) != dtype.itemsize:
        raise FileFormatError(f"this file has a number of {len(data)} bytes, and {dtype} has {dtype.itemsize}")
    return np.frombuffer(data, dtype.newbyteorder("<"))[0]


_TENSOR = Named("torch.Tensor")
_PARAMETER = Named("torch.nn.parameter.Parameter")
_FROM_TYPE = Named("torch._tensor._rebuild_from_type_v2", _parameter)
KNOWN: dict[str, Named] = {
    named.name: named
    for named in (
        Named("collections.OrderedDict", _ordered),
        Named("torch._utils._rebuild_tensor", _tensor),
        Named("torch._utils._rebuild_tensor_v2", _tensor),
        Named("torch._utils._rebuild_tensor_v3", _tensor_of_bytes),
        Named("torch._utils._rebuild_parameter", _parameter),
        Named("torch._utils._rebuild_parameter_with_state", _parameter),
        Named("torch.Size", _shape),
        Named("_codecs.encode", _bytes),
        Named("numpy.dtype", _number_kind),
        Named("numpy._core.multiarray.scalar", _number),
        Named("numpy.core.multiarray.scalar", _number),
        Named("__builtin__.bytes", _bytes),
        Named("__builtin__.set", _set),
        Named("builtins.set", _set),
        _FROM_TYPE,
        _PARAMETER,
        _TENSOR,
    )
}
