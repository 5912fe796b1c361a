"""The order in which the kernels and copies of a schedule run.

In: tasks, each with the values that it reads and writes, and for each buffer the values that it has in sequence. Out:
the tasks in topological order, so that a value is written before it is read and read before it is overwritten. Of
the tasks that are ready, one after which less memory is in use than before comes first: in a training step the
gradient of a weight, which ends the lifetime of its operands.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tinygraft.errors import GraphError
from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.kernel_body import numel
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp

# assumed: never measured
TINY = 16  # elements up to which a copy of a value costs next to nothing


@dataclass(eq=False, slots=True)
class Task:
    """A call that is not ordered yet: `make` makes it.

    `reads` and `writes` are of (buffer, the node whose value it has).
    """

    make: Callable[[], Call]
    reads: set[tuple[UOp, UOp]] = field(default_factory=set)
    writes: set[tuple[UOp, UOp]] = field(default_factory=set)


def assignments_last(stored: list[UOp], needs: Mapping[UOp, set[UOp]]) -> list[UOp]:
    """Return `stored` in topological order, an ASSIGN only where no other node is ready, else in the order given.

    So it comes after the readers of the value that it replaces, whose kernels are then known to fusion. ASSIGNs that
    read each other's old values follow each other, as those of a parameter and its momentum with a weight decay: only
    one kernel can compute them without a copy. `needs` has what each of `stored` is computed from; BUFFERs in it are
    memory that exists before.
    """
    waiting = {node: sum(need in needs for need in needs[node]) for node in stored}
    users: dict[UOp, list[UOp]] = {}
    for node in stored:
        for need in needs[node]:
            users.setdefault(need, []).append(node)
    first = _first_of_exchanges([node for node in stored if node.op is Ops.ASSIGN], needs)
    number = {node: (node.op is Ops.ASSIGN, first.get(node, 0), i) for i, node in enumerate(stored)}
    ready = [(number[node], node) for node in stored if not waiting[node]]
    heapq.heapify(ready)
    found: list[UOp] = []
    while ready:
        _, node = heapq.heappop(ready)
        found.append(node)
        for user in users.get(node, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (number[user], user))
    return found


def _first_of_exchanges(assigns: Sequence[UOp], needs: Mapping[UOp, set[UOp]]) -> dict[UOp, int]:
    """Return for each ASSIGN the least number in `assigns` of those that it is to be in one kernel with.

    They are those whose old values it reads and that read its own, and those of these. `needs` has the memory that each
    reads.
    """
    writer = {memory_base(node.src[0]): node for node in assigns}
    others: dict[UOp, list[UOp]] = {}
    for old, node in writer.items():
        others[node] = [
            other for need in needs[node] if (other := writer.get(need)) not in (None, node) and old in needs[other]
        ]
    found: dict[UOp, int] = {}
    for number, node in enumerate(assigns):
        todo = [node]
        while todo:
            one = todo.pop()
            if one not in found:
                found[one] = number
                todo += others.get(one, ())
    return found


def in_order(
    tasks: list[Task], versions: dict[UOp, list[UOp]], kept: Set[UOp] = frozenset(), private: Set[UOp] = frozenset()
) -> list[Task] | NeedsOwnMemory:
    """Return `tasks` in an order in which each reads the right values, or NeedsOwnMemory where there is none.

    `versions` has the values of each buffer in sequence: a value is read after it is written and before the next is.
    `kept` are the buffers that exist before or after the schedule: their memory does not depend on the order.
    `private` are the values that have memory of their own already. Raises GraphError where no more of that makes an
    order.
    """
    writers = {write: task for task in tasks for write in task.writes}
    readers: dict[tuple[UOp, UOp], list[Task]] = {}
    for task in tasks:
        for read in task.reads:
            readers.setdefault(read, []).append(task)
    predecessors: dict[Task, set[Task]] = {task: set() for task in tasks}
    for buffer, values in versions.items():
        for value, following in zip(values, [*values[1:], None], strict=True):
            here = readers.get((buffer, value), [])
            writer = writers.get((buffer, value))
            for task in here:  # read after write
                if writer is not None and writer is not task:
                    predecessors[task].add(writer)
            # write after read, and write after write
            overwriter = writers.get((buffer, following)) if following is not None else None
            if overwriter is not None:
                predecessors[overwriter].update(
                    task for task in [*here, writer] if task is not None and task is not overwriter
                )
    ordered, waiting, successors = _topological(tasks, predecessors, _MemoryUse(tasks, kept))
    if len(ordered) < len(tasks):
        return NeedsOwnMemory(_cheapest(_on_cycles(tasks, waiting, predecessors, successors), versions, private))
    return ordered


class _MemoryUse:
    """Tracks which temporaries are in use while tasks are put into order; `kept` buffers do not count."""

    def __init__(self, tasks: list[Task], kept: Set[UOp]) -> None:
        self.buffers = {task: {b for b, _ in (*task.reads, *task.writes)} - kept for task in tasks}
        self.users: dict[UOp, set[Task]] = {}  # of each buffer, those that have not run
        for task in tasks:
            for buffer in self.buffers[task]:
                self.users.setdefault(buffer, set()).add(task)
        self.used: set[UOp] = set()

    def grows(self, task: Task) -> bool:
        """Return whether more memory is in use after `task` than before it, if it runs next."""
        change = 0
        for buffer in self.buffers[task]:
            if len(self.users[buffer]) == 1:
                change -= buffer.arg.size * buffer.dtype.itemsize if buffer in self.used else 0
            elif buffer not in self.used:
                change += buffer.arg.size * buffer.dtype.itemsize
        return change > 0

    def run(self, task: Task) -> list[Task]:
        """Record that a task has run. Returns the tasks that now are the last to use a buffer."""
        last: list[Task] = []
        for buffer in self.buffers[task]:
            self.used.add(buffer)
            self.users[buffer].discard(task)
            if len(self.users[buffer]) == 1:
                last += self.users[buffer]
        return last


def _topological(
    tasks: list[Task], predecessors: dict[Task, set[Task]], memory: _MemoryUse
) -> tuple[list[Task], dict[Task, int], dict[Task, list[Task]]]:
    """Return the tasks in topological order, how many predecessors each still waits for, and its successors.

    Of the tasks that are ready, one after which no more memory is in use than before comes first, then the first in
    `tasks`; `memory` is updated. Tasks on a cycle, and those that wait for one, are not in the order: their count stays
    above 0. `predecessors` has, for each task, those that have to run before it.
    """
    waiting = {task: len(first) for task, first in predecessors.items()}
    successors: dict[Task, list[Task]] = {}
    for task, first in predecessors.items():
        for predecessor in first:
            successors.setdefault(predecessor, []).append(task)
    number = {task: i for i, task in enumerate(tasks)}
    ready = [(memory.grows(task), number[task], task) for task in tasks if not waiting[task]]
    done: dict[Task, None] = {}
    heapq.heapify(ready)
    while ready:
        _, _, task = heapq.heappop(ready)
        if task in done:  # pushed again when it became the last user of a buffer
            continue
        done[task] = None
        last = memory.run(task)
        for later in successors.get(task, ()):
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (memory.grows(later), number[later], later))
        for later in last:
            if not waiting[later] and not memory.grows(later):
                heapq.heappush(ready, (False, number[later], later))
    return list(done), waiting, successors


def _on_cycles(tasks: list[Task], waiting: dict[Task, int], predecessors: dict[Task, set[Task]],
               successors: dict[Task, list[Task]]) -> list[Task]:  # fmt: skip
    """Return the tasks on cycles, and those between two of them.

    They are what remains of the tasks that could not be ordered (a count above 0 in `waiting`) when those without
    remaining successors are removed, again and again. `predecessors` and `successors` have the tasks that each one
    waits for, and those that wait for it.
    """
    left = {task for task in tasks if waiting[task]}

    def ends(task: Task) -> bool:
        """Return whether no task that is left waits for `task`."""
        return not any(later in left for later in successors.get(task, ()))

    removable = [task for task in left if ends(task)]
    while removable:
        task = removable.pop()
        left.discard(task)
        removable += [before for before in predecessors[task] if before in left and ends(before)]
    return [task for task in tasks if task in left]


def _cheapest(tasks: list[Task], versions: dict[UOp, list[UOp]], private: Set[UOp]) -> frozenset[UOp]:
    """Return the smallest of the values that `tasks` write over others: memory of their own costs a copy of each.

    They are those with the fewest elements, or, where there are such, all of up to TINY. Those of `private` have memory
    of their own already. Raises GraphError where no others overwrite. `versions` has the values of each buffer in
    sequence.
    """
    found = {node for task in tasks for buffer, node in task.writes
             if node.op in (Ops.ASSIGN, Ops.SCATTER) and versions[buffer][0] is not node} - private  # fmt: skip
    if not found:
        raise GraphError("the kernels of this graph need each other's results; this is a bug of the scheduler")
    least = min(numel(node.shape) for node in found)
    # all tiny ones at once, which saves repetitions of the passes
    return frozenset(node for node in found if numel(node.shape) <= max(least, TINY))
