"""Learning rates over time: 40 steps of every scheduler are PyTorch's, also in groups; state, TinyJit, refusals."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, nn
from tinygraft.errors import FileFormatError
from tinygraft.nn.optim import lr_scheduler as ours

torch = pytest.importorskip("torch")
theirs = torch.optim.lr_scheduler

Make = Callable[[Any, Any], Any]
warmup = {"start_factor": 0.1, "total_iters": 5}
CASES: dict[str, Make] = {
    "step": lambda s, o: s.StepLR(o, 7, 0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [9, 3, 9, 20], 0.5),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 11, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, 12),
    "linear by default": lambda s, o: s.LinearLR(o),
    "lambda": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]),
    "one lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.1, 0.3], total_steps=41),
    "one cycle of epochs": lambda s, o: s.OneCycleLR(o, 0.2, epochs=6, steps_per_epoch=7, div_factor=10.0),
    "three phases": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=41, three_phase=True, final_div_factor=100.0),
    "one line": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=41, pct_start=0.5, anneal_strategy="linear"),
    "one cycle, momentum still": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=41, cycle_momentum=False),
    "sequence": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, **warmup), s.CosineAnnealingLR(o, 20), s.ExponentialLR(o, 0.8)], [5, 25]
    ),
    "sequence with restarts": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, **warmup), s.CosineAnnealingWarmRestarts(o, 6)], [5]
    ),
}
PLATEAUS: dict[str, dict[str, Any]] = {
    "less": {},
    "more": {"mode": "max"},
    "absolute": {"threshold_mode": "abs", "cooldown": 3},
    "bounded": {"min_lr": [0.01, 0.02], "mode": "max", "threshold_mode": "abs", "threshold": 0.1},
}


def two_groups() -> tuple[nn.optim.Optimizer, Any]:
    """Optimizers with two groups, here and in PyTorch."""
    mine = [{"params": [Tensor([1.0])]}, {"params": [Tensor([1.0])], "lr": 0.03}]
    its = [{"params": [torch.ones(1, requires_grad=True)]}, {"params": [torch.ones(1, requires_grad=True)], "lr": 0.03}]
    return nn.optim.SGD(mine, lr=0.1, momentum=0.9), torch.optim.SGD(its, lr=0.1, momentum=0.9)


def check(mine: Any, optimizer: Any, its: Any, number: int) -> None:
    """The rates are equal as Python's floats, in the tensors as float32, and momentum with them."""
    for found, group, wanted in zip(mine.get_last_lr(), optimizer.param_groups, its.param_groups, strict=True):
        assert math.isclose(found, wanted["lr"], rel_tol=1e-9, abs_tol=1e-15), number
        assert group["lr"].item() == np.float32(found)
        assert math.isclose(group["momentum"], wanted["momentum"], rel_tol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_the_rates_are_pytorchs(case: str) -> None:
    """At the start and after each of 40 steps."""
    optimizer, its = two_groups()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has not seen a step of the optimizer, and says so
        mine, other = CASES[case](ours, optimizer), CASES[case](theirs, its)
        for number in range(40):
            check(mine, optimizer, its, number)
            mine.step()
            other.step()


@pytest.mark.parametrize("case", PLATEAUS)
def test_a_plateau_is_pytorchs(case: str) -> None:
    """60 measures that get better, stay and get worse."""
    optimizer, its = two_groups()
    mine = ours.ReduceLROnPlateau(optimizer, patience=2, factor=0.5, **PLATEAUS[case])
    other = theirs.ReduceLROnPlateau(its, patience=2, factor=0.5, **PLATEAUS[case])
    for number in range(60):
        measure = [3.0, 2.0, 2.0, 2.5, 2.0, 1.0, 1.0, 1.0, 1.5, -1.0][number % 10]
        mine.step(Tensor(measure) if number % 2 else measure)
        other.step(measure)
        check(mine, optimizer, its, number)


@pytest.mark.parametrize("epoch", [0, 3.5, 5, 14.9, 15])
def test_restarts_at_a_fraction(epoch: float) -> None:
    """A batch within an epoch."""
    optimizer, its = two_groups()
    mine, other = ours.CosineAnnealingWarmRestarts(optimizer, 5, 2), theirs.CosineAnnealingWarmRestarts(its, 5, 2)
    for scheduler in (mine, other):
        scheduler.step(epoch)
    check(mine, optimizer, its, 0)
    assert mine.last_epoch == other.last_epoch


@pytest.mark.parametrize("case", CASES)
def test_state_goes_on(case: str) -> None:
    """A scheduler of another optimizer that loads the state, beside the optimizer's, goes on as the first."""
    first, _ = two_groups()
    mine = CASES[case](ours, first)
    for _ in range(8):
        mine.step()
    second, _ = two_groups()
    other = CASES[case](ours, second)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(mine.state_dict())
    for _ in range(8):
        assert other.get_last_lr() == mine.get_last_lr()
        assert [g["lr"].item() for g in first.param_groups] == [g["lr"].item() for g in second.param_groups]
        mine.step()
        other.step()


def test_state_of_a_plateau() -> None:
    """What was the best, and how often it was not better."""
    made = [ours.ReduceLROnPlateau(two_groups()[0], patience=2) for _ in range(2)]
    for measure in (2.0, 3.0, 3.0):
        made[0].step(measure)
    made[1].load_state_dict(made[0].state_dict())
    for one in made:
        one.step(3.0)
    assert made[0].get_last_lr() == made[1].get_last_lr() == [0.1 * 0.1, 0.03 * 0.1]


def test_a_captured_step_goes_on_with_each_rate() -> None:
    """Nothing is compiled for a new rate or momentum, and the function is captured once."""
    p = Tensor([1.0, 2.0])
    sgd = nn.optim.SGD([p], lr=0.5, momentum=0.9)
    schedule = ours.OneCycleLR(sgd, 0.5, total_steps=12)
    q = torch.tensor([1.0, 2.0], requires_grad=True)
    its = torch.optim.SGD([q], lr=0.5, momentum=0.9)
    other = theirs.OneCycleLR(its, 0.5, total_steps=12)

    @TinyJit
    @Tensor.train()
    def step() -> None:
        sgd.zero_grad()
        (p * p).sum().backward()
        sgd.step()

    compiled = []
    for _ in range(10):
        step()
        schedule.step()
        compiled.append(GlobalCounters.kernels_compiled)
        its.zero_grad()
        (q * q).sum().backward()
        its.step()
        other.step()
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5)
    assert step.captured == 1
    assert compiled[4] == compiled[-1]


