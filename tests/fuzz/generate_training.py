"""Random programs with gradients: losses, optimizers, and what is read, written and realised between."""

from __future__ import annotations

from actions import (
    binary,
    join,
    matmul,
    move,
    pick_by_index,
    reduce,
    rows,
    unary,
    view,
    windows,
    with_number,
)  # fmt: skip
from bounded import Uncertain
from draft import Actions, Draft
from generate_jit import call_often, make_function
from program import Program
from writes import LOOK, assign, inplace, setitem, through_views


def masked(d: Draft) -> None:
    """A choice by a mask."""
    a = d.pick("float")
    mask = d.leaf("bool", d.shape(a))
    d.add("where", [mask, a, d.like(a)])


COMPUTE: Actions = [
    (3, unary), (6, binary), (3, with_number), (2, reduce), (2, move), (1, join), (3, matmul), (1, windows),
    (1, pick_by_index), (1, rows), (1, masked),
]  # fmt: skip


def along(d: Draft) -> None:
    """cumsum, softmax, triu."""
    a = d.pick("float", ndim=1)
    op = d.rng.choice(("cumsum", "softmax", "triu"))
    if op == "triu":
        d.add(op, [d.pick("float", ndim=2)], d.rng.random() < 0.5)
    else:
        d.add(op, [a], -1 if op == "softmax" else d.rng.randrange(len(d.shape(a))))


def weights(d: Draft) -> list[str]:
    """The leaves that require a gradient."""
    return list(d.machine.versions)


def loss(d: Draft) -> str:
    """A number that depends on a weight: one that is there, or a sum of something."""
    found = [n for n in d.tensors("float") if d.machine.reaches(n)]
    if not found:
        raise Uncertain("nothing depends on a weight")
    a = d.rng.choice(found[-4:])
    if d.shape(a) == ():
        return a
    if d.rng.random() < 0.4:
        a = d.add("square", [a])[0]
    return d.add(d.rng.choice(("sum", "mean")), [a], [None, False])[0]


def backward(d: Draft) -> None:
    """The gradients of a loss, which add to those that are there."""
    d.add("backward", [loss(d)], outs=0)


def gradient(d: Draft) -> None:
    """The gradients of a loss, as values: of weights and of tensors that have no flag."""
    total = loss(d)
    views = d.machine.values
    targets = [n for n in d.tensors("float") if n != total and d.machine.value(views[n]).requires_grad
               and not views[n].memory.writes]  # fmt: skip
    chosen = d.rng.sample(targets, min(len(targets), d.rng.randint(1, 2)))
    d.add("gradient", [total, *chosen], outs=len(chosen))


def read_grad(d: Draft) -> None:
    """A gradient is looked at."""
    d.add("read_grad", [d.rng.choice(weights(d))], outs=0)


def zero_grad(d: Draft) -> None:
    """Gradients are forgotten."""
    d.add("zero_grad", weights(d), outs=0)


def optimizer(d: Draft) -> str:
    """An optimizer of some weights."""
    rng = d.rng
    if d.real == "float64" and "optimizer64" in d.leave_out:
        raise Uncertain("left out")
    which = rng.sample(weights(d), rng.randint(1, len(weights(d))))
    if rng.random() < 0.6:
        momentum = rng.choice((0.0, 0.5, 0.9))
        options = {"lr": rng.choice((0.125, 0.05)), "momentum": momentum, "weight_decay": rng.choice((0.0, 0.25)),
                   "nesterov": momentum > 0 and rng.random() < 0.4}  # fmt: skip
        return d.add("sgd", which, options)[0]
    if d.real == "float64" and "adam64" in d.leave_out:
        raise Uncertain("left out")
    return d.add("adam", which, {"lr": 0.0625, "eps": 2.0**-6})[0]


def step(d: Draft) -> None:
    """An optimizer's step: of one that is there, or a new one."""
    found = [n for n, v in d.machine.values.items() if isinstance(v, tuple)]
    d.add("step", [d.rng.choice(found) if found and d.rng.random() < 0.7 else optimizer(d)], outs=0)


def iteration(d: Draft) -> None:
    """A loss, its gradients, and what they are for."""
    if d.rng.random() < 0.5:
        zero_grad(d)
    backward(d)
    if d.rng.random() < 0.5:
        step(d)
    elif d.rng.random() < 0.5:
        w = d.rng.choice([n for n in weights(d) if d.machine.grads[n] is not None])
        change = d.add("mul_number", [d.add("grad_of", [w])[0]], 0.25)[0]
        d.add("assign", [w, d.add("sub", [w, change])[0]], outs=0)


LEARN: Actions = [
    (4, iteration),
    (2, backward),
    (2, gradient),
    (2, read_grad),
    (1, zero_grad),
    (2, step),
]


def training(d: Draft) -> Program | None:
    """A program with gradients; None where rounding decides too much."""
    from run_torch import references

    scalars = () if "scalar_weight" in d.leave_out else (((4,), (4,), ()),)
    shapes = d.rng.choice((((4,), (4,)), ((3, 4), (4,)), ((4, 4), (3, 4)), ((2, 3), (3,)), *scalars))
    d.real = "float64" if d.rng.random() < 0.15 else "float32"
    d.spread = d.rng.random() < 0.15
    own = [d.leaf(d.real, shape, grad=True) for shape in shapes]
    d.fixed.update(own)
    d.leaf(d.real, d.rng.choice(shapes), grad=None)
    under_jit = d.rng.random() < 0.3
    often = d.rng.choice((1, 4))  # some programs write much
    between = [*COMPUTE, (1, along), *LEARN, *LOOK, (often, assign), (often, setitem), (often, inplace),
               (often, view), (2 * often, through_views)]  # fmt: skip
    try:
        if under_jit:
            train_function(d, own)
            call_often(d, [(2, read_grad), *LOOK])
        else:
            d.some(between, d.rng.randint(8, 14))
            backward(d)
    except Uncertain:
        return None
    for name in weights(d):
        d.add("read_grad", [name], outs=0)
    for name in [n for n, v in d.machine.values.items() if not isinstance(v, tuple)]:
        d.add("read", [name], "numpy()", 0)
    made = d.program()
    try:
        references(made)
    except Uncertain:
        return None
    return made


def train_function(d: Draft, own: list[str]) -> None:
    """A training step as a function: forward, backward, update."""
    if d.rng.random() < 0.8:
        optimizer(d)

    def learn(d: Draft) -> None:
        d.add("zero_grad", own, outs=0)
        total = loss(d)
        d.add("backward", [total], outs=0)
        optimizers = [n for n, v in d.machine.values.items() if isinstance(v, tuple)]
        if optimizers:
            d.add("step", [optimizers[0]], outs=0)
        else:
            w = d.rng.choice([n for n in own if d.machine.grads[n] is not None])
            change = d.add("mul_number", [d.add("grad_of", [w])[0]], 0.25)[0]
            d.add("assign", [w, d.add("sub", [w, change])[0]], outs=0)

    make_function(d, own, COMPUTE, learn)
    if not any(s.op in ("step", "assign") for s in d.functions[-1].steps):
        raise Uncertain("the function learns nothing")
