"""Reductions and distances of complex numbers that are not those of real ones: what has magnitudes in place of numbers.

A complex tensor in. What measures is real, as in PyTorch: norms, distances and variances.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tinygraft.dtype import DTypeLike, part_of
from tinygraft.tensor.reduce import Axis
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops


class ComplexReductions(Tensor):
    """Methods that combine complex numbers, or compare them."""

    __slots__ = ()

    def _undefined(self) -> NoReturn:
        raise NotImplementedError

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> NoReturn:
        """Not defined: complex numbers have no order."""
        self._undefined()

    def _sort_keys(self, descending: bool) -> NoReturn:
        self._undefined()

    def _parted(self, method: str, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """A method of both parts."""
        return getattr(self.real, method)(*args, **kwargs), getattr(self.imag, method)(*args, **kwargs)

    # Statistics

    def mean(self, axis: Axis = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Any:
        """The arithmetic mean."""
        if dtype is not None:
            return self._for_mean(dtype).mean(axis, keepdim)
        real, imaginary = self._parted("mean", axis, keepdim)
        return real.complex(imaginary)

    def var(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Any:
        """The variances of both parts added up, which is real."""
        real, imaginary = self._parted("var", axis, keepdim, correction, unbiased)
        return real + imaginary

    def std(
        self, axis: Axis = None, keepdim: bool = False, correction: float | None = 1, unbiased: bool | None = None
    ) -> Any:
        """The square root of the variance."""
        return self.var(axis, keepdim, correction, unbiased)._size_root()

    def masked_mean(
        self, dim: Axis = None, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
    ) -> Any:
        """The mean along dim of the elements that count."""
        x, axes = self._as(dtype), self._reduced_axes(dim)
        total = x._or_else(mask, 0.0).sum(axes, keepdim)  # type: ignore[arg-type]
        return total / x._how_many(mask, axes, keepdim, part_of(x.dtype))  # type: ignore[arg-type]

    def masked_var(
        self, dim: Axis = None, unbiased: bool | None = None, *, correction: float | None = None,
        keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None,
    ) -> Any:  # fmt: skip
        """The variances along dim of both parts of the elements that count, added up."""
        both = self._as(dtype)._parted("masked_var", dim, unbiased, correction=correction, keepdim=keepdim, mask=mask)
        return both[0] + both[1]

    def _within_one(self) -> Any:
        real, imaginary = self._parted("clamp", -1, 1)
        return real.complex(imaginary)

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Any:
        """log of the sum of exp, the principal value, without overflow."""
        greatest = self.real.detach()._reduce(Ops.MAX, axis, True)
        base = greatest.isfinite().where(greatest, 0.0)
        total = (self - base).exp().sum(axis, True).log() + base
        return total if keepdim else total._without(self._axes(axis))

    # Distances

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
        """Divided by the p-norm along dim, or by eps where that is less."""
        return self / self.vector_norm(p, dim, keepdim=True).clamp(eps)

    def l1_loss(self, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
        """|self - target|, real. weight scales each loss, and the mean is over the weights."""
        found = (self - target).abs()
        return found._weighted(weight, reduction, found.dtype)

    def pairwise_distance(self, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
        """The p-norm of self - x2 + eps along the last axis, real."""
        return (self - x2 + eps).vector_norm(p, -1, keepdim)
