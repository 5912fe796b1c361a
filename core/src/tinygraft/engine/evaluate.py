"""The values of a tensor graph, computed with NumPy node by node: a reference that shares no code with the compiler.

    evaluate(node) -> its values
    Evaluation(roots, read, variables, others).run() -> {root: Value}

It implements the table in docs/graph.md op by op. It walks without recursion and never writes into the array of
another node. Values that are sharded over several devices are whole here. A large product that is only summed is
contracted and never stored.

An Evaluation also says how far rounding may change a value: beside the values whose every operation is rounded to
nearest it computes `others` noisy runs, in which each inexact operation is off by a random amount of about an ulp,
and a sum by what its order may change (see noise.py). The differences between these runs say how well the graph
determines its values; what is exact is the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import dtypes
from tinygraft.engine.arithmetic import (
    ACCUMULATE,
    CHANGED,
    NEAR,
    Array,
    elementwise,
    numpy_array,
    numpy_name,
    of_memory,
)  # fmt: skip
from tinygraft.engine.noise import Noise
from tinygraft.engine.routine_values import routine_values
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.routines import COLLECTIVES, ROUTINES
from tinygraft.uop.sizes import max_shape
from tinygraft.uop.uop import UOp, toposort

SAME = frozenset({Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY, Ops.SHARD, Ops.AFTER, Ops.FUNCTION})
VIEWS = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.WINDOW}) | SAME  # NumPy views
MOVES = VIEWS | {Ops.PAD, Ops.CAT, Ops.GATHER, Ops.SCATTER, Ops.ASSIGN, Ops.MULTI, Ops.WHERE, Ops.NEG, Ops.BITCAST}
# assumed: never measured
CONTRACTED = 1 << 15  # elements from which a product that is only summed is not rounded and stored by itself
SIZES = frozenset({Ops.DEVICE, Ops.CONST, Ops.VARIABLE, Ops.BIND})


class CannotEvaluate(Exception):
    """A graph that cannot be evaluated with NumPy; the message is the reason, in a few words."""


@dataclass(slots=True)
class Value:
    """The values of a node: rounded to nearest, then those of the noisy runs; one array where all are equal.

    `moved` says that no arithmetic has made them: they are bits of memory or of constants, so that the sign of a zero
    is compared too.
    """

    samples: tuple[Array, ...]
    moved: bool = False

    def of(self, run: int) -> Array:
        """Return the values in run number `run`; 0 is the one that rounds to nearest."""
        return self.samples[run if len(self.samples) > 1 else 0]


@dataclass(slots=True)
class EvaluatedProduct:
    """A product whose only users sum it, as its two factors."""

    factors: list[Value]


def evaluate(root: UOp, variables: Mapping[str, int] | None = None) -> Array:
    """Return the values of `root` from the present contents of its BUFFERs; bfloat16 and the fp8 types as float32.

    `variables` has values for unbound variables by name. Raises CannotEvaluate where an op has no values.
    """
    return np.array(Evaluation((root,), read, variables or {}).run()[root].samples[0])


def read(node: UOp) -> Array:
    """Return the values that the memory of a BUFFER has now.

    They are a flat array, in the order of the memory.
    """
    buffer = buffer_of(node)
    raw = bytearray(buffer.nbytes)
    buffer.copy_out(memoryview(raw))
    return of_memory(raw, node.dtype)


def needed(roots: Iterable[UOp]) -> list[UOp]:
    """Return the nodes that the values of `roots` are computed from, these included, sources first.

    What only the old value of an assignment is computed from is not among them, where all of it is replaced.
    """
    seen = set(roots)
    stack = list(seen)
    while stack:
        for source in sources_of(stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=lambda node: node.serial)


def sources_of(node: UOp) -> tuple[UOp, ...]:
    """Return the sources whose values those of `node` are computed from; none for a BUFFER.

    Of an ASSIGN that replaces the whole of a value only the new one; of an op of SAME only the value, not the device.
    """
    if node.op is Ops.ASSIGN and len(node.src) == 2:
        return node.src[1:]
    return node.src[:1] if node.op in SAME else () if node.op is Ops.BUFFER else node.src


def contracted_products(order: Sequence[UOp], roots: Iterable[UOp]) -> set[UOp]:
    """Return the large products in `order` that are no root, and that only sums over them read.

    Large are CONTRACTED elements or more. Products of bools are not among them.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for source in sources_of(node):
            users.setdefault(source, []).append(node)
    wanted = set(roots)
    return {
        node for node in order
        if node.op is Ops.MUL and node.dtype.kind in ("float", "int", "uint") and node not in wanted
        and math.prod(max_shape(node.shape)) >= CONTRACTED
        and all(user.op is Ops.REDUCE_AXIS and user.arg.op is Ops.ADD for user in users[node])
    }  # fmt: skip


