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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.codegen.options import Options
from tinygraft.config import DEBUG, SPEC
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.engine import pack
from tinygraft.engine.applied import counted_rules, rules_text
from tinygraft.engine.arena import Placement
from tinygraft.engine.bindings import values_in, with_separate_names
from tinygraft.engine.capture import note_varied, open_captures
from tinygraft.engine.compile import Ready, ready
from tinygraft.engine.own_numbers import given, numbers_in
from tinygraft.engine.pack import BufferNumber, Plan, Planned
from tinygraft.errors import DeviceError, GraphError
from tinygraft.events import ScheduleEvent, SpanEvent
from tinygraft.schedule.form import LARGEST, Form, form_of
from tinygraft.schedule.schedule import Schedule, schedule
from tinygraft.target import Target
from tinygraft.uop import graph_spec
from tinygraft.uop.held import buffers_of, memory_base, together
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sharding import OF_RANK
from tinygraft.uop.stages import CopyCall, KernelCall
from tinygraft.uop.uop import UOp, postorder, toposort

if TYPE_CHECKING:
    from tinygraft.engine.families import FamilyMember, Lifted
    from tinygraft.schedule.own_picks import OwnPicks
    from tinygraft.schedule.slots import NumberSlot

# assumed: bounds on memory that no usual program meets
MOST = 256  # plans in memory; the least recently used one is dropped first
MOST_NODES = 1_000_000  # of all their graphs together
# measured: a step of 100 cells of an LSTM (12,000 nodes) takes 30 ms to look for by its form, 100 more to copy with
# slices of their own (2026-11-29)
LONG = 1000  # nodes above which a graph is looked for by its form first, though others have families
ARGUMENTS = 24  # numbers that kernels of each device have room for
PlanKey = tuple[tuple[Any, ...], tuple[Backend, ...], Options]


@dataclass(slots=True)
class BoundPlan:
    """A plan on the buffers of a graph.

    `calls` are launched in order. `memory` has, for each output, a BUFFER, or a MULTI over those of several devices.
    `values` are those of variables by name. `existing` are the BUFFERs that the graph itself names.
    `placements` has where the plan has its temporaries, once that was found; None without a plan. `arguments` has the
    numbers of the graph that the plan takes as arguments, by their names in it, each with its distance from the value.
    """

    calls: list[Ready]  # each with its origins, while a recording is on
    memory: dict[UOp, UOp]
    values: dict[str, int]
    existing: Collection[UOp]
    placements: list[Placement] | None = None
    plan: Plan | None = None  # where it was found in memory, by the form of the graph or by its family
    devices: Sequence[str] = ()  # that the graph names, where there is a plan
    arguments: Mapping[str, Sequence[tuple[NumberSlot, int]]] = field(default_factory=dict)


_plans: OrderedDict[PlanKey, Plan] = OrderedDict()
_varying: set[tuple[Ops, ...]] = set()  # the ops of graphs whose family has arguments: these need no form
_lock = threading.RLock()