def test_a_step_of_a_scheduler_in_a_captured_function() -> None:
    """The function is run in every call: the number of the step is Python's."""
    p = Tensor([1.0])
    sgd = nn.optim.SGD([p], lr=1.0)
    schedule = ours.ExponentialLR(sgd, 0.5)

    @TinyJit
    @Tensor.train()
    def step() -> None:
        sgd.zero_grad()
        p.sum().backward()
        sgd.step()
        schedule.step()

    for _ in range(5):
        step()
    assert p.item() == 1 - (1 + 0.5 + 0.25 + 0.125 + 0.0625)
    assert (schedule.last_epoch, sgd.lr.item()) == (5, 0.5**5)


def test_a_group_of_optimizers() -> None:
    """Its groups are those of all of them."""
    sgd, adam = nn.optim.SGD([Tensor([1.0])], lr=0.5), nn.optim.Adam([Tensor([1.0])], lr=0.25)
    schedule = ours.StepLR(nn.optim.OptimizerGroup(sgd, adam), 1, 0.5)
    schedule.step()
    assert (sgd.lr.item(), adam.lr.item()) == (0.25, 0.125)


def test_adam_cycles_its_first_share() -> None:
    """OneCycleLR moves b1, as PyTorch moves the first of betas."""
    adam, its = nn.optim.Adam([Tensor([1.0])]), torch.optim.Adam([torch.ones(1)])
    mine, other = ours.OneCycleLR(adam, 0.1, total_steps=9), theirs.OneCycleLR(its, 0.1, total_steps=9)
    for _ in range(8):
        assert math.isclose(adam.b1, its.param_groups[0]["betas"][0], rel_tol=1e-9)
        mine.step()
        its.step()
        other.step()


