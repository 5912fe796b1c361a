"""What a tensor graph means, computed with numpy: a second opinion on values that shares no code with the compiler.

A node in, the array of its values out. BUFFERs are read from their devices. Written op by op from the table in
ARCHITECTURE.md; it walks iteratively, so that deep graphs work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import Ops, threefry2x32
from tinygraft.uop.uop import UOp, toposort

NAMES = {
    dtypes.bool: "bool", dtypes.int8: "int8", dtypes.uint8: "uint8", dtypes.int16: "int16", dtypes.uint16: "uint16",
    dtypes.int32: "int32", dtypes.uint32: "uint32", dtypes.int64: "int64", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.float32: "float32", dtypes.float64: "float64", dtypes.index: "int64",
}  # fmt: skip
ACCUMULATE = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.OR: np.bitwise_or,
              Ops.AND: np.bitwise_and, Ops.XOR: np.bitwise_xor}  # fmt: skip


def evaluate(root: UOp, variables: dict[str, int] | None = None) -> np.ndarray[Any, Any]:
    """The values of a node. bfloat16 is held as float32 that bfloat16 can hold."""
    found: dict[UOp, Any] = {}
    with np.errstate(all="ignore"):
        for node in toposort(root):
            found[node] = _value(node, found, variables or {})
    return np.asarray(found[root])


def _value(node: UOp, found: dict[UOp, Any], variables: dict[str, int]) -> Any:
    op, arg = node.op, node.arg
    src = [found[s] for s in node.src]
    if op is Ops.DEVICE:
        return arg
    if op is Ops.CONST:
        return _array(arg, node.dtype)
    if op is Ops.VARIABLE:
        return np.asarray(variables.get(arg.name, arg.low))
    if op is Ops.BIND:
        return np.asarray(arg)
    if op is Ops.BUFFER:
        return _read(node)
    if op is Ops.IOTA:
        return np.arange(_size(arg[0], found), dtype=NAMES[node.dtype])
    moved = _moved(op, src[0] if src else None, arg, found)
    if moved is not None:
        return moved
    if op is Ops.REDUCE_AXIS:
        ufunc = ACCUMULATE[arg.op]
        x = src[0]
        if 0 in [x.shape[a] for a in arg.axes]:
            from tinygraft.uop.ops import FACTS

            identity = FACTS[arg.op].identity
            shape = tuple(1 if i in arg.axes else n for i, n in enumerate(x.shape))
            return np.full(shape, identity(node.dtype) if identity else 0, x.dtype)
        return ufunc.reduce(x, axis=arg.axes, keepdims=True, dtype=x.dtype)
    if op is Ops.SCAN:
        return ACCUMULATE[arg.op].accumulate(src[0], axis=arg.axis, dtype=src[0].dtype)
    if op is Ops.CAT:
        return np.concatenate(src, axis=arg)
    if op is Ops.GATHER:
        return _gather(src[0], src[1].astype(np.int64), arg)
    if op is Ops.SCATTER:
        return _scatter(src[0], src[1].astype(np.int64), src[2], arg)
    if op is Ops.ASSIGN:
        return _assign(node, src, found)
    if op in (Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY):
        return src[0]
    return _array(_elementwise(node, src), node.dtype)


def _array(value: Any, dtype: DType) -> Any:
    if dtype is dtypes.bfloat16:
        return _round_bfloat16(np.asarray(value, np.float64))
    return np.asarray(value).astype(NAMES[dtype])


def _round_bfloat16(value: Any) -> Any:
    """Rounded once to 8 significant bits, ties to even."""
    _, exponent = np.frexp(value)
    shift = np.maximum(exponent, -125) - 8
    rounded = np.ldexp(np.rint(np.ldexp(value, -shift)), shift)
    rounded = np.where(np.abs(rounded) > 3.3895313892515355e38, np.copysign(np.inf, value), rounded)
    return np.where(np.isfinite(value), rounded, value).astype(np.float32)


def _read(node: UOp) -> Any:
    buffer = buffer_of(node)
    raw = bytearray(buffer.nbytes)
    buffer.copy_out(memoryview(raw))
    if node.dtype is dtypes.bfloat16:
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, NAMES[node.dtype])


def _size(size: Any, found: dict[UOp, Any]) -> int:
    return int(found[size]) if isinstance(size, UOp) else int(size)


def _moved(op: Ops, x: Any, arg: Any, found: dict[UOp, Any]) -> Any:
    """Movement ops, which are the same for values and for the places of values; None for other ops."""
    if op is Ops.RESHAPE:
        return x.reshape([_size(n, found) for n in arg])
    if op is Ops.EXPAND:
        return np.broadcast_to(x, [_size(n, found) for n in arg])
    if op is Ops.PERMUTE:
        return x.transpose(arg)
    if op is Ops.FLIP:
        return np.flip(x, arg)
    if op is Ops.PAD:
        return np.pad(x, [(_size(a, found), _size(b, found)) for a, b in arg])
    if op is Ops.SHRINK:
        return x[tuple(slice(_size(a, found), _size(b, found)) for a, b in arg)]
    if op is Ops.WINDOW:
        first = x.ndim - len(arg.length)
        windows = x
        for axis, (count, size, stride, dilation) in enumerate(
            zip(arg.count, arg.size, arg.stride, arg.dilation, strict=True)
        ):
            places = np.arange(count)[:, None] * stride + np.arange(size)[None, :] * dilation
            windows = np.moveaxis(np.take(windows, places, axis=first + axis), first + axis + 1, -1)
        return windows
    if op is Ops.FOLD:
        n = len(arg.length)
        lead = x.shape[: x.ndim - 2 * n]
        out = np.zeros((*lead, *arg.length), x.dtype)
        for outer in np.ndindex(*arg.count):
            for inner in np.ndindex(*arg.size):
                place = tuple(o * s + k * d for o, s, k, d in zip(outer, arg.stride, inner, arg.dilation, strict=True))
                out[(..., *place)] += x[(..., *outer, *inner)]
        return out
    return None


def _gather(x: Any, index: Any, axis: int) -> Any:
    inside = (index >= 0) & (index < x.shape[axis])
    if x.shape[axis] == 0:
        return np.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    taken = np.take(x, np.where(inside, index, 0), axis=axis)
    keep = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(keep, taken, np.zeros((), x.dtype))


def _scatter(base: Any, index: Any, value: Any, arg: Any) -> Any:
    out = base.copy()
    lead = (slice(None),) * arg.axis
    for place in np.ndindex(*index.shape):
        target = int(index[place])
        if not 0 <= target < base.shape[arg.axis]:
            continue
        new = value[(*lead, *place)]
        at = (*lead, target)
        out[at] = new if arg.op is None else ACCUMULATE[arg.op](out[at], new)
    return out


def _assign(node: UOp, src: list[Any], found: dict[UOp, Any]) -> Any:
    """The old value with the new one in its place, or in place of a view of it."""
    if len(src) == 2:
        return src[1]
    old = node.src[0]
    places: dict[UOp, Any] = {old: np.arange(src[0].size).reshape(src[0].shape)}
    for step in toposort(node.src[2], enter=lambda n: n is not old):
        if (
            step not in places
            and step.op not in (Ops.DEVICE, Ops.VARIABLE, Ops.BIND, Ops.CONST)
            and step.src[0] in places
        ):
            places[step] = _moved(step.op, places[step.src[0]], step.arg, found)
    out = src[0].flatten()
    out[places[node.src[2]].reshape(-1)] = src[1].reshape(-1)
    return out.reshape(src[0].shape)


def _shifted(left: bool, a: Any, b: Any) -> Any:
    width = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < width) if b.dtype.kind == "i" else b < width
    amount = np.where(inside, b, 0).astype(a.dtype)
    if left:
        return np.where(inside, np.left_shift(a, amount), 0)
    return np.where(inside, np.right_shift(a, amount), -(a < 0).astype(np.int8) if a.dtype.kind == "i" else 0)


def _divided(op: Ops, a: Any, b: Any) -> Any:
    """Floor division and remainder; by zero both give 0."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    least = (safe == -1) if a.dtype.kind == "i" else np.zeros(b.shape, bool)
    safe = np.where(least, 1, safe).astype(a.dtype)
    if op is Ops.IDIV:
        return np.where(b == 0, 0, np.where(least, np.negative(a), np.floor_divide(a, safe)))
    return np.where(b == 0, 0, np.where(least, 0, np.mod(a, safe)))


