"""Learning rates over time, by PyTorch's names: each gives the rate of every group after so many steps.

In: an optimizer (or an OptimizerGroup), whose rates at the start are the base. `step()`, after each epoch or each
batch, writes the next rates into the tensors that a step reads: also a captured one goes on with them, and nothing is
compiled. A rate is computed from its base and the number of the step, with Python's floats: what other code writes to
lr in between is overwritten. Two schedulers on one optimizer do not multiply; `SequentialLR` has one after the other.

A scheduler belongs outside of a function under TinyJit. Within one that function is run in every call, as with any
value that Python decides by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.errors import in_place_of, no_such_name
from tinygraft.nn.optim.lr_scheduler.one_cycle import OneCycleLR
from tinygraft.nn.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tinygraft.nn.optim.lr_scheduler.schedules import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    StepLR,
)
from tinygraft.nn.optim.lr_scheduler.sequence import SequentialLR

__all__ = [
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR",
    "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

_BY_A_FACTOR = {  # what PyTorch has beside these: the factor of the first rate after `epoch` steps
    "ConstantLR": "LambdaLR(optimizer, lambda epoch: factor if epoch < total_iters else 1.0)",
    "PolynomialLR": "LambdaLR(optimizer, lambda epoch: (1 - min(epoch, total_iters) / total_iters) ** power)",
    "MultiplicativeLR": "LambdaLR takes the product of the factors up to an epoch",
    "CyclicLR": "LambdaLR takes any factor of the first rate",
    "ChainedScheduler": "rates are computed from the one at the start: LambdaLR takes the product of several factors",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise AttributeError with what to use for a scheduler of PyTorch, or the name that was meant."""
        hint = in_place_of(name, __all__, _BY_A_FACTOR)
        raise no_such_name("tinygraft.nn.optim.lr_scheduler", name, hint)
