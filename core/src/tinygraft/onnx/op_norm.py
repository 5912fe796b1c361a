"""Operators of ONNX: normalisations, and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.onnx.element_types import held_in
from tinygraft.onnx.operator_table import NodeCall, operator
from tinygraft.tensor.tensor import Tensor


def _channels(vector: Tensor, x: Tensor) -> Tensor:
    """Return a vector of one number for each channel as (channels, 1, ...), beside x (batch, channels, ...)."""
    return vector.reshape(-1, *(1,) * (x.ndim - 2))


@operator("BatchNormalization")
def batch_norm_1(
    x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5, momentum: float = 0.9,
    spatial: int = 1, is_test: int = 0, consumed_inputs: Any = None,
) -> Tensor:  # fmt: skip
    """Return x by the mean and variance of each channel, or of each element where `spatial` is 0; as in inference."""
    if not spatial:
        return (x - mean) * (var + epsilon).rsqrt() * scale + b
    found: Tensor = batch_norm(x, scale, b, mean, var, epsilon=epsilon, momentum=momentum)
    return found


@operator("BatchNormalization", since=9)
def batch_norm(
    x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:  # fmt: skip
    """Return x by the mean and variance of each channel; with training_mode those of x, and then also new ones.

    x is (batch, channels, ...), the others (channels,). A new one is the old one times momentum plus that of x times 1
    - momentum; the variance is over the number of elements.
    """
    if not training_mode:
        return _normal(x, _channels(mean, x), _channels(var, x), epsilon, _channels(scale, x), _channels(b, x))
    axes = (0, *range(2, x.ndim))
    own, spread = x.mean(axes), x.var(axes, correction=0)
    y = _normal(x, _channels(own, x), _channels(spread, x), epsilon, _channels(scale, x), _channels(b, x))
    return y, mean * momentum + own * (1 - momentum), var * momentum + spread * (1 - momentum)


def _normal(x: Tensor, mean: Tensor, var: Tensor, epsilon: float, scale: Tensor, bias: Tensor) -> Tensor:
    """Return (x - mean) / sqrt(var + epsilon) * scale + bias, in the dtype of x."""
    return ((x - mean) * (var + epsilon).rsqrt() * scale + bias).cast(x.dtype)


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5, consumed_inputs: Any = None) -> Tensor:
    """Return each channel of each sample by its own mean and variance, scaled and shifted.

    x is (batch, channels, ...), scale and b are (channels,).
    """
    axes = tuple(range(2, x.ndim))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    return _normal(x, mean, var, epsilon, _channels(scale, x), _channels(b, x))


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor, b: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x by its mean and variance over the axes from `axis` on; with the mean and 1 / deviation.

    The latter have size 1 there and the element type stash_type, in which they are computed.
    """
    wide = x.cast(held_in(stash_type, "LayerNormalization"))
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = wide.mean(axes, keepdim=True)
    inverse = ((wide - mean).square().mean(axes, keepdim=True) + epsilon).rsqrt()
    y = ((wide - mean) * inverse).cast(x.dtype) * scale
    return (y if b is None else y + b), mean, inverse


@operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    """Return x over the root of its mean square over the axes from `axis` on, times scale; computed in stash_type."""
    wide = x.cast(held_in(stash_type, "RMSNormalization"))
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (wide * (wide.square().mean(axes, keepdim=True) + epsilon).rsqrt()).cast(x.dtype) * scale


@operator("GroupNormalization")
def group_norm_18(x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5) -> Tensor:
    """Return `group_norm` with one scale and bias for each group."""
    each = int(x.shape[1]) // num_groups
    return group_norm(
        x, scale.repeat_interleave(each), bias.repeat_interleave(each), num_groups=num_groups, epsilon=epsilon
    )


@operator("GroupNormalization", since=21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Return groups of channels of x (batch, channels, ...) by their mean and variance; one scale a channel."""
    wide = x.cast(held_in(stash_type, "GroupNormalization")).reshape(x.shape[0], num_groups, -1)
    mean = wide.mean(-1, keepdim=True)
    inverse = ((wide - mean).square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return ((wide - mean) * inverse).cast(x.dtype).reshape(x.shape) * _channels(scale, x) + _channels(bias, x)


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Return (x - mean) / (deviation + 1e-9) along axes."""
    mean = x.mean(tuple(axes), keepdim=True)
    deviation = ((x * x).mean(tuple(axes), keepdim=True) - mean * mean).sqrt()
    return (x - mean) / (deviation + 1e-9)


@operator("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x over its norm along an axis; 0 where that is 0."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    return (norm == 0).where(0, x / norm)


@operator("LRN")
def local_response_norm(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """Return x / (bias + alpha / size * s) ** beta, where s is the sum of squares of `size` channels around each."""
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    around = x.square().pad(((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)))
    return x / (around.unfold(1, size, 1).sum(-1) * (alpha / size) + bias).pow(beta)


@operator("Dropout")
def dropout_1(x: Tensor, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: Any = None) -> tuple[Tensor, Tensor]:
    """x, as in inference, also where is_test is 0, which it is by default."""
    return x, x.full_like(1, dtype=dtypes.bool)


@operator("Dropout", since=12, steers="ratio training_mode")
def dropout(
    x: Tensor, ratio: float | None = None, training_mode: bool | None = None, *, seed: int | None = None,
    node: NodeCall,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return x, of which in training a share `ratio` is 0 and the rest is scaled; and bools, which elements are kept.

    With a seed they are the same at each call.
    """
    share = 0.5 if ratio is None else ratio
    if not training_mode or not share:
        return x, x.full_like(1, dtype=dtypes.bool)
    kept = uniform(x.shape, seed, x) >= share
    return kept.where(x / (1 - share), 0).cast(x.dtype), kept


def uniform(
    shape: Sequence[Any], seed: float | None, like: Tensor | None = None, dtype: DType = dtypes.float32
) -> Tensor:
    """Return random numbers from 0 to below 1 of `shape`, on the device of `like`.

    With a seed they are the same ones at each call, without one they are of Tensor's own generator.
    """
    device = None if like is None else like.device
    if seed is None:
        return Tensor.rand(*shape, device=device, dtype=dtype)
    count = 1
    for length in shape:
        count *= int(length)
    key = Tensor.full((max(count, 1),), int(seed) & (1 << 63) - 1, dtype=dtypes.uint64, device=device)
    mixed = Tensor.arange(max(count, 1), dtype=dtypes.uint64, device=device).threefry(key)
    return ((mixed >> 40).cast(dtypes.float32) / (1 << 24))[:count].reshape(*shape).cast(dtype)
