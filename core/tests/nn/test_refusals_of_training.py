"""What a training script asks for and would get wrong numbers of: each is an error, or is done as PyTorch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, nn
from tinygraft.errors import DTypeError, TrainingError
from tinygraft.nn.optim import SGD, Adam, LossScaler, OptimizerGroup


def weight() -> Tensor:
    """Two numbers to train."""
    return Tensor([1.0, 2.0])


def stepped(scaler: LossScaler, optimizer: Any, p: Tensor) -> None:
    """One step of a sum, whose gradients are ones."""
    with Tensor.train():
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)


def test_a_step_without_update_before_is_refused() -> None:
    """Its gradients would be taken for unscaled ones."""
    p, scaler = weight(), LossScaler(init_scale=1024.0)
    sgd = SGD([p], lr=0.1)
    stepped(scaler, sgd, p)
    with pytest.raises(TrainingError, match=r"has stepped before, and update\(\) was not called since"):
        stepped(scaler, sgd, p)
    scaler.update()
    stepped(scaler, sgd, p)
    assert np.allclose(p.numpy(), [0.8, 1.8])


def test_what_a_group_unscaled_its_members_do_not_again() -> None:
    """unscale of the group, and a step of each."""
    p, q, scaler = weight(), weight(), LossScaler(init_scale=1024.0)
    a, b = SGD([p], lr=0.1), SGD([q], lr=0.1)
    group = OptimizerGroup(a, b)
    with Tensor.train():
        group.zero_grad()
        scaler.scale((p + q).sum()).backward()
        scaler.unscale(group)
        scaler.step(a)
        scaler.step(b)
    assert np.allclose([p.numpy(), q.numpy()], [[0.9, 1.9]] * 2)


def test_an_overflow_is_skipped_in_groups_of_groups() -> None:
    """Every parameter stays."""
    p, q, scaler = weight(), weight(), LossScaler()
    group = OptimizerGroup(OptimizerGroup(SGD([p], lr=0.1)), Adam([q]))
    with Tensor.train():
        group.zero_grad()
        scaler.scale((p + q).sum() * float("inf")).backward()
        scaler.step(group)
    assert p.tolist() == q.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("wrong", "kind", "sentence"),
    [
        (lambda: SGD([weight()], lr=0.1, nesterov=True), ValueError, "nesterov needs a momentum above 0"),
        (lambda: Adam([weight()]).param_groups[0].update(weigth_decay=0.5), ValueError,
         "has no option 'weigth_decay', and no step would read it\n  hint: did you mean 'weight_decay'?"),
        (lambda: Adam([weight()]).param_groups[0].update(maximize=True), TrainingError, "'maximize' is fixed when an"),
        (lambda: Adam([weight()]).param_groups[0].update(lookahead=True), ValueError, "has no option 'lookahead'"),
        (lambda: Adam([weight()], differentiable=True), ValueError,
         "Adam has no differentiable step: it writes memory\n  hint: p - lr * g, with g of loss.gradient(p), is an"),
        (lambda: Adam([weight()], foreech=True), TypeError, "got an unexpected keyword argument 'foreech'"),
        (lambda: SGD([weight()], momentum=0.9, dampening=0.1, nesterov=True), ValueError, "and no dampening"),
        (lambda: setattr(SGD([weight()], momentum=0.9), "dampening", 0.5), TrainingError,
         "SGD was made without dampening and has no count of steps for it"),
        (lambda: nn.optim.Adafactor, AttributeError, "no attribute 'Adafactor'\n  hint: Adam, or Lion"),
        (lambda: Adam([weight()]).add_param_group([weight()]), TypeError, "a group is a dict with the tensors as"),
        (lambda: Adam([weight()]).add_param_group({"params": [Tensor([1])]}), TrainingError,
         "the group has 1 tensor and none to train"),
        (lambda: nn.optim.OptimizerGroup(Adam([weight()])).add_param_group({"params": [weight()]}), TrainingError,
         r"an OptimizerGroup has several optimizers; hint: group.optimizers"),
        (lambda: nn.optim.LBFGS([weight()]).add_param_group({"params": [weight()]}), TrainingError,
         "LBFGS has one group of parameters, from the start"),
        (lambda: nn.GRU(2, 3)(Tensor.ones(4, 2, 2), lengths=[1.9, 2]), DTypeError, "needs lengths of integers, got"),
        (lambda: nn.GroupedQueryAttention(8, 2, 1)(Tensor.ones(1, 2, 8), cache=nn.KVCache(1, 4, 1, 4)), TypeError,
         "a cache needs the position of the first key; hint: start=0"),
        (lambda: nn.state.load_state_dict(nn.Linear(1, 1), "x.safetensors"), TypeError,
         "takes a mapping of names to tensors, got str\n  hint: safe_load(path)"),
        (lambda: LossScaler().load_state_dict({**LossScaler().state_dict(), "scale": -3.0}), ValueError,
         "LossScaler needs an init_scale above 0"),
    ],
)  # fmt: skip
def test_sentences(wrong: Callable[[], Any], kind: type[Exception], sentence: str) -> None:
    """Each says what was found and what to do."""
    with pytest.raises(kind) as caught:
        wrong()
    assert sentence in str(caught.value)


def test_a_cache_in_training_is_refused() -> None:
    """Keys and values would get no gradient."""
    attention, cache = nn.GroupedQueryAttention(8, 2, 1), nn.KVCache(1, 4, 1, 4)
    SGD(nn.state.get_parameters(attention))
    with Tensor.train(), pytest.raises(TrainingError, match="a cache passes no gradient to its keys and values"):
        attention(Tensor.ones(1, 2, 8), cache=cache, start=0)
    assert attention(Tensor.ones(1, 2, 8), cache=cache, start=0).shape == (1, 2, 8)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_what_is_in_the_padding_reaches_no_gradient(kind: type) -> None:
    """NaN behind the end of a sequence: neither values nor gradients see it."""
    layer, x = kind(2, 3), np.ones((4, 2, 2), np.float32)
    x[3, 0] = np.nan
    weights = nn.state.get_parameters(layer)
    SGD(weights)
    layer(Tensor(x), lengths=[3, 4])[0].sum().backward()
    assert all(np.isfinite(w.grad.numpy()).all() for w in weights)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    """A rate of the second group below 0: the first group has its own still."""
    a, b = weight(), weight()
    sgd = SGD([{"params": [a]}, {"params": [b]}], lr=0.1)
    state = sgd.state_dict()
    state["param_groups"][0]["lr"], state["param_groups"][1]["lr"] = 0.7, -1.0
    with pytest.raises(ValueError, match="needs lr to be at least 0, got -1.0"):
        sgd.load_state_dict(state)
    assert [group["lr"].item() for group in sgd.param_groups] == pytest.approx([0.1, 0.1])


def test_an_optimizer_prints_what_it_is() -> None:
    """With the rate of now, and nothing is launched; within a capture, whose values are not there, it says so."""
    sgd = SGD([weight()], lr=0.5, momentum=0.75)
    assert repr(sgd).startswith("<SGD of 1 parameter, lr=0.5, momentum=0.75")
    sgd.lr = 0.25
    GlobalCounters.reset()
    assert repr(sgd).startswith("<SGD of 1 parameter, lr=0.25, momentum=0.75")
    sgd.lr.uop = (sgd.lr * 2).uop
    assert repr(sgd).startswith("<SGD of 1 parameter, lr in a tensor, momentum=0.75")
    assert GlobalCounters.kernel_count == 0
    two = Adam([{"params": [weight()]}, {"params": [weight()]}])
    assert repr(two).startswith("<Adam of 2 parameters in 2 groups, the first with lr=0.001, eps=1e-08")


def test_a_plateau_and_a_warm_up_do_not_undo_each_other() -> None:
    """Making the plateau's scheduler changes no rate; a warm-up that has ended leaves its reductions."""
    rates = nn.optim.lr_scheduler
    sgd = SGD([weight()], lr=0.1)
    warm = rates.LinearLR(sgd, 0.5, total_iters=2)
    plateau = rates.ReduceLROnPlateau(sgd, factor=0.5, patience=0)
    found = [sgd.lr.item()]
    for loss in (1.0, 0.5, 0.5, 0.5, 0.5):
        warm.step()
        plateau.step(loss)
        found.append(sgd.lr.item())
    assert found == pytest.approx([0.05, 0.075, 0.1, 0.05, 0.025, 0.0125])
