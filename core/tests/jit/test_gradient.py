"""Gradients and TinyJit: backward inside a captured function, and outside of it where a history is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.errors import GraphError


def test_backward_inside_a_function_that_realises_its_loss_first() -> None:
    """A value that was read or realised in the function still has its history there, in every call."""
    w = Tensor([2.0, 3.0], requires_grad=True)
    optimizer = nn.optim.SGD([w], lr=0.5)

    @TinyJit
    @Tensor.train()
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (x * w).sum().realize()
        loss.backward()
        optimizer.step()
        return loss

    expected = [2.0, 3.0]
    for i in range(5):
        loss = step(Tensor([1.0, float(i)]))
        assert loss.item() == expected[0] + expected[1] * i
        expected = [expected[0] - 0.5, expected[1] - 0.5 * i]
        assert w.tolist() == expected
    assert step.captured == 1


def test_backward_through_a_replayed_result_is_refused() -> None:
    """Calls that run the function give gradients; a replay says that it has none to give."""
    w = Tensor([2.0, 3.0], requires_grad=True)
    forward = TinyJit(lambda x: (x * w).sum())
    for _ in range(2):
        w.grad = None
        (forward(Tensor([1.0, 2.0])) * 2).backward()
        assert w.grad is not None
        assert w.grad.tolist() == [2.0, 4.0]
    result = forward(Tensor([1.0, 2.0]))
    assert result.item() == 8.0
    with pytest.raises(GraphError) as caught:
        (result * 2).backward()
    assert str(caught.value) == (
        "backward reaches a result of a TinyJit that was replayed, and was not taped\n"
        "  hint: call backward inside the function under TinyJit, or detach() the result"
    )


def test_a_detached_result_is_data() -> None:
    """Behind detach() nobody asks for a history; what was realised from the result has one of its own."""
    w, head = Tensor([2.0, 3.0], requires_grad=True), Tensor([1.0, 1.0], requires_grad=True)
    features = TinyJit(lambda x: x * w)
    for _ in range(4):
        head.grad = None
        x = features(Tensor([1.0, 2.0])).detach()
        loss = (x * head).sum().realize()
        (loss * 3).backward()
        assert head.grad is not None
        assert head.grad.tolist() == [6.0, 18.0]
    assert features.captured == 1


def test_grads_that_a_function_fills_are_filled_by_replays() -> None:
    """Forward and backward under TinyJit, zero_grad and step outside; an old grad that somebody holds stays."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        w, b = Tensor([2.0, 3.0], requires_grad=True), Tensor([1.0, 1.0]).realize()
        optimizer = nn.optim.SGD([w], lr=0.125)

        def forward(x: Tensor, w: Tensor = w, b: Tensor = b) -> Tensor:
            return (x * w + b).square().sum().backward().realize()

        call = wrap(lambda x, forward=forward: forward(x))
        seen, held, halves = [], [], []
        for i in range(7):
            optimizer.zero_grad()
            seen.append(call(Tensor([1.0, float(i)])).item())
            assert w.grad is not None
            held.append(w.grad)
            halves.append(w.grad / 2)
            with Tensor.train():
                optimizer.step()
            seen.append(w.tolist())
        found.append([*seen, *(t.tolist() for t in (*held, *halves))])
    assert found[1] == found[0]
    assert call.captured == 1


def test_a_grad_that_was_replaced_is_the_new_one_after_a_replay() -> None:
    """zero_grad in the function and something else put into grad outside."""
    w = Tensor([2.0, 3.0], requires_grad=True)

    @TinyJit
    def fill(x: Tensor) -> Tensor:
        w.grad = None
        return (x * w).sum().backward().realize()

    for i in range(6):
        fill(Tensor([1.0, float(i)]))
        assert w.grad is not None
        assert w.grad.tolist() == [1.0, float(i)]
        w.grad = w.grad * 100
    assert fill.captured == 1


LATER = "backward reaches a result of a TinyJit that was replayed, and was not taped"


