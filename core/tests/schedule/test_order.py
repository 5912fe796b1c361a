"""The order of kernels: values are written before they are read, and read before the next one takes their place."""

from __future__ import annotations

import itertools
import random

import pytest

from graph_numpy import evaluate
from tensor_nodes import BACKEND, assign, filled, memory, run_graph
from tinygraft import Tensor
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.order import Task, assignments_last, in_order
from tinygraft.schedule.schedule import schedule
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import CopyCall, KernelCall
from tinygraft.uop.uop import UOp

F = dtypes.float32
Value = tuple[UOp, UOp]


def task(reads: set[Value], writes: set[Value]) -> Task:
    """A task that is never made."""
    return Task(lambda: CopyCall(memory(1).src[0], memory(1).src[0]), reads, writes)


def chain(size: int) -> tuple[UOp, list[UOp]]:
    """A BUFFER and three values that it holds one after another."""
    first = memory(size)
    second = assign(first, first + 1.0)
    return first.src[0], [first.src[0], second, assign(second, second * 2.0)]


def test_writers_come_before_readers_and_readers_before_the_next_writer() -> None:
    """In whatever order the tasks are given."""
    buffer, (v0, v1, v2) = chain(4)
    tasks = [
        task({(buffer, v0)}, set()), task({(buffer, v0)}, {(buffer, v1)}), task({(buffer, v1)}, set()),
        task({(buffer, v1)}, {(buffer, v2)}), task({(buffer, v2)}, set()),
    ]  # fmt: skip
    for given in itertools.permutations(tasks):
        assert in_order(list(given), {buffer: [v0, v1, v2]}) == tasks


def test_a_value_that_nobody_reads_is_overwritten_after_it_is_written() -> None:
    """Two writes of one buffer stay in order without a reader between them."""
    buffer, (v0, v1, v2) = chain(4)
    first, second = task(set(), {(buffer, v1)}), task(set(), {(buffer, v2)})
    assert in_order([second, first], {buffer: [v0, v1, v2]}) == [first, second]


def test_what_is_free_stays_as_given() -> None:
    """Tasks that do not touch each other's memory keep their order."""
    tasks = [task(set(), {(memory(2).src[0], memory(2))}) for _ in range(5)]
    assert in_order(tasks, {}) == tasks


def test_the_last_reader_comes_before_what_needs_more_memory() -> None:
    """Of two tasks that can run, the one that ends the life of a value: then less is in use. A result is no concern."""
    x, y, z, result = (UOp.buffer("PYTHON", 100, F) for _ in range(4))
    first, second = task(set(), {(x, x)}), task({(x, x)}, {(y, y)})
    grows, last = task({(y, y)}, {(z, z)}), task({(z, z)}, set())
    ends = task({(x, x), (y, y)}, {(result, result)})
    values = {b: [b] for b in (x, y, z, result)}
    assert in_order([first, second, grows, last, ends], values, {result}) == [first, second, ends, grows, last]
    assert in_order([first, second, grows, last, ends], values, {y, z}) == [first, second, grows, last, ends]


def test_assigned_values_come_late() -> None:
    """After the readers of the value that they replace, and before what reads them."""
    old, other = memory(4), memory(4)
    product = other * 2.0
    new = assign(old, old + product)
    reads_old, reads_new = old * product, new + 1.0
    order = [product, new, reads_new, reads_old]
    needs = {
        product: {other.src[0]}, new: {old.src[0], product}, reads_new: {new}, reads_old: {old.src[0], product}
    }  # fmt: skip
    assert assignments_last(order, needs) == [product, reads_old, new, reads_new]


def test_values_that_read_each_other_follow_each_other() -> None:
    """Three parameters with a momentum each, of which each reads the old value of the other."""
    old = [memory(4) for _ in range(6)]
    news = [assign(x, x + y) for x, y in zip(old, [*old[3:], *old[:3]], strict=True)]
    needs = {new: {x.src[0], y.src[0]} for new, x, y in zip(news, old, [*old[3:], *old[:3]], strict=True)}
    plain = old[0] + 1.0
    assert assignments_last([*news, plain], {**needs, plain: {old[0].src[0]}}) == [
        plain, news[0], news[3], news[1], news[4], news[2], news[5]
    ]  # fmt: skip


