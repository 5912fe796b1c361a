"""Random programs that repeat a few steps with other Python numbers: constants, starts of slices, indices, steps.

The second time kernels get the numbers that differ as arguments, and from then on nothing is compiled: what a third
repetition gives has to be what its own numbers give.
"""

from __future__ import annotations

from typing import Any

from actions import COMPUTE, ELEMENTWISE, move, reduce, view, with_number
from bounded import Uncertain
from draft import ALIKE, SHAPES, Draft
from program import Program, Step
from writes import finish, inplace, row_write, setitem

FLOATS = (0.5, 2.0, -1.0, 0.25, 3.0, 1.5, 0.0, 1.0)
INTS = (1, 2, 3, 5, 0, -1)
COLUMNS = {"part_inplace_number": 2, "inplace_number": 1, "setitem_number": 1}  # where such an arg has its number


def numbers(d: Draft) -> Program:
    """A few steps over tensors that stay, three to five times with other numbers each, and what they gave read."""
    shape = d.rng.choice([s for s in SHAPES if s])
    for _ in range(d.rng.randint(1, 2)):
        d.leaf("float32", shape)
    d.any_leaf()
    d.fixed.update(d.tensors())
    begin = len(d.steps)
    more = ELEMENTWISE if d.rng.random() < 0.6 else COMPUTE
    mixed = [(8, with_number), (6, view), (3, move), (3, setitem), (3, inplace), (1, row_write), (2, reduce), *more]
    d.some(mixed, d.rng.randint(2, 5))
    block = d.steps[begin:]
    _read(d, block, {})
    for _ in range(d.rng.randint(2, 4)):
        _repeat(d, block)
    return finish(d)


def _repeat(d: Draft, block: list[Step]) -> None:
    """The steps once more, with other names for what they make and other numbers; a step that does not fit is left."""
    names: dict[str, str] = {}
    for step in block:
        ins = tuple(names.get(name, name) for name in step.ins)
        made = _tried(d, step, ins, _varied(d, step, ins)) or _tried(d, step, ins, step.arg)
        if made is not None:
            names.update(zip(step.out, made, strict=True))
    _read(d, block, names)


def _tried(d: Draft, step: Step, ins: tuple[str, ...], arg: Any) -> tuple[str, ...] | None:
    try:
        return d.add(step.op, ins, arg, len(step.out))
    except (Uncertain, *ALIKE):
        return None


def _read(d: Draft, block: list[Step], names: dict[str, str]) -> None:
    """Read some of what the steps made, and what they wrote to."""
    made = [names.get(n, n) for step in block for n in (step.out or step.ins[:1])]
    found = [n for n in dict.fromkeys(made) if n in d.machine.values and not isinstance(d.machine.values[n], tuple)]
    for name in d.rng.sample(found, min(len(found), 2)):
        d.add("read", [name], "numpy()", 0)


def _varied(d: Draft, step: Step, ins: tuple[str, ...]) -> Any:
    """The arg of a step with another number, or other starts of slices of the same length."""
    op, arg, rng = step.op, step.arg, d.rng
    if op in COLUMNS:
        new = list(arg)
        new[COLUMNS[op]] = _number(d, new[COLUMNS[op]])
        return [_moved(d, new[0]), *new[1:]] if isinstance(new[0], list) else new
    if op.endswith("_number"):
        return _number(d, arg)
    if op in ("index", "setitem", "part_assign"):
        return _moved(d, arg)
    if op == "part_inplace":
        return [_moved(d, arg[0]), *arg[1:]]
    if op == "row_write":
        return [rng.randrange(arg[1]), arg[1]]
    if op == "narrow":
        return [arg[0], _start(d, d.shape(ins[0])[arg[0]], arg[2]), arg[2]]
    if op == "shrink":
        lengths = [None if ends is None else ends[1] - ends[0] for ends in arg]
        starts = [0 if n is None else _start(d, size, n) for n, size in zip(lengths, d.shape(ins[0]), strict=True)]
        return [None if n is None else [at, at + n] for n, at in zip(lengths, starts, strict=True)]
    return arg


def _start(d: Draft, size: int, length: int) -> int:
    """Where a slice of a length may begin on an axis of some size."""
    return d.rng.randint(0, max(size - length, 0))


def _number(d: Draft, old: Any) -> Any:
    return d.rng.choice(FLOATS if isinstance(old, float) else [n for n in INTS if n > 0 or d.rng.random() < 0.3])


def _moved(d: Draft, index: list[Any]) -> list[Any]:
    """An index with other starts; slices keep their length."""
    found: list[Any] = []
    for item in index:
        if isinstance(item, bool) or item is None:
            found.append(item)
        elif isinstance(item, int):
            found.append(d.rng.randint(-2, 3))
        elif "slice" in item and len(item["slice"]) == 2:
            start, end = item["slice"]
            by = d.rng.randint(0, 2)
            found.append({"slice": [by, by + end - start]})
        else:
            found.append(item)
    return found
