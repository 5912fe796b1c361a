"""OneCycleLR: the rate goes up and far down once over the whole training, and momentum the other way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.nn.optim.lr_scheduler.schedules import LRScheduler, cosine
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.tensor.primitives.argument_checks import as_number


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to max_lr / div_factor / final_div_factor, in total_steps.

    The way up is pct_start of the steps. With three_phase the rate comes down to where it began in as many, and then to
    the end. anneal_strategy is "cos" or "linear". cycle_momentum moves momentum (b1 of Adam) the other way, between
    max_momentum and base_momentum. total_steps may be given as epochs and steps_per_epoch. max_lr, base_momentum and
    max_momentum may be lists with a number for each group. As PyTorch's.

    Raises ValueError without a number of steps, for a step after the last one, for a pct_start outside [0, 1], and
    where momentum is to be cycled and the optimizer has none.

    Source: Smith & Topin, "Super-convergence: very fast training of neural networks", arXiv:1708.07120.

    >>> from tinygraft import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=1.0, momentum=0.9)
    >>> schedule, found = nn.optim.lr_scheduler.OneCycleLR(sgd, max_lr=1.0, total_steps=4, pct_start=0.5), []
    >>> for _ in range(3):
    ...     found.append((round(sgd.lr.item(), 2), round(sgd.momentum, 2)))
    ...     schedule.step()
    >>> found
    [(0.04, 0.95), (1.0, 0.85), (0.5, 0.9)]
    """

    total_steps: int
    pct_start: float
    three_phase: bool
    cycle_momentum: bool
    div_factor: float
    final_div_factor: float
    FROM_PRESENT = False

    def __init__(
        self, optimizer: Optimizer, max_lr: float | Sequence[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if total_steps is None or total_steps < 1:
            raise ValueError(
                f"OneCycleLR needs total_steps, or epochs and steps_per_epoch, of at least 1, got {total_steps}"
            )
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR needs a pct_start from 0 to 1 and the anneal_strategy cos or linear, got {pct_start} and "
                f"{anneal_strategy!r}"
            )
        self.total_steps, self.pct_start, self.three_phase = total_steps, pct_start, three_phase
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        groups = list(getattr(optimizer, "param_groups", ()))
        self.max_lrs: list[float] = _each(max_lr, len(groups), "max_lr")
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        self.momenta: list[tuple[float, float]] = list(zip(_each(base_momentum, len(groups), "base_momentum"),
                                _each(max_momentum, len(groups), "max_momentum"), strict=True))  # fmt: skip
        for group, top in zip(groups, self.max_lrs, strict=True):
            group["initial_lr"] = top / div_factor
            if cycle_momentum and _momentum_of(group) is None:
                raise ValueError("OneCycleLR cycles momentum, and the optimizer has none; hint: cycle_momentum=False")
        super().__init__(optimizer, last_epoch)

    def _between(self, epoch: int, values: Sequence[float]) -> float:
        """Return the value of a step, where `values` are those at the bounds of the phases."""
        if self.three_phase:
            ends = [
                self.pct_start * self.total_steps - 1,
                2 * self.pct_start * self.total_steps - 2,
                self.total_steps - 1,
            ]
        else:
            ends, values = [self.pct_start * self.total_steps - 1, self.total_steps - 1], [*values[:2], values[-1]]
        start = 0.0
        for number, end in enumerate(ends):
            if epoch <= end or number == len(ends) - 1:
                part = (epoch - start) / (end - start) if end != start else 1.0
                low, high = values[number], values[number + 1]
                return cosine(low, high, part) if self.anneal_strategy == "cos" else low + (high - low) * part
            start = end
        raise AssertionError("the last phase has every step")

    def rates(self, epoch: int) -> list[float]:
        """Return the rates of all groups after `epoch` steps. Raises ValueError after the last one."""
        if epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR has {self.total_steps} steps, and this is step {epoch}\n"
                "  hint: one step a batch: total_steps=epochs * len(loader)"
            )
        return [
            self._between(epoch, (base, top, base, base / self.final_div_factor))
            for base, top in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def _go(self, epoch: int) -> None:
        """Set the rates of the step with that number, and momentum where it is cycled.

        Raises ValueError after the last step.
        """
        super()._go(epoch)
        if self.cycle_momentum:
            for group, (low, high) in zip(self.optimizer.param_groups, self.momenta, strict=True):
                group[_momentum_of(group) or "momentum"] = self._between(epoch, (high, low, high, high))


def _momentum_of(group: Any) -> str | None:
    """Return the name of what is the momentum of a group."""
    return next((name for name in ("b1", "momentum") if name in group), None)


def _each(value: float | Sequence[float], count: int, name: str) -> list[float]:
    """Return a number for each group. Raises ValueError where there are more or fewer."""
    given = value if isinstance(value, (list, tuple)) else [value] * count
    values = [float(as_number(each, "OneCycleLR", name)) for each in given]
    if len(values) != count:
        raise ValueError(f"OneCycleLR needs a {name} for each of {count} groups, got {len(values)}")
    return values
