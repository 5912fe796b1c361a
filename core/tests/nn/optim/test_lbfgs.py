"""LBFGS goes where PyTorch's goes, with and without a line search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.errors import TrainingError
from tinygraft.nn.optim.curvature import Curvature
from tinygraft.nn.optim.lbfgs_programs import Programs

torch = pytest.importorskip("torch")


def rosenbrock(p: Any, q: Any) -> Any:
    """A curved valley, and its least value 0 at ones."""
    return ((1 - p) ** 2).sum() + 10 * ((q - p * p) ** 2).sum()


def quartic(p: Any, q: Any) -> Any:
    """A bowl with a flat bottom."""
    return ((p - 1) ** 4).sum() + ((q + p) ** 2).sum()


START = [np.array([-1.2, 0.5], np.float64), np.array([1.0, -0.7], np.float64)]
CASES: dict[str, dict[str, Any]] = {
    "searched": {"line_search_fn": "strong_wolfe"},
    "searched, few": {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 6},
    "plain": {"lr": 0.02, "max_iter": 5},
    "few calls": {"lr": 0.05, "max_eval": 3},
}


@pytest.mark.parametrize("loss", [pytest.param(rosenbrock, marks=pytest.mark.slow), quartic])
@pytest.mark.parametrize("case", CASES)
def test_steps_are_pytorchs(case: str, loss: Any) -> None:
    """Two steps, in float64."""
    mine, its = [Tensor(v) for v in START], [torch.tensor(v, requires_grad=True) for v in START]
    ours, theirs = nn.optim.LBFGS(mine, **CASES[case]), torch.optim.LBFGS(its, **CASES[case])

    def closure() -> Tensor:
        ours.zero_grad()
        return loss(*mine).backward()  # type: ignore[no-any-return]

    def other() -> Any:
        theirs.zero_grad()
        value = loss(*its)
        value.backward()
        return value

    for _ in range(2):
        with Tensor.train():
            found = ours.step(closure).item()
        np.testing.assert_allclose(found, theirs.step(other).item(), rtol=1e-6, atol=1e-12)
        for p, q in zip(mine, its, strict=True):
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-9)
    state = theirs.state[its[0]]
    assert (ours.evaluations, ours.iterations) == (state["func_evals"], state["n_iter"])


def test_half_parameters() -> None:
    """The vectors are float32."""
    p = Tensor([3.0, -2.0]).half()
    lbfgs = nn.optim.LBFGS([p], line_search_fn="strong_wolfe")

    @Tensor.train()
    def closure() -> Tensor:
        lbfgs.zero_grad()
        return ((p.float() - 1) ** 2).sum().backward()

    with Tensor.train():
        lbfgs.step(closure)
    np.testing.assert_allclose(p.numpy(), [1, 1], rtol=1e-2)


def test_under_tinyjit_it_is_run_in_every_call() -> None:
    """It decides by values."""
    p = Tensor([3.0])
    lbfgs = nn.optim.LBFGS([p], lr=0.25, max_iter=1)

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        def closure() -> Tensor:
            lbfgs.zero_grad()
            return (p * p).sum().backward()

        return lbfgs.step(closure)

    losses = [step().item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4


@pytest.mark.parametrize("most", [1, 3, 12])
def test_directions_are_those_of_the_two_loops(most: int) -> None:
    """Of the last pairs, where some are refused, one with NaN among them; there is room for more than the first few."""
    rng, pairs, shape = np.random.default_rng(0), [], 1.0
    start = rng.standard_normal(5)
    last, programs = start, Programs()
    curvature = Curvature(Tensor(last), most, programs)
    params = [Tensor(np.array([1.0, 2.0, 3.0])), Tensor(np.array([4.0, 5.0]))]
    for number in range(30):
        direction = rng.standard_normal(5)
        gradient = last + (np.nan if number == 7 else 1.0 if number % 5 else -1.0) * direction * rng.random(5)
        curvature.add(Tensor(direction), 0.5, Tensor(gradient), Tensor(last))
        move, bend = 0.5 * direction, gradient - last
        if move @ bend > 1e-10:
            pairs, shape = [*pairs, (move, bend)][-most:], (move @ bend) / (bend @ bend)
        gradient = start if number == 7 else gradient
        if number == 7:
            curvature.slopes[: len(curvature.rows)] = curvature.rows.numpy() @ gradient
        expected, steps = -gradient, []
        for move, bend in reversed(pairs):
            steps.append((move @ expected) / (move @ bend))
            expected = expected - steps[-1] * bend
        expected = expected * shape
        for move, bend in pairs:
            expected = expected + move * (steps.pop() - (bend @ expected) / (move @ bend))
        heading = curvature.heading(params, Tensor(gradient))
        np.testing.assert_allclose(heading.direction.numpy(), expected, rtol=1e-8)
        np.testing.assert_allclose(heading.slope, expected @ gradient, rtol=1e-8)
        np.testing.assert_allclose(heading.greatest, np.abs(expected).max(), rtol=1e-8)
        assert heading.start.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        last = gradient
    assert len(pairs) == most


def test_a_closure_under_tinyjit_is_as_one_without() -> None:
    """It gives gradients in memory; those of the other are realised with the loss."""
    found = []
    for wrapper in (TinyJit, lambda function: function):
        p, q = (Tensor(v, requires_grad=True) for v in START)
        lbfgs = nn.optim.LBFGS([p, q], max_iter=4, line_search_fn="strong_wolfe")

        @wrapper
        def closure(p: Tensor = p, q: Tensor = q) -> Tensor:
            p.grad = q.grad = None
            return quartic(p, q).backward().realize()  # type: ignore[no-any-return]

        with Tensor.train():
            found.append([lbfgs.step(lambda call=closure: call()).item() for _ in range(4)] + p.tolist() + q.tolist())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_refusals() -> None:
    """What cannot be meant is named."""
    p = Tensor([1.0])
    with pytest.raises(ValueError, match="LBFGS has the line_search_fn 'strong_wolfe', or None; got 'armijo'"):
        nn.optim.LBFGS([p], line_search_fn="armijo")
    with pytest.raises(ValueError, match="LBFGS needs a history_size of at least 1, got 0"):
        nn.optim.LBFGS([p], history_size=0)
    with pytest.raises(ValueError, match="LBFGS has one group of parameters, got 2"):
        nn.optim.LBFGS([{"params": [p]}, {"params": [Tensor([1.0])]}])
    lbfgs = nn.optim.LBFGS([p])
    with pytest.raises(TypeError, match="LBFGS calls the loss several times a step"):
        lbfgs.step()
    for refused in (lbfgs.schedule_step, lbfgs.state_dict, lambda: lbfgs.load_state_dict({})):
        with pytest.raises(TrainingError, match="LBFGS"):
            refused()
