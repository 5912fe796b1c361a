"""fp8: floats of eight bits, which no Target has: they are bytes in memory, and their casts are integer arithmetic.

In: the sink of a kernel graph after rules.narrow, in which fp8 values are only moved, and cast from and to float32.
Out: a sink without fp8 dtypes. The four formats are rows of dtype.FORMATS, so one decoder and one encoder are for all;
a number is rounded once, to nearest even, and no step needs a subnormal float32.
"""

from __future__ import annotations

import math

from tinygraft.dtype import FORMATS, DType, bits_of, dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort

INFINITY = 0x7F800000


def stored(dtype: DType) -> DType:
    """Return the dtype of memory of `dtype` in a kernel.

    >>> stored(dtypes.fp8e4m3), stored(dtypes.half)
    (dtypes.uchar, dtypes.half)
    """
    return dtypes.uint8 if dtype in dtypes.fp8s else dtype


def as_bytes(sink: UOp) -> UOp:
    """Return the kernel with bytes in place of fp8 numbers.

    Casts to and from float32 become integer arithmetic, and constants their bits.
    """
    done: dict[UOp, UOp] = {}
    for node in toposort(sink):
        src = tuple(done[s] for s in node.src)
        if node.op is Ops.CAST and node.dtype in dtypes.fp8s:
            done[node] = encode(src[0], node.dtype)
        elif node.op is Ops.CAST and node.src[0].dtype in dtypes.fp8s:
            done[node] = decode(src[0], node.src[0].dtype)
        elif node.op is Ops.CONST and node.dtype in dtypes.fp8s:
            done[node] = UOp(Ops.CONST, dtypes.uint8, src, bits_of(node.arg, node.dtype), node.tag)
        elif node.op is Ops.BITCAST and src[0].dtype is stored(node.dtype):
            done[node] = src[0]
        else:
            dtype = stored(node.dtype)
            same = src == node.src and dtype is node.dtype
            done[node] = node if same else UOp(node.op, dtype, src, node.arg, node.tag)
    return done[sink]


def decode(byte: UOp, dtype: DType) -> UOp:
    """Return the float32 of the value that an fp8 number with these bits has."""
    form = FORMATS[dtype]
    bits = byte.cast(dtypes.uint32)
    size = bits & 0x7F
    normal = (size << (23 - form.mantissa)) + ((127 - form.bias) << 23)
    if dtype is dtypes.fp8e5m2:
        normal = (size < 0x7C).where(normal, normal | INFINITY)
    elif dtype is dtypes.fp8e4m3:
        normal = size.eq(0x7F).where(normal.const_like(INFINITY | 1 << 22), normal)
    small = (size.cast(dtypes.float32) * 2.0 ** (1 - form.bias - form.mantissa)).bitcast(dtypes.uint32)
    found = (size < (1 << form.mantissa)).where(small, normal) | ((bits & 0x80) << 24)
    if form.unsigned_zero:
        found = bits.eq(0x80).where(found.const_like(INFINITY | 1 << 22), found)
    return found.bitcast(dtypes.float32)


def encode(x: UOp, dtype: DType) -> UOp:
    """Return the bits of the fp8 number nearest to a float32.

    It is rounded to nearest even. Beyond the largest number it is what FORMATS has as `beyond`; NaN stays NaN.
    """
    form = FORMATS[dtype]
    shift, least = 23 - form.mantissa, 1 - form.bias
    bits = x.bitcast(dtypes.uint32)
    size, sign = bits & 0x7FFFFFFF, (bits >> 24) & 0x80
    even = (size >> shift) & 1
    normal = (size - ((127 - form.bias) << 23) + ((1 << (shift - 1)) - 1) + even) >> shift
    unit = UOp.const(dtypes.float32, 2.0 ** (least - form.mantissa + 23))  # a sum with it is rounded at the last bit
    small = (size.bitcast(dtypes.float32) + unit).bitcast(dtypes.uint32) - bits_of(unit.arg, dtypes.float32)
    found = (size < ((least + 127) << 23)).where(small, normal)
    most = bits_of(form.largest, dtype)
    found = (found > most).where(found.const_like(bits_of(form.beyond, dtype)), found)
    found = (size > INFINITY).where(found.const_like(bits_of(math.nan, dtype)), found)
    if form.unsigned_zero:
        sign = found.eq(0).where(sign.const_like(0), sign)
    return (found | sign).cast(dtypes.uint8)
