"""Rates by the size of past gradients alone: RMSprop, Adagrad, Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from tinygraft.nn.optim.given_params import needs_momentum
from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.param_group import ParamGroup
from tinygraft.nn.optim.step_options import StepOptions
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(v) + eps), with v = alpha*v + (1 - alpha)*g*g, as PyTorch's RMSprop.

    centered subtracts the square of the running mean of g from v, which is then a variance. With a momentum,
    g / (sqrt(v) + eps) enters b = momentum*b + it. weight_decay adds that share of p to its gradient.

    Source: Tieleman & Hinton, "Lecture 6.5 - rmsprop", 2012; centered: Graves, arXiv:1308.0850.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> rmsprop = nn.optim.RMSprop([p], lr=0.05, alpha=0.75)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     rmsprop.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.9, 1.9]
    """

    v: list[Tensor]
    mean: list[Tensor]

    SHARES: ClassVar[tuple[str, ...]] = ("alpha",)
    STATE: ClassVar[dict[str, str]] = {"v": "square_avg", "b": "momentum_buffer", "mean": "grad_avg"}
    alpha: GroupOption = GroupOption()
    eps: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()
    momentum: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.01, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, device: Place = None,
        **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        self.b: list[Tensor] | None = None
        options = {"eps": eps, "weight_decay": weight_decay, "momentum": momentum, "alpha": alpha}
        super().__init__(params, lr, device, options=options, fixed={"centered": centered}, how=how)
        self.centered = centered
        self.t: Tensor = self._count_steps()
        self.v, self.mean = self._filled(), self._filled() if centered else []
        self.b = self._filled() if any(group["momentum"] for group in self.param_groups) else []
        self._realize_state(self.t, *self.v, *self.mean, *self.b)

    def _check_option(self, name: str, value: Any) -> None:
        """Raise also for a momentum above 0 where there is no state for it."""
        super()._check_option(name, value)
        if name == "momentum":
            needs_momentum(self, value, self.b)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and "1-alpha", as exact as Python has it."""
        return {**options, "1-alpha": 1 - options["alpha"]}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter, its mean square, and its mean and momentum where there are; and the step count."""
        for each in self._updates(grads):
            g = each.decayed()
            v = each.state(self.v) * each["alpha"] + g * g * each["1-alpha"]
            each.store(self.v, v)
            if self.mean:
                mean = each.state(self.mean)
                mean = mean + (g - mean) * each["1-alpha"]
                each.store(self.mean, mean)
                v = v - mean * mean
            update = g / (v.sqrt() + each["eps"])
            if self.b:
                update = each.state(self.b) * each["momentum"] + update
                each.store(self.b, update)
            each.apply(each.old - each.rate * update)
        self._write_counts()


class Adagrad(Optimizer):
    """p -= lr / (1 + (t - 1)*lr_decay) * g / (sqrt(s) + eps), where s is the sum of all g*g so far and t the step.

    s starts at initial_accumulator_value. weight_decay adds that share of p to its gradient. As PyTorch's Adagrad.

    Source: Duchi, Hazan & Singer, "Adaptive subgradient methods", JMLR 12, 2011.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> adagrad = nn.optim.Adagrad([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     adagrad.step()
    >>> p.tolist()
    [0.5, 1.5]
    """

    STATE: ClassVar[dict[str, str]] = {"s": "sum"}
    lr_decay: GroupOption = GroupOption()
    eps: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.01, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, device: Place = None,
        **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        self._check_option("initial_accumulator_value", initial_accumulator_value)
        options = {"lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        fixed = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, lr, device, options=options, fixed=fixed, how=how)
        self.t: Tensor = self._count_steps()
        self.s: list[Tensor] = self._filled(initial_accumulator_value)
        self._realize_state(self.t, *self.s)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its sum of squares, and the step count."""
        for each in self._updates(grads):
            g = each.decayed()
            s = each.state(self.s) + g * g
            each.store(self.s, s)
            rate = each.rate / (1 + (each.t - 1) * each["lr_decay"])
            each.apply(each.old - rate * g / (s.sqrt() + each["eps"]))
        self._write_counts()

    def _first_state(self, name: str, params: Sequence[Tensor], group: ParamGroup) -> list[Tensor]:
        """Return sums that start as all do."""
        return self._filled(group["initial_accumulator_value"], params)


class Adadelta(Optimizer):
    """p -= lr * d, where d = g * sqrt(u + eps) / sqrt(v + eps): u and v are running means of d*d and g*g, with rho.

    weight_decay adds that share of p to its gradient. As PyTorch's Adadelta, where lr scales the paper's step of 1.

    Source: Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> adadelta = nn.optim.Adadelta([p], eps=1.0, rho=0.0)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     adadelta.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.2929, 1.2929]
    """

    v: list[Tensor]
    u: list[Tensor]

    SHARES: ClassVar[tuple[str, ...]] = ("rho",)
    STATE: ClassVar[dict[str, str]] = {"v": "square_avg", "u": "acc_delta"}
    rho: GroupOption = GroupOption()
    eps: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0.0, device: Place = None, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        options = {"eps": eps, "weight_decay": weight_decay, "rho": rho}
        super().__init__(params, lr, device, options=options, how=how)
        self.t: Tensor = self._count_steps()
        self.v, self.u = self._filled(), self._filled()
        self._realize_state(self.t, *self.v, *self.u)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and "1-rho", as exact as Python has it."""
        return {**options, "1-rho": 1 - options["rho"]}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and both means, and the step count, which only saving reads."""
        for each in self._updates(grads):
            g, u = each.decayed(), each.state(self.u)
            v = each.state(self.v) * each["rho"] + g * g * each["1-rho"]
            change = (u + each["eps"]).sqrt() / (v + each["eps"]).sqrt() * g
            each.store(self.v, v)
            each.store(self.u, u * each["rho"] + change * change * each["1-rho"])
            each.apply(each.old - each.rate * change)
        self._write_counts()
