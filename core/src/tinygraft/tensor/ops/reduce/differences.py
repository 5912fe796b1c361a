"""Sampled functions: differences and integrals along an axis, and how variables vary together.

Values at equal or given distances in, along one axis; a tensor without it, or one shorter there, out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes, part_of
from tinygraft.errors import AxisError, DTypeError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.elementwise import is_inexact
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


@either_spelling
def diff(self: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Each element less the one before it along axis, n times; of bools, whether they differ.

    Each time the axis is one shorter, down to none. prepend and append, tensors that join along axis, are put around
    first. Unsigned integers wrap. Raises AxisError for an axis that does not exist, ValueError for an n below 0,
    ShapeError where they do not join, or the axis is symbolic.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 4, 9]).diff().tolist()
    [3, 5]
    """
    if not self.ndim:
        raise AxisError(f"diff needs an axis, got shape ()\n  made at {self._where()}")
    if size_math.as_integer(n, "diff", "n") < 0:
        raise ValueError(f"diff needs n of 0 or more, got {n}")
    dim = self._axis(axis)
    if n == 0:
        return self._again()
    parts = [part for part in (prepend, self, append) if part is not None]
    x: Any = parts[0].cat(*parts[1:], dim=dim)
    size = size_math.as_int(x.shape[dim], "diff")
    for left in range(size - 1, max(size - 1 - n, -1), -1):
        after, before = sliced(x, dim, 1, left + 1), sliced(x, dim, 0, left)
        x = after ^ before if x.dtype is dtypes.bool else after - before
    return x if n <= size else sliced(x, dim, 0, 0)


def _distances(self: Tensor, what: str, x: Any, dx: Any, axis: int) -> Any:
    """The distances between neighbours along an axis, as a number or a tensor that broadcasts: `dx` where `x` is None.

    `x` has the coordinates: of one axis, or of axes that broadcast with those of self. Raises ShapeError for another
    count; `what` names the method.
    """
    if x is None:
        return dx
    if not isinstance(x, TensorBase):
        x = type(self)(x, device=self.device)
    if x.ndim == 1 and self.ndim > 1:
        if x.shape[0] != self.shape[axis]:
            raise ShapeError(f"{what} needs a coordinate for each of {self.shape[axis]} values, got {x.shape[0]}")
        x = x.reshape((-1,) + (1,) * (self.ndim - axis - 1))
    return x.diff(axis=axis - self.ndim)


def _trapezoids(self: Tensor, what: str, x: Any, dx: Any, axis: int) -> tuple[Any, int]:
    """Return the areas between neighbours along `axis`, one fewer than elements, and that axis, counted from the front.

    `what` names the method. Raises AxisError for an axis that does not exist, ShapeError for coordinates that do not
    fit.
    """
    if not self.ndim:
        raise AxisError(f"{what} needs an axis, got shape ()\n  made at {self._where()}")
    counted = self._axis(axis)
    size = size_math.as_int(self.shape[counted], what)
    y = self if is_inexact(self) else self._cast(dtypes.default_float)
    # min and max: an axis of no elements has no neighbours, and the slices stay inside it
    sums = sliced(y, counted, min(1, size), size) + sliced(y, counted, 0, max(size - 1, 0))
    return sums * _distances(y, what, x, dx, counted) * 0.5, counted


@either_spelling
def trapezoid(self: Tensor, x: Any = None, dx: Any = 1, axis: int = -1) -> Tensor:
    """The integral along axis by the trapezoidal rule, values with the distance dx, or at the coordinates x.

    The axis is gone. dx is a number or a tensor that broadcasts; x is a tensor or list: one axis, or this tensor's
    shape. Floats, also of integers. Raises AxisError for an axis that does not exist, ShapeError for another number of
    coordinates.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 3.0]).trapezoid().item()
    4.0
    """
    areas, counted = _trapezoids(self, "trapezoid", x, dx, axis)
    return areas.sum(counted)  # type: ignore[no-any-return]