def test_a_task_reads_what_it_overwrites() -> None:
    """A kernel that reads a value and writes the next at its place does not wait for itself."""
    buffer, (v0, v1, _) = chain(4)
    one = task({(buffer, v0), (buffer, v1)}, {(buffer, v1)})
    assert in_order([one], {buffer: [v0, v1]}) == [one]


def test_circles_are_broken_at_the_cheapest_value() -> None:
    """Each of two kernels reads what the other overwrites: the shorter value gets memory of its own, no other."""
    a, (a0, a1, _) = chain(1000)
    b, (b0, b1, _) = chain(40)
    swap = [task({(b, b0)}, {(a, a1)}), task({(a, a0)}, {(b, b1)})]
    free, (c0, c1, _) = chain(2)
    behind = task({(free, c0), (a, a1)}, {(free, c1)})  # waits for the circle and is not in it
    asked = in_order([*swap, behind], {a: [a0, a1], b: [b0, b1], free: [c0, c1]})
    assert asked == NeedsOwnMemory(frozenset({b1}))


def test_tiny_values_are_all_copied_at_once() -> None:
    """Up to 16 elements a copy costs its launch: all in the circle get memory of their own in one go."""
    a, (a0, a1, _) = chain(16)
    b, (b0, b1, _) = chain(3)
    asked = in_order([task({(b, b0)}, {(a, a1)}), task({(a, a0)}, {(b, b1)})], {a: [a0, a1], b: [b0, b1]})
    assert asked == NeedsOwnMemory(frozenset({a1, b1}))


def test_a_circle_without_assignments_is_a_bug_that_is_said() -> None:
    """Kernels that need each other's results cannot be saved by memory."""
    x, y = memory(4).src[0], memory(4).src[0]
    one, two = memory(4) + 1.0, memory(4) * 2.0
    tasks = [task({(x, one)}, {(y, two)}), task({(y, two)}, {(x, one)})]
    text = "the kernels of this graph need each other's results; this is a bug of the scheduler"
    with pytest.raises(GraphError, match=f"^{text}$"):
        in_order(tasks, {x: [one], y: [two]})


def test_shuffled_tasks_are_put_right() -> None:
    """Random readers and writers that have an order, given in any other: each reads the values it means to."""
    rng = random.Random(5)
    for _ in range(200):
        chains = [chain(rng.randint(1, 40)) for _ in range(3)]
        versions = dict(chains)
        held = dict.fromkeys(versions, 0)
        tasks: list[Task] = []
        for _ in range(7):  # tasks that are right in this order
            reads = {(b, versions[b][held[b]]) for b in rng.sample(list(versions), 2)}
            target = rng.choice(list(versions))
            writes = set()
            if held[target] < 2 and rng.random() < 0.6:
                held[target] += 1
                writes = {(target, versions[target][held[target]])}
            tasks.append(task(reads, writes))
        given = rng.sample(tasks, len(tasks))
        now = {buffer: values[0] for buffer, values in versions.items()}
        ordered = in_order(given, versions)
        assert not isinstance(ordered, NeedsOwnMemory)
        for each in ordered:
            assert all(now[b] is value for b, value in each.reads)
            for b, value in each.writes:
                now[b] = value


# Whole schedules


def run(*outputs: UOp) -> tuple[list[list[float]], int, int]:
    """What a schedule computes, and how many kernels and copies it has."""
    results, calls = run_graph(*outputs)
    kernels = sum(isinstance(call, KernelCall) for call in calls)
    return results, kernels, len(calls) - kernels


