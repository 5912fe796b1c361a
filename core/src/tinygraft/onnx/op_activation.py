"""Operators of ONNX: activation functions."""

from __future__ import annotations

from typing import Any

from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor


@operator("Relu")
def relu(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """x where it is positive, 0 elsewhere."""
    return x.relu()


@operator("Sigmoid")
def sigmoid(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Tensor:
    """x where it is positive, alpha * x elsewhere."""
    return (x < 0).where(x * alpha, x)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """x where it is positive, slope * x elsewhere; before version 7 a slope may be one number a channel."""
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] not in (1, x.shape[-1]):
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    return (x < 0).where(x * slope, x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return x.elu(alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere."""
    return x.celu(alpha)


@operator("Selu")
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875,
    consumed_inputs: Any = None,
) -> Tensor:  # fmt: skip
    """Return gamma * x where x is positive, gamma * alpha * (exp(x) - 1) elsewhere."""
    return x.selu(alpha, gamma)


@operator("Selu", since=6)
def selu_6(x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Tensor:
    """Return gamma * x where x is positive, gamma * alpha * (exp(x) - 1) elsewhere."""
    return x.selu(alpha, gamma)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Tensor:
    """alpha * x + beta, between 0 and 1."""
    return (x * alpha + beta).clamp(0, 1)


@operator("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    """Return x * clamp(x / 6 + 0.5, 0, 1)."""
    return x * (x / 6 + 0.5).clamp(0, 1)


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return x.softplus()


@operator("Softsign")
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x.softsign()


@operator("Mish")
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return x.mish()


@operator("Gelu")
def gelu(x: Tensor, *, approximate: bytes = b"none") -> Tensor:
    """Return x times the share of a normal distribution below it; `approximate` is b"none" or b"tanh"."""
    return x.gelu(approximate=text(approximate))


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * (x * alpha).sigmoid()


@operator("SwiGLU")
def swiglu(a: Tensor, b: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return a * sigmoid(alpha * a) * b."""
    return a * (a * alpha).sigmoid() * b


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x where it is above alpha, 0 elsewhere."""
    return (x > alpha).where(x, 0)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Return x, moved by `bias` towards 0 where |x| is above `lambd`, and 0 elsewhere; in the dtype of x."""
    return (x < -lambd).where(x + bias, (x > lambd).where(x - bias, 0)).cast(x.dtype)


def _over_rows(x: Tensor, axis: int, method: str) -> Tensor:
    """A softmax as versions before 13 have it: over all axes from `axis` on, as one."""
    axis += x.ndim if axis < 0 else 0
    return getattr(x.flatten(axis) if axis < x.ndim else x.unsqueeze(-1), method)(-1).reshape(x.shape)  # type: ignore[no-any-return]


@operator("Softmax")
def softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return the softmax over all axes from `axis` on, as one: that of versions before 13."""
    return _over_rows(x, axis, "softmax")


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The softmax along an axis."""
    return x.softmax(axis)


@operator("LogSoftmax")
def log_softmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return the logarithm of the softmax over all axes from `axis` on, as one."""
    return _over_rows(x, axis, "log_softmax")


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of the softmax along an axis."""
    return x.log_softmax(axis)


@operator("Hardmax")
def hardmax_1(x: Tensor, *, axis: int = 1) -> Tensor:
    """1 at the first largest element over all axes from one on, 0 elsewhere."""
    axis += x.ndim if axis < 0 else 0
    return hardmax(x.flatten(axis)).reshape(x.shape)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first largest element along an axis, 0 elsewhere."""
    axis += x.ndim if axis < 0 else 0
    places = Tensor.arange(int(x.shape[axis]), device=x.device).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return (x.argmax(axis, keepdim=True) == places).cast(x.dtype)
