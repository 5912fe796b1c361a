"""Operators of ONNX: numbers as a few bits, with a scale and a zero point, and products of these."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.element_types import FLOAT, FLOAT4, UINT8, element_of, held_in
from tinygraft.onnx.op_casting import converted, limits
from tinygraft.onnx.op_conv import Ints, conv
from tinygraft.onnx.operator_table import NodeCall, operator
from tinygraft.tensor.tensor import Tensor


def _beside(scale: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Return a scale, or a zero point, so that it broadcasts with x.

    It is one number, or has one for each index of `axis`, or with a block_size one for each so many of them.
    """
    if not scale.ndim or (scale.ndim == 1 and scale.shape[0] == 1):
        return scale.reshape(())
    axis += x.ndim if axis < 0 else 0
    if block_size:
        return scale.repeat_interleave(block_size, dim=axis).shrink(
            [(0, x.shape[axis]) if i == axis else None for i in range(x.ndim)]
        )
    return scale.reshape(-1, *(1,) * (x.ndim - axis - 1))


@operator("QuantizeLinear")
def quantise_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1, node: NodeCall,
) -> Tensor:  # fmt: skip
    """Return round(x / scale) + zero point, halves to even, in an element type of few bits.

    That is the type of the zero point, or output_dtype, uint8 by default; what is outside it is its nearest value.
    """
    element = output_dtype or UINT8
    if zero_point is not None:
        element = node.types[2] or element_of(zero_point.dtype)
    wide = held_in(precision or FLOAT, "QuantizeLinear")
    found = x.cast(wide) / _beside(scale, x, axis, block_size).cast(wide)
    dtype = held_in(element, "QuantizeLinear")
    if dtype in dtypes.fp8s or element == FLOAT4:
        return converted(found.cast(dtypes.float32), element, bool(saturate))
    found = found.round()
    if zero_point is not None:
        found = found + _beside(zero_point, x, axis, block_size).cast(wide)
    low, high = limits(element, dtype)
    return found.clamp(low, high).cast(dtype)


@operator("DequantizeLinear")
def dequantise_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    """Return (x - zero point) * scale, of output_dtype or the dtype of scale."""
    dtype = held_in(output_dtype, "DequantizeLinear") if output_dtype else scale.dtype
    wide = dtypes.int32 if dtypes.is_int(x.dtype) else dtypes.float32
    found = x.cast(wide)
    if zero_point is not None:
        found = found - _beside(zero_point, x, axis, block_size).cast(wide)
    return (found.cast(dtypes.float32) * _beside(scale, x, axis, block_size).cast(dtypes.float32)).cast(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantise_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as bytes, with the scale and the zero point that its least and largest elements give."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    scale = (high - low) / 255
    safe = (scale == 0).where(1, scale)
    zero = (0 - low / safe).clamp(0, 255).round()
    return ((x / safe).round() + zero).clamp(0, 255).cast(dtypes.uint8), scale, zero.cast(dtypes.uint8)


def _whole(x: Tensor, zero_point: Tensor | None, rows: bool) -> Tensor:
    """Return integers without their zero points, as int32.

    A vector of zero points has one for each row where `rows`, else one for each column.
    """
    wide = x.cast(dtypes.int32)
    if zero_point is None:
        return wide
    zero = zero_point.cast(dtypes.int32)
    return wide - (zero.unsqueeze(-1) if rows and zero.ndim == 1 and zero.shape[0] != 1 else zero)


@operator("MatMulInteger")
def mat_mul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """The product of matrices of integers, from which zero points are subtracted."""
    return _whole(a, a_zero_point, True).matmul(_whole(b, b_zero_point, False))


def _requantised(found: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Return round(found * scale) + zero_point, within the limits of the zero point's dtype and in that dtype."""
    low, high = limits(element_of(zero_point.dtype), zero_point.dtype)
    whole = (found.cast(dtypes.float32) * scale.cast(dtypes.float32)).round() + zero_point.cast(dtypes.float32)
    return whole.clamp(low, high).cast(zero_point.dtype)


@operator("QLinearMatMul")
def qlinear_mat_mul(
    a: Tensor, a_scale: Tensor, a_zero_point: Tensor, b: Tensor, b_scale: Tensor, b_zero_point: Tensor,
    y_scale: Tensor, y_zero_point: Tensor,
) -> Tensor:  # fmt: skip
    """Return the product of matrices of few bits, of which each has a scale and a zero point, in those of y."""
    found = mat_mul_integer(a, b, a_zero_point, b_zero_point)
    rows = a_scale.unsqueeze(-1) if a_scale.ndim == 1 and a_scale.shape[0] != 1 else a_scale
    return _requantised(
        found, rows.cast(dtypes.float32) * b_scale.cast(dtypes.float32) / y_scale.cast(dtypes.float32), y_zero_point
    )


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero_point: Tensor, w: Tensor, w_scale: Tensor, w_zero_point: Tensor,
    y_scale: Tensor, y_zero_point: Tensor, b: Tensor | None = None, *, auto_pad: bytes = b"NOTSET",
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return a convolution of few bits, of which each operand has a scale and a zero point, in those of y.

    `b` are integers, added to the sums. The rest is that of `conv`.
    """
    zero = w_zero_point.cast(dtypes.int32)
    right = w.cast(dtypes.int32) - (zero.reshape(-1, *(1,) * (w.ndim - 1)) if zero.ndim else zero)
    bias = None if b is None else b.cast(dtypes.int32)
    options: dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "group": group, "pads": pads}
    found = conv(_whole(x, x_zero_point, False), right, bias, kernel_shape=kernel_shape, strides=strides, **options)
    factor = x_scale * w_scale / y_scale
    return _requantised(found, factor.reshape(-1, *(1,) * (x.ndim - 2)) if factor.ndim else factor, y_zero_point)