def _cast(a: Any, dtype: DType) -> Any:
    """Integers wrap; a float truncates and saturates, NaN gives 0."""
    if a.dtype.kind != "f" or dtype.kind not in ("int", "uint"):
        return (a != 0) if dtype is dtypes.bool else a
    flat = [0 if v != v else v for v in a.reshape(-1).tolist()]
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    whole = [low if v <= low else high if v >= high else int(v) for v in flat]
    return np.array(whole, dtype=NAMES[dtype]).reshape(a.shape)


def _bits(a: Any, source: DType, target: DType) -> Any:
    if source is dtypes.bfloat16:
        a = (np.ascontiguousarray(a).view(np.uint32) >> 16).astype(np.uint16)
    a = np.ascontiguousarray(a)
    if target is dtypes.bfloat16:
        return (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(a.shape)
    return a.view(NAMES[target]).reshape(a.shape)


def _fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once: by fractions where all are finite, else by whatever numpy makes of it."""
    from fractions import Fraction

    out = np.multiply(a, b) + c
    for place in np.ndindex(*out.shape):
        parts = [float(x[place]) for x in (a, b, c)]
        if np.isfinite(parts).all():
            x, y, z = map(Fraction, parts)
            exact = x * y + z
            if exact:
                out[place] = out.dtype.type(float(exact))
    return out


def _threefry(counter: Any, key: Any) -> Any:
    pairs = zip(counter.reshape(-1).tolist(), key.reshape(-1).tolist(), strict=True)
    return np.array([threefry2x32(c, k) for c, k in pairs], dtype=np.uint64).reshape(counter.shape)


def _elementwise(node: UOp, src: list[Any]) -> Any:
    op, a = node.op, src[0]
    b = src[1] if len(src) > 1 else None
    boolean = node.src[0].dtype is dtypes.bool
    match op:
        case Ops.CAST:
            return _cast(a, node.dtype)
        case Ops.BITCAST:
            return _bits(a, node.src[0].dtype, node.dtype)
        case Ops.NEG:
            return a if boolean else np.negative(a)
        case Ops.NOT:
            return np.invert(a)
        case Ops.RECIPROCAL:
            return 1 / a
        case Ops.SQRT:
            return np.sqrt(a)
        case Ops.EXP2:
            return np.exp2(a)
        case Ops.LOG2:
            return np.log2(a)
        case Ops.SIN:
            return np.sin(a)
        case Ops.TRUNC:
            return np.trunc(a)
        case Ops.ADD:
            return np.add(a, b)
        case Ops.SUB:
            return np.not_equal(a, b) if boolean else np.subtract(a, b)
        case Ops.MUL:
            return np.multiply(a, b)
        case Ops.FDIV:
            return np.divide(a, b)
        case Ops.IDIV | Ops.MOD:
            return _divided(op, a, b)
        case Ops.MAX:
            return np.maximum(a, b)
        case Ops.MIN:
            return np.minimum(a, b)
        case Ops.POW:
            return np.power(a, b)
        case Ops.CMPLT:
            return np.less(a, b)
        case Ops.CMPEQ:
            return np.equal(a, b)
        case Ops.CMPNE:
            return np.not_equal(a, b)
        case Ops.AND:
            return np.bitwise_and(a, b)
        case Ops.OR:
            return np.bitwise_or(a, b)
        case Ops.XOR:
            return np.bitwise_xor(a, b)
        case Ops.SHL | Ops.SHR:
            return _shifted(op is Ops.SHL, a, b)
        case Ops.THREEFRY:
            return _threefry(a, b)
        case Ops.WHERE:
            return np.where(a, b, src[2])
        case Ops.FMA:
            return _fused(a, b, src[2])
    raise NotImplementedError(f"graph_numpy does not know {op}")


def values(tensor: Any) -> np.ndarray[Any, Any]:
    """The values of a tensor by numpy, after its own device has been held to them; shape and dtype too.

    A sum may be grouped differently, so what cancels is as exact as the largest element only.
    """
    wanted = evaluate(tensor.uop)
    shape, dtype = tensor.shape, tensor.dtype
    found = tensor.numpy()
    assert found.shape == wanted.shape == shape
    assert found.dtype == wanted.dtype == np.dtype("float32" if dtype is dtypes.bfloat16 else NAMES[dtype])
    if dtype.kind == "float":
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7 + 5e-7 * largest)
    else:
        np.testing.assert_array_equal(found, wanted)
    return found
