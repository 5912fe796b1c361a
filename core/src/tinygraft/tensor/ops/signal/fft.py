"""Fourier transforms.

A real or complex tensor in; complex64 out, or complex128 where the input has 64 bits, or floats where the definition
says that the result is real. The length is split into small factors (mixed-radix Cooley and Tukey), each a
product with a small matrix; a length with a large prime factor is a convolution of a power of two (Bluestein). All of
it is ordinary graph, so it fuses, differentiates and runs in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinygraft.dtype import DTypeLike
from tinygraft.tensor.ops.signal.fourier import from_real, to_real, transformed
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.reduce import Axis

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# One axis


@either_spelling
def fft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along dim, of the first n numbers, or padded with zeros to n; complex.

    n None is the size of dim. norm says what is divided by the length: None or "backward" the inverse, "forward" this
    one, "ortho" each by its root. Raises ShapeError for a length below 1, AxisError for a dim that does not exist,
    ValueError for another norm.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 3.0, 4.0]).fft().tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return transformed(self, "fft", [dim], None if n is None else [n], norm, inverse=False)


@either_spelling
def ifft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of fft; complex. Arguments and errors as there.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0]).fft().ifft().tolist()
    [(1+0j), (2+0j)]
    """
    return transformed(self, "ifft", [dim], None if n is None else [n], norm, inverse=True)


@either_spelling
def rfft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 numbers of fft of a real tensor, which determine the others; complex.

    n None is the size of dim. Arguments and errors as in fft, and DTypeError for complex numbers.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 3.0, 4.0]).rfft().tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    return self.rfftn(None if n is None else [n], [dim], norm)


@either_spelling
def irfft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of rfft: floats, of length n along dim; None is 2 * (size - 1), which is even.

    Of the spectrum the first n // 2 + 1 numbers count. Arguments and errors as in fft.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0, 3.0, 4.0]).rfft().irfft().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return self.irfftn(None if n is None else [n], [dim], norm)


@either_spelling
def hfft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The fft of what has a real transform, given by its first half; floats, of length n along dim.

    n None is 2 * (size - 1). Arguments and errors as in fft.
    """
    return self.hfftn(None if n is None else [n], [dim], norm)


@either_spelling
def ihfft(self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of hfft of a real tensor: its first half, n // 2 + 1 complex numbers.

    Arguments and errors as in fft.
    """
    return self.ihfftn(None if n is None else [n], [dim], norm)


# Several axes


@either_spelling
def fftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """fft along several axes: those of dim, or the last len(s), or all. s has a length for each; -1 keeps one.

    norm is as in fft, where the length is the product of all. Raises ShapeError for another number of lengths than
    axes, a length below 1, one axis named twice and no axis, AxisError for one that does not exist, ValueError for
    another norm.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).fftn().tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return transformed(self, "fftn", dim, s, norm, inverse=False)


@either_spelling
def ifftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """The inverse of fftn, with its arguments and errors; complex."""
    return transformed(self, "ifftn", dim, s, norm, inverse=True)


@either_spelling
def fft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """fftn along two axes, the last ones unless dim says which, with its arguments and errors."""
    return self.fftn(s, dim, norm)


@either_spelling
def ifft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of fft2, with its arguments and errors."""
    return self.ifftn(s, dim, norm)


@either_spelling
def rfftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """rfft along the last of several axes, then fft along the others; complex. Arguments and errors as in fftn."""
    return from_real(self, "rfftn", s, dim, norm, inverse=False)


@either_spelling
def irfftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """The inverse of rfftn: floats. Arguments and errors as in fftn.

    The length of the last axis is even unless s says otherwise.
    """
    return to_real(self, "irfftn", s, dim, norm, inverse=True)


@either_spelling
def hfftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """fft along several axes and hfft along the last; floats. Arguments and errors as in fftn, lengths as in irfftn."""
    return to_real(self, "hfftn", s, dim, norm, inverse=False)


@either_spelling
def ihfftn(self: Tensor, s: Sequence[int] | None = None, dim: Axis = None, norm: str | None = None) -> Tensor:
    """The inverse of hfftn of a real tensor; complex. Arguments and errors as in fftn."""
    return from_real(self, "ihfftn", s, dim, norm, inverse=True)


@either_spelling
def rfft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """rfftn along two axes, the last ones unless dim says which, with its arguments and errors."""
    return self.rfftn(s, dim, norm)


@either_spelling
def irfft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of rfft2: irfftn along two axes, with its arguments and errors."""
    return self.irfftn(s, dim, norm)


@either_spelling
def hfft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """hfftn along two axes, the last ones unless dim says which, with its arguments and errors."""
    return self.hfftn(s, dim, norm)


@either_spelling
def ihfft2(self: Tensor, s: Sequence[int] | None = None, dim: Axis = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of hfft2: ihfftn along two axes, with its arguments and errors."""
    return self.ihfftn(s, dim, norm)


# Frequencies


def fftfreq(
    cls: type[Tensor], n: int, d: float = 1.0, device: str | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """The frequencies of fft's n results in cycles per unit, for samples with the distance d: floats (n,).

    The dtype is the default float, unless given; d is not 0.

    >>> from tinygraft import Tensor
    >>> Tensor.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    numbers = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return cls([k / (n * d) for k in numbers], device=device, dtype=dtype)


def rfftfreq(
    cls: type[Tensor], n: int, d: float = 1.0, device: str | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """The frequencies of rfft's results, for n samples with the distance d: floats (n // 2 + 1,). Dtype as in fftfreq.

    >>> from tinygraft import Tensor
    >>> Tensor.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return cls([k / (n * d) for k in range(n // 2 + 1)], device=device, dtype=dtype)


@either_spelling
def fftshift(self: Tensor, dim: Axis = None) -> Tensor:
    """The frequency 0 moved from the front to the middle, along some axes or all, in this shape.

    dim is one axis, several, or None for all. Raises AxisError for one that does not exist, ShapeError for a symbolic
    one.

    >>> from tinygraft import Tensor
    >>> Tensor.fftfreq(4).fftshift().tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    axes = self._axes(dim)
    return self.roll([size_math.as_int(self.shape[a], "fftshift") // 2 for a in axes], axes) if axes else self._again()


@either_spelling
def ifftshift(self: Tensor, dim: Axis = None) -> Tensor:
    """The inverse of fftshift, also of odd sizes, with its arguments and errors."""
    axes = self._axes(dim)
    return (
        self.roll([-(size_math.as_int(self.shape[a], "ifftshift") // 2) for a in axes], axes) if axes else self._again()
    )
