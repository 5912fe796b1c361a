"""Reductions: sums, products, extremes, statistics, softmax and its relatives, indices of extremes, norms.

A tensor and one axis, several, or None for all in; the tensor without those axes out, or with size 1 where keepdim.
Sums of half types are accumulated in float32 and rounded once, those of bools and of small integers in 32 bits, or in
64 where that many elements could exceed them; other integers in their own dtype, wrapping. Over no elements a sum is
0, a product 1, a mean NaN, as in numpy; max and min raise.

A reduction that is broadcast back has keepdim and no other node in between, the form that is fused into one kernel.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinygraft.dtype import DType, DTypeLike, accumulator, dtypes, to_dtype
from tinygraft.errors import DTypeChoiceError
from tinygraft.tensor.primitives import size_checks, size_math
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.casting import as_positions
from tinygraft.tensor.primitives.elementwise import size_root
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.transcendental import exp_below_zero, log_floats
from tinygraft.uop.ops import Ops, ScanArg
from tinygraft.uop.sizes import max_shape, sint

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


Axis = int | Sequence[int] | None


def _accumulate(self: Tensor, op: Ops, axis: Axis, keepdim: bool, dtype: DTypeLike | None) -> Tensor:
    """Return a sum (ADD) or product (MUL), computed in a wide enough dtype; for half types it is cast back.

    A `dtype` that is given is that of the elements and of the result.
    """
    if dtype is not None:
        return self._cast(dtype)._reduce(op, axis, keepdim)
    inside = accumulator(self.dtype)
    if op is Ops.ADD and self.dtype.itemsize < 4 and inside.kind in ("int", "uint"):
        inside = _holding(self, inside, max_shape((_count(self, axis),))[0])
    if inside is self.dtype:
        return self._reduce(op, axis, keepdim)
    return self._cast(inside)._reduce(op, axis, keepdim)._narrowed(self.dtype)


def _holding(self: Tensor, dtype: DType, count: int) -> DType:
    """Return an integer dtype, or that of 64 bits where a sum of so many elements of this dtype could exceed it."""
    if count * self.dtype.min >= dtype.min and count * self.dtype.max <= dtype.max:
        return dtype
    return dtypes.uint64 if dtype.kind == "uint" else dtypes.int64


@either_spelling
def sum(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum over `axis`: one axis, several, or None for all. They stay with size 1 with keepdim. 0 over no elements.

    With a dtype, elements are cast to it first and the sum has it. Without one, float16 and bfloat16 are accumulated in
    float32 and rounded once. bool, int8 and int16 give int32, uint8 and uint16 give uint32, or 64 bits where that many
    elements could exceed 32 (2**31 bools, 65,537 of int16); wider dtypes are accumulated in their own, and integers
    wrap. Raises AxisError for an axis that does not exist, ShapeError for one named twice, DTypeError for one that is
    no integer.

    >>> from tinygraft import Tensor
    >>> Tensor([[0, 1, 2], [3, 4, 5]]).sum(axis=0).tolist()
    [3, 5, 7]
    """
    return _accumulate(self, Ops.ADD, axis, keepdim, dtype)


@either_spelling
def prod(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The product over `axis`: one axis, several, or None for all.

    They stay with size 1 with keepdim. 1 over no elements. With a dtype, elements are cast to it first and the product
    has it. Without one, small dtypes are accumulated in 32 bits as by sum, but never in 64; integers wrap. Raises as
    sum does.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).prod(axis=1).tolist()
    [2, 12]
    """
    return _accumulate(self, Ops.MUL, axis, keepdim, dtype)


def not_empty(self: Tensor, what: str, axis: Axis) -> tuple[int, ...]:
    """The axes, sorted and from the front. Raises AxisError if one of them has no elements to choose from.

    A symbolic size is checked with the values that are bound, and again by a replay. `what` names the method.
    """
    axes = self._axes(axis)
    if builtins.any(not isinstance(self.shape[a], int) or self.shape[a] == 0 for a in axes):
        size_checks.require(
            size_checks.Filled(self.shape, axes, what if axis is None else f"{what} over axis {axis}", self._where())
        )
    return axes


@either_spelling
def max(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """The greatest value over `axis`: one axis, several, or None for all. They stay with size 1 with keepdim.

    NaN if there is one. Equal ones share the gradient. Raises AxisError over no elements, and as sum does.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 0, 2], [5, 4, 3]]).max(axis=1).tolist()
    [2, 5]
    """
    return self._reduce(Ops.MAX, not_empty(self, "max", axis), keepdim)


@either_spelling
def min(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """The least value over `axis`: one axis, several, or None for all. They stay with size 1 with keepdim.

    NaN if there is one. Equal ones share the gradient. Raises AxisError over no elements, and as sum does.
    """
    return self._reduce(Ops.MIN, not_empty(self, "min", axis), keepdim)


@either_spelling
def any(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """Whether some element over `axis` is not zero, as bools: one axis, several, or None for all. NaN is not zero.

    They stay with size 1 with keepdim. False over no elements. Raises as sum does.
    """
    return self._cast(dtypes.bool)._reduce(Ops.OR, axis, keepdim)


@either_spelling
def all(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """Whether no element over `axis` is zero, as bools: one axis, several, or None for all. NaN is not zero.

    They stay with size 1 with keepdim. True over no elements. Raises as sum does.
    """
    return self._cast(dtypes.bool)._reduce(Ops.AND, axis, keepdim)


def allclose(self: Tensor, other: object, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close, as isclose says: a tensor of one bool, without axes.

    Arguments and errors as there.
    """
    return self.isclose(other, rtol, atol, equal_nan).all()


