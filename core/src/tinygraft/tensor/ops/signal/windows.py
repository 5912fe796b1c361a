"""Windows: weights for the samples of a signal, by name, as signal processing has them.

A length M in; M floats out, 1 in the middle and less towards both ends. sym=False leaves off the last one of M + 1:
then the window continues with its own start, which is what a Fourier transform wants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike, dtypes, to_dtype
from tinygraft.errors import DTypeChoiceError, ShapeError
from tinygraft.uop.uop import Place

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _indices_of(cls: type[Tensor], M: int, sym: bool, dtype: DTypeLike | None, device: Place) -> tuple[Tensor, int]:
    """(0, 1, ..., M - 1 as floats, the index of the last sample of the symmetric window).

    The index is M - 1, or M where sym is False, and at least 1. Raises ShapeError for what is no length, DTypeError for
    a dtype other than float32 and float64.
    """
    if not isinstance(M, int) or M < 0:
        raise ShapeError(f"a window has a length that is not negative, got {M!r}")
    to = dtypes.default_float if dtype is None else to_dtype(dtype)
    if to not in (dtypes.float32, dtypes.float64):
        raise DTypeChoiceError(f"a window is of float32 or float64, got {to}; cast it")
    line = cls.arange(M, device=device, dtype=to)
    return line, max(M - 1 if sym else M, 1)


def window_general_cosine(
    cls: type[Tensor],
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: Place = None,
) -> Tensor:
    """The sum over i of (-1)**i * a[i] * cos(2 pi i k / (M - 1)), for k from 0 to M - 1.

    With sym=False it is divided by M instead. M floats, by default of the default dtype. a is a list or tuple of at
    least one number; one sample is 1. Raises ShapeError for a negative M, DTypeError for a dtype other than float32 and
    float64, ValueError for an a that is empty or no list, TypeError for None.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor.window_general_cosine(3, a=[0.5, 0.5]).tolist()]
    [0.0, 1.0, 0.0]
    """
    if a is None:
        raise TypeError("window_general_cosine needs a list of coefficients, got None")
    if not isinstance(a, (list, tuple)) or not a:
        raise ValueError(f"window_general_cosine needs a list of one coefficient or more, got {a!r}")
    line, last = _indices_of(cls, M, sym, dtype, device)
    if M == 1:
        return line + 1
    total = line._const(float(a[0]))
    for i, share in enumerate(a[1:], 1):
        total = total + (line * (2 * math.pi * i / last)).cos() * (share * (-1) ** i)
    return total


def window_general_hamming(
    cls: type[Tensor],
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: Place = None,
) -> Tensor:
    """alpha - (1 - alpha) * cos(2 pi k / (M - 1)). M, sym, dtype and errors as in window_general_cosine."""
    return cls.window_general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, device=device)


def window_hamming(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """0.54 - 0.46 * cos(2 pi k / (M - 1)). M, sym, dtype and errors as in window_general_cosine.

    >>> from tinygraft import Tensor
    >>> [round(x, 4) for x in Tensor.window_hamming(3).tolist()]
    [0.08, 1.0, 0.08]
    """
    return cls.window_general_hamming(M, sym=sym, dtype=dtype, device=device)


def window_hann(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """0.5 - 0.5 * cos(2 pi k / (M - 1)). M, sym, dtype and errors as in window_general_cosine."""
    return cls.window_general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device)


def window_blackman(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """The sum of three cosines, 0.42, 0.5 and 0.08. M, sym, dtype and errors as in window_general_cosine."""
    return cls.window_general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, device=device)


def window_nuttall(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """The sum of four cosines with the lowest side lobes (Nuttall 1981).

    M, sym, dtype and errors as in window_general_cosine.
    """
    a = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return cls.window_general_cosine(M, a=a, sym=sym, dtype=dtype, device=device)


def window_bartlett(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """A triangle that begins and ends at 0. M, sym, dtype and errors as in window_general_cosine.

    >>> from tinygraft import Tensor
    >>> Tensor.window_bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    line, last = _indices_of(cls, M, sym, dtype, device)
    return line + 1 if M == 1 else 1 - ((line * 2 - last) * (1 / last)).abs()


def window_cosine(
    cls: type[Tensor], M: int, *, sym: bool = True, dtype: DTypeLike | None = None, device: Place = None
) -> Tensor:
    """sin(pi (k + 1/2) / M): half a wave. M, sym, dtype and errors as in window_general_cosine."""
    line, last = _indices_of(cls, M, sym, dtype, device)
    return line + 1 if M == 1 else ((line + 0.5) * (math.pi / (last + 1))).sin()


def window_exponential(
    cls: type[Tensor], M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: DTypeLike | None = None, device: Place = None,
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau); center None is the middle, and the only one of a symmetric window.

    M, sym, dtype and errors as in window_general_cosine; ValueError is raised for a tau of 0 or less, and a center with
    sym.
    """
    if tau <= 0:
        raise ValueError(f"window_exponential needs a tau of more than 0, got {tau}")
    if sym and center is not None:
        raise ValueError(f"window_exponential takes a center with sym=False only, got {center}")
    line, last = _indices_of(cls, M, sym, dtype, device)
    middle = last / 2 if center is None else center
    return line + 1 if M == 1 else ((line - middle).abs() * (-1 / tau)).exp()


def window_gaussian(
    cls: type[Tensor],
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: Place = None,
) -> Tensor:
    """exp(-(k - middle)**2 / (2 * std**2)). M, sym, dtype and errors as in window_general_cosine.

    ValueError is raised for a std of 0 or less.
    """
    if std <= 0:
        raise ValueError(f"window_gaussian needs a std of more than 0, got {std}")
    line, last = _indices_of(cls, M, sym, dtype, device)
    return line + 1 if M == 1 else ((line - last / 2).square() * (-0.5 / std**2)).exp()


def window_kaiser(
    cls: type[Tensor],
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: Place = None,
) -> Tensor:
    """i0(beta * sqrt(1 - ((k - middle) / middle)**2)) / i0(beta). M, sym, dtype and errors as in window_general_cosine.

    ValueError is raised for a beta below 0.
    """
    if beta < 0:
        raise ValueError(f"window_kaiser needs a beta of at least 0, got {beta}")
    line, last = _indices_of(cls, M, sym, dtype, device)
    if M == 1:
        return line + 1
    wave = (1 - ((line * 2 - last) * (1 / last)).square()).clamp(0.0).sqrt() * beta
    top: Any = wave._const(beta)
    # i0 is e**x * i0e, whose parts do not overflow
    found: Tensor = wave.i0e() / top.i0e() * (wave - beta).exp()
    return found
