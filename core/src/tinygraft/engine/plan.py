"""Plans: what the graphs of one form launch, prepared for all of them.

    work_for(order, outputs) -> BoundPlan

A plan has compiled kernels and numbers for buffers: those that the graph names first, then those that it makes. The
plan of a repeated form is found by its key; that of a form of an earlier process is read from a pack on disk (pack.py),
and needs neither scheduling nor code generation. Where stages are observed, no plan is used, so that all of them are
made. `clear()` drops all plans.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinygraft import events
from tinygraft.codegen.options import Options
from tinygraft.config import DEBUG, SPEC
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.engine import pack
from tinygraft.engine.applied import counted_rules, rules_text
from tinygraft.engine.bindings import values_in, with_separate_names
from tinygraft.engine.capture import note_varied
from tinygraft.engine.compile import Ready, ready
from tinygraft.engine.pack import BufferNumber, Plan, Planned
from tinygraft.errors import DeviceError, GraphError
from tinygraft.events import ScheduleEvent
from tinygraft.schedule.form import Form, form_of
from tinygraft.schedule.schedule import Schedule, schedule
from tinygraft.target import Target
from tinygraft.uop import graph_spec
from tinygraft.uop.held import buffers_of, memory_base, together
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.stages import CopyCall
from tinygraft.uop.uop import UOp, postorder, toposort

# assumed: bounds on memory that no usual program meets
MOST = 256  # plans in memory; the least recently used one is dropped first
MOST_NODES = 1_000_000  # of all their graphs together
PlanKey = tuple[tuple[Any, ...], tuple[Backend, ...], Options]


@dataclass(slots=True)
class BoundPlan:
    """A plan on the buffers of a graph.

    `calls` are launched in order. `memory` has, for each output, a BUFFER, or a MULTI over those of several devices.
    `values` are those of variables by name. `existing` are the BUFFERs that the graph itself names.
    """

    calls: list[Ready]
    memory: dict[UOp, UOp]
    values: dict[str, int]
    existing: Collection[UOp]


_plans: OrderedDict[PlanKey, Plan] = OrderedDict()
_lock = threading.RLock()


def clear() -> None:
    """Drop all plans from memory."""
    with _lock:
        _plans.clear()


def target_of(device: str) -> Target:
    """Return the Target of a device by name; opens the device."""
    return Device[device].target


def shown_schedule(outputs: Sequence[UOp]) -> Schedule:
    """Return the schedule of `outputs`, after observers were notified of its stages; with DEBUG=5 print its rules.

    Raises GraphError as `schedule` does, and with SPEC=1 for an invalid graph.
    """
    if events.active:
        events.stage("tensor graph", UOp(Ops.SINK, src=tuple(outputs)))
    graph_spec.check(graph_spec.TENSOR, outputs, "tensor operations")
    start = time.perf_counter()
    with counted_rules() as applied:
        made = schedule(outputs, target_of)
    if DEBUG.value >= 5:
        print(f"rules of the schedule: {rules_text(applied) or 'none'}")
    if events.on_schedule:
        copies = sum(isinstance(call, CopyCall) for call in made.calls)
        devices = {c.target.device or "" if isinstance(c, CopyCall) else c.device for c in made.calls}
        seconds = time.perf_counter() - start
        events.notify(
            ScheduleEvent(
                devices=tuple(sorted(devices)), kernels=len(made.calls) - copies, copies=copies, seconds=seconds
            )
        )
    if events.active:
        events.stage("schedule", list(made.calls))
    return made


def without_functions(outputs: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return each output rebuilt with the value of each FUNCTION in its graph: old node -> new node.

    A FUNCTION has a derivative of its own, which matters to no kernel. One that is an output itself becomes a value in
    memory of its own, also where another output has the same value; the result of a routine is that already, unless
    another output has it too.
    """
    done: dict[UOp, UOp] = {}
    for node in toposort(*outputs):
        src = tuple([done[source] for source in node.src])
        same = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
        done[node] = src[0] if node.op is Ops.FUNCTION else same
    bases = [memory_base(done[node]) for node in outputs]
    own = {
        n: Own(-1 - i) for i, n in enumerate(outputs)
        if n.op is Ops.FUNCTION and not (bases[i].op is Ops.ROUTINE and bases.count(bases[i]) == 1)
    }  # fmt: skip
    return {
        n: UOp(Ops.CONTIGUOUS, n.dtype, (done[n],), tag=own[n]) if n in own
        else base if n.op is Ops.FUNCTION else done[n] for n, base in zip(outputs, bases, strict=True)
    }  # fmt: skip


def _refuse_unknown(order: Sequence[UOp]) -> None:
    """Raise for the first PLACEHOLDER in `order`, which has one: DeviceError for a lost value, else GraphError.

    The latter is an argument of a function that is only traced, by `vmap` and the like.
    """
    node = next(node for node in order if node.op is Ops.PLACEHOLDER)
    if node.arg.lost:
        raise DeviceError(node.arg.lost)
    raise GraphError(
        f"a tensor of shape {node.shape} has no value inside {node.arg.what}: the function is called once, "
        "to make a graph of it\n"
        "  hint: choose with where() what depends on a value; item(), numpy() and if need to know it"
    )


