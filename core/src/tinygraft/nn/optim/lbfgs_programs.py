"""What LBFGS computes with vectors, as programs that are captured once and replayed: a step has dozens of these.

A vector has all parameters one after another. What the host decides by, such as a slope, comes with the vectors that it
is made of, in one launch or a few, and is read at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.jit import TinyJit
from tinygraft.nn.optim.update import wide
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import UOp


@dataclass(frozen=True)
class SeenGradient:
    """A gradient as a vector, its slope along a direction, its greatest magnitude and the sum of all magnitudes."""

    gradient: Tensor
    slope: float
    greatest: float
    total: float


@dataclass(frozen=True)
class Heading:
    """A direction as a vector, the slope of the gradient along it, its greatest magnitude, and where it begins."""

    direction: Tensor
    slope: float
    greatest: float
    start: Tensor


class Programs:
    """The programs of one optimizer: `see` gradients, `move` parameters, `learn` a pair of changes, `turn`."""

    def __init__(self) -> None:
        self._see: Any = TinyJit(_see)
        self._move: Any = TinyJit(_move)
        self._learn: Any = TinyJit(_learn)
        self._turn: Any = TinyJit(_turn)

    def see(self, gradients: Sequence[Tensor], direction: Tensor) -> SeenGradient:
        """Return what is to be known of realised gradients beside `direction`."""
        gradient, numbers = self._see([g.detach() for g in gradients], direction)
        slope, greatest, total = numbers.tolist()
        return SeenGradient(gradient, slope, _or_infinity(greatest), total)

    def move(self, params: Sequence[Tensor], start: Tensor, direction: Tensor, length: float) -> None:
        """Assign the parameters start + length * direction, now."""
        self._move(list(params), start, direction, _number(length, start))

    def learn(self, rows: Tensor, at: UOp, direction: Tensor, length: float, gradient: Tensor, last: Tensor) -> Any:
        """Write a move and the change of the gradient to the rows `at` and behind it.

        Returns an array with the product of each row with these two and with the gradient.
        """
        return self._learn(rows, at, direction, _number(length, gradient), gradient, last).numpy()

    def turn(self, params: Sequence[Tensor], rows: Tensor, weights: Sequence[float], gradient: Tensor) -> Heading:
        """Return the sum of all rows and the gradient, times `weights`, as a direction from the present parameters."""
        mine = Tensor(list(weights), dtype=gradient.dtype, device=gradient.device)
        direction, numbers, start = self._turn([p.detach() for p in params], rows, mine, gradient)
        slope, greatest = numbers.tolist()
        return Heading(direction, slope, _or_infinity(greatest), start)


def _see(gradients: list[Tensor], direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients as a vector, and a tensor of three numbers: those of SeenGradient in their order."""
    vector = _vector(gradients)
    sizes = vector.abs()
    numbers = (vector * direction).sum().stack(sizes.max(), sizes.sum())
    return vector.realize(numbers), numbers


def _move(params: list[Tensor], start: Tensor, direction: Tensor, length: Tensor) -> None:
    """Assign each parameter its part of start + length * direction."""
    new, at = start + direction * length, 0
    for p in params:
        count = p.numel()
        p.assign(new[at : at + count].reshape(p.shape).cast(p.dtype))
        at += count
    params[0].realize(*params[1:])


def _learn(rows: Tensor, at: UOp, direction: Tensor, length: Tensor, gradient: Tensor, last: Tensor) -> Tensor:
    """Write two rows, and return the product of each row with each of three vectors: (rows, 3)."""
    move, bend = (direction * length).contiguous(), (gradient - last).contiguous()
    rows[at] = move
    rows[at + 1] = bend
    return (rows * move).sum(1).stack((rows * bend).sum(1), (rows * gradient).sum(1), dim=1).realize()


def _turn(
    params: list[Tensor], rows: Tensor, weights: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the direction, a tensor of two numbers (its slope, its greatest magnitude), and all parameters."""
    shares = weights[:-1].reshape(-1, 1)
    # rows without a share may have any value: those of a pair that was refused
    direction = ((shares != 0).where(rows * shares, 0.0).sum(0) + weights[-1] * gradient).contiguous()
    numbers = (direction * gradient).sum().stack(direction.abs().max())
    start = _vector(params)
    return direction.realize(numbers, start), numbers, start


def _vector(tensors: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors as one vector in memory of its own."""
    first, *others = (wide(t).flatten() for t in tensors)
    return (first.cat(*others) if others else first.clone()).contiguous()


def _number(value: float, like: Tensor) -> Tensor:
    """Return a number as a tensor in memory: as a Python number it would be another kind of call each time."""
    return Tensor([value], dtype=like.dtype, device=like.device)


def _or_infinity(value: float) -> float:
    """Return a magnitude; infinity for NaN."""
    return math.inf if math.isnan(value) else value
