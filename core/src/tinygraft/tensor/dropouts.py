"""Dropout of channels, and the kind that keeps what SELU keeps.

A tensor in, one of its shape out. training None is whether Tensor.train says so.
"""

from __future__ import annotations

from typing import Any, Self

from tinygraft.errors import ShapeError
from tinygraft.tensor.operators import Operators

_FLOOR = -1.7580993408473766  # what SELU gives for -infinity: -alpha * gamma


class Dropouts(Operators):
    """Methods that drop at random."""

    __slots__ = ()

    def _of_channels(self, what: str, spatial: int) -> tuple[Any, ...]:
        """The shape of one number for each channel, which comes before the spatial axes."""
        if self.ndim < spatial + 1:
            raise ShapeError(
                f"{what} needs (..., channels, ...) with {spatial} spatial axes, got shape {self.shape}\n"
                f"  made at {self._where()}"
            )
        return (*self.shape[: self.ndim - spatial], *(1,) * spatial)

    def dropout1d(self, p: float = 0.5, training: bool | None = None) -> Self:
        """dropout of whole channels of (..., channels, length)."""
        return self._dropped(p, training, self._of_channels("dropout1d", 1))

    def dropout2d(self, p: float = 0.5, training: bool | None = None) -> Self:
        """dropout of whole channels of (..., channels, height, width).

        >>> from tinygraft import Tensor
        >>> Tensor.manual_seed(42)
        >>> Tensor.ones(2, 1, 2).dropout2d(0.5, training=True).tolist()
        [[[2.0, 2.0]], [[2.0, 2.0]]]
        """
        return self._dropped(p, training, self._of_channels("dropout2d", 2))

    def dropout3d(self, p: float = 0.5, training: bool | None = None) -> Self:
        """dropout of whole channels of (..., channels, depth, height, width)."""
        return self._dropped(p, training, self._of_channels("dropout3d", 3))

    def _alpha_dropped(self, p: float, training: bool | None, shape: Any) -> Self:
        if not self._drops(p, training):
            return self._again()
        if p == 1:
            return self * 0
        scale = float(((1 - p) * (1 + p * _FLOOR**2)) ** -0.5)
        chosen = self._kept(p, shape).where(self, _FLOOR)
        return chosen * scale - scale * p * _FLOOR

    def alpha_dropout(self, p: float = 0.5, training: bool | None = None) -> Self:
        """Each element set to the least value of SELU with probability p, then scaled and moved: mean 0 and variance 1
        stay so. Source: Klambauer et al., "Self-normalizing neural networks", arXiv:1706.02515.

        >>> from tinygraft import Tensor
        >>> Tensor([1.0, 2.0]).alpha_dropout(0.5, training=False).tolist()
        [1.0, 2.0]
        """
        return self._alpha_dropped(p, training, self.shape)

    def feature_alpha_dropout(self, p: float = 0.5, training: bool | None = None) -> Self:
        """alpha_dropout of whole channels of (batch, channels, ...)."""
        if not self._is_training(training):
            return self._again()
        if self.ndim < 2:
            raise ShapeError(
                f"feature_alpha_dropout needs (batch, channels, ...), got shape {self.shape}\n  made at {self._where()}"
            )
        return self._alpha_dropped(p, training, (*self.shape[:2], *(1,) * (self.ndim - 2)))
