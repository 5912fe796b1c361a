"""Random programs over axes of symbolic size, each of them written for NumPy and for tensors alike.

    program = Program(seed)
    for sizes in program.bindings():
        program.expected(sizes), program.result(tensor, sizes bound)

A size is a linear expression of one to three variables. NumPy says what a program gives for some values of them, and
which values it has no result for; a tensor then has the same values, or an error of ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinygraft import Tensor, Variable, dtypes

Sizes = dict[str, Any]  # ints, or bound variables, by name
LARGEST = 3000  # elements of a value


class NoResult(Exception):
    """NumPy has another rule here, or none: the program is not compared for these sizes."""


def sized(r: random.Random, names: list[str]) -> Callable[[Sizes], Any]:
    """A random expression of sizes."""
    a, b, c = r.choice(names), r.choice(names), r.randint(-3, 6)
    return r.choice([
        lambda s: s[a], lambda s: s[a] + c, lambda s: c - s[a], lambda s: s[a] + s[b], lambda s: 2 * s[a] - s[b],
        lambda s: s[a] * s[b], lambda s: (s[a] + c) // 2, lambda s: s[a] % 3, lambda s: c, lambda s: s[a] - s[b] + s[b],
    ])  # fmt: skip


def within(start: int, end: int, size: int) -> slice:
    """A slice that numpy does not clip: a symbolic one that leaves its axis is an error."""
    first, last = (place + size if place < 0 else place for place in (start, end))
    if not 0 <= first <= last <= size:
        raise NoResult
    return slice(first, last)


def positive(size: int) -> int:
    """A number of elements. Raises NoResult for a negative one."""
    if size < 0:
        raise NoResult
    return size


def some(x: np.ndarray, axis: int, least: int = 1) -> np.ndarray:
    """An array with so many elements along an axis, at least."""
    if x.shape[axis] < least:
        raise NoResult
    return x


def at(x: Any, axis: int, item: Any) -> Any:
    """x with an index along one axis."""
    return x[(slice(None),) * axis + (item,)]


def one(pair: Any, axis: int, ndim: int, rest: Any) -> tuple[Any, ...]:
    """pair along one axis, rest along the others."""
    return tuple(pair if k == axis else rest for k in range(ndim))


def written(x: Any, axis: int, part: slice) -> Any:
    """A copy of x with 7 in a part."""
    y = x.copy() if isinstance(x, np.ndarray) else x.clone()
    y[(slice(None),) * axis + (part,)] = 7.0
    return y


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Softmax in NumPy."""
    ends = np.exp(x - some(x, axis).max(axis, keepdims=True))
    return ends / ends.sum(axis, keepdims=True)


def merged(shape: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """A shape with two axes side by side as one; a single axis with one of size 1 before it."""
    k = min(axis, len(shape) - 2)
    return (1, *shape) if k < 0 else (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])


