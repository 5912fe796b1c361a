"""Casting: the same values, or the same bits, as another dtype."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DType, DTypeLike, dtypes, part_of, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data import ondisk
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


Int = builtins.int  # the methods float, int and bool hide these names in the class below

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def cast(self: Tensor, dtype: DTypeLike) -> Tensor:
    """The values as dtype, a DType or its name.

    Integers wrap, a float truncates to an integer, saturates, and NaN gives 0. A bool is whether the value is not 0.
    Raises DTypeError for what is no dtype, and for complex numbers as floats or integers, which would lose imaginary
    parts.

    >>> from tinygraft import Tensor, dtypes
    >>> Tensor([1.7, -2.5]).cast(dtypes.int32).tolist()
    [1, -2]
    """
    return self._cast(dtype)


def bitcast(self: Tensor, dtype: DTypeLike) -> Tensor:
    """The bits as dtype, a DType or its name. Of another width, the last axis grows or shrinks, low bits first.

    Raises DTypeError between bool and another dtype, ShapeError for another width without axes, or where the last axis
    is no whole number of the wider elements.

    >>> from tinygraft import Tensor, dtypes
    >>> Tensor([1.0]).bitcast(dtypes.uint32).tolist()
    [1065353216]
    """
    to = to_dtype(dtype)
    if (to is dtypes.bool) is not (self.dtype is dtypes.bool):  # a byte other than 0 and 1 would be no bool
        raise DTypeError(f"cannot bitcast {self.dtype} to {to}: a bool has no bits to share")
    if "complex" in (to.kind, self.dtype.kind):
        return _bits_of_parts(self, to)
    if to.itemsize == self.dtype.itemsize:
        return bits_as(self, to)
    # PyTorch's rule: the last axis changes its size by the ratio of the widths
    if self.ndim == 0:
        raise ShapeError(f"cannot bitcast a tensor without axes from {self.dtype} to {to}: their widths differ")
    if (found := _bits_on_disk(self, to)) is not None:
        return found
    if to.itemsize < self.dtype.itemsize:
        return bits_as(narrower(self, _UNSIGNED[to.itemsize]), to)
    return bits_as(wider(self, _UNSIGNED[to.itemsize]), to)


def _bits_of_parts(self: Tensor, to: DType) -> Tensor:
    """Return a bitcast to or from complex numbers, whose real and imaginary parts follow each other.

    Raises ShapeError where the last axis is no whole number of the elements of `to`.
    """
    if to is self.dtype:
        return self._again()
    numbers: Any = self
    if self.dtype.kind == "complex":
        numbers = numbers.view_as_real().flatten(-2) if self.ndim else numbers.view_as_real()
        found = numbers.bitcast(to)
        return found.squeeze(-1) if not self.ndim and found.shape == (1,) else found  # type: ignore[no-any-return]
    parts = numbers.bitcast(part_of(to))
    if not parts.ndim or not isinstance(parts.shape[-1], Int) or parts.shape[-1] % 2:
        raise ShapeError(
            f"cannot bitcast shape {self.shape} of {self.dtype} to {to}: the last axis is no whole number of them\n"
            f"  made at {self._where()}"
        )
    return parts.unflatten(-1, (-1, 2)).view_as_complex()  # type: ignore[no-any-return]


def bits_as(self: Tensor, dtype: DType) -> Tensor:
    """A bitcast to a dtype of the same width, in the same shape. The caller has checked the widths."""
    node = self.uop
    return self._viewed(node if dtype is node.dtype else UOp(Ops.BITCAST, dtype, (node,)), node)


def _bits_on_disk(self: Tensor, dtype: DType) -> Tensor | None:
    """`bitcast` of a file that has not been read: its bytes as another dtype, without a kernel; None for others."""
    last = self.shape[-1]
    if not self._is_data() or not isinstance(last, builtins.int) or last * self.dtype.itemsize % dtype.itemsize:
        return None
    found = ondisk.bits(self.uop, dtype, (*self.shape[:-1], last * self.dtype.itemsize // dtype.itemsize))
    return None if found is None else self._wrap(found)


def narrower(self: Tensor, dtype: DType) -> Tensor:
    """Each element as several of `dtype`, a narrower unsigned one, low bits first, along the last axis."""
    count = self.dtype.itemsize // dtype.itemsize
    bits = bits_as(self, _UNSIGNED[self.dtype.itemsize]).unsqueeze(-1)
    parts = bits.expand((*self.shape, count))
    step = _steps(parts, count)._op(Ops.MUL, dtype.bits)
    split = parts._op(Ops.SHR, step)._cast(dtype)
    return reshaped(split, (*self.shape[:-1], size_math.mul(self.shape[-1], count)))


def wider(self: Tensor, dtype: DType) -> Tensor:
    """Return neighbours on the last axis as one element of `dtype`, a wider unsigned one, the first the low bits.

    Raises ShapeError where the last axis is no multiple of their number.
    """
    count, last = dtype.itemsize // self.dtype.itemsize, self.shape[-1]
    if isinstance(last, builtins.int) and last % count:
        raise ShapeError(
            f"cannot bitcast {self.shape} of {self.dtype} to {dtype}: the last axis is no multiple of {count}\n"
            f"  made at {self._where()}"
        )
    bits = bits_as(self, _UNSIGNED[self.dtype.itemsize])._cast(dtype)
    parts = reshaped(bits, (*self.shape[:-1], size_math.div(last, count), count))
    shifted = parts._op(Ops.SHL, _steps(parts, count)._op(Ops.MUL, self.dtype.bits))
    return shifted._reduce(Ops.OR, -1)


def _steps(self: Tensor, count: Int) -> Tensor:
    """Return 0, 1, ..., count-1 with this dtype and device, one-dimensional."""
    return self._wrap(UOp(Ops.IOTA, dtypes.int32, (UOp.on(self.device),), (count,)))._cast(self.dtype)


def float(self: Tensor) -> Tensor:
    """cast to float32."""
    return self._cast(dtypes.float32)


def double(self: Tensor) -> Tensor:
    """cast to float64."""
    return self._cast(dtypes.float64)


def cfloat(self: Tensor) -> Tensor:
    """cast to complex64."""
    return self._cast(dtypes.complex64)


def cdouble(self: Tensor) -> Tensor:
    """cast to complex128."""
    return self._cast(dtypes.complex128)


def as_positions(self: Tensor) -> Tensor:
    """Indices that a method returns to the user: int64 where the setting DEFAULT_INT has 64 bits, else int32."""
    return self if dtypes.default_int.itemsize < 8 else self._cast(dtypes.int64)


def half(self: Tensor) -> Tensor:
    """cast to float16."""
    return self._cast(dtypes.float16)


def bfloat16(self: Tensor) -> Tensor:
    """cast to bfloat16."""
    return self._cast(dtypes.bfloat16)


def int(self: Tensor) -> Tensor:
    """cast to int32."""
    return self._cast(dtypes.int32)


def long(self: Tensor) -> Tensor:
    """cast to int64."""
    return self._cast(dtypes.int64)


def short(self: Tensor) -> Tensor:
    """cast to int16."""
    return self._cast(dtypes.int16)


def byte(self: Tensor) -> Tensor:
    """Cast to uint8."""
    return self._cast(dtypes.uint8)


def char(self: Tensor) -> Tensor:
    """Cast to int8.

    >>> from tinygraft import Tensor
    >>> Tensor([1.5, -2.0]).char()[1].item()
    -2
    """
    return self._cast(dtypes.int8)


def bool(self: Tensor) -> Tensor:
    """cast to bool: False for zero, True for all else."""
    return self._cast(dtypes.bool)
