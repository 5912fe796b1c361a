"""Tasks: the kernels and copies that write stored nodes to their homes, each with the values that it reads and writes.

    needs_of(order, stored, waits) -> Needs       what each stored node is computed from
    divided(homes, needs, target, book) -> Work   which nodes are computed together, alone, or copied
    make_tasks(work, homes, needs) -> [Task]      one for each kernel, copy and fill

`divided` may request that more nodes are stored, and `make_tasks` memory of its own for a value (again.py): only for
the first that needs it, since granting that may change whether later ones do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from tinygraft.schedule.again import NeedsOwnMemory, StoreMore
from tinygraft.schedule.alone import alone, is_alone
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.fusion import Book, Group, group_nodes
from tinygraft.schedule.homes import Homes
from tinygraft.schedule.order import Task, assignments_last
from tinygraft.schedule.views import flatten
from tinygraft.target import Target
from tinygraft.uop.held import LEAVES, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import CopyCall, Routine, RoutineCall
from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class Needs:
    """The stored nodes and BUFFERs that each stored node needs: `all` of them, and those that are `awaited`.

    An awaited node has to be in memory first, because of an AFTER, and is perhaps not read.
    """

    all: dict[UOp, set[UOp]] = field(default_factory=dict)
    awaited: dict[UOp, frozenset[UOp]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """The stored nodes by how they are computed."""

    groups: list[Group] = field(default_factory=list)  # kernels of one or several nodes (fusion.py)
    alone: list[UOp] = field(default_factory=list)  # nodes with a kernel of their own (alone.py)
    copies: list[UOp] = field(default_factory=list)  # COPYs of memory to another device
    routines: list[list[UOp]] = field(default_factory=list)  # ROUTINEs, results of one run together


def needs_of(order: Sequence[UOp], stored: Set[UOp], waits: Mapping[UOp, UOp]) -> Needs:
    """Return the Needs of `stored`; `order` is the graph, sources and awaited nodes before users.

    `waits` maps a node to the one that it waits for.
    """
    needs = Needs()
    reach: dict[UOp, frozenset[UOp]] = {}  # node -> the memory that it reads, if it is computed where it is needed
    awaits: dict[UOp, frozenset[UOp]] = {}  # of these, nodes that it waits for
    empty: frozenset[UOp] = frozenset()
    for node in order:
        # an assigned value replaces the old one whole, so it does not need it
        sources = node.src[1:2] if node.op is Ops.ASSIGN and len(node.src) == 2 else node.src
        found = empty
        for source in sources:
            below = frozenset((source,)) if source in stored or source.op is Ops.BUFFER else reach[source]
            if below and not below <= found:
                found = found | below if found else below
        if waits:
            awaits[node] = empty.union(*(awaits[source] for source in sources if source not in stored))
            if (awaited := waits.get(node)) is not None:
                awaits[node] |= {awaited} if awaited in stored else reach[awaited]
            found |= awaits[node]
        reach[node] = found
        if node in stored:
            needs.all[node] = set(found)
            needs.awaited[node] = awaits.get(node, empty)
    return needs


def divided(homes: Homes, needs: Needs, target: Target, book: Book) -> Work | StoreMore:
    """Return the stored nodes of `homes` by how they are computed, or StoreMore where a loop would repeat a reduction.

    Not those without elements, nor an ASSIGN whose scatter is written in place: that scatter writes its value. `needs`
    has what each of them is computed from, `book` caches the states of kernels.
    """
    order = assignments_last(homes.stored, needs.all)
    plain, single, copies = [], [], []
    routines: dict[tuple[Any, ...], list[UOp]] = {}
    for node in order:
        if 0 in node.shape or node in homes.scatters:
            continue
        if node.op is Ops.COPY and memory_base(node.src[0]).op not in LEAVES - {Ops.BUFFER}:
            copies.append(node)
        elif node.op is Ops.ROUTINE:
            routines.setdefault((node.src, node.arg.routine, node.arg.options, needs.awaited[node]), []).append(node)
        elif is_alone(node):
            single.append(node)
        else:
            plain.append(node)
    groups = group_nodes(order, set(order).difference(plain), homes.memory, needs.all, target, book)
    if isinstance(groups, StoreMore):
        return groups
    return Work(groups, single, copies, [sorted(nodes, key=lambda n: n.arg.result) for nodes in routines.values()])


def make_tasks(work: Work, homes: Homes, needs: Needs) -> list[Task] | NeedsOwnMemory:
    """Return a task for each kernel, copy and fill, in no order.

    Returns NeedsOwnMemory for the first kernel that would read elements of an old value after it has overwritten them.
    `work` has the nodes by how they are computed, `homes` where each is stored, `needs` what it is computed from.
    """
    tasks: list[Task] = []
    kernels: list[Group | UOp] = [*work.groups, *work.alone]
    for kernel in kernels:
        made = _kernel(kernel, homes, needs)
        if isinstance(made, NeedsOwnMemory):
            return made
        tasks.append(made)
    for node in work.copies:
        base = memory_base(node.src[0])
        tasks.append(_copy(homes.memory[node], node, homes.buffer(base), base))
    tasks += [_routine(nodes, homes, needs) for nodes in work.routines]
    tasks += [_fill(node, base, copied, homes) for node, base, copied in homes.fills]
    for node, (buffer, after) in homes.copies_back.items():
        tasks.append(_copy(buffer, after, homes.memory[node], node))
    return tasks


def _kernel(kernel: Group | UOp, homes: Homes, needs: Needs) -> Task | NeedsOwnMemory:
    """Return the task of a group, or of a node that has a kernel of its own.

    Returns NeedsOwnMemory, for the values that need it, where the kernel would read what it has overwritten. `homes`
    has the buffers, `needs` the values that each node is computed from.
    """
    made: Group | Draft | NeedsOwnMemory
    made = kernel if isinstance(kernel, Group) else alone(kernel, homes.memory, needs.all[kernel])
    if isinstance(made, NeedsOwnMemory):
        return NeedsOwnMemory(frozenset(homes.finished.get(node, node) for node in made.nodes))
    if overwritten := made.overwritten():
        return NeedsOwnMemory(_in_the_way(made, overwritten, homes.memory))
    # not all memory that the nodes are made of: simplification removes loads, as from a slice of a CAT, and the proof
    # of the calls would look for values that another kernel may have overwritten
    mine, buffers = set(made.nodes), set(made.call().buffers)
    reads = {(homes.buffer(n), n) for n in made.needs if n not in mine}
    awaited = {(homes.buffer(n), n) for node in made.nodes for n in needs.awaited.get(node, ()) if n not in mine}
    written = {*made.nodes, *(homes.finished[n] for n in made.nodes if n in homes.finished)}
    writes = {(homes.memory[n], n) for n in written}
    return Task(made.call, {r for r in reads if r[0] in buffers} | awaited, writes)


def _in_the_way(made: Group | Draft, overwritten: set[UOp], memory: Mapping[UOp, UOp]) -> frozenset[UOp]:
    """Return the values that have to get memory of their own before the kernel `made` can write `overwritten`.

    These themselves, and assigned values in the same buffers that the kernel reads.
    """
    shared = {memory[n] for n in overwritten}
    return frozenset(overwritten | {n for n in made.needs if n.op is Ops.ASSIGN and memory.get(n) in shared})


def _copy(target: UOp, value: UOp, source: UOp, source_value: UOp) -> Task:
    """Return the task that copies `source`, while it has `source_value`, to `target`, which then has `value`."""
    return Task(lambda: CopyCall(target, source), {(source, source_value)}, {(target, value)})


def _routine(nodes: Sequence[UOp], homes: Homes, needs: Needs) -> Task:
    """Return the task that computes `nodes`, results of one routine on the same operands, in one run of it.

    `homes` has their buffers, `needs` the nodes that they wait for.
    """
    first = nodes[0]
    bases = [memory_base(source) for source in first.src]
    operands = tuple([(source.dtype, source.shape) for source in first.src])
    routine = Routine(first.arg.routine, first.arg.options, operands, tuple([node.arg.result for node in nodes]))
    buffers = *[homes.memory[node] for node in nodes], *[homes.buffer(base) for base in bases]
    reads = {(homes.buffer(need), need) for need in (*bases, *needs.awaited.get(first, ()))}
    call = RoutineCall(routine, first.device or "", buffers)
    return Task(lambda: call, reads, {(homes.memory[node], node) for node in nodes})


def _fill(node: UOp, base: UOp, copied: UOp, homes: Homes) -> Task:
    """Return the task that copies `base`, of the scatter or assigned view `node`, to the memory of `node`.

    `copied` stands for the value that this memory then has.
    """
    target = homes.memory[node]
    if base.op in LEAVES - {Ops.BUFFER}:  # a constant is not in memory: a kernel writes it
        draft = Draft(node.device or "", homes.memory)
        index = draft.index(node.shape)
        value = draft.lowering.value(node.src[0], index)
        draft.write(copied, target, flatten(index, node.shape), value)
        return Task(draft.call, set(), {(target, copied)})
    return _copy(target, copied, homes.buffer(base), base)