class Evaluation:
    """The evaluation of some nodes, `roots`.

    `read` returns the values of a BUFFER, `variables` has those of unbound variables by name, `others` is the number
    of noisy runs.
    """

    roots: Sequence[UOp]
    variables: Mapping[str, int]
    noise: Noise
    read: Callable[[UOp], Array]

    def __init__(self, roots: Sequence[UOp], read: Callable[[UOp], Array] = read,
                 variables: Mapping[str, int] | None = None, others: int = 0) -> None:  # fmt: skip
        self.roots, self.read, self.variables, self.noise = roots, read, variables or {}, Noise(others)
        self.order: list[UOp] = needed(roots)
        self.products: set[UOp] = contracted_products(self.order, roots)
        self.found: dict[UOp, Value | EvaluatedProduct] = {}

    def run(self) -> dict[UOp, Value]:
        """Return root -> its value. Called once: values that no node needs any more are dropped on the way.

        Raises CannotEvaluate where an op has no values.
        """
        users: dict[UOp, int] = dict.fromkeys(self.roots, 1)
        for node in self.order:
            for source in sources_of(node):
                users[source] = users.get(source, 0) + 1
        with np.errstate(all="ignore"):
            for node in self.order:
                if node.op is not Ops.DEVICE:
                    self.found[node] = self._value(node)
                for source in sources_of(node):
                    users[source] -= 1
                    if not users[source] and source.dtype is not dtypes.index:  # nothing reads its array any more
                        self.found.pop(source, None)
        return {root: self._of(root) for root in self.roots}

    def _of(self, node: UOp) -> Value:
        """Return the value of a node that has been evaluated; it is no EvaluatedProduct."""
        value = self.found[node]
        assert isinstance(value, Value)
        return value

    def _value(self, node: UOp) -> Value | EvaluatedProduct:
        """Return what `node` means, from the values of its sources, which have been evaluated before.

        Either one array, or one for each of the runs with noise. `moved` says that all that was done since memory or
        constants is movement, so that no rounding has happened. A large product that nothing but sums over it reads is
        left as its two factors. Raises CannotEvaluate for an op without values.
        """
        op, arg = node.op, node.arg
        if op in SIZES:
            number = self.size(node) if op in (Ops.VARIABLE, Ops.BIND) else arg
            return Value((numpy_array(number, node.dtype),), moved=True)
        if op is Ops.BUFFER:
            return Value((self.read(node),), moved=True)
        if op is Ops.IOTA:
            return Value((np.arange(self.size(arg[0])).astype(numpy_name(node.dtype)),), moved=True)
        if op in SAME:
            return self._of(node.src[0])
        if node in self.products:
            return EvaluatedProduct([self._of(source) for source in node.src])
        if op is Ops.REDUCE_AXIS or op is Ops.SCAN or op is Ops.FOLD:
            return self._combined(node)
        if op is Ops.PLACEHOLDER:
            raise CannotEvaluate(f"no meaning of {op.name} in NumPy")
        src = [self._of(source) for source in sources_of(node)]
        if op is Ops.SCATTER and arg.op is not None:
            return self._scattered(node, src)
        if op is Ops.ROUTINE and arg.routine in COLLECTIVES:
            raise CannotEvaluate("what other ranks compute")
        if op is Ops.ROUTINE and not ROUTINES[arg.routine].exact:
            kinds = [source.dtype for source in node.src]
            return Value(self.noise.routine([v.samples for v in src], kinds, lambda given: self._plain(node, given)))
        rounds = node.dtype.kind == "float" and op in CHANGED | NEAR
        if rounds and self.noise.others:
            return Value(self.noise.elementwise(node, [value.samples for value in src]))
        moved = op in MOVES and all(value.moved for value in src)
        runs = max(len(value.samples) for value in src)
        return Value(tuple([self._plain(node, [value.of(run) for value in src]) for run in range(runs)]), moved)

    def _plain(self, node: UOp, src: list[Array]) -> Array:
        """Return the values of `node` in one run, from those of its sources in that run, `src`, without added noise.

        Leaves, reductions and products are `_of`'s. May return one of `src`, or a view of it. Raises
        NotImplementedError for an elementwise op that NumPy lacks, CannotEvaluate for any other op without values.
        """
        op, arg = node.op, node.arg
        if op in ELEMENTWISE:
            return elementwise(node, src)
        if op is Ops.CAT:
            return np.concatenate(src, axis=arg)
        if op is Ops.MULTI:
            return src[0] if arg is None else np.concatenate(src, axis=arg)
        if op is Ops.GATHER:
            return _gather(src[0], src[1].astype(np.int64), arg)
        if op is Ops.SCATTER:
            return _set(src[0], src[1].astype(np.int64), src[2], arg.axis)
        if op is Ops.ROUTINE:
            found: Array = routine_values(arg.routine, src, arg.options)[arg.result]
            return found.astype(numpy_name(node.dtype))
        if op is Ops.ASSIGN:
            return src[0] if len(src) == 1 else self._assigned(node, src)
        moved = self.moved(op, src[0], arg)
        if moved is None:
            raise CannotEvaluate(f"no meaning of {op.name} in NumPy")
        return moved

    def size(self, size: UOp | int) -> int:
        """Return a size as an int; an unbound variable without a value counts as its least one."""
        if isinstance(size, int):
            return size
        done: dict[UOp, int] = {}
        for node in toposort(size, enter=lambda n: n.op is not Ops.BIND):
            if node.op is Ops.VARIABLE:
                done[node] = self.variables.get(node.arg.name, node.arg.low)
            elif node.op in (Ops.BIND, Ops.CONST):
                done[node] = int(node.arg)
            else:
                meaning = FACTS[node.op].python
                assert meaning is not None, f"{node.op} is no arithmetic on sizes"
                done[node] = int(meaning(*[done[source] for source in node.src]))
        return done[size]

    def shape(self, node: UOp) -> tuple[int, ...]:
        """Return the shape of `node` with its symbolic sizes evaluated."""
        return tuple([self.size(size) for size in node.shape])

    def moved(self, op: Ops, x: Array, arg: Any) -> Array | None:
        """Return `x`, values or indices of values, moved by a movement op with `arg`; None for other ops."""
        size = self.size
        if op is Ops.RESHAPE:
            return x.reshape([size(n) for n in arg])
        if op is Ops.EXPAND:
            return np.broadcast_to(x, [size(n) for n in arg])
        if op is Ops.PERMUTE:
            return x.transpose(arg)
        if op is Ops.FLIP:
            return np.flip(x, arg)
        if op is Ops.PAD:
            return np.pad(x, [(size(a), size(b)) for a, b in arg]) if arg else x
        if op is Ops.SHRINK:
            return x[tuple([slice(size(a), size(b)) for a, b in arg])]
        if op is Ops.WINDOW:
            spans = tuple([d * (k - 1) + 1 for k, d in zip(arg.size, arg.dilation, strict=True)])
            windows = sliding_window_view(x, spans, tuple(range(x.ndim - len(spans), x.ndim)))
            steps: list[Any] = [slice(None, None, step) for step in (*arg.stride, *arg.dilation)]
            return windows[(Ellipsis, *steps)]
        return None

    def _combined(self, node: UOp) -> Value:
        """Return the value of a REDUCE_AXIS, SCAN or FOLD.

        It has noisy runs where it rounds. A reduction of no elements is the identity of its op.
        """
        value, arg = self.found[node.src[0]], node.arg
        if isinstance(value, EvaluatedProduct):
            return Value(self.noise.contraction(node, [factor.samples for factor in value.factors]))
        shape = value.samples[0].shape
        combine: Callable[[Array], Array]
        if node.op is Ops.FOLD:
            op, count, combine = Ops.ADD, math.prod(arg.size), lambda x: _fold(x, arg)
        elif node.op is Ops.SCAN:
            op, count, combine = arg.op, shape[arg.axis], lambda x: ACCUMULATE[arg.op].accumulate(x, arg.axis, x.dtype)
        else:
            op, count = arg.op, math.prod([shape[axis] for axis in arg.axes])
            if not count:
                identity = FACTS[op].identity
                first = identity(node.dtype) if identity is not None else 0
                return Value((np.full(self.shape(node), numpy_array(first, node.dtype)),))
            combine = lambda x: ACCUMULATE[op].reduce(x, axis=arg.axes, keepdims=True, dtype=x.dtype)  # noqa: E731
        return Value(self.noise.combined(node.dtype, op, count, [value.samples], combine))

    def _scattered(self, node: UOp, src: list[Value]) -> Value:
        """Return the value of a SCATTER by an op: values are combined with the element at their index."""
        arg = node.arg

        def combine(base: Array, index: Array, value: Array) -> Array:
            """Return `base` with `value` accumulated, by the op of the SCATTER, at `index` along its axis."""
            out = np.moveaxis(base.copy(), arg.axis, 0)
            targets, new = _landing(index.astype(np.int64), value.astype(base.dtype), base.shape[arg.axis], arg.axis)
            ACCUMULATE[arg.op].at(out, targets, new)
            return np.moveaxis(out, 0, arg.axis)

        count = src[1].samples[0].size + 1
        return Value(self.noise.combined(node.dtype, arg.op, count, [value.samples for value in src], combine))

    def _assigned(self, node: UOp, src: list[Array]) -> Array:
        """Return the whole old value with its elements under a view replaced, in a new array.

        `node` is an ASSIGN with three sources, and `src` has their values: the old value, the new one in the shape of
        the view, the view. Raises CannotEvaluate where the view is not made by movements only.
        """
        chain, view = [], node.src[2]
        while view is not node.src[0]:
            chain.append(view)
            view = view.src[0]
        indices: Array = np.arange(src[0].size).reshape(src[0].shape)
        for step in reversed(chain):
            moved = indices if step.op in SAME else self.moved(step.op, indices, step.arg)
            if moved is None:
                raise CannotEvaluate(f"an assignment through {step.op}")
            indices = moved
        out = src[0].flatten()
        out[indices.reshape(-1)] = src[1].reshape(-1)
        return out.reshape(src[0].shape)


