"""The form of a graph: equal for graphs that differ only in their buffers and the values of their variables.

    form_of(order, outputs) -> Form

A form lists the nodes in topological order, with their sources and BUFFERs as numbers in that list. A training step
has the same form in every iteration, on other buffers, and so the same plan. `text` writes a form down in a way that
does not depend on the process, as the key of a pack on disk.
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
    """The form of one graph: `key` is equal for graphs of one form, the other fields belong to this graph alone.

    `buffers` and `devices` are in the order in which the graph names them; `values` are those of bound variables.
    """

    key: FormKey
    buffers: list[UOp]
    devices: list[str]
    values: dict[str, int]


def form_of(order: Sequence[UOp], outputs: Sequence[UOp]) -> Form | None:
    """Return the form of the graph of `outputs`, whose postorder is `order`; None for more nodes than LARGEST.

    Raises GraphError where a variable is bound to two values.
    """
    if len(order) > LARGEST:
        return None
    numbers: dict[UOp, int] = {}
    # nodes with no BUFFER, BIND or Own upstream: equal ones are one object in every graph, so the key has them as
    # they are
    same: set[UOp] = set()
    key: list[Any] = []
    buffers: list[UOp] = []
    devices: list[str] = []
    values: dict[str, int] = {}
    for number, node in enumerate(order):
        numbers[node] = number
        op, src, arg, tag = node.op, node.src, node.arg, node.tag
        if tag is not None and isinstance(tag, Own):
            tag = None  # whose value it is changes no kernel
        elif same.issuperset(src) and op not in OTHERS:
            if op is Ops.DEVICE:
                devices += arg if isinstance(arg, tuple) else [arg]
            same.add(node)
            key.append(node)
            continue
        if arg is None:
            pass  # as most have none, nothing else is asked of them
        elif op is Ops.CONST:
            arg = constant_bits(arg)
        elif op is Ops.BUFFER:
            buffers.append(node)
            arg = arg.size
        elif op is Ops.BIND:
            note_value(node, values)
            arg = None
        elif len(src) > 1 and type(arg) is tuple:
            arg = with_numbers(arg, numbers)
        if len(src) == 2:  # nearly all have one or two: written out they take half of the time
            key.append((op, node.dtype, arg, tag, numbers[src[0]], numbers[src[1]]))
        elif len(src) == 1:
            key.append((op, node.dtype, arg, tag, numbers[src[0]]))
        else:
            key.append((op, node.dtype, arg, tag, *map(numbers.__getitem__, src)))
    key.append(tuple([numbers[node] for node in outputs]))
    return Form(tuple(key), buffers, devices, values)


def note_value(bind: UOp, values: dict[str, int]) -> None:
    """Add the value that `bind` gives its variable to `values`, by name.

    Raises GraphError where `values` has another value of that variable.
    """
    name = bind.src[0].arg.name
    if values.setdefault(name, bind.arg) != bind.arg:
        raise GraphError(
            f"the variable {name} is bound to {values[name]} and to {bind.arg} in one graph\n"
            "  hint: realize what has the one value before it is used with the other, or make a second Variable"
        )


def with_numbers(arg: tuple[Any, ...], numbers: dict[UOp, int]) -> tuple[Any, ...]:
    """Return `arg` with each symbolic size in it that `numbers` has replaced by its number, in nested tuples too.

    It stands there as ("size", number).
    """
    found: list[Any] = []
    for item in arg:
        if isinstance(item, UOp):
            found.append(("size", numbers[item]) if item in numbers else item)
        else:
            found.append(with_numbers(item, numbers) if type(item) is tuple else item)
    return tuple(found)


def text(key: FormKey) -> str:
    """Return the `key` of a Form as text, one line for each entry: equal for equal keys, in every process."""
    numbers: dict[UOp, int] = {}
    lines = []
    for number, entry in enumerate(key):
        if isinstance(entry, UOp):
            numbers[entry] = number
            arg: Any = entry.arg
            if entry.op is Ops.CONST:
                arg = constant_bits(arg)
            elif len(entry.src) > 1 and type(arg) is tuple:
                arg = with_numbers(arg, numbers)
            entry = entry.op, entry.dtype, arg, entry.tag, *[numbers[s] for s in entry.src]
        lines.append(" ".join(part.name if hasattr(part, "name") else repr(part) for part in entry))
    return "\n".join(lines)
