"""A realisation like an earlier one: tensors whose graph has a form that was launched before, in one short walk.

    realise_again(tensors, roots, walked, live) -> bool

Eager loops and small expressions realise one tensor at a time, or a loss with its gradients, and the launch of a small
kernel costs less than finding out that nothing else is concerned. What `realize.py` does in general is done here where
the answers are known: one walk makes the order of the graph, its key and its BUFFERs; the key leads to prepared
launches; nothing is overwritten, no capture is open, and nothing observes. All else, and what fails a test here, is
realised in general (collect.py and so on), which calls `note` with its plan when it found that by its form. `clear()`
drops all shortcuts.

The key differs from that of a form (schedule/form.py) in two ways. Nodes without memory upstream stand for themselves,
so that the walk does not enter them: equal ones are one object. They are known after a graph was noted once. And
Python's numbers, constants and starts of slices, are left out: a key leads to the launches of each combination of them
that was noted, and to launches that take those that vary as arguments (families.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from tinygraft import events
from tinygraft.config import plain_launches
from tinygraft.device.buffer import Buffer, buffer_of, new_buffer
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.engine.arena import free_temporaries, place_again
from tinygraft.engine.assigns import HasNode, LiveTensors
from tinygraft.engine.capture import open_captures
from tinygraft.engine.computed_again import due, was_computed
from tinygraft.engine.own_numbers import Compiled
from tinygraft.engine.pack import Plan
from tinygraft.engine.rebind import rebind
from tinygraft.engine.record_results import record_results
from tinygraft.engine.run import copy, launch_failed, run_kernel
from tinygraft.engine.tape import (
    defer,
    is_tracked_alone,
    is_used,
    may_defer,
    nodes_requiring_grad,
    note_rebuilt,
    record_alone,
)
from tinygraft.hooks.manager import here as hooks
from tinygraft.schedule.multiplied import exponent_kind
from tinygraft.schedule.slots import START, NumberSlot, argument_of
from tinygraft.uop.held import HELD, PLAIN, in_shape, is_no_memory, memory_base
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, postorder, rebuild, toposort

# given: nodes by which a realisation may concern other tensors, that have no value yet, or are on several devices
INVOLVED = frozenset({
    Ops.ASSIGN, Ops.BIND, Ops.CONTIGUOUS, Ops.COPY, Ops.MULTI, Ops.PLACEHOLDER, Ops.ROUTINE, Ops.SHARD, Ops.VARIABLE,
})  # fmt: skip
_STORED = frozenset({Ops.CONTIGUOUS, Ops.ROUTINE})  # of these, what only tensors concern that are younger
# assumed: bounds on memory that no usual program meets, as those of plans
MOST = 256  # shortcuts; all are dropped then, and those that are in use are noted again
LONGEST = 4096  # nodes of a graph that gets one
VARIANTS = 4  # launches with arguments for one key
# given: operations and bytes of some 30 us, and nodes that take as long to build
LONG_WORK, LONG_GRAPH = 1 << 20, 32
_BROADCAST = frozenset({Ops.RESHAPE, Ops.EXPAND})  # of a constant: still one number
Key = tuple[Any, ...]
GraphNumber = UOp | int  # a CONST, or the start of a slice
NumberPlace = (
    UOp | tuple[UOp, int]
)  # where a number is: what is an operand and has its one value, or a SHRINK and an axis


@dataclass(slots=True)
class PreparedLaunch:
    """A kernel with all that its launch needs but memory: `slots` are numbers of buffers, as in a Plan.

    A copy has none. `variables` are the values of `names`; empty where these are arguments that vary.
    """

    kernel: Compiled | None
    device: str
    slots: tuple[int, ...]
    names: tuple[str, ...]
    variables: list[int]
    grid: tuple[int, int, int]
    flops: int
    moved: int


@dataclass(slots=True)
class Shortcut:
    """What graphs of one form launch. `backends` are those that it was noted for, by their names.

    `results` are the numbers of the buffers of the values; `made` has the device, size and dtype of each buffer that
    the graph does not name, `numbers` the values of variables that belong to a launch. `is_long` says that the
    launches take longer than to find out whether a part of the graph was computed before.
    """

    plan: Plan
    backends: list[tuple[str, Backend]]
    launches: list[PreparedLaunch]
    results: tuple[int, ...]
    made: list[tuple[str, int, Any]]
    numbers: dict[str, int]
    is_long: bool


@dataclass(slots=True)
class Numbered:
    """A Shortcut for graphs that differ in numbers: which of them it takes as arguments, by their place in the walk.

    `arguments` has, by the name of each, the places with their distances from it; `fixed` what other numbers have to
    be.
    """

    shortcut: Shortcut
    arguments: list[tuple[str, list[tuple[int, int]]]]
    fixed: list[tuple[int, GraphNumber]]

    def values(self, numbers: Sequence[GraphNumber]) -> dict[str, int] | None:
        """Return the values of variables for the numbers of a graph; None where the shortcut is not for these.

        0, 1, -1 and NaN, which families treat in ways of their own (slots.py), are left to the general way.
        """
        for place, number in self.fixed:
            if numbers[place] is not number and numbers[place] != number:
                return None
        found = dict(self.shortcut.numbers)
        for name, ((first, _), *others) in self.arguments:
            number = numbers[first]
            for place, distance in others:
                other = numbers[place]
                if (other != number + distance) if isinstance(number, int) else (other is not number):
                    return None
            if isinstance(number, int):
                found[name] = number
            elif number.arg in (0, 1, -1) or number.arg != number.arg:
                return None
            else:
                found[name] = argument_of(number)
        return found


@dataclass(slots=True)
class KnownLaunches:
    """The shortcuts of one key: by all numbers of graphs, and those that take some as arguments, the latest first."""

    exact: dict[tuple[GraphNumber, ...], Shortcut] = field(default_factory=dict)
    numbered: list[Numbered] = field(default_factory=list)


@dataclass(slots=True)
class Walked:
    """A graph as the walk found it: its key, None where it gets no shortcut; its nodes and BUFFERs, sources first.

    `numbers` are those that are not in the key, `places` where they are. `first` is the least serial of what becomes
    memory: the `roots`, a CONTIGUOUS below them, and the results of a routine.
    """

    key: Key | None
    order: list[UOp]
    buffers: list[UOp]
    roots: tuple[UOp, ...] = ()
    first: int = 0
    numbers: list[GraphNumber] = field(default_factory=list)
    places: list[NumberPlace] = field(default_factory=list)


_handle = attrgetter("handle")
_shortcuts: dict[Key, KnownLaunches] = {}
_count = 0  # of all shortcuts
_same: set[UOp] = set()  # nodes in keys of shortcuts that have no memory upstream: equal ones are these objects


def clear() -> None:
    """Drop all shortcuts."""
    global _count
    _count = 0
    _shortcuts.clear()
    _same.clear()


def is_possible() -> bool:
    """Return whether this thread has no open capture, no observer and no setting that shortcuts do not know."""
    return not (
        events.active or events.on_launch or events.origins is not None or hooks.has_passes
        or open_captures() or not plain_launches()
    )  # fmt: skip


def walk(*roots: UOp) -> Walked:
    """Return the order, the key and the BUFFERs of the graph of `roots`, by one walk that enters no known constants.

    The key is None where the graph has a node of INVOLVED, more than LONGEST nodes, or one root twice; the rest is of
    no use then. One root may be an ASSIGN, and what is not written may have a CONTIGUOUS or the result of a routine.
    """
    root, *more = roots
    at: dict[UOp, int] = {root: 0}  # the place of each node in the key
    key: list[Any] = []
    order: list[UOp] = []
    buffers: list[UOp] = []
    numbers: list[GraphNumber] = []
    places: list[NumberPlace] = []
    stack: list[tuple[UOp, Iterator[UOp]]] = []
    same = _same
    writes = root.op is Ops.ASSIGN
    node, remaining, first = root, iter(root.src), root.serial
    while True:
        for source in remaining:
            if source not in at:
                at[source] = len(key)
                op = source.op
                if source in same:
                    key.append(source)
                elif op is Ops.BUFFER:
                    order.append(source)
                    buffers.append(source)
                    key.append((source.arg.size, source.dtype, source.device))
                elif (op is Ops.CONST or op in _BROADCAST) and (constant := constant_below(source)) is not None:
                    if constant.tag is not None:  # whose number it is changes no kernel
                        constant = UOp(Ops.CONST, constant.dtype, constant.src, constant.arg)
                    numbers.append(constant)
                    places.append(source)
                    key.append((Ops.CONST, source.dtype, source.shape, constant.src))
                elif source.src:
                    stack.append((node, remaining))
                    node, remaining = source, iter(source.src)
                    break
                elif op in INVOLVED:
                    return Walked(None, order, buffers)
                else:
                    order.append(source)
                    key.append(source)
        else:
            op, src, arg, tag = node.op, node.src, node.arg, node.tag
            if op in INVOLVED:
                if (node is not root or more) if op is Ops.ASSIGN else (op not in _STORED or writes):
                    return Walked(None, order, buffers)
                # an equal routine with another result may be older than this one, but not than what it reads
                first = min(first, node.serial if op is Ops.CONTIGUOUS else 1 + max([each.serial for each in src]))
            at[node] = len(key)
            order.append(node)
            if tag is not None and isinstance(tag, Own):
                tag = None  # whose value it is changes no kernel
            if op is Ops.SHRINK:
                arg = _lengths(node, numbers, places)
            elif op is Ops.POW and (constant := constant_below(src[1])) is not None:
                arg = exponent_kind(op, 1, constant)
            elif op is Ops.FUNCTION:
                arg = None  # a derivative changes no kernel
            if len(src) == 2:
                key.append((op, node.dtype, arg, tag, at[src[0]], at[src[1]]))
            elif len(src) == 1:
                key.append((op, node.dtype, arg, tag, at[src[0]]))
            else:
                key.append((op, node.dtype, arg, tag, *map(at.__getitem__, src)))
            if stack:
                node, remaining = stack.pop()
            elif not more:
                break
            else:
                first = min(first, *[each.serial for each in more])
                while more and more[0] in at:  # in the graph of an earlier one, or it twice
                    more.pop(0)
                if not more:
                    break
                node = more.pop(0)
                at[node], remaining = 0, iter(node.src)
    if len(roots) > 1:
        if len({*roots}) < len(roots):
            return Walked(None, order, buffers)
        key.append(tuple([at[each] for each in roots]))
    return Walked(tuple(key) if len(key) <= LONGEST else None, order, buffers, roots, first, numbers, places)


def constant_below(node: UOp) -> UOp | None:
    """Return the CONST whose one value `node` has, which is that or a RESHAPE or EXPAND of it; None for others."""
    while node.op is not Ops.CONST:
        if node.op not in _BROADCAST or len(node.src) != 1:
            return None
        node = node.src[0]
    return node


def _lengths(shrink: UOp, numbers: list[GraphNumber], places: list[NumberPlace]) -> tuple[Any, ...]:
    """Return the arg of a SHRINK with lengths in place of bounds that may be others; their starts go to `numbers`."""
    found: list[Any] = []
    for axis, (bounds, size) in enumerate(zip(shrink.arg, shrink.src[0].shape, strict=True)):
        start, end = bounds
        if type(start) is int and type(end) is int and type(size) is int and 0 < end - start < size:
            numbers.append(start)
            places.append((shrink, axis))
            bounds = end - start
        found.append(bounds)
    return tuple(found)


def launches_for(walked: Walked) -> tuple[Shortcut, dict[str, int] | None] | None:
    """Return the Shortcut of a graph, and the values of variables where numbers are arguments; None if it has none."""
    known = _shortcuts.get(walked.key)  # type: ignore[arg-type]
    if known is None:
        return None
    if (found := known.exact.get(tuple(walked.numbers))) is not None:
        return found, None
    for one in known.numbered:
        if (values := one.values(walked.numbers)) is not None:
            return one.shortcut, values
    return None


def realise_again(tensors: Sequence[HasNode], roots: Sequence[UOp], walked: Walked, live: LiveTensors) -> bool:
    """Realise `tensors` where the graph of `roots`, their nodes that become memory, has a shortcut; else return False.

    Nothing has changed then. False, too, where another live tensor may have one of `roots`, or a CONTIGUOUS below it,
    in its graph. Raises what allocating and launching raise; the tensors are as before then. The caller has the lock.
    """
    launches = launches_for(walked)
    if launches is None:
        return False
    found, values = launches
    for name, backend in found.backends:
        if Device[name] is not backend:
            return False
    taped: list[UOp] = []
    required: list[UOp] = []
    plain = True
    for tensor, root in zip(tensors, roots):  # noqa: B905  faster
        shape, flag = tensor.uop, tensor.requires_grad
        if shape is root or (shape.op is Ops.RESHAPE and shape.src == (root,)):
            if root.dtype.kind == "float":
                if flag is False:
                    plain = False
                taped.append(root)
        elif not _is_detached(tensor, root):
            plain = False
        if flag:
            required.append(root)
    others = live.beside(tensors, walked.first)
    if others is None:
        return False
    if (found.is_long or was_computed(walked.order)) and due(walked.order, roots, live.near(())):
        return False
    tracked = _tracked(tensors, roots, taped, required, walked, others) if taped and plain else {}
    memories = _run(found, walked.buffers, values)
    if tracked is None or not plain:
        results = {root: in_shape(memory, root.shape) for root, memory in zip(roots, memories, strict=True)}
        lazy = [each for each in others if each.uop.serial >= walked.first and memory_base(each.uop).op not in HELD]
        record_results(tensors, lazy, others, live, results, postorder(*roots), (), {})
        rebind(results, [*tensors, *lazy])
        return True
    for tensor, root, memory in zip(tensors, roots, memories):  # noqa: B905  faster
        _commit(tensor, root, memory, walked, tracked.get(root, False))
    return True


def _tracked(
    tensors: Sequence[HasNode], roots: Sequence[UOp], taped: Sequence[UOp], required: Sequence[UOp], walked: Walked,
    others: Sequence[HasNode],
) -> dict[UOp, bool] | None:  # fmt: skip
    """Return which of `taped` are tracked; None where that, or what is recorded, does not follow from each graph alone.

    `required` are those of `roots` whose tensors require a gradient, as do `others`.
    """
    requiring = nodes_requiring_grad(others)
    if requiring and not (
        requiring.isdisjoint(roots)
        and requiring.isdisjoint([t.uop for t in tensors])
        and _same.isdisjoint(requiring)
    ):  # fmt: skip
        return None
    if len(roots) > 1 and not all([_is_apart(root, roots) for root in taped]):  # noqa: C419  faster
        return None
    if required:
        requiring.update(required)
    tracked: dict[UOp, bool] = {}
    for root in taped:
        alone = is_tracked_alone(root, walked.order, walked.buffers, requiring)
        if alone is None:
            return None
        tracked[root] = alone
    return tracked


def _is_apart(root: UOp, roots: Sequence[UOp]) -> bool:
    """Return whether the graph of `root` has no other one of `roots`, whose memory its entry on the tape would name."""
    return {*roots}.isdisjoint(toposort(root, enter=is_no_memory)[:-1])


def _is_detached(tensor: HasNode, root: UOp) -> bool:
    """Return whether a tensor is `root`, reshaped and detached, and no leaf: as a result in a no_grad block."""
    node, found = tensor.uop, False
    while node is not root:
        if node.op not in PLAIN or node.tag is not None or len(node.src) != 1:
            return False
        found = found or node.op is Ops.DETACH
        node = node.src[0]
    return found and not tensor.requires_grad


def _commit(tensor: HasNode, root: UOp, memory: UOp, walked: Walked, tracked: bool) -> None:
    """Give a tensor the `memory` of its value, and tape how it was computed, unless it is detached."""
    shape = tensor.uop
    if shape is not root and (shape.op is not Ops.RESHAPE or shape.src[0] is not root):
        done = rebuild((shape,), {root: in_shape(memory, root.shape)})
        note_rebuilt(done)
        tensor.uop = done[shape]
    elif root.dtype.kind == "float":
        new = in_shape(memory, root.shape)
        order = walked.order if len(walked.roots) == 1 else toposort(root, enter=is_no_memory)
        # what is not tracked no backward has gone through
        keep = defer if may_defer(tracked, walked.buffers) and not (tracked and is_used(root)) else record_alone
        keep(root, memory, order, tracked)
        tensor.uop = new if root is shape else UOp(Ops.RESHAPE, root.dtype, (new,), shape.shape, shape.tag)
    else:
        tensor.uop = in_shape(memory, shape.shape)


def _run(found: Shortcut, graph_buffers: Sequence[UOp], values: dict[str, int] | None) -> list[UOp]:
    """Launch what `found` has on the BUFFERs of a graph. Returns the new BUFFERs of the values.

    `values` are those of variables where numbers of the graph are arguments.
    """
    buffers = list(map(buffer_of, graph_buffers))
    memory: dict[int, UOp] = {}
    for made in found.made:
        number = len(buffers)
        if number in found.results:
            memory[number], buffer = new_buffer(*made)
            buffers.append(buffer)
        else:
            buffers.append(Buffer(*made))
    placed: list[Buffer] = []
    try:
        if len(found.launches) > 1:
            placed = place_again(
                found.plan.placements[0], [[buffers[slot] for slot in each.slots] for each in found.launches]
            )
        for each in found.launches:
            launch(each, list(map(buffers.__getitem__, each.slots)), values, found.numbers)
    finally:
        if placed:
            free_temporaries(placed)
    return [memory[number] for number in found.results]


def launch(
    prepared: PreparedLaunch, buffers: Sequence[Buffer], values: dict[str, int] | None, numbers: dict[str, int]
) -> None:  # fmt: skip
    """Launch a kernel on `buffers`; `values` are those of variables where numbers of the graph are arguments.

    Else they are `numbers`. Raises what the plugin raises.
    """
    kernel = prepared.kernel
    if kernel is None:
        copy(buffers[0], buffers[1])
        return
    if kernel.timeline is not None:
        run_kernel(kernel, prepared.device, buffers, values or numbers)
        return
    variables = prepared.variables if values is None else [values[name] for name in prepared.names]
    handles = list(map(_handle, buffers))
    GlobalCounters.kernel_count += 1
    GlobalCounters.global_ops += prepared.flops
    GlobalCounters.global_mem += prepared.moved
    try:
        kernel.program.launch(handles, variables, prepared.grid)
    except (Exception, SystemExit) as error:
        launch_failed(error, kernel, prepared.device)


def note(
    walked: Walked, roots: Sequence[UOp], plan: Plan, names: Sequence[str],
    arguments: Mapping[str, Sequence[tuple[NumberSlot, int]]],
) -> None:  # fmt: skip
    """Note `plan`, that of a graph, as what its like launch; nothing happens where it is no simple one.

    `names` are the devices that the graph names, `arguments` the numbers that the plan takes as arguments. Nodes of the
    graph without memory upstream become known as such: where there are new ones, later walks make another key, and the
    next graph is noted again.
    """
    if tuple(roots) != walked.roots or any([len(memory) != 1 for memory in plan.memory]):  # noqa: C419  faster
        return
    results = tuple([memory for (memory,) in plan.memory])
    count = len(walked.buffers)
    writes, steps = roots[0].op is Ops.ASSIGN, len(plan.steps)
    if len(results) != len(roots) or len({*results}) != len(results):
        return
    if any([(memory < count) is not writes for memory in results]):  # noqa: C419  faster
        return
    if steps != 1 if writes else steps > 1 and not plan.placements:
        return
    launches = []
    for step in plan.steps:
        written = [step.buffers[place] for place in step.written]
        if written != [*results] if writes else any(slot < count for slot in written):
            return
        if step.kernel is None:
            if writes:
                return
            nbytes = plan.made[written[0] - count][1] * plan.made[written[0] - count][2].itemsize
            launches.append(PreparedLaunch(None, step.device, step.buffers, (), [], (1, 1, 1), 0, 2 * nbytes))
            continue
        if step.kernel.on_host:
            return
        signature, cost = step.kernel.signature, step.kernel.cost
        variables = signature.variables
        if any(name not in plan.numbers and name not in arguments for name in variables):
            return
        try:
            x, y, z, flops, moved = (size_of(size, plan.numbers) for size in (*signature.grid, cost.flops, cost.bytes))
        except KeyError:  # one with a number that varies
            return
        values = [] if arguments else [plan.numbers[name] for name in variables]
        launches.append(
            PreparedLaunch(step.kernel, step.device, step.buffers, variables, values, (x, y, z), flops, moved)
        )
    backends = [(name, Device[name]) for name in dict.fromkeys(names)]
    work = sum([each.flops + each.moved for each in launches])
    is_long = work > LONG_WORK or len(walked.order) > LONG_GRAPH
    _add(walked, Shortcut(plan, backends, launches, results, list(plan.made), plan.numbers, is_long), arguments)
    # not `roots`, as a graph of constants alone is in memory then, nor what has a number that varies
    own = {*roots, *[node for slots in arguments.values() for (node, _), _ in slots]}
    for node in walked.order:
        if node.op is not Ops.BUFFER and node not in own and not isinstance(node.tag, Own) and _is_pure(node):
            _same.add(node)


def _is_pure(node: UOp) -> bool:
    """Return whether the sources of a node are known to have no memory upstream, or are constants."""
    return all([source in _same or constant_below(source) is not None for source in node.src])  # noqa: C419  faster


def _add(
    walked: Walked, shortcut: Shortcut, arguments: Mapping[str, Sequence[tuple[NumberSlot, int]]]
) -> None:  # fmt: skip
    """Add a shortcut to those of the key of a graph; of numbers that it takes as arguments, also for others.

    A number that has another use beside those of its arguments, as in a function that is specialised for it, stays.
    """
    global _count
    if _count >= MOST:
        clear()
    assert walked.key is not None, "a graph without a key is not noted"
    known = _shortcuts.setdefault(walked.key, KnownLaunches())
    if not arguments:
        _count += tuple(walked.numbers) not in known.exact
        known.exact[tuple(walked.numbers)] = shortcut
        return
    at = {place: number for number, place in enumerate(walked.places)}
    taken: dict[NumberPlace, set[NumberSlot]] = {}  # the slots of each number that are arguments
    found: list[tuple[str, list[tuple[int, int]]]] = []
    for name, slots in arguments.items():
        group: dict[int, int] = {}
        for (node, place), distance in slots:
            where: NumberPlace = node.src[place] if place < START else (node, place - START)
            if where not in at:
                return
            group[at[where]] = distance
            taken.setdefault(where, set()).add((node, place))
        found.append((name, list(group.items())))
    free = {at[where] for where, slots in taken.items() if isinstance(where, tuple) or slots == _uses(walked, where)}
    fixed = [(number, value) for number, value in enumerate(walked.numbers) if number not in free]
    known.numbered.insert(0, Numbered(shortcut, found, fixed))
    _count += 1 - len(known.numbered[VARIANTS:])
    del known.numbered[VARIANTS:]


def _uses(walked: Walked, source: UOp) -> set[NumberSlot]:
    """Return each use of `source` as an operand in a graph: the node that it is an operand of, and at which place."""
    return {(node, place) for node in walked.order for place, each in enumerate(node.src) if each is source}
