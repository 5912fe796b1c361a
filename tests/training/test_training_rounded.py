"""Optimizers of parameters in bfloat16: each step rounds what it stores once, and nothing else.

Every step is held to the rule of its paper in float64 (optimizer_cases.py holds the rules to PyTorch), started from
what is stored: parameter, state and gradient, all bfloat16. A result is then within the rounding of one bfloat16, 2**-8
of its magnitude, and the errors of the update in float32, which are less than 1e-4 of the magnitudes that it adds up.
(A whole trajectory has no such bound: a parameter that is rounded up rather than down changes every later gradient.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer_cases import ALL, CASES, LOSSES, RATES, Case, start, stepping, torch
from tinygraft import Tensor, dtypes

ROUNDED, SINGLE = 2.0**-8, 1e-4
# rules that start from what is stored; those that are an optimizer of PyTorch's keep a state of their own
FROM_STATE = [case for case in CASES if not case.rule.__qualname__.startswith("torch_rule")]


def exact(t: Tensor) -> Any:
    """What is stored, as float64 of PyTorch."""
    return torch.tensor(t.cast(dtypes.float32).numpy().astype(np.float64))


def states(optimizer: Any, place: int) -> dict[str, Any]:
    """The state of one parameter, by the names that the rules give it."""
    held = {name: getattr(optimizer, name, []) for name in ("b", "m", "v", "u", "s", "mean", "mu")}
    return {name: exact(tensors[place]) for name, tensors in held.items() if tensors}


def check_steps(case: Case, jit: bool, loss: Any = ALL) -> None:
    """All steps, each from what is stored before it."""
    params, x = start(loss, dtypes.bfloat16)
    optimizer: Any = case.make(params)
    rule = case.rule(**case.options)
    step = stepping([optimizer], loss, params, jit)
    for number, rate in enumerate(RATES, 1):
        optimizer.lr.assign([rate])
        before = [(exact(p), states(optimizer, place)) for place, p in enumerate(params)]
        grads = step(x)
        assert all(g.dtype is dtypes.bfloat16 for g in grads)
        for place, (p, g) in enumerate(zip(params, grads, strict=True)):
            old, state = before[place]
            slope = exact(g)
            wanted = rule(old, slope, state, number, float(np.float32(rate)))
            moved = (old - wanted).abs().max() + old.abs().max()
            assert p.dtype is dtypes.bfloat16
            if case.name == "Lion":  # where its sign is one of rounding, either is right
                direction = 0.9 * states_before(state, slope) + 0.1 * slope
                wanted = torch.where(direction.abs() < SINGLE * slope.abs().max(), exact(p), wanted)
            near(exact(p), wanted, moved, f"parameter {place} after step {number}")
            for name, value in states(optimizer, place).items():
                near(value, state[name], slope.abs().max(), f"{name} of parameter {place} after step {number}")


def states_before(state: dict[str, Any], slope: Any) -> Any:
    """The mean that Lion had before a step, from the one after it, which its rule has put into `state`."""
    return (state["m"] - 0.01 * slope) / 0.99


def near(found: Any, wanted: Any, scale: Any, what: str) -> None:
    """Within one rounding, and float32's of values as large as scale."""
    off = (found - wanted).abs() - (ROUNDED * wanted.abs() + SINGLE * scale)
    assert bool((off <= 0).all()), f"{what} is off:\n{found}\n{wanted}"


@pytest.mark.parametrize("name", ["SGD momentum=0.9 weight_decay=0.1 nesterov=True", "Adam weight_decay=0.1", "LAMB"])
def test_each_step(name: str) -> None:
    """Two layers."""
    check_steps(next(c for c in CASES if str(c) == name), False, LOSSES["layers"])


@pytest.mark.slow
@pytest.mark.parametrize(("case", "jit"), [
    pytest.param(case, jit, id=f"{case}-{'replayed' if jit else 'eager'}",
                 marks=pytest.mark.long if row % 2 == jit else [])  # the gate takes each case from one side
    for row, case in enumerate(FROM_STATE) for jit in (False, True)
])  # fmt: skip
def test_each_step_of_all_losses(case: Case, jit: bool) -> None:
    """All losses in one graph."""
    check_steps(case, jit)
