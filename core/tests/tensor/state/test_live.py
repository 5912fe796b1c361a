"""Which tensors a realisation looks at: expressions, those that ask for a gradient, and those over what is written."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tinygraft import Tensor
from tinygraft.device.counters import GlobalCounters
from tinygraft.tensor.state import live


def seen(*memory: Tensor) -> set[int]:
    """The ids of the tensors and storages that are looked at when the memory of some tensors is written."""
    return {id(holder) for holder in live.LIVE.near([tensor.uop.base for tensor in memory])}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """Each tensor that was asked whether it rests. Expressions that other tests have left are not looked at."""
    asked: list[Tensor] = []
    real = live._may_rest
    monkeypatch.setattr(live, "_awake", {})
    monkeypatch.setattr(live, "_may_rest", lambda tensor: asked.append(tensor) or real(tensor))
    yield asked
    asked.clear()


def test_memory_rests_and_expressions_are_awake() -> None:
    """A tensor in memory and a view of one rest, until what they are over is written."""
    memory, other = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()
    view, expression = memory[:1], memory + 1
    assert not {id(memory), id(other), id(view)} & seen()
    assert id(expression) in seen()
    assert {id(memory), id(view)} <= seen(memory)
    assert id(other) not in seen(memory)


def test_who_asks_for_a_gradient_is_awake() -> None:
    """From the beginning, by requires_grad_() and by the attribute."""
    first = Tensor([1.0], requires_grad=True).realize()
    second, third = Tensor([1.0]).realize(), Tensor([1.0]).realize()
    assert seen() & {id(first), id(second), id(third)} == {id(first)}
    second.requires_grad_()
    third.requires_grad = True
    assert {id(first), id(second), id(third)} <= seen()


def test_a_write_costs_the_same_beside_a_thousand_tensors(looks: list[Tensor]) -> None:
    """They are looked at once, and then no more: neither by writes nor by reads of something else."""
    t = Tensor([1.0, 2.0]).realize()
    t.assign(t + 1).realize()
    looks.clear()
    t.assign(t + 1).realize()
    (t * 2).realize()
    alone = len(looks)
    base = Tensor.zeros(500).contiguous().realize()
    others = [Tensor([float(i)]).realize() for i in range(500)] + [base[i : i + 1] for i in range(500)]
    t.assign(t + 1).realize()
    counts = []
    for _ in range(3):
        looks.clear()
        t.assign(t + 1).realize()
        (t * 2).realize()
        assert not {id(tensor) for tensor in looks} & {id(other) for other in others}
        counts.append(len(looks))
    assert len(others) == 1000
    assert max(counts) <= alone
    assert t.tolist() == [7.0, 8.0]


def test_a_write_is_seen_by_whoever_rests_on_that_memory() -> None:
    """A view follows, and a value that shares the memory without being an alias keeps what it had."""
    t = Tensor([1.0, 2.0]).realize()
    same, view = t.contiguous(), t[1:]
    seen()
    t += 10
    t.realize()
    assert (t.tolist(), view.tolist(), same.tolist()) == ([11.0, 12.0], [12.0], [1.0, 2.0])


def test_a_tensor_with_the_id_of_one_that_rested_is_looked_at() -> None:
    """Ids are used again: what is left of the dead does not hide the living."""
    memory = Tensor([1.0, 2.0]).realize()
    for _ in range(50):
        view = memory[:1]
        seen()
        del view
        expression = memory * 3
        assert id(expression) in seen(memory)
        del expression


def test_the_list_of_those_that_rest_does_not_grow() -> None:
    """Views that come and go, over one memory and over many."""
    memory = Tensor([1.0, 2.0]).realize()
    for _ in range(3 * (1 << 10)):
        view = memory[:1]
        seen()
        del view
    assert sum(map(len, live._resting.values())) < 2 * (len(live.live_tensors()) + (1 << 10))
    assert len(live._all) < 2 * (len(live.live_tensors()) + (1 << 10))


def test_memory_goes_when_its_only_reader_has_elements_of_its_own() -> None:
    """The base has died: whatever is realised next lets the realised view let go of the rest."""
    base = Tensor.ones(1 << 16).contiguous().requires_grad_(False).realize()
    view = base[:2]
    view += 1
    view.realize()
    assert view.tolist() == [2.0, 2.0]
    seen()
    gc.collect()
    before = GlobalCounters.mem_used
    del base
    (Tensor([1.0]) + 1).realize()
    gc.collect()
    assert GlobalCounters.mem_used <= before - 4 * (1 << 16) + 64
    view += 1
    assert view.tolist() == [3.0, 3.0]