def _refuse_unbound(order: Sequence[UOp]) -> None:
    """Raise GraphError for a variable that has no value anywhere in the graph."""
    bound = {node.src[0].arg.name for node in order if node.op is Ops.BIND}
    for node in order:
        if node.op is Ops.VARIABLE and node.arg.name not in bound:
            raise GraphError(
                f"the variable {node.arg.name} has no value, and the result depends on it\n"
                f"  hint: bind it, as in {node.arg.name}.bind({node.lo}); it is in [{node.lo}, {node.hi}]"
            )


def work_for(order: Sequence[UOp], outputs: Sequence[UOp]) -> BoundPlan:
    """Return the BoundPlan that computes `outputs`, whose postorder is `order`. Compiles what is not compiled yet.

    Raises CompileError, and for a PLACEHOLDER or a variable without a value GraphError, or DeviceError where a value is
    lost.
    """
    ops = {node.op for node in order}
    if Ops.PLACEHOLDER in ops:
        _refuse_unknown(order)
    if Ops.VARIABLE in ops:
        _refuse_unbound(order)
    if Ops.FUNCTION in ops:
        return _work_of_others(without_functions(outputs))
    if Ops.BIND in ops and values_in(order) is None:
        note_varied()
        return _work_of_others(with_separate_names(outputs))
    form = None if events.active else form_of(order, outputs)
    if form is None:
        made = shown_schedule(outputs)
        work = BoundPlan(ready(made.calls), made.memory, made.values, made.existing)
    else:
        work = _on(_plan_for(form, outputs), form, outputs)
    if DEBUG.value >= 1 and len(work.calls) > 1:
        print(f"scheduled {len(work.calls)} kernels")
    return work


def _work_of_others(others: Mapping[UOp, UOp]) -> BoundPlan:
    """Return the BoundPlan of outputs that are computed as other nodes: `others` is output -> node of equal value."""
    roots = list(others.values())
    work = work_for(postorder(*roots), roots)
    return replace(work, memory={node: work.memory[root] for node, root in others.items()})


def _plan_for(form: Form, outputs: Sequence[UOp]) -> Plan:
    """Return the plan of a form: from memory, from the disk, or made from `outputs`."""
    backends = tuple([Device[name] for name in form.devices])
    key = (form.key, backends, _options(backends))
    with _lock:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
            return plan
    plan = _stored_or_made(form, backends, outputs)
    with _lock:
        _plans[key] = plan
        while len(_plans) > MOST or sum(len(form_key) for form_key, _, _ in _plans) > MOST_NODES:
            _plans.popitem(last=False)
    return plan


def _options(backends: Sequence[Backend]) -> Options:
    """Return the options of this thread's settings, for plans on `backends`."""
    return Options.here([backend.target for backend in backends])


def _stored_or_made(form: Form, backends: Sequence[Backend], outputs: Sequence[UOp]) -> Plan:
    """Return the plan of a form from the disk, or make it and write it there.

    With DEBUG=3 or SPEC=1 the disk is not used: what these print and check exists only while a plan is made.
    """
    looking = DEBUG.value >= 3 or SPEC.value
    name = "" if looking else pack.name_of(form.key, backends, _options(backends))
    if name and (plan := pack.read(name, backends)) is not None:
        return plan
    from tinygraft.progress import making  # here, as it is needed where something is compiled

    with making.work("scheduling"):
        made = shown_schedule(outputs)
        plan = _prepare(ready(made.calls), made, outputs, form.buffers)
    if name:
        pack.write(name, plan)
    return plan


def _prepare(calls: Sequence[Ready], made: Schedule, outputs: Sequence[UOp], buffers: Sequence[UOp]) -> Plan:
    """Return the plan of a schedule, whose compiled calls are `calls`. `buffers` are those that the graph names."""
    numbers = {node: number for number, node in enumerate(buffers)}
    new: list[tuple[str, int, DType]] = []

    def number_of(node: UOp) -> BufferNumber:
        """Return the number of a buffer in the plan; one that the plan makes gets the next number."""
        if node not in numbers:
            numbers[node] = len(numbers)
            new.append((node.device or "", node.arg.size, node.dtype))
        return numbers[node]

    steps = tuple(Planned(c.kernel, c.device, tuple(number_of(n) for n in c.buffers), c.written) for c in calls)
    memory = tuple(tuple(number_of(buffer) for buffer in buffers_of(made.memory[node])) for node in outputs)
    return Plan(steps, memory, tuple(new))


def _on(plan: Plan, form: Form, outputs: Sequence[UOp]) -> BoundPlan:
    """Return `plan` on the buffers of a graph of its form, that of `outputs`; the BUFFERs that it makes are new."""
    nodes = [*form.buffers, *[UOp.buffer(*made) for made in plan.made]]
    calls = [Ready(s.kernel, s.device, tuple([nodes[number] for number in s.buffers]), s.written) for s in plan.steps]
    memory = {
        node: together(node, [nodes[number] for number in numbers])
        for node, numbers in zip(outputs, plan.memory, strict=True)
    }
    return BoundPlan(calls, memory, form.values, form.buffers)
