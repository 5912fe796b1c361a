"""Gradients are clipped as PyTorch clips them, in captured steps too, and nothing is read."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn
from tinygraft.errors import TrainingError

torch = pytest.importorskip("torch")

GRADS = [np.random.RandomState(n).standard_normal((3, n + 1)).astype(np.float32) for n in range(3)]


def params(dtype: Any = dtypes.float32) -> list[Tensor]:
    """Three tensors with gradients, and one without."""
    found = [Tensor.zeros(*g.shape, dtype=dtype) for g in GRADS]
    for p, g in zip(found, GRADS, strict=True):
        p.grad = Tensor(g, dtype=dtype)
    return [*found, Tensor([1.0])]


def its() -> list[Any]:
    """The same in PyTorch."""
    found = [torch.zeros(g.shape) for g in GRADS]
    for p, g in zip(found, GRADS, strict=True):
        p.grad = torch.tensor(g)
    return [*found, torch.ones(1)]


@pytest.mark.parametrize("most", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_the_norm_is_pytorchs(order: float, most: float) -> None:
    """Of all gradients as one vector; they are scaled to it where it is more."""
    mine, theirs = params(), its()
    norm = nn.optim.clip_grad_norm(mine, most, order)
    wanted = torch.nn.utils.clip_grad_norm_(theirs, most, order)
    assert norm.shape == ()
    assert math.isclose(norm.item(), wanted.item(), rel_tol=1e-5)
    for p, q in zip(mine[:3], theirs[:3], strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)


def test_values_are_limited() -> None:
    """Each to the bound."""
    mine, theirs = params(), its()
    nn.optim.clip_grad_value(mine, 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    for p, q in zip(mine[:3], theirs[:3], strict=True):
        assert p.grad is not None
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())


def test_half_gradients_are_measured_in_float32() -> None:
    """The square of 300 is no float16."""
    p = Tensor([0.0, 0.0]).half()
    p.grad = Tensor([300.0, 400.0]).half()
    assert abs(nn.optim.clip_grad_norm(p, 5.0).item() - 500) < 1
    assert (p.grad.dtype, p.grad.tolist()) == (dtypes.float16, [3.0, 4.0])


def test_a_captured_step() -> None:
    """The limit may be a tensor, which is assigned to between replays."""
    p, most = Tensor([3.0, 4.0]), Tensor([1.0]).realize()
    sgd = nn.optim.SGD([p], lr=1.0)

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        sgd.zero_grad()
        (p * Tensor([3.0, 4.0])).sum().backward()
        norm = nn.optim.clip_grad_norm(sgd.params, most)
        return norm.realize(*sgd.schedule_step())

    wanted = np.array([3.0, 4.0])
    for limit in (1.0, 1.0, 2.0, 0.5):
        most.assign(Tensor([limit])).realize()
        assert step().item() == 5.0
        wanted -= np.array([0.6, 0.8]) * limit
        np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert step.captured == 1


def test_refusals() -> None:
    """What cannot be meant is named; a norm that is no number leaves the gradients."""
    for call, message in (
        (lambda: nn.optim.clip_grad_norm(params(), -1.0), "clip_grad_norm needs a max_norm of at least 0, got -1.0"),
        (lambda: nn.optim.clip_grad_norm(params(), 1.0, 0), "clip_grad_norm needs a norm_type above 0, got 0"),
        (lambda: nn.optim.clip_grad_value(params(), -1.0), "clip_grad_value needs a clip_value of at least 0, got -1.0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="gradients are clipped of a list of tensors, got Linear"):
        nn.optim.clip_grad_norm(nn.Linear(1, 1), 1.0)  # type: ignore[arg-type]
    p = Tensor([1.0])
    p.grad = Tensor([math.inf])
    with pytest.raises(TrainingError, match="the norm of order 2.0 of the gradients is inf, which clips nothing"):
        nn.optim.clip_grad_norm([p], 1.0, error_if_nonfinite=True)
    assert p.grad.item() == math.inf
    assert nn.optim.clip_grad_norm([Tensor([1.0])], 1.0).item() == 0


def test_accumulated_gradients_are_those_of_all_batches() -> None:
    """Two backward passes and one step, captured, are one pass over both."""
    x = np.random.RandomState(0).standard_normal((8, 3)).astype(np.float32)
    found = []
    for parts in (1, 2):
        p = Tensor(np.ones((3, 2), np.float32))
        adam = nn.optim.Adam([p], lr=0.1)

        @TinyJit
        @Tensor.train()
        def step(*batches: Tensor, p: Tensor = p, adam: nn.optim.Optimizer = adam) -> None:
            adam.zero_grad()
            for batch in batches:
                ((batch @ p).square().mean() / len(batches)).backward()
            adam.step()

        for _ in range(4):
            step(*(Tensor(part) for part in np.split(x, parts)))
        found.append(p.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_a_name_of_pytorch_is_answered() -> None:
    """clip_grad_norm_ has no underscore here."""
    with pytest.raises(
        AttributeError, match="has no attribute 'clip_grad_norm_'\n  hint: did you mean 'clip_grad_norm'?"
    ):
        _ = nn.optim.clip_grad_norm_  # type: ignore[attr-defined]
