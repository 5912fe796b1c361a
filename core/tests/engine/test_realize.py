"""Realising: which live tensors are co-realised, given copies or left alone when memory is written in place."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from tinygraft import Context, GlobalCounters, Tensor, Variable
from tinygraft.engine import collect, protect, run, shortcut, tape, transaction
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, toposort


@pytest.fixture(autouse=True)
def python_device() -> Iterator[None]:
    """All of this runs on the PYTHON device."""
    with Context(DEV="PYTHON"):
        yield


def numbers(*values: float) -> Tensor:
    """A tensor in memory."""
    return Tensor(list(values)).realize()


def kernels(*tensors: Tensor) -> int:
    """How many kernels and copies realising takes."""
    GlobalCounters.reset()
    Tensor.realize(*tensors)
    return GlobalCounters.kernel_count


def is_memory(t: Tensor) -> bool:
    """Whether a tensor is realised."""
    return t.uop.base.op is Ops.BUFFER


def nodes(t: Tensor) -> list[UOp]:
    """The nodes of a tensor's graph."""
    return toposort(t.uop)


def test_realising_twice_runs_nothing() -> None:
    """What is memory already needs no kernel."""
    t = numbers(1.0, 2.0) + 1.0
    assert kernels(t) == 1
    assert kernels(t) == 0


def test_graphs_that_contain_a_result_read_it_afterwards() -> None:
    """A live tensor over a value that is realised is not computed from the start again."""
    x = numbers(1.0, 2.0)
    part = x + 1.0
    whole = part * part
    part.realize()
    assert part.uop.base in nodes(whole)
    assert x.uop.base not in nodes(whole)
    assert kernels(whole) == 1
    assert whole.tolist() == [4.0, 9.0]


def test_a_small_live_tensor_is_computed_along() -> None:
    """A reader of the old value is realised with the write; it takes no copy of the old value."""
    a = numbers(1.0, 2.0, 3.0)
    old = a * 10.0
    a.assign(a + 1.0)
    assert kernels(a) == 1
    assert is_memory(old)
    assert (a.tolist(), old.tolist()) == ([2.0, 3.0, 4.0], [10.0, 20.0, 30.0])


def test_a_large_live_tensor_gets_a_copy_of_the_old_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more nodes of its own than MOST_OWN_NODES it stays lazy, over memory that keeps the old value."""
    monkeypatch.setattr(protect, "MOST_OWN_NODES", 3)
    a = numbers(1.0, 2.0, 3.0)
    buffer = a.uop.base
    old = ((a * 10.0 + 1.0) * 2.0 + 1.0) * 2.0
    a.assign(a + 1.0)
    assert kernels(a) == 2
    assert not is_memory(old)
    assert a.uop.base is buffer
    assert buffer not in nodes(old)
    assert (a.tolist(), old.tolist()) == ([2.0, 3.0, 4.0], [46.0, 86.0, 126.0])


def test_two_lazy_readers_share_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old value is copied once."""
    monkeypatch.setattr(protect, "MOST_OWN_NODES", 0)
    a = numbers(1.0, 2.0, 3.0)
    readers = [a * 10.0, a - 1.0]
    a.assign(a + 1.0)
    assert kernels(a) == 2
    assert [r.tolist() for r in readers] == [[10.0, 20.0, 30.0], [0.0, 1.0, 2.0]]


def test_a_value_over_the_same_memory_gets_a_copy() -> None:
    """A realised tensor over the same memory keeps its value: it is the old memory that has to move."""
    a = numbers(1.0, 2.0, 3.0, 4.0)
    view = Tensor(a).reshape(2, 2)
    a.assign(a + 1.0).realize()
    assert view.uop.base is not a.uop.base
    assert (view.tolist(), a.tolist()) == ([[1.0, 2.0], [3.0, 4.0]], [2.0, 3.0, 4.0, 5.0])


def test_readers_of_the_new_value_and_of_other_memory_are_left_alone() -> None:
    """Neither what was written after the assignment nor what does not read its memory is computed or copied."""
    a, b = numbers(1.0, 2.0), numbers(5.0, 6.0)
    other, number = b * 2.0, Tensor.full((2,), 3.0)
    a.assign(a + 1.0)
    new = a * 10.0
    assert kernels(a) == 1
    assert not is_memory(other)
    assert not is_memory(number)
    assert (new.tolist(), other.tolist(), number.tolist()) == ([20.0, 30.0], [10.0, 12.0], [3.0, 3.0])


