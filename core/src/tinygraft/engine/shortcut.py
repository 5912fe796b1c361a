"""A realisation like an earlier one: one tensor, whose graph has a form that was launched before, in one short walk.

    realise_again(tensor, live) -> bool

Eager loops and small expressions realise one tensor at a time, and the launch of a small kernel costs less than finding
out that nothing else is concerned. What `realize.py` does in general is done here where the answers are known: one walk
makes the order of the graph, its key and its BUFFERs; the key leads to prepared launches; nothing is overwritten, no
capture is open, and nothing observes. All else, and what fails a test here, is realised in general (collect.py and
so on), which calls `note` with its plan when it found that by its form. `clear()` drops all shortcuts.

The key differs from that of a form (schedule/form.py) in that nodes without memory upstream stand for themselves, so
that the walk does not enter them: equal ones are one object. They are known after a graph was noted once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft import events
from tinygraft.config import BEAM, DEBUG, NOOPT, PRECISION, ROUTINES, VALIDATE
from tinygraft.device.buffer import Buffer, buffer_of, new_buffer
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.engine.arena import free_temporaries, place_again
from tinygraft.engine.assigns import HasNode, LiveTensors
from tinygraft.engine.capture import open_captures
from tinygraft.engine.own_numbers import Compiled
from tinygraft.engine.pack import Plan
from tinygraft.engine.run import launch_failed, run_kernel
from tinygraft.engine.tape import defer, is_tracked_alone, nodes_requiring_grad
from tinygraft.hooks.manager import here as hooks
from tinygraft.uop.held import in_shape
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp

# given: nodes by which a realisation may concern other tensors, that have no value yet, or are on several devices
INVOLVED = frozenset({
    Ops.ASSIGN, Ops.BIND, Ops.CONTIGUOUS, Ops.COPY, Ops.FUNCTION, Ops.MULTI, Ops.PLACEHOLDER, Ops.ROUTINE, Ops.SHARD,
    Ops.THREEFRY, Ops.VARIABLE,
})  # fmt: skip
# assumed: bounds on memory that no usual program meets, as those of plans
MOST = 256  # shortcuts; all are dropped then, and those that are in use are noted again
LONGEST = 4096  # nodes of a graph that gets one
Key = tuple[Any, ...]


@dataclass(slots=True)
class PreparedLaunch:
    """A kernel with all that its launch needs but memory: `slots` are numbers of buffers, as in a Plan."""

    kernel: Compiled
    device: str
    slots: tuple[int, ...]
    variables: list[int]
    grid: tuple[int, int, int]
    flops: int
    moved: int


@dataclass(slots=True)
class Shortcut:
    """What graphs of one form launch. `backends` are those that it was noted for, by their names.

    `result` is the number of the buffer of the value; `made` has the device, size and dtype of each buffer that the
    graph does not name, `numbers` the values of variables that belong to a launch.
    """

    plan: Plan
    backends: list[tuple[str, Backend]]
    launches: list[PreparedLaunch]
    result: int
    made: list[tuple[str, int, Any]]
    numbers: dict[str, int]


@dataclass(slots=True)
class Walked:
    """A graph as the walk found it: its key, None where it gets no shortcut; its nodes and BUFFERs, sources first."""

    key: Key | None
    order: list[UOp]
    buffers: list[UOp]


_shortcuts: dict[Key, Shortcut] = {}
_same: set[UOp] = set()  # nodes in keys of shortcuts that have no memory upstream: equal ones are these objects


def clear() -> None:
    """Drop all shortcuts."""
    _shortcuts.clear()
    _same.clear()


def is_possible() -> bool:
    """Return whether this thread has no open capture, no observer and no setting that shortcuts do not know."""
    return not (
        events.active or events.on_launch or events.origins is not None or hooks.has_passes
        or open_captures() or NOOPT.value or BEAM.value or VALIDATE.value or DEBUG.value >= 2
        or PRECISION.value or not ROUTINES.value
    )  # fmt: skip


def walk(root: UOp) -> Walked:
    """Return the order, the key and the BUFFERs of the graph of `root`, by one walk that enters no known constants.

    The key is None where the graph has a node of INVOLVED, or more than LONGEST nodes; the rest is of no use then.
    """
    numbers: dict[UOp, int] = {root: 0}
    key: list[Any] = []
    order: list[UOp] = []
    buffers: list[UOp] = []
    stack: list[tuple[UOp, Iterator[UOp]]] = []
    same = _same
    node, remaining = root, iter(root.src)
    while True:
        for source in remaining:
            if source not in numbers:
                numbers[source] = len(key)
                if source in same:
                    key.append(source)
                elif source.op is Ops.BUFFER:
                    order.append(source)
                    buffers.append(source)
                    key.append((source.arg.size, source.dtype, source.device))
                elif source.src:
                    stack.append((node, remaining))
                    node, remaining = source, iter(source.src)
                    break
                elif source.op in INVOLVED:
                    return Walked(None, order, buffers)
                else:
                    order.append(source)
                    key.append(source)
        else:
            op, src, arg, tag = node.op, node.src, node.arg, node.tag
            if op in INVOLVED:
                return Walked(None, order, buffers)
            numbers[node] = len(key)
            order.append(node)
            if tag is not None and isinstance(tag, Own):
                tag = None  # whose value it is changes no kernel
            if op is Ops.CONST:
                key.append(node)  # those of 1, True and 1.0 differ
            elif len(src) == 2:
                key.append((op, node.dtype, arg, tag, numbers[src[0]], numbers[src[1]]))
            elif len(src) == 1:
                key.append((op, node.dtype, arg, tag, numbers[src[0]]))
            else:
                key.append((op, node.dtype, arg, tag, *map(numbers.__getitem__, src)))
            if not stack:
                break
            node, remaining = stack.pop()
    return Walked(tuple(key) if len(key) <= LONGEST else None, order, buffers)


def realise_again(tensor: HasNode, root: UOp, walked: Walked, live: LiveTensors) -> bool:
    """Realise `tensor` where the graph of `root`, its node that becomes memory, has a shortcut; else return False.

    Nothing has changed then. False, too, where another live tensor may have `root` in its graph, or what is taped
    depends on more than this graph. Raises what allocating and launching raise; the tensor is as before then. The
    caller has the lock.
    """
    found = _shortcuts.get(walked.key)  # type: ignore[arg-type]
    if found is None:
        return False
    for name, backend in found.backends:
        if Device[name] is not backend:
            return False
    flag = tensor.requires_grad
    shape = tensor.uop
    if flag is False or (root is not shape and not (shape.op is Ops.RESHAPE and shape.src == (root,))):
        return False
    others = live.beside(tensor, root.serial)
    if others is None:
        return False
    tracked = False
    if root.dtype.kind == "float":
        requiring = nodes_requiring_grad(others)
        if requiring and (root in requiring or shape in requiring or not _same.isdisjoint(requiring)):
            return False
        if flag:
            requiring.add(root)
        known = is_tracked_alone(root, walked.order, walked.buffers, requiring)
        if known is None:
            return False
        tracked = known
    memory = _run(found, walked.buffers)
    new = in_shape(memory, root.shape)
    if root.dtype.kind == "float":
        defer(root, memory, walked.order, tracked)
        tensor.uop = new if root is shape else UOp(Ops.RESHAPE, root.dtype, (new,), shape.shape, shape.tag)
    else:
        tensor.uop = in_shape(memory, shape.shape)
    return True


def _run(found: Shortcut, graph_buffers: Sequence[UOp]) -> UOp:
    """Launch what `found` has on the BUFFERs of a graph. Returns the new BUFFER of the value."""
    buffers = [buffer_of(node) for node in graph_buffers]
    memory = None
    for made in found.made:
        if len(buffers) == found.result:
            memory, buffer = new_buffer(*made)
            buffers.append(buffer)
        else:
            buffers.append(Buffer(*made))
    assert memory is not None, "a shortcut makes the memory of its value"
    placed: list[Buffer] = []
    try:
        if len(found.launches) > 1:
            placed = place_again(
                found.plan.placements[0], [[buffers[slot] for slot in each.slots] for each in found.launches]
            )
        for each in found.launches:
            kernel = each.kernel
            mine = [buffers[slot] for slot in each.slots]
            if kernel.timeline is not None:
                run_kernel(kernel, each.device, mine, found.numbers)
                continue
            handles = [buffer.handle for buffer in mine]
            GlobalCounters.kernel_count += 1
            GlobalCounters.global_ops += each.flops
            GlobalCounters.global_mem += each.moved
            try:
                kernel.program.launch(handles, each.variables, each.grid)
            except (Exception, SystemExit) as error:
                launch_failed(error, kernel, each.device)
    finally:
        if placed:
            free_temporaries(placed)
    return memory


def note(walked: Walked, root: UOp, plan: Plan, names: Sequence[str]) -> None:
    """Note `plan`, that of the form of a graph, as what its like launch; nothing happens where it is no simple one.

    `names` are the devices that the graph names. Nodes of the graph without memory upstream become known as such: where
    there are new ones, later walks make another key, and the next graph is noted again.
    """
    (memory,) = plan.memory
    count = len(walked.buffers)
    if len(memory) != 1 or memory[0] < count or (len(plan.steps) > 1 and not plan.placements):
        return
    launches = []
    for step in plan.steps:
        if step.kernel is None or any(slot < count for slot in (step.buffers[place] for place in step.written)):
            return
        signature, cost = step.kernel.signature, step.kernel.cost
        if any(name not in plan.numbers for name in signature.variables):
            return
        x, y, z = (size_of(size, plan.numbers) for size in signature.grid)
        variables = [plan.numbers[name] for name in signature.variables]
        flops, moved = size_of(cost.flops, plan.numbers), size_of(cost.bytes, plan.numbers)
        launches.append(PreparedLaunch(step.kernel, step.device, step.buffers, variables, (x, y, z), flops, moved))
    if len(_shortcuts) >= MOST:
        clear()
    backends = [(name, Device[name]) for name in dict.fromkeys(names)]
    assert walked.key is not None, "a graph without a key is not noted"
    _shortcuts[walked.key] = Shortcut(plan, backends, launches, memory[0], list(plan.made), plan.numbers)
    own = {Ops.BUFFER}
    for node in walked.order:  # without `root`: a graph of constants alone is in memory then
        if node is not root and node.op not in own and not isinstance(node.tag, Own) and _same.issuperset(node.src):
            _same.add(node)
