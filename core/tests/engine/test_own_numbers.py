"""Kernels with numbers of their own: equal ones are one object, over one program."""

from __future__ import annotations

import numpy as np

from tinygraft import Context, Tensor
from tinygraft.engine import own_numbers, plan


def looped(x: Tensor) -> Tensor:
    """Eight steps that differ in the row that they read."""
    y = x[0] * 0
    for i in range(8):
        y = ((y + x[i]).cumsum(axis=0) * 0.5).contiguous()
    return y


X = np.arange(48, dtype=np.float32).reshape(8, 6)


def some_kernel() -> own_numbers.Compiled:
    """A compiled kernel with arguments."""
    with Context(DEV="PYTHON"):
        plan.clear()
        looped(Tensor(X).realize()).realize()
    steps = next(reversed(plan._plans.values())).steps
    return next(step.kernel for step in steps if step.kernel is not None and step.kernel.signature.variables)


def test_the_same_numbers_are_the_same_kernel() -> None:
    """So that a capture can compare kernels by identity; other numbers are another one, over one program."""
    kernel = some_kernel()
    (name,) = own_numbers.plain(kernel.signature).variables
    base = own_numbers.named(kernel, (name,))
    seven, eight = own_numbers.given(base, [(name, 7)]), own_numbers.given(base, [(name, 8)])
    assert seven is own_numbers.given(base, [(name, 7)])
    assert seven is not eight and seven.program is eight.program
    assert own_numbers.given(base, []) is base
    assert own_numbers.numbers_in([seven, None, eight]) == {f"{name}=7": 7, f"{name}=8": 8}
    assert own_numbers.plain(eight.signature).variables == (name,)
