"""Calls of new kinds: what TinyJit says of them, and dataclasses among arguments."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, nn
from tinygraft.jit.arguments import unpack
from tinygraft.nn.state import get_parameters

KIND = "which is the first of its kind: "


class Plain:
    """An object of a class of the user."""

    def __init__(self, value: float) -> None:
        self.tensor = Tensor([value])


def double(x: Tensor, other: Any = None) -> Tensor:
    """A function to be captured."""
    return (x * 2).realize()


CASES: dict[str, tuple[Callable[[int], tuple[Any, ...]], str, str]] = {
    "a number": (
        lambda i: (Tensor([1.0]), 0.5 + i),
        "argument other is 2.5, and was 1.5 in the call before",
        "hint: give it as a Tensor, or an integer as a bound Variable",
    ),
    "an integer": (lambda i: (Tensor([1.0]), i), "argument other is 2, and was 1 in the call before", "bound Variable"),
    "a shape": (
        lambda i: (Tensor([1.0] * (i + 1)),),
        "argument x is a tensor of float (3,) on PYTHON, and was a tensor of float (2,) on PYTHON in the call before",
        "hint: keep one shape (pad what is shorter)",
    ),
    "an array": (
        lambda i: (Tensor([1.0]), np.array([i])),
        "argument other is another object than in the call before, an array (ndarray)",
        "hint: give Tensor(array)",
    ),
    "an object": (
        lambda i: (Tensor([1.0]), Plain(i)),
        "argument other is another object than in the call before, a Plain",
        "hint: an object counts as itself",
    ),
    "a word": (
        lambda i: (Tensor([1.0]), f"mode {i}"),
        "argument other is 'mode 2', and was 'mode 1' in the call before",
        "",
    ),
    "inside": (
        lambda i: (Tensor([1.0]), {"a": [1, {"b": i}]}),
        "argument other['a'][1]['b'] is 2, and was 1 in the call before",
        "",
    ),
    "a longer list": (
        lambda i: ([Tensor([1.0])] * (i + 1),),
        "argument x is a list of length 3, and was a list of length 2 in the call before",
        "",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_call_of_a_new_kind_says_how_it_differs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In print(step) from the second call on; at DEBUG=1 once, from the third in a row."""
    make, sentence, hint = CASES[name]
    step = TinyJit(lambda x, other=None: ((x[0] if isinstance(x, list) else x) * 2).realize())
    with Context(DEV="PYTHON", DEBUG=1):
        step(*make(0))
        assert repr(step).endswith("this is the first call of its kind>")
        step(*make(1))
        assert "this is the first call of its kind: argument " in repr(step)
        assert "first of its kind" not in capsys.readouterr().out
        step(*make(2))
        told = capsys.readouterr().out
        assert KIND + sentence in told and hint in told
        assert sentence in repr(step)
        step(*make(3))
        assert "first of its kind" not in capsys.readouterr().out
        assert step.captured == 0


def test_two_kinds_in_turns_are_captured_and_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """As a step for training and one for evaluation, or a last batch that is smaller."""
    step = TinyJit(double)
    with Context(DEV="PYTHON", DEBUG=1):
        for i in range(6):
            assert step(Tensor([1.0] * (2 + i % 2))).tolist() == [2.0] * (2 + i % 2)
    assert step.captured == 2 and "first of its kind" not in capsys.readouterr().out
    assert repr(step) == "<TinyJit of double: kinds of calls captured: 2, launches: 1, 1>"


def test_a_setting_that_changes_is_named() -> None:
    """The training mode is part of a kind."""
    step = TinyJit(double)
    with Context(DEV="PYTHON"):
        step(Tensor([1.0]))
        with Context(TRAINING=1):
            step(Tensor([1.0]))
    assert "setting TRAINING is 1, and was 0 in the call before" in repr(step)