def test_two_tensors_exchange_their_values() -> None:
    """a.assign(b) and b.assign(a) at once: each gets the other's old value."""
    a, b = filled([1.0, 2.0, 3.0]), filled([7.0, 8.0, 9.0])
    results, _, _ = run(assign(a, b * 1.0), assign(b, a * 1.0))
    assert results == [[7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]


def test_an_assignment_in_place_needs_no_copy() -> None:
    """a += 1 is one kernel on a's memory, and what read the old value runs with it or before it."""
    a = filled([1.0, 2.0, 3.0])
    old, new = a * 10.0, assign(a, a + 1.0)
    results, kernels, copies = run(old, new)
    assert results == [[10.0, 20.0, 30.0], [2.0, 3.0, 4.0]]
    assert (kernels, copies) == (1, 0)


def test_an_assignment_that_reads_other_places_is_not_in_place() -> None:
    """a.assign(a.flip()) reads each element after the one it is written over: memory of its own, then a copy."""
    a = filled([1.0, 2.0, 3.0])
    results, kernels, copies = run(assign(a, UOp(Ops.FLIP, F, (a,), (0,))))
    assert results == [[3.0, 2.0, 1.0]]
    assert (kernels, copies) == (1, 1)
    assert evaluate(a).tolist() == [3.0, 2.0, 1.0]


def test_values_one_after_another_in_one_buffer() -> None:
    """Each reader gets the value that it was built on."""
    a = filled([1.0, 2.0])
    second = assign(a, a + 1.0)
    third = assign(second, second * 10.0)
    readers = [UOp(Ops.FLIP, F, (v,), (0,)) for v in (a, second, third)]
    results, _, _ = run(*readers, third)
    assert results == [[2.0, 1.0], [3.0, 2.0], [30.0, 20.0], [20.0, 30.0]]


def test_two_values_in_place_of_one() -> None:
    """Only one of them can have the memory; both are right, and so is what was there."""
    a = filled([1.0, 2.0])
    results, _, _ = run(assign(a, a + 1.0), assign(a, a * 10.0), a * 1.0)
    assert results == [[2.0, 3.0], [10.0, 20.0], [1.0, 2.0]]


def test_one_of_two_values_that_are_copied_back() -> None:
    """Both read other places of the memory that they are assigned to: one is copied there, the other stays apart."""
    a = filled([1.0, 2.0])
    turned = UOp(Ops.FLIP, F, (a,), (0,))
    results, _, copies = run(assign(a, turned), assign(a, turned * 10.0))
    assert results == [[2.0, 1.0], [20.0, 10.0]]
    assert copies == 1


def test_a_wanted_value_is_not_overwritten() -> None:
    """A value that is computed, wanted, and assigned to keeps its own memory."""
    made = filled([1.0, 2.0]) + 1.0
    results, _, _ = run(made, assign(made, made * 10.0))
    assert results == [[2.0, 3.0], [20.0, 30.0]]


def test_an_assigned_value_is_in_the_memory_that_it_was_assigned_to() -> None:
    """The memory of the node is the BUFFER of the value before."""
    a = filled([1.0, 2.0])
    plan = schedule([assign(a, a * 3.0)], lambda _: BACKEND.target)
    assert list(plan.memory.values()) == [a.src[0]]


def test_a_value_assigned_after_others_is_there_too() -> None:
    """The last of several is copied back where a kernel reads it beside one that it replaces, turned around."""
    a = filled([1.0, 2.0])
    second = assign(a, a + 1.0)
    third = assign(second, second * 10.0)
    both = second + UOp(Ops.FLIP, F, (third,), (0,))
    plan = schedule([third, both], lambda _: BACKEND.target)
    assert plan.memory[third] is a.src[0]
    results, _, copies = run(third, both)
    assert (results, copies) == ([[20.0, 30.0], [32.0, 23.0]], 1)


def test_a_wanted_value_is_not_copied_over() -> None:
    """Where an older value is wanted in the memory, the last one stays apart."""
    a = filled([1.0, 2.0])
    second = assign(a, a + 1.0)
    third = assign(second, second * 10.0)
    results, _, _ = run(second, third)
    assert results == [[2.0, 3.0], [20.0, 30.0]]


def test_names_of_tensors_do_not_matter() -> None:
    """The schedule of equal graphs has equal kernels."""
    plans = []
    for _ in range(2):
        a = Tensor([1.0, 2.0, 3.0], device="PYTHON").realize().uop
        plans.append(schedule([a * 2.0 + 1.0], lambda _: Target()))
    first, second = ([c.kernel for c in p.calls if isinstance(c, KernelCall)] for p in plans)
    assert first == second