def some_sgd() -> nn.optim.Optimizer:
    """An optimizer of one parameter, without momentum."""
    return nn.optim.SGD([Tensor([1.0])], lr=0.1)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no optimizer": (lambda: ours.StepLR([1], 2), TypeError, "StepLR takes an optimizer, got list"),  # type: ignore[arg-type]
    "size": (lambda: ours.StepLR(some_sgd(), 0), ValueError, "StepLR needs step_size to be a whole number of at least 1"),
    "factors": (lambda: ours.LinearLR(some_sgd(), 0.0), ValueError, "LinearLR needs factors of at most 1"),
    "lambdas": (lambda: ours.LambdaLR(some_sgd(), [abs, abs]), ValueError, "LambdaLR needs a function for each of 1 groups, got 2"),
    "milestones": (lambda: ours.SequentialLR(some_sgd(), [], []), ValueError, "SequentialLR needs milestones between 0"),
    "resume": (lambda: ours.StepLR(some_sgd(), 2, last_epoch=3), ValueError, "StepLR with a last_epoch needs 'initial_lr'"),
    "no steps": (lambda: ours.OneCycleLR(some_sgd(), 0.1), ValueError, "OneCycleLR needs total_steps"),
    "start": (lambda: ours.OneCycleLR(some_sgd(), 0.1, 5, pct_start=2.0), ValueError, "OneCycleLR needs a pct_start"),
    "momentum": (lambda: ours.OneCycleLR(nn.optim.Adagrad([Tensor([1.0])]), 0.1, 5), ValueError, "OneCycleLR cycles momentum"),
    "tops": (lambda: ours.OneCycleLR(some_sgd(), [1, 2], 5, cycle_momentum=False), ValueError, "needs a max_lr for each of 1"),
    "factor": (lambda: ours.ReduceLROnPlateau(some_sgd(), factor=1.0), ValueError, "needs a factor below 1, got 1.0"),
    "mode": (lambda: ours.ReduceLROnPlateau(some_sgd(), "least"), ValueError, "has the modes min and max"),
    "least": (lambda: ours.ReduceLROnPlateau(some_sgd(), min_lr=[0, 0]), ValueError, "needs a min_lr for each of 1 groups"),
    "state": (lambda: ours.StepLR(some_sgd(), 2).load_state_dict({"T_max": 3}), FileFormatError, "StepLR has no 'T_max'"),
    "part": (lambda: ours.StepLR(some_sgd(), 2).load_state_dict({"last_epoch": 3}), FileFormatError, "the state has no '_last_lr', which"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refusals(case: str) -> None:
    """What cannot be meant is named."""
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        make()


def test_one_cycle_is_over() -> None:
    """A step after the last one raises, as in PyTorch."""
    schedule = ours.OneCycleLR(some_sgd(), 0.1, 2, cycle_momentum=False)
    schedule.step()
    schedule.step()
    with pytest.raises(ValueError) as caught:
        schedule.step()
    assert str(caught.value) == (
        "OneCycleLR has 2 steps, and this is step 3\n  hint: one step a batch: total_steps=epochs * len(loader)"
    )


def test_only_schedulers_by_steps_follow_each_other() -> None:
    """A plateau does not know when it is over."""
    sgd = some_sgd()
    with pytest.raises(ValueError, match="SequentialLR takes schedulers by steps of its own optimizer"):
        ours.SequentialLR(sgd, [ours.StepLR(sgd, 2), ours.ReduceLROnPlateau(sgd)], [3])


@pytest.mark.parametrize(("name", "options"), [("ConstantLR", {"factor": 0.3}), ("PolynomialLR", {"power": 2.0})])
def test_what_stands_for_a_scheduler_of_pytorch_gives_its_rates(name: str, options: dict[str, float]) -> None:
    """The error's hint, evaluated, in 8 steps."""
    with pytest.raises(AttributeError) as caught:
        getattr(ours, name)
    optimizer, other = nn.optim.SGD([Tensor([1.0])], lr=0.5), torch.optim.SGD([torch.ones(1)], lr=0.5)
    names = {"LambdaLR": ours.LambdaLR, "optimizer": optimizer, "total_iters": 5, **options}
    schedule = eval(str(caught.value).split("hint: ")[1], names)
    reference = getattr(theirs, name)(other, total_iters=5, **options)
    for _ in range(8):
        assert optimizer.lr.item() == pytest.approx(other.param_groups[0]["lr"], abs=1e-7)
        other.step()
        schedule.step()
        reference.step()
