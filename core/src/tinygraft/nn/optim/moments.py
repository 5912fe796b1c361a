"""Running means of the gradient and its square: Adam, AdamW, LAMB; and Lion, which uses the sign of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Unpack

from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.param_group import pair
from tinygraft.nn.optim.step_options import StepOptions
from tinygraft.nn.optim.trust import trust_ratios
from tinygraft.nn.optim.update import Update
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


def of_shares(options: Mapping[str, Any]) -> dict[str, float]:
    """Return options, and of both shares b also "1-b" and "log b", which float32 would not have as exact."""
    found = dict(options)
    for name in ("b1", "b2"):
        found[f"1-{name}"] = 1 - options[name]
        found[f"log {name}"] = math.log(options[name]) if options[name] else -math.inf
    return found


def left(each: Update, name: str) -> Tensor:
    """Return 1 - b**t for the share `name` and the number t of the step, a scalar where the parameter is.

    A subtraction in float32 would lose 10 bits of its last places at t = 1 and b = 0.999.
    """
    return each.shared(f"left {name}", lambda: -(each.t * each[f"log {name}"]).expm1())


class LAMB(Optimizer):
    """Adam's update, scaled for each parameter by |p| / |update| (by 1 if a norm is 0, or with adam=True).

    m and v are the running means of the gradient and its square, with weights b1 and b2. They start at zero, which the
    number t of the step undoes: m' = m / (1 - b1**t), v' = v / (1 - b2**t). The update is
    m' / (sqrt(v') + eps) + weight_decay * p. betas=(b1, b2) is another spelling. With amsgrad, v' is made of the
    greatest v of each number so far (Reddi et al., arXiv:1904.09237, as PyTorch has it).

    Source: You et al., "Large batch optimization for deep learning", arXiv:1904.00962.
    """

    m: list[Tensor]
    v: list[Tensor]
    greatest: list[Tensor]

    decoupled = True  # whether weight decay is part of the update; else it is added to the gradient
    SHARES: ClassVar[tuple[str, ...]] = ("b1", "b2")
    STATE: ClassVar[dict[str, str]] = {"m": "exp_avg", "v": "exp_avg_sq", "greatest": "max_exp_avg_sq"}
    b1: GroupOption = GroupOption()
    b2: GroupOption = GroupOption()
    eps: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-6, weight_decay: float = 0.0, adam: bool = False, device: Place = None,
        betas: tuple[float, float] | None = None, amsgrad: bool = False, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        b1, b2 = (b1, b2) if betas is None else pair(betas, type(self).__name__)
        options = {"eps": eps, "weight_decay": weight_decay, "b1": b1, "b2": b2}
        super().__init__(params, lr, device, options=options, fixed={"amsgrad": amsgrad}, how=how)
        self.adam, self.amsgrad = adam, amsgrad
        self.t: Tensor = self._count_steps()
        self.m, self.v, self.greatest = self._filled(), self._filled(), self._filled() if amsgrad else []
        self._realize_state(self.t, *self.m, *self.v, *self.greatest)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and the numbers of `of_shares`."""
        return of_shares(options)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter, its two moments and the step count their new values.

        Adam is this without trust ratios (`adam`); weight decay is added to the gradient, or to the update where
        `decoupled`.
        """
        updates, changes = list(self._updates(grads)), []
        for each in updates:
            g = each.g if self.decoupled else each.decayed()
            new_m = each.state(self.m) * each["b1"] + g * each["1-b1"]
            new_v = each.state(self.v) * each["b2"] + g * g * each["1-b2"]
            each.store(self.m, new_m)
            each.store(self.v, new_v)
            if not self.adam:  # norms are kernels of their own: these read what was stored, and need no copy of it
                new_m, new_v = each.stored(self.m, new_m), each.stored(self.v, new_v)
            if self.amsgrad:
                new_v = each.state(self.greatest).maximum(new_v)
                each.store(self.greatest, new_v)
            left1, left2 = left(each, "b1"), left(each, "b2")
            update = new_m / left1 / ((new_v / left2).sqrt() + each["eps"])
            if self.decoupled and each.group.needs("weight_decay"):
                update = update + each["weight_decay"] * each.old
            changes.append(update)
        trusts = [] if self.adam else trust_ratios(updates, changes, _size_by_pull)
        for number, (each, update) in enumerate(zip(updates, changes, strict=True)):
            each.apply(each.old - (update * trusts[number] if trusts else update) * each.rate)
        self._write_counts()


class AdamW(LAMB):
    """Adam whose weight decay does not pass through the running means: p -= lr * (update + weight_decay * p).

    Source: Loshchilov & Hutter, "Decoupled weight decay regularization", arXiv:1711.05101.
    """

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.01, device: Place = None,
        betas: tuple[float, float] | None = None, amsgrad: bool = False, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        super().__init__(params, lr, b1, b2, eps, weight_decay, True, device, betas, amsgrad, **how)


class Adam(LAMB):
    """Adaptive moments: p -= lr * m' / (sqrt(v') + eps), with m' and v' as LAMB describes them.

    weight_decay adds that share of p to its gradient, as PyTorch's Adam does; AdamW's is not part of the means.

    Source: Kingma & Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980, algorithm 1.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> adam = nn.optim.Adam([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = (p * p).sum().backward()
    ...     adam.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.5, 1.5]
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.0, device: Place = None,
        betas: tuple[float, float] | None = None, amsgrad: bool = False, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        super().__init__(params, lr, b1, b2, eps, weight_decay, True, device, betas, amsgrad, **how)


class Lion(Optimizer):
    """p -= lr * (sign(b1*m + (1 - b1)*g) + weight_decay*p), then m = b2*m + (1 - b2)*g: a step of one size for all.

    It wants an lr some 3 to 10 times below that of AdamW, and a weight_decay as many times above.

    Source: Chen et al., "Symbolic discovery of optimization algorithms", arXiv:2302.06675, algorithm 2.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, -2.0])
    >>> lion = nn.optim.Lion([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = (p * p).sum().backward()
    ...     lion.step()
    >>> p.tolist()
    [0.5, -1.5]
    """

    SHARES: ClassVar[tuple[str, ...]] = ("b1", "b2")
    STATE: ClassVar[dict[str, str]] = {"m": "exp_avg"}
    b1: GroupOption = GroupOption()
    b2: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-4, b1: float = 0.9, b2: float = 0.99,
        weight_decay: float = 0.0, device: Place = None, betas: tuple[float, float] | None = None,
        **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        b1, b2 = (b1, b2) if betas is None else betas
        super().__init__(params, lr, device, options={"weight_decay": weight_decay, "b1": b1, "b2": b2}, how=how)
        self.m: list[Tensor] = self._filled()
        self._realize_state(*self.m)

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the options and "1-b1" and "1-b2", as exact as Python has them."""
        return {**options, "1-b1": 1 - options["b1"], "1-b2": 1 - options["b2"]}

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its running mean."""
        for each in self._updates(grads):
            m = each.state(self.m)
            direction = (m * each["b1"] + each.g * each["1-b1"]).sign()
            each.store(self.m, m * each["b2"] + each.g * each["1-b2"])
            if each.group.needs("weight_decay"):  # 0 times an infinite p is NaN
                direction = direction + each["weight_decay"] * each.old
            each.apply(each.old - each.rate * direction)


def _size_by_pull(each: Update, sizes: Tensor, pulls: Tensor) -> Tensor:
    """Return LAMB's ratios |p| / |update|."""
    return sizes / pulls
