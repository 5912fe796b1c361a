"""LossScaler is PyTorch's GradScaler, but decides on the device: an overflow in a replay changes nothing but the
scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn
from tinygraft.errors import TrainingError

torch = pytest.importorskip("torch")

FACTORS = [1.0, math.inf, 2.0, 1.0, 1.0, math.nan, 3.0, 1.0, 1.0, 1.0]
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9}, "Adam": {}, "RMSprop": {"centered": True}, "Adagrad": {}, "Adadelta": {}, "Lion": {},
    "LAMB": {}, "LARS": {}, "Muon": {},
}  # fmt: skip


def theirs() -> tuple[list[Any], list[float]]:
    """PyTorch's parameter and scale after each step with Adam; its scaler works on the CPU too."""
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    adam, found, scales = torch.optim.Adam([p], lr=0.1), [], []
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    for factor in FACTORS:
        adam.zero_grad()
        scaler.scale((p * p * factor).sum()).backward()
        scaler.step(adam)
        scaler.update()
        found.append(p.detach().numpy().copy())
        scales.append(scaler.get_scale())
    return found, scales


@pytest.mark.parametrize("clipped", [False, True], ids=["whole", "unscaled before"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "replayed"])
def test_steps_and_scales_are_pytorchs(jit: bool, clipped: bool) -> None:
    """Through overflows and growths, in one capture that reads nothing."""
    p = Tensor([1.0, 2.0])
    adam = nn.optim.Adam([p], lr=0.1)
    scaler = nn.optim.LossScaler(init_scale=8.0, growth_interval=3)

    @Tensor.train()
    def step(factor: Tensor) -> None:
        adam.zero_grad()
        scaler.scale((p * p * factor).sum()).backward()
        if clipped:
            scaler.unscale(adam)
            nn.optim.clip_grad_norm(adam.params, 1e9)
        scaler.step(adam)
        scaler.update()

    run: Any = TinyJit(step) if jit else step
    for factor, wanted, scale in zip(FACTORS, *theirs(), strict=True):
        run(Tensor([factor]))
        np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-5)
        assert scaler.scale_factor.item() == scale
    assert adam.t.item() == sum(math.isfinite(f) for f in FACTORS)
    assert not jit or run.captured == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_that_overflows_changes_nothing(name: str) -> None:
    """No parameter and no state of any optimizer."""
    params = [Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0], [2.0]])]
    optimizer = getattr(nn.optim, name)(params, lr=0.1, **OPTIONS[name])
    scaler = nn.optim.LossScaler(init_scale=4.0)

    def everything() -> list[Any]:
        return [t.numpy() for t in [*params, *(t for _, t in sorted(nn.state.get_state_dict(optimizer).items()))]]

    before: list[Any] = []
    for factor in (1.0, math.inf):
        with Tensor.train():
            optimizer.zero_grad()
            scaler.scale((params[0] @ params[1] * Tensor(factor)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        after = everything()
        assert factor == 1.0 or all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        before = after


def test_float16_trains_with_a_scale() -> None:
    """A gradient of 1e-9 is no float16: without a scale nothing moves."""
    moved = []
    for enabled in (False, True):
        p = Tensor([1.0]).half()
        sgd, scaler = nn.optim.SGD([p], lr=2e7), nn.optim.LossScaler(enabled=enabled)
        with Tensor.train():
            # the gradient of the cast is a float16
            scaler.scale(((p * 0.5).float() * 1e-8).sum()).backward()
            scaler.step(sgd)
            scaler.update()
        moved.append(p.item())
    assert moved == [1.0, pytest.approx(0.9, abs=1e-2)]


def test_a_group_and_two_optimizers() -> None:
    """An overflow in one of two optimizers leaves the other's step; of a group it leaves all."""
    for grouped in (False, True):
        p, q = Tensor([1.0]), Tensor([1.0])
        one, two = nn.optim.SGD([p], lr=0.5), nn.optim.SGD([q], lr=0.5)
        scaler, steps = (
            nn.optim.LossScaler(init_scale=4.0),
            [nn.optim.OptimizerGroup(one, two)] if grouped else [one, two],
        )
        with Tensor.train():
            scaler.scale((p * math.inf + q).sum()).backward()
            for optimizer in steps:
                scaler.step(optimizer)
            scaler.update()
        assert (p.item(), q.item()) == (1.0, 1.0 if grouped else 0.5)
        assert scaler.scale_factor.item() == 2.0


def test_state_is_pytorchs() -> None:
    """Names and numbers, both ways."""
    ours, other = nn.optim.LossScaler(init_scale=8.0), torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=7)
    other.scale(torch.ones(1))  # it makes its scale then
    assert set(ours.state_dict()) == set(other.state_dict())
    ours.load_state_dict(other.state_dict())
    assert ours.state_dict() == other.state_dict()


def test_refusals() -> None:
    """What cannot be meant is named."""
    with pytest.raises(
        ValueError, match="LossScaler needs an init_scale above 0, growth_factor > 1 > backoff_factor > 0"
    ):
        nn.optim.LossScaler(growth_factor=0.5)
    p = Tensor([1.0])
    sgd, scaler = nn.optim.SGD([p]), nn.optim.LossScaler()
    with Tensor.train():
        with pytest.raises(TrainingError, match="has no gradient"):
            scaler.step(sgd)
        scaler.scale(p.sum()).backward()
        scaler.unscale(sgd)
        with pytest.raises(TrainingError, match="the gradients of this optimizer were unscaled before"):
            scaler.unscale(sgd)
    assert scaler.scale(Tensor([1.0]).half()).dtype is dtypes.float32
