"""Optimizers beside PyTorch: losses whose gradient fuses into the update, and each optimizer with its options.

`ours` trains with tinygraft and `theirs` with PyTorch in float64: both give the values of all parameters after each
step. Rules are the optimizers as their papers write them, in float64; they stand beside LARS, LAMB and Muon, which
PyTorch has not or has otherwise, and say what one step gives where values are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn

torch = pytest.importorskip("torch")

STEPS, RATE = 20, 0.02
RATES = [RATE] * (STEPS // 2) + [RATE / 3] * (STEPS - STEPS // 2)  # what lr is where it is assigned between steps
D = ("CPU", "CPU:1")
Values = list[np.ndarray[Any, Any]]
Place = Callable[[Tensor], Any]


# Losses: written once, for tensors of both libraries. Axis 0 of each parameter has an even length, to be split.


@dataclass(frozen=True)
class Loss:
    """The shapes of parameters, or their first values, and what is to be made less, of them and of data (6, 4)."""

    shapes: tuple[Any, ...]
    of: Callable[[Sequence[Any], Any], Any]

    def start(self) -> Values:
        """First values: different numbers, none near 0."""
        found = []
        for i, shape in enumerate(self.shapes):
            if isinstance(shape, list):
                found.append(np.array(shape))
                continue
            random = np.random.RandomState(i)
            found.append((random.random_sample(shape) * 0.6 + 0.2) * np.where(random.random_sample(shape) < 0.3, -1, 1))
        return found


def _mlp(p: Sequence[Any], x: Any) -> Any:
    return (((x @ p[0] + p[1]).tanh() @ p[2] + p[3] - x) * 2).square().mean()


LOSSES = {
    "cube": Loss(([1.0, 2.0, -0.5, 0.75],), lambda p, x: (p[0] * p[0] * p[0]).sum()),
    "sine": Loss(([1.0, 2.5, -0.5, 0.75],), lambda p, x: (p[0] * p[0].sin()).sum()),
    "product": Loss(((4,), (4,)), lambda p, x: (p[0] * p[1]).sum() + (p[0] * p[0] * p[1]).sum()),
    "layer": Loss(((4, 4), (4,)), lambda p, x: (x @ p[0] + p[1] - x.flip((0,))).square().mean()),
    "layers": Loss(((4, 6), (6,), (6, 4), (4,)), _mlp),
    "shared": Loss(((4, 4),), lambda p, x: ((x @ p[0]).tanh() @ p[0] - 1).square().mean()),
}


def _sum_of_all(p: Sequence[Any], x: Any) -> Any:
    total, first = None, 0
    for loss in LOSSES.values():
        count = len(loss.shapes)
        part = loss.of(p[first : first + count], x)
        total, first = part if total is None else total + part, first + count
    return total


ALL = Loss(tuple(shape for loss in LOSSES.values() for shape in loss.shapes), _sum_of_all)


def data() -> Any:
    """What the networks are given."""
    return np.random.RandomState(7).standard_normal((6, 4))


# Optimizers


State = dict[str, Any]
Rule = Callable[[Any, Any, State, int, float], Any]


def sgd_rule(momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, classic: bool = False,
             tcoef: float = 0.0) -> Rule:  # fmt: skip
    """LARS, algorithm 1 of arXiv:1708.03888; with tcoef 0 momentum as Sutskever et al. have it (2013)."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        trust = 1.0
        if tcoef and p.norm() > 0 and g.norm() > 0:
            trust = tcoef * p.norm() / (g.norm() + weight_decay * p.norm())
        g = (g + weight_decay * p) * trust * (lr if classic else 1.0)
        if momentum:
            state["b"] = momentum * state.get("b", 0.0) + g
            g = g + momentum * state["b"] if nesterov else state["b"]
        return p - (g if classic else lr * g)

    return rule


def lars_rule(momentum: float = 0.9, weight_decay: float = 1e-4, nesterov: bool = False, classic: bool = True,
              tcoef: float = 0.001) -> Rule:  # fmt: skip
    """sgd_rule with the defaults of LARS."""
    return sgd_rule(momentum, weight_decay, nesterov, classic, tcoef)


