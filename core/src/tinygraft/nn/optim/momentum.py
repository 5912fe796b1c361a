"""Gradient descent with momentum: SGD, and LARS, where each parameter's rate follows its norm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Unpack

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.given_params import needs_momentum
from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.step_options import StepOptions
from tinygraft.nn.optim.trust import trust_ratios
from tinygraft.nn.optim.update import Update
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


class LARS(Optimizer):
    """Gradient descent with momentum, where each parameter's rate follows its norm.

    The gradient g + weight_decay*p is scaled by tcoef*|p| / (|g| + weight_decay*|p|) (by 1 if a norm is 0 or tcoef is
    0), and enters a momentum. With classic the rate enters the momentum too, as in the paper; without, it multiplies
    the result, as in PyTorch's SGD. nesterov looks one step ahead. From the second step on (1 - dampening) of a
    gradient enters the momentum. Raises ValueError for a tcoef below 0, and for nesterov without a momentum above 0 or
    with dampening; TrainingError where dampening is set above 0 after it was made without.

    Source: You, Gitman & Ginsburg, "Large batch training of convolutional networks", arXiv:1708.03888.
    """

    nesterov: bool
    classic: bool

    IMPLIED_STEP: ClassVar[bool] = True
    STATE: ClassVar[dict[str, str]] = {"b": "momentum_buffer"}
    momentum: GroupOption = GroupOption()
    dampening: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, momentum: float = 0.9, weight_decay: float = 1e-4,
        nesterov: bool = False, classic: bool = True, tcoef: float = 0.001, device: Place = None,
        dampening: float = 0.0, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        self.b: list[Tensor] | None = None
        options = {"momentum": momentum, "weight_decay": weight_decay, "dampening": dampening}
        self.tcoef = tcoef
        if not tcoef >= 0:
            raise ValueError(f"{type(self).__name__} needs tcoef to be at least 0, got {tcoef}")
        super().__init__(params, lr, device, options=options, fixed={"nesterov": nesterov, "classic": classic}, how=how)
        if nesterov and not all(group["momentum"] and not group["dampening"] for group in self.param_groups):
            raise ValueError(f"{type(self).__name__} with nesterov needs a momentum above 0, and no dampening")
        self.nesterov, self.classic = nesterov, classic
        self.b = self._filled() if any(group["momentum"] for group in self.param_groups) else []
        damped = any(group["dampening"] for group in self.param_groups)
        if damped:  # the first gradient enters the momentum whole: steps are counted
            self.t: Tensor = self._count_steps()
        self._realize_state(*self.b, *([self.t] if damped else []))

    def _check_option(self, name: str, value: Any) -> None:
        """Raise also for a momentum or dampening above 0 where there is no state for it."""
        super()._check_option(name, value)
        if name == "momentum":
            needs_momentum(self, value, self.b)
        if name == "dampening" and value and self.b is not None and self.param_groups[0].t is None:
            raise TrainingError(
                f"{type(self).__name__} was made without dampening and has no count of steps for it; hint: make it "
                "with a dampening above 0, which may be set to 0"
            )

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and "1-dampening", as exact as Python has it."""
        return {**options, "1-dampening": 1 - options["dampening"]}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter its new value, and its momentum. SGD is this without trust ratios."""
        updates = list(self._updates(grads))
        trusts = trust_ratios(updates, [each.g for each in updates], self._trust) if self.tcoef else []
        for number, each in enumerate(updates):
            g = each.decayed()
            if trusts:
                g = g * trusts[number]
            if self.classic:
                g = g * each.rate
            if self.b:
                new = each.state(self.b) * each["momentum"] + (
                    g * _entering(each) if each.group.needs("dampening") else g
                )
                each.store(self.b, new)
                g = g + new * each["momentum"] if self.nesterov else new
            each.apply(each.old - (g if self.classic else g * each.rate))
        if self.param_groups[0].t is not None:
            self._write_counts()

    def _trust(self, each: Update, sizes: Tensor, pulls: Tensor) -> Tensor:
        """Return the factors of the learning rates of parameters: tcoef*|p| / (|g| + weight_decay*|p|)."""
        return self.tcoef * sizes / (pulls + each["weight_decay"] * sizes)


class SGD(LARS):
    """Gradient descent: p -= lr * g, with momentum b = momentum*b + g in place of g, as PyTorch's SGD.

    weight_decay adds that share of p to its gradient. nesterov takes g + momentum*b in place of b, and needs a
    momentum: ValueError. With `classic` the rate enters b. With dampening b is that of the first step g, then
    momentum*b + (1 - dampening)*g.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> sgd = nn.optim.SGD([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     sgd.step()
    >>> p.tolist()
    [0.5, 1.5]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, momentum: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, classic: bool = False, device: Place = None,
        dampening: float = 0.0, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, 0.0, device, dampening, **how)


def _entering(each: Update) -> Tensor:
    """Return the share of a gradient that enters the momentum, a scalar: 1 at the first step, then 1 - dampening."""
    return each.shared("entering", lambda: (each.t > 1).where(each["1-dampening"], 1.0))
