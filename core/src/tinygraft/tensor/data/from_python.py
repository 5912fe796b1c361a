"""From Python data to a node with its values: numbers, nested lists, bytes and numpy arrays.

Data in, with a device and a dtype; out: a CONST for a single number, else a BUFFER of that device which already
has the bytes. numpy is imported only where a numpy value is given.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, cast

from tinygraft.device.buffer import new_buffer
from tinygraft.dtype import DType, bits_of, coerce, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.helpers import warn_user
from tinygraft.tensor.primitives import number_range
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

NUMBERS = frozenset({bool, int, float})
_INTS, _FLOATS = {int}, {float}
MOST = 2**28  # elements of nested lists: 2 GiB of references while they are flattened; assumed: more is a mistake


NUMPY_NAMES = {
    "bool": dtypes.bool, "int8": dtypes.int8, "uint8": dtypes.uint8, "int16": dtypes.int16, "uint16": dtypes.uint16,
    "int32": dtypes.int32, "uint32": dtypes.uint32, "int64": dtypes.int64, "uint64": dtypes.uint64,
    "float16": dtypes.float16, "float32": dtypes.float32, "float64": dtypes.float64, "bfloat16": dtypes.bfloat16,
    "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2,
    "float8_e4m3fnuz": dtypes.fp8e4m3fnuz, "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}  # fmt: skip
NUMPY_NAME = {dtype: name for name, dtype in NUMPY_NAMES.items() if dtype.fmt is not None}  # numpy lacks the others


def number_node(value: bool | int | float | complex, device: str, dtype: DType | None) -> UOp | None:
    """A CONST; None for a complex number. Without a dtype it has the default one of its type, or a wider one.

    Raises NumberOutOfRange for one out of the range of the requested dtype, or of every integer dtype.
    """
    if isinstance(value, complex):
        return None
    if dtype is None:
        dtype = number_range.fitting(dtypes.from_py(value), [value])
    number_range.check(value, dtype)
    return UOp.const(dtype, value, device)


def refuse_nothing(value: Any, where: Callable[[], str]) -> None:
    """Raise DTypeError for None as a value to be written; `where` returns where its tensor was made.

    It is what .grad is before backward, and what a function without return gives: a value was forgotten.
    """
    if value is None:
        raise DTypeError(
            f"cannot write None to a tensor\n  made at {where()}\n"
            "  hint: a .grad is None until backward reaches its tensor; write 0 or float('nan') where that is meant"
        )


def bytes_node(data: bytes | bytearray | memoryview, shape: Sequence[int], device: str, dtype: DType) -> UOp:
    """Return bytes as the memory of a tensor of shape and dtype: RESHAPE(BUFFER), or BUFFER alone where that is flat.

    They are copied to the device now. Raises ValueError for another number of bytes.
    """
    size = 1
    for length in shape:
        size *= length
    node, buffer = new_buffer(device, size, dtype)
    buffer.allocate().copy_in(memoryview(data).cast("B"))
    buffer.filled = True
    return node if len(shape) == 1 else UOp(Ops.RESHAPE, dtype, (node,), tuple(shape))


def list_node(data: Sequence[Any], device: str, dtype: DType | None) -> UOp | None:
    """Nested lists or tuples of numbers; None where it is complex.

    Raises ShapeError for a ragged one, DTypeError for other elements, NumberOutOfRange for a number that the dtype
    requested, or every integer dtype, does not have in its range.
    """
    shape: tuple[int, ...] = (len(data),)
    flat, kinds = list(data), set(map(type, data))
    if not kinds or not kinds <= NUMBERS:
        shape, flat = flatten(data)
        kinds = set(map(type, flat))
    if not kinds <= NUMBERS:
        if any(hasattr(value, "__array__") for value in flat):
            return numpy_node(data, device, dtype)
        if any(isinstance(value, complex) for value in flat):
            return None
        strange = next(value for value in flat if type(value) not in NUMBERS)
        if not isinstance(strange, (bool, int, float)):
            raise DTypeError(f"a tensor is made of bool, int, float and complex, got {type(strange).__name__}")
        flat = [float(v) if isinstance(v, float) else int(v) if isinstance(v, int) else v for v in flat]
        kinds = set(map(type, flat))
    if dtype is None:  # of one kind nearly always, whose dtype is known without a look at lists
        if kinds == _INTS:
            to = dtypes.default_int
            try:  # C refuses what is out of range, which takes less time than a look at each
                return bytes_node(memoryview(array(to.fmt or "", flat)), shape, device, to)
            except OverflowError:
                to = number_range.fitting(to, flat)
        elif kinds == _FLOATS:
            to = dtypes.default_float
        else:
            to = number_range.fitting(dtypes.from_py([kind() for kind in kinds]), flat)
    else:
        to = dtype
    return bytes_node(pack(flat, to), shape, device, to)


def flatten(data: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested lists or tuples, and their elements in order; whatever is neither is an element.

    Raises ShapeError where lengths differ, naming the element that does, and as `check_nesting` for a list that
    contains itself or for more than MOST elements.

    >>> flatten([[1, 2], [3, 4]])
    ((2, 2), [1, 2, 3, 4])
    """
    check_nesting(data)
    shape, level = [len(data)], list(data)
    while any(isinstance(item, (list, tuple, range)) for item in level):
        lengths = [len(item) if isinstance(item, (list, tuple, range)) else None for item in level]
        if (index := next((i for i, length in enumerate(lengths) if length != lengths[0]), None)) is not None:
            raise ShapeError(
                f"nested lists must have equal lengths: {_path(0, shape)} {_holds(lengths[0])}, "
                f"{_path(index, shape)} {_holds(lengths[index])}"
            )
        shape.append(len(level[0]))
        level = [element for item in level for element in item]
    return tuple(shape), level