# Statistics


def _count(self: Tensor, axis: Axis) -> sint:
    """Return how many elements one result of a reduction over `axis` combines."""
    return size_math.product(self.shape[a] for a in self._axes(axis))


def mean_floats(self: Tensor, axis: Axis, keepdim: bool) -> Tensor:
    """The mean of floats that are wide enough to be summed in their own dtype: float32 or float64.

    NaN over no elements.
    """
    return self._reduce(Ops.ADD, axis, keepdim)._op(Ops.FDIV, _count(self, axis))


@either_spelling
def mean(self: Tensor, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The arithmetic mean over `axis`: one axis, several, or None for all. They stay with size 1 with keepdim.

    A float: in this dtype, or the default float for integers; with a dtype the elements are cast to it first and the
    mean has it. NaN over no elements. Raises DTypeError for a dtype that is neither of floats nor complex, and as sum
    does.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 5]]).mean(axis=1).tolist()
    [1.5, 4.0]
    """
    if dtype is not None:
        return for_mean(self, dtype).mean(axis, keepdim)
    return mean_floats(self._in_float(), axis, keepdim)._narrowed(self.dtype)


def for_mean(self: Tensor, dtype: DTypeLike) -> Tensor:
    """The elements in the dtype that their mean is to have.

    Raises DTypeError if that is neither of floats nor complex.
    """
    to = to_dtype(dtype)
    if to.kind not in ("float", "complex"):
        raise DTypeChoiceError(f"mean gives floats or complex numbers, got {to}\n  made at {self._where()}")
    return self._cast(to)


def _var(self: Tensor, axis: Axis, keepdim: bool, correction: float) -> Tensor:
    """Return the sum of squared distances from the mean over count - `correction`, or over 0 if that is less.

    axis and keepdim are those of a reduction; the elements are of float32 or float64.
    """
    # two passes: E[x**2] - mean**2 in one would cancel where the mean is large
    distance = self._op(Ops.SUB, mean_floats(self, axis, True))
    squares = distance._op(Ops.MUL, distance)._reduce(Ops.ADD, axis, keepdim)
    count = _count(self, axis)
    if isinstance(count, int):
        return squares._op(Ops.FDIV, builtins.max(0, count - correction))
    freedom = squares._const(count, squares.dtype)._op(Ops.SUB, correction)._op(Ops.MAX, 0)  # correction may be 0.5
    return squares._op(Ops.FDIV, freedom)


@either_spelling
def var(
    self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
) -> Tensor:
    """The variance over `axis`: squared distances from the mean, summed and divided by their count less correction.

    `axis` is one axis, several, or None for all; they stay with size 1 with keepdim. A float, also of integers. Where
    the count is not above correction it is NaN, or inf. unbiased is another way to say correction: True for 1, False
    for 0. Raises as sum does.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 3.0]).var().item(), Tensor([1.0, 3.0]).var(correction=0).item()
    (2.0, 1.0)
    """
    return _var(self._in_float(), axis, keepdim, _correction(correction, unbiased))._narrowed(self.dtype)


@either_spelling
def var_mean(
    self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
) -> tuple[Tensor, Tensor]:
    """(var, mean), with the arguments and errors of var."""
    return self.var(axis, keepdim, correction, unbiased), self.mean(axis, keepdim)


@either_spelling
def std(
    self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
) -> Tensor:
    """The square root of the variance, with the arguments and errors of var.

    Where all values are equal its gradient is 0.
    """
    x = self._in_float()
    return size_root(_var(x, axis, keepdim, _correction(correction, unbiased)))._narrowed(self.dtype)


@either_spelling
def std_mean(
    self: Tensor, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
) -> tuple[Tensor, Tensor]:
    """(std, mean), with the arguments and errors of var."""
    return self.std(axis, keepdim, correction, unbiased), self.mean(axis, keepdim)


# Softmax and its relatives


def shifted_floats(self: Tensor, axis: Axis) -> Tensor:
    """The values, of float32 or float64, less their maximum along `axis`, so that exp does not overflow.

    Softmax does not change by it, so the maximum has no gradient, and is detached.
    """
    return self._op(Ops.SUB, self._move(Ops.DETACH, None)._reduce(Ops.MAX, axis, True))


def _to_softmax(self: Tensor, dtype: DTypeLike | None) -> tuple[Tensor, DTypeLike]:
    """Return the operand, cast to `dtype` where one is given, in a wide enough float, and the dtype of the result."""
    x = self if dtype is None else self._cast(dtype)
    return x._in_float(), x.dtype if x._is_float() else dtypes.default_float


@either_spelling
def softmax(self: Tensor, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """exp of each element over the sum of exp along axis: positive numbers that sum to 1, in this shape.

    A float: in this dtype, or the default float for integers; with a dtype the elements are cast to it first. NaN along
    an axis with NaN or inf, or of -inf alone. Raises AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0, 0.0]).softmax().tolist()
    [0.5, 0.5]
    """
    x, to = _to_softmax(self, dtype)
    powers = exp_below_zero(shifted_floats(x, axis))
    return powers._op(Ops.FDIV, powers._reduce(Ops.ADD, axis, True))._cast(to)


@either_spelling
def log_softmax(self: Tensor, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """log(softmax), without underflow, with the arguments and errors of softmax."""
    x, to = _to_softmax(self, dtype)
    shifted = shifted_floats(x, axis)
    return shifted._op(Ops.SUB, log_floats(exp_below_zero(shifted)._reduce(Ops.ADD, axis, True)))._cast(to)


@either_spelling
def softmin(self: Tensor, axis: int = -1, dtype: DTypeLike | None = None) -> Tensor:
    """softmax of the negated values, with its arguments and errors."""
    return self._op(Ops.NEG).softmax(axis, dtype)


@either_spelling
def logsumexp(self: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """log of the sum of exp over `axis`, a float, without overflow; -inf where all are -inf.

    `axis` is one axis, several, or None for all; they stay with size 1 with keepdim. Raises as sum does.

    >>> from tinygraft import Tensor
    >>> Tensor([1000.0]).logsumexp().item()
    1000.0
    """
    return logsumexp_floats(self._in_float(), axis, keepdim)._narrowed(self.dtype)


def logsumexp_floats(self: Tensor, axis: Axis, keepdim: bool) -> Tensor:
    """log(sum(exp(x - max))) + max of float32 or float64, so that exp does not overflow. Axes as for logsumexp."""
    greatest = self._move(Ops.DETACH, None)._reduce(Ops.MAX, axis, True)
    base = greatest.isfinite()._op(Ops.WHERE, greatest, 0.0)  # -inf - -inf would be NaN, and the result is -inf
    total = log_floats(exp_below_zero(self._op(Ops.SUB, base))._reduce(Ops.ADD, axis, True))._op(Ops.ADD, base)
    return total if keepdim else without_axes(total, self._axes(axis))


def without_axes(self: Tensor, axes: Sequence[int]) -> Tensor:
    """Without some axes of size 1, counted from the front."""
    return reshaped(self, tuple(size for axis, size in enumerate(self.shape) if axis not in axes))


# Norms


@either_spelling
def normalize(self: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divided by the p-norm along dim, one axis or several, or by eps where that is less. A float, also of integers.

    p = inf takes the greatest magnitude, -inf the least, 0 how many elements are not 0. Raises AxisError for an axis
    that does not exist: dim is 1 unless given, as in PyTorch.

    >>> from tinygraft import Tensor
    >>> [round(x, 3) for x in Tensor([[3.0, 4.0]]).normalize()[0].tolist()]
    [0.6, 0.8]
    """
    x = self._in_float()
    if p == 2:  # eps before the root: the slope of SQRT at 0 is infinite
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