@pytest.mark.parametrize("flag", [True, None])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")])
@pytest.mark.parametrize("keeps", ["a result", "a part", "outside", "an argument", "left"])
def test_backward_through_what_a_replay_wrote_is_refused(keeps: str, devices: Any, flag: bool | None) -> None:
    """Wherever a replay leaves what it computed: calls that run the function give the gradient, a replay says no."""

    def placed(values: list[float]) -> Tensor:
        t = Tensor(values, device="PYTHON")
        return (t if devices is None else t.shard(devices, 0)).realize()

    w, state, left, held = placed([1.0, 2.0, 3.0, 4.0]), placed([0.0] * 4), [], []
    w.requires_grad = flag

    @TinyJit
    def step(x: Tensor, given: Tensor) -> Tensor | None:
        if keeps == "outside":
            state.assign(x * w).realize()
        elif keeps == "an argument":
            given.assign(x * w).realize()
        elif keeps == "a part":
            state[1:] = (x * w)[1:]
            state.realize()
        elif keeps == "left":
            left[:] = [(x * w).realize()]
        else:
            return (x * w).realize()
        return None

    for i in range(5):
        x, given = placed([1.0, 2.0, 3.0, 4.0]), placed([0.0] * 4)
        held.append(x)  # a part that is written over depends on the ones before
        result = step(x, given)
        value = {"a result": result, "an argument": given, "left": left[0] if left else None}.get(keeps, state)
        assert isinstance(value, Tensor)
        assert value.tolist() == ([0.0] if keeps == "a part" else [1.0]) + [4.0, 9.0, 16.0]
        w.grad = None
        if i < 2:
            (value * w).sum().backward()
            assert w.grad is not None
            assert w.grad.tolist() == ([0.0] if keeps == "a part" else [2.0]) + [8.0, 18.0, 32.0]
        else:
            with pytest.raises(GraphError, match=LATER):
                (value * w).sum().backward()
        (value.detach() * w).sum().backward()
    assert step.captured == 1


@pytest.mark.parametrize("realized", [True, False])
def test_a_new_value_is_not_behind_what_a_replay_wrote(realized: bool) -> None:
    """A whole new value has the gradient of what it was computed from, whatever the old one was."""
    w, state = Tensor([1.0, 2.0], requires_grad=True).realize(), Tensor([0.0, 0.0]).realize()

    @TinyJit
    def step(x: Tensor) -> None:
        state.assign(x * w).realize()

    for i in range(4):
        step(Tensor([float(i), 1.0]).realize())
        state.assign(w * 3)
        if realized:
            state.realize()
        w.grad = None
        state.sum().backward()
        assert w.grad is not None
        assert w.grad.tolist() == [3.0, 3.0]
    assert step.captured == 1


def accumulated(jit: bool, make: Any) -> tuple[list[float], list[Any], list[Any], Any, Any]:
    """Twelve steps of three backward passes each: losses, weights, and grads that somebody kept, with what they were.

    The passes and the step are functions of their own, which are captured where `jit` is set. Also returns them.
    """
    random = np.random.RandomState(0)
    w = Tensor(random.standard_normal((2, 4)).astype(np.float32), requires_grad=True).realize()
    b = Tensor(random.standard_normal(2).astype(np.float32), requires_grad=True).realize()
    optimizer = make([w, b])

    def one_pass(x: Tensor) -> Tensor:
        return ((x @ w.transpose() + b).square().mean() / 3).backward().realize()

    @Tensor.train()
    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    calls = [TinyJit(one_pass), TinyJit(step)] if jit else [one_pass, step]
    losses, kept, were = [], [], []
    for number in range(12):
        losses += [
            calls[0](Tensor(random.standard_normal((3, 4)).astype(np.float32)).realize()).item() for _ in range(3)
        ]
        assert w.grad is not None
        grad = w.grad
        if number == 6:  # the grad itself, a view of one, and a lazy expression: each has its value from then on
            kept.append(grad)
        if number == 8:
            kept.append(grad[0:1])
        if number == 9:
            kept.append(grad * 2)
        if number in (6, 8, 9):
            were.append((grad[0:1] if number == 8 else grad * 2 if number == 9 else grad).numpy().copy())
        del grad
        calls[1]()
    return losses, [w.numpy(), b.numpy()], list(zip(kept, were, strict=True)), *calls


