"""The elementwise ops, computed with NumPy on whole arrays, as docs/graph.md and dtype.coerce define them.

    numpy_array(values, dtype)     numbers as the array that represents a value of dtype
    elementwise(node, sources)     the values of an elementwise node, each operation rounded once

A value of dtype is an array of the NumPy type of that name; of bfloat16 and the fp8 types one of float32, which has all
of their numbers. Operations on floats of up to 32 bits are computed in float64 and rounded once to the dtype, which
gives what rounding the true result gives (53 bits are more than twice 24 and 2). It shares no code with the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tinygraft.dtype import FORMATS, DType, coerce, dtypes, values_of
from tinygraft.uop.meanings import THREEFRY_PARITY, THREEFRY_ROTATIONS
from tinygraft.uop.ops import APPROXIMATE, FACTS, REDUCIBLE, Ops
from tinygraft.uop.uop import UOp

Array = np.ndarray[Any, Any]
IN_FLOAT32 = (dtypes.bfloat16, *dtypes.fp8s)  # the dtypes that NumPy does not have
NAMES: dict[DType, str] = {
    dtypes.bool: "bool", dtypes.int8: "int8", dtypes.uint8: "uint8", dtypes.int16: "int16", dtypes.uint16: "uint16",
    dtypes.int32: "int32", dtypes.uint32: "uint32", dtypes.int64: "int64", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.float32: "float32", dtypes.float64: "float64", dtypes.index: "int64",
}  # fmt: skip
ACCUMULATE: dict[Ops, np.ufunc] = {op: getattr(np, FACTS[op].numpy) for op in REDUCIBLE}


def numpy_name(dtype: DType) -> str:
    """Return the name of the NumPy type that represents values of `dtype`."""
    return "float32" if dtype in IN_FLOAT32 else NAMES[dtype]


def numpy_array(value: Any, dtype: DType) -> Array:
    """Return numbers of Python or NumPy as an array that represents `dtype`: floats are rounded once, integers wrap."""
    if dtype.kind == "float":
        return rounded(np.asarray(value, np.float64), dtype)
    if isinstance(value, (bool, int, float)):
        value = coerce(value, dtype)
        return np.array(value, NAMES[dtype])
    number: Array = np.asarray(value).astype(NAMES[dtype])
    return number


def rounded(wide: Array, dtype: DType) -> Array:
    """Return numbers of a wider type rounded once to a float `dtype`, ties to even.

    Beyond its largest number they are infinite, or what FORMATS has as `beyond`; infinities and NaN stay.
    """
    if dtype not in IN_FLOAT32:
        return np.asarray(wide, NAMES[dtype])
    form = FORMATS[dtype]
    exponent = np.maximum(np.frexp(wide)[1] - 1, 1 - form.bias)  # subnormals have the unit of the least normal number
    unit = np.ldexp(1.0, exponent - form.mantissa)
    near = np.where(np.isfinite(wide), np.copysign(np.rint(wide / unit) * unit, wide), wide)
    near = np.where(np.abs(near) > form.largest, np.copysign(form.beyond, near), near)
    return np.asarray(near + 0.0 if form.unsigned_zero else near, np.float32)


def of_memory(raw: bytearray, dtype: DType) -> Array:
    """Return the flat array of the values whose bytes in the memory of a device are `raw`."""
    if dtype is dtypes.bfloat16:
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    if dtype in dtypes.fp8s:
        return np.array(values_of(dtype), np.float32)[np.frombuffer(raw, np.uint8)]
    if dtype is dtypes.bool:
        return np.not_equal(np.frombuffer(raw, np.uint8), 0)
    return np.frombuffer(raw, NAMES[dtype])


# Elementwise operations

CHANGED = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.RECIPROCAL, Ops.SQRT, Ops.FMA, Ops.CAST})
NEAR = APPROXIMATE  # a device computes them to an ulp or two, also where the result would be exact


def one_by_one(op: Ops) -> Callable[..., Any]:
    """Return the Python function of an op that NumPy lacks, applied to arrays element by element, as float64."""
    function = FACTS[op].python
    assert function is not None
    return np.vectorize(function, otypes=[np.float64])


def of_numpy(op: Ops) -> Callable[..., Any]:
    """Return the function of floats that `op` is: NumPy's, or Python's applied element by element."""
    name = FACTS[op].numpy
    return getattr(np, name) if name else one_by_one(op)


WIDE = {op: of_numpy(op) for op in (CHANGED | NEAR) - {Ops.CAST, Ops.FMA}}


def elementwise(node: UOp, src: list[Any]) -> Array:
    """Return the values of an elementwise `node` from those of its sources, `src`, as the array of its dtype.

    Raises NotImplementedError for an op that NumPy does not have.
    """
    op, dtype = node.op, node.dtype
    if dtype.kind == "float" and op in CHANGED | NEAR:
        return rounded(wide(node, src), dtype)
    return np.asarray(_plain(node, src)).astype(numpy_name(dtype), copy=False)


def wide(node: UOp, src: list[Any], longer: bool = False) -> Array:
    """Return the values of a float `node` before they are rounded: in float64, or with `longer` in longdouble.

    Those of a CAST or FMA are such that rounding them once more gives the right result; an FMA of float64 is rounded
    already.
    """
    if node.op is Ops.CAST:
        return _widened(src[0], node.src[0].dtype, node.dtype)
    if node.op is Ops.FMA and node.dtype is dtypes.float64:
        return _fused(*src)
    operands: list[Array] = [np.asarray(x).astype(np.longdouble if longer else np.float64, copy=False) for x in src]
    if node.op is Ops.FMA:
        return _to_odd(np.multiply(operands[0], operands[1]), operands[2])
    return np.asarray(WIDE[node.op](*operands))


def _plain(node: UOp, src: list[Any]) -> Any:
    """Return the values of an op that rounds nothing: of integers and bools, or one that chooses one of its sources.

    They are of the NumPy type that NumPy chose, which the caller converts. Raises NotImplementedError for an op without
    a NumPy function.
    """
    op, a = node.op, np.asarray(src[0])
    b = np.asarray(src[1]) if len(src) > 1 else a
    boolean = node.src[0].dtype is dtypes.bool
    match op:
        case Ops.CAST:
            return cast(a, node.src[0].dtype, node.dtype)
        case Ops.BITCAST:
            return _of_bits(_bits(a, node.src[0].dtype), node.dtype)
        case Ops.NEG if boolean:  # arithmetic of bools is modulo 2, which NumPy refuses
            return a
        case Ops.SUB if boolean:
            return np.not_equal(a, b)
        case Ops.IDIV | Ops.MOD:
            return _divided(op, a, b)
        case Ops.POW:
            return _power(a, b)
        case Ops.SHL | Ops.SHR:
            return _shifted(op is Ops.SHL, a, b)
        case Ops.THREEFRY:
            return threefry(a, b)
    if not FACTS[op].numpy:
        raise NotImplementedError(f"NumPy has no meaning for {op}")
    return getattr(np, FACTS[op].numpy)(a, b, *src[2:]) if len(src) > 1 else getattr(np, FACTS[op].numpy)(a)


def cast(a: Array, source: DType, target: DType) -> Array:
    """Return values of dtype `source` converted to `target`: integers wrap, floats are rounded once.

    A float to an integer is truncated and saturates, NaN gives 0; to a bool it is whether it is not 0.
    """
    if target.kind == "float":
        return rounded(_widened(a, source, target), target)
    if target is dtypes.bool:
        return np.not_equal(a, 0)
    if source.kind != "float":
        return a.astype(NAMES[target])
    low, high = dtypes.min(target), dtypes.max(target)
    number = np.trunc(np.where(np.isnan(a), 0, a).astype(np.float64))
    inside = (number > float(low)) & (number < float(high))
    found = np.where(inside, number, 0).astype(NAMES[target])
    found[number >= float(high)] = high
    found[number <= float(low)] = low
    return found


def _widened(a: Array, source: DType, target: DType) -> Array:
    """Return values as float64 that round to `target` as the values themselves do.

    Where a 64-bit integer has more than 53 bits, its last 11 are combined to a sticky bit, so that the second rounding
    sees on which side of a tie the integer was. `source` is the dtype of these.
    """
    if source.kind in ("int", "uint", "index") and source.itemsize == 8:
        if target in (dtypes.float32, dtypes.float64):
            return a.astype(NAMES[target]).astype(np.float64)
        size = np.where(a < 0, np.negative(a), a).astype(np.uint64)
        low = np.uint64(0x7FF)
        sticky = (size & ~low) | np.where(size & low, np.uint64(0x800), np.uint64(0))
        size = np.where(size >> np.uint64(53), sticky, size)
        return np.asarray(np.where(a < 0, -1.0, 1.0) * size.astype(np.float64))
    return a.astype(np.float64)


def _shifted(left: bool, a: Array, b: Array) -> Any:
    """Return `a` shifted by `b` bits, to the left or the right, also by amounts that NumPy leaves undefined.

    By those, below 0 and from the width on, a left shift gives 0, and a right one the sign, as 0 or -1: all other bits
    are shifted out.
    """
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width) if b.dtype.kind == "i" else b < width
    amount = np.where(inside, b, 0).astype(a.dtype)
    if left:
        return np.where(inside, np.left_shift(a, amount), 0)
    return np.where(inside, np.right_shift(a, amount), -(a < 0).astype(np.int8) if a.dtype.kind == "i" else 0)


def _divided(op: Ops, a: Array, b: Array) -> Any:
    """Return floor division (IDIV) of `a` by `b` or, for MOD, its remainder; by zero both give 0.

    The least integer by -1 wraps to itself, with remainder 0.
    """
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    # the least integer by -1 overflows, which NumPy warns of: it is negated instead, and wraps
    least = (safe == -1) if a.dtype.kind == "i" else np.zeros(b.shape, bool)
    safe = np.where(least, 1, safe).astype(a.dtype)
    if op is Ops.IDIV:
        return np.where(b == 0, 0, np.where(least, np.negative(a), np.floor_divide(a, safe)))
    return np.where(b == 0, 0, np.where(least, 0, np.mod(a, safe)))


def _power(a: Array, b: Array) -> Any:
    """Return integer powers, which wrap, or those of bools. A negative exponent gives 0, except for bases 1 and -1."""
    if a.dtype.kind == "b":
        return a | ~b
    result, base = np.ones(np.broadcast_shapes(a.shape, b.shape), a.dtype), a.copy()
    exponent = np.where(b < 0, np.zeros((), b.dtype), b).astype(np.uint64)
    while exponent.any():
        result = np.where(exponent & np.uint64(1), result * base, result).astype(a.dtype)
        base, exponent = base * base, exponent >> np.uint64(1)
    sign = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2, -1, 1), 0)) if a.dtype.kind == "i" else result
    return np.where(b < 0, sign, result)


def _bits(a: Array, dtype: DType) -> Array:
    """Return the bits of values of `dtype`, as unsigned integers of its width.

    Those of bfloat16 and the fp8 types come as float32 that have such values.
    """
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    if dtype is dtypes.bfloat16:
        return (a.view(np.uint32) >> 16).astype(np.uint16)
    if dtype in dtypes.fp8s:
        sizes = np.array(values_of(dtype)[:128])
        known = sizes[~np.isnan(sizes)]
        order = np.argsort(known)
        found = order[np.minimum(np.searchsorted(known[order], np.abs(a)), len(order) - 1)]
        nan = 0x80 if FORMATS[dtype].unsigned_zero else 0x7E if dtype is dtypes.fp8e5m2 else 0x7F
        signed = np.where(np.isnan(a), nan, found) | np.where(np.signbit(a), 0x80, 0)
        return signed.astype(np.uint8)
    return a.view(f"uint{dtype.bits}")


def _of_bits(bits: Array, dtype: DType) -> Array:
    """Return the values of `dtype` that have these bits."""
    if dtype is dtypes.bfloat16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype in dtypes.fp8s:
        return np.array(values_of(dtype), np.float32)[bits]
    return bits != 0 if dtype is dtypes.bool else bits.view(NAMES[dtype])


def _to_odd(product: Array, c: Array) -> Array:
    """Return product + c rounded to odd: an inexact sum has 1 as its last bit.

    Rounding that once more to a narrower float gives what rounding the exact sum gives (Boldo and Melquiond, 2005).
    """
    total = product + c
    with np.errstate(all="ignore"):
        back = total - product
        error = (product - (total - back)) + (c - back)  # exact, as Knuth's TwoSum says
        even = (total.view(np.int64) & 1) == 0
        towards = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(np.isfinite(total) & (error != 0) & even, towards, total)


def _fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c of float64 rounded once: by fractions where all three are finite, else as NumPy computes it."""
    out = np.asarray(np.multiply(a, b) + c)
    a, b, c = np.broadcast_arrays(a, b, c)
    for index in np.ndindex(*out.shape):
        x, y, z = float(a[index]), float(b[index]), float(c[index])
        if np.isfinite([x, y, z]).all():
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            if exact:  # the sign of a zero is that of NumPy's sum
                try:
                    out[index] = float(exact)
                except OverflowError:
                    out[index] = np.inf if exact > 0 else -np.inf
    return out


def threefry(counter: Array, key: Array) -> Array:
    """Return 64 random bits from counters and keys by Threefry 2x32 with 20 rounds (Salmon et al., SC 2011).

    Counters, keys and results are of uint64.
    """

    def halves(x: Array) -> list[Array]:
        """Return the lower and the upper 32 bits."""
        return [(x & np.uint64(0xFFFFFFFF)).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)]

    (x0, x1), (k0, k1) = halves(counter), halves(key)
    keys = (k1, k0 ^ k1 ^ np.uint32(THREEFRY_PARITY), k0)
    x0, x1 = x0 + keys[2], x1 + keys[0]
    for i in range(5):
        for rotation in THREEFRY_ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation)))
        x0, x1 = x0 + keys[i % 3], x1 + keys[(i + 1) % 3] + np.uint32(i + 1)
    return (x1.astype(np.uint64) << np.uint64(32)) | x0.astype(np.uint64)
