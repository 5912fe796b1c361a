"""Casting: the same values, or the same bits, as another dtype."""

from __future__ import annotations

from typing import Any, Self

from tinygraft.dtype import DType, DTypeLike, dtypes, part_of, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor import lengths, ondisk
from tinygraft.tensor.movement import Movement
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

Int = int  # the methods float, int and bool hide these names in the class below

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


class Casting(Movement):
    """Methods that change the dtype."""

    __slots__ = ()

    def cast(self, dtype: DTypeLike) -> Self:
        """The values as dtype: integers wrap, a float truncates to an integer, saturates, and NaN gives 0.

        >>> from tinygraft import Tensor, dtypes
        >>> Tensor([1.7, -2.5]).cast(dtypes.int32).tolist()
        [1, -2]
        """
        return self._cast(dtype)

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The bits as dtype. Of another width, the last axis grows or shrinks, low bits first.

        >>> from tinygraft import Tensor, dtypes
        >>> Tensor([1.0]).bitcast(dtypes.uint32).tolist()
        [1065353216]
        """
        to = to_dtype(dtype)
        if (to is dtypes.bool) is not (self.dtype is dtypes.bool):
            raise DTypeError(f"cannot bitcast {self.dtype} to {to}: a bool has no bits to share")
        if "complex" in (to.kind, self.dtype.kind):
            return self._bits_of_parts(to)
        if to.itemsize == self.dtype.itemsize:
            return self._bits_as(to)
        if self.ndim == 0:
            raise ShapeError(f"cannot bitcast a tensor without axes from {self.dtype} to {to}: their widths differ")
        if (found := self._bits_on_disk(to)) is not None:
            return found
        if to.itemsize < self.dtype.itemsize:
            return self._narrower(_UNSIGNED[to.itemsize])._bits_as(to)
        return self._wider(_UNSIGNED[to.itemsize])._bits_as(to)

    def _bits_of_parts(self, to: DType) -> Self:
        """A bitcast to or from complex numbers, whose real and imaginary parts follow each other."""
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

    def _bits_as(self, dtype: DType) -> Self:
        """A bitcast to a dtype of the same width."""
        node = self.uop
        return self._viewed(node if dtype is node.dtype else UOp(Ops.BITCAST, dtype, (node,)), node)

    def _bits_on_disk(self, dtype: DType) -> Self | None:
        """The same of a file that has not been read: nothing has to be computed."""
        last = self.shape[-1]
        if not self._is_data() or not isinstance(last, int) or last * self.dtype.itemsize % dtype.itemsize:
            return None
        found = ondisk.bits(self.uop, dtype, (*self.shape[:-1], last * self.dtype.itemsize // dtype.itemsize))
        return None if found is None else self._wrap(found)

    def _narrower(self, dtype: DType) -> Self:
        """Each element as several of a narrower unsigned dtype."""
        count = self.dtype.itemsize // dtype.itemsize
        bits = self._bits_as(_UNSIGNED[self.dtype.itemsize]).unsqueeze(-1)
        parts = bits.expand((*self.shape, count))
        step = parts._steps(count)._op(Ops.MUL, dtype.bits)
        split = parts._op(Ops.SHR, step)._cast(dtype)
        return split._reshape((*self.shape[:-1], lengths.mul(self.shape[-1], count)))

    def _wider(self, dtype: DType) -> Self:
        """Several neighbours along the last axis as one element of a wider unsigned dtype."""
        count, last = dtype.itemsize // self.dtype.itemsize, self.shape[-1]
        if isinstance(last, int) and last % count:
            raise ShapeError(
                f"cannot bitcast {self.shape} of {self.dtype} to {dtype}: the last axis is no multiple of {count}\n"
                f"  made at {self._where()}"
            )
        bits = self._bits_as(_UNSIGNED[self.dtype.itemsize])._cast(dtype)
        parts = bits._reshape((*self.shape[:-1], lengths.div(last, count), count))
        shifted = parts._op(Ops.SHL, parts._steps(count)._op(Ops.MUL, self.dtype.bits))
        return shifted._reduce(Ops.OR, -1)

    def _steps(self, count: Int) -> Self:
        """0, 1, ..., count-1 with this dtype and device, one-dimensional."""
        return self._wrap(UOp(Ops.IOTA, dtypes.int32, (UOp.on(self.device),), (count,)))._cast(self.dtype)

    def float(self) -> Self:
        """cast to float32."""
        return self._cast(dtypes.float32)

    def double(self) -> Self:
        """cast to float64."""
        return self._cast(dtypes.float64)

    def cfloat(self) -> Self:
        """cast to complex64."""
        return self._cast(dtypes.complex64)

    def cdouble(self) -> Self:
        """cast to complex128."""
        return self._cast(dtypes.complex128)

    def _as_places(self) -> Self:
        """Places as they are given to the user: of 64 bits where the setting DEFAULT_INT has as many, else int32."""
        return self if dtypes.default_int.itemsize < 8 else self._cast(dtypes.int64)

    def half(self) -> Self:
        """cast to float16."""
        return self._cast(dtypes.float16)

    def bfloat16(self) -> Self:
        """cast to bfloat16."""
        return self._cast(dtypes.bfloat16)

    def int(self) -> Self:
        """cast to int32."""
        return self._cast(dtypes.int32)

    def long(self) -> Self:
        """cast to int64."""
        return self._cast(dtypes.int64)

    def short(self) -> Self:
        """cast to int16."""
        return self._cast(dtypes.int16)

    def byte(self) -> Self:
        """Cast to uint8."""
        return self._cast(dtypes.uint8)

    def char(self) -> Self:
        """Cast to int8.

        >>> from tinygraft import Tensor
        >>> Tensor([1.5, -2.0]).char()[1].item()
        -2
        """
        return self._cast(dtypes.int8)

    def bool(self) -> Self:
        """cast to bool: False for zero, True for all else."""
        return self._cast(dtypes.bool)
