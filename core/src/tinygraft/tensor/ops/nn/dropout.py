"""Dropout of channels, and the kind that keeps what SELU keeps.

A tensor in, one of its shape out. training None is whether Tensor.train says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid_like
from tinygraft.config import TRAINING
from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_FLOOR = -1.7580993408473766  # what SELU gives for -infinity: -alpha * gamma


def dropout(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """Each element kept with probability 1 - p and scaled by 1 / (1 - p), else 0; outside of training mode all as is.

    `training` None is whether Tensor.train says so. With p = 1 all are 0. Raises ValueError for a `p` outside of
    [0, 1]. Source: Srivastava et al., "Dropout", JMLR 15, 2014.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> with Tensor.train():
    ...     Tensor.ones(4).dropout(0.5).tolist()
    [2.0, 2.0, 2.0, 0.0]
    """
    return dropped(self, p, training, self.shape)


def is_dropping(self: Tensor, p: float, training: bool | None) -> bool:
    """Whether elements are dropped: with p above 0, in training. Raises ValueError for a `p` outside [0, 1]."""
    if not 0 <= as_number(p, "dropout", "p") <= 1:
        raise ValueError(f"dropout needs a probability from 0 to 1, got {p}")
    return p > 0 and is_training(self, training)


def dropped(self: Tensor, p: float, training: bool | None, shape: Shape) -> Tensor:
    """dropout with one draw for each element of `shape`, which broadcasts to that of `self`.

    Raises as `is_dropping` does.
    """
    if not is_dropping(self, p, training):
        return self._again()
    if p == 1:
        return self._op(Ops.WHERE, self._const(0), self._const(0)) if self.dtype is dtypes.bool else self._const(0)
    return keep_mask(self, p, shape)._op(Ops.WHERE, self, 0)._op(Ops.MUL, 1 / (1 - p))


def is_training(self: Tensor, training: bool | None) -> bool:
    """`training` if it is not None, else whether Tensor.train is active."""
    return bool(TRAINING.value if training is None else training)


def keep_mask(self: Tensor, p: float, shape: Shape) -> Tensor:
    """Bools of `shape`, each true with probability 1 - p, on the device of `self`; drawn once for all uses."""
    drawn = type(self).rand(shape, device=self.device, dtype=dtypes.default_float, contiguous=False)
    keep = drawn._op(Ops.CMPLT, p)._op(Ops.NOT)
    node = laid_like(keep.uop, self._parts()[0].uop) if shape == self.shape else keep.uop
    found = keep._wrap(UOp(Ops.CONTIGUOUS, dtypes.bool, (node,)))
    found._set_flag(False)  # so that what is chosen by it has the flag of self
    return found


def _of_channels(self: Tensor, what: str, spatial: int) -> tuple[Any, ...]:
    """The shape of one number for each channel of (..., channels, *spatial): the last `spatial` sizes are 1.

    Raises ShapeError, with the method's name `what`, for fewer axes.
    """
    if self.ndim < spatial + 1:
        raise ShapeError(
            f"{what} needs (..., channels, ...) with {spatial} spatial axes, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    return (*self.shape[: self.ndim - spatial], *(1,) * spatial)


def dropout1d(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """dropout of whole channels of (..., channels, length). Raises ShapeError for fewer axes."""
    return dropped(self, p, training, _of_channels(self, "dropout1d", 1))


def dropout2d(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """dropout of whole channels of (..., channels, height, width). Raises ShapeError for fewer axes.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> Tensor.ones(2, 1, 2).dropout2d(0.5, training=True).tolist()
    [[[2.0, 2.0]], [[2.0, 2.0]]]
    """
    return dropped(self, p, training, _of_channels(self, "dropout2d", 2))


def dropout3d(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """dropout of whole channels of (..., channels, depth, height, width). Raises ShapeError for fewer axes."""
    return dropped(self, p, training, _of_channels(self, "dropout3d", 3))


def _alpha_dropped(self: Tensor, p: float, training: bool | None, shape: Any) -> Tensor:
    """Drop by a mask of `shape` to the least value of SELU, scaled and shifted to keep mean and variance.

    Outside of training mode all as is. Raises as `is_dropping` does.
    """
    if not is_dropping(self, p, training):
        return self._again()
    if p == 1:
        return self * 0
    scale = float(((1 - p) * (1 + p * _FLOOR**2)) ** -0.5)
    chosen = keep_mask(self, p, shape).where(self, _FLOOR)
    return chosen * scale - scale * p * _FLOOR


def alpha_dropout(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """Each element set to the least value of SELU with probability p, then scaled and moved.

    Mean 0 and variance 1 stay so. Outside of training mode all as is; `training` None is whether Tensor.train says so.
    Raises ValueError for a `p` outside of [0, 1]. Source: Klambauer et al., "Self-normalizing neural networks",
    arXiv:1706.02515.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0]).alpha_dropout(0.5, training=False).tolist()
    [1.0, 2.0]
    """
    return _alpha_dropped(self, p, training, self.shape)


def feature_alpha_dropout(self: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """alpha_dropout of whole channels of (batch, channels, ...); outside of training mode all as is.

    `training` None is whether Tensor.train says so. Raises ValueError for a `p` outside of [0, 1], and where elements
    are dropped ShapeError for fewer axes.
    """
    if not is_dropping(self, p, training):
        return self._again()
    if self.ndim < 2:
        raise ShapeError(
            f"feature_alpha_dropout needs (batch, channels, ...), got shape {self.shape}\n  made at {self._where()}"
        )
    return _alpha_dropped(self, p, training, (*self.shape[:2], *(1,) * (self.ndim - 2)))