def test_dead_readers_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that nobody holds is neither computed along nor given a copy."""
    monkeypatch.setattr(protect, "MOST_OWN_NODES", 0)
    a = numbers(1.0, 2.0)
    old = a * 10.0
    a.assign(a + 1.0)
    del old
    gc.collect()
    assert kernels(a) == 1


def test_an_assignment_that_another_tensor_builds_on_happens_once() -> None:
    """Realising what follows an assignment writes the memory; realising the tensor itself does not write it again."""
    a = numbers(1.0, 2.0)
    a.assign(a + 1.0)
    follows = a * 10.0
    assert follows.tolist() == [20.0, 30.0]
    assert a.tolist() == [2.0, 3.0]
    assert kernels(a) == 0


def test_only_the_last_of_two_values_keeps_the_memory() -> None:
    """Where an assigned value is wanted and overwritten in the same run, it gets memory of its own."""
    a = numbers(1.0, 2.0)
    buffer = a.uop.base
    a.assign(a + 1.0)
    between = Tensor(a).reshape(1, 2)
    a.assign(a * 10.0)
    Tensor.realize(between, a)
    assert a.uop.base is buffer
    assert (between.tolist(), a.tolist()) == ([[2.0, 3.0]], [20.0, 30.0])


@pytest.mark.parametrize("at", range(5))
def test_what_failed_is_as_before_or_done(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A failing launch: each tensor that was assigned to has its old or its new value, and a reader keeps the old."""
    a, b, c = (numbers(*(float(i) for i in range(1, size))) for size in (3, 4, 5))
    old = Tensor(b).flip(0)
    for t in (a, b, c):
        t.assign(t * 2.0)
    launch, count = run.Launch.run, [0]

    def failing(self: run.Launch, values: Any) -> None:
        count[0] += 1
        if count[0] - 1 == at:
            raise RuntimeError("no more")
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", failing)
    if at < 4:  # one for each, and a copy: the new value of b is computed beside the old one, which old reads
        with pytest.raises(RuntimeError, match="no more"):
            Tensor.realize(a, b, c)
    else:
        Tensor.realize(a, b, c)
    monkeypatch.undo()
    before = [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]]
    found = [t.tolist() for t in (a, b, c)]
    assert all(now in (then, [2.0 * x for x in then]) for now, then in zip(found, before, strict=True))
    written = sum(now != then for now, then in zip(found, before, strict=True))
    assert max(at - 1, 0) <= written <= at
    assert not any(n.op is Ops.ASSIGN for t in (a, b, c) for n in nodes(t))
    assert old.tolist() == [3.0, 2.0, 1.0]


def test_a_failing_kernel_leaves_lazy_tensors_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle is the user's to see; the tensors can be realised afterwards."""
    shortcut.clear()  # which launches without a Launch what was launched before
    x = numbers(1.0, 2.0)
    y = x + 1.0

    def fail(self: run.Launch, values: Any) -> None:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(run.Launch, "run", fail)
    with pytest.raises(RuntimeError, match="^the device is gone$"):
        y.realize()
    monkeypatch.undo()
    assert not is_memory(y)
    assert y.tolist() == [2.0, 3.0]


def test_memory_of_values_in_between_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values in between take turns in one block while the schedule runs; afterwards only the result has memory."""
    x = Tensor([float(i) for i in range(1000)]).realize()
    before = GlobalCounters.mem_used
    launch, used = run.Launch.run, []

    def measured(self: run.Launch, values: Any) -> None:
        launch(self, values)
        used.append((GlobalCounters.mem_used - before) // 4000)

    monkeypatch.setattr(run.Launch, "run", measured)
    y = x
    for _ in range(5):
        y = y.flip(0).contiguous() + 1.0
    y.realize()
    assert used == [2, 2, 2, 2, 3]  # two places for what is in between, and the result
    assert GlobalCounters.mem_used - before == 4000
    assert y.tolist()[0] == 1004.0


def test_a_realised_tensor_of_symbolic_size_is_read_again():
    """What was computed for a bound variable still knows its value."""
    n = Variable("n", 1, 9)
    data = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    for size, total in ((3, 12.0), (4, 20.0)):
        part = (data[: n.bind(size)] * 2).realize()
        assert part.sum().item() == total


def test_random_numbers_that_a_tensor_holds_are_drawn_once() -> None:
    """Weights become memory when they are first computed for somebody else; what is made of them does not."""
    Tensor.manual_seed(3)
    weight, data = Tensor.rand(4, 4) * 2 - 1, Tensor([[1.0, 2.0, 3.0, 4.0]]).realize()
    scaled = weight * 100
    hidden = data @ scaled
    first = (hidden + 1).tolist()
    assert weight.uop.base.realized is not None
    assert (scaled.uop.base.realized, hidden.uop.base.realized) == (None, None)
    GlobalCounters.reset()
    assert (hidden + 1).tolist() == first
    assert GlobalCounters.kernel_count == 1
    Tensor.manual_seed(3)
    assert weight.tolist() == (Tensor.rand(4, 4) * 2 - 1).tolist()


def test_random_numbers_that_may_be_drawn_anew_stay_an_expression() -> None:
    """rand(contiguous=False) has no memory, also when a tensor holds it."""
    noise = Tensor.rand(8, contiguous=False)
    (noise + 1).realize()
    assert noise.uop.base.realized is None


def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many results each realisation from now on commits by the long way."""
    found: list[int] = []
    long_way = transaction._commit

    def noted(request: Any, work: Any, homes: Any, *rest: Any) -> Any:
        found.append(len(homes))
        return long_way(request, work, homes, *rest)

    monkeypatch.setattr(transaction, "_commit", noted)
    return found


