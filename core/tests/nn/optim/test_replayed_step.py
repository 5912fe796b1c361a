"""Steps outside of a capture: their updates are replayed, and are those of steps that are not."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, nn
from tinygraft.errors import TrainingError

MAKERS: list[Any] = [
    lambda params: nn.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    lambda params: nn.optim.Adam(params, lr=0.1, amsgrad=True),
    lambda params: nn.optim.AdamW(params, lr=0.1),
    lambda params: nn.optim.NAdam(params, lr=0.1),
    lambda params: nn.optim.RAdam(params, lr=0.1),
    lambda params: nn.optim.Adamax(params, lr=0.1),
    lambda params: nn.optim.RMSprop(params, lr=0.1, centered=True, momentum=0.5),
    lambda params: nn.optim.Adagrad(params, lr=0.1, lr_decay=0.1),
    lambda params: nn.optim.Adadelta(params, lr=0.1),
    lambda params: nn.optim.LAMB(params, lr=0.1, weight_decay=0.1),
    lambda params: nn.optim.LARS(params, lr=0.1),
    lambda params: nn.optim.Lion(params, lr=0.1, weight_decay=0.1),
    lambda params: nn.optim.Muon(params, lr=0.1),
]


def some_params(dtype: str = "float32") -> list[Tensor]:
    """Return a matrix and a vector, the same ones in each call."""
    return [Tensor(np.arange(6.0).reshape(2, 3) - 2.5, dtype=dtype), Tensor(np.array([0.5, -1.0, 2.0]), dtype=dtype)]


def loss_of(params: list[Tensor]) -> Tensor:
    """Return a loss that depends on both."""
    return ((Tensor([1.0, -2.0], dtype=params[0].dtype) @ params[0] + params[1]).square()).sum()


def trained(params: list[Tensor], optimizer: Any, steps: int = 6, lazily: bool = False) -> list[float]:
    """Return the losses of steps; with `lazily` the updates are scheduled, and are not replayed."""
    losses = []
    with Tensor.train():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of(params).backward()
            if lazily:
                first, *others = optimizer.schedule_step()
                first.realize(*others)
            else:
                optimizer.step()
            losses.append(loss.item())
    return losses


def count_updates(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[int]:
    """Return a list that grows by each update whose Python is run."""
    runs: list[int] = []
    step = kind._step  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "_step", lambda self, grads: (runs.append(1), step(self, grads))[1])
    return runs


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_replayed_steps_are_those_that_are_scheduled(make: Any, dtype: str) -> None:
    """Parameters and losses are those of steps whose update is scheduled."""
    params, others = some_params(dtype), some_params(dtype)
    losses = trained(params, make(params))
    wanted = trained(others, make(others), lazily=True)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5 if dtype == "float32" else 2e-2)
    for one, other in zip(params, others, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5 if dtype == "float32" else 2e-2, atol=1e-6)


def test_the_python_of_an_update_is_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third step on it is replayed."""
    runs = count_updates(monkeypatch, nn.optim.Adam)
    params = some_params()
    trained(params, nn.optim.Adam(params), 7)
    assert len(runs) == 2


def test_a_loss_that_is_read_after_the_step_is_that_before_and_is_not_computed_twice() -> None:
    """It is computed with the gradients."""
    params = some_params()
    optimizer = nn.optim.SGD(params, lr=0.1)
    trained(params, optimizer, 3)
    with Tensor.train():
        optimizer.zero_grad()
        wanted = loss_of(params).item()
        loss = loss_of(params)
        predicted = loss * 2  # a live tensor that reads the parameters, too
        loss.backward()
        optimizer.step()
        GlobalCounters.reset()
        assert loss.item() == pytest.approx(wanted)
        assert GlobalCounters.kernel_count == 0
        assert predicted.item() == pytest.approx(2 * wanted)


def test_options_that_are_set_later_hold() -> None:
    """Also a decay that was 0, which a step had no part for."""
    params, others = some_params(), some_params()
    optimizer, other = nn.optim.AdamW(params, weight_decay=0.0), nn.optim.AdamW(others, weight_decay=0.0)
    for lazily, tensors, one in ((False, params, optimizer), (True, others, other)):
        trained(tensors, one, 4, lazily)
        one.lr = 0.5
        trained(tensors, one, 2, lazily)
        one.weight_decay = 0.3  # a part of the step that was left out
        one.b1 = 0.5
        trained(tensors, one, 4, lazily)
    for mine, theirs in zip(params, others, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5)


def test_a_plain_number_of_an_optimizer_that_is_set_later_holds() -> None:
    """A number that is part of a kernel is captured anew."""
    params, others = some_params(), some_params()
    for lazily, tensors in ((False, params), (True, others)):
        lars = nn.optim.LARS(tensors, lr=0.1)
        trained(tensors, lars, 4, lazily)
        lars.tcoef = 0.5
        trained(tensors, lars, 3, lazily)
    for mine, theirs in zip(params, others, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5)


