"""Relatives of Adam: NAdam looks one step ahead, RAdam waits for a variance, Adamax has a running maximum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.moments import left, of_shares
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.param_group import ParamGroup, pair
from tinygraft.nn.optim.step_options import StepOptions
from tinygraft.nn.optim.update import Update
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

Betas = tuple[float, float] | None


class _Moments(Optimizer):
    """What the three have in common: a running mean `m` of the gradient, a second state `v`, and their options."""

    m: list[Tensor]
    v: list[Tensor]

    SHARES: ClassVar[tuple[str, ...]] = ("b1", "b2")
    STATE: ClassVar[dict[str, str]] = {"m": "exp_avg", "v": "exp_avg_sq"}
    b1: GroupOption = GroupOption()
    b2: GroupOption = GroupOption()
    eps: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def _begin(
        self, params: Iterable[Any], lr: float | Tensor, device: Place, betas: Betas, options: Mapping[str, float],
        decoupled: bool | None, how: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Make the groups and the state. `decoupled` is None where weight decay is always part of the gradient."""
        shares = () if betas is None else pair(betas, type(self).__name__)
        found = {**options, **dict(zip(("b1", "b2"), shares, strict=False))}
        fixed = {} if decoupled is None else {"decoupled_weight_decay": decoupled}
        super().__init__(params, lr, device, options=found, fixed=fixed, how=how)
        self.decoupled = bool(decoupled)
        self.t: Tensor = self._count_steps()
        self.m, self.v = self._filled(), self._filled()
        self._realize_state(self.t, *self.m, *self.v)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and the numbers of `of_shares`."""
        return of_shares(options)

    def _mean(self, each: Update, g: Tensor) -> Tensor:
        """Assign and return the running mean of the gradient."""
        m = each.state(self.m) * each["b1"] + g * each["1-b1"]
        each.store(self.m, m)
        return m

    def _square(self, each: Update, g: Tensor) -> Tensor:
        """Assign and return the running mean of the gradient's square."""
        v = each.state(self.v) * each["b2"] + g * g * each["1-b2"]
        each.store(self.v, v)
        return v

    def _decay(self, each: Update) -> tuple[Tensor, Tensor]:
        """Return p and its gradient after weight decay, of the one or of the other."""
        if self.decoupled and each.group.needs("weight_decay"):
            return each.old * (1 - each.rate * each["weight_decay"]), each.g
        return each.old, each.g if self.decoupled else each.decayed()


