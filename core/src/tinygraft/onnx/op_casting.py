"""Operators of ONNX: the same values, or the same bits, as another element type."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import FORMATS, DType, dtypes, to_dtype
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.element_types import E8M0, FLOAT4, HELD_IN, NARROW, STRING, element_of, held_in
from tinygraft.onnx.operator_table import NodeCall, operator, text
from tinygraft.tensor.tensor import Tensor

_ABOVE_ALL = {"fp8e4m3": 464.0, "fp8e5m2": 61440.0, "fp8e4m3fnuz": 248.0, "fp8e5m2fnuz": 61440.0}  # rounds to no value


@operator("Cast")
def cast_1(x: Tensor, *, to: bytes) -> Tensor:
    """x as another dtype, which has a name."""
    return x.cast(to_dtype(text(to).lower()))


@operator("Cast", since=6)
def cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: bytes = b"up") -> Tensor:
    """x as another element type; saturate=0 makes of what an 8-bit float does not have an infinity, or NaN."""
    return converted(x, to, bool(saturate), text(round_mode))


@operator("CastLike")
def cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: bytes = b"up", node: NodeCall) -> Tensor:
    """Return x as the element type of `like`; `saturate` and `round_mode` are those of `converted`."""
    element = node.types[1] or element_of(like.dtype)
    return converted(x, element, bool(saturate), text(round_mode))


def converted(x: Tensor, element: int, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """Return x as an element type of ONNX, in the dtype that holds it.

    `saturate` concerns 8-bit floats, `round_mode` ("up", "down", "nearest") powers of two. Raises UnsupportedError for
    text.
    """
    if element == STRING:
        raise UnsupportedError("Cast to text is not done: no tensor holds text")
    if element in NARROW:
        bits, signed = NARROW[element]
        return wrapped(x.cast(dtypes.int32), bits, signed)
    if element == FLOAT4:
        return to_float4(x)
    if element == E8M0:
        return to_e8m0(x, round_mode, saturate)
    dtype = held_in(element, "Cast")
    if dtype in dtypes.fp8s:
        return _to_fp8(x, dtype, saturate)
    return x.cast(dtype)


def wrapped(x: Tensor, bits: int, signed: bool) -> Tensor:
    """Return the lowest `bits` of integers, as int8 where they are signed, else uint8."""
    low = x & (1 << bits) - 1
    if not signed:
        return low.cast(dtypes.uint8)
    return (low >= 1 << bits - 1).where(low - (1 << bits), low).cast(dtypes.int8)


def _to_fp8(x: Tensor, dtype: DType, saturate: bool) -> Tensor:
    """x as an 8-bit float. Without saturation, what rounds to no value is an infinity, or NaN where there is none."""
    wide, largest = x.cast(dtypes.float32), FORMATS[dtype].largest
    if saturate:
        return wide.clamp(-largest, largest).cast(dtype)
    beyond = wide.abs() >= _ABOVE_ALL[dtype.name]
    if dtype is dtypes.fp8e5m2:
        code = (wide < 0).where(0xFC, 0x7C)
    else:
        code = (wide < 0).where(0xFF, 0x7F) if dtype is dtypes.fp8e4m3 else wide.full_like(0x80)
    inside = wide.clamp(-largest, largest).cast(dtype).bitcast(dtypes.uint8)
    return (beyond & ~wide.isnan()).where(code.cast(dtypes.uint8), inside).bitcast(dtype)


def to_float4(x: Tensor) -> Tensor:
    """The nearest value of float4e2m1, of two the one with an even mantissa; what is beyond 6 is 6, NaN is -0."""
    wide = x.cast(dtypes.float32)
    size = wide.abs()
    step = (size < 2).where(0.5, (size < 4).where(1.0, 2.0))
    near = ((size / step).round() * step).minimum(6.0)
    signed = (wide.bitcast(dtypes.int32) < 0).where(-near, near)
    return wide.isnan().where(-0.0, signed)


def to_e8m0(x: Tensor, round_mode: str, saturate: bool) -> Tensor:
    """A power of two near x: the next above it, below it, or the nearest; what has none is NaN."""
    wide = x.cast(dtypes.float32)
    bits = wide.bitcast(dtypes.uint32)
    exponent, mantissa = ((bits >> 23) & 0xFF).cast(dtypes.int32), (bits & 0x7FFFFF).cast(dtypes.int32)
    if round_mode == "up":
        more = (mantissa > 0) & ((exponent > 0) | (mantissa > 0x400000))
    elif round_mode == "nearest":
        more = mantissa >= 0x400000
    else:
        more = mantissa < 0
    found = exponent + more.cast(dtypes.int32)
    if saturate:
        found = found.minimum(254)
    special = wide.isnan() | wide.isinf() if not saturate else wide.isnan()
    value = (found == 0).where(1 << 22, found << 23).bitcast(dtypes.float32)
    return (special | (found >= 255)).where(float("nan"), value)


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    """Return the bits of x as another element type. Raises UnsupportedError for one that no tensor holds as it is."""
    if to not in HELD_IN or to in NARROW or to in (FLOAT4, E8M0):
        raise UnsupportedError(f"BitCast to the element type {to} is not done: no tensor holds its bits")
    dtype = held_in(to, "BitCast")
    if dtypes.bool in (x.dtype, dtype):  # a bool is 0 or 1, and has no bits of its own
        return x.cast(dtypes.uint8).bitcast(dtype) if x.dtype is dtypes.bool and dtype is not x.dtype else x.cast(dtype)
    return x.bitcast(dtype)


def limits(element: int, dtype: DType) -> tuple[Any, Any]:
    """The least and the largest value of an element type."""
    if element in NARROW:
        bits, signed = NARROW[element]
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if element == FLOAT4:
        return -6.0, 6.0
    return dtype.min, dtype.max
