"""Views in random programs: values beside index arrays into flat NumPy buffers, gradients beside PyTorch.

A tensor of a program is an array of indices into one flat buffer of numbers; its views are the same array moved. So
what a write shows in is known without a view of NumPy's, whose reshape sometimes copies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit
from tinygraft.schedule.stored import HELD
from tinygraft.tensor import live
from tinygraft.uop.uop import toposort

Index = Any  # an array of indices
Move = tuple[str, Callable[[Any], Any], Callable[[Index], Index]]


def moves(shape: tuple[int, ...], rng: random.Random) -> list[Move]:
    """Views that a tensor of a shape has: the name, the tensor's method, and the same of an array."""
    size = int(np.prod(shape))
    found: list[Move] = [
        ("reshape(-1)", lambda t: t.reshape(-1), lambda i: i.reshape(-1)),
        ("detach", lambda t: t.detach(), lambda i: i),
    ]
    if size and size % 2 == 0:
        found.append(("reshape(2, -1)", lambda t: t.reshape(2, -1), lambda i: i.reshape(2, -1)))
    if shape:
        axis = rng.randrange(len(shape))
        n = shape[axis]
        start, end = sorted((rng.randrange(n + 1), rng.randrange(n + 1)))
        step = rng.choice([1, 1, 2, -1])
        part: Any = (slice(None),) * axis + (slice(None, None, step) if step != 1 else slice(start, end),)
        found.append((f"[{part}]", lambda t: t[part], lambda i: i[part]))
        found.append((f"flip({axis})", lambda t: t.flip(axis), lambda i: np.flip(i, axis)))
        if n:
            one: Any = (slice(None),) * axis + (rng.randrange(n),)
            found.append((f"[{one}]", lambda t: t[one], lambda i: i[one]))
            ends = (start, max(end, start + 1)) if start < n else (0, n)
            pairs = [ends if a == axis else None for a in range(len(shape))]
            found.append(
                (f"shrink({pairs})", lambda t: t.shrink(pairs), lambda i: i[(slice(None),) * axis + (slice(*ends),)])
            )
            halves = rng.randrange(2) if n > 1 else 0
            found.append(
                (
                    f"chunk(2, {axis})[{halves}]",
                    lambda t: t.chunk(2, axis)[halves],
                    lambda i: (
                        (cut := -(-n // 2)) and i[(slice(None),) * axis + (slice(halves * cut, (halves + 1) * cut),)]
                    ),
                )
            )
    if len(shape) >= 2:
        found.append(("T", lambda t: t.transpose(0, 1), lambda i: i.swapaxes(0, 1)))
        found.append(("diagonal", lambda t: t.diagonal(), lambda i: np.diagonal(i)))
    found.append(("unsqueeze", lambda t: t.unsqueeze(0), lambda i: i[None]))
    return found


class Program:
    """Tensors, each with the buffer and the indices that it is."""

    def __init__(self, seed: int, jit: bool = False) -> None:
        self.rng, self.text, self.jit = random.Random(seed), list[str](), jit
        self.live: list[tuple[Any, Any, Index]] = []
        for _ in range(2):
            self.start()

    def start(self) -> None:
        """A new tensor of its own: memory or an expression."""
        shape = self.rng.choice([(6,), (4, 3), (2, 3, 2), (4, 1), (3, 4)])
        flat = np.array([self.rng.randrange(50) for _ in range(int(np.prod(shape)))], np.int32)
        tensor = Tensor(flat.reshape(shape).copy())
        if self.rng.random() < 0.5:
            tensor = tensor.realize()
        else:
            tensor, flat = tensor * 2 + 1, flat * 2 + 1
        self.live.append((tensor, flat, np.arange(flat.size).reshape(shape)))

    def value(self, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """A value to write: a number, data, an expression of a live tensor, or a live tensor itself."""
        like = [(t, flat[i]) for t, flat, i in self.live if i.shape == shape]
        kind = self.rng.randrange(4)
        if like and kind:
            tensor, array = self.rng.choice(like)
            return [(tensor, array), (tensor * 3 - 1, array * 3 - 1), (tensor + tensor.flip(0), array + array[::-1])
                    if shape else (tensor + 1, array + 1)][kind - 1]  # fmt: skip
        if kind % 2:
            number = self.rng.randrange(100)
            return number, np.full(shape, number)
        array = np.array([self.rng.randrange(100) for _ in range(int(np.prod(shape)))], np.int32).reshape(shape)
        return Tensor(array.copy()), array

    def step(self) -> None:
        """One thing that a program does."""
        place = self.rng.randrange(len(self.live))
        tensor, flat, index = self.live[place]
        kind = self.rng.randrange(10)
        if kind <= 2:
            name, move, same = self.rng.choice(moves(index.shape, self.rng))
            self.text.append(f"{place}: {name}")
            self.live.append((move(tensor), flat, same(index)))
        elif kind == 3:
            value, array = self.value(index.shape)
            self.text.append(f"{place}: assign")
            array = np.array(array)
            if self.jit and self.rng.random() < 0.5 and isinstance(value, Tensor):
                self.write(tensor, value)
            else:
                tensor.assign(value)
            flat[index] = array
        elif kind == 4:
            name, move, same = self.rng.choice(moves(index.shape, self.rng))
            self.text.append(f"{place}: {name} assign")
            value, array = self.value(same(index).shape)
            array = np.array(array)
            move(tensor).assign(value)
            flat[same(index)] = array
        elif kind == 5:
            self.text.append(f"{place}: +=")
            tensor += 7
            flat[index] += 7
        elif kind == 6 and index.ndim and index.shape[0]:
            at = self.rng.randrange(index.shape[0])
            value, array = self.value(index[at].shape)
            self.text.append(f"{place}: [{at}] =")
            array = np.array(array)
            tensor[at] = value
            flat[index[at]] = array
        elif kind == 7:
            self.text.append(f"{place}: realize")
            tensor.realize()
        elif kind == 8:
            self.text.append(f"{place}: read")
            self.check(place)
        elif len(self.live) > 3:
            self.text.append(f"{place}: del")
            del self.live[place]
        else:
            self.start()

    def write(self, tensor: Any, value: Any) -> None:
        """An assignment under TinyJit, captured and replayed: called thrice, which is as once."""
        step = TinyJit(lambda a, b: a.assign(b).realize())
        held = value.clone().realize()
        for _ in range(3):
            step(tensor, held)

    def check(self, place: int) -> None:
        """Compare one tensor with its model."""
        tensor, flat, index = self.live[place]
        np.testing.assert_array_equal(tensor.numpy(), flat[index], f"{place}\n" + "\n".join(self.text))

    def run(self, steps: int) -> None:
        """Steps, and a look at every tensor in random order."""
        for _ in range(steps):
            self.step()
        order = list(range(len(self.live)))
        self.rng.shuffle(order)
        for place in order:
            self.check(place)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_views(seed: int) -> None:
    """Views of views, writes, reads, realises and deletions in random order."""
    Program(seed).run(20)


@pytest.mark.parametrize("seed", range(300, 330))
def test_whoever_reads_memory_that_is_written_is_looked_at(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a realisation does not look at rests: it is memory, none that is written, and asks for no gradient."""
    real = live.LIVE.near

    def near(memory: Any) -> Any:
        found = real(memory)
        looked_at, written = {id(holder) for holder in found}, set(memory)
        tensors = live.live_tensors()
        storages = {id(t._storage): t._storage for t in tensors if t._storage is not None}
        for holder in (*tensors, *storages.values()):
            if id(holder) not in looked_at:
                assert holder.uop.base.op in HELD
                assert written.isdisjoint(toposort(holder.uop))
                assert not holder.requires_grad
        return found

    monkeypatch.setattr(live.LIVE, "near", near, raising=False)
    Program(seed).run(25)