@pytest.mark.parametrize("make", [
    lambda params: nn.optim.SGD(params, lr=0.1, momentum=0.9), lambda params: nn.optim.Adam(params, lr=0.1),
], ids=["SGD", "Adam"])  # fmt: skip
def test_gradients_of_several_passes_are_accumulated_by_replays(make: Any) -> None:
    """The first pass after zero_grad(), the later ones and the step are captured; what was kept of a grad stays."""
    losses, weights, _, *_ = accumulated(False, make)
    found, others, kept, one_pass, step = accumulated(True, make)
    assert found == losses
    for mine, theirs in zip(weights, others, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for tensor, was in kept:
        np.testing.assert_array_equal(tensor.numpy(), was)
    assert one_pass.captured == 2
    assert step.captured == 1


def test_several_passes_are_replayed_from_the_fourth_step_on() -> None:
    """Nothing runs the functions any more; where zero_grad() is left out, two kinds of passes are enough."""
    for zeroed in (True, False):
        ran = [0]
        w = Tensor([1.0, 2.0], requires_grad=True)

        def one_pass(x: Tensor, w: Tensor = w, ran: list[int] = ran) -> Tensor:
            ran[0] += 1
            return (w * x).sum().backward().realize()

        call, counts = TinyJit(one_pass), []
        for number in range(6):
            for _ in range(3):
                call(Tensor([1.0, 3.0]).realize())
            assert w.grad is not None
            assert w.grad.tolist() == ([3.0, 9.0] if zeroed else [3.0 * (number + 1), 9.0 * (number + 1)])
            if zeroed:
                w.grad = None
            counts.append(ran[0])
        assert counts[3:] == [counts[2]] * 3
        assert call.captured == (2 if zeroed else 1)


def test_a_gradient_in_memory_is_added_to_there() -> None:
    """As in PyTorch: whoever has the grad sees the sum; a lazy expression of it has the value from before."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    assert w.grad is not None
    grad = w.grad.realize()
    doubled = grad * 2
    (w * 3).sum().backward()
    assert w.grad is grad
    assert grad.tolist() == [5.0, 7.0]
    assert doubled.tolist() == [4.0, 8.0]


def test_a_captured_function_whose_kind_of_grads_is_new_says_so() -> None:
    """print(step) names it."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    call = TinyJit(lambda x: (w * x).sum().backward().realize())
    call(Tensor([1.0, 3.0]).realize())
    call(Tensor([1.0, 3.0]).realize())
    assert "it finds other grads than in the calls before" in repr(call)


def test_a_view_of_a_dropped_grad_stays_what_it_was() -> None:
    """Where the function itself drops the grads and makes new ones."""
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()

    @TinyJit
    def one_pass(x: Tensor) -> Tensor:
        w.grad = None
        return (x * w).sum().backward().realize()

    views = []
    for number in range(6):
        one_pass(Tensor([1.0 + number, 2.0, 3.0]))
        assert w.grad is not None
        views.append(w.grad[0:2])
        assert [view.tolist() for view in views] == [[1.0 + i, 2.0] for i in range(number + 1)]
    assert one_pass.captured == 1


@pytest.mark.parametrize("other", [lambda grad: grad.clone(), lambda grad: grad * 2, lambda grad: (grad * 2).realize()],
                         ids=["a clone", "an expression", "other memory"])  # fmt: skip
def test_a_grad_that_was_given_is_added_to(other: Any) -> None:
    """Between passes the user gives another grad, lazy or not: each pass adds to that one, and so do replays."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        w = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
        one_pass = wrap(lambda x, w=w: (x * w).sum().backward().realize())
        grads = []
        for number in range(7):
            one_pass(Tensor([1.0 + number, 2.0, 3.0]))
            grads.append(w.grad.tolist())  # type: ignore[union-attr]
            if number % 3:
                w.grad = other(w.grad)
        found.append(grads)
    assert found[0] == found[1]


def test_a_step_that_leaves_out_zero_grad_is_captured() -> None:
    """The gradients of all steps are added up, by replays too."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        layer = nn.Linear(3, 2)
        layer.weight.assign(Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).realize()
        layer.bias.assign(Tensor([0.5, -0.5])).realize()
        optimizer = nn.optim.SGD([layer.weight, layer.bias], lr=0.01)

        @wrap
        @Tensor.train()
        def step(x: Tensor, layer: nn.Linear = layer, optimizer: Any = optimizer) -> Tensor:
            loss = layer(x).square().mean().backward()
            optimizer.step()
            return loss.realize()

        found.append([step(Tensor([[1.0, float(number), 2.0]])).item() for number in range(6)])
    assert found[0] == found[1]
    assert step.captured == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "given", [lambda old: Tensor([5.0, 6.0]), lambda old: Tensor([5.0, 6.0]).realize(), lambda old: old * 2]
)
def test_a_captured_step_reads_the_grads_that_are_there(given: Any) -> None:
    """Also where passes that are replayed have set others before, and will again."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        w = Tensor([1.0, 2.0], requires_grad=True).realize()
        optimizer = nn.optim.SGD([w], lr=0.125)

        @wrap
        def one_pass(x: Tensor, w: Tensor = w) -> Tensor:
            return (w * x).sum().backward().realize()

        @wrap
        @Tensor.train()
        def step(optimizer: Any = optimizer) -> None:
            optimizer.step()
            optimizer.zero_grad()

        weights, kept = [], []
        for number in range(10):
            one_pass(Tensor([1.0, float(number)]).realize())
            if number in (5, 6, 8):
                w.grad = given(w.grad)
                kept.append(w.grad)  # which keeps it alive
            step()
            weights.append(w.tolist())
        found.append(weights)
    assert found[0] == found[1]
    assert (one_pass.captured, step.captured) == (1, 1)  # type: ignore[attr-defined]


def _halved(y: Tensor) -> Tensor:
    """A copy of which every other element is 1."""
    new = y.clone()
    new[::2] = 1.0
    return -new


@pytest.mark.parametrize("devices", ["PYTHON", ("PYTHON", "PYTHON:1")])
@pytest.mark.parametrize("function", [lambda y: y, lambda y: -y, _halved], ids=["itself", "negative", "written"])
@pytest.mark.parametrize("calls", [5, 6])
def test_a_step_whose_gradient_is_constant_is_replayed(devices: Any, function: Any, calls: int) -> None:
    """A gradient of constants alone stays lazy: another one of the same value is the same to the next call."""
    found = []
    for step_of in (lambda step: step, TinyJit):
        w = Tensor([1.0, 2.0, 3.0], device=devices).realize()
        w.requires_grad = True

        def step(x: Tensor, w: Tensor = w) -> Tensor:
            w.grad = None
            (function(x + w) * 0.5).sum().backward()
            assert w.grad is not None
            w.assign(w.detach() - w.grad * 0.125)
            return (x + w).sum().realize(w)

        run = step_of(step)
        sums = [run(Tensor([float(i), 1.0, 2.0], device=devices).realize()).item() for i in range(calls)]
        assert w.grad is not None
        found.append((sums, w.tolist(), w.grad.tolist()))
    assert found[0] == found[1]
    assert isinstance(run, TinyJit) and run.captured == 1


def test_another_constant_gradient_that_is_read_is_another_kind() -> None:
    """A step that reads a constant grad before it drops it finds the number that there is."""
    w = Tensor([1.0, 2.0], requires_grad=True).realize()

    @TinyJit
    def step() -> Tensor:
        assert w.grad is not None
        total = (w.detach() * w.grad).sum().realize()
        w.grad = None
        return total

    found = []
    for factor in (1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 3.0, 3.0):
        (w * factor).sum().backward()
        found.append(step().item())
    assert found == [3.0, 3.0, 3.0, 6.0, 3.0, 9.0, 9.0, 9.0]


def test_a_capture_that_was_dropped_says_why() -> None:
    """Not that its arguments differ, which they do not."""
    w = Tensor([1.0, 2.0]).realize()
    step = TinyJit(lambda x: (x * w).realize())
    for i in range(3):
        step(Tensor([float(i), 1.0]))
    assert step.captured == 1
    w.requires_grad = True
    step(Tensor([5.0, 1.0]))
    assert "a tensor that it reads from outside was rebound to another value, or its requires_grad changed" in repr(
        step
    )
