"""What a program does with its tensors: writes, reads, realises, prints and forgets them.

Writes through views have their place here: they come with issue 11, when a view is its base's memory. Until then
`Draft.writable` leaves out what shares memory with another living tensor.
"""

from __future__ import annotations

import numpy as np

from actions import basic_index
from draft import Actions, Draft, count, fits_in
from program import Program, Step
from run_numpy import index_of


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
    part = tuple(np.zeros(d.shape(a))[index_of(index)].shape)
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and d.place.get(n, 0) == d.place.get(a, 0)
             and d.shape(n) in (part, (), part[-1:])]  # fmt: skip
    d.add("setitem", [a, d.rng.choice(found)], index, 0)


def inplace(d: Draft) -> None:
    """An operator that writes."""
    a = d.rng.choice([n for n in d.writable() if d.dtype(n).startswith(("float", "int32", "int64"))])
    op = d.rng.choice(("add", "sub", "mul"))
    if d.rng.random() < 0.4:
        d.add("inplace_number", [a], [op, 2 if "int" in d.dtype(a) else 0.5], 0)
        return
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and fits_in(d.shape(n), d.shape(a))]
    d.add("inplace", [a, d.rng.choice(found)], op, 0)


def row_write(d: Draft) -> None:
    """One row of a tensor is written, at a place that is a bound Variable."""
    a = d.rng.choice([n for n in d.writable() if len(d.shape(n)) >= 2 and d.dtype(n).startswith("float")])
    shape = d.shape(a)
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and fits_in(d.shape(n), (1, *shape[1:]))
             and d.place.get(n, 0) == d.place.get(a, 0)]  # fmt: skip
    value = d.rng.choice(found) if found else d.leaf(d.dtype(a), shape[1:])
    d.add("row_write", [a, value], [d.rng.randrange(shape[0]), shape[0]], 0)


def coupled(d: Draft) -> None:
    """New values of several tensors, computed from their old ones, written and realised together."""
    targets = [n for n in d.writable() if d.dtype(n) == "float32"]
    targets = d.rng.sample(targets, min(len(targets), d.rng.randint(2, 3)))
    new: list[tuple[str, str]] = []
    for target in targets:
        operands = [n for n in (*targets, *(v for _, v in new)) if fits_in(d.shape(n), d.shape(target))]
        value = d.add(d.rng.choice(("add", "sub", "mul")), [target, d.rng.choice(operands)])[0]
        if d.rng.random() < 0.5:
            value = d.add("mul_number", [value], d.rng.choice((0.5, 2.0)))[0]
        if d.rng.random() < 0.4:
            operands = [n for n in (*targets, *(v for _, v in new)) if fits_in(d.shape(n), d.shape(target))]
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


WRITE: Actions = [
    (2, assign), (2, setitem), (2, inplace), (3, coupled), (1, row_write)
]  # fmt: skip
LOOK: Actions = [(3, read), (3, realize), (1, show), (2, delete)]


def finish(d: Draft) -> Program:
    """The program, in which at last every tensor is read, in any order."""
    names = [n for n, v in d.machine.values.items() if not isinstance(v, tuple)]
    d.rng.shuffle(names)
    for name in names:
        d.add("read", [name], "numpy()", 0)
    return d.program()
