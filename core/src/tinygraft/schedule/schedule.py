"""From the requested nodes to the kernels and copies that compute them, in order: the list of passes.

    schedule(outputs, target_of) -> Schedule(calls, memory, values, existing)

PASSES is the whole pipeline. The first passes change the graph, the next decide what becomes memory and what is
computed together, the last ones order the calls and write their kernels. passes.py says what a pass is and runs them;
schedule_spec.py has what is checked after each (SPEC=1), texts.py what is shown of it (explain --passes, VIZ=1).

A buffer that is assigned to has several values one after another; a call that reads one of them runs after the call
that writes it and before the one that writes the next. Where no order allows that, because a kernel would have to
read an old value after the new one is needed, the new value gets memory of its own and is copied back last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinygraft import config, events
from tinygraft.schedule import schedule_spec, texts
from tinygraft.schedule.again import NeedsOwnMemory, StoreMore
from tinygraft.schedule.common_steps import in_common_steps
from tinygraft.schedule.convolutions import by_routine
from tinygraft.schedule.equal_values import reduced_once
from tinygraft.schedule.form import note_value
from tinygraft.schedule.fusion import Book
from tinygraft.schedule.homes import give_homes
from tinygraft.schedule.inplace import reuse_buffers
from tinygraft.schedule.multiplied import multiplied_out
from tinygraft.schedule.offsets import share_kernels
from tinygraft.schedule.order import in_order
from tinygraft.schedule.passes import SchedulePass, ScheduleState, run_passes
from tinygraft.schedule.proof import ProofStep, check_values
from tinygraft.schedule.regroup import regroup
from tinygraft.schedule.running import rows_by_routine
from tinygraft.schedule.shard import split_by_device
from tinygraft.schedule.stored import decide
from tinygraft.schedule.tasks import divided, make_tasks, needs_of
from tinygraft.schedule.waits import order_with_waits, without_waits
from tinygraft.target import Target
from tinygraft.uop.held import LEAVES, memory_base, together
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp, postorder, rebuild

_MARKS = frozenset({Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})


@dataclass(frozen=True, slots=True)
class Schedule:
    """Calls in the order in which they run, the memory of each requested node, and the values of bound variables.

    In `memory` is a BUFFER for each node, or a MULTI over those of several devices. `existing` are the BUFFERs of the
    graph: memory that exists before the first call. `origins` has, while a recording is on, for each call where the
    nodes that it computes come from (engine/origins.py).
    """

    calls: tuple[Call, ...]
    memory: dict[UOp, UOp]
    values: dict[str, int]
    existing: set[UOp]
    origins: tuple[tuple[object, ...], ...] = ()


def schedule(outputs: Sequence[UOp], target_of: Callable[[str], Target]) -> Schedule:
    """Return the Schedule that computes `outputs`. `target_of` returns the Target of a device by name.

    The memory of an output with no elements is an empty buffer that no call writes. Raises GraphError where a
    variable is bound to two values, or a check of the result fails.
    """
    order = postorder(*outputs)
    existing = {n for n in order if n.op is Ops.BUFFER}
    parts = {node: (number,) for number, node in enumerate(outputs)}
    requested = tuple(outputs)
    done = run_passes(ScheduleState(requested, target_of, existing, requested, parts, order, Book()), PASSES)
    memory = {
        node: together(node, [done.homes.holder(done.outputs[number]) for number in done.parts[node]])
        for node in requested
    }
    return Schedule(tuple(done.calls), memory, dict(done.values), existing, _origins(done))


def _origins(done: ScheduleState) -> tuple[tuple[object, ...], ...]:
    """Return for each call where the nodes that it computes come from; nothing while no recording is on."""
    if events.origins is None:
        return ()
    ends = frozenset(done.homes.stored)
    written = [[node for _, node in task.writes] for task in done.tasks]
    return tuple([events.origins.of_nodes(nodes, ends) for nodes in written])


# The graph: values stay the same, but for the rounding of long sums


def split_devices(state: ScheduleState) -> ScheduleState:
    """Return the state with a node on several devices replaced by one for each of them (shard.py).

    `parts` then has, for each requested node, the indices of its nodes in `outputs`. Where no node is on several
    devices the state is returned as it is.
    """
    if not any(isinstance(node.device, tuple) for node in state.order):
        return state
    parts, collectives = split_by_device(state.order, state.requested)
    outputs = dict.fromkeys([*(part for node in state.requested for part in parts[node]), *collectives])
    numbers = {part: number for number, part in enumerate(outputs)}
    found = {node: tuple([numbers[part] for part in parts[node]]) for node in state.requested}
    return state.with_outputs(tuple(outputs))._replace(parts=found)


def remove_marks(state: ScheduleState) -> ScheduleState:
    """Return the state with each DETACH and CONTIGUOUS_BACKWARD, marks for gradients alone, replaced by its value.

    A no_grad block detaches every result, so that products, sums and what slides over them are apart by a mark, which
    no later pass has to look through. A mark that is an output itself stays: it may have memory of its own.
    """
    if not any(node.op in _MARKS for node in state.order):
        return state
    wanted = {*state.outputs}
    becomes = rebuild(
        state.order, {}, lambda node, new: new.src[0] if node.op in _MARKS and node not in wanted else new
    )
    return state.with_outputs(_apart(state.outputs, becomes))


def _apart(outputs: Sequence[UOp], becomes: Mapping[UOp, UOp]) -> list[UOp]:
    """Return what each of `outputs` becomes; one that would be the same node as another is a copy.

    x.detach() ** 2 and x * x are one value, but a gradient goes through the memory of one of them alone.
    """
    owners: dict[UOp, UOp] = {}  # new node -> the output that it is
    found = []
    for number, node in enumerate(outputs):
        new = becomes[node]
        if owners.setdefault(new, node) is not node:
            new = UOp(Ops.CONTIGUOUS, node.dtype, (new,), tag=Own(-1 - number))
        found.append(new)
    return found


def remove_waits(state: ScheduleState) -> ScheduleState:
    """Return the state with each AFTER replaced by its value, and what that waits for in `waits` (waits.py)."""
    if not any(node.op is Ops.AFTER for node in state.order):
        return state
    outputs, waits = without_waits(state.outputs)
    return state.with_outputs(outputs)._replace(waits=waits)


def multiply_out(state: ScheduleState) -> ScheduleState:
    """Return the state with powers of whole numbers as multiplications (multiplied.py).

    `outputs`, `order` and `waits` change; the state is returned as it is where there is none.
    """
    return _replaced(state, multiplied_out(state.order))


def reduce_once(state: ScheduleState) -> ScheduleState:
    """Return the state without reductions that are repeated along an axis of equal values (equal_values.py).

    `outputs`, `order` and `waits` change; the state is returned as it is where there is none, and with NOOPT=1.
    """
    return state if config.NOOPT.value else _replaced(state, reduced_once(state.order))


def divide_steps(state: ScheduleState) -> ScheduleState:
    """Return the state without common divisors of the stride and the dilation of a FOLD (common_steps.py).

    `outputs`, `order` and `waits` change; the state is returned as it is where there is none, and with NOOPT=1.
    """
    return state if config.NOOPT.value else _replaced(state, in_common_steps(state.order))


def choose_limits(state: ScheduleState) -> ScheduleState:
    """Return the state with `target`, whose limits kernels have: with several devices, the least limits of all.

    These are the limits of operations and of parameters; all else is that of the first device.
    """
    nodes = (*state.outputs, *state.order)
    devices = dict.fromkeys(n.device for n in nodes if n.device is not None and n.op not in LEAVES)
    if not devices:  # a rank of whose memory nothing is written has a BUFFER alone
        devices = dict.fromkeys([n.device for n in nodes if isinstance(n.device, str)][:1] or [""])
    first, *others = [state.target_of(device) for device in devices]
    for other in others:
        room = min(first.max_ops, other.max_ops), min(first.max_params, other.max_params)
        if room != (first.max_ops, first.max_params):
            first = replace(first, max_ops=room[0], max_params=room[1])
    return state._replace(target=first)


def cut_long_loops(state: ScheduleState) -> ScheduleState:
    """Return the state with long reductions in two steps, long scans in blocks, long CATs in groups (regroup.py).

    `outputs`, `order` and `waits` change; the state is returned as it is where nothing is long.
    """
    return _replaced(state, regroup(state.order, state.target))


def choose_routines(state: ScheduleState) -> ScheduleState:
    """Return the state with a ROUTINE for each convolution, and for running sums, where the device's is faster.

    convolutions.py and running.py say which.

    `outputs`, `order` and `waits` change; the state is returned as it is where there is none, with ROUTINES=0, and with
    NOOPT=1, which leaves loops as they are written.
    """
    if (
        not config.ROUTINES.value
        or config.NOOPT.value
        or not any(n.op in (Ops.WINDOW, Ops.FOLD, Ops.SCAN) for n in state.order)
    ):
        return state
    fast = config.PRECISION.value == config.FAST
    waiting = {*state.waits, *state.waits.values()}
    done = _replaced(state, by_routine(state.order, state.outputs, state.target_of, fast, waiting))
    done = _replaced(done, rows_by_routine(done.order, done.target_of))
    if done is state:
        return state
    # an output that a routine made, in another shape, is that memory and no copy of it, unless two outputs would be
    bases = [memory_base(node) for node in done.outputs]
    whole = [base.op is Ops.ROUTINE and bases.count(base) == 1 for base in bases]
    return done.with_outputs([b if own else node for b, own, node in zip(bases, whole, done.outputs, strict=True)])


def _replaced(state: ScheduleState, becomes: Mapping[UOp, UOp]) -> ScheduleState:
    """Return the state with what its nodes become, in `outputs`, `order` and `waits`; as it is for none."""
    if not becomes:
        return state
    waits = {becomes[n]: becomes[w] for n, w in state.waits.items() if n in becomes and w in becomes}
    return state.with_outputs(_apart(state.outputs, becomes))._replace(waits=waits)


def order_nodes(state: ScheduleState) -> ScheduleState:
    """Return the state with awaited nodes before those that wait for them in `order`.

    A wait for a node that is not computed is dropped from `waits`.
    """
    if not state.waits:
        return state
    computed = set(state.order)
    waits = {node: awaited for node, awaited in state.waits.items() if node in computed and awaited in computed}
    return state._replace(waits=waits, order=order_with_waits(state.outputs, waits))


def bind_variables(state: ScheduleState) -> ScheduleState:
    """Return the state with the values of variables, those in shapes too, in `values`.

    Raises GraphError for a variable with two values.
    """
    values: dict[str, int] = {}
    sizes = {size for n in state.order for size in n.shape if isinstance(size, UOp)}
    for node in postorder(*state.order, *sizes) if sizes else state.order:
        if node.op is Ops.BIND:
            note_value(node, values)
    return state._replace(values=values) if values else state


# What becomes memory, and which nodes are computed together


def choose_stored(state: ScheduleState) -> ScheduleState:
    """Return the state with the nodes that become memory in `stored` (stored.py), and in `wanted` which are requested.

    All others are computed where they are needed.
    """
    wanted = {node for node in state.outputs if node.op is not Ops.BUFFER}
    return state._replace(wanted=wanted, stored=decide(state.order, wanted | _bases(state.order), state.target))


def _bases(order: Iterable[UOp]) -> set[UOp]:
    """Return the bases of scatters and of assigned views, which are stored: only some of their elements are written.

    Those that are a BUFFER are in memory already, and left out.
    """
    bases = set()
    for node in order:
        if node.op is Ops.SCATTER or (node.op is Ops.ASSIGN and len(node.src) == 3):
            bases.add(memory_base(node.src[0]))
    return {b for b in bases if b.op is not Ops.BUFFER}


def assign_buffers(state: ScheduleState) -> ScheduleState:
    """Return the state with a BUFFER for each stored node in `homes` (homes.py), and the memory it needs in `needs`."""
    homes = give_homes(state.order, state.stored, state.private, state.wanted)
    return state._replace(homes=homes, needs=needs_of(state.order, state.stored, state.waits))


def fuse(state: ScheduleState) -> ScheduleState | StoreMore:
    """Return the state with stored nodes put into kernels, in `work` (fusion.py).

    Returns StoreMore, a request, where a loop would repeat a reduction.
    """
    work = divided(state.homes, state.needs, state.target, state.book)
    return work if isinstance(work, StoreMore) else state._replace(work=work)


# What runs, in order


def list_tasks(state: ScheduleState) -> ScheduleState | NeedsOwnMemory:
    """Return the state with a task for each kernel and copy in `tasks`, in no order (tasks.py).

    Returns NeedsOwnMemory, a request, where a kernel would read what it overwrote.
    """
    tasks = make_tasks(state.work, state.homes, state.needs)
    return tasks if isinstance(tasks, NeedsOwnMemory) else state._replace(tasks=tasks)


def order_tasks(state: ScheduleState) -> ScheduleState | NeedsOwnMemory:
    """Return the state with `tasks` in order: writers before readers, and these before the next writer (order.py).

    Returns NeedsOwnMemory, a request, where these form a cycle.
    """
    tasks = in_order([*state.tasks], state.homes.versions, state.homes.kept, state.private)
    return tasks if isinstance(tasks, NeedsOwnMemory) else state._replace(tasks=tasks)


def write_kernels(state: ScheduleState) -> ScheduleState:
    """Return the state with the call of each task in `calls`; equal kernels are written once (draft.py)."""
    return state._replace(calls=[task.make() for task in state.tasks])


def reuse_memory(state: ScheduleState) -> ScheduleState:
    """Return the state with kernels that overwrite a buffer that they are the last to read (inplace.py).

    `moved` then has the BUFFERs that are no longer used, each with the one whose memory has its value.
    """
    calls, moved = reuse_buffers(state.calls, state.homes.kept)
    return state._replace(calls=calls, moved=moved)


def share(state: ScheduleState) -> ScheduleState:
    """Return the state with calls whose kernels differ in where they read alone on one kernel (offsets.py)."""
    calls = share_kernels(state.calls)
    return state if calls is state.calls else state._replace(calls=calls)


def prove(state: ScheduleState) -> ScheduleState:
    """Return `state` itself. Raises GraphError where a call reads other values than it was scheduled to (proof.py)."""
    steps = [ProofStep(call, task.reads, task.writes) for call, task in zip(state.calls, state.tasks, strict=True)]
    check_values(steps, state.existing, state.homes.ends(state.wanted), state.moved)
    return state


PASSES = (
    SchedulePass("split devices", split_devices, schedule_spec.single_devices, texts.graph),
    # before all passes that look for an operation beside another one
    SchedulePass("remove marks", remove_marks, schedule_spec.single_devices, texts.graph),
    # before all passes that look through movement, which an AFTER would hide
    SchedulePass("remove waits", remove_waits, schedule_spec.plain_values, texts.graph),
    # before all passes that look for products
    SchedulePass("multiply out", multiply_out, schedule_spec.plain_values, texts.graph),
    # before all passes that choose how products and sums are computed
    SchedulePass("reduce once", reduce_once, schedule_spec.plain_values, texts.graph),
    # before all passes that look for convolutions
    SchedulePass("divide steps", divide_steps, schedule_spec.plain_values, texts.graph),
    SchedulePass("choose limits", choose_limits, schedule_spec.nothing, texts.limits),
    # before long loops are cut: the gradient of a convolution with many channels is one
    SchedulePass("choose routines", choose_routines, schedule_spec.plain_values, texts.graph),
    SchedulePass("cut long loops", cut_long_loops, schedule_spec.plain_values, texts.graph),
    # from here on no pass changes the graph
    SchedulePass("order nodes", order_nodes, schedule_spec.sources_first, texts.graph),
    SchedulePass("bind variables", bind_variables, schedule_spec.nothing, texts.variables),
    SchedulePass("choose stored", choose_stored, schedule_spec.stored_nodes, texts.stored),
    # from here on passes are repeated until none requests more; what was granted stays stored, and private
    SchedulePass("assign buffers", assign_buffers, schedule_spec.homes_with_room, texts.homes),
    SchedulePass("fuse", fuse, schedule_spec.made_once, texts.kernels, again="assign buffers"),
    SchedulePass("list tasks", list_tasks, schedule_spec.written_once, texts.tasks, again="assign buffers"),
    SchedulePass("order tasks", order_tasks, schedule_spec.written_once, texts.tasks, again="assign buffers"),
    # after all passes that make requests: a repetition would discard the kernels. Codegen checks each kernel graph
    SchedulePass("write kernels", write_kernels, schedule_spec.nothing, texts.calls),
    # after the order, from which the last reader of a value follows
    SchedulePass("reuse memory", reuse_memory, schedule_spec.nothing, texts.calls),
    # after all passes that write kernels, of which each would be another one for each number
    SchedulePass("share kernels", share, schedule_spec.nothing, texts.calls),
    # last: it proves the very calls that will run
    SchedulePass("prove", prove, schedule_spec.nothing, texts.calls),
)
