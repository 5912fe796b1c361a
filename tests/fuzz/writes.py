"""What a program does with its tensors: writes, reads, realises, prints and forgets them.

Any tensor is written to, a view like its base, whether others have the same memory or not: the reference knows in which
of them a write shows. Only elements in common are not written (of what expand and unfold gave), which raises.
"""

from __future__ import annotations

import numpy as np

from actions import basic_index, view
from bounded import Uncertain
from draft import Actions, Draft, count, fits_in
from memory import index_of
from program import Program, Step


def target(d: Draft) -> str:
    """What is written to: half of the time something whose memory another tensor has too."""
    found = d.writable()
    shared = set(d.shared())
    aliases = [n for n in found if n in shared]
    return d.rng.choice(aliases if aliases and d.rng.random() < 0.5 else found)


def source(d: Draft, a: str, shape: tuple[int, ...]) -> str:
    """What is written to a tensor or a part of it: something of its dtype and place that broadcasts to a shape."""
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and d.spread_of(n) == d.spread_of(a)
             and fits_in(d.shape(n), shape)]  # fmt: skip
    if not found and d.spread_of(a):
        raise Uncertain("nothing on these devices")
    return d.rng.choice(found) if found else d.leaf(d.dtype(a), shape)


def operator(d: Draft, a: str) -> str:
    """An operator that writes."""
    if not d.dtype(a).startswith(("float", "int32", "int64")):
        raise Uncertain("not of a dtype that is computed with")
    return d.rng.choice(("add", "sub", "mul"))


def assign(d: Draft) -> None:
    """A whole new value."""
    a = target(d)
    d.add("assign", [a, source(d, a, d.shape(a)) if d.rng.random() < 0.3 else d.like(a, True)], outs=0)


def setitem(d: Draft) -> None:
    """A part has another value: from a tensor, or a number."""
    a = target(d)
    index = basic_index(d, d.shape(a))
    if d.rng.random() < 0.4:
        d.add("setitem_number", [a], [index, 3 if "int" in d.dtype(a) else 1.5], 0)
        return
    op = d.rng.choice(("setitem", "part_assign"))
    d.add(op, [a, source(d, a, part(d, a, index))], index, 0)


def part(d: Draft, a: str, index: list[object]) -> tuple[int, ...]:
    """The shape of a part of a tensor. Raises Uncertain for a tensor without axes."""
    if not d.shape(a):
        raise Uncertain("no parts")
    return tuple(np.zeros(d.shape(a))[index_of(index)].shape)


def inplace(d: Draft) -> None:
    """An operator that writes, to a tensor or to a part of it."""
    a = target(d)
    op = operator(d, a)
    number = 2 if "int" in d.dtype(a) else 0.5
    if d.rng.random() < 0.6 or not d.shape(a):
        if d.rng.random() < 0.4:
            d.add("inplace_number", [a], [op, number], 0)
        else:
            d.add("inplace", [a, source(d, a, d.shape(a))], op, 0)
        return
    index = basic_index(d, d.shape(a))
    if d.rng.random() < 0.4:
        d.add("part_inplace_number", [a], [index, op, number], 0)
    else:
        d.add("part_inplace", [a, source(d, a, part(d, a, index))], [index, op], 0)


def through_views(d: Draft) -> None:
    """A view of a view of a tensor, or two views of one, and a write through each; the base may be forgotten."""
    a = target(d)
    first = view(d, a)
    second = view(d, d.rng.choice((a, first)))
    for name in d.rng.sample((first, second, a), d.rng.randint(1, 3)):
        number = 2 if "int" in d.dtype(name) else 0.5
        kind = d.rng.randrange(3)
        if kind == 0:
            d.add("inplace_number", [name], [operator(d, name), number], 0)
        elif kind == 1:
            d.add("assign", [name, source(d, name, d.shape(name))], outs=0)
        else:
            d.add("inplace", [name, source(d, name, d.shape(name))], operator(d, name), 0)
        if d.body is None and d.rng.random() < 0.3:
            d.add("read", [d.rng.choice((first, second, a))], "numpy()", 0)
    if d.body is None and a not in d.fixed and d.rng.random() < 0.3:
        d.add("delete", [a], outs=0)


def row_write(d: Draft) -> None:
    """One row of a tensor is written, at a place that is a bound Variable."""
    a = d.rng.choice([n for n in d.writable() if len(d.shape(n)) >= 2 and d.dtype(n).startswith("float")])
    shape = d.shape(a)
    found = [n for n in d.tensors() if d.dtype(n) == d.dtype(a) and fits_in(d.shape(n), (1, *shape[1:]))
             and d.spread_of(n) == d.spread_of(a)]  # fmt: skip
    value = d.rng.choice(found) if found else d.leaf(d.dtype(a), shape[1:])
    d.add("row_write", [a, value], [d.rng.randrange(shape[0]), shape[0]], 0)


def refused(d: Draft) -> None:
    """A write to a view that has elements in common, which raises and writes nothing."""
    found = [n for n in d.tensors("float") if d.machine.values[n].repeats]
    a = d.rng.choice(found) if found else view(d)
    if not d.machine.values[a].repeats:
        a = d.add("expand", [d.add("unsqueeze", [a], 0)[0]], [2, *d.shape(a)])[0]
    d.add("refused", [a, source(d, a, d.shape(a))], d.rng.choice(("assign", "add", "part")), 0)


def row_view(d: Draft) -> None:
    """One row of a tensor, at a place that is a bound Variable, as a view."""
    a = d.rng.choice([n for n in d.tensors() if len(d.shape(n)) >= 2 and d.dtype(n).startswith("float")])
    d.add("row_view", [a], [d.rng.randrange(d.shape(a)[0]), d.shape(a)[0]])


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
    (2, assign), (2, setitem), (2, inplace), (3, coupled), (1, row_write), (2, through_views), (1, row_view)
]  # fmt: skip
LOOK: Actions = [(3, read), (3, realize), (1, show), (2, delete)]


def finish(d: Draft) -> Program:
    """The program, in which at last every tensor is read, in any order."""
    names = [n for n, v in d.machine.values.items() if not isinstance(v, tuple)]
    d.rng.shuffle(names)
    for name in names:
        d.add("read", [name], "numpy()", 0)
    return d.program()
