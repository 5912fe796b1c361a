"""Writes like earlier ones: which take the shortcut, and that all values and gradients are as by the general road."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from general_road import collections, numbers, without_shortcuts
from tinygraft import GlobalCounters, Tensor, TinyJit
from tinygraft.engine import realize, shortcut, write_again
from tinygraft.errors import DeviceError


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No test finds the shortcuts or the tape of another one; all of this runs on the PYTHON device."""
    with without_shortcuts():
        yield


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An element for each realisation that takes the general road."""
    return collections(monkeypatch)


def general(collected: list[int], make: Callable[[int], object]) -> int:
    """Return how many of eight calls of `make`, once it has been called five times, take the general road."""
    for i in range(13):
        if i == 5:
            collected.clear()
        make(i)
    return len(collected)


def test_eager_loops_take_the_shortcut(collected: list[int]) -> None:
    """Elements, rows, slices and whole values, by numbers that vary and by tensors."""
    line, table = Tensor.zeros(20).contiguous().realize(), Tensor.zeros(20, 3).contiguous().realize()
    row, total, copied = numbers(1, 2, 3), [numbers(0, 0, 0)], numbers(0, 0, 0)
    whole = Tensor.zeros(20, dtype="int32").contiguous().realize()

    def number(i: int) -> None:
        line[i] = 3.0
        line.realize()

    def part(i: int) -> None:
        line[i : i + 2] = i + 0.5
        line.realize()

    def one(i: int) -> None:
        table[i] = row
        table.realize()

    def integer(i: int) -> None:
        whole[i] = 5
        whole.realize()

    def add(i: int) -> None:
        total[0] += row
        total[0].realize()

    makes = (number, part, one, integer, add, lambda i: copied.copy_(row).realize())
    for make in makes:
        assert general(collected, make) == 0, make
    assert line.tolist() == [3.0 if i < 0 else min(i, 12) + 0.5 if i < 14 else 0.0 for i in range(20)]
    assert table.tolist() == [[1.0, 2.0, 3.0] if i < 13 else [0.0] * 3 for i in range(20)]
    assert whole.tolist() == [5 if i < 13 else 0 for i in range(20)]
    assert total[0].tolist() == [13.0, 26.0, 39.0] and copied.tolist() == [1.0, 2.0, 3.0]


def test_values_without_elements(collected: list[int]) -> None:
    """Nothing is launched for these."""
    none = Tensor.zeros(0, 3).contiguous().realize()
    general(collected, lambda i: none.assign(none * float(i)).realize())
    assert none.tolist() == []


def test_copies_of_weights_and_flags_that_are_false_take_the_shortcut(collected: list[int]) -> None:
    """A target network, a copy that is no longer of the graph, and the rate of an optimizer."""
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    target, rate = numbers(0, 0, 0), Tensor([0.1], requires_grad=False).realize()
    assert general(collected, lambda i: target.assign(weight.detach()).realize()) == 0
    assert target.tolist() == [1, 2, 3]
    assert general(collected, lambda i: target.assign(target * 0.5 + weight.detach() * 0.5).realize()) == 0
    assert target.tolist() == [1, 2, 3]
    assert general(collected, lambda i: rate.assign(Tensor([0.5 * i])).realize()) == 0
    assert rate.tolist() == [6.0]
    (target * weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 2, 3]
    assert general(collected, lambda i: target.assign(weight * 2).realize()) == 8  # a gradient goes on to the weight


def test_what_reads_the_memory_takes_the_general_road(collected: list[int]) -> None:
    """A lazy reader keeps the old values, a view has the new ones; a lazy tensor of other memory is no reason."""
    x, y = numbers(1, 2, 3), numbers(5, 6, 7)
    held: list[Tensor] = []

    def write(i: int) -> None:
        x[i % 3] = float(i) + 0.5
        x.realize()

    apart = y * 2.0
    assert general(collected, write) == 0
    before = x.tolist()
    reader, view = x * 2.0, x[1:]
    for i in range(3):
        write(i)
    assert reader.tolist() == [2 * value for value in before] and view.tolist() == x.tolist()[1:] == [1.5, 2.5]
    del view
    alias = x.reshape(3)
    write(7)
    assert alias.tolist() == x.tolist() == [0.5, 7.5, 2.5]
    del alias
    general(collected, lambda i: (held.append(x + 0.0), write(i)))
    for i, kept in enumerate(held[:4]):
        assert kept.tolist()[i % 3 - 1] == (float(i) - 0.5 if i else 2.5)
    assert apart.tolist() == [10.0, 12.0, 14.0]


def test_a_value_that_another_tensor_has(collected: list[int]) -> None:
    """What is written is lazy and has a tensor of its own, which keeps it; so has a part of it."""
    x, y = numbers(0, 0, 0), numbers(1, 2, 3)
    for i in range(8):
        value = y * float(i)
        x.assign(value + 1.0).realize()
        assert value.tolist() == [i * 1.0, i * 2.0, i * 3.0] and x.tolist() == [i + 1.0, 2 * i + 1.0, 3 * i + 1.0]


def test_gradients_through_what_is_written(collected: list[int]) -> None:
    """Of a tensor that requires one, realised before or not, and of one whose flag is None."""
    w = numbers(1, 2, 3).requires_grad_()
    sink = numbers(0, 0, 0)
    for i in range(8):
        sink[i % 3] = 4.0
        sink.realize()
    for i in range(6):
        w.grad = None
        found = numbers(0, 0, 0)
        found[i % 3] = (w * w).sum().realize()
        found.realize()
        (found * found).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [2 * 14.0 * 2 * value for value in (1, 2, 3)]
    v = numbers(1, 2, 3)
    for i in range(6):
        found = numbers(0, 0, 0)
        found[i % 3] = (v * v).sum()
        found.realize()
        assert found.sum().gradient(v)[0].tolist() == [2.0, 4.0, 6.0]
        x = numbers(1, 1, 1)
        y = (x * x).realize()
        x[i % 3] = 7.0
        x.realize()
        assert y.tolist() == [1.0, 1.0, 1.0]


def test_an_old_value_that_a_gradient_needs(collected: list[int]) -> None:
    """It is saved: the write takes the general road."""
    w, x = numbers(1, 2, 3).requires_grad_(), numbers(2, 2, 2)
    for i in range(8):
        w.grad = None
        loss = (w * x).sum().realize()
        x.assign(x + 1.0).realize()
        loss.backward()
        assert w.grad is not None and w.grad.tolist() == [2.0 + i] * 3


def test_what_a_tracked_value_was_computed_from_is_saved(collected: list[int]) -> None:
    """It may be written by slices before the backward through what was written."""
    w = numbers(1, 2, 3).requires_grad_()
    found = numbers(0, 0, 0)
    for _ in range(8):
        w.grad = None
        x = numbers(2, 3, 4)
        found.assign(w * x).realize()
        x[0] = 9.0
        x.realize()
        found.sum().backward()
        assert w.grad is not None and w.grad.tolist() == [2.0, 3.0, 4.0]


def test_another_tensor_of_the_memory_keeps_its_value(collected: list[int]) -> None:
    """One that was made of the tensor, and is no view of it."""
    apart = numbers(0, 0, 0)
    for i in range(8):
        x = numbers(1, 2, 3)
        y = Tensor(x)
        if i % 2:
            apart[i % 3] = 1.0  # y has been looked at then
            apart.realize()
        x[i % 3] = i + 0.5
        x.realize()
        assert y.tolist() == [1.0, 2.0, 3.0] and x.tolist()[i % 3] == i + 0.5


def test_a_leaf_that_is_written_stays_one() -> None:
    """A step of training by hand, beside a counter."""
    w, steps = numbers(1, 2).requires_grad_(), Tensor([0]).realize()
    for i in range(8):
        (w * w).sum().backward()
        assert w.grad is not None
        w -= w.grad * 0.25
        steps += 1
        w.realize(), steps.realize()
        w.grad = None
        assert steps.tolist() == [i + 1] and w.requires_grad
    assert w.tolist() == [0.5**8, 2 * 0.5**8]


def test_a_failing_launch_leaves_the_old_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write is dropped, as in general; after an interrupt in the launch the value is lost."""
    x = numbers(1, 2, 3)

    def write(i: int) -> None:
        x.assign(x + float(i) + 0.5).realize()

    for i in range(6):
        write(i)
    before = x.tolist()
    assert write_again.launches_for(shortcut.walk((x + 0.0).uop)) is None
    (known,) = [known for known in shortcut._shortcuts.values() if known.numbered]
    program: Any = type(known.numbered[0].shortcut.launches[0].kernel.program)

    def fail(*args: Any) -> None:
        raise RuntimeError("out of order")

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "launch", fail)
    with pytest.raises(RuntimeError, match="out of order") as raised:
        write(9)
    assert any("launching" in note for note in raised.value.__notes__)
    monkeypatch.undo()
    assert x.tolist() == before
    write(1)
    assert x.tolist() == [value + 1.5 for value in before]
    monkeypatch.setattr(program, "launch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(3)
    monkeypatch.undo()
    with pytest.raises(DeviceError):
        x.tolist()
    x.assign(numbers(1, 2, 3)).realize()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_in_a_capture_the_write_is_recorded() -> None:
    """A write that has a shortcut is replayed by TinyJit, in turns with eager ones."""
    state, x = numbers(0, 0, 0), numbers(1, 2, 3)

    def write(value: Tensor) -> None:
        state.assign(state + value).realize()

    step = TinyJit(write)
    for i in range(1, 13):
        (step if i % 3 else write)(x)
        assert state.tolist() == [i * 1.0, i * 2.0, i * 3.0]


def test_counts_are_those_of_the_general_road() -> None:
    """Kernels, operations, bytes and memory in use."""
    x, y = numbers(*range(50)), numbers(*range(50))

    def counts() -> tuple[int, int, int, int]:
        gc.collect()
        GlobalCounters.reset()
        before = GlobalCounters.mem_used
        x.assign(y * 2.0 + x).realize()
        return (
            GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem,
            GlobalCounters.mem_used - before,
        )  # fmt: skip

    assert len({counts() for _ in range(6)}) == 1


KINDS = ["number", "number", "slice", "add", "row", "whole", "whole", "view", "read", "lazy", "drop", "realize"]


class Model:
    """Tensors that share memory or read each other, with arrays of NumPy that have the values they should have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        arrays = [np.arange(6, dtype=np.float32) + i for i in range(3)]
        self.memory = [(Tensor(array.copy()).realize(), array) for array in arrays]
        self.held: list[tuple[Tensor, np.ndarray]] = []  # values and views

    def step(self) -> None:
        """Write, read, make a view or a reader, drop one, or realise: mostly what eager loops repeat."""
        tensor, array = self.random.choice(self.memory)
        other, values = self.random.choice(self.memory)
        at, number = self.random.randrange(5), float(self.random.randrange(9)) / 4
        kind = self.random.choice(KINDS)
        if kind == "number":
            tensor[at], array[at] = number, number
        elif kind == "slice":
            tensor[at : at + 2], array[at : at + 2] = number, number
        elif kind == "add":
            tensor += other * 0.5
            array += values * np.float32(0.5)
        elif kind == "row":
            tensor[at], array[at] = other[0], values[0]
        elif kind == "whole":
            tensor.assign(other * number)
            array[:] = values * np.float32(number)
        elif kind == "view":
            self.held.append((tensor[at:], array[at:]))
        elif kind == "read":
            np.testing.assert_array_equal(tensor.numpy(), array)
        elif kind == "lazy":
            self.held.append((tensor + other, array + values))
        elif self.held and kind == "drop":
            self.held.pop(self.random.randrange(len(self.held)))
        if self.random.random() < 0.7:
            tensor.realize()

    def check(self) -> None:
        """Compare all tensors with their arrays."""
        for tensor, array in (*self.memory, *self.held):
            np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize("seed", range(12))
def test_programs_of_writes_views_and_readers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random ones have the values of NumPy, and take the shortcut often."""
    taken: list[bool] = []
    again = realize.write_again
    monkeypatch.setattr(realize, "write_again", lambda *args: (taken.append(found := again(*args)), found)[1])
    model = Model(seed)
    for number in range(160):
        model.step()
        if number % 40 == 39:
            model.check()
            model.held.clear()
    assert sum(taken) >= 5, (sum(taken), len(taken))