def adam_rule(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0,
              decoupled: bool = False, lamb: bool = False) -> Rule:  # fmt: skip
    """Adam (arXiv:1412.6980, algorithm 1), decoupled decay (arXiv:1711.05101), LAMB (arXiv:1904.00962, algorithm 2)."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        g = g if decoupled else g + weight_decay * p
        state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * g
        state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * g * g
        update = state["m"] / (1 - b1**step) / ((state["v"] / (1 - b2**step)).sqrt() + eps)
        update = update + weight_decay * p if decoupled else update
        return p - lr * update * (p.norm() / update.norm() if lamb and p.norm() > 0 and update.norm() > 0 else 1.0)

    return rule


def adamw_rule(weight_decay: float = 0.01, **options: Any) -> Rule:
    """adam_rule with the defaults of AdamW."""
    return adam_rule(weight_decay=weight_decay, decoupled=True, **options)


def lamb_rule(eps: float = 1e-6, adam: bool = False, **options: Any) -> Rule:
    """adam_rule with the defaults of LAMB."""
    return adam_rule(eps=eps, decoupled=True, lamb=not adam, **options)


def muon_rule(momentum: float = 0.95, weight_decay: float = 0.1, nesterov: bool = True) -> Rule:
    """Muon (Jordan et al., 2024) with its five steps of the quintic Newton-Schulz iteration."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        state["b"] = momentum * state.get("b", 0.0) + g
        x = g + momentum * state["b"] if nesterov else state["b"]
        x = x.reshape(p.shape[0], -1)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            square = x @ x.T
            x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
        x = (x.T if tall else x).reshape(p.shape)
        return p * (1 - lr * weight_decay) - lr * x

    return rule


def rmsprop_rule(alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
                 centered: bool = False) -> Rule:  # fmt: skip
    """RMSprop as PyTorch documents it."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        g = g + weight_decay * p
        state["v"] = alpha * state.get("v", 0.0) + (1 - alpha) * g * g
        state["mean"] = alpha * state.get("mean", 0.0) + (1 - alpha) * g
        spread = state["v"] - state["mean"] ** 2 if centered else state["v"]
        state["b"] = momentum * state.get("b", 0.0) + g / (spread.sqrt() + eps)
        return p - lr * state["b"]

    return rule


def adagrad_rule(lr_decay: float = 0.0, weight_decay: float = 0.0, initial_accumulator_value: float = 0.0,
                 eps: float = 1e-10) -> Rule:  # fmt: skip
    """Adagrad (Duchi et al., 2011), with PyTorch's decay of the rate."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        g = g + weight_decay * p
        state["s"] = state.get("s", initial_accumulator_value) + g * g
        return p - lr / (1 + (step - 1) * lr_decay) * g / (state["s"].sqrt() + eps)

    return rule


def adadelta_rule(rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0) -> Rule:
    """Adadelta (arXiv:1212.5701, algorithm 1), its step times lr."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        g = g + weight_decay * p
        state["v"] = rho * state.get("v", 0.0) + (1 - rho) * g * g
        u = state.get("u", torch.zeros_like(p))
        change = (u + eps).sqrt() / (state["v"] + eps).sqrt() * g
        state["u"] = rho * u + (1 - rho) * change * change
        return p - lr * change

    return rule


def lion_rule(b1: float = 0.9, b2: float = 0.99, weight_decay: float = 0.0) -> Rule:
    """Lion (arXiv:2302.06675, algorithm 2)."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        m = state.get("m", 0.0)
        state["m"] = b2 * m + (1 - b2) * g
        return p - lr * (torch.sign(b1 * m + (1 - b1) * g) + weight_decay * p)

    return rule


@dataclass(frozen=True)
class Case:
    """An optimizer of nn.optim by name, its options, its rule, and the one of PyTorch that it equals."""

    name: str
    options: dict[str, Any]
    rule: Callable[..., Rule]
    torch: Any = None
    torch_options: dict[str, Any] = field(default_factory=dict)

    def make(self, params: list[Tensor], lr: Any = RATE) -> nn.optim.Optimizer:
        """Ours."""
        return getattr(nn.optim, self.name)(params, lr=lr, **self.options)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.options.items())])