class Counting(nn.optim.SGD):
    """An optimizer that is not ours: its step may do what no launch repeats."""

    steps = 0

    def _step(self, grads: list[Tensor]) -> None:
        self.steps += 1
        super()._step([grad * self.steps for grad in grads])


def test_a_class_of_another_package_is_run_in_every_step() -> None:
    """It may count its steps in Python."""
    params, others = some_params(), some_params()
    mine, other = Counting(params, lr=0.01), nn.optim.SGD(others, lr=0.01)
    trained(params, mine, 5)
    assert mine.steps == 5
    with Tensor.train():
        for number in range(1, 6):
            other.zero_grad()
            (loss_of(others) * number).backward()
            other.step()
    for one, wanted in zip(params, others, strict=True):
        np.testing.assert_allclose(one.numpy(), wanted.numpy(), rtol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_an_optimizer_trains_parameters_of_its_own(copied: Any) -> None:
    """The program of the one writes nothing of the other."""
    params = some_params()
    optimizer = nn.optim.Adam(params, lr=0.1)
    trained(params, optimizer, 4)
    before = [p.numpy().copy() for p in params]
    other = copied(optimizer)
    trained(other.params, other, 4)
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), old)
    trained(params, optimizer, 4)
    for one, two in zip(params, other.params, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_a_missing_gradient_is_refused_and_nothing_has_changed() -> None:
    """As where the step is scheduled."""
    params = some_params()
    optimizer = nn.optim.SGD(params, lr=0.1)
    trained(params, optimizer, 4)
    before = [p.numpy().copy() for p in params]
    with Tensor.train():
        optimizer.zero_grad()
        params[1].sum().backward()
        with pytest.raises(TrainingError, match="parameter 0 of 2"):
            optimizer.step()
    for p, old in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), old)


def test_gradients_of_all_kinds() -> None:
    """A constant, one that two parameters share, a view, and one that stays from step to step."""
    a, b, c = (Tensor([1.0, 2.0, 3.0]) for _ in range(3))
    optimizer = nn.optim.SGD([a, b, c], lr=0.5)
    both = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
    with Tensor.train():
        for step in range(5):
            a.grad = b.grad = Tensor.full((3,), float(step))
            c.grad = both[step % 2]
            optimizer.step()
    np.testing.assert_array_equal(a.numpy(), [-4.0, -3.0, -2.0])
    np.testing.assert_array_equal(b.numpy(), a.numpy())
    np.testing.assert_array_equal(c.numpy(), np.array([1.0, 2, 3]) - 0.5 * np.array([11.0, 16, 21]))
    np.testing.assert_array_equal(both.numpy(), [[1, 2, 3], [4, 5, 6]])


def test_a_gradient_of_a_gradient_survives_the_step() -> None:
    """Old values are saved where a gradient may be taken of it."""
    x = Tensor([2.0], requires_grad=True)
    optimizer = nn.optim.SGD([x], lr=0.1)
    with Tensor.train():
        for _ in range(4):
            x.assign(Tensor([2.0])).realize()
            x.grad = None
            (slope,) = (x**3).sum().gradient(x)
            x.grad = slope
            optimizer.step()  # x is 2 - 0.1 * 12
            x.grad = None
            slope.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), [12.0], rtol=1e-6)  # 6 x where x was 2
    np.testing.assert_allclose(x.numpy(), [0.8], rtol=1e-6)


def test_weights_that_are_loaded_between_steps_are_those_that_are_trained() -> None:
    """Parameters and state, in place."""
    params = some_params()
    optimizer = nn.optim.Adam(params, lr=0.1)
    trained(params, optimizer, 4)
    saved, state = [p.numpy().copy() for p in params], optimizer.state_dict()
    kept = copy.deepcopy({n: {k: v.numpy().copy() for k, v in each.items()} for n, each in state["state"].items()})
    losses = trained(params, optimizer, 3)
    for p, value in zip(params, saved, strict=True):
        p.assign(Tensor(value))
    optimizer.load_state_dict({"state": {n: {k: Tensor(v) for k, v in e.items()} for n, e in kept.items()},
                               "param_groups": state["param_groups"]})  # fmt: skip
    np.testing.assert_allclose(trained(params, optimizer, 3), losses, rtol=1e-6)


def test_several_optimizers_of_a_group_step_as_one() -> None:
    """Their gradients are computed together."""
    params, others = some_params(), some_params()
    group = nn.optim.OptimizerGroup(nn.optim.Adam(params[:1], lr=0.1), nn.optim.SGD(params[1:], lr=0.1))
    other = nn.optim.OptimizerGroup(nn.optim.Adam(others[:1], lr=0.1), nn.optim.SGD(others[1:], lr=0.1))
    np.testing.assert_allclose(trained(params, group), trained(others, other, lazily=True), rtol=1e-5)