Step = tuple[Callable[..., Any], Callable[..., Any]]  # for NumPy and for tensors: of x, axis, and two sizes
STEPS: dict[str, Step] = {
    "slice": (lambda x, k, a, b: at(x, k, within(a, b, x.shape[k])), lambda x, k, a, b: at(x, k, slice(a, b))),
    "last three": (lambda x, k, a, b: at(some(x, k, 3), k, slice(-3, -1)), lambda x, k, a, b: at(x, k, slice(-3, -1))),
    "reverse": (lambda x, k, a, b: np.flip(x, k), lambda x, k, a, b: at(x, k, slice(None, None, -1))),
    "one": (lambda x, k, a, b: np.take(x, a, k) if -x.shape[k] <= a < x.shape[k] else within(0, -1, 0),
            lambda x, k, a, b: at(x, k, a)),
    "write": (lambda x, k, a, b: written(x, k, within(a, b, x.shape[k])),
              lambda x, k, a, b: written(x, k, slice(a, b))),
    "pad": (lambda x, k, a, b: np.pad(x, one((positive(a), positive(b)), k, x.ndim, (0, 0)), constant_values=2),
            lambda x, k, a, b: x.pad(one((a, b), k, x.ndim, (0, 0)), value=2)),
    "shrink": (lambda x, k, a, b: at(x, k, within(positive(a), positive(b), x.shape[k])),
               lambda x, k, a, b: x.shrink(one((a, b), k, x.ndim, None))),
    "arange": (lambda x, k, a, b: np.arange(a, b, 1 + k % 2).astype(float),
               lambda x, k, a, b: Tensor.arange(a, b, 1 + k % 2).cast(dtypes.float64)),
    "down": (lambda x, k, a, b: np.arange(a, b, -2).astype(float),
             lambda x, k, a, b: Tensor.arange(a, b, -2).cast(dtypes.float64)),
    "eye": (lambda x, k, a, b: np.eye(positive(a), positive(b)),
            lambda x, k, a, b: Tensor.eye(a, b, dtype=dtypes.float64)),
    "cat": (lambda x, k, a, b: np.concatenate([x, at(x, k, within(a, b, x.shape[k]))], k),
            lambda x, k, a, b: x.cat(at(x, k, slice(a, b)), dim=k)),
    "sum": (lambda x, k, a, b: x.sum(k), lambda x, k, a, b: x.sum(k)),
    "max": (lambda x, k, a, b: some(x, k).max(k, keepdims=True), lambda x, k, a, b: x.max(k, keepdim=True)),
    "argmax": (lambda x, k, a, b: some(x, k).argmax(k).astype(float),
               lambda x, k, a, b: x.argmax(k).cast(dtypes.float64)),
    "std": (lambda x, k, a, b: some(x, k, 2).std(k, ddof=1), lambda x, k, a, b: x.std(k)),
    "cumsum": (lambda x, k, a, b: x.cumsum(k), lambda x, k, a, b: x.cumsum(k)),
    "softmax": (lambda x, k, a, b: softmax(x, k), lambda x, k, a, b: x.softmax(k)),
    "twice": (lambda x, k, a, b: x + x[...], lambda x, k, a, b: x + x[...]),
    "number": (lambda x, k, a, b: a - x * b, lambda x, k, a, b: a - x * b),
    "where": (lambda x, k, a, b: np.where(x > 1, x, float(a)), lambda x, k, a, b: (x > 1).where(x, a)),
    "merge": (lambda x, k, a, b: x.reshape(merged(x.shape, k)), lambda x, k, a, b: x.reshape(merged(x.shape, k))),
    "flatten": (lambda x, k, a, b: x.reshape(-1), lambda x, k, a, b: x.reshape(-1)),
    "expand": (lambda x, k, a, b: np.broadcast_to(x, (positive(a), *x.shape)),
               lambda x, k, a, b: x.expand(a, *x.shape)),
    "repeat": (lambda x, k, a, b: np.tile(x, one(positive(a), k, x.ndim, 1)),
               lambda x, k, a, b: x.repeat(one(a, k, x.ndim, 1))),
    "swap": (lambda x, k, a, b: np.swapaxes(x, k, 0), lambda x, k, a, b: x.transpose(k, 0)),
    "product": (lambda x, k, a, b: x @ np.swapaxes(x, -1, -2) if x.ndim > 1 else x * x.sum(),
                lambda x, k, a, b: x @ x.transpose(-1, -2) if x.ndim > 1 else x * x.sum()),
    "stack": (lambda x, k, a, b: np.stack([x, x + 1]), lambda x, k, a, b: x.stack(x + 1)),
    "pick": (lambda x, k, a, b: np.take(some(x, k, 2), [1, 0, 1], k), lambda x, k, a, b: at(x, k, Tensor([1, 0, 1]))),
}  # fmt: skip


class Program:
    """Up to four steps over one array, each with an axis and two sizes of its own."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.bounds: dict[str, tuple[int, int]] = {}
        for name in r.sample(["i", "j", "length"], r.randint(1, 3)):
            low = r.randint(0, 3)
            self.bounds[name] = low, low + r.randint(0, 6)
        names = list(self.bounds)
        self.variables = {name: Variable(name, *ends) for name, ends in self.bounds.items()}
        shape = tuple(r.randint(1, 7) for _ in range(r.randint(1, 3)))
        self.data = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)
        chosen = [r.choice(list(STEPS)) for _ in range(r.randint(1, 4))]
        self.steps = [(name, r.randint(0, 3), sized(r, names), sized(r, names)) for name in chosen]

    def __str__(self) -> str:
        return f"{self.data.shape} {self.bounds}: {', '.join(name for name, _, _, _ in self.steps)}"

    def run(self, x: Any, sizes: Sizes) -> Any:
        """What the program makes of an array, or of a tensor with sizes that are bound."""
        of_numpy = isinstance(x, np.ndarray)
        for name, axis, first, second in self.steps:
            x = STEPS[name][0 if of_numpy else 1](x, axis % x.ndim, first(sizes), second(sizes))
            if not x.ndim:
                x = x.reshape(1)
            if of_numpy and x.size > LARGEST:
                raise NoResult
        return x

    def cases(self, most: int) -> Iterator[tuple[Sizes, np.ndarray]]:
        """Up to so many values for the variables with what NumPy gives."""
        found = 0
        for _ in range(12):
            sizes = {name: self.random.randint(*ends) for name, ends in self.bounds.items()}
            try:
                expected = self.run(self.data, sizes)
            except NoResult:
                continue
            yield sizes, expected
            found += 1
            if found == most:
                return

    def bound(self, sizes: Sizes) -> list[Any]:
        """The variables with these values."""
        return [variable.bind(sizes[name]) for name, variable in self.variables.items()]


def digest(x: Any) -> Any:
    """One number that depends on the place of each element, of an array or of a tensor of symbolic shape."""
    for axis, size in enumerate(x.shape):
        shape = one(size, axis, x.ndim, 1)
        if isinstance(x, np.ndarray):
            x = x * (np.arange(size).reshape(shape) % 7 + 1)
        else:
            x = x * (Tensor.arange(size).reshape(shape) % 7 + 1).cast(dtypes.float64)
    return x.sum()
