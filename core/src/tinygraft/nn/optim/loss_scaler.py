"""LossScaler: training in float16, whose small gradients would be zero, with a loss that is scaled up.

Whether a gradient overflowed is decided on the device: a step that would store infinities stores what was there.
Nothing is read, so that a captured step is replayed.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.reduced import as_reduced
from tinygraft.nn.optim.update import wide
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


class LossScaler:
    """Scale a loss, take the scale out of the gradients, leave a step out where they overflowed, adapt the scale.

    `scale_factor` is a float32 tensor of shape (1,): it is multiplied by backoff_factor after a step with an infinity
    or NaN in a gradient, and by growth_factor after growth_interval steps without. Such a step changes no parameter, no
    state and no count of steps. With enabled=False nothing is scaled or left out.

    Raises ValueError for factors on the wrong side of 1. As PyTorch's GradScaler. Source: Micikevicius et al., "Mixed
    precision training", arXiv:1710.03740.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> sgd, scaler = nn.optim.SGD([p], lr=0.5), nn.optim.LossScaler(init_scale=4.0)
    >>> for factor in (1.0, float("inf")):
    ...     with Tensor.train():
    ...         sgd.zero_grad()
    ...         _ = scaler.scale((p * factor).sum()).backward()
    ...         scaler.step(sgd)
    ...         scaler.update()
    ...     print(p.tolist(), scaler.scale_factor.item())
    [0.5, 1.5] 4.0
    [0.5, 1.5] 2.0
    """

    growth_factor: float
    backoff_factor: float
    growth_interval: int
    enabled: bool
    scale_factor: Tensor
    growth_tracker: Tensor
    found_inf: Tensor

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True, device: Place = None,
    ) -> None:  # fmt: skip
        _check_factors(init_scale, growth_factor, backoff_factor, growth_interval)
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval, self.enabled = growth_interval, enabled
        self.scale_factor, self.growth_tracker, self.found_inf = (
            Tensor([float(value)], dtype="float32", device=device, requires_grad=False) for value in (init_scale, 0, 0)
        )
        self.scale_factor.realize(self.growth_tracker, self.found_inf)
        # since the last update: by the id of an optimizer, whether it overflowed, and those that have stepped
        self._unscaled: dict[int, Tensor] = {}
        self._stepped: set[int] = set()

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale, in its own dtype but float32 where that is a half type."""
        if not self.enabled:
            return loss
        if not isinstance(loss, Tensor):
            raise TypeError(f"LossScaler.scale takes the loss, a tensor, got {type(loss).__name__}")
        factor = self.scale_factor.detach().reshape(()).to(loss.device)
        return (loss.float() if loss.dtype.itemsize < 4 else loss) * factor.cast("float32")

    def unscale(self, optimizer: Optimizer) -> None:
        """Take the scale out of the gradients, lazily: before they are clipped. `step` does it otherwise.

        Those of half types become float32, in which they are not too small.

        Raises TrainingError when it was done since the last `update`, or a parameter has no gradient.
        """
        if not self.enabled:
            return
        if any(id(each) in self._unscaled for each in optimizer.apart()):
            raise TrainingError(
                "the gradients of this optimizer were unscaled before, and update() was not called since"
            )
        inverse = 1 / self.scale_factor.detach().reshape(())
        for each in optimizer.apart():
            grads, found = each.gradients(), []
            for p, g in zip(each.params, grads, strict=True):
                found.append((wide(g).isfinite().logical_not()).any().to(self.found_inf.device))
                p.grad = as_reduced(g, wide(g) * inverse.to(g.device).cast(wide(g).dtype))
            self._unscaled[id(each)] = reduce(Tensor.logical_or, found)

    def schedule_step(self, optimizer: Optimizer) -> list[Tensor]:
        """Return what realize() has to compute, as Optimizer.schedule_step, of a step that is left out on overflow.

        The gradients are unscaled where `unscale` has not done so. Raises TrainingError for a second step without
        `update`, and as Optimizer.schedule_step.
        """
        if not self.enabled:
            return optimizer.schedule_step()
        inner = optimizer.apart()
        if any(id(each) in self._stepped for each in inner):
            raise TrainingError(
                "this optimizer has stepped before, and update() was not called since: its next gradients would be "
                "taken for unscaled ones; hint: scaler.update() after the steps of all optimizers, also of a step that "
                "an exception ended"
            )
        for each in inner:
            if id(each) not in self._unscaled:
                self.unscale(each)
        skip = reduce(Tensor.logical_or, [self._unscaled[id(each)] for each in inner]).contiguous()
        self._stepped |= {id(each) for each in inner}
        for each in inner:
            each._skip = skip
        try:
            made = optimizer.schedule_step()
        finally:
            for each in inner:
                each._skip = None
        self.found_inf.assign(self.found_inf.maximum(skip.cast("float32").reshape(1)))
        return [*made, self.found_inf]

    def step(self, optimizer: Optimizer) -> None:
        """Give each parameter its new value, now, unless a gradient overflowed. Raises TrainingError as
        Optimizer.step."""
        first, *others = self.schedule_step(optimizer)
        first.realize(*others)

    def schedule_update(self) -> list[Tensor]:
        """Adapt the scale to what the steps since the last update found, lazily; return what is to be realised.

        From then on all optimizers may be unscaled and stepped again. It is nothing where `enabled` is False.
        """
        self._unscaled.clear()
        self._stepped.clear()
        if not self.enabled:
            return []
        overflowed, count = self.found_inf > 0, self.growth_tracker + 1
        grown = count >= self.growth_interval
        more = self.scale_factor * self.growth_factor
        larger = (grown & more.isfinite()).where(more, self.scale_factor)
        self.scale_factor.assign(overflowed.where(self.scale_factor * self.backoff_factor, larger))
        self.growth_tracker.assign((overflowed | grown).where(0.0, count))
        self.found_inf.assign(self.found_inf.zeros_like())
        return [self.scale_factor, self.growth_tracker, self.found_inf]

    def update(self) -> None:
        """Adapt the scale, now. Called after the steps of all optimizers."""
        first, *others = self.schedule_update() or [self.scale_factor]
        first.realize(*others)

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and what changes it as plain numbers, by PyTorch's names. Reads the scale."""
        return {
            "scale": self.scale_factor.item(), "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor, "growth_interval": self.growth_interval,
            "_growth_tracker": int(self.growth_tracker.item()),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, here or in PyTorch; a captured step goes on with scale and count.

        The factors and the interval are numbers in the kernels of a captured `update`: they hold for what is captured
        later. Raises KeyError for a name that is missing, ValueError as the constructor; nothing is loaded then.
        """
        factors, numbers = self._checked(state_dict)
        vars(self).update(factors)
        for tensor, number in zip((self.scale_factor, self.growth_tracker), numbers, strict=True):
            tensor.assign(Tensor([number], dtype=tensor.dtype, device=tensor.device))
        self.scale_factor.realize(self.growth_tracker)

    def check_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Raise what `load_state_dict` would raise, and change nothing."""
        self._checked(state_dict)

    def _checked(self, state_dict: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
        """Return the options and the numbers (scale, growth tracker) of a state. Raises as `load_state_dict`."""
        factors = {name: state_dict[name] for name in ("growth_factor", "backoff_factor", "growth_interval")}
        numbers = [float(state_dict[name]) for name in ("scale", "_growth_tracker")]
        _check_factors(numbers[0], **factors)
        return factors, numbers


def _check_factors(scale: float, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
    """Raise ValueError for numbers with which the scale would not be adapted."""
    for name, value in (
        ("init_scale", scale), ("growth_factor", growth_factor), ("backoff_factor", backoff_factor),
        ("growth_interval", growth_interval),
    ):  # fmt: skip
        as_number(value, "LossScaler", name)
    if not (growth_factor > 1 > backoff_factor > 0 and scale > 0 and growth_interval > 0):
        raise ValueError(
            f"LossScaler needs an init_scale above 0, growth_factor > 1 > backoff_factor > 0 and a growth_interval "
            f"of at least 1; got {scale}, {growth_factor}, {backoff_factor} and {growth_interval}"
        )
