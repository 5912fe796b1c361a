"""The extension for Fourier transforms: n or s is the length along each axis, norm says which way is divided by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeChoiceError, DTypeError
from tinygraft.tensor.tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]
TransformSizes = Sequence[int] | None


def _of_kind(what: str, x: Tensor, *kinds: str) -> Tensor:
    """Return `x`. Raises DTypeError, with the function `what`, unless its dtype is of one of these kinds."""
    if x.dtype.kind not in kinds:
        names = " or ".join({"float": "real floats", "complex": "complex numbers"}[kind] for kind in kinds)
        raise DTypeError(f"{what} transforms {names}, got {x.dtype}\n  made at {x._where()}")
    return x


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform along an axis, complex, of floats or complex numbers; DTypeError for other dtypes.

    `n` cuts x, or pads it with zeros, along the axis.
    """
    return _of_kind("fft", x, "float", "complex").fft(n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of fft along an axis, complex. DTypeError for other dtypes than floats and complex ones."""
    return _of_kind("ifft", x, "float", "complex").ifft(n, axis, norm)


def fftn(x: Tensor, /, *, s: TransformSizes = None, axes: TransformSizes = None, norm: Norm = "backward") -> Tensor:
    """The transform along several axes, None for all, complex; `s` are their lengths. DTypeError as fft."""
    return _of_kind("fftn", x, "float", "complex").fftn(s, axes, norm)


def ifftn(x: Tensor, /, *, s: TransformSizes = None, axes: TransformSizes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of fftn, complex; `s` are the lengths of `axes`. DTypeError as fft."""
    return _of_kind("ifftn", x, "float", "complex").ifftn(s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The first n // 2 + 1 numbers of the transform along an axis of real floats; DTypeError for other dtypes."""
    return _of_kind("rfft", x, "float").rfft(n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of rfft: `n` real numbers along an axis, by default 2 * (its length - 1)."""
    return _of_kind("irfft", x, "float", "complex").irfft(n, axis, norm)


def rfftn(x: Tensor, /, *, s: TransformSizes = None, axes: TransformSizes = None, norm: Norm = "backward") -> Tensor:
    """rfft along the last of several axes, then fft along the others."""
    return _of_kind("rfftn", x, "float").rfftn(s, axes, norm)


def irfftn(x: Tensor, /, *, s: TransformSizes = None, axes: TransformSizes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of rfftn, real; the last of `s` is the length of the last axis. DTypeError as fft."""
    return _of_kind("irfftn", x, "float", "complex").irfftn(s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform, which is real, of what mirrors the half that is given."""
    return _of_kind("hfft", x, "float", "complex").hfft(n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of hfft: the half of a spectrum, n // 2 + 1 complex numbers, of real floats."""
    return _of_kind("ihfft", x, "float").ihfft(n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """The `n` frequencies of fft's results, for samples with the distance `d`: floats. Raises for another dtype."""
    return Tensor.fftfreq(n, d, device, _frequencies("fftfreq", dtype))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """The n // 2 + 1 frequencies of rfft's results, for samples with the distance `d`: floats."""
    return Tensor.rfftfreq(n, d, device, _frequencies("rfftfreq", dtype))


def _frequencies(what: str, dtype: DType | None) -> DType | None:
    """Return `dtype`. Raises an error unless it is None or a real float dtype."""
    if dtype is not None and not dtypes.is_float(dtype):
        raise DTypeChoiceError(f"{what} gives real floats, got {dtype}")
    return dtype


def fftshift(x: Tensor, /, *, axes: int | TransformSizes = None) -> Tensor:
    """The frequency 0 moved from the front to the middle of `axes`, None for all."""
    return x.fftshift(axes)


def ifftshift(x: Tensor, /, *, axes: int | TransformSizes = None) -> Tensor:
    """The inverse of fftshift: the middle of `axes` moved to the front."""
    return x.ifftshift(axes)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip
