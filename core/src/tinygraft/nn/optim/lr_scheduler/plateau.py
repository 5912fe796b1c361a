"""ReduceLROnPlateau: the rate goes down when a measure is no longer getting better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygraft.engine.capture import note_read
from tinygraft.nn.optim.lr_scheduler.schedules import BY_PYTHON, LRScheduler
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.tensor.primitives.argument_checks import as_number


class ReduceLROnPlateau(LRScheduler):
    """The rate times factor whenever a measure was not better for more than `patience` steps, and not below min_lr.

    `step(value)` takes the measure, of which mode "min" wants less and "max" more, by more than `threshold`: of it
    ("rel") or as it is ("abs"). After a reduction `cooldown` steps pass before bad ones count. A change below eps is
    not made. min_lr may be a list with a number for each group. Raises ValueError for a factor of 1 or more, another
    mode, and another number of min_lr.

    >>> from tinygraft import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.ReduceLROnPlateau(sgd, factor=0.5, patience=0)
    >>> for loss in (3.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> sgd.lr.item()
    0.5
    """

    factor: float
    patience: int
    threshold: float
    cooldown: int
    eps: float
    last_epoch: int
    best: float
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau needs a factor below 1, got {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau has the modes min and max, by rel or abs; got {mode!r} and {threshold_mode!r}"
            )
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.eps = threshold_mode, cooldown, eps
        self.best, self.num_bad_epochs, self.cooldown_counter = math.inf if mode == "min" else -math.inf, 0, 0
        self.min_lrs: list[float] = []
        super().__init__(optimizer)
        count = len(self.base_lrs)
        self.min_lrs = [float(min_lr)] * count if isinstance(min_lr, (int, float)) else [float(m) for m in min_lr]
        if len(self.min_lrs) != count:
            raise ValueError(f"ReduceLROnPlateau needs a min_lr for each of {count} groups, got {len(self.min_lrs)}")

    def rates(self, epoch: int) -> list[float]:
        """Return the present rates, which making a scheduler of this kind does not change."""
        return [group.exact_rate() for group in self.optimizer.param_groups]

    def _is_better(self, value: float) -> bool:
        """Return whether a measure is better than the best so far by more than the threshold; never for NaN."""
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Note a measure, a number or a tensor of one, which is read, and reduce the rates if it is time."""
        note_read(BY_PYTHON)
        value, self.last_epoch = float(as_number(metrics, "ReduceLROnPlateau.step", "metrics")), self.last_epoch + 1
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _reduce(self) -> None:
        """Set the rate of each group to factor times it, at least min_lr, where that changes it by more than eps."""
        for number, (group, least) in enumerate(zip(self.optimizer.param_groups, self.min_lrs, strict=True)):
            old = group.exact_rate()
            new = max(old * self.factor, least)
            self._last_lr[number] = new if old - new > self.eps else old
            if old - new > self.eps:
                group["lr"] = new
