"""The form of a graph: what graphs have in common that differ in their buffers and the values of variables only.

    form_of(order, outputs) -> Form

A form is the nodes in the order of a walk from the outputs, with their sources as numbers and BUFFERs as numbers too. A
training step has the same form in every iteration, on other buffers, and then the same kernels in that order. `text`
writes a form down in a way that does not depend on the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.errors import GraphError
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, constant_bits

# assumed: room for the eigenvectors of 64 x 64 floats, 1,300 kernels (2026-11-21)
LARGEST = 100_000  # nodes of a graph that has a form
OTHERS = frozenset({Ops.BUFFER, Ops.BIND})  # what two graphs of one form may differ in
FormKey = tuple[Any, ...]


@dataclass(slots=True)
class Form:
    """The key of a form, with what one graph of that form has: its BUFFERs, devices and values of variables."""

    key: FormKey
    buffers: list[UOp]
    devices: list[str]
    values: dict[str, int]


def form_of(order: Sequence[UOp], outputs: Sequence[UOp]) -> Form | None:
    """The form of the graph of outputs, whose postorder is order. None for a graph that is too large to be kept."""
    if len(order) > LARGEST:
        return None
    numbers: dict[UOp, int] = {}
    same: set[UOp] = set()  # nodes that do not differ: interned, each is its own name, and kept for the next graph
    key: list[Any] = []
    buffers: list[UOp] = []
    devices: list[str] = []
    values: dict[str, int] = {}
    for number, node in enumerate(order):
        numbers[node] = number
        op, src, tag = node.op, node.src, node.tag
        if tag is not None and isinstance(tag, Own):
            tag = None  # whose value it is changes no kernel
        elif op not in OTHERS and same.issuperset(src):
            if op is Ops.DEVICE:
                devices += node.arg if isinstance(node.arg, tuple) else [node.arg]
            same.add(node)
            key.append(node)
            continue
        arg = node.arg
        if op is Ops.CONST:
            arg = constant_bits(arg)
        elif op is Ops.BUFFER:
            buffers.append(node)
            arg = arg.size
        elif op is Ops.BIND:
            note_value(node, values)
            arg = None
        elif len(src) > 1 and type(arg) is tuple:
            arg = _with_numbers(arg, numbers)
        key.append((op, node.dtype, arg, tag, *map(numbers.__getitem__, src)))
    key.append(tuple([numbers[node] for node in outputs]))
    return Form(tuple(key), buffers, devices, values)


def note_value(bind: UOp, values: dict[str, int]) -> None:
    """Add the value that a variable is bound to. Raises GraphError where the graph binds it to another one, too."""
    name = bind.src[0].arg.name
    if values.setdefault(name, bind.arg) != bind.arg:
        raise GraphError(
            f"the variable {name} is bound to {values[name]} and to {bind.arg} in one graph\n"
            "  hint: realize what has the one value before it is used with the other, or make a second Variable"
        )


def _with_numbers(arg: tuple[Any, ...], numbers: dict[UOp, int]) -> tuple[Any, ...]:
    """An arg with the numbers of the symbolic sizes in it that are sources of its node."""
    found: list[Any] = []
    for item in arg:
        if isinstance(item, UOp):
            found.append(("size", numbers[item]) if item in numbers else item)
        else:
            found.append(_with_numbers(item, numbers) if type(item) is tuple else item)
    return tuple(found)


def text(key: FormKey) -> str:
    """A key written down: equal for equal keys, in every process."""
    numbers: dict[UOp, int] = {}
    lines = []
    for number, entry in enumerate(key):
        if isinstance(entry, UOp):
            numbers[entry] = number
            arg: Any = entry.arg
            if entry.op is Ops.CONST:
                arg = constant_bits(arg)
            elif len(entry.src) > 1 and type(arg) is tuple:
                arg = _with_numbers(arg, numbers)
            entry = entry.op, entry.dtype, arg, entry.tag, *[numbers[s] for s in entry.src]
        lines.append(" ".join(part.name if hasattr(part, "name") else repr(part) for part in entry))
    return "\n".join(lines)
