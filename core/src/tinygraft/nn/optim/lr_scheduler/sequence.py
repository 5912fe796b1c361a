"""SequentialLR: schedulers one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from tinygraft.errors import FileFormatError
from tinygraft.nn.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tinygraft.nn.optim.lr_scheduler.schedules import LRScheduler
from tinygraft.nn.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """Schedulers one after the other: the next one begins, with its step 0, at each of the milestones.

    Raises ValueError unless there is a milestone between each two, and all are of this optimizer.

    >>> from tinygraft import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=1.0)
    >>> rates = nn.optim.lr_scheduler
    >>> parts = [rates.LinearLR(sgd, 0.5, total_iters=2), rates.ExponentialLR(sgd, 0.5)]
    >>> schedule, found = rates.SequentialLR(sgd, parts, milestones=[2]), []
    >>> for _ in range(5):
    ...     found += schedule.get_last_lr()
    ...     schedule.step()
    >>> found
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    schedulers: list[LRScheduler]
    milestones: list[int]
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if len(milestones) != len(schedulers) - 1 or list(milestones) != sorted(milestones):
            raise ValueError(
                f"SequentialLR needs milestones between {len(schedulers)} schedulers, in order; got {list(milestones)}"
            )
        for each in schedulers:
            if isinstance(each, ReduceLROnPlateau) or each.optimizer is not optimizer:
                raise ValueError(f"SequentialLR takes schedulers by steps of its own optimizer, got {each!r}")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def _go(self, epoch: int) -> None:
        """Set the rates of the scheduler that has the step with that number, counted from its milestone."""
        number = bisect_right(self.milestones, epoch)
        each = self.schedulers[number]
        each._go(epoch - (self.milestones[number - 1] if number else 0))
        self.last_epoch, self._last_lr = epoch, each.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return all numbers, and the state of each scheduler."""
        return {**super().state_dict(), "schedulers": [each.state_dict() for each in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned. Raises FileFormatError where it does not fit."""
        self.check_state_dict(state_dict)
        vars(self).update({name: value for name, value in state_dict.items() if name != "schedulers"})
        for each, state in zip(self.schedulers, state_dict["schedulers"], strict=True):
            each.load_state_dict(state)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Raise what `load_state_dict` would raise, and change nothing."""
        super().check_state_dict(state_dict)
        inner = list(state_dict.get("schedulers", ()))
        if len(inner) != len(self.schedulers):
            raise FileFormatError(f"SequentialLR has {len(self.schedulers)} schedulers, the state has {len(inner)}")
        for each, state in zip(self.schedulers, inner, strict=True):
            each.check_state_dict(state)