def test_an_old_value_that_is_kept_changes_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a copy of an old value exists for a backward, results that are computed alone still go the short way.

    One that reads the old value of a leaf has its gradient.
    """
    x = Tensor([1.0, 2.0], requires_grad=True).realize()
    before = (x * x).realize()
    with Tensor.no_grad():
        x.assign(x + 1.0).realize()
    assert len(tape._origins) > 0
    found = commits(monkeypatch)
    total = (before * 3.0).sum().realize()
    assert found == []
    total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 12.0]


def test_a_sum_beside_parameters_is_committed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One result behind a RESHAPE goes the short way, and its values and its gradient are those of the long one."""
    weight = Tensor([1.0, 2.0], requires_grad=True).realize()
    x, whole = numbers(1.0, 2.0, 3.0), Tensor([1, 2, 3]).realize()
    found = commits(monkeypatch)
    total, count = (x * x).sum().realize(), (whole * whole).sum().realize()
    assert found == []
    assert (total.uop.op, total.uop.base.op, count.uop.base.op) == (Ops.RESHAPE, Ops.BUFFER, Ops.BUFFER)
    assert (total.item(), count.item()) == (14.0, 14)
    (total * weight.sum()).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [14.0, 14.0]
    x.requires_grad_()
    (total * 3.0).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 12.0, 18.0]


@pytest.mark.parametrize("case", ["leaf", "lazy leaf", "late leaf", "reader", "kept", "written"])
def test_a_sum_that_something_else_depends_on_is_not_committed_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lazy leaf, a lazy tensor that contains the result or is it, and a write keep the long way.

    A leaf in memory does not: whether the result is tracked follows from its graph.
    """
    x, weight = numbers(1.0, 2.0, 3.0), Tensor([2.0], requires_grad=True).realize()
    leaf = x if case == "leaf" else (x * 1.0 if case == "lazy leaf" else None)
    if leaf is not None:
        leaf.requires_grad_()
    total = ((x if leaf is None else leaf) * x).sum()
    more = total * 2.0 if case == "reader" else None
    kept = (x * x).sum(keepdim=True) if case == "kept" else None
    if case == "late leaf":
        leaf = x.requires_grad_()
    if case == "written":
        x.assign(x + 1.0)
    found = commits(monkeypatch)
    total.realize()
    assert bool(found) == (case not in ("leaf", "late leaf"))
    assert total.item() == 14.0
    if more is not None:
        assert total.uop.base in nodes(more)
        assert more.item() == 28.0
    if kept is not None:
        assert kept.uop.base is total.uop.base
    if leaf is not None:
        (total * weight).sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == ([4.0, 8.0, 12.0] if leaf is x else [2.0, 4.0, 6.0])


def test_a_leaf_that_is_a_view_keeps_its_mark_when_it_is_realised() -> None:
    """The RESHAPE of a result may be a leaf of its own: its tag is on the RESHAPE of the memory, too."""
    view = numbers(1.0, 2.0).sum().reshape(1)
    view.requires_grad_().requires_grad_(None)
    tag = view.uop.tag
    assert isinstance(tag, Own)
    assert view.realize().uop.tag is tag


def test_what_is_in_the_graph_anyway_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss beside the write that it is computed with: protect finds it, and nothing else follows from it."""
    asked: list[int] = []

    def noted(*args: Any) -> Any:
        asked.append(len(args[0]))
        return protect.protect(*args)

    monkeypatch.setattr(collect, "protect", noted)
    a, b = Tensor([1, 2, 3]).realize(), Tensor([1, 1, 2]).realize()
    product = a * b
    total, apart = product.sum(), b - 1
    b.assign(product * 5)
    a.assign(product + total)
    Tensor.realize(a, b)
    first = len(asked)
    assert is_memory(product)
    assert is_memory(total)
    assert (product.tolist(), total.item(), apart.tolist()) == ([1, 2, 6], 9, [0, 0, 1])
    assert (a.tolist(), b.tolist()) == ([10, 11, 15], [5, 10, 30])
    product = a * b
    total = product.sum()
    b.assign(product + total)
    b.realize()
    assert len(asked) == first + 1
    assert (product.tolist(), total.item(), b.tolist()) == ([50, 110, 450], 610, [660, 720, 1060])


def test_the_collector_rests_while_a_graph_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made for a long graph is no garbage; after it, and after a failure, Python collects as before."""
    seen = []
    run_request = transaction.run_request

    def noted(*arguments: Any) -> None:
        seen.append(gc.isenabled())
        run_request(*arguments)

    monkeypatch.setattr("tinygraft.engine.realize.run_request", noted)
    a, b = numbers(1, 2), numbers(3, 4)
    Tensor.realize(a + b, a * b)
    assert seen == [False]
    assert gc.isenabled()
    monkeypatch.setattr("tinygraft.engine.realize.run_request", lambda *arguments: pytest.fail("as said"))
    with pytest.raises(pytest.fail.Exception, match="as said"):
        Tensor.realize(a - b, a / b)
    assert gc.isenabled()
