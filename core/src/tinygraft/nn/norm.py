"""Layers that normalise: BatchNorm, LayerNorm, LayerNorm2d, GroupNorm, InstanceNorm, RMSNorm.

Each is (x - mean) * rsqrt(var + eps) * weight + bias, over different axes. The reductions keep their axes, so
that the scheduler can put a normalisation into one kernel with its rows. ValueError for an eps below 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.nn.described import Described
from tinygraft.nn.parameter import filled
from tinygraft.tensor.primitives.size_math import as_integer, as_integers
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import own_rank


class BatchNorm(Described):
    """x (N, sz, ...) -> each channel with mean 0 and variance 1, times weight (sz,), plus bias (sz,).

    In training the mean and the (biased) variance are those of the batch, and running_mean and running_var
    move towards them by momentum, the variance unbiased; with momentum=None they are the mean of all batches.
    Otherwise the running ones are used, if track_running_stats. Half types are normalised in float32, and come out as
    they went in.

    With sync=True training measures the parts of the batch that all ranks have (nn.parallel), with their gradient, so
    that every rank normalises and tracks alike: each rank calls the layer, and backward, in the same order. x is then
    computed when the layer is called. It is an attribute, too, and changes nothing for one process or on a Mesh, where
    a batch is the whole one.

    Raises ShapeError when the channels of x do not fit, or when training has one value for each channel.
    Source: Ioffe & Szegedy, "Batch normalization", arXiv:1502.03167.

    >>> from tinygraft import Tensor, nn
    >>> norm = nn.BatchNorm(3)
    >>> with Tensor.train():
    ...     norm(Tensor.rand(4, 3, 8, 8)).shape
    (4, 3, 8, 8)
    """

    sz: int
    eps: float
    track_running_stats: bool
    momentum: float | None
    sync: bool
    weight: Tensor | None
    bias: Tensor | None
    _AXES: ClassVar[tuple[int, float, str]] = (
        2,
        math.inf,
        ", ...",
    )  # the fewest and the most, and how they are written

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float | None = 0.1,
        *,
        sync: bool = False,
    ) -> None:
        _check_eps("BatchNorm", eps)
        self.sync = bool(sync)
        self.sz, self.eps, self.track_running_stats, self.momentum = sz, eps, track_running_stats, momentum
        self.weight, self.bias = _affine((sz,), affine)
        if track_running_stats:
            self.num_batches_tracked: Tensor = filled((), 0, dtype=dtypes.int64, requires_grad=False)
            self.running_mean: Tensor = filled((sz,), 0, requires_grad=False)
            self.running_var: Tensor = filled((sz,), 1, requires_grad=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x normalised, of its shape. In training the running statistics are assigned too, lazily."""
        least, most, form = self._AXES
        if not least <= x.ndim <= most or x.shape[1] != self.sz:
            raise ShapeError(
                f"{type(self).__name__} of {self.sz} channels needs x (N, {self.sz}{form}), got shape {x.shape}\n"
                f"  made at {x._where()}{self._other_rank(x)}"
            )
        half = dtypes.is_float(x.dtype) and x.dtype.itemsize < 4
        wide = x.float() if half else x  # the variance of many halves would have lost its last places
        mean, var, count = self._stats(wide)
        if self.track_running_stats and Tensor.training:
            self._track(wide, count, mean.reshape(-1), var.reshape(-1))
        y = _scale_and_shift((wide - mean) * (var + self.eps).rsqrt(), self.weight, self.bias, mean.shape)
        return y.cast(x.dtype) if half else y

    def _other_rank(self, x: Tensor) -> str:
        """Return a hint where only the number of axes is wrong for this class, else ""."""
        if type(self) is BatchNorm or x.ndim < 2 or x.shape[1] != self.sz:
            return ""
        return "\n  hint: BatchNorm takes any number of axes from 2 on"

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (mean, biased variance) of each channel, both (sz,): the batch's in training, else running ones.

        Without running ones they are those of the batch always.
        """
        mean, var, _ = self._stats(x)
        return mean.reshape(-1), var.reshape(-1)

    def _stats(self, x: Tensor) -> tuple[Tensor, Tensor, int | Tensor]:
        """Return the mean and the variance with all axes of `x`, so that they broadcast with it, and of how many
        values of each channel they are.
        """
        count = x.numel() // self.sz
        if self.track_running_stats and not Tensor.training:
            shape = (1, self.sz, *(1,) * (x.ndim - 2))
            return self.running_mean.reshape(shape), self.running_var.reshape(shape), count
        if self.sync and Tensor.training and own_rank(x.device) is None:
            from tinygraft.nn.rank_stats import stats_of_ranks, world  # few programs have ranks

            if world().size > 1:
                return stats_of_ranks(x, self.sz)
        # two passes, since E[x**2] - mean**2 cancels where the mean is large; the biased variance, as PyTorch
        axes = (0, *range(2, x.ndim))
        mean = x.mean(axes, keepdim=True)
        centered = x - mean
        return mean, (centered * centered).mean(axes, keepdim=True), count

    def _track(self, x: Tensor, count: int | Tensor, mean: Tensor, var: Tensor) -> None:
        """Move the running statistics by `momentum` towards those of `count` values, the variance with Bessel's
        correction.

        As PyTorch's: what is normalised by is the biased variance. Raises ShapeError for one value in each channel.
        """
        if isinstance(count, int) and count < 2:
            raise ShapeError(
                f"BatchNorm in training needs more than one value for each channel, got shape {x.shape}\n"
                f"  made at {x._where()}\n  hint: a larger batch, or leave training mode"
            )
        # detached and assigned: the statistics are state, through which no gradient flows to an earlier batch
        add: float | Tensor
        if self.momentum is None:
            add = (self.num_batches_tracked + 1).cast(self.running_mean.dtype).reciprocal()
        else:
            add = self.momentum
        keep = 1 - add
        unbiased = var.detach() * (count / (count - 1))
        self.running_mean.assign(self.running_mean * keep + (mean.detach() * add).cast(self.running_mean.dtype))
        self.running_var.assign(self.running_var * keep + (unbiased * add).cast(self.running_var.dtype))
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)


class BatchNorm1d(BatchNorm):
    """BatchNorm of x (N, sz) or (N, sz, length). Raises ShapeError for another number of axes."""

    _AXES = (2, 3, "[, length]")


class BatchNorm2d(BatchNorm):
    """BatchNorm of images: x (N, sz, height, width). Raises ShapeError for another number of axes."""

    _AXES = (4, 4, ", height, width")


class BatchNorm3d(BatchNorm):
    """BatchNorm of volumes: x (N, sz, depth, height, width). Raises ShapeError for another number of axes."""

    _AXES = (5, 5, ", depth, height, width")


class LayerNorm(Described):
    """x (..., *normalized_shape) -> each last block with mean 0 and variance 1, times weight, plus bias.

    weight and bias have normalized_shape. Raises ShapeError when the end of x's shape is not
    normalized_shape. Source: Ba, Kiros & Hinton, "Layer normalization", arXiv:1607.06450.

    >>> from tinygraft import Tensor, nn
    >>> nn.LayerNorm(4)(Tensor.rand(2, 4)).shape
    (2, 4)
    """

    eps: float
    elementwise_affine: bool
    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True
    ) -> None:
        _check_eps(type(self).__name__, eps)
        self.normalized_shape: tuple[int, ...] = as_integers(normalized_shape, "normalized_shape")
        self.axis: tuple[int, ...] = tuple(range(-len(self.normalized_shape), 0))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight, self.bias = _affine(self.normalized_shape, elementwise_affine)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x normalised over its last axes, of its shape."""
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise ShapeError(
                f"LayerNorm of {self.normalized_shape} needs x (..., {', '.join(map(str, self.normalized_shape))}), "
                f"got shape {x.shape}\n"
                f"  made at {x._where()}"
            )
        return _scale_and_shift(x.layernorm(self.axis, self.eps), self.weight, self.bias, self.normalized_shape)


