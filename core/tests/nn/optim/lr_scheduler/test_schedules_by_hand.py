"""Schedulers of an optimizer whose rate was set by hand since another scheduler was made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tinygraft import Tensor, nn
from tinygraft.nn.optim import lr_scheduler

MAKERS: list[Callable[[Any, Any], Any]] = [
    lambda rates, opt: rates.StepLR(opt, 2, 0.5),
    lambda rates, opt: rates.MultiStepLR(opt, [1, 4], 0.5),
    lambda rates, opt: rates.ExponentialLR(opt, 0.9),
    lambda rates, opt: rates.CosineAnnealingLR(opt, 9, 0.001),
    lambda rates, opt: rates.LinearLR(opt, 0.2, 0.9, 4),
    lambda rates, opt: rates.LambdaLR(opt, lambda epoch: 0.9**epoch),
    lambda rates, opt: rates.CosineAnnealingWarmRestarts(opt, 3),
    lambda rates, opt: rates.OneCycleLR(opt, 0.7, total_steps=20, cycle_momentum=False),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("how", ["group", "attribute", "assign"])
def test_they_go_on_as_in_pytorch(make: Callable[[Any, Any], Any], how: str) -> None:
    """From the present rate where PyTorch's are multiples of it, else from the one at the start."""
    torch = pytest.importorskip("torch", reason="its schedulers are compared with")
    theirs = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    ours = nn.optim.SGD([Tensor([1.0])], lr=0.1)
    lr_scheduler.StepLR(ours, 2)
    torch.optim.lr_scheduler.StepLR(theirs, 2)
    theirs.param_groups[0]["lr"] = 0.5
    if how == "group":
        ours.param_groups[0]["lr"] = 0.5
    elif how == "attribute":
        ours.lr = 0.5
    else:
        ours.lr.assign(Tensor([0.5])).realize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps of a scheduler before those of its optimizer
        mine, other = make(lr_scheduler, ours), make(torch.optim.lr_scheduler, theirs)
        for _ in range(7):
            assert mine.get_last_lr()[0] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-6)
            assert ours.lr.item() == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-6)
            mine.step()
            other.step()


def test_a_sequence_is_of_one_start() -> None:
    """Parts that are made one after another begin with the same rate: that set by hand, and not with a part's own."""
    for rate in (0.1, 0.5):
        sgd = nn.optim.SGD([Tensor([1.0])], lr=0.1)
        lr_scheduler.StepLR(sgd, 1)
        sgd.lr = rate
        parts = [lr_scheduler.LinearLR(sgd, 0.5, total_iters=2), lr_scheduler.ExponentialLR(sgd, 0.5)]
        schedule, found = lr_scheduler.SequentialLR(sgd, parts, milestones=[2]), []
        for _ in range(5):
            found += schedule.get_last_lr()
            schedule.step()
        assert found == pytest.approx([rate * share for share in (0.5, 0.75, 1, 0.5, 0.25)])
