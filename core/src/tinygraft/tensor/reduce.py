"""Reductions: sums, products, extremes, statistics, softmax and its relatives, places of extremes, norms.

A tensor and one axis, several, or None for all in; the tensor without those axes out, or with size 1 where keepdim.
Sums of half types are accumulated in float32 and rounded once, those of bools and of small integers in 32 bits, or in
64 where that many elements could exceed them; other integers in their own dtype, wrapping. Over no elements a sum is
0, a product 1, a mean NaN, as in numpy; max and min raise.

What is reduced is broadcast back with keepdim and no other node between, which is the form that one kernel computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from tinygraft.dtype import DType, DTypeLike, accumulator, dtypes, to_dtype
from tinygraft.errors import DTypeChoiceError
from tinygraft.tensor import lengths, parts
from tinygraft.tensor.activation import Activation
from tinygraft.tensor.creation import Creation
from tinygraft.tensor.joining import Joining
from tinygraft.uop.ops import Ops
from tinygraft.uop.shape import max_shape, sint

Axis = int | Sequence[int] | None


class Reduce(Activation, Joining, Creation):
    """Methods that combine the values along axes."""

    __slots__ = ()

    def _accumulate(self, op: Ops, axis: Axis, keepdim: bool, dtype: DTypeLike | None) -> Self:
        """A sum or product in a dtype wide enough; half types come back as they were."""
        if dtype is not None:
            return self._cast(dtype)._reduce(op, axis, keepdim)
        inside = accumulator(self.dtype)
        if op is Ops.ADD and self.dtype.itemsize < 4 and inside.kind in ("int", "uint"):
            inside = self._holding(inside, max_shape((self._count(axis),))[0])
        return self._cast(inside)._reduce(op, axis, keepdim)._narrowed(self.dtype)

    def _holding(self, dtype: DType, count: int) -> DType:
        """An integer dtype, or the one of 64 bits where it does not hold the sum of so many elements of this dtype."""
        if count * self.dtype.min >= dtype.min and count * self.dtype.max <= dtype.max:
            return dtype
        return dtypes.uint64 if dtype.kind == "uint" else dtypes.int64

    def sum(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum. With a dtype, elements are cast to it first and the sum has it.

        Without one, float16 and bfloat16 are accumulated in float32 and rounded once. bool, int8 and int16 give int32,
        uint8 and uint16 give uint32, or 64 bits where that many elements could exceed 32 (2**31 bools, 65,537 of
        int16); wider dtypes are accumulated in their own, and integers wrap.

        >>> from tinygraft import Tensor
        >>> Tensor([[0, 1, 2], [3, 4, 5]]).sum(axis=0).tolist()
        [3, 5, 7]
        """
        return self._accumulate(Ops.ADD, axis, keepdim, dtype)

    def prod(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product. With a dtype, elements are cast to it first and the product has it."""
        return self._accumulate(Ops.MUL, axis, keepdim, dtype)

    def _not_empty(self, what: str, axis: Axis) -> tuple[int, ...]:
        """The axes. Raises AxisError if one of them has no elements to choose from."""
        axes = self._axes(axis)
        if any(not isinstance(self.shape[a], int) or self.shape[a] == 0 for a in axes):
            parts.take(parts.Filled(self.shape, axes, f"{what} over axis {axis}", self._where()))
        return axes

    def max(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The greatest value; NaN if there is one. Equal ones share the gradient. Raises ShapeError over no elements.

        >>> from tinygraft import Tensor
        >>> Tensor([[1, 0, 2], [5, 4, 3]]).max(axis=1).tolist()
        [2, 5]
        """
        return self._reduce(Ops.MAX, self._not_empty("max", axis), keepdim)

    def min(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """The least value; NaN if there is one. Equal ones share the gradient. Raises ShapeError over no elements."""
        return self._reduce(Ops.MIN, self._not_empty("min", axis), keepdim)

    def any(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether some element is not zero."""
        return self._cast(dtypes.bool)._reduce(Ops.OR, axis, keepdim)

    def all(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """Whether no element is zero."""
        return self._cast(dtypes.bool)._reduce(Ops.AND, axis, keepdim)

    def allclose(self, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Self:
        """Whether all elements are close, as isclose says."""
        return self.isclose(other, rtol, atol, equal_nan).all()

    # Statistics

    def _count(self, axis: Axis) -> sint:
        """How many elements one result of a reduction over axis combines."""
        return lengths.product(self.shape[a] for a in self._axes(axis))

    def _mean(self, axis: Axis, keepdim: bool) -> Self:
        """The mean of floats that are wide enough."""
        return self._reduce(Ops.ADD, axis, keepdim)._op(Ops.FDIV, self._count(axis))

    def mean(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The arithmetic mean, a float; of the elements in a dtype and in that, where one is given. Raises DTypeError.

        >>> from tinygraft import Tensor
        >>> Tensor([[1, 2], [3, 5]]).mean(axis=1).tolist()
        [1.5, 4.0]
        """
        if dtype is not None:
            return self._for_mean(dtype).mean(axis, keepdim)
        return self._in_float()._mean(axis, keepdim)._narrowed(self.dtype)

    def _for_mean(self, dtype: DTypeLike) -> Self:
        """The elements in the dtype that their mean is to have."""
        to = to_dtype(dtype)
        if to.kind not in ("float", "complex"):
            raise DTypeChoiceError(f"mean gives floats or complex numbers, asked for {to}\n  made at {self._where()}")
        return self._cast(to)

    def _var(self, axis: Axis, keepdim: bool, correction: float) -> Self:
        apart = self._op(Ops.SUB, self._mean(axis, True))
        squares = apart._op(Ops.MUL, apart)._reduce(Ops.ADD, axis, keepdim)
        count = self._count(axis)
        left = max(0, count - correction) if isinstance(count, int) else lengths.sub(count, int(correction))
        return squares._op(Ops.FDIV, left)

    def var(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Self:
        """The variance: squared distances from the mean, summed and divided by their number less correction.

        unbiased is another way to say correction: True for 1, False for 0.
        """
        return self._in_float()._var(axis, keepdim, _correction(correction, unbiased))._narrowed(self.dtype)

    def var_mean(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> tuple[Self, Self]:
        """(var, mean)."""
        return self.var(axis, keepdim, correction, unbiased), self.mean(axis, keepdim)

    def std(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Self:
        """The square root of the variance. Where all values are equal its gradient is 0."""
        x = self._in_float()
        return x._var(axis, keepdim, _correction(correction, unbiased))._size_root()._narrowed(self.dtype)

    def std_mean(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> tuple[Self, Self]:
        """(std, mean)."""
        return self.std(axis, keepdim, correction, unbiased), self.mean(axis, keepdim)

    # Softmax and its relatives

    def _shifted(self, axis: Axis) -> Self:
        """Less the greatest along axis, which is taken for a constant: it cancels out."""
        return self._op(Ops.SUB, self._move(Ops.DETACH, None)._reduce(Ops.MAX, axis, True))

    def _to_softmax(self, dtype: DTypeLike | None) -> tuple[Self, DTypeLike]:
        """The operand in a float wide enough, and the dtype of the result."""
        x = self if dtype is None else self._cast(dtype)
        return x._in_float(), x.dtype if x._is_float() else dtypes.default_float

    def softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """exp of each element over the sum of exp along axis: positive numbers that sum to 1.

        >>> from tinygraft import Tensor
        >>> Tensor([0.0, 0.0]).softmax().tolist()
        [0.5, 0.5]
        """
        x, to = self._to_softmax(dtype)
        powers = x._shifted(axis)._share()
        return powers._op(Ops.FDIV, powers._reduce(Ops.ADD, axis, True))._cast(to)

    def log_softmax(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """log(softmax), without underflow."""
        x, to = self._to_softmax(dtype)
        shifted = x._shifted(axis)
        return shifted._op(Ops.SUB, shifted._share()._reduce(Ops.ADD, axis, True)._log())._cast(to)

    def softmin(self, axis: int = -1, dtype: DTypeLike | None = None) -> Self:
        """softmax of the negated values."""
        return self._op(Ops.NEG).softmax(axis, dtype)

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        """log of the sum of exp, without overflow; -inf where all are -inf."""
        return self._in_float()._logsumexp(axis, keepdim)._narrowed(self.dtype)

    def _logsumexp(self, axis: Axis, keepdim: bool) -> Self:
        greatest = self._move(Ops.DETACH, None)._reduce(Ops.MAX, axis, True)
        base = greatest.isfinite()._op(Ops.WHERE, greatest, 0.0)
        total = self._op(Ops.SUB, base)._share()._reduce(Ops.ADD, axis, True)._log()._op(Ops.ADD, base)
        return total if keepdim else total._without(self._axes(axis))

    def _without(self, axes: Sequence[int]) -> Self:
        """Without some axes of size 1."""
        return self._reshape(tuple(size for axis, size in enumerate(self.shape) if axis not in axes))

    # Norms

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        """Divided by the p-norm along dim, or by eps where that is less.

        p = inf takes the greatest magnitude, -inf the least, 0 how many elements are not 0.
        """
        x = self._in_float()
        if p == 2:
            norm = x._op(Ops.MUL, x)._reduce(Ops.ADD, dim, True).clamp(eps * eps)._op(Ops.SQRT)
        elif p == math.inf:
            norm = x.abs()._reduce(Ops.MAX, dim, True).clamp(eps)
        elif p == -math.inf:
            norm = x.abs()._reduce(Ops.MIN, dim, True).clamp(eps)
        elif p == 0:
            norm = x._op(Ops.CMPNE, 0.0)._cast(x.dtype)._reduce(Ops.ADD, dim, True).clamp(eps)
        else:
            norm = x.abs().pow(p)._reduce(Ops.ADD, dim, True).pow(1 / p).clamp(eps)
        return x._op(Ops.FDIV, norm)._narrowed(self.dtype)

    def layernorm(self, axis: int | Sequence[int] = -1, eps: float = 1e-5) -> Self:
        """Less the mean, over the standard deviation, along axis. No weight and bias: multiply and add them after.

        >>> from tinygraft import Tensor
        >>> Tensor([[1.0, 3.0]]).layernorm(eps=0.0).tolist()
        [[-1.0, 1.0]]
        """
        x = self._in_float()
        apart = x._op(Ops.SUB, x._mean(axis, True))
        scale = apart._op(Ops.MUL, apart)._mean(axis, True)._op(Ops.ADD, eps)._op(Ops.SQRT)._op(Ops.RECIPROCAL)
        return apart._op(Ops.MUL, scale)._narrowed(self.dtype)

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: int | Sequence[int] = 1
    ) -> Self:
        """(self - mean) * invstd * weight + bias, where each of them has one value for each place along axis."""
        axes = self._axes(axis)
        shape = tuple(size if a in axes else 1 for a, size in enumerate(self.shape))

        def wide(t: Self) -> Self:
            return t if t.ndim == self.ndim else t._reshape(shape)

        result = self._op(Ops.SUB, wide(mean))._op(Ops.MUL, wide(invstd))
        result = result if weight is None else result._op(Ops.MUL, wide(weight))
        return result if bias is None else result._op(Ops.ADD, wide(bias))

    # Places of extremes

    def _places(self, axis: int) -> Self:
        """0, 1, ... along axis, with size 1 along the others, as int32."""
        line = self._iota(self.shape[axis], self.device)
        return line._reshape(tuple(size if a == axis else 1 for a, size in enumerate(self.shape)))

    def _is_among(self, extreme: Self) -> Self:
        """Where this equals an extreme of it; if that is NaN, where this is NaN."""
        found = self._op(Ops.CMPEQ, extreme)
        return found._op(Ops.OR, self._op(Ops.CMPNE, self)) if self._is_float() else found

    def _first_place(self, op: Ops, what: str, axis: int | None, keepdim: bool) -> Self:
        if axis is None:
            result = self._reshape((lengths.product(self.shape),))._first_place(op, what, 0, False)
            return result._reshape((1,) * self.ndim) if keepdim else result
        (axis,) = self._not_empty(what, axis) or (0,)
        if not self.ndim:
            return self._const(0, dtypes.int32)._as_places()
        hit = self._is_among(self._reduce(op, axis, True))
        return hit._op(Ops.WHERE, self._places(axis), self.shape[axis])._reduce(Ops.MIN, axis, keepdim)._as_places()

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the greatest value, the first of equals; NaN counts as greatest. Places are int32, or int64 with
        DEFAULT_INT=int64.

        axis None takes the place in the flattened tensor. Raises ShapeError over no elements.

        >>> from tinygraft import Tensor
        >>> Tensor([[1, 0, 2], [5, 4, 3]]).argmax(axis=1).tolist()
        [2, 0]
        """
        return self._first_place(Ops.MAX, "argmax", axis, keepdim)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The place of the least value, the first of equals; NaN counts as least."""
        return self._first_place(Ops.MIN, "argmin", axis, keepdim)


def _correction(correction: float | None, unbiased: bool | None) -> float:
    """What is taken from the number of elements, said in either way; 1 where neither says."""
    if unbiased is not None:
        return int(unbiased)
    return 1 if correction is None else correction