class LayerNorm2d(LayerNorm):
    """x (N, C, H, W) -> each pixel normalised over its channels. weight and bias are (C,)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x normalised over its channels, of its shape. Raises ShapeError unless it is (N, C, H, W)."""
        if x.ndim != 4 or (x.shape[1],) != self.normalized_shape:
            raise ShapeError(
                f"LayerNorm2d of {self.normalized_shape[0]} channels needs x (N, "
                f"{self.normalized_shape[0]}, H, W), got shape {x.shape}\n  made at {x._where()}"
            )
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class GroupNorm(Described):
    """x (N, num_channels, ...) -> each group of channels of each item with mean 0 and variance 1.

    weight and bias are (num_channels,). Raises ShapeError when the channels of x do not fit, or the groups do
    not divide them. Source: Wu & He, "Group normalization", arXiv:1803.08494.

    >>> from tinygraft import Tensor, nn
    >>> nn.GroupNorm(2, 6)(Tensor.rand(4, 6, 3)).shape
    (4, 6, 3)
    """

    num_groups: int
    num_channels: int
    eps: float
    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        _check_eps(type(self).__name__, eps)
        num_groups = as_integer(num_groups, "GroupNorm", "num_groups")
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight, self.bias = _affine((num_channels,), affine)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x normalised over each group of channels, of its shape.

        Raises ShapeError where channels do not fit.
        """
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(
                f"{type(self).__name__} of {self.num_channels} channels needs x (N, "
                f"{self.num_channels}, ...), got shape {x.shape}\n  made at {x._where()}"
            )
        y = x.reshape(x.shape[0], self.num_groups, -1).layernorm(-1, self.eps).reshape(x.shape)
        return _scale_and_shift(y, self.weight, self.bias, (1, self.num_channels, *(1,) * (x.ndim - 2)))


class InstanceNorm(GroupNorm):
    """x (N, num_features, ...) -> each channel of each item with mean 0 and variance 1, scaled and shifted.

    weight and bias are (num_features,), None without `affine`. Raises ShapeError when the channels of x do not fit.
    Source: Ulyanov et al., "Instance normalization", arXiv:1607.08022.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, num_features, eps, affine)


