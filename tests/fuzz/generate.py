"""Random programs: each step is tried on the reference first, and kept when what it gives is certain.

`generate(seed, kind)` makes the same program for the same seed, always. Shapes and constants come from small pools, so
that kernels repeat and caches help. Kinds: "values" (everything that computes), "state" (writes, several of them
realised together), "jit" (TinyJit with changing arguments and state), "training" (gradients and optimizers, with
PyTorch as the reference), "shards" (several devices).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bounded import Uncertain
from program import Function, Program, Step
from run_numpy import REWRITES, Machine

KINDS = ("values", "state", "jit", "training", "shards")
SHAPES = ((4,), (3,), (2, 3), (4, 4), (3, 4), (2, 3, 4), (1,), (4, 1), ())
FLOATS = ("float32",) * 8 + ("float64", "float16", "bfloat16")
INTS = ("int32",) * 4 + ("int64", "int8", "uint8", "int16")
VIEWS = frozenset(("reshape", "permute", "flip", "expand", "index", "detach"))  # results share memory with their source
MOST = 128  # elements of a tensor
ALIKE = (
    ValueError,
    IndexError,
    TypeError,
    RuntimeError,
    KeyError,
    OverflowError,
)  # what a step that does not fit raises


def count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return int(np.prod(shape, initial=1))


class Draft:
    """A program in the making, beside the reference that has run what there is of it."""

    def __init__(self, rng: random.Random, kind: str, leave_out: frozenset[str] = frozenset()) -> None:
        self.rng, self.kind, self.leave_out = rng, kind, leave_out
        self.steps: list[Step] = []
        self.functions: list[Function] = []
        self.body: list[Step] | None = None  # of the function that is being made
        self.names = 0
        self.storage: dict[str, str] = {}  # which names share memory, were views to alias
        self.place: dict[str, int] = {}  # 1 for what lies on several devices
        self.fixed: set[str] = set()  # state of functions: never viewed from outside, never deleted
        self.real = "float32"  # the dtype of weights and data where gradients are asked for
        self.spread = False  # whether these lie on several devices
        self.number_of, self.most = "", 0  # what a function does with a bound Variable, and the values that has
        self.silent: set[str] = set()  # results of functions: read, but not computed with where gradients are asked for
        self.machine = self.new_machine()

    def new_machine(self) -> Any:
        """The reference, before the first step."""
        program = Program((), tuple(self.functions), self.kind)
        if self.kind == "training":
            from run_torch import Mirror

            return Mirror(program)
        return Machine(program)

    def again(self) -> None:
        """Run the reference anew, after it was led astray."""
        self.machine = self.new_machine()
        for step in self.steps:
            self.machine.do(step)

    def name(self) -> str:
        """A name that is not taken."""
        self.names += 1
        return f"t{self.names}"

    # What there is

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self.machine.values[name].shape)

    def dtype(self, name: str) -> str:
        """The dtype of a tensor."""
        value = self.machine.values[name]
        if self.kind == "training":
            return self.real if value.is_floating_point() else "int32" if value.dtype.itemsize > 1 else "bool"
        return str(value.dtype)

    def tensors(self, *kinds: str, ndim: int = 0) -> list[str]:
        """The tensors of some kinds of dtype, the latest last."""
        found = []
        for name, value in self.machine.values.items():
            if isinstance(value, tuple) or name in self.silent:
                continue
            dtype = self.dtype(name).rstrip("0123456789").replace("uint", "int").replace("bfloat", "float")
            if (not kinds or dtype in kinds) and len(value.shape) >= ndim:
                found.append(name)
        return found

    def pick(self, *kinds: str, ndim: int = 0) -> str:
        """A tensor, rather a late one."""
        found = self.tensors(*kinds, ndim=ndim)
        if not found:
            raise Uncertain("none there")
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def like(self, name: str, same_shape: bool = False) -> str:
        """Another operand of the same dtype and place that broadcasts with a tensor."""
        shape = self.shape(name)
        found = [
            n for n in self.tensors()
            if self.dtype(n) == self.dtype(name) and self.place.get(n, 0) == self.place.get(name, 0)
            and (self.shape(n) == shape or (not same_shape and _broadcasts(self.shape(n), shape)))
        ]  # fmt: skip
        return self.rng.choice(found)

    def writable(self) -> list[str]:
        """Tensors that no other living one may share memory with: views that are written through come with issue 11."""
        living = [self.storage.get(n, n) for n in self.machine.values]
        return [n for n in self.tensors() if living.count(self.storage.get(n, n)) == 1 and self.dtype(n) != "bool"]

    # What is added

    def add(self, op: str, ins: Sequence[str] = (), arg: Any = None, outs: int = 1) -> tuple[str, ...]:
        """Try a step on the reference and keep it. Raises Uncertain when it does not fit."""
        if op in self.leave_out:
            raise Uncertain("left out")
        if len({self.place.get(n, 0) for n in ins}) > 1:
            raise Uncertain("on different devices")
        step = Step(op, tuple(self.name() for _ in range(outs)), tuple(ins), arg)
        if op in VIEWS and any(n in self.fixed for n in ins):
            raise Uncertain("a view of state")
        try:
            with np.errstate(all="ignore"):
                self.machine.do(step)
        except ALIKE as error:
            raise Uncertain(str(error)) from error
        if any(
            count(self.shape(n)) > MOST or 0 in self.shape(n)
            for n in step.out
            if n in self.machine.values and not isinstance(self.machine.values[n], tuple)
        ):
            for n in step.out:
                del self.machine.values[n]
            raise Uncertain("too many elements")
        for n in step.out:
            self.place[n] = {"shard": 1, "unshard": 0}.get(op, self.place.get(ins[0], 0) if ins else 0)
            if op in VIEWS:
                self.storage[n] = self.storage.get(ins[0], ins[0])
        (self.steps if self.body is None else self.body).append(step)
        return step.out

    def leaf(self, dtype: str, shape: Sequence[int], **more: Any) -> str:
        """A tensor of numbers that are exact in every dtype, mostly realised."""
        n, rng = count(shape), self.rng
        if dtype == "bool":
            data: list[Any] = [rng.random() < 0.5 for _ in range(n)]
        elif "int" in dtype:
            data = [rng.randint(0 if dtype == "uint8" else -5, 9) for _ in range(n)]
        elif self.kind == "training":
            data = [round(rng.uniform(-2, 2), 2) for _ in range(n)]
        else:
            data = [rng.randint(-8, 8) / rng.choice((1, 2, 4)) for _ in range(n)]
        arg = {"data": data, "shape": list(shape), "dtype": dtype, "realize": rng.random() < 0.8, **more}
        axis = {}
        if self.spread or (self.kind == "shards" and rng.random() < 0.6):
            axis = {"axis": rng.choice([None, *range(len(shape))])}
        name = self.add("leaf", (), {**arg, **axis})[0]
        self.place[name] = int("axis" in axis)
        return name

    def any_leaf(self) -> str:
        """A tensor of some dtype and shape."""
        rng = self.rng
        if self.kind == "training":
            return self.leaf(self.real, rng.choice(SHAPES), grad=rng.choice((None, None, False)))
        dtype = rng.choice(FLOATS) if rng.random() < 0.7 else rng.choice((*INTS, "bool"))
        if self.kind in ("state", "jit", "shards") and rng.random() < 0.7:
            dtype = "float32"
        return self.leaf(dtype, rng.choice(SHAPES))

    def some(self, actions: Sequence[tuple[int, Callable[[Draft], Any]]], times: int) -> None:
        """Carry out random actions; one that does not fit is left."""
        weights, functions = [w for w, _ in actions], [f for _, f in actions]
        for _ in range(times):
            for action in self.rng.choices(functions, weights, k=4):
                try:
                    action(self)
                    break
                except (Uncertain, *ALIKE):
                    continue

    def program(self) -> Program:
        """What there is."""
        return Program(tuple(self.steps), tuple(self.functions), self.kind)


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    try:
        return count(np.broadcast_shapes(tuple(a), tuple(b))) <= MOST
    except ValueError:
        return False


# Actions that compute


def unary(d: Draft) -> None:
    """A function of one operand."""
    a = d.pick("float") if d.rng.random() < 0.8 else d.pick("int")
    d.add(d.rng.choice(("relu", "abs", "neg", "square", "square", "sin", "exp", "log", "sqrt", "tanh", "sigmoid",
                        "copy", "contiguous", "contiguous", "detach")), [a])  # fmt: skip


def binary(d: Draft) -> None:
    """Two operands that broadcast."""
    a = d.pick("float", "int")
    ops = ("add", "sub", "mul", "maximum", "minimum", "div")
    if d.dtype(a) not in ("float32", "float64", "float16", "bfloat16"):
        ops = ("add", "sub", "mul", "maximum", "minimum", "and", "or", "xor")
    d.add(d.rng.choice(ops), [a, d.like(a)])


def with_number(d: Draft) -> None:
    """A tensor and a Python number."""
    a = d.pick("float", "int")
    if "int" in d.dtype(a):
        op = d.rng.choice(("add", "mul", "maximum", "floordiv", "mod", "and", "or", "xor", "less", "equal", "at_most"))
        d.add(f"{op}_number", [a], d.rng.choice((1, 2, 3, 5)))
    else:
        op = d.rng.choice(("add", "sub", "mul", "mul", "div", "maximum", "minimum", "less", "equal", "at_most"))
        d.add(f"{op}_number", [a], d.rng.choice((0.5, 2.0, -1.0, 0.25, 3.0, 1.5)))


def compare(d: Draft) -> None:
    """A mask, and a choice by it."""
    a = d.pick("float", "int")
    mask = d.add(d.rng.choice(("less", "equal", "at_most")), [a, d.like(a)])[0]
    b = d.like(a)
    if d.rng.random() < 0.7:
        d.add("where", [mask, b, d.like(b)])
    elif d.rng.random() < 0.5:
        d.add(d.rng.choice(("and", "or", "xor")), [mask, d.like(mask)])
    else:
        d.add("not", [mask])


def cast(d: Draft) -> None:
    """Another dtype."""
    d.add("cast", [d.pick()], d.rng.choice((*FLOATS, *INTS, "bool")))


def reduce(d: Draft) -> None:
    """A sum, a mean, an extreme."""
    a = d.pick("float", ndim=1) if d.rng.random() < 0.8 else d.pick("int", ndim=1)
    if d.dtype(a) in ("int8", "int16", "uint8"):  # their sums are wider
        return
    ndim = len(d.shape(a))
    axes = None if d.rng.random() < 0.3 else sorted(d.rng.sample(range(ndim), d.rng.randint(1, ndim)))
    ops = ("sum", "sum", "mean", "max", "min") if d.dtype(a).startswith(("float", "bf")) else ("sum", "max", "min")
    d.add(d.rng.choice(ops), [a], [axes, d.rng.random() < 0.5])


def along(d: Draft) -> None:
    """cumsum, softmax, sort and its kin."""
    a = d.pick("float", "int", ndim=1)
    if d.dtype(a) in ("int8", "int16", "uint8"):
        return
    axis = d.rng.randrange(len(d.shape(a)))
    op = d.rng.choice(("cumsum", "sort", "argsort", "topk", "argmax", "softmax", "triu"))
    if op in ("sort", "argsort"):
        d.add(op, [a], [axis, d.rng.random() < 0.3])
    elif op == "topk":
        d.add(op, [a], [d.rng.randint(1, d.shape(a)[axis]), axis, d.rng.random() < 0.6], 2)
    elif op == "triu":
        d.add(op, [d.pick("float", "int", ndim=2)], d.rng.random() < 0.5)
    else:
        d.add(op, [d.pick("float", ndim=1) if op == "softmax" else a], axis if op != "softmax" else -1)


def basic_index(d: Draft, shape: Sequence[int]) -> list[Any]:
    """A basic index into a shape: numbers, slices with steps of either sign."""
    index: list[Any] = []
    for size in shape:
        kind = d.rng.randrange(5)
        if kind == 0:
            index.append(d.rng.randrange(-size, size))
        elif kind <= 2:
            start = d.rng.randrange(size)
            index.append({"slice": [start, d.rng.randint(start + 1, size)]})
        elif kind == 3:
            index.append({"slice": [None, None, d.rng.choice((2, -1))]})
        else:
            index.append(None)
    return index


def move(d: Draft) -> None:
    """Elements in another order or shape."""
    a = d.pick(ndim=1)
    shape, rng = d.shape(a), d.rng
    ndim = len(shape)
    op = rng.choice(("reshape", "permute", "flip", "expand", "index", "index", "pad", "roll", "repeat"))
    arg: Any = None
    if op == "reshape":
        n = count(shape)
        first = rng.choice([f for f in range(1, n + 1) if n % f == 0])
        arg = rng.choice(([n], [first, n // first], [1, *shape], [*shape, 1]))
    elif op == "permute":
        arg = rng.sample(range(ndim), ndim)
    elif op == "flip":
        arg = sorted(rng.sample(range(ndim), rng.randint(1, ndim)))
    elif op == "expand":
        arg = [rng.choice((2, 3)) if size == 1 else size for size in shape]
        if arg == list(shape):
            a, arg = d.add("reshape", [a], [1, *shape])[0], [2, *shape]
    elif op == "index":
        arg = basic_index(d, shape)
    elif op == "pad":
        if d.dtype(a) == "bool":
            return
        arg = [[[rng.randint(0, 2), rng.randint(0, 1)] for _ in shape], rng.choice((0, 0, 1))]
    elif op == "roll":
        arg = [rng.randint(-2, 3), rng.randrange(ndim)]
        if "self_results" in d.leave_out and arg[0] % shape[arg[1]] == 0:
            return
    else:
        arg = [rng.choice((1, 2)) for _ in shape]
    d.add(op, [a], arg)


def join(d: Draft) -> None:
    """cat."""
    a = d.pick("float", "int", ndim=1)
    d.add("cat", [a, *(d.like(a, True) for _ in range(d.rng.randint(1, 2)))], d.rng.randrange(len(d.shape(a))))


def matmul(d: Draft) -> None:
    """A matrix product with what fits, or with a new weight."""
    a = d.pick("float", ndim=2)
    inner = d.shape(a)[-1]
    found = [n for n in d.tensors("float", ndim=2) if d.dtype(n) == d.dtype(a) and d.shape(n)[-2] == inner]
    d.add("matmul", [a, d.rng.choice(found) if found else d.leaf(d.dtype(a), (inner, d.rng.choice((3, 4))))])


def windows(d: Draft) -> None:
    """A convolution or a pool over what has four axes, or is made so."""
    a = d.pick("float", ndim=2)
    rows, columns = d.shape(a)[-2:]
    if min(rows, columns) < 2 or d.dtype(a) in ("float16", "bfloat16"):
        return
    image = d.add("reshape", [a], [1, count(d.shape(a)) // (rows * columns), rows, columns])[0]
    if d.rng.random() < 0.6:
        weight = d.leaf(d.dtype(a), (2, d.shape(image)[1], 2, 2))
        d.add("conv2d", [image, weight], [d.rng.choice((1, 2)), d.rng.choice((0, 1))])
    else:
        d.add("pool", [image], [2, d.rng.random() < 0.5])


def pick_by_index(d: Draft) -> None:
    """gather, a tensor as index, scatter."""
    a = d.pick("float", "int", ndim=1)
    shape, rng = d.shape(a), d.rng
    axis = rng.randrange(len(shape))
    op = rng.choice(("gather", "take", "scatter"))

    def whole(data: list[int], shape: Sequence[int]) -> str:
        spread = {"axis": None} if d.place.get(a, 0) else {}
        index = {"data": data, "shape": list(shape), "dtype": "int32", "realize": True, **spread}
        name = d.add("leaf", (), index)[0]
        d.place[name] = d.place.get(a, 0)
        return name

    if op == "take":
        data = [rng.randrange(shape[axis]) for _ in range(rng.choice((2, 3, 4)))]
        index = whole(data, [len(data)])
        d.add(op, [a, index], axis)
        return
    sizes = [rng.randint(1, size) for size in shape]
    data = [rng.randrange(shape[axis]) for _ in range(count(sizes))]
    index = whole(data, sizes)
    if op == "gather":
        d.add(op, [a, index], axis)
    else:
        d.add(op, [a, index, d.leaf(d.dtype(a), sizes)], [axis, rng.random() < 0.6])


def rows(d: Draft) -> None:
    """The first rows of a tensor, as many as a bound Variable says."""
    a = d.pick("float", ndim=1)
    most = d.shape(a)[0]
    op = d.rng.choice(("rows_sum", "rows_product", "rows_scaled_max"))
    ins = [a, d.like(a, True)] if op == "rows_product" else [a]
    for number in d.rng.sample(range(1, most + 1), min(most, 1 if d.body is not None else 2)):
        name = f"i{number}" if d.kind == "training" else "i"  # gradients of two values may meet in one graph
        d.add(op, ins, [number, most, name])


def row_write(d: Draft) -> None:
    """One row of a tensor is written, at a place that is a bound Variable."""
    a = d.rng.choice([n for n in d.writable() if len(d.shape(n)) >= 2 and d.dtype(n).startswith("float")])
    shape = d.shape(a)
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and _fits_in(d.shape(n), (1, *shape[1:]))
             and d.place.get(n, 0) == d.place.get(a, 0)]  # fmt: skip
    value = d.rng.choice(found) if found else d.leaf(d.dtype(a), shape[1:])
    d.add("row_write", [a, value], [d.rng.randrange(shape[0]), shape[0]], 0)


COMPUTE: list[tuple[int, Callable[[Draft], Any]]] = [
    (3, unary), (6, binary), (4, with_number), (2, compare), (2, cast), (4, reduce), (2, along), (5, move), (1, join),
    (2, matmul), (1, windows), (2, pick_by_index), (1, rows),
]  # fmt: skip
ELEMENTWISE: list[tuple[int, Callable[[Draft], Any]]] = [
    (2, unary), (8, binary), (4, with_number), (2, reduce), (2, move), (1, pick_by_index), (1, compare), (1, matmul)
]  # fmt: skip


# Actions that write, read, realise and forget


def assign(d: Draft) -> None:
    """A whole new value."""
    a = d.rng.choice(d.writable())
    d.add("assign", [a, d.like(a, True)], outs=0)


def setitem(d: Draft) -> None:
    """A part has another value: from a tensor, or a number."""
    a = d.rng.choice([n for n in d.writable() if d.shape(n)])
    index = basic_index(d, d.shape(a))
    if d.rng.random() < 0.4:
        d.add("setitem_number", [a], [index, 3 if "int" in d.dtype(a) else 1.5], 0)
        return
    part = tuple(np.zeros(d.shape(a))[_numpy_index(index)].shape)
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and d.place.get(n, 0) == d.place.get(a, 0)
             and d.shape(n) in (part, (), part[-1:])]  # fmt: skip
    d.add("setitem", [a, d.rng.choice(found)], index, 0)


def _numpy_index(index: list[Any]) -> Any:
    from run_numpy import index_of

    return index_of(index)


def inplace(d: Draft) -> None:
    """An operator that writes."""
    a = d.rng.choice([n for n in d.writable() if d.dtype(n).startswith(("float", "int32", "int64"))])
    op = d.rng.choice(("add", "sub", "mul"))
    if d.rng.random() < 0.4:
        d.add("inplace_number", [a], [op, 2 if "int" in d.dtype(a) else 0.5], 0)
        return
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and _fits_in(d.shape(n), d.shape(a))]
    d.add("inplace", [a, d.rng.choice(found)], op, 0)


def _fits_in(a: Sequence[int], b: Sequence[int]) -> bool:
    try:
        return np.broadcast_shapes(tuple(a), tuple(b)) == tuple(b)
    except ValueError:
        return False


def coupled(d: Draft) -> None:
    """New values of several tensors, computed from their old ones, written and realised together."""
    targets = [n for n in d.writable() if d.dtype(n) == "float32"]
    targets = d.rng.sample(targets, min(len(targets), d.rng.randint(2, 3)))
    new: list[tuple[str, str]] = []
    for target in targets:
        operands = [n for n in (*targets, *(v for _, v in new)) if _fits_in(d.shape(n), d.shape(target))]
        value = d.add(d.rng.choice(("add", "sub", "mul")), [target, d.rng.choice(operands)])[0]
        if d.rng.random() < 0.5:
            value = d.add("mul_number", [value], d.rng.choice((0.5, 2.0)))[0]
        if d.rng.random() < 0.4:
            operands = [n for n in (*targets, *(v for _, v in new)) if _fits_in(d.shape(n), d.shape(target))]
            value = d.add(d.rng.choice(("add", "sub")), [value, d.rng.choice(operands)])[0]
        new.append((target, value))
    d.rng.shuffle(new)
    for target, value in new:
        d.add("assign", [target, value], outs=0)
    if d.body is None and d.rng.random() < 0.7:
        d.rng.shuffle(targets)
        d.add("realize", targets[: d.rng.randint(1, len(targets))], outs=0)


def read(d: Draft) -> None:
    """A value is looked at."""
    names = d.tensors() + [n for n in d.machine.values if n in d.silent]
    a = d.rng.choice(names)
    way = (
        "item()" if count(d.shape(a)) == 1 and d.rng.random() < 0.5 else d.rng.choice(("numpy()",) * 4 + ("tolist()",))
    )
    if way == "item()" and d.shape(a):
        return
    if way == "tolist()" and d.dtype(a) in ("float16", "bfloat16"):
        return
    d.add("read", [a], way, 0)


def realize(d: Draft) -> None:
    """Some tensors become memory together."""
    names = d.tensors()
    chosen = d.rng.sample(names, min(len(names), d.rng.randint(1, 3)))
    d.steps.append(Step("realize", (), tuple(chosen))) if d.body is None else d.body.append(
        Step("realize", (), tuple(chosen))
    )


def show(d: Draft) -> None:
    """A tensor is printed, which computes nothing that is not there."""
    d.add("print", [d.pick()], outs=0)


def delete(d: Draft) -> None:
    """A tensor is forgotten."""
    names = [n for n in d.tensors() if n not in d.fixed]
    if len(names) > 4:
        d.add("delete", [d.rng.choice(names)], outs=0)


WRITE: list[tuple[int, Callable[[Draft], Any]]] = [
    (2, assign), (2, setitem), (2, inplace), (3, coupled), (1, row_write)
]  # fmt: skip
LOOK: list[tuple[int, Callable[[Draft], Any]]] = [(3, read), (3, realize), (1, show), (2, delete)]


# Kinds of programs


def _finish(d: Draft) -> Program:
    names = [n for n, v in d.machine.values.items() if not isinstance(v, tuple)]
    d.rng.shuffle(names)
    for name in names:
        d.add("read", [name], "numpy()", 0)
    return d.program()


def values(d: Draft) -> Program:
    """Everything that computes, with a few writes."""
    for _ in range(d.rng.randint(2, 3)):
        d.any_leaf()
    mixed = [*COMPUTE, *[(w, f) for w, f in LOOK], (1, assign), (1, setitem), (1, inplace)]
    d.some(mixed, d.rng.randint(6, 12))
    return _finish(d)


def state(d: Draft) -> Program:
    """Writes, several of them pending and realised together."""
    shape = d.rng.choice([s for s in SHAPES if s])
    for _ in range(3):
        d.leaf("float32", shape)
    d.any_leaf()
    d.some([*ELEMENTWISE, *[(3 * w, f) for w, f in WRITE], *LOOK], d.rng.randint(6, 12))
    return _finish(d)


def shards(d: Draft) -> Program:
    """Tensors on one device and on several, cut or replicated."""
    shape = d.rng.choice([s for s in SHAPES if s])
    for _ in range(3):
        d.leaf("float32", shape)

    def relay(d: Draft) -> None:
        a = d.pick("float", ndim=1)
        axis = d.rng.choice([None, *range(len(d.shape(a)))])
        if d.place.get(a, 0):
            d.add("unshard", [a])
        else:
            d.add("shard", [a], axis)

    d.some([*ELEMENTWISE, (3, along), (5, relay), *WRITE, *LOOK], d.rng.randint(6, 10))
    return _finish(d)


def jit(d: Draft) -> Program:
    """A function under TinyJit, called with new arguments and with state that it writes."""
    shape = d.rng.choice([s for s in SHAPES if s])
    own = [d.leaf("float32", shape) for _ in range(d.rng.randint(1, 3))]
    d.fixed.update(own)
    d.any_leaf()
    d.number_of = d.rng.choice(("", "", "rows", "row_write"))
    make_function(
        d,
        own,
        [
            (6 if d.number_of else 0, numbered),
            *ELEMENTWISE,
            *COMPUTE,
            (6, assign),
            (4, setitem),
            (5, inplace),
            (6, coupled),
            (2, realize),
        ],
    )
    between = [(4, read), (2, realize), (1, delete), *ELEMENTWISE, (2, inplace), (2, assign), (1, setitem)]
    call_often(d, between)
    return _finish(d)


def numbered(d: Draft) -> None:
    """In a function: a slice whose length or place is the Variable that it is given, of `most` values."""
    a = d.rng.choice(d.writable())
    if d.most and d.shape(a)[0] != d.most:
        raise Uncertain("another Variable")
    before = len(d.body or ())
    (row_write if d.number_of == "row_write" else rows)(d)
    made = [s for s in (d.body or [])[before:] if s.op.startswith("row")]
    d.most = d.most or made[0].arg[1]
    if any(s.arg[1] != d.most for s in made):
        raise Uncertain("another Variable")


def make_function(d: Draft, own: Sequence[str], actions: Sequence[tuple[int, Callable[[Draft], Any]]],
                  last: Callable[[Draft], Any] | None = None) -> None:  # fmt: skip
    """A function over new parameters and over own, tensors that it may write."""
    rng = d.rng
    samples = [
        d.leaf(d.real, d.shape(rng.choice(own)) if own else rng.choice(SHAPES)) for _ in range(rng.randint(1, 2))
    ]
    outside = dict(d.machine.values)
    params = [d.name() for _ in samples]
    d.machine.values = {n: v for n, v in outside.items() if n in own or isinstance(v, tuple)}
    d.machine.values.update({p: outside[s] for p, s in zip(params, samples, strict=True)})
    d.fixed.update((*params, *samples))
    d.body = []
    d.some(actions, rng.randint(3, 7))
    if last is not None:
        last(d)
    body, d.body = d.body, None
    inside = set(d.machine.values) - set(own) - set(params)
    living = {d.storage.get(n, n) for n in (*own, *params)}
    inside -= {n for n, v in d.machine.values.items() if isinstance(v, tuple)}
    results = [n for n in inside if d.storage.get(n, n) not in living and isinstance(n, str)]
    results = sorted(rng.sample(sorted(results), min(len(results), 2)))
    if d.most:
        body = [s for s in body if not s.op.startswith("row") or s.arg[1] == d.most]
    d.functions.append(Function(tuple(params), tuple(body), tuple(results), "n" if d.most else ""))
    d.samples = samples  # type: ignore[attr-defined]
    d.again()


def call_often(d: Draft, between: Sequence[tuple[int, Callable[[Draft], Any]]]) -> None:
    """Call the function with new arguments, four times or more, with other things in between."""
    function = d.functions[-1]
    samples: list[str] = d.samples  # type: ignore[attr-defined]
    for _ in range(d.rng.randint(4, 6)):
        arguments = [
            _argument(d, sample, param, function) for sample, param in zip(samples, function.params, strict=True)
        ]
        try:
            call: dict[str, Any] = {"function": len(d.functions) - 1}
            if function.number:
                low = 0 if d.number_of == "row_write" else 1
                call |= {"number": d.rng.randint(low, d.most - 1 + low), "most": d.most - 1 + low, "low": low}
            out = d.add("call", arguments, call, len(function.results))
            if d.kind == "training":
                d.silent.update(out)
        except Uncertain:
            d.again()
        d.some(between, d.rng.randint(0, 2))


def _argument(d: Draft, sample: str, param: str, function: Function) -> str:
    """What a call is given: a new tensor, the one of before, or any other of its kind, realised or not."""
    chance = d.rng.random()
    if chance < 0.6:
        return d.leaf(d.real, d.shape(sample))
    found = [sample]
    if chance > 0.8 and d.kind != "training":
        written = any(s.op in REWRITES and s.ins[0] == param for s in function.steps)
        found = [n for n in (d.writable() if written else d.tensors())
                 if (d.dtype(n), d.shape(n)) == (d.dtype(sample), d.shape(sample)) and n not in d.fixed]  # fmt: skip
    return d.rng.choice(found or [sample])


def generate(seed: int, kind: str = "", leave_out: frozenset[str] = frozenset()) -> Program:
    """The program of a seed; its kind is drawn too where none is given."""
    rng = random.Random(seed)
    kind = kind or rng.choices(KINDS, (4, 4, 3, 4, 2))[0]
    while True:
        d = Draft(rng, kind, leave_out)
        if kind == "training":
            from generate_training import training

            made = training(d)
        else:
            made = {"values": values, "state": state, "jit": jit, "shards": shards}[kind](d)
        if made is not None:
            return replace(made, steps=tuple(made.steps))
