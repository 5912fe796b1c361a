"""Operators of ONNX: Fourier transforms."""

from __future__ import annotations

from typing import Any

from tinygraft.errors import ShapeError
from tinygraft.onnx.operator_table import number, operator
from tinygraft.tensor.tensor import Tensor


def _complex(x: Tensor) -> Tensor:
    """Return (..., 1) of real parts or (..., 2) with imaginary ones as complex numbers (...).

    ShapeError for another size.
    """
    if x.shape[-1] not in (1, 2):
        raise ShapeError(f"a signal has 1 or 2 numbers an element along its last axis, got {x.shape}")
    real = x[..., 0]
    return real.complex(x[..., 1] if x.shape[-1] == 2 else real.zeros_like())


@operator("DFT", steers="dft_length axis")
def dft_17(x: Tensor, dft_length: Any = None, axis: Any = 1, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    """Return `dft` along an axis, which is an attribute."""
    return dft(x, dft_length, axis, inverse=inverse, onesided=onesided)


@operator("DFT", since=20, steers="dft_length axis")
def dft(x: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    """Return the Fourier transform of a signal (..., 1 or 2) along an axis: (..., 2); one side of it where onesided.

    dft_length cuts or pads the signal. The inverse of one side is real: (..., 1).
    """
    place, length = number(axis, -2), number(dft_length)
    place += x.ndim if place < 0 else 0
    if inverse and onesided:
        return _complex(x).irfft(length, dim=place).unsqueeze(-1)
    if onesided:
        return x[..., 0].rfft(length, dim=place).view_as_real()
    signal = _complex(x)
    return (signal.ifft(length, dim=place) if inverse else signal.fft(length, dim=place)).view_as_real()


@operator("STFT", steers="frame_step frame_length")
def stft(
    signal: Tensor, frame_step: Any, window: Tensor | None = None, frame_length: Any = None, *, onesided: int = 1
) -> Tensor:
    """Return the Fourier transforms of windows of a signal (batch, length, 1 or 2): (batch, frames, frequencies, 2).

    Raises ShapeError where there is neither a window nor a frame_length.
    """
    step = number(frame_step, None)
    length = number(frame_length, None if window is None else int(window.shape[0]))
    if length is None:
        raise ShapeError("STFT has neither a window nor a frame_length")
    frames = signal.unfold(1, length, step).transpose(2, 3)  # (batch, frames, length, parts)
    if window is not None:
        frames = frames * window.reshape(1, 1, -1, 1)
    return dft(frames, None, 2, onesided=int(bool(onesided) and signal.shape[-1] == 1))