@either_spelling
def layernorm(self: Tensor, axis: int | Sequence[int] = -1, eps: float = 1e-5) -> Tensor:
    """Less the mean, over the standard deviation, along axis, one or several.

    No weight and bias: multiply and add them after. The variance is without correction, and eps is added to it before
    the root. A float, also of integers. Raises AxisError for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 3.0]]).layernorm(eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = self._in_float()
    centred = x._op(Ops.SUB, mean_floats(x, axis, True))
    scale = mean_floats(centred._op(Ops.MUL, centred), axis, True)._op(Ops.ADD, eps)._op(Ops.SQRT)._op(Ops.RECIPROCAL)
    return centred._op(Ops.MUL, scale)._narrowed(self.dtype)


@either_spelling
def batchnorm(
    self: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    axis: int | Sequence[int] = 1,
) -> Tensor:
    """(self - mean) * invstd * weight + bias, each of which has one value for each index along axis, one or several.

    They have the shape of those axes, or as many axes as this tensor, to which they broadcast. weight and bias may be
    None. Raises ShapeError where they do not fit, AxisError for an axis that does not exist.
    """
    axes = self._axes(axis)
    shape = tuple(size if a in axes else 1 for a, size in enumerate(self.shape))

    def wide(t: Tensor) -> Tensor:
        return t if t.ndim == self.ndim else reshaped(t, shape)

    result = self._op(Ops.SUB, wide(mean))._op(Ops.MUL, wide(invstd))
    result = result if weight is None else result._op(Ops.MUL, wide(weight))
    return result if bias is None else result._op(Ops.ADD, wide(bias))


# Indices of extremes


def scanned(self: Tensor, op: Ops, axis: int) -> Tensor:
    """Combine the elements before and at each position along `axis` by `op`: a running sum, product or maximum."""
    axis = self._axis(axis)
    return self._move(Ops.SCAN, ScanArg(op, axis)) if self.ndim else self._again()


def is_among(self: Tensor, extreme: Tensor) -> Tensor:
    """Where this equals an extreme of it, which broadcasts with it, as bools; if that is NaN, where this is NaN."""
    found = self._op(Ops.CMPEQ, extreme)
    return found._op(Ops.OR, self._op(Ops.CMPNE, self)) if self._is_float() else found


def _first_index(self: Tensor, op: Ops, what: str, axis: int | None, keepdim: bool) -> Tensor:
    """Return the index of the first extreme along `axis`, or of the first NaN; None: in the flattened tensor.

    `op` is MAX or MIN, `what` names the method. Raises AxisError over no elements.
    """
    if axis is None:
        result = _first_index(reshaped(self, (size_math.product(self.shape),)), op, what, 0, False)
        return reshaped(result, (1,) * self.ndim) if keepdim else result
    (axis,) = not_empty(self, what, axis) or (0,)
    if not self.ndim:
        return as_positions(self._const(0, dtypes.int32))
    hit = is_among(self, self._reduce(op, axis, True))  # two reductions, of values and of indices: no op pairs them
    return as_positions(
        hit._op(Ops.WHERE, positions_along(self, axis), self.shape[axis])._reduce(Ops.MIN, axis, keepdim)
    )


@either_spelling
def argmax(self: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the greatest value along axis, the first of equals; NaN counts as greatest.

    axis None is the index in the flattened tensor, of shape (), or of size 1 along each axis with keepdim. Indices are
    int32, or int64 with DEFAULT_INT=int64. Raises AxisError over no elements and for an axis that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 0, 2], [5, 4, 3]]).argmax(axis=1).tolist()
    [2, 0]
    """
    return _first_index(self, Ops.MAX, "argmax", axis, keepdim)


@either_spelling
def argmin(self: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the least value along axis, the first of equals; NaN counts as least. All else as in argmax."""
    return _first_index(self, Ops.MIN, "argmin", axis, keepdim)


def _correction(correction: float | None, unbiased: bool | None) -> float:
    """Return the correction that is subtracted from the count, given by either parameter; 1 where neither is given."""
    if unbiased is not None:
        return int(unbiased)
    return 1 if correction is None else as_number(correction, "a variance", "correction")