def clear() -> None:
    """Drop all plans from memory.

    Those of families, whose numbers are arguments, too. Packs on disk stay.
    """
    from tinygraft.engine import families, shortcut  # loaded already where a plan was made

    with _lock:
        shortcut.clear()
        _plans.clear()
        _varying.clear()
        families.clear()


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
    if events.on_span:
        events.notify(SpanEvent(name="schedule", start=start, seconds=time.perf_counter() - start))
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
    memory of its own, also where another output has the same value; the result of a routine, or a copy, is that
    already, unless another output has it too.
    """
    done: dict[UOp, UOp] = {}
    for node in toposort(*outputs):
        src = tuple([done[source] for source in node.src])
        same = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
        done[node] = src[0] if node.op is Ops.FUNCTION else same
    bases = [memory_base(done[node]) for node in outputs]
    own = {
        n: Own(-1 - i) for i, n in enumerate(outputs)
        if n.op is Ops.FUNCTION and not (bases[i].op in (Ops.ROUTINE, Ops.COPY) and bases.count(bases[i]) == 1)
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
    work = None if events.active and not events.once else _work_of(order, outputs)
    if work is None:
        made = shown_schedule(outputs)
        calls = ready(made.calls, made.origins)
        values = made.values | numbers_in(call.kernel for call in calls)
        work = BoundPlan(calls, made.memory, values, made.existing)
    if DEBUG.value >= 1 and len(work.calls) > 1:
        print(f"scheduled {len(work.calls)} kernels")
    return work


def _work_of_others(others: Mapping[UOp, UOp]) -> BoundPlan:
    """Return the BoundPlan of outputs that are computed as other nodes: `others` is output -> node of equal value."""
    roots = list(others.values())
    order = postorder(*roots)
    work = work_for(order, roots)
    named, read = ([node for node in nodes if node.op is Ops.BUFFER] for nodes in (postorder(*others), order))
    return replace(
        work, memory={node: work.memory[root] for node, root in others.items()},
        plan=work.plan if named == read else None,  # the buffers of a plan are numbered as the graph has them
    )  # fmt: skip


def _work_of(order: Sequence[UOp], outputs: Sequence[UOp]) -> BoundPlan | None:
    """Return the BoundPlan of a form: its plan, or that of its family (families.py) with its numbers as arguments.

    None where the graph has no form. A capture has plans of forms alone, unless its function was called with other
    arguments before: what it records is launched again with these very numbers. `order` is the postorder of `outputs`.
    """
    captured = bool(open_captures())
    form: Form | None = None
    if not captured and (not _varying or len(order) > LONG):
        form = form_of(order, outputs)
        if form is not None and (work := _of_form(form, outputs)) is not None:
            return work
    lifts = all(capture.others for capture in open_captures())
    member: FamilyMember | None = None
    own = _own_picks(order, outputs)
    if _varying and lifts and tuple([node.op for node in (order if own is None else own.order)]) in _varying:
        member = _member(order, outputs, own)
        if member is not None and (work := _of_family(member, outputs)) is not None:
            return work
    if form is None:
        form = form_of(order, outputs)
        if form is None:
            return None
        if (work := _of_form(form, outputs)) is not None:
            return work
    key = (form.key, *_where(form.devices))
    if member is None:
        member = _member(order, outputs, own)
        if member is not None and lifts and (work := _of_family(member, outputs)) is not None:
            return work
    if member is not None and lifts and (lifted := _lifted(member, key)) is not None:
        plan, arguments = lifted
        return _captured(_on(plan, form.buffers, outputs, form.values | arguments), arguments)
    stays = "" if member is None else member.family.stays
    if captured or stays or DEBUG.value >= 1 or events.on_repeat:
        from tinygraft.engine import repeated  # it reports, which few programs need

        repeated.note(order, outputs, captured, stays)
    plan = _plan_for(key, form, outputs)
    if member is not None:
        member.compiled()
    return _on(plan, form.buffers, outputs, form.values)


def _of_form(form: Form, outputs: Sequence[UOp]) -> BoundPlan | None:
    """Return the BoundPlan of a graph by the plan of its form; None where that is not in memory."""
    if (plan := _known((form.key, *_where(form.devices)))) is None:
        return None
    work = _on(plan, form.buffers, outputs, form.values)
    work.plan, work.devices = plan, form.devices
    return work


def _of_family(member: FamilyMember, outputs: Sequence[UOp]) -> BoundPlan | None:
    """Return the BoundPlan of a graph by a plan of its family that takes its numbers; None where there is none."""
    numbers = member.numbers
    options = _where(numbers.devices)[1]
    if (found := member.known(lambda lifted: _sums_as_before(member, lifted, options))) is None:
        return None
    variant, arguments = found
    work = _on(variant.plan, numbers.buffers, outputs, numbers.bound | arguments)
    if not member.originals or member.merges(variant):
        work.plan, work.devices, work.arguments = variant.plan, numbers.devices, member.slots_of(variant)
    return _captured(work, arguments)


def _captured(work: BoundPlan, arguments: Mapping[str, int]) -> BoundPlan:
    """Return `work` for a capture, where one is open: calls that have these numbers as their own (own_numbers.py)."""
    if not open_captures():
        return work
    calls = [
        call if call.kernel is None else replace(call, kernel=given(call.kernel, arguments.items()))
        for call in work.calls
    ]
    values = {name: value for name, value in work.values.items() if name not in arguments}
    return replace(work, calls=calls, values=values | numbers_in(call.kernel for call in calls))


def _where(devices: Iterable[str]) -> tuple[tuple[Backend, ...], Options]:
    """Return the rest of a PlanKey: the backends of a graph, and the options for them."""
    backends = tuple([Device[name] for name in devices if OF_RANK not in name])
    return backends, _options(backends)


def _own_picks(order: Sequence[UOp], outputs: Sequence[UOp]) -> OwnPicks | None:
    """Return the graph with picks of their own (own_picks.py), where it has shared ones.

    None too for a recording, which has origins of nodes as they were written.
    """
    if events.origins is not None or len(order) > LARGEST or not any([node.op is Ops.SHRINK for node in order]):  # noqa: C419
        return None
    from tinygraft.schedule.own_picks import own_picks  # imported where slices are computed with

    return own_picks(order, outputs)


def _member(order: Sequence[UOp], outputs: Sequence[UOp], own: OwnPicks | None) -> FamilyMember | None:
    """Return a graph as one of its family; None where it has no numbers. `own` is the graph with picks of their own."""
    from tinygraft.engine import families  # both are imported when something is compiled
    from tinygraft.schedule.slots import numbers_of

    originals: Mapping[UOp, UOp] = {}
    if own is not None:
        order, outputs, originals = own.order, own.outputs, own.originals
    numbers = numbers_of(order, outputs)
    return None if numbers is None else families.member(numbers, _where(numbers.devices), order, outputs, originals)


def _lifted(member: FamilyMember, key: PlanKey) -> tuple[Plan, dict[str, int]] | None:
    """Make the plan of a member that takes its numbers as arguments; return it with these, or None.

    None where the member is the first of its family, where no kernel can take its numbers, and where sums of floats
    would be added in another order. The plan is added to the family. `key` is that of the plan with constants.
    """
    lifted = member.lift(target_of)
    if lifted is None or not _takes(member, lifted):
        return None
    if not _sums_as_before(member, lifted, key[2]):
        if not member.special(lifted.groups):  # other numbers may do
            member.family.stays = "with the numbers as arguments, sums of floats would be added in another order"
        return None
    form = form_of(postorder(*lifted.outputs), lifted.outputs)
    assert form is not None and form.buffers == member.numbers.buffers, "numbers are no buffers"
    plan = _plan_for((form.key, *key[1:]), form, lifted.outputs)
    if events.origins is not None and plan.origins is not None:  # as numbers in the graphs of members
        known = events.origins.found(postorder(*lifted.outputs), plan.origins)
        plan = replace(plan, origins=events.origins.numbered(member.order, known))
    member.add(lifted, plan)
    if len(_varying) >= MOST:
        _varying.clear()  # what is asked for again is added again
    _varying.add(tuple([node.op for node in member.order]))
    return plan, {name: form.values[name] for name in lifted.names}


def _takes(member: FamilyMember, lifted: Lifted) -> bool:
    """Return whether each kernel of a graph with arguments has room for those that it reads; else the family stays.

    Devices have some hundred bytes for arguments: a kernel takes as many numbers as it takes buffers, or ARGUMENTS.
    """
    least = min([target_of(node.arg).max_params for node in member.order if node.op is Ops.DEVICE])
    least = max(least, ARGUMENTS)
    if len(lifted.names) <= least:
        return True
    calls = [call for call in schedule(lifted.outputs, target_of).calls if isinstance(call, KernelCall)]
    names = [{n.arg.name for n in postorder(call.kernel.sink) if n.op is Ops.VARIABLE} for call in calls]
    if (most := max([len(each.intersection(lifted.names)) for each in names], default=0)) <= least:
        return True
    member.family.stays = f"{most} numbers of a kernel vary, and it takes {least} at most"
    return False


def _sums_as_before(member: FamilyMember, lifted: Lifted, options: Options) -> bool:
    """Return whether a graph with arguments adds floats in the order of the one with constants.

    `lifted` is the graph with arguments, `options` are those that both are compiled with.
    """
    if not member.numbers.combines:
        return True
    from tinygraft.engine.same_sums import same_sums  # imported when a reduction has numbers that vary
    from tinygraft.schedule.slots import with_arguments

    # without the tags of copies, as it was written
    written = with_arguments(member.order, member.outputs, {}) if member.originals else member.outputs
    fixed, made = schedule(written, target_of), schedule(lifted.outputs, target_of)
    targets = {call.device: target_of(call.device) for call in made.calls if not isinstance(call, CopyCall)}
    return same_sums(fixed, made, frozenset(lifted.names), targets, options)


def _known(key: PlanKey) -> Plan | None:
    """Return the plan of a form on some backends where it is in memory; else None."""
    with _lock:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
        return plan


def _plan_for(key: PlanKey, form: Form, outputs: Sequence[UOp]) -> Plan:
    """Return the plan of a form: from memory, from the disk, or made from `outputs`.

    It is cached in memory under `key`; the least recently used ones are dropped beyond MOST, or MOST_NODES of all.
    """
    if (plan := _known(key)) is not None:
        return plan
    plan = _stored_or_made(form, key[1], outputs)
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

    With DEBUG=3, SPEC=1 or a recording the disk is not used: what these print, check and note exists only while a plan
    is made. `backends` are those that the graph names, `outputs` its results.
    """
    looking = DEBUG.value >= 3 or SPEC.value or events.origins is not None
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
    """Return the plan of the schedule `made`, whose compiled calls are `calls`, with numbers for buffers.

    `buffers`, which the graph names, are 0, 1, ... in their order; those that the schedule makes follow in order of
    first use, with what is needed to make them again. For each of `outputs` the plan has the numbers of its memory.
    """
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
    origins = None if events.origins is None else events.origins.numbered(postorder(*outputs), made.origins)
    return Plan(steps, memory, tuple(new), numbers_in(call.kernel for call in calls), origins)


def _on(plan: Plan, buffers: Sequence[UOp], outputs: Sequence[UOp], values: dict[str, int]) -> BoundPlan:
    """Return `plan` on the `buffers` of a graph, in the order of its form; what the plan makes are new BUFFERs.

    `outputs` are those of the graph, in the order of the plan's; `values` the values of variables by name.
    """
    nodes = [*buffers, *[UOp.buffer(*made) for made in plan.made]]
    if events.origins is not None and plan.origins is not None:
        origins = events.origins.found(postorder(*outputs), plan.origins)
    else:
        origins = [()] * len(plan.steps)
    calls = [
        Ready(s.kernel, s.device, tuple([nodes[number] for number in s.buffers]), s.written, known)
        for s, known in zip(plan.steps, origins, strict=True)
    ]
    memory = {
        node: together(node, [nodes[number] for number in numbers])
        for node, numbers in zip(outputs, plan.memory, strict=True)
    }
    return BoundPlan(calls, memory, values | plan.numbers if plan.numbers else values, buffers, plan.placements)