def _case(name: str, rule: Callable[..., Rule], like: Any = None, **options: Any) -> Case:
    return Case(name, options, rule, like, {k: v for k, v in options.items() if k != "classic"})


def nadam_rule(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.0,
               momentum_decay: float = 0.004, decoupled_weight_decay: bool = False) -> Rule:  # fmt: skip
    """NAdam as PyTorch documents it, with the product of momenta in float64: PyTorch's is float32."""

    def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
        shrunk = p * (1 - lr * weight_decay) if decoupled_weight_decay else p
        g = g if decoupled_weight_decay else g + weight_decay * p
        now, ahead = (b1 * (1 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step, step + 1))
        state["mu"] = state.get("mu", 1.0) * now
        state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * g
        state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * g * g
        size = (state["v"] / (1 - b2**step)).sqrt() + eps
        step_of_g = lr * (1 - now) / (1 - state["mu"]) * g / size
        return shrunk - step_of_g - lr * ahead / (1 - state["mu"] * ahead) * state["m"] / size

    return rule


def torch_rule(make: Any) -> Callable[..., Rule]:
    """The rule of an optimizer of PyTorch for one parameter: where PyTorch's is the definition."""

    def with_options(**options: Any) -> Rule:
        def rule(p: Any, g: Any, state: State, step: int, lr: float) -> Any:
            if "optimizer" not in state:
                state["p"] = torch.nn.Parameter(p.detach().clone())
                state["optimizer"] = make([state["p"]], lr=lr, **options)
            state["optimizer"].param_groups[0]["lr"] = lr
            state["p"].data.copy_(p)
            state["p"].grad = g.detach().clone()
            with torch.enable_grad():
                state["optimizer"].step()
            return state["p"].detach()

        return rule

    return with_options


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
CASES = [
    _case("SGD", sgd_rule, SGD),
    _case("SGD", sgd_rule, SGD, weight_decay=0.1),
    _case("SGD", sgd_rule, SGD, momentum=0.9),
    _case("SGD", sgd_rule, SGD, momentum=0.9, weight_decay=0.1),
    _case("SGD", sgd_rule, SGD, momentum=0.9, nesterov=True),
    _case("SGD", sgd_rule, SGD, momentum=0.9, weight_decay=0.1, nesterov=True),
    _case("SGD", sgd_rule, momentum=0.9, weight_decay=0.1, classic=True),
    _case("LARS", lars_rule),
    _case("LARS", lars_rule, weight_decay=0.1, nesterov=True),
    _case("LARS", lars_rule, momentum=0.0, tcoef=0.02),
    _case("LARS", lars_rule, classic=False, tcoef=0.02),
    _case("Adam", adam_rule, ADAM),
    _case("Adam", adam_rule, ADAM, weight_decay=0.1),
    _case("AdamW", adamw_rule, ADAMW),
    _case("AdamW", adamw_rule, ADAMW, weight_decay=0.1),
    _case("LAMB", lamb_rule),
    _case("LAMB", lamb_rule, weight_decay=0.1),
    _case("LAMB", lamb_rule, weight_decay=0.1, adam=True),
    _case("Muon", muon_rule),
    _case("Muon", muon_rule, nesterov=False, weight_decay=0.0),
    _case("RMSprop", rmsprop_rule, torch.optim.RMSprop),
    _case("RMSprop", rmsprop_rule, torch.optim.RMSprop, alpha=0.9, weight_decay=0.1, momentum=0.9, centered=True),
    _case("Adagrad", adagrad_rule, torch.optim.Adagrad),
    _case("Adagrad", adagrad_rule, torch.optim.Adagrad, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2),
    _case("Adadelta", adadelta_rule, torch.optim.Adadelta),
    _case("Adadelta", adadelta_rule, torch.optim.Adadelta, rho=0.8, weight_decay=0.1),
    _case("Lion", lion_rule, weight_decay=0.1),
    _case("NAdam", nadam_rule),
    _case("NAdam", nadam_rule, weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.01),
    _case("NAdam", nadam_rule, weight_decay=0.1, b1=0.8),
    *(
        _case(name, torch_rule(getattr(torch.optim, name)), getattr(torch.optim, name), **options)
        for name, options in (
            ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
            ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
            ("AdamW", {"amsgrad": True, "maximize": True}),
            ("RMSprop", {"maximize": True, "foreach": False}),
            ("RAdam", {}),
            ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.9)}),
            ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
            ("Adamax", {}),
            ("Adamax", {"weight_decay": 0.1, "betas": (0.8, 0.99)}),
        )
    ),
]


