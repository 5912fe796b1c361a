"""Operators that ONNX Runtime's optimisers write for several others (domain com.microsoft): transformers above all.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.op_conv import Ints, conv
from tinygraft.onnx.op_microsoft import real
from tinygraft.onnx.op_norm import layer_norm, rms_norm
from tinygraft.onnx.operator_table import MICROSOFT, operator, text
from tinygraft.tensor.tensor import Tensor


@operator("FusedMatMul", domain=MICROSOFT)
def fused_mat_mul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    """Return alpha * a @ b, of which the last two axes may be swapped.

    Before that an operand with transBatch has its first axis moved to the last but one.
    """
    return _turned(a, transBatchA, transA).matmul(_turned(b, transBatchB, transB)) * alpha


def _turned(x: Tensor, batch: int, swap: int) -> Tensor:
    """Return x with its first axis as the last but one, where `batch`, and then its last two swapped, where `swap`."""
    if batch and x.ndim > 2:
        x = x.permute(*range(1, x.ndim - 1), 0, x.ndim - 1)
    return x.transpose(-1, -2) if swap and x.ndim > 1 else x


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, z: Tensor | None = None, *, activation: bytes = b"",
    activation_params: Any = (), auto_pad: bytes = b"NOTSET", dilations: Ints | None = None, group: int = 1,
    kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return activation(conv(x, w, b) + z). Raises UnsupportedError for an activation that is not known here."""
    found: Tensor = conv(
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return _activated(found if z is None else found + z, text(activation), activation_params)


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, activation: bytes = b"", activation_alpha: float = 0.01,
    activation_beta: float = 0.0, activation_gamma: float = 0.0, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """Return activation(alpha * a @ b + beta * c)."""
    found = fused_mat_mul(a, b, alpha=alpha, transA=transA, transB=transB)
    found = found if c is None else found + c * beta
    return _activated(found, text(activation), (activation_alpha, activation_beta))


def _activated(x: Tensor, name: str, params: Any) -> Tensor:
    """Return the activation of that name, with its numbers. Raises UnsupportedError for another name."""
    plain = {"": "clone", "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
    if name in plain:
        found: Tensor = getattr(x, plain[name])()
        return found
    if name == "LeakyRelu":
        sloped: Tensor = x.leaky_relu(float(params[0]))
        return sloped
    if name == "Clip":
        return x.clamp(float(params[0]), float(params[1]))
    if name == "HardSigmoid":
        return (x * float(params[0]) + float(params[1])).clamp(0, 1)
    raise UnsupportedError(f"the activation {name!r} of a fused operator is not known here")


@operator("Gelu", domain=MICROSOFT)
def gelu(x: Tensor) -> Tensor:
    """Return x times the share of a normal distribution below it."""
    return x.gelu(approximate="none")


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Return the gelu of x + bias."""
    return (x + bias).gelu(approximate="none")


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the gelu of x + bias as tanh approximates it."""
    return (x if bias is None else x + bias).gelu(approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """Return x * sigmoid(alpha * x)."""
    return x * (x * alpha).sigmoid()


@operator("SimplifiedLayerNormalization")
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Return x over the root of its mean square, times scale: RMSNormalization, as it was called before opset 23."""
    return rms_norm(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, beta: Tensor | None = None, bias: Tensor | None = None, *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the layer norm of x + skip + bias, its mean and 1 / deviation, and that sum."""
    total = x + skip if bias is None else x + skip + bias
    return *layer_norm(total, gamma, beta, epsilon=epsilon), total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    """Return the RMS norm of x + skip + bias, and that sum as the fourth."""
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, epsilon=epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None, gamma: Tensor,
    beta: Tensor, mask: Tensor | None = None, position_ids: Tensor | None = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the layer norm of the embeddings of words, positions and segments; how many tokens count; the sum."""
    total = words[ids] + (places[: ids.shape[1]] if position_ids is None else places[position_ids])
    if segments is not None and kinds is not None:
        total = total + kinds[segments]
    count = Tensor.zeros(ids.shape[0], dtype=dtypes.int32, device=ids.device)
    if mask is not None:
        count = (mask == 1).sum(1).cast(dtypes.int32)
    return layer_norm(total, gamma, beta, epsilon=epsilon)[0], count, total


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def quantised_embed_layer_norm(
    ids: Tensor, segments: Tensor | None, words: Tensor, places: Tensor, kinds: Tensor | None, gamma: Tensor,
    beta: Tensor, mask: Tensor | None, *numbers: Tensor, epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return what `embed_layer_norm` does, of tables of few bits: `numbers` are five scales, then five zero points."""
    tables = [words, places, kinds, gamma, beta]
    found: Any = [None if t is None else real(t, numbers[i], numbers[i + 5]) for i, t in enumerate(tables)]
    a, b, c, d, e = found
    return embed_layer_norm(ids, segments, a, b, c, d, e, mask, epsilon=epsilon)[:2]
