"""Random programs of coupled assignments: tensors in memory, expressions over them, assignments, reads in any order.

    run(seed)     raises AssertionError where a value is not the one that NumPy has

All numbers are int32, which wrap in the same way everywhere, so values agree bit for bit. Shapes are (), (1,), (n,),
(n, 1), (1, m) and (n, m) of the same n and m, so that kernels are shared; few programs have large ones, which are done
in vectors and by several threads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygraft import Tensor, dtypes

Array = np.ndarray[Any, np.dtype[np.int32]]


class Value(NamedTuple):
    """A tensor and what it should be."""

    tensor: Tensor
    array: Array


class Program:
    """The tensors of a program as they come to be."""

    def __init__(self, seed: int, device: str | None = None) -> None:
        self.chance = random.Random(seed)
        n, m = self.chance.choice([(3, 4), (5, 2), (4, 4), (7, 9), (2, 33)])
        if self.chance.random() < 0.06:
            n, m = self.chance.choice([(130, 140), (33, 600)])
        self.sizes = n, m
        self.shapes = [(), (1,), (n,), (m,), (n, 1), (1, m), (n, m)]
        if self.chance.random() < 0.6:
            self.shapes = [(1,), (n,)]  # what most often comes into one kernel
        self.device = device
        self.kept = [self.memory() for _ in range(self.chance.randint(2, 4))]
        self.others: list[Value] = []

    def memory(self) -> Value:
        """A tensor in memory of its own."""
        shape = self.chance.choice(self.shapes)
        array = np.array([self.chance.randint(-9, 9) for _ in range(int(np.prod(shape)))], np.int32).reshape(shape)
        return Value(Tensor(array.tolist(), dtype=dtypes.int32, device=self.device).reshape(shape).realize(), array)

    def any(self) -> Value:
        """One of the values that there are; an expression rather less often."""
        return self.chance.choice([*self.kept, *self.kept, *self.others[-4:]])

    def expression(self, depth: int) -> Value:
        """A random expression."""
        if depth == 0:
            return self.any()
        kind, x = self.chance.randrange(10), self.expression(depth - 1)
        if kind < 5:
            return self.binary(x, self.expression(depth - 1))
        if kind < 7 and x.array.ndim:
            return self.reduced(x)
        if kind == 7 and x.array.ndim:
            axis = self.chance.randrange(x.array.ndim)
            return Value(x.tensor.flip(axis) + 0, np.flip(x.array, axis))  # a value, not a view
        if kind == 8 and x.array.ndim and x.array.size < 300:
            axis = self.chance.randrange(x.array.ndim)
            return Value(x.tensor.cumsum(axis), np.cumsum(x.array, axis, dtype=np.int32))
        return Value(x.tensor * 3 - 1, x.array * np.int32(3) - np.int32(1))

    def binary(self, x: Value, y: Value) -> Value:
        """Two values combined, where they can be broadcast; else the first with the sum of the second."""
        try:
            np.broadcast_shapes(x.array.shape, y.array.shape)
        except ValueError:
            y = Value(y.tensor.sum(), y.array.sum(dtype=np.int32))
        with np.errstate(over="ignore"):
            kind = self.chance.randrange(4)
            if kind == 0:
                return Value(x.tensor + y.tensor, x.array + y.array)
            if kind == 1:
                return Value(x.tensor - y.tensor, x.array - y.array)
            if kind == 2:
                return Value(x.tensor * y.tensor, x.array * y.array)
            return Value(x.tensor.maximum(y.tensor), np.maximum(x.array, y.array))

    def reduced(self, x: Value) -> Value:
        """A sum or a maximum, of all or along an axis, which may stay."""
        axis = self.chance.choice([None, *range(x.array.ndim)])
        keep = self.chance.random() < 0.5
        if self.chance.random() < 0.5:
            return Value(x.tensor.sum(axis, keepdim=keep), x.array.sum(axis, dtype=np.int32, keepdims=keep))
        return Value(x.tensor.max(axis, keepdim=keep), x.array.max(axis, keepdims=keep))

    def fitted(self, x: Value, shape: Sequence[int]) -> Value:
        """A value brought to a shape by adding it to zeros, or by a sum before where it does not fit."""
        try:
            fits = np.broadcast_shapes(x.array.shape, shape) == tuple(shape)
        except ValueError:
            fits = False
        if not fits:
            x = Value(x.tensor.sum(), x.array.sum(dtype=np.int32))
        return Value(x.tensor.expand(*shape) if shape else x.tensor.reshape(()), np.broadcast_to(x.array, shape))

    def step(self) -> None:
        """Write an expression down, assign one, or write into a part."""
        kind = self.chance.randrange(8)
        value = self.expression(self.chance.randint(1, 2))
        place = self.chance.randrange(len(self.kept))
        held = self.kept[place]
        if kind < 2:
            self.others.append(value)
        elif kind < 7 or not held.array.ndim or held.array.shape[0] < 2:
            value = self.fitted(value, held.array.shape)
            held.tensor.assign(value.tensor)
            self.kept[place] = Value(held.tensor, value.array.copy())
        else:
            start = self.chance.randrange(held.array.shape[0] - 1)
            end = self.chance.randint(start + 1, held.array.shape[0])
            part = self.fitted(value, held.array[start:end].shape)
            held.tensor[start:end] = part.tensor
            array = held.array.copy()
            array[start:end] = part.array
            self.kept[place] = Value(held.tensor, array)

    def update(self) -> None:
        """New values for several tensors, each computed from old ones and from new ones before it; then all assigned,
        as an optimizer does, in any order."""
        places = self.chance.sample(range(len(self.kept)), self.chance.randint(2, len(self.kept)))
        old, new = list(self.others), dict[int, Value]()
        for place in places:
            held = self.kept[place]
            value = self.binary(held, self.expression(self.chance.choice([0, 0, 1])))
            for other in new.values():
                if self.chance.random() < 0.6:
                    value = self.binary(value, other)
            new[place] = self.fitted(value, held.array.shape)
            self.others.append(new[place])
        self.chance.shuffle(places)
        for place in places:
            held = self.kept[place]
            held.tensor.assign(new[place].tensor)
            self.kept[place] = Value(held.tensor, new[place].array.copy())
        self.others = old if self.chance.random() < 0.7 else self.others
        if self.chance.random() < 0.7:
            self.chance.shuffle(places)
            first, *rest = [self.kept[place].tensor for place in places]
            first.realize(*rest)

    def read(self) -> None:
        """Realise some tensors together, in any order, and look at one."""
        asked = self.chance.sample([*self.kept, *self.others], self.chance.randint(1, len(self.kept)))
        asked[0].tensor.realize(*[value.tensor for value in asked[1:]])
        self.look(asked[-1])

    def look(self, value: Value) -> None:
        """Compare one value."""
        np.testing.assert_array_equal(value.tensor.numpy(), value.array)


def run(seed: int, device: str | None = None) -> None:
    """A random program; what it has left is read at the end. Raises AssertionError for a wrong value."""
    program = Program(seed, device)
    with np.errstate(over="ignore"):
        for _ in range(program.chance.randint(1, 2)):
            for _ in range(program.chance.randint(1, 3)):
                program.update() if program.chance.random() < 0.6 else program.step()
            program.read()
        values = [*program.kept, *program.others]
        program.chance.shuffle(values)
        for value in values:
            program.look(value)