class RMSNorm(Described):
    """x (..., dim) -> x * rsqrt(mean(x*x) + eps) over the last axis, times weight (dim,).

    Half types are normalised in float32 and rounded; the result has the common dtype of x and weight. Raises ShapeError
    when the last axis of x is not dim. Source: Zhang & Sennrich, "Root mean square layer normalization",
    arXiv:1910.07467.

    >>> from tinygraft import Tensor, nn
    >>> nn.RMSNorm(2, eps=0)(Tensor([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """

    dim: int
    eps: float

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        _check_eps("RMSNorm", eps)
        self.dim, self.eps = dim, eps
        self.weight: Tensor | None = filled((dim,), 1) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """Return x normalised over its last axis, of its shape."""
        if not x.ndim or x.shape[-1] != self.dim:
            raise ShapeError(
                f"RMSNorm of {self.dim} needs that on the last axis, got {x.shape}\n  made at {x._where()}"
            )
        wide = x.float() if x.dtype.itemsize < 4 else x  # a square of float16 overflows from 256 on
        y = (wide * ((wide * wide).mean(-1, keepdim=True) + self.eps).rsqrt()).cast(x.dtype)
        return y if self.weight is None else y * self.weight


def _affine(shape: tuple[int, ...], wanted: bool) -> tuple[Tensor | None, Tensor | None]:
    """Return (weight of ones, bias of zeros), both None when not wanted."""
    return (filled(shape, 1), filled(shape, 0)) if wanted else (None, None)


def _scale_and_shift(y: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    """Return y * weight + bias, each reshaped to `shape`, which broadcasts with `y`; None leaves one out."""
    if weight is not None:
        y = y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _check_eps(what: str, eps: float) -> None:
    """Raise ValueError for a number below 0, or NaN, to be added to a variance: its root may be NaN."""
    if not eps >= 0:
        raise ValueError(f"{what} needs eps to be at least 0, got {eps}")
