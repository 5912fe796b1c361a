"""What a tensor graph means, computed with NumPy node by node: a second opinion that shares no code with the compiler.

    evaluate(node) -> its values
    Evaluation(roots, read, variables, others).run() -> {root: Value}

Written op by op from the table in docs/graph.md. It walks without recursion, and no node's values take the memory of
another's. Values that lie on several devices are whole here. A large product that is summed at once is never written
down.

An Evaluation also says how far rounding may move a value: beside the values whose every operation is rounded to
nearest it computes `others` further ones, in which each operation that cannot be exact is off by a random amount of
about a unit in the last place, and a sum by what its order may change (see noise.py). How far these lie apart is the
graph's own answer to how well its values are determined; what is exact is the same in all of them.
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
from tinygraft.engine.arithmetic import ACCUMULATE, CHANGED, NEAR, Array, elementwise, held, held_in, of_memory
from tinygraft.engine.noise import Noise
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.sizes import max_shape
from tinygraft.uop.uop import UOp, toposort

SAME = frozenset({Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY, Ops.SHARD, Ops.AFTER, Ops.FUNCTION})
VIEWS = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.WINDOW}) | SAME  # they copy nothing
MOVES = VIEWS | {Ops.PAD, Ops.CAT, Ops.GATHER, Ops.SCATTER, Ops.ASSIGN, Ops.MULTI, Ops.WHERE, Ops.NEG, Ops.BITCAST}
# assumed: never measured
AT_ONCE = 1 << 15  # elements from which a product is summed without being rounded and written down
SIZES = frozenset({Ops.DEVICE, Ops.CONST, Ops.VARIABLE, Ops.BIND})


class CannotEvaluate(Exception):
    """A graph that has no values here; the message is the reason, in a few words."""


@dataclass(slots=True)
class Value:
    """The values of a node: rounded to nearest, then those of the noisy runs; one array where all are equal.

    moved says that no arithmetic has made them, so that they are bits that were there before.
    """

    samples: tuple[Array, ...]
    moved: bool = False

    def of(self, run: int) -> Array:
        """The values in one of the runs."""
        return self.samples[run if len(self.samples) > 1 else 0]


@dataclass(slots=True)
class EvaluatedProduct:
    """A product that is summed next."""

    factors: list[Value]


def evaluate(root: UOp, variables: Mapping[str, int] | None = None) -> Array:
    """The values of a node, from what its BUFFERs hold now. bfloat16 and the fp8 types are held in float32."""
    return np.array(Evaluation((root,), read, variables or {}).run()[root].samples[0])


def read(node: UOp) -> Array:
    """What a BUFFER holds."""
    buffer = buffer_of(node)
    raw = bytearray(buffer.nbytes)
    buffer.copy_out(memoryview(raw))
    return of_memory(raw, node.dtype)


def needed(roots: Iterable[UOp]) -> list[UOp]:
    """What the values of roots are computed from, sources first: an assigned value needs nothing of the old one."""
    seen = set(roots)
    stack = list(seen)
    while stack:
        for source in sources_of(stack.pop()):
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=lambda node: node.serial)


def sources_of(node: UOp) -> tuple[UOp, ...]:
    """The sources whose values the values of a node are computed from."""
    if node.op is Ops.ASSIGN and len(node.src) == 2:
        return node.src[1:]
    return node.src[:1] if node.op in SAME else () if node.op is Ops.BUFFER else node.src


def summed_at_once(order: Sequence[UOp], roots: Iterable[UOp]) -> set[UOp]:
    """The products, large ones, that nothing but sums over them reads."""
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for source in sources_of(node):
            users.setdefault(source, []).append(node)
    wanted = set(roots)
    return {
        node for node in order
        if node.op is Ops.MUL and node.dtype.kind in ("float", "int", "uint") and node not in wanted
        and math.prod(max_shape(node.shape)) >= AT_ONCE
        and all(user.op is Ops.REDUCE_AXIS and user.arg.op is Ops.ADD for user in users[node])
    }  # fmt: skip


class Evaluation:
    """The values of some nodes. read gives those of a BUFFER, variables those of variables that are not bound."""

    def __init__(self, roots: Sequence[UOp], read: Callable[[UOp], Array] = read,
                 variables: Mapping[str, int] | None = None, others: int = 0) -> None:  # fmt: skip
        self.roots, self.read, self.variables, self.noise = roots, read, variables or {}, Noise(others)
        self.order = needed(roots)
        self.products = summed_at_once(self.order, roots)
        self.found: dict[UOp, Value | EvaluatedProduct] = {}

    def run(self) -> dict[UOp, Value]:
        """The value of each root. Raises CannotEvaluate where an op has no values."""
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
                    if not users[source] and source.dtype is not dtypes.index:
                        self.found.pop(source, None)
        return {root: self._of(root) for root in self.roots}

    def _of(self, node: UOp) -> Value:
        value = self.found[node]
        assert isinstance(value, Value)
        return value

    def _value(self, node: UOp) -> Value | EvaluatedProduct:
        """Return what `node` means, from the values of its sources, which have been evaluated before.

        Either one array, or one for each of the runs with noise. `moved` says that all that was done since memory or
        constants is movement, so that no rounding has happened. A large product that nothing
        but sums over it reads is left as its two factors.
        """
        op, arg = node.op, node.arg
        if op in SIZES:
            number = self.size(node) if op in (Ops.VARIABLE, Ops.BIND) else arg
            return Value((held(number, node.dtype),), moved=True)
        if op is Ops.BUFFER:
            return Value((self.read(node),), moved=True)
        if op is Ops.IOTA:
            return Value((np.arange(self.size(arg[0])).astype(held_in(node.dtype)),), moved=True)
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
        rounds = node.dtype.kind == "float" and op in CHANGED | NEAR
        if rounds and self.noise.others:
            return Value(self.noise.elementwise(node, [value.samples for value in src]))
        moved = op in MOVES and all(value.moved for value in src)
        runs = max(len(value.samples) for value in src)
        return Value(tuple([self._plain(node, [value.of(run) for value in src]) for run in range(runs)]), moved)

    def _plain(self, node: UOp, src: list[Array]) -> Array:
        """The values of a node that adds no error, from those of its sources."""
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
        if op is Ops.ASSIGN:
            return src[0] if len(src) == 1 else self._assigned(node, src)
        moved = self.moved(op, src[0], arg)
        if moved is None:
            raise CannotEvaluate(f"no meaning of {op.name} in NumPy")
        return moved

    def size(self, size: UOp | int) -> int:
        """A size as an int."""
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
        """The shape of a node, with the sizes that variables have."""
        return tuple([self.size(size) for size in node.shape])

    def moved(self, op: Ops, x: Array, arg: Any) -> Array | None:
        """Movement ops, which are the same for values and for the places of values; None for other ops."""
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
        """REDUCE_AXIS, SCAN and FOLD."""
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
                return Value((np.full(self.shape(node), held(first, node.dtype)),))
            combine = lambda x: ACCUMULATE[op].reduce(x, axis=arg.axes, keepdims=True, dtype=x.dtype)  # noqa: E731
        return Value(self.noise.combined(node.dtype, op, count, [value.samples], combine))

    def _scattered(self, node: UOp, src: list[Value]) -> Value:
        """SCATTER by an op: what lands on a place is combined with it."""
        arg = node.arg

        def combine(base: Array, index: Array, value: Array) -> Array:
            """Return `base` with `value` accumulated, by the op of the SCATTER, at `index` along its axis."""
            out = np.moveaxis(base.copy(), arg.axis, 0)
            places, new = _landing(index.astype(np.int64), value.astype(base.dtype), base.shape[arg.axis], arg.axis)
            ACCUMULATE[arg.op].at(out, places, new)
            return np.moveaxis(out, 0, arg.axis)

        count = src[1].samples[0].size + 1
        return Value(self.noise.combined(node.dtype, arg.op, count, [value.samples for value in src], combine))

    def _assigned(self, node: UOp, src: list[Array]) -> Array:
        """The old value with the new one in place of a view of it."""
        chain, view = [], node.src[2]
        while view is not node.src[0]:
            chain.append(view)
            view = view.src[0]
        places: Array = np.arange(src[0].size).reshape(src[0].shape)
        for step in reversed(chain):
            moved = places if step.op in SAME else self.moved(step.op, places, step.arg)
            if moved is None:
                raise CannotEvaluate(f"an assignment through {step.op}")
            places = moved
        out = src[0].flatten()
        out[places.reshape(-1)] = src[1].reshape(-1)
        return out.reshape(src[0].shape)


def work(order: Sequence[UOp], products: set[UOp]) -> tuple[int, int]:
    """(the elements of the largest array, those of all together) that evaluating would write."""
    sizes = [math.prod(max_shape(n.shape)) // (16 if n in products else 1) for n in order if n.op not in VIEWS | SIZES]
    return max(sizes, default=0), sum(sizes)


def _gather(x: Array, index: Array, axis: int) -> Array:
    """Elements of `x` along `axis` at `index`, 0 where that is outside; the axes of `index` replace `axis`."""
    inside = (index >= 0) & (index < x.shape[axis])
    if x.shape[axis] == 0:
        return np.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    taken = np.take(x, np.where(inside, index, 0), axis=axis)
    keep = inside.reshape((1,) * axis + inside.shape + (1,) * (x.ndim - axis - 1))
    return np.where(keep, taken, np.zeros((), x.dtype))


def _landing(index: Array, value: Array, length: int, axis: int) -> tuple[Array, Array]:
    """The places along an axis where a SCATTER lands, and what lands there, in order; the axis comes first in it."""
    new = np.moveaxis(value, tuple(range(axis, axis + index.ndim)), tuple(range(index.ndim)))
    new = new.reshape(index.size, *new.shape[index.ndim :])
    flat = index.reshape(-1)
    inside = (flat >= 0) & (flat < length)
    return flat[inside], new[inside]


def _set(base: Array, index: Array, value: Array, axis: int) -> Array:
    """SCATTER without an op: of what lands on one place the last one stays."""
    places, new = _landing(index, value, base.shape[axis], axis)
    last = np.full(base.shape[axis], -1)
    np.maximum.at(last, places, np.arange(len(places)))
    out = np.moveaxis(base.copy(), axis, 0)
    written = last >= 0
    out[written] = new[last[written]]
    return np.moveaxis(out, 0, axis)


def _fold(x: Array, arg: Any) -> Array:
    """FOLD: the sum of what lands on a place."""
    n = len(arg.length)
    out = np.zeros((*x.shape[: x.ndim - 2 * n], *arg.length), x.dtype)
    for inner in np.ndindex(*arg.size):
        places: list[Any] = [
            slice(k * d, k * d + s * (count - 1) + 1, s)
            for k, d, s, count in zip(inner, arg.dilation, arg.stride, arg.count, strict=True)
        ]
        out[(Ellipsis, *places)] += x[(Ellipsis, *[slice(None)] * n, *inner)]
    return out