def test_a_read_names_its_line() -> None:
    """A value that the function reads is told with the line of the user that reads it."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return x * x.sum().item()

    with Context(DEV="PYTHON"):
        for _ in range(3):
            step(Tensor([1.0, 2.0]))
    line = step.fxn.__code__.co_firstlineno + 2
    assert f"it reads a value (item, numpy, a mask) at core/tests/jit/test_kinds.py:{line}, which may" in repr(step)


def test_a_scheduler_inside_is_named() -> None:
    """Its rates are numbers of Python's; outside of the function it changes what a replay reads."""
    with Context(DEV="PYTHON"):
        w = Tensor([1.0, 2.0])
        sgd = nn.optim.SGD([w], lr=1.0)
        schedule = nn.optim.lr_scheduler.ExponentialLR(sgd, 0.5)

        @TinyJit
        @Tensor.train()
        def step(x: Tensor, inside: bool) -> Tensor:
            sgd.zero_grad()
            loss = (w * x).sum().backward()
            sgd.step()
            if inside:
                schedule.step()
            return loss.realize()

        for _ in range(3):
            step(Tensor([1.0, 1.0]), True)
        assert "a scheduler in it computes the next learning rate with Python's numbers" in repr(step)
        assert "hint: call its step() outside of the function" in repr(step)
        for _ in range(3):
            step(Tensor([1.0, 1.0]), False)
            schedule.step()
        assert step.captured == 1
        assert w.tolist() == [1.0 - sum(0.5**i for i in range(6)), 2.0 - sum(0.5**i for i in range(6))]


def test_a_number_that_a_closure_changes_has_a_hint() -> None:
    """The kernels have one name and another number."""
    state = {"lr": 1.5}

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * state["lr"]).realize()

    with Context(DEV="PYTHON"):
        for i in range(4):
            state["lr"] = 1.5 + i
            assert step(Tensor([1.0])).tolist() == [1.5 + i]
    assert "it launched E_1, and another E_1 in the call before\n  hint: a number of Python's" in repr(step)


@dataclass
class Batch:
    """An argument of tensors and a number."""

    x: Tensor
    y: Tensor
    scale: float = 2.0


def test_a_dataclass_is_a_container_of_its_fields() -> None:
    """New objects with new tensors are one kind; another number in one is another kind."""

    @TinyJit
    def step(batch: Batch) -> Tensor:
        return (batch.x * batch.scale + batch.y).realize()

    with Context(DEV="PYTHON"):
        for i in range(5):
            assert step(Batch(Tensor([float(i)]), Tensor([1.0]))).tolist() == [2.0 * i + 1.0]
        assert step.captured == 1
        assert step(Batch(Tensor([3.0]), Tensor([1.0]), 5.0)).tolist() == [16.0]
        assert "argument batch.scale is 5.0, and was 2.0" in repr(step)
        same = Tensor([4.0])
        for _ in range(3):
            assert step(Batch(same, same)).tolist() == [12.0]  # one tensor twice is another kind
        assert step.captured == 2


def test_a_dataclass_that_the_function_changes_is_not_replayed() -> None:
    """A replay would not change it: such a call is run, and says so."""

    @TinyJit
    def step(batch: Batch) -> Tensor:
        batch.scale += 1.0
        return (batch.x * batch.scale).realize()

    with Context(DEV="PYTHON"):
        for i in range(4):
            batch = Batch(Tensor([1.0 + i]), Tensor([0.0]))
            assert step(batch).tolist() == [3.0 * (1.0 + i)] and batch.scale == 3.0
    assert "it changes a list, dict or dataclass of its arguments" in repr(step)


def test_a_tensor_of_a_dataclass_that_is_left_elsewhere_is_found() -> None:
    """As one of a list is."""
    left = []

    @TinyJit
    def step(batch: Batch) -> Tensor:
        left.append(batch.x)
        return (batch.x + batch.y).realize()

    with Context(DEV="PYTHON"):
        for i in range(4):
            assert step(Batch(Tensor([1.0 + i]), Tensor([1.0]))).tolist() == [2.0 + i]
    assert [each.tolist() for each in left] == [[1.0], [2.0], [3.0], [4.0]] and step.captured == 0


def test_writes_into_tensors_of_a_dataclass_are_replayed() -> None:
    """A state that is carried in an argument."""

    @TinyJit
    def step(state: Batch) -> Tensor:
        state.x.assign(state.x + state.y)
        return state.x.realize()

    with Context(DEV="PYTHON"):
        state = Batch(Tensor([0.0]).contiguous().realize(), Tensor([2.0]).realize())
        for _ in range(5):
            step(state)
        assert state.x.tolist() == [10.0] and step.captured == 1


@dataclass
class Model:
    """A model that is a dataclass: its method under TinyJit reads its tensors from outside."""

    weight: Tensor
    calls: list[int] = field(default_factory=list)

    @TinyJit
    def step(self, x: Tensor) -> Tensor:
        """The product with the weight."""
        return (x * self.weight).realize()


