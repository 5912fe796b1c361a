"""Operators that ONNX Runtime's quantiser writes (domain com.microsoft): functions of numbers of a few bits.

Of each operand there are its bits, its scale and its zero point; a result is rounded to those of the output.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.element_types import UINT8, element_of
from tinygraft.onnx.op_casting import limits
from tinygraft.onnx.op_conv import Ints
from tinygraft.onnx.op_indexing import from_front, gather
from tinygraft.onnx.op_pool import average_pool
from tinygraft.onnx.op_quantise import (
    dequantise_linear,
    dynamic_quantise_linear,
    mat_mul_integer,
    quantise_linear,
)
from tinygraft.onnx.operator_table import MICROSOFT, NodeCall, operator
from tinygraft.tensor.tensor import Tensor

operator("QuantizeLinear", domain=MICROSOFT)(quantise_linear)
operator("DequantizeLinear", domain=MICROSOFT)(dequantise_linear)


def real(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Return (x - zero) * scale as float32, with one scale for all, or for each index of the last axis."""
    wide = x.cast(dtypes.int32)
    return (wide if zero is None else wide - zero.cast(dtypes.int32)).cast(dtypes.float32) * scale.cast(dtypes.float32)


def rounded(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """Return round(x / scale) + zero, within the limits of the zero point's dtype, or of `dtype` without one."""
    to = dtype if zero is None else zero.dtype
    low, high = limits(element_of(to), to)
    whole = (x / scale.cast(dtypes.float32)).round()
    return (whole if zero is None else whole + zero.cast(dtypes.float32)).clamp(low, high).cast(to)


@operator("QLinearAdd", domain=MICROSOFT)
def qlinear_add(
    a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor, b_zero: Tensor | None,
    scale: Tensor, zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a + b."""
    return rounded(real(a, a_scale, a_zero) + real(b, b_scale, b_zero), scale, zero, a.dtype)


@operator("QLinearMul", domain=MICROSOFT)
def qlinear_mul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor, b_zero: Tensor | None,
    scale: Tensor, zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a * b."""
    return rounded(real(a, a_scale, a_zero) * real(b, b_scale, b_zero), scale, zero, a.dtype)


@operator("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None
) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return rounded(real(x, x_scale, x_zero).sigmoid(), scale, zero, x.dtype)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None, *, alpha: float = 0.01
) -> Tensor:
    """Return x where it is positive, alpha * x elsewhere."""
    return rounded(real(x, x_scale, x_zero).leaky_relu(alpha), scale, zero, x.dtype)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None, *, axis: int = -1,
    opset: int = 13,
) -> Tensor:  # fmt: skip
    """Return the softmax along an axis; of an opset below 13 over all axes from that one on, as one."""
    found = real(x, x_scale, x_zero)
    axis += x.ndim if axis < 0 else 0
    found = found.softmax(axis) if opset >= 13 else found.flatten(axis).softmax(-1).reshape(x.shape)
    return rounded(found, scale, zero, x.dtype)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(scale: Tensor, zero: Tensor | None, *rest: Tensor | None, axis: int) -> Tensor:
    """Return tensors, each followed by its scale and its zero point, one after another along an axis."""
    parts: Any = [rest[i : i + 3] for i in range(0, len(rest), 3)]
    values = [real(*part) for part in parts]
    return rounded(values[0].cat(*values[1:], dim=axis), scale, zero, parts[0][0].dtype)


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    condition: Tensor, a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor,
    b_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a where a condition holds, b elsewhere."""
    return rounded(condition.where(real(a, a_scale, a_zero), real(b, b_scale, b_zero)), scale, zero, a.dtype)


@operator("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None, *,
    auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, channels_last: int = 0, count_include_pad: int = 0,
    kernel_shape: Ints, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean of each window of x, (batch, channels, ...), or (batch, ..., channels) with `channels_last`."""
    found = _channels_first(real(x, x_scale, x_zero), channels_last)
    found = average_pool(
        found, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    return _channels_back(rounded(found, scale, zero, x.dtype), channels_last)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, scale: Tensor, zero: Tensor | None = None, *,
    channels_last: int = 0,
) -> Tensor:  # fmt: skip
    """Return the mean of each channel of x, which are its second axis, or its last with `channels_last`."""
    axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
    return rounded(real(x, x_scale, x_zero).mean(axes, keepdim=True), scale, zero, x.dtype)


