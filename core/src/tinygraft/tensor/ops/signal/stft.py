"""Short-time Fourier transforms: a signal cut into overlapping pieces, each transformed, and put together again.

Real or complex signals in, complex spectra out, and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import part_of
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import sliced
from tinygraft.uop.ops import Ops, WindowArg

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _window_of(self: Tensor, what: str, n_fft: int, win_length: int | None, window: Any) -> Tensor:
    """A window of n_fft numbers: the one given, or ones, win_length of them, in the middle of zeros.

    win_length None is n_fft. Raises ShapeError for a window of another length, and lengths that do not fit.
    """
    count = n_fft if win_length is None else win_length
    if not 0 < count <= n_fft or (window is not None and window.shape != (count,)):
        raise ShapeError(
            f"{what} needs a window of {count} numbers, at least 1 and at most n_fft = {n_fft}, got "
            f"{None if window is None else window.shape}"
        )
    ones = type(self).ones(count, device=self.device, dtype=part_of(self._in_field().dtype), requires_grad=False)
    found: Tensor = ones if window is None else window
    left = (n_fft - count) // 2
    return found.pad(((left, n_fft - count - left),))


def stft(
    self: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:  # fmt: skip
    """The transforms of pieces of n_fft numbers, one at each hop_length (n_fft // 4); (..., frequencies, pieces).

    self is a signal (length,) or (batch, length). Each piece is multiplied by window, of win_length numbers (n_fft for
    None), in the middle of zeros; None is of ones. With center the signal is padded by n_fft // 2 on both sides, by
    pad's pad_mode, so that pieces are centred on their index. onesided (None is True for real signals) leaves the n_fft
    // 2 + 1 frequencies that determine the others; normalized divides by the root of n_fft; return_complex=False gives
    the parts along a last axis of 2. Raises ShapeError for other axes, a window of another length, a hop below 1 and a
    signal of less than n_fft numbers.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(8).stft(4, center=False).shape
    (3, 5)
    """
    n_fft = size_math.as_integer(n_fft, "stft", "n_fft")
    if self.ndim not in (1, 2):
        raise ShapeError(
            f"stft needs a signal of one axis or a batch of two, got {self.shape}\n  made at {self._where()}"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    weights = _window_of(self, "stft", n_fft, win_length, window)
    signal = self._in_field()
    if center:
        around = [(0, 0)] * (self.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        signal = signal.pad(tuple(around), mode=pad_mode)
    length = size_math.as_int(signal.shape[-1], "stft")
    if hop < 1 or length < n_fft:
        raise ShapeError(
            f"stft needs a hop of at least 1 and {n_fft} numbers, got {hop} and {length}\n  made at {self._where()}"
        )
    pieces = signal._move(Ops.WINDOW, WindowArg((length,), (n_fft,), (hop,), (1,)))
    norm = "ortho" if normalized else None
    weighted = pieces * weights
    both = weighted.is_complex() if onesided is None else not onesided
    found = weighted.fft(norm=norm) if both else weighted.rfft(norm=norm)
    whole: Any = found.transpose(-2, -1)
    return whole.view_as_real() if return_complex is False else whole  # type: ignore[no-any-return]


def istft(
    self: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal whose stft this is, (..., frequencies, pieces), as least squares have it.

    Arguments are those of stft. onesided None is True unless there are n_fft frequencies. The signal is cut or padded
    with zeros to length. It is real unless return_complex, which needs all frequencies. Raises ShapeError for other
    shapes, and for what is not complex.

    >>> from tinygraft import Tensor
    >>> signal = Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    >>> [round(x, 3) for x in signal.stft(4).istft(4).tolist()]
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    """
    all_there = self.ndim in (2, 3) and size_math.same(self.shape[-2], n_fft) and n_fft != n_fft // 2 + 1
    half = not all_there if onesided is None else onesided
    wanted = n_fft // 2 + 1 if half else n_fft
    if not self.is_complex() or self.ndim not in (2, 3) or not size_math.same(self.shape[-2], wanted):
        raise ShapeError(
            f"istft needs complex numbers of shape (..., {wanted}, pieces), got {self.dtype} and {self.shape}\n"
            f"  made at {self._where()}"
        )
    if return_complex and half:
        raise ShapeError(
            f"istft with return_complex needs all {n_fft} frequencies and no onesided, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    spectrum: Any = self.transpose(-2, -1)
    weights = _window_of(spectrum.real, "istft", n_fft, win_length, window)
    norm = "ortho" if normalized else None
    pieces = spectrum.ifft(norm=norm) if return_complex else spectrum.irfft(n_fft, norm=norm)
    count = size_math.as_int(pieces.shape[-2], "istft")
    total = n_fft + hop * (count - 1)
    arg = WindowArg((total,), (n_fft,), (hop,), (1,))
    added = (pieces * weights)._move(Ops.FOLD, arg)
    share = (weights * weights).expand(count, n_fft)._move(Ops.FOLD, arg)
    signal = added / share.eq(0.0).where(1.0, share)
    start = n_fft // 2 if center else 0
    end = total - n_fft // 2 if center and length is None else min(total, start + (length or total))
    found = sliced(signal, signal.ndim - 1, start, end)
    missing = 0 if length is None else length - (end - start)
    if missing > 0:
        found = found.pad(tuple([(0, 0)] * (found.ndim - 1) + [(0, missing)]))
    return found
