"""Programs carried out by NumPy: what each read has to give, element by element with a bound on its error.

Every operation takes the operands as bounded `Value`s and the constants of its step, and raises `Uncertain` where the
result depends on rounding: the generator then tries something else. A tensor is indices into a flat memory, as
memory.py says; a `Value` is a copy of its elements, so what was computed keeps what it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bounded import Array, Uncertain, Value, approximate, checked, combined, grain, known, moved, rounded
from memory import Machine, View
from program import Step

Operation = Callable[..., Any]
INTS = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8}
STORED = {**INTS, "bool": np.bool_}


def leaf(arg: dict[str, Any]) -> Value:
    """A tensor made of numbers."""
    dtype = arg["dtype"]
    data = np.array(arg["data"], STORED.get(dtype, np.float64)).reshape(arg["shape"])
    return Value(dtype, data)


def _scalar(like: Value, number: Any) -> Value:
    return Value(like.dtype, np.array(number, like.data.dtype))


def _add(a: Value, b: Value, sign: int = 1) -> Value:
    if a.is_float:
        return rounded(a.dtype, a.data + sign * b.data, np.asarray(a.error) + b.error)
    if a.dtype == "bool":
        raise Uncertain("no sums of bools")
    return Value(a.dtype, a.data + b.data if sign > 0 else a.data - b.data)


def _mul(a: Value, b: Value) -> Value:
    if not a.is_float:
        return Value(a.dtype, a.data * b.data)
    ea, eb = np.asarray(a.error), np.asarray(b.error)
    return rounded(a.dtype, a.data * b.data, ea * np.abs(b.data) + eb * np.abs(a.data) + ea * eb)


def _div(a: Value, b: Value) -> Value:
    if not a.is_float or np.any(np.abs(b.data) < 2.0**-4):
        raise Uncertain("divides by little")
    if b.exact and np.all(np.frexp(np.abs(b.data))[0] == 0.5):
        return _mul(a, Value(b.dtype, 1 / b.data))
    result, low = a.data / b.data, np.abs(b.data) - b.error
    error = (np.asarray(a.error) + np.abs(result) * b.error) / low
    return approximate(a.dtype, result, error, 3)


def _extreme(pick: Operation) -> Operation:
    def run(a: Value, b: Value) -> Value:
        error = np.maximum(a.error, b.error) if a.is_float else 0.0
        data = pick(a.data, b.data)
        return Value(a.dtype, data, np.broadcast_to(error, data.shape) if np.any(error) else 0.0)

    return run


def _compare(pick: Operation) -> Operation:
    return lambda a, b: Value("bool", pick(known(a), known(b)))


def _bits(pick: Operation) -> Operation:
    def run(a: Value, b: Value) -> Value:
        if a.is_float:
            raise Uncertain("no bits of floats")
        return Value(a.dtype, pick(a.data, b.data))

    return run


def _where(c: Value, a: Value, b: Value) -> Value:
    data = np.where(known(c), a.data, b.data)
    error = 0.0 if a.exact and b.exact else np.where(c.data, np.asarray(a.error), np.asarray(b.error))
    return Value(a.dtype, data, np.broadcast_to(error, data.shape) if np.any(error) else 0.0)


def _function(f: Operation, slope: Operation, low: float, high: float, units: float = 8) -> Operation:
    def run(a: Value) -> Value:
        if not a.is_float or np.any(a.data < low) or np.any(a.data > high):
            raise Uncertain("outside of where the function is tried")
        return approximate(a.dtype, f(a.data), slope(a.data) * np.asarray(a.error), units)

    return run


FUNCTIONS: dict[str, Operation] = {
    "exp": _function(np.exp, np.exp, -4, 4),
    "log": _function(np.log, lambda x: 1.1 / x, 0.1, 64),
    "sin": _function(np.sin, lambda x: 1.0, -8, 8),
    "sqrt": _function(np.sqrt, lambda x: 0.6 / np.sqrt(x), 0.1, 4096, 2),
    "tanh": _function(np.tanh, lambda x: 1.0, -8, 8),
    "sigmoid": _function(lambda x: 1 / (1 + np.exp(-x)), lambda x: 0.25, -8, 8),
}


def _relu(a: Value) -> Value:
    return Value(a.dtype, np.maximum(a.data, 0).astype(a.data.dtype), a.error)


def _abs(a: Value) -> Value:
    return Value(a.dtype, np.abs(a.data), a.error)


def _neg(a: Value) -> Value:
    return Value(a.dtype, -a.data, a.error)


def _cast(a: Value, dtype: str) -> Value:
    if a.dtype == dtype:
        return a
    if dtype == "bool":
        return Value(dtype, known(a) != 0)
    if dtype in INTS:
        data = known(a)
        if a.is_float and np.any(np.abs(data) > 100):
            raise Uncertain("casts of large floats")
        if dtype == "uint8" and a.is_float and np.any(data < 0):
            raise Uncertain("casts of negative floats")
        return Value(dtype, np.trunc(data).astype(INTS[dtype]) if a.is_float else data.astype(INTS[dtype]))
    return rounded(dtype, a.data.astype(np.float64), a.error)


def _axes(arg: Any, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if arg is None else tuple(arg)


def _sum(a: Value, axes: Any, keep: bool) -> Value:
    which = _axes(axes, a.data.ndim)
    if not a.is_float:
        return Value(a.dtype, a.data.sum(which, keepdims=keep, dtype=a.data.dtype))
    count = int(np.prod([a.data.shape[i] for i in which], initial=1))
    error = np.broadcast_to(a.error, a.shape).sum(which, keepdims=keep)
    terms = np.abs(a.data).sum(which, keepdims=keep)
    return combined(a.dtype, a.data.sum(which, keepdims=keep), terms, error, count, grain(a.data))


def _mean(a: Value, axes: Any, keep: bool) -> Value:
    which = _axes(axes, a.data.ndim)
    count = int(np.prod([a.data.shape[i] for i in which], initial=1))
    total = _sum(a, axes, keep)
    return _div(total, _scalar(total, float(count)))


def _reduced(pick: str) -> Operation:
    def run(a: Value, axes: Any, keep: bool) -> Value:
        which = _axes(axes, a.data.ndim)
        error = np.broadcast_to(a.error, a.shape).max(which, keepdims=keep) if not a.exact else 0.0
        return Value(a.dtype, getattr(a.data, pick)(which, keepdims=keep), error)

    return run


def _cumsum(a: Value, axis: int) -> Value:
    if not a.is_float:
        return Value(a.dtype, a.data.cumsum(axis, dtype=a.data.dtype))
    error = np.broadcast_to(a.error, a.shape).cumsum(axis)
    terms = np.abs(a.data).cumsum(axis)
    return combined(a.dtype, a.data.cumsum(axis), terms, error, a.shape[axis], grain(a.data))


def _product(a: Value, b: Value, multiply: Operation, count: int) -> Value:
    """A sum of products of two tensors, as `multiply` makes it of arrays."""
    if not a.is_float:
        return Value(a.dtype, multiply(a.data, b.data))
    x, y = np.abs(a.data), np.abs(b.data)
    ea, eb = np.broadcast_to(a.error, a.shape), np.broadcast_to(b.error, b.shape)
    error = 0.0 if a.exact and b.exact else multiply(x, eb) + multiply(ea, y) + multiply(ea, eb)
    shift = grain(a.data) + grain(b.data)
    return combined(a.dtype, multiply(a.data, b.data), multiply(x, y), error, count, shift if shift < 99 else 99)


def _windows(x: Array, size: tuple[int, int], stride: int) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))[:, :, ::stride, ::stride]


def _conv2d(x: Value, w: Value, stride: int, padding: int) -> Value:
    def multiply(a: Array, b: Array) -> Array:
        padded = np.pad(a, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        return np.einsum("ncyxij,ocij->noyx", _windows(padded, b.shape[2:], stride), b)

    return _product(x, w, multiply, int(np.prod(w.shape[1:])))


def _pool(x: Value, size: int, most: bool) -> Value:
    cut = moved(x, lambda a: _windows(a, (size, size), size))
    return _reduced("max")(cut, (4, 5), False) if most else _mean(cut, (4, 5), False)


def _gather(a: Value, index: Value, axis: int) -> Value:
    where = known(index)
    near = tuple(slice(None) if n == axis else slice(size) for n, size in enumerate(where.shape))
    return moved(a, lambda x: np.take_along_axis(x[near], where, axis))


def _take(a: Value, index: Value, axis: int) -> Value:
    where = known(index)
    return moved(a, lambda x: np.take(x, where, axis))


def _scatter(a: Value, index: Value, src: Value, axis: int, add: bool) -> Value:
    """Elements of src put into a copy of a, or added there; the generator takes distinct indices where it matters."""
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = known(index)
    if not add and any(
        len(set(row)) < len(row) for row in np.moveaxis(index.data, axis, -1).reshape(-1, index.shape[axis]).tolist()
    ):
        raise Uncertain("two values for one element")

    def put(x: Array, y: Array) -> Array:
        new = x.copy()
        np.add.at(new, tuple(places), y) if add else new.__setitem__(tuple(places), y)
        return new

    data = put(a.data, src.data)
    if not a.is_float:
        return Value(a.dtype, data)
    error = put(np.broadcast_to(a.error, a.shape), np.broadcast_to(src.error, src.shape))
    if not add:
        return Value(a.dtype, data, error if error.any() else 0.0)
    shift = max(grain(a.data), grain(src.data))
    return combined(a.dtype, data, put(np.abs(a.data), np.abs(src.data)), error, src.shape[axis] + 1, shift)


def _distinct(a: Value, axis: int) -> None:
    ordered = np.sort(known(a), axis)
    if np.any(np.diff(ordered, axis=axis) == 0):
        raise Uncertain("ties")


def _sort(a: Value, axis: int, descending: bool) -> Value:
    ordered = np.sort(known(a), axis)
    return Value(a.dtype, np.flip(ordered, axis) if descending else ordered)


def _argsort(a: Value, axis: int, descending: bool) -> Value:
    if descending:
        _distinct(a, axis)
    order = np.argsort(known(a), axis, kind="stable")
    return Value("int32", (np.flip(order, axis) if descending else order).astype(np.int32))


def _topk(a: Value, count: int, axis: int, largest: bool) -> tuple[Value, Value]:
    _distinct(a, axis)
    order = np.argsort(known(a), axis)
    order = np.take(np.flip(order, axis) if largest else order, range(count), axis)
    return Value(a.dtype, np.take_along_axis(a.data, order, axis)), Value("int32", order.astype(np.int32))


def _triu(a: Value, low: bool) -> Value:
    return moved(a, np.tril if low else np.triu)


def _cat(*values: Value, axis: int) -> Value:
    error = 0.0
    if not all(v.exact for v in values):
        error = np.concatenate([np.broadcast_to(v.error, v.shape) for v in values], axis)
    return Value(values[0].dtype, np.concatenate([v.data for v in values], axis), error)


def _softmax(a: Value, axis: int) -> Value:
    _reduced("max")(a, (axis,), True)
    powers = np.exp(a.data - a.data.max(axis, keepdims=True))
    error = np.max(a.error)
    return approximate(a.dtype, powers / powers.sum(axis, keepdims=True), 2 * error, 24)


def _pad(a: Value, pads: Any, number: Any) -> Value:
    error = 0.0 if a.exact else np.pad(np.broadcast_to(a.error, a.shape), pads)
    return Value(a.dtype, np.pad(a.data, pads, constant_values=number), error)


BINARY: dict[str, Operation] = {
    "add": _add, "sub": lambda a, b: _add(a, b, -1), "mul": _mul, "div": _div,
    "maximum": _extreme(np.maximum), "minimum": _extreme(np.minimum),
    "less": _compare(np.less), "equal": _compare(np.equal), "at_most": _compare(np.less_equal),
    "and": _bits(np.bitwise_and), "or": _bits(np.bitwise_or), "xor": _bits(np.bitwise_xor),
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    **{name: lambda a, b, arg, f=f: f(a, b) for name, f in BINARY.items()},
    **{f"{name}_number": lambda a, arg, f=f: f(a, _scalar(a, arg)) for name, f in BINARY.items()},
    "floordiv_number": lambda a, arg: Value(a.dtype, a.data // _scalar(a, arg).data),
    "mod_number": lambda a, arg: Value(a.dtype, a.data % _scalar(a, arg).data),
    **{name: lambda a, arg, f=f: f(a) for name, f in FUNCTIONS.items()},
    "relu": lambda a, arg: _relu(a), "abs": lambda a, arg: _abs(a), "neg": lambda a, arg: _neg(a),
    "square": lambda a, arg: _mul(a, a), "not": lambda a, arg: Value("bool", ~a.data),
    "copy": lambda a, arg: a, "contiguous": lambda a, arg: a,
    "where": lambda c, a, b, arg: _where(c, a, b),
    "cast": _cast,
    "sum": lambda a, arg: _sum(a, *arg), "mean": lambda a, arg: _mean(a, *arg),
    "max": lambda a, arg: _reduced("max")(a, *arg), "min": lambda a, arg: _reduced("min")(a, *arg),
    "argmax": lambda a, arg: Value("int32", known(a).argmax(arg).astype(np.int32)),
    "cumsum": _cumsum, "softmax": _softmax,
    "pad": lambda a, arg: _pad(a, *arg), "roll": lambda a, arg: moved(a, lambda x: np.roll(x, *arg)),
    "repeat": lambda a, arg: moved(a, lambda x: np.tile(x, arg)),
    "triu": _triu, "cat": lambda *values: _cat(*values[:-1], axis=values[-1]),
    "matmul": lambda a, b, arg: _product(a, b, np.matmul, a.shape[-1]),
    "conv2d": lambda x, w, arg: _conv2d(x, w, *arg), "pool": lambda x, arg: _pool(x, *arg),
    "gather": _gather, "take": _take, "scatter": lambda a, i, s, arg: _scatter(a, i, s, *arg),
    "sort": lambda a, arg: _sort(a, *arg), "argsort": lambda a, arg: _argsort(a, *arg),
    "topk": lambda a, arg: _topk(a, *arg),
    # the first i rows, where i is a bound Variable
    "rows_sum": lambda a, arg: _sum(moved(a, lambda x: x[: arg[0]]), (0,), False),
    "rows_product": lambda a, b, arg: _product(
        *(moved(v, lambda x: x[: arg[0]]) for v in (a, b)), lambda x, y: (x * y).sum(0), arg[0]),
    "rows_scaled_max": lambda a, arg: _reduced("max")(
        _mul(moved(a, lambda x: x[: arg[0]]), _scalar(a, 2)), (0,), False),
}  # fmt: skip


class Flat:
    """A memory of the reference: the elements, and how far each of them may be off."""

    def __init__(self, value: Value) -> None:
        self.dtype, self.data = value.dtype, value.data.reshape(-1).copy()
        self.error = np.array(np.broadcast_to(value.error, value.shape), np.float64).reshape(-1)


class Reference(Machine):
    """The tensors of a program, whose values have bounds; a read gives a Value."""

    def fresh(self, value: Value, spread: bool) -> View:
        """A tensor with a memory of its own."""
        return View(Flat(checked(value)), np.arange(value.data.size).reshape(value.shape), spread)

    def value(self, view: View) -> Value:
        """A copy of the elements of a tensor."""
        error = view.memory.error[view.index]
        return Value(view.dtype, np.asarray(view.memory.data[view.index]), error if np.any(error) else 0.0)

    def put(self, target: View, value: Value) -> None:
        """Write elements and their bounds."""
        data = np.broadcast_to(checked(value).data, target.shape)
        target.memory.data[target.index], target.memory.error[target.index] = data, value.error

    def compute(self, op: str, values: list[Value], arg: Any) -> Any:
        """An operation of the table."""
        return OPERATIONS[op](*values, arg)

    def number(self, like: Value, number: float) -> Value:
        """A Python number, exactly."""
        return _scalar(like, number)

    def _do_leaf(self, step: Step) -> None:
        self.values[step.out[0]] = self.fresh(leaf(step.arg), "axis" in step.arg)

    def _do_read(self, step: Step) -> None:
        self.reads.append(self.value(self.values[step.ins[0]]))
