"""Reading: the values of a tensor as Python numbers, bytes or a numpy array.

A read realises the tensor, so that a second one computes nothing; only an expression of constants is computed anew
each time, and one element of a tensor (`element.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.dtype import values_of
from tinygraft.engine.capture import note_read, open_captures
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data.element import element
from tinygraft.tensor.data.from_python import NUMPY_NAME
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.state.made_at import file_and_line, here
from tinygraft.tensor.state.recording import impure
from tinygraft.uop.held import HELD, is_stored, memories, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from numpy import ndarray

    from tinygraft.tensor.tensor import Tensor


def _stored(self: Tensor) -> Buffer:
    """Return the memory with the elements in row-major order, on one device; computes it first where it has not been.

    Raises ShapeError for a symbolic shape.
    """
    impure()
    node = self.uop
    if not is_concrete(node.shape):
        raise ShapeError(
            f"cannot read a tensor of symbolic shape {show_arg(self.shape)}\n  made at {self._where()}\n"
            "  hint: read the tensor that it is a part of, or reduce its symbolic axes first"
        )
    if open_captures():
        where = file_and_line(here(1))
        note_read(f"it reads a value (item, numpy, a mask) at {where}, which may be another one in the next call")
    base = memory_base(node)
    if base.op not in HELD:
        self.realize()
        if self._storage is not None and not is_stored(self.uop):
            self.realize()  # the first realize carried out a pending write to the whole storage, this one the view
        base = memory_base(self.uop)
    if base.op is Ops.BUFFER:
        return buffer_of(base)
    # a symbolic front of a buffer or a constant is done without being a whole buffer: read a copy
    ready = self if is_stored(self.uop) else self.clone().realize()
    if ready.uop.sharding is not None:
        return self._wrap(laid(ready.uop, local_devices(ready.device)[0], None)).realize()._stored()
    return buffer_of(memories(ready.uop)[0])


def bytes_of(self: Tensor) -> bytearray:
    """Return a copy of the elements' bytes, in row-major order; computes them if need be."""
    buffer = self._stored()
    out = bytearray(buffer.nbytes)
    buffer.copy_out(memoryview(out))
    return out


def _numbers(self: Tensor) -> list[Any]:
    """Return the elements as Python numbers, in row-major order."""
    raw, dtype = bytes_of(self), self.dtype
    if dtype.fmt is None:
        values = values_of(dtype)
        return [values[bits] for bits in (raw if dtype.itemsize == 1 else memoryview(raw).cast("H"))]
    return list(struct.unpack(f"={len(raw) // dtype.itemsize}{dtype.fmt}", raw))


def item(self: Tensor) -> Any:
    """The one element as a Python number. Raises ShapeError when there are more or none.

    A half type gives a float. The tensor is realised unless it is one element of a tensor in memory.

    >>> from tinygraft import Tensor
    >>> Tensor(42).item()
    42
    """
    if self.numel() != 1:
        raise ShapeError(
            f"item needs a tensor of one element, this one has shape {self.shape}\n  made at {self._where()}"
        )
    found = element(self)
    return self._numbers()[0] if found is None else found


def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers, or a number when there are no axes.

    The tensor is realised. Raises ShapeError for a symbolic shape.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).tolist()
    [1, 2, 3, 4]
    """
    nested: list[Any] = self._numbers()
    for axis in range(self.ndim - 1, 0, -1):
        length, count = self.shape[axis], size_math.product(self.shape[:axis])
        nested = [nested[i * length : (i + 1) * length] for i in range(count)]
    return nested if self.ndim else nested[0]


def numpy(self: Tensor) -> ndarray[Any, Any]:
    """The values as a numpy array of its own memory; bfloat16 and fp8 become float32.

    Raises ShapeError for more axes than numpy has (64, or 32 before numpy 2).

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).numpy()
    array([1, 2, 3, 4], dtype=int32)
    """
    import numpy as np

    dtype = self.uop.dtype
    if dtype.fmt is None:
        bits = np.frombuffer(bytes_of(self), np.uint16 if dtype.itemsize == 2 else np.uint8)
        table: ndarray[Any, Any] = np.array(values_of(dtype), np.float32)
        return _shaped(self, np.asarray(table[bits]))
    if size_math.product(self.uop.shape) == 1 and (found := element(self)) is not None:
        return _shaped(self, np.array([found], NUMPY_NAME[dtype]))
    return _shaped(self, np.frombuffer(bytes_of(self), NUMPY_NAME[dtype]))


def _shaped(self: Tensor, flat: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return the flat array in this shape. Raises ShapeError for more axes than numpy has, and for larger ones."""
    shape = self.uop.shape
    if len(shape) == 1:
        return flat
    try:
        return flat.reshape(shape)
    except ValueError as error:
        # of no elements, an axis may be as long as the others allow
        what = f"{self.ndim} axes, as this tensor has" if len(flat) else f"the shape {self.shape}: {error}"
        raise ShapeError(
            f"a numpy array cannot have {what}\n  made at {self._where()}\n  hint: reshape it first"
        ) from None


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> ndarray[Any, Any]:
    if copy is not None and not copy:
        return _shared(self, dtype)
    found = self.numpy()
    return found if dtype is None else found.astype(dtype)


def _shared(self: Tensor, dtype: Any) -> ndarray[Any, Any]:
    """Return an array over the tensor's own memory. Raises ValueError, as NumPy asks for, where that cannot be."""
    import numpy as np

    try:
        found = np.from_dlpack(self, copy=False)
    except (TypeError, RuntimeError, ValueError, BufferError) as error:
        raise ValueError(f"an array cannot share the memory of this tensor: {error}") from None
    if dtype is not None and found.dtype != np.dtype(dtype):
        raise ValueError(f"an array of {np.dtype(dtype)} cannot share the memory of a tensor of {self.dtype}")
    return found


def __buffer__(self: Tensor, flags: int) -> memoryview:
    """What memoryview(t) is from Python 3.12 on: the values, in memory of their own, as `numpy` gives them.

    Raises BufferError where it is to be written.
    """
    if flags & 1:  # PyBUF_WRITABLE
        raise BufferError("a tensor is not written to through its buffer: use assign(memoryview)")
    return self.numpy().data


def __bool__(self: Tensor) -> bool:
    if self.numel() != 1:
        raise ShapeError(
            f"the truth of a tensor of shape {self.shape} is not one value: use any(), all() or where()\n"
            f"  made at {self._where()}"
        )
    return bool(self.item())


def __format__(self: Tensor, spec: str) -> str:
    """f"{t:.3f}": the number of a tensor that has one; without a spec, what print shows."""
    if not spec:
        return str(self)
    if self.numel() != 1:
        raise ShapeError(
            f"a tensor of shape {self.shape} is not one number to be written as {spec!r}\n"
            f"  made at {self._where()}\n  hint: item() of one element, or tolist()"
        )
    return format(self.item(), spec)


def __int__(self: Tensor) -> int:
    return int(self.item())


def __float__(self: Tensor) -> float:
    return float(self.item())


def __complex__(self: Tensor) -> complex:
    return complex(self.item())


def __index__(self: Tensor) -> int:
    if self.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"an index is an integer, got a tensor of {self.dtype}\n  made at {self._where()}")
    return int(self.item())


def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise TypeError("a tensor without axes cannot be iterated over")
    return iter(self.unbind())
