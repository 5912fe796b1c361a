"""The order in which the kernels and copies of a schedule run.

Tasks in, each with the values that it reads and writes, and for each buffer the values that it holds one after another;
the tasks out, so that a value is written before it is read and read before the next one takes its place. Of the tasks
that can run next, one after which less memory is needed than before comes first: in a training step the gradient of a
weight, which ends the life of what it is computed from.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from tinygraft.errors import GraphError
from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.kernel_body import numel
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp


@dataclass(eq=False, slots=True)
class Task:
    """A call on its way into the order. reads and writes are (buffer, the node whose value it then holds)."""

    make: Callable[[], Call]
    reads: set[tuple[UOp, UOp]] = field(default_factory=set)
    writes: set[tuple[UOp, UOp]] = field(default_factory=set)


def assigned_late(stored: list[UOp], needs: Mapping[UOp, set[UOp]]) -> list[UOp]:
    """Stored nodes, what they need first, and assigned values only where nothing else can come: after the readers of
    the values that they replace, so that it is known which kernels these are in."""
    waiting = {node: sum(need in needs for need in needs[node]) for node in stored}
    users: dict[UOp, list[UOp]] = {}
    for node in stored:
        for need in needs[node]:
            users.setdefault(need, []).append(node)
    number = {node: (node.op is Ops.ASSIGN, i) for i, node in enumerate(stored)}
    ready = [(number[node], node) for node in stored if not waiting[node]]
    found: list[UOp] = []
    while ready:
        _, node = heapq.heappop(ready)
        found.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (number[user], user))
    return found


def in_order(
    tasks: list[Task], versions: dict[UOp, list[UOp]], kept: Set[UOp] = frozenset(), private: Set[UOp] = frozenset()
) -> list[Task] | NeedsOwnMemory:
    """Tasks in an order in which each reads the values it means to read. Raises NeedsOwnMemory when there is none.

    kept are the buffers that are there before or stay afterwards: their memory is no concern of the order. private are
    the values that have memory of their own already.
    """
    writers = {write: task for task in tasks for write in task.writes}
    readers: dict[tuple[UOp, UOp], list[Task]] = {}
    for task in tasks:
        for read in task.reads:
            readers.setdefault(read, []).append(task)
    after: dict[Task, set[Task]] = {task: set() for task in tasks}
    for buffer, values in versions.items():
        for held, following in zip(values, [*values[1:], None], strict=True):
            here = readers.get((buffer, held), [])
            writer = writers.get((buffer, held))
            for task in here:
                if writer is not None and writer is not task:
                    after[task].add(writer)
            overwriter = writers.get((buffer, following)) if following is not None else None
            if overwriter is not None:
                after[overwriter].update(
                    task for task in [*here, writer] if task is not None and task is not overwriter
                )
    ordered, waiting, then = _topological(tasks, after, _MemoryUse(tasks, kept))
    if len(ordered) < len(tasks):
        return NeedsOwnMemory(_cheapest(_in_circles(tasks, waiting, after, then), versions, private))
    return ordered


class _MemoryUse:
    """What each task does to the memory that is in use while only some of the others have run."""

    def __init__(self, tasks: list[Task], kept: Set[UOp]) -> None:
        self.buffers = {task: {b for b, _ in (*task.reads, *task.writes)} - kept for task in tasks}
        self.users: dict[UOp, set[Task]] = {}  # of each buffer, those that have not run
        for task in tasks:
            for buffer in self.buffers[task]:
                self.users.setdefault(buffer, set()).add(task)
        self.used: set[UOp] = set()

    def grows(self, task: Task) -> bool:
        """Whether more is in use after a task than before it."""
        change = 0
        for buffer in self.buffers[task]:
            if len(self.users[buffer]) == 1:
                change -= buffer.arg.size * buffer.dtype.itemsize if buffer in self.used else 0
            elif buffer not in self.used:
                change += buffer.arg.size * buffer.dtype.itemsize
        return change > 0

    def run(self, task: Task) -> list[Task]:
        """Note that a task has run; the tasks that now are the last to use a buffer."""
        last: list[Task] = []
        for buffer in self.buffers[task]:
            self.used.add(buffer)
            self.users[buffer].discard(task)
            if len(self.users[buffer]) == 1:
                last += self.users[buffer]
        return last


def _topological(
    tasks: list[Task], after: dict[Task, set[Task]], memory: _MemoryUse
) -> tuple[list[Task], dict[Task, int], dict[Task, list[Task]]]:
    """Return the tasks in topological order, how many predecessors each still waits for, and its successors.

    `after` has the predecessors of each task. Of the tasks that are ready, one after which no more memory is in use
    than before comes first, then the first in `tasks`; `memory` is updated. Tasks on a cycle, and those that wait for
    one, are not in the order: their count stays above 0.
    """
    waiting = {task: len(first) for task, first in after.items()}
    then: dict[Task, list[Task]] = {}
    for task, first in after.items():
        for before in first:
            then.setdefault(before, []).append(task)
    number = {task: i for i, task in enumerate(tasks)}
    ready = [(memory.grows(task), number[task], task) for task in tasks if not waiting[task]]
    done: dict[Task, None] = {}
    heapq.heapify(ready)
    while ready:
        _, _, task = heapq.heappop(ready)
        if task in done:
            continue
        done[task] = None
        last = memory.run(task)
        for later in then.get(task, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (memory.grows(later), number[later], later))
        for later in last:
            if not waiting[later] and not memory.grows(later):
                heapq.heappush(ready, (False, number[later], later))
    return list(done), waiting, then


def _in_circles(tasks: list[Task], waiting: dict[Task, int], after: dict[Task, set[Task]],
                then: dict[Task, list[Task]]) -> list[Task]:  # fmt: skip
    """The tasks that wait for each other: those left when whatever only waits for them is taken away too."""
    left = {task for task in tasks if waiting[task]}
    ends = [task for task in left if not any(later in left for later in then.get(task, ()))]
    while ends:
        task = ends.pop()
        left.discard(task)
        ends += [b for b in after[task] if b in left and not any(later in left for later in then.get(b, ()))]
    return [task for task in tasks if task in left]


def _cheapest(tasks: list[Task], versions: dict[UOp, list[UOp]], private: Set[UOp]) -> frozenset[UOp]:
    """Of the values that tasks write over others, but for private ones, those that are copied fastest."""
    found = {node for task in tasks for buffer, node in task.writes
             if node.op in (Ops.ASSIGN, Ops.SCATTER) and versions[buffer][0] is not node} - private  # fmt: skip
    if not found:
        raise GraphError("the kernels of this graph need each other's results; this is a bug of the scheduler")
    least = min(numel(node.shape) for node in found)
    return frozenset(node for node in found if numel(node.shape) <= max(least, 16))
