"""Loops over Python numbers: a scalar, the start of a slice, an index, what is written where, a rate that decays.

Each is measured with a number that differs in every step and with one that stays: 1.3 times as long is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Builder, Case
from benchmarks.lazy.library import Tensor
from benchmarks.lazy.ops import tensor


def loop(step: Callable[[int], Any], count: int, varies: bool) -> Case:
    """A step with the numbers from 1 to `count`, or as often with 7; its result is what the last one gave."""

    def compute() -> Any:
        result = None
        for i in range(1, count + 1):
            result = step(i if varies else 7)
        return result

    return Case(compute, lambda result: result.numpy() if hasattr(result, "numpy") else np.asarray(result))


def scalar(varies: bool) -> Builder:
    """A vector times a Python float."""

    def build(count: int) -> Case:
        x = tensor("x", 1000)
        return loop(lambda i: (x * (i + 0.5)).realize(), count, varies)

    return build


def slices(varies: bool) -> Builder:
    """The sum of eight elements, from a Python integer on."""

    def build(count: int) -> Case:
        x = tensor("x", 1000)
        return loop(lambda i: x[i : i + 8].sum().item(), count, varies)

    return build


def rows(varies: bool) -> Builder:
    """A row of a matrix, by index."""

    def build(count: int) -> Case:
        m = tensor("m", count + 8, 64)
        return loop(lambda i: m[i].numpy(), count, varies)

    return build


def writes(varies: bool) -> Builder:
    """An element that is given a value."""

    def build(count: int) -> Case:
        buffer = tensor("b", count + 8)

        def step(i: int) -> Tensor:
            buffer[i] = i * 1.5
            return buffer.realize()

        return loop(step, count, varies)

    return build


def rates(varies: bool) -> Builder:
    """A step of gradient descent with a learning rate that is a Python float."""

    def build(count: int) -> Case:
        weight, gradient = tensor("w", 200, 200), tensor("g", 200, 200)
        return loop(lambda i: weight.assign(weight - (0.1 / i) * gradient).realize(), count, varies)

    return build


ITEMS: dict[str, Builder] = {
    f"{name}_{'varied' if varies else 'fixed'}": make(varies)
    for name, make in {"scalar": scalar, "slice": slices, "row": rows, "write": writes, "rate": rates}.items()
    for varies in (True, False)
}
