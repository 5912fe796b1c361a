"""Reductions and distances of complex numbers that are not those of real ones: what has magnitudes in place of numbers.

A complex tensor in. What measures is real, as in PyTorch: norms, distances and variances.
"""

# mypy: disable-error-code="override"
# The stub of Tensor has its parameters under both names; here the decorator takes the other ones.

from __future__ import annotations

from typing import Any, NoReturn

from tinygraft.dtype import DTypeLike, part_of
from tinygraft.tensor.ops.nn.regression_losses import weighted
from tinygraft.tensor.ops.reduce.masked import as_dtype, count_kept, or_else, reduced_axes
from tinygraft.tensor.primitives.elementwise import size_root
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.reduce import Axis, for_mean, without_axes
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops


class ComplexReductions(Tensor):
    """Methods that combine complex numbers, or compare them."""

    __slots__ = ()

    def _undefined(self) -> NoReturn:
        """Raise DTypeError, which names the method that complex numbers do not have."""
        raise NotImplementedError

    @either_spelling
    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> NoReturn:
        """Not defined: complex numbers have no order."""
        self._undefined()

    def _sort_keys(self, descending: bool) -> NoReturn:
        """Not defined: complex numbers have no order."""
        self._undefined()

    # Statistics

    @either_spelling
    def mean(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Any:
        """The arithmetic mean along `axis` (None: of all), complex; `dtype` is a complex one to compute in."""
        if dtype is not None:
            return for_mean(self, dtype).mean(axis, keepdim)
        real, imaginary = _parted(self, "mean", axis, keepdim)
        return real.complex(imaginary)

    @either_spelling
    def var(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Any:
        """The variances of both parts added up along `axis`, which is real; the arguments are those of Tensor.var."""
        real, imaginary = _parted(self, "var", axis, keepdim, correction, unbiased)
        return real + imaginary

    @either_spelling
    def std(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Any:
        """The square root of the variance, which is real; the arguments are those of Tensor.std."""
        return size_root(self.var(axis, keepdim, correction, unbiased))

    @either_spelling
    def masked_mean(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
    ) -> Any:
        """The mean along `dim` of the elements for which `mask` is true, complex; None counts all."""
        x, axes = as_dtype(self, dtype), reduced_axes(self, dim)
        total = or_else(x, mask, 0.0).sum(axes, keepdim)
        return total / count_kept(x, mask, axes, keepdim, part_of(x.dtype))

    @either_spelling
    def masked_var(
        self, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
        keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None,
    ) -> Any:  # fmt: skip
        """The variances along `dim` of both parts of the elements for which `mask` is true, added up: real."""
        both = _parted(
            as_dtype(self, dtype), "masked_var", dim, unbiased, correction=correction, keepdim=keepdim, mask=mask
        )
        return both[0] + both[1]

    def _within_one(self) -> Any:
        """Return both parts clamped to [-1, 1]."""
        real, imaginary = _parted(self, "clamp", -1, 1)
        return real.complex(imaginary)

    @either_spelling
    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Any:
        """log of the sum of exp, the principal value, without overflow."""
        greatest = self.real.detach()._reduce(Ops.MAX, axis, True)
        base = greatest.isfinite().where(greatest, 0.0)
        total = (self - base).exp().sum(axis, True).log() + base
        return total if keepdim else without_axes(total, self._axes(axis))

    # Distances

    @either_spelling
    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
        """Divided by the p-norm along dim, or by eps where that is less."""
        return self / self.vector_norm(p, dim, keepdim=True).clamp(eps)

    def l1_loss(self, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
        """|self - target|, real. weight scales each loss, and the mean is over the weights."""
        found = (self - target).abs()
        return weighted(found, weight, reduction, found.dtype)

    @either_spelling
    def pairwise_distance(self, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
        """The p-norm of self - x2 + eps along the last axis, real."""
        return (self - x2 + eps).vector_norm(p, -1, keepdim)


def _parted(tensor: Tensor, method: str, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Return what a method of the real part returns, and what it returns of the imaginary part."""
    return getattr(tensor.real, method)(*args, **kwargs), getattr(tensor.imag, method)(*args, **kwargs)