def _channels_first(x: Tensor, channels_last: int) -> Tensor:
    """Return x with its last axis as the second, where `channels_last`."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1)) if channels_last else x


def _channels_back(x: Tensor, channels_last: int) -> Tensor:
    """Undo `_channels_first`."""
    return x.permute(0, *range(2, x.ndim), 1) if channels_last else x


@operator("QGemm", domain=MICROSOFT)
def qgemm(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, c: Tensor | None = None,
    scale: Tensor | None = None, zero: Tensor | None = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """Return alpha * (a @ b + c), of which c are integers in the scale of the products; float32 without a `scale`.

    b has one scale, or one for each column of the product.
    """
    left, right = (a.transpose() if transA else a), (b.transpose() if transB else b)
    whole = mat_mul_integer(left, right, a_zero, b_zero)
    found = (whole if c is None else whole + c).cast(dtypes.float32) * (a_scale * b_scale * alpha)
    return found if scale is None else rounded(found, scale, zero, a.dtype)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def mat_mul_integer_to_float(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of matrices of integers as floats, plus a bias."""
    found = mat_mul_integer(a, b, a_zero, b_zero).cast(a_scale.dtype) * (a_scale * b_scale)
    return found if bias is None else found + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantise_mat_mul(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """Return a @ b plus a bias, with the floats of `a` as bytes in the scale that its least and largest give."""
    whole, scale, zero = dynamic_quantise_linear(a)
    return mat_mul_integer_to_float(whole, b, scale, b_scale, zero, b_zero, bias)


@operator("MatMulNBits", domain=MICROSOFT)
def mat_mul_nbits(
    a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None, g_idx: Tensor | None = None,
    bias: Tensor | None = None, *, K: int, N: int, bits: int = 4, block_size: int, accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    """Return a @ B.T plus a bias, with the N rows of K numbers of B in blocks of a few bits, low ones first.

    b is (N, blocks, bytes), `scales` have one number a block; zero points are packed like b, or floats, and are half
    of the range without. Raises UnsupportedError for bits other than 2, 4 and 8, and for a g_idx.
    """
    if bits not in (2, 4, 8) or g_idx is not None or weight_prepacked:
        raise UnsupportedError(
            f"MatMulNBits is computed of 2, 4 or 8 bits in the order of columns, got bits={bits} and "
            f"{'a' if g_idx is not None else 'no'} g_idx"
        )
    blocks = -(-K // block_size)
    numbers = unpacked(b.reshape(N, blocks, -1), bits)[:, :, :block_size].cast(dtypes.float32)
    middle: Any = float(1 << (bits - 1))
    if zeros is not None:
        each = zeros if zeros.dtype.kind == "float" else unpacked(zeros.reshape(N, -1), bits)[:, :blocks]
        middle = each.reshape(N, blocks, 1).cast(dtypes.float32)
    weights = (numbers - middle) * scales.reshape(N, blocks, 1).cast(dtypes.float32)
    found = a.matmul(weights.reshape(N, -1)[:, :K].transpose().cast(a.dtype))
    return found if bias is None else found + bias


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    data: Tensor, indices: Tensor, scales: Tensor, zeros: Tensor | None = None, *, bits: int = 4,
    block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1, node: NodeCall,
) -> Tensor:  # fmt: skip
    """Return what Gather does of numbers of few bits, which have a scale for each block of `quantize_axis`.

    Bytes hold several of `bits` bits along their last axis, low ones first; their zero points are packed alike, and are
    half of the range without. An index outside of its axis gives 0. Raises UnsupportedError for other bits.
    """
    packs = node.types[0] == UINT8
    if packs and bits not in (2, 4, 8):
        raise UnsupportedError(f"GatherBlockQuantized is computed of 2, 4 or 8 bits in a byte, got bits={bits}")
    across, along = gather_axis % data.ndim, quantize_axis % data.ndim
    places = from_front(indices, data.shape[across])
    there = (places >= 0) & (places < data.shape[across])
    places = there.where(places, 0)
    numbers = gather(data, places, axis=across)
    numbers = unpacked(numbers, bits) if packs else numbers
    behind = along + (indices.ndim - 1 if along > across else 0)  # the axis of blocks, which the indices' axes move

    def of_blocks(x: Tensor, packed: bool) -> Tensor:
        """Return what is given for each block, for each number that is read."""
        if across == along:
            return gather(x, places // block_size, axis=across).cast(dtypes.float32)
        each = x if x.shape[across] == 1 else gather(x, places, axis=across)
        each = unpacked(each, bits) if packed else each
        size = numbers.shape[behind]
        whole = each.repeat_interleave(block_size or int(size), dim=behind).cast(dtypes.float32)
        return whole.shrink_to(*[size if axis == behind else None for axis in range(whole.ndim)])

    half = float(1 << (bits - 1)) if packs else 0.0
    middle: Any = half if zeros is None else of_blocks(zeros, packs)
    found: Tensor = (numbers.cast(dtypes.float32) - middle) * of_blocks(scales, False)
    seen = there.reshape(*[1] * across, *there.shape, *[1] * (data.ndim - 1 - across))
    result: Tensor = seen.where(found, 0)
    return result.cast(scales.dtype)


def unpacked(x: Tensor, bits: int) -> Tensor:
    """Return the numbers of `bits` bits that bytes hold, low ones first, along the last axis."""
    parts = [(x >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return parts[0].stack(*parts[1:], dim=-1).flatten(-2) if len(parts) > 1 else x