def test_the_object_of_a_method_counts_as_itself() -> None:
    """Its fields may change as those of any other object."""
    with Context(DEV="PYTHON"):
        model = Model(Tensor([3.0]).realize())
        for i in range(4):
            model.calls.append(i)
            assert model.step(Tensor([float(i)])).tolist() == [3.0 * i]
        assert Model.step.captured == 1  # type: ignore[attr-defined]


def test_a_dataclass_that_contains_itself_is_an_error() -> None:
    """As a list that does."""
    step = TinyJit(double)
    with Context(DEV="PYTHON"):
        batch = Batch(Tensor([1.0]), Tensor([1.0]))
        batch.y = batch  # type: ignore[assignment]
        with pytest.raises(ValueError, match="a Batch among them contains itself"):
            step(Tensor([1.0]), batch)


def _scaled() -> Any:
    """A training step with accumulated gradients, a moving average of the weights, and a norm that is clipped."""
    model, average = nn.Linear(3, 2), nn.Linear(3, 2)
    adam = nn.optim.AdamW(get_parameters(model))

    @TinyJit
    @Tensor.train()
    def step(x: Tensor, y: Tensor) -> Tensor:
        adam.zero_grad()
        for i in range(2):
            loss = model(x[2 * i : 2 * i + 2]).sparse_categorical_crossentropy(y[2 * i : 2 * i + 2]) / 2
            loss.backward()
        nn.optim.clip_grad_norm(adam.params, 1.0)
        adam.step()
        for mean, weight in zip(get_parameters(average), get_parameters(model), strict=True):
            mean.assign(mean * 0.9 + weight.detach() * 0.1)
        return loss.realize(*get_parameters(average))

    return step, lambda: (Tensor(np.ones((4, 3), np.float32)), Tensor([0, 1, 0, 1]))


def _gan() -> Any:
    """A generator with batch norm and a discriminator, each with its optimizer, in one step."""
    generator = [nn.Linear(2, 4), nn.BatchNorm(4), nn.Linear(4, 3)]
    judge = nn.Linear(3, 1)
    first, second = nn.optim.Adam(get_parameters(generator)), nn.optim.Adam(get_parameters(judge))

    @TinyJit
    @Tensor.train()
    def step(real: Tensor) -> tuple[Tensor, Tensor]:
        fake = generator[2](generator[1](generator[0](Tensor.randn(4, 2))).relu())
        second.zero_grad()
        ones, zeros = Tensor.ones(4, 1), Tensor.zeros(4, 1)
        loss = judge(real).binary_crossentropy_logits(ones) + judge(fake.detach()).binary_crossentropy_logits(zeros)
        loss.backward()
        second.step()
        first.zero_grad()
        other = judge(fake).binary_crossentropy_logits(ones).backward()
        first.step()
        return loss.realize(), other.realize()

    return step, lambda: (Tensor(np.ones((4, 3), np.float32)),)


@pytest.mark.parametrize("make", [_scaled, _gan])
def test_textbook_steps_are_captured(make: Callable[[], Any]) -> None:
    """Of a GAN, and one with gradient accumulation, clipping and a moving average of the weights."""
    with Context(DEV="PYTHON"):
        step, arguments = make()
        for _ in range(5):
            step(*arguments())
        assert step.captured == 1, repr(step)


def test_names_of_one_tensor_are_unpacked_in_time_to_their_number():
    """A list of 20,000 took three minutes: each was compared with all before it."""
    x = Tensor([1.0, 2.0]).realize()

    def calls(count):
        profile = cProfile.Profile()
        profile.runcall(unpack, ([x] * count,), {})
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(800) < 2.2 * calls(400)


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_copies_of_nothing_are_left_out_of_a_replay(device: str) -> None:
    """An empty tensor has no memory to copy: the third call of PYTHON and OPENCL raised."""
    step = TinyJit(lambda a, k: (a.index_copy(0, k, a[:1]).realize(), (k + 1).realize()))
    for number in range(4):
        empty = Tensor(np.zeros((3, 0), np.float32), device=device).realize()
        found, other = step(empty, Tensor([number], device=device).realize())
        assert found.shape == (3, 0) and other.tolist() == [number + 1]
