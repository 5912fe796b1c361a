"""What a program computes: actions that add a step or two to a draft, or raise Uncertain where nothing fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draft import FLOATS, INTS, Actions, Draft, count


def unary(d: Draft) -> None:
    """A function of one operand."""
    a = d.pick("float") if d.rng.random() < 0.8 else d.pick("int")
    d.add(d.rng.choice(("relu", "abs", "neg", "square", "square", "sin", "exp", "log", "sqrt", "tanh", "sigmoid",
                        "copy", "contiguous", "contiguous")), [a])  # fmt: skip


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


VIEW_METHODS = ("reshape", "reshape", "permute", "flip", "expand", "index", "index", "index", "detach", "transpose",
                "narrow", "shrink", "chunk", "diagonal", "unfold", "flatten", "unsqueeze", "squeeze")  # fmt: skip


def view(d: Draft, a: str = "") -> str:
    """A view of a tensor, by one of the methods that give views."""
    a = a or d.pick(ndim=1)
    shape, rng = d.shape(a), d.rng
    ndim, axis = len(shape), rng.randrange(max(len(shape), 1))
    if not shape:
        return d.add(*rng.choice((("reshape", [a], [1]), ("unsqueeze", [a], 0), ("detach", [a]))))[0]
    op = rng.choice(VIEW_METHODS)
    size = shape[axis]
    start = rng.randrange(size)
    end, outs = rng.randint(start + 1, size), 1
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
    elif op == "transpose":
        arg = [axis, rng.randrange(ndim)]
    elif op == "narrow":
        arg = [axis, start, end - start]
    elif op == "shrink":
        arg = [[start, end] if n == axis else None for n in range(ndim)]
    elif op == "chunk":
        arg, outs = [2, axis], 2
    elif op == "unfold":
        arg = [axis, rng.randint(1, min(size, 2)), rng.choice((1, 2, 2))]
    elif op == "unsqueeze":
        arg = rng.randint(0, ndim)
    return rng.choice(d.add(op, [a], arg, outs))


def move(d: Draft) -> None:
    """Elements in another order or shape: a view, or a value."""
    a, rng = d.pick(ndim=1), d.rng
    shape = d.shape(a)
    op = rng.choice(("view", "view", "pad", "roll", "repeat"))
    arg: Any = None
    if op == "view":
        view(d, a)
        return
    if op == "pad":
        if d.dtype(a) == "bool":
            return
        arg = [[[rng.randint(0, 2), rng.randint(0, 1)] for _ in shape], rng.choice((0, 0, 1))]
    elif op == "roll":
        arg = [rng.randint(-2, 3), rng.randrange(len(shape))]
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
        spread = {"axis": None} if d.spread_of(a) else {}
        index = {"data": data, "shape": list(shape), "dtype": "int32", "realize": True, **spread}
        return d.add("leaf", (), index)[0]

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


COMPUTE: Actions = [
    (3, unary), (6, binary), (4, with_number), (2, compare), (2, cast), (4, reduce), (2, along), (4, move), (2, view),
    (1, join), (2, matmul), (1, windows), (2, pick_by_index), (1, rows),
]  # fmt: skip
ELEMENTWISE: Actions = [
    (2, unary), (8, binary), (4, with_number), (2, reduce), (1, move), (2, view), (1, pick_by_index), (1, compare),
    (1, matmul),
]  # fmt: skip
