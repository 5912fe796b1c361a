"""The base of all schedulers, and those whose rate is a function of the number of the step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tinygraft.engine.capture import note_read
from tinygraft.errors import FileFormatError
from tinygraft.nn.described import Described
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.tensor.primitives.argument_checks import as_number

BY_PYTHON = (
    "a scheduler in it computes the next learning rate with Python's numbers\n"
    "  hint: call its step() outside of the function, which reads the rate from memory"
)  # why a function under TinyJit is run in every call

OTHER_KIND = "\n  hint: make the scheduler whose state it is, or go on without that state"


class LRScheduler(Described):
    """What all schedulers do; a subclass gives `rate(base, epoch)`, the rate of a group after `epoch` steps.

    `last_epoch` is the number of steps so far. Made with a last_epoch other than -1 a scheduler goes on from there,
    with the rates at the start from "initial_lr" of the groups: ValueError where they have none. TypeError for what is
    no optimizer.
    """

    last_epoch: int
    optimizer: Optimizer
    FROM_PRESENT = True  # as in PyTorch, where these are multiples of the present rate, and others of "initial_lr"

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__} takes an optimizer, got {type(optimizer).__name__}")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.base_lrs: list[float] = [self._initial(group, last_epoch == -1) for group in optimizer.param_groups]
        self._last_lr = list(self.base_lrs)
        self._go(last_epoch + 1)

    def _initial(self, group: Any, new: bool) -> float:
        """Return the rate at the start of a group, which is noted there as "initial_lr".

        What was set by hand since another scheduler was made is the start of those that go on from the present rate.
        """
        if "initial_lr" not in group:
            if not new:
                raise ValueError(
                    f"{type(self).__name__} with a last_epoch needs 'initial_lr' in every group; hint: the default of "
                    "-1, and load_state_dict"
                )
            group["initial_lr"] = group.exact_rate()
        if new and self.FROM_PRESENT and not group.is_scheduled():
            group["initial_lr"] = group.exact_rate()
        return float(group["initial_lr"])

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        raise NotImplementedError(f"{type(self).__name__} does not say its rates")

    def rates(self, epoch: int) -> list[float]:
        """Return the rates of all groups after `epoch` steps."""
        return [self.rate(base, epoch) for base in self.base_lrs]

    def _go(self, epoch: int) -> None:
        """Set the rates of the step with that number.

        Where the schedule has no other rates than before, those of the groups stay: what was set there since, by hand
        or by a plateau's scheduler, holds until the schedule's next change.
        """
        before, self._last_lr = self._last_lr, self.rates(epoch)
        self.last_epoch = epoch
        if epoch > 0 and self._last_lr == before:
            return
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate
            group.note_scheduled(rate)

    def step(self) -> None:
        """Set the next rates. Under TinyJit the function that calls it is run in every call."""
        note_read(BY_PYTHON)  # the number of the step is Python's: a function under TinyJit cannot be replayed with it
        self._go(self.last_epoch + 1)

    def get_last_lr(self) -> list[float]:
        """Return the rate of each group as a Python float, which reads nothing from a device."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """Return all numbers of the scheduler; not the optimizer, nor functions."""
        return {name: value for name, value in vars(self).items() if name != "optimizer" and _is_plain(value)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned. The rates themselves are part of the optimizer's state_dict.

        Raises FileFormatError for names that this scheduler does not have, and where one that it has is missing:
        nothing is loaded then.
        """
        self.check_state_dict(state_dict)
        vars(self).update(state_dict)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Raise what `load_state_dict` would raise, and change nothing."""
        if not isinstance(state_dict, Mapping):
            raise FileFormatError(f"the state of {type(self).__name__} is a dict, got {type(state_dict).__name__}")
        unknown = sorted(set(state_dict) - set(self.state_dict()))
        if unknown:
            raise FileFormatError(f"{type(self).__name__} has no {unknown[0]!r}, which the state has{OTHER_KIND}")
        missing = sorted(set(self.state_dict()) - set(state_dict))
        if missing:
            raise FileFormatError(f"the state has no {missing[0]!r}, which {type(self).__name__} needs{OTHER_KIND}")


def _is_plain(value: Any) -> bool:
    """Return whether a value is made of numbers and names."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