def work(order: Sequence[UOp], products: set[UOp]) -> tuple[int, int]:
    """Return (elements of the largest array, elements of all arrays) that evaluating `order` would write.

    `products` are those that are contracted, which counts as a sixteenth (assumed).
    """
    sizes = [math.prod(max_shape(n.shape)) // (16 if n in products else 1) for n in order if n.op not in VIEWS | SIZES]
    return max(sizes, default=0), sum(sizes)


def _gather(x: Array, index: Array, axis: int) -> Array:
    """Return elements of `x` along `axis` at `index`, 0 where that is outside; the axes of `index` replace `axis`."""
    inside = (index >= 0) & (index < x.shape[axis])
    if x.shape[axis] == 0:
        return np.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    found = np.take(x, np.where(inside, index, 0), axis=axis)
    gate = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(gate, found, np.zeros((), x.dtype))


def _landing(index: Array, value: Array, length: int, axis: int) -> tuple[Array, Array]:
    """Return the indices that a SCATTER writes to along `axis` of `length`, and the values for them, in order.

    That axis is the first of the values returned. Indices outside of it are omitted. `index` and `value` are the
    sources of the SCATTER.
    """
    new = np.moveaxis(value, tuple(range(axis, axis + index.ndim)), tuple(range(index.ndim)))
    new = new.reshape(index.size, *new.shape[index.ndim :])
    flat = index.reshape(-1)
    inside = (flat >= 0) & (flat < length)
    return flat[inside], new[inside]


def _set(base: Array, index: Array, value: Array, axis: int) -> Array:
    """Return `base` with `value` written at `index` along `axis`; of several values for one index the last counts."""
    targets, new = _landing(index, value, base.shape[axis], axis)
    last = np.full(base.shape[axis], -1)
    np.maximum.at(last, targets, np.arange(len(targets)))
    out = np.moveaxis(base.copy(), axis, 0)
    written = last >= 0
    out[written] = new[last[written]]
    return np.moveaxis(out, 0, axis)


def _fold(x: Array, arg: Any) -> Array:
    """Return the FOLD of `x`, by its WindowArg: each element is the sum of those that WINDOW would make of it."""
    n = len(arg.length)
    out = np.zeros((*x.shape[: x.ndim - 2 * n], *arg.length), x.dtype)
    for inner in np.ndindex(*arg.size):
        target: list[Any] = [
            slice(k * d, k * d + s * (count - 1) + 1, s)
            for k, d, s, count in zip(inner, arg.dilation, arg.stride, arg.count, strict=True)
        ]
        out[(Ellipsis, *target)] += x[(Ellipsis, *[slice(None)] * n, *inner)]
    return out