def check_nesting(data: Sequence[Any]) -> None:
    """Raise ShapeError for a list that contains itself, and for lists of more than MOST elements.

    Where all have equal lengths, the first elements of a list that contains itself do not end, and those of others say
    how many there are: a list may be an element of another one many times, which takes no memory.
    """
    above: set[int] = set()
    count, item = 1, cast(Any, data)
    while isinstance(item, (list, tuple, range)) and item:
        if id(item) in above:
            raise ShapeError(f"nested lists must end: data{'[0]' * len(above)} is a list that contains itself")
        above.add(id(item))
        count *= len(item)
        item = item[0]
    if count > MOST:
        raise ShapeError(
            f"nested lists hold at most {MOST} elements, these are {len(above)} lists deep and hold {count}\n"
            "  hint: give a numpy array, or repeat a tensor by expand"
        )


def array_of(data: Any) -> Any:
    """Nested lists as a numpy array, or an array as it is.

    Raises ShapeError for lists of several lengths, as `flatten` does, and for more axes than numpy has, DTypeError for
    an array of numpy.ma that hides elements.
    """
    import numpy as np

    check_nesting(data)
    if isinstance(data, np.ndarray) and type(data) is not np.ndarray and np.any(getattr(data, "mask", False)):
        raise DTypeError("a tensor has no mask, this array has; fill it (x.filled(0)), or take both x.data and x.mask")
    if hasattr(data, "detach") and getattr(data, "requires_grad", False):
        if getattr(data, "grad_fn", None) is not None:  # of a parameter it is the copy that is meant
            warn_of_gradient(data)
        data = data.detach()  # PyTorch refuses to read it as an array
    try:
        return np.asarray(data)
    except ValueError as error:
        if isinstance(data, (list, tuple, range)):
            flatten(data)
        raise ShapeError(f"nested lists and arrays must have equal lengths and few axes, numpy says: {error}") from None


def warn_of_gradient(value: Any) -> None:
    """Warn of a tensor of PyTorch that requires a gradient, outside of its no_grad: it will get none from here."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(value, "requires_grad", False) and torch.is_grad_enabled():
        warn_user(
            "a tensor of PyTorch that requires a gradient is a constant here: backward gives it none\n"
            "  hint: x.detach() says that this is meant; Tensor(x.detach(), requires_grad=True) gets a gradient here",
            UserWarning,
            once=True,
        )


def _path(index: int, shape: Sequence[int]) -> str:
    """Return how element `index`, in row-major order, is written in Python, as in "data[1][0]"; for messages."""
    indices = []
    for length in reversed(shape):
        indices.append(index % length)
        index //= length
    return "data" + "".join(f"[{i}]" for i in reversed(indices))


def _holds(length: int | None) -> str:
    """Return what a list of that length is, for an error; None is a number."""
    return "is a number" if length is None else f"has {length} element{'s' * (length != 1)}"


def pack(values: Sequence[Any], dtype: DType) -> bytes:
    """Python numbers as the bytes of dtype, each coerced. Raises NumberOutOfRange for one it does not hold."""
    kinds = set(map(type, values))
    if dtype.fmt is None:
        unsigned = "H" if dtype.itemsize == 2 else "B"
        return struct.pack(f"={len(values)}{unsigned}", *(bits_of(coerce(value, dtype), dtype) for value in values))
    fmt = dtype.fmt
    exact = kinds <= {float} if dtype.kind == "float" else kinds <= {int, bool}
    if exact and dtype.kind != "bool" and dtype is not dtypes.float16:
        try:
            return array(fmt, values).tobytes()
        except OverflowError:
            pass
    if dtype.kind in ("int", "uint") and values:
        is_ordered = all(value == value for value in values)  # NaN is not
        for value in (min(values), max(values)) if is_ordered else values:
            number_range.check(value, dtype)
    return struct.pack(f"={len(values)}{fmt}", *(coerce(value, dtype) for value in values))


def numpy_node(data: Any, device: str, dtype: DType | None) -> UOp | None:
    """A copy of a numpy array (or of what numpy makes one of); None where it is complex, in any layout and byte order.

    An array is cast to dtype; for numpy's numbers and lists of them NumberOutOfRange is raised as for Python's. Raises
    DTypeError for a dtype of numpy that there is none for here.
    """
    import numpy as np

    found = array_of(data)
    if found.dtype.kind == "c":
        return None
    own = NUMPY_NAMES.get(found.dtype.name)
    if own is None:
        raise DTypeError(f"a tensor cannot hold numpy's {found.dtype}; it holds {', '.join(NUMPY_NAMES)}")
    if (
        dtype is not None
        and dtype.kind in ("int", "uint")
        and isinstance(data, (list, tuple, np.generic))
        and found.size
    ):
        for value in (found.min().item(), found.max().item()):
            number_range.check(value, dtype)
    if found.ndim == 0 and own.fmt is not None:
        return UOp.const(dtype or own, coerce(found.item(), own), device)
    native = np.ascontiguousarray(found, dtype=found.dtype.newbyteorder("="))
    to = dtype or own
    if to is own or None in (to.fmt, own.fmt) or (own.kind == "float" and to.kind != "float"):
        node = bytes_node(native.reshape(-1).view(np.uint8).data, found.shape, device, own)
        return node.cast(to)
    with np.errstate(over="ignore"):
        converted = native.astype(NUMPY_NAME[to])
    return bytes_node(converted.reshape(-1).view(np.uint8).data, found.shape, device, to)