class LambdaLR(LRScheduler):
    """The rate at the start times lr_lambda(epoch): one function, or a list of one for each group.

    Raises ValueError for another number of functions. They are no part of a state_dict.

    >>> from tinygraft import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.LambdaLR(sgd, lambda epoch: 0.5**epoch)
    >>> schedule.step()
    >>> schedule.get_last_lr(), sgd.lr.item()
    ([0.5], 0.5)
    """

    FROM_PRESENT = False

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(getattr(optimizer, "param_groups", ()))
        self.lr_lambdas: list[Callable[[int], float]] = (
            list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        )
        for each in self.lr_lambdas:
            if not callable(each):
                raise TypeError(f"LambdaLR takes a function of the number of steps, got {type(each).__name__}")
        if len(self.lr_lambdas) != count:
            raise ValueError(f"LambdaLR needs a function for each of {count} groups, got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def rates(self, epoch: int) -> list[float]:
        """Return the rates of all groups after `epoch` steps."""
        factors = [as_number(each(epoch), "LambdaLR", "what lr_lambda returns") for each in self.lr_lambdas]
        return [base * factor for base, factor in zip(self.base_lrs, factors, strict=True)]


class StepLR(LRScheduler):
    """The rate at the start, times gamma after every step_size steps. Raises ValueError for a step_size below 1."""

    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        _at_least_one("StepLR", step_size=step_size)
        as_number(gamma, "StepLR", "gamma")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """The rate at the start, times gamma at each of the milestones, numbers of steps in any order."""

    milestones: list[int]
    gamma: float

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not isinstance(milestones, Iterable) or not all(isinstance(step, int) for step in milestones):
            raise TypeError(f"MultiStepLR needs milestones to be a list of steps, as [30, 80], got {milestones!r}")
        self.milestones, self.gamma = sorted(milestones), as_number(gamma, "MultiStepLR", "gamma")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        return base * self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """The rate at the start, times gamma at every step: base * gamma**epoch."""

    gamma: float

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = as_number(gamma, "ExponentialLR", "gamma")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        return base * self.gamma**epoch


class LinearLR(LRScheduler):
    """A linear warm-up: from start_factor to end_factor times the rate at the start, in total_iters steps.

    Then it is constant. Raises ValueError unless 0 < start_factor <= 1, 0 <= end_factor <= 1 and total_iters is at
    least 1.
    """

    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for name, factor in (("start_factor", start_factor), ("end_factor", end_factor)):
            as_number(factor, "LinearLR", name)
        if not (0 < start_factor <= 1 and 0 <= end_factor <= 1):
            raise ValueError(
                f"LinearLR needs factors of at most 1, a start_factor above 0 and an end_factor of at least 0, got "
                f"{start_factor} and {end_factor}"
            )
        _at_least_one("LinearLR", total_iters=total_iters)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        part = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class CosineAnnealingLR(LRScheduler):
    """From the rate at the start to eta_min in T_max steps, as half a period of a cosine; then up again.

    Raises ValueError for a T_max below 1. Source: Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm
    restarts", arXiv:1608.03983.
    """

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        _at_least_one("CosineAnnealingLR", T_max=T_max)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: int) -> float:
        """Return the rate after `epoch` steps of a group that began with `base`."""
        return cosine(base, self.eta_min, epoch / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """CosineAnnealingLR that begins anew after T_0 steps, and then each time after T_mult times as many.

    Raises ValueError for T_0 or T_mult below 1. Source: Loshchilov & Hutter, "SGDR: stochastic gradient descent with
    warm restarts", arXiv:1608.03983.

    >>> from tinygraft import Tensor, nn
    >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, 2)
    >>> for _ in range(3):
    ...     schedule.step()
    ...     print(round(schedule.get_last_lr()[0], 4))
    0.5
    1.0
    0.5
    """

    T_mult: int
    eta_min: float
    FROM_PRESENT = False

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        _at_least_one("CosineAnnealingWarmRestarts", T_0=T_0, T_mult=T_mult)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, epoch: float) -> float:
        """Return the rate after `epoch` steps, which may be a fraction, of a group that began with `base`."""
        length, at = self.T_0, epoch
        while at >= length:
            if self.T_mult == 1:
                at %= length
                break
            at, length = at - length, length * self.T_mult
        return cosine(base, self.eta_min, at / length)

    def step(self, epoch: float | None = None) -> None:
        """Set the next rates, or those of `epoch`: with a fraction, of a batch within one.

        Raises ValueError below 0.
        """
        note_read(BY_PYTHON)
        if epoch is not None and epoch < 0:
            raise ValueError(f"CosineAnnealingWarmRestarts needs an epoch of at least 0, got {epoch}")
        if epoch is None:
            self._go(self.last_epoch + 1)
        else:
            self._go(epoch)  # type: ignore[arg-type]
            self.last_epoch: int = math.floor(epoch)


def cosine(high: float, low: float, part: float) -> float:
    """Return the value at `part` of half a period of a cosine from `high` (part 0) to `low` (1)."""
    return low + (high - low) * (1 + math.cos(math.pi * part)) / 2


def _at_least_one(what: str, **numbers: int) -> None:
    """Raise ValueError, for the scheduler `what`, unless all numbers are ints of at least 1."""
    for name, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{what} needs {name} to be a whole number of at least 1, got {value!r}")
