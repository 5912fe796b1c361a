"""Normalisation: values less their mean and over their standard deviation, along several choices of axes.

Tensors of shape (batch, channels, *spatial) in, or of any shape where a method says so; the same shape out. Half types
are computed in float32 and rounded once. eps is added to a variance before its root; as in PyTorch's functions it may
be any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes, part_of
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _last_axes(self: Tensor, what: str, shape: Any) -> tuple[int, ...]:
    """The last axes, which have `shape`, an int or a sequence.

    Raises ShapeError, for the method `what`, if they have not.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or self.shape[self.ndim - len(sizes) :] != sizes or len(sizes) > self.ndim:
        raise ShapeError(
            f"{what} over a shape of {sizes} needs an input that ends in it, got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    return tuple(range(self.ndim - len(sizes), self.ndim))


def _fitting(self: Tensor, what: str, name: str, value: Tensor | None, shape: Any) -> None:
    """Raise ShapeError for a weight or bias, `value` by `name`, of another shape than `shape`; None fits."""
    if value is not None and value.shape != tuple(shape):
        raise ShapeError(
            f"{what} needs a {name} of shape {tuple(shape)}, got {value.shape}\n  made at {value._where()}"
        )


def _affine(self: Tensor, weight: Tensor | None, bias: Tensor | None, like: Tensor) -> Tensor:
    """Times weight plus bias, either of which may be None, in the dtype of like."""
    x = self if weight is None else self * weight
    x = x if bias is None else x + bias
    return x._narrowed(like.dtype)


def layer_norm(
    self: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalised over the last axes, whose shape is given; then times weight plus bias, both of that shape.

    The variance is without correction. A float in this shape. Raises ShapeError where shapes do not fit.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 3.0]]).layer_norm(2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    axes = _last_axes(self, "layer_norm", normalized_shape)
    shape = self.shape[axes[0] :]
    _fitting(self, "layer_norm", "weight", weight, shape)
    _fitting(self, "layer_norm", "bias", bias, shape)
    return _affine(self._in_float().layernorm(axes, eps), weight, bias, self)


def rms_norm(
    self: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Over the root of the mean of the squares of the last axes, whose shape is given; then times weight of that shape.

    eps, which is added to the mean, is the smallest step of the dtype at 1 for None, as dtypes.finfo says. Raises
    ShapeError where shapes do not fit.

    >>> from tinygraft import Tensor
    >>> Tensor([[3.0, 3.0]]).rms_norm(2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    axes = _last_axes(self, "rms_norm", normalized_shape)
    _fitting(self, "rms_norm", "weight", weight, self.shape[axes[0] :])
    x = self._in_field()
    small = 2.0 ** -dtypes.finfo(part_of(x.dtype))[1] if eps is None else eps
    return _affine((x * (x.square().mean(axes, True) + small).rsqrt()), weight, None, self)


def _channels(self: Tensor, what: str, least: int = 2) -> int:
    """Return the number of channels, axis 1. Raises ShapeError, for the method `what`, for fewer than `least` axes."""
    if self.ndim < least:
        raise ShapeError(f"{what} needs (batch, channels, ...), got shape {self.shape}\n  made at {self._where()}")
    return size_math.as_int(self.shape[1], what)


def _per_channel(self: Tensor, value: Any) -> Any:
    """A number for each channel, (channels,), with axes beside those of this tensor; None stays."""
    return None if value is None else reshaped(value, (1, *value.shape, *(1,) * (self.ndim - 2)))


def group_norm(
    self: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Each sample normalised over groups of channels and all that follows; weight and bias are (channels,).

    Raises ShapeError for fewer than two axes, groups that do not divide the channels, and another number of weights.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0], [3.0]]]).group_norm(1, eps=0.0).tolist()
    [[[-1.0], [1.0]]]
    """
    count, num_groups = _channels(self, "group_norm"), size_math.as_integer(num_groups, "group_norm", "num_groups")
    if num_groups < 1 or count % num_groups:
        raise ShapeError(
            f"group_norm needs a number of groups that divides {count} channels, got {num_groups}\n"
            f"  made at {self._where()}"
        )
    _fitting(self, "group_norm", "weight", weight, (count,))
    _fitting(self, "group_norm", "bias", bias, (count,))
    if not size_math.product(self.shape):
        return _affine(self._again(), _per_channel(self, weight), _per_channel(self, bias), self)
    inner = size_math.product((count // num_groups, *self.shape[2:]))
    x = reshaped(self._in_float(), (self.shape[0], num_groups, inner)).layernorm(-1, eps)
    return _affine(reshaped(x, self.shape), _per_channel(self, weight), _per_channel(self, bias), self)


def instance_norm(
    self: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each sample normalised over the spatial axes; weight and bias are per channel, (channels,).

    Without use_input_stats the running statistics normalise; with it they are moved, in place, by momentum towards the
    mean over the samples, where both are given. Raises ShapeError for fewer than three axes, one value for each channel
    with use_input_stats, and statistics or weights of another shape, ValueError for missing statistics without it.

    >>> from tinygraft import Tensor
    >>> Tensor([[[1.0, 3.0]]]).instance_norm(eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    count = _channels(self, "instance_norm", 3)
    if not use_input_stats:
        return self.batch_norm(running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, self.ndim))
    if size_math.same(size_math.product(self.shape[2:]), 1):
        raise ShapeError(f"instance_norm needs more than 1 value for each channel, got shape {self.shape}")
    for name, given in (("weight", weight), ("bias", bias), ("mean", running_mean), ("variance", running_var)):
        _fitting(self, "instance_norm", name, given, (count,))
    x = self._in_float()
    if running_mean is not None and running_var is not None:
        # unbiased, as PyTorch's running variance; what is normalised by is the biased one
        means, variances = x.mean(axes).mean(0), x.var(axes, correction=1).mean(0)
        _move(running_mean, means, momentum)
        _move(running_var, variances, momentum)
    return _affine(x.layernorm(axes, eps), _per_channel(self, weight), _per_channel(self, bias), self)


def batch_norm(
    self: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float | None = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel normalised by running statistics, or with training by its own over batch and spatial axes.

    Then times weight plus bias, which are per channel, (channels,). With training the running statistics, where both
    are given and momentum is not None, are moved by momentum, in place; their variance has correction 1. Raises
    ShapeError for fewer than two axes, one value for each channel in training, and statistics or weights of another
    shape, ValueError for missing statistics without training.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0], [3.0]]).batch_norm(None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    count = _channels(self, "batch_norm")
    for name, given in (("weight", weight), ("bias", bias), ("mean", running_mean), ("variance", running_var)):
        _fitting(self, "batch_norm", name, given, (count,))
    if not training and (running_mean is None or running_var is None):
        raise ValueError("batch_norm needs running_mean and running_var, or training=True to take its own")
    x, axes = self._in_float(), (0, *range(2, self.ndim))
    if training:
        if size_math.same(size_math.product(self.shape[a] for a in axes), 1):
            raise ShapeError(f"batch_norm needs more than 1 value for each channel to train, got {self.shape}")
        if running_mean is not None and running_var is not None and momentum is not None:
            _move(running_mean, x.mean(axes), momentum)
            _move(running_var, x.var(axes, correction=1), momentum)
        x = x.layernorm(axes, eps)
    else:
        variance = _per_channel(self, running_var)._in_float()
        x = (x - _per_channel(self, running_mean)) * (variance + eps).rsqrt()
    return _affine(x, _per_channel(self, weight), _per_channel(self, bias), self)


def local_response_norm(self: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Over (k + alpha * the mean of the squares of size neighbouring channels)**beta; channels beyond count as 0.

    Raises ShapeError for fewer than three axes, ValueError for a size below 1. Source: Krizhevsky et al., "ImageNet
    classification with deep convolutional neural networks", NIPS 2012.

    >>> from tinygraft import Tensor
    >>> Tensor([[[2.0]]]).local_response_norm(1, alpha=1.0, beta=1.0, k=0.0).tolist()
    [[[0.5]]]
    """
    _channels(self, "local_response_norm", 3)
    if size < 1:
        raise ValueError(f"local_response_norm needs a size of at least 1, got {size}")
    x = self._in_float()
    if not size_math.product(self.shape):
        return self._again()
    sides = [(0, 0), (size // 2, (size - 1) // 2), *((0, 0),) * (self.ndim - 2)]
    squares = x.square().pad(sides).unfold(1, size, 1).mean(-1)
    return (x / (squares * alpha + k).pow(beta))._narrowed(self.dtype)


def _move(running: Any, value: Any, share: float) -> None:
    """Move a running statistic a `share` of the way towards a value, in its own memory and without a gradient."""
    # detached: no gradient flows through a statistic to earlier batches
    new = value.detach()._cast(running.dtype)
    running.assign(running.detach() * (1 - share) + new * share)