@either_spelling
def trapz(self: Tensor, x: Any = None, dx: Any = 1, axis: int = -1) -> Tensor:
    """trapezoid, by its older name, with its arguments and errors."""
    return self.trapezoid(x, dx, axis)


@either_spelling
def cumulative_trapezoid(self: Tensor, x: Any = None, dx: Any = 1, axis: int = -1) -> Tensor:
    """The running integral along axis by the trapezoidal rule, shorter by one. Arguments and errors as in trapezoid.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 3.0]).cumulative_trapezoid().tolist()
    [1.5, 4.0]
    """
    areas, counted = _trapezoids(self, "cumulative_trapezoid", x, dx, axis)
    return areas.cumsum(counted)  # type: ignore[no-any-return]


def cov(self: Tensor, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariance matrix of variables, a row each, measured once in each column.

    (n, m) gives (n, n), one variable (). fweights, integers, says how often each column counts, aweights, floats, how
    much; both are tensors (m,), and are read. correction is subtracted from the number of columns. The result is of
    floats. Raises ShapeError for more than two axes, DTypeError for weights of another dtype or shape, ValueError for
    ones below 0.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).cov().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if self.ndim > 2:
        raise ShapeError(f"cov needs at most two axes, got shape {self.shape}\n  made at {self._where()}")
    x = self._in_field()
    x = reshaped(x, (1, size_math.product(x.shape))) if x.ndim < 2 else x
    weights = _weights(self, "fweights", fweights, False), _weights(self, "aweights", aweights, True)
    given = [w._cast(part_of(x.dtype)) for w in weights if w is not None]
    if not given:
        count: Any = float(size_math.as_int(x.shape[1], "cov"))
        total: Any = count
        centred = x - x.mean(1, keepdim=True)
        scaled = centred
        freedom: Any = max(count - correction, 0.0)
    else:
        w = given[0] if len(given) == 1 else given[0] * given[1]
        total = w.sum()
        centred = x - (x * w).sum(1, keepdim=True) / total
        scaled = centred * w
        # degrees of freedom as numpy.cov has them: sum(w) - correction * sum(w * aweights) / sum(w)
        lost = correction if aweights is None else (w * given[-1]).sum() / total * correction
        freedom = (total - lost).maximum(0.0)
    found = scaled._op(Ops.MUL, 1.0).matmul(centred.transpose(0, 1)._conj()) / freedom
    return (found if x.shape[0] != 1 else reshaped(found, ()))._narrowed(self.dtype)


def _weights(self: Tensor, name: str, weights: Any, floats: bool) -> Any:
    """Return the weights `name` of `cov`, which are read, or None. `floats` says whether they are floats or integers.

    Raises DTypeError for another dtype or shape, ValueError for one below 0.
    """
    if weights is None:
        return None
    size = self.shape[-1] if self.ndim else 1
    kinds = ("float",) if floats else ("int", "uint")
    if weights.dtype.kind not in kinds or weights.shape not in ((size,), ()):
        wanted = "floats" if floats else "integers"
        raise DTypeError(f"{name} of cov are {wanted}, {size} of them, got {weights.dtype} of shape {weights.shape}")
    if (weights < 0).any().item():
        raise ValueError(f"{name} of cov cannot be negative")
    return weights


def corrcoef(self: Tensor) -> Tensor:
    """The correlations of variables, a row each: cov over the product of both deviations, within [-1, 1].

    NaN for a variable that does not vary. Shapes, dtype and errors as in cov.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).corrcoef().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = self.cov()
    if c.ndim < 2:
        return c / c
    spread = c.diagonal()._real().sqrt()
    return (c / spread.unsqueeze(1) / spread.unsqueeze(0))._within_one()


def _within_one(self: Tensor) -> Tensor:
    """Return the numbers clamped to [-1, 1], beyond which rounding may have brought them."""
    return self.clamp(-1, 1)
