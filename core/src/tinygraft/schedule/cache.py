"""Schedules of graphs that have the same form, made once.

    scheduled(outputs, target_of) -> Schedule, as schedule() gives it

The form of a graph is its nodes in the order of a walk from the outputs, with their sources as numbers and BUFFERs as
numbers too. A training step has the same form in every turn, on other buffers; then the calls are those of the first
turn with the buffers of this one. Graphs with bound variables are scheduled each time: their sizes are part of many
args. `clear()` forgets everything.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinygraft.dtype import DType
from tinygraft.schedule.schedule import Schedule, schedule
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.stages import Call, CopyCall, KernelCall
from tinygraft.uop.uop import UOp, postorder

MOST = 256  # forms that are kept; the one used longest ago goes first
LARGEST = 20_000  # nodes of a graph whose form is kept
NAMED = frozenset({Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE})  # interned leaves: equal ones are the same object
Form = tuple[Any, ...]
Place = int  # number of a buffer: those that the graph names first, then those that the schedule made


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A schedule with numbers for buffers. made are the device, size and dtype of those that it makes."""

    calls: tuple[tuple[Call, tuple[Place, ...]], ...]
    memory: tuple[Place, ...]
    made: tuple[tuple[str, int, DType], ...]


_prepared: OrderedDict[Form, _Prepared] = OrderedDict()
_lock = threading.RLock()


def clear() -> None:
    """Forget all schedules."""
    with _lock:
        _prepared.clear()


def scheduled(outputs: Sequence[UOp], target_of: Callable[[str], Target]) -> Schedule:
    """The calls that compute outputs; those of an earlier graph of the same form, where there was one."""
    order = postorder(*outputs)
    if len(order) > LARGEST or any(node.op is Ops.BIND for node in order):
        return schedule(outputs, target_of)
    buffers = [node for node in order if node.op is Ops.BUFFER]
    devices = {node.arg for node in order if node.op is Ops.DEVICE}
    key = (_form(order, outputs), tuple((name, target_of(name)) for name in sorted(devices)))
    with _lock:
        found = _prepared.get(key)
        if found is not None:
            _prepared.move_to_end(key)
            return _on(found, outputs, buffers)
    made = schedule(outputs, target_of)
    with _lock:
        _prepared[key] = _prepare(made, outputs, buffers)
        while len(_prepared) > MOST:
            _prepared.popitem(last=False)
    return made


def _form(order: Sequence[UOp], outputs: Sequence[UOp]) -> Form:
    """What two graphs have in common that differ in their buffers only."""
    numbers: dict[UOp, int] = {}
    form: list[Any] = []
    for number, node in enumerate(order):
        numbers[node] = number
        tag = None if isinstance(node.tag, Own) else node.tag  # whose value it is changes no kernel
        if node.op in NAMED:
            form.append(node if tag is node.tag else node.replace(tag=tag))
        else:
            arg = node.arg.size if node.op is Ops.BUFFER else node.arg
            form.append((node.op, node.dtype, arg, tag, *[numbers[s] for s in node.src]))
    return (*form, tuple(numbers[node] for node in outputs))


def _prepare(made: Schedule, outputs: Sequence[UOp], buffers: Sequence[UOp]) -> _Prepared:
    places = {node: place for place, node in enumerate(buffers)}
    new: list[tuple[str, int, DType]] = []

    def place(node: UOp) -> Place:
        if node not in places:
            places[node] = len(places)
            new.append((node.device or "", node.arg.size, node.dtype))
        return places[node]

    calls = tuple((_without_buffers(call), tuple(place(n) for n in call.buffers)) for call in made.calls)
    return _Prepared(calls, tuple(place(made.memory[node]) for node in outputs), tuple(new))


def _without_buffers(call: Call) -> Call:
    """A call that keeps no memory alive."""
    if isinstance(call, KernelCall):
        return replace(call, buffers=())
    nothing = UOp.on(call.target.device or "")
    return CopyCall(nothing, nothing)


def _on(found: _Prepared, outputs: Sequence[UOp], buffers: Sequence[UOp]) -> Schedule:
    """A prepared schedule on the buffers of a graph."""
    nodes = [*buffers, *(UOp.buffer(*made) for made in found.made)]
    calls: list[Call] = []
    for call, places in found.calls:
        mine = tuple(nodes[place] for place in places)
        calls.append(replace(call, buffers=mine) if isinstance(call, KernelCall) else CopyCall(*mine))
    memory = {node: nodes[place] for node, place in zip(outputs, found.memory, strict=True)}
    return Schedule(tuple(calls), memory, {}, set(buffers))