class NAdam(_Moments):
    """Adam with Nesterov's momentum, as PyTorch's NAdam: b1 grows towards its value, by momentum_decay.

    weight_decay adds that share of p to its gradient; with decoupled_weight_decay it shrinks p by lr * weight_decay.

    Source: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop, 2016.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> nadam = nn.optim.NAdam([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     nadam.step()
    >>> [round(value, 3) for value in p.tolist()]
    [0.472, 1.472]
    """

    mu: list[Tensor]

    STATE: ClassVar[dict[str, str]] = {**_Moments.STATE, "mu": "mu_product"}
    momentum_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.002, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False, device: Place = None, betas: Betas = None,
        **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        options = {"b1": b1, "b2": b2, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        self._begin(params, lr, device, betas, options, decoupled_weight_decay, how)
        self.mu = [mu for group in self.param_groups for mu in self._first_state("mu", group["params"], group)]
        self._realize_state(*{id(mu): mu for mu in self.mu}.values())

    def _first_state(self, name: str, params: Sequence[Tensor], group: ParamGroup) -> list[Tensor]:
        """Return zeros; of "mu", the product of all momenta so far, one tensor for all parameters of a group."""
        return [self._state([1.0])] * len(params) if name == "mu" else self._filled(0, params)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return what all have, and the logarithm of what the momentum approaches b1 by in a step."""
        return {**of_shares(options), "approach": math.log(0.96) * options["momentum_decay"]}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its two moments, the products of momenta and the step count."""
        done: dict[int, tuple[Tensor, Tensor]] = {}
        for each in self._updates(grads):
            p, g = self._decay(each)
            m, v = self._mean(each, g), self._square(each, g)
            now, ahead, mu = self._momentum(each, 0), self._momentum(each, 1), self.mu[each.number]
            product = self._number(each.p, mu) * now
            done.setdefault(id(mu), (mu, product))
            size = (v / left(each, "b2")).sqrt() + each["eps"]
            step = g * ((1 - now) / (1 - product)) + m * (ahead / (1 - product * ahead))
            each.apply(p - each.rate * step / size)
        for mu, product in done.values():
            self._write(mu, product.cast(mu.dtype).reshape(mu.shape).to(mu.device))
        self._write_counts()

    @staticmethod
    def _momentum(each: Update, ahead: int) -> Tensor:
        """Return the momentum of this step, or of the one `ahead`: b1 * (1 - 0.96**(t*momentum_decay) / 2)."""
        return each.shared(
            f"momentum {ahead}", lambda: each["b1"] * (1 - 0.5 * ((each.t + ahead) * each["approach"]).exp())
        )


class RAdam(_Moments):
    """Adam that steps by the momentum alone until the variance of its second moment is known, as PyTorch's RAdam.

    weight_decay adds that share of p to its gradient; with decoupled_weight_decay it shrinks p by lr * weight_decay.

    Source: Liu et al., "On the variance of the adaptive learning rate and beyond", arXiv:1908.03265, algorithm 2.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> radam = nn.optim.RAdam([p], lr=0.25)
    >>> with Tensor.train():
    ...     _ = (p * p).sum().backward()
    ...     radam.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.5, 1.0]
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, device: Place = None,
        betas: Betas = None, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        options = {"b1": b1, "b2": b2, "eps": eps, "weight_decay": weight_decay}
        self._begin(params, lr, device, betas, options, decoupled_weight_decay, how)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return what all have, "length", the greatest length of the average, and "start" of `_length`."""
        length = 2 / (1 - options["b2"]) - 1
        start = length + 2 / math.log(options["b2"]) if options["b2"] else length
        return {**of_shares(options), "length": length, "start": start}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its two moments, and the step count."""
        for each in self._updates(grads):
            p, g = self._decay(each)
            m, v = self._mean(each, g) / left(each, "b1"), self._square(each, g)
            length = self._length(each)
            adapted = self._share(each, length) * left(each, "b2").sqrt() / (v.sqrt() + each["eps"])
            each.apply(p - each.rate * m * (length > 5).where(adapted, 1.0))
        self._write_counts()

    @staticmethod
    def _length(each: Update) -> Tensor:
        """Return length - 2*t*b2**t / (1 - b2**t), how many gradients the average of squares is made of by now.

        In float32 that subtraction has three digits left at t = 6 and b2 = 0.999. With x = -t*log(b2) it is
        length - 2*t / (e**x - 1), whose series 1/x - 1/2 + x/12 - ... has the terms that cancel in front: these are
        subtracted in Python ("start"). From x = 1 on little cancels.
        """
        t, x = each.t, -each.t * each["log b2"]
        square = x * x
        tail = x * (1 / 6 - square * (1 / 360 - square * (1 / 15120 - square * (1 / 604800 - square / 23950080))))
        return (x < 1).where(each["start"] + t - t * tail, each["length"] - 2 * t / x.expm1())

    @staticmethod
    def _share(each: Update, length: Tensor) -> Tensor:
        """Return the rectification of the paper, where `length` is above 4."""
        most, now = each["length"], length.maximum(4.0)
        return ((now - 4) / (most - 4) * ((now - 2) / (most - 2)) * (most / now)).sqrt()


class Adamax(_Moments):
    """Adam by a running maximum: p -= lr / (1 - b1**t) * m / u, with u = max(b2*u, |g| + eps), as PyTorch's Adamax.

    weight_decay adds that share of p to its gradient.

    Source: Kingma & Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980, algorithm 2.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> adamax = nn.optim.Adamax([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = (p * p).sum().backward()
    ...     adamax.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.5, 1.5]
    """

    STATE: ClassVar[dict[str, str]] = {"m": "exp_avg", "v": "exp_inf"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.002, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.0, device: Place = None, betas: Betas = None,
        **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        options = {"b1": b1, "b2": b2, "eps": eps, "weight_decay": weight_decay}
        self._begin(params, lr, device, betas, options, None, how)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter, its mean and its maximum, and the step count."""
        for each in self._updates(grads):
            p, g = self._decay(each)
            m, u = self._mean(each, g), (each.state(self.v) * each["b2"]).maximum(g.abs() + each["eps"])
            each.store(self.v, u)
            each.apply(p - each.rate / left(each, "b1") * m / u)
        self._write_counts()