class Ruled:
    """An optimizer of PyTorch tensors by a rule: what theirs uses where PyTorch has no such optimizer."""

    def __init__(self, rule: Rule, params: Sequence[Any]) -> None:
        self.rule, self.params, self.step_number = rule, params, 0
        self.states: list[State] = [{} for _ in params]
        self.param_groups = [{"lr": RATE}]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.params:
            p.grad = None

    def step(self) -> None:
        """Give each parameter its new value."""
        self.step_number += 1
        with torch.no_grad():
            for p, state in zip(self.params, self.states, strict=True):
                p.copy_(self.rule(p, p.grad, state, self.step_number, self.param_groups[0]["lr"]))


def theirs(case: Case, loss: Loss, rates: Sequence[float], by_rule: bool = False) -> list[Values]:
    """The parameters after each step in PyTorch, float64."""
    params = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in loss.start()]
    x = torch.tensor(data())
    if case.torch is None or by_rule:
        optimizer: Any = Ruled(case.rule(**case.options), params)
    else:
        optimizer = case.torch(params, lr=RATE, **case.torch_options)
    found = []
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.of(params, x).backward()
        optimizer.step()
        found.append([p.detach().numpy().copy() for p in params])
    return found


def start(loss: Loss, dtype: Any = dtypes.float64, place: Place | None = None) -> tuple[list[Tensor], Tensor]:
    """(parameters, data) in tinygraft, where place puts them."""
    params = [Tensor(value, dtype=dtype, requires_grad=True) for value in loss.start()]
    x = Tensor(data(), dtype=dtype, requires_grad=False)
    if place is not None:
        for p in params:
            place(p)
        x.shard_(D)
    return params, x


def stepping(optimizers: Sequence[nn.optim.Optimizer], loss: Loss, params: list[Tensor], jit: bool) -> Any:
    """A function of the data that takes one step and returns the gradients."""
    whole = nn.optim.OptimizerGroup(*optimizers) if len(optimizers) > 1 else optimizers[0]

    @Tensor.train()
    def step(x: Tensor) -> list[Tensor]:
        whole.zero_grad()
        loss.of(params, x).backward()
        grads = [p.grad for p in params]
        first, *others = whole.schedule_step()
        first.realize(*others)
        return grads  # type: ignore[return-value]

    return TinyJit(step) if jit else step


def ours(case: Case, loss: Loss, rates: Sequence[float], dtype: Any = dtypes.float64, jit: bool = False,
         place: Place | None = None, lr: Any = RATE) -> list[Values]:  # fmt: skip
    """The parameters after each step in tinygraft, as float64. A rate that changes is assigned."""
    params, x = start(loss, dtype, place)
    optimizer = case.make(params, lr)
    step = stepping([optimizer], loss, params, jit)
    found, before = [], RATE
    for rate in rates:
        if rate != before:
            optimizer.lr.assign([rate] if optimizer.lr.ndim else rate)
        before = rate
        step(x)
        found.append([p.cast(dtypes.float64).numpy() for p in params])
    return found


def check(found: list[Values], wanted: list[Values], relative: float) -> None:
    """Every parameter after every step is within relative of its greatest magnitude."""
    assert len(found) == len(wanted) == STEPS
    for number, (mine, its) in enumerate(zip(found, wanted, strict=True), 1):
        for place, (a, b) in enumerate(zip(mine, its, strict=True)):
            assert a.shape == b.shape
            off = np.abs(a - b).max() / np.abs(b).max()
            assert off <= relative, f"parameter {place} is off by {off:.1e} of its size after step {number}:\n{a}\n{b}"
