"""Views in random programs: values beside index arrays into flat NumPy buffers, gradients beside PyTorch.

A tensor of a program is an array of indices into one flat buffer of numbers; its views are the same array moved. So
what a write shows in is known without a view of NumPy's, whose reshape sometimes copies.
"""

from __future__ import annotations

import functools
import operator
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit
from tinygraft.tensor.state import live
from tinygraft.uop.held import HELD
from tinygraft.uop.uop import toposort

torch = pytest.importorskip("torch")

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


class Base:
    """Memory in PyTorch without a write in place: flat numbers, each write makes new ones. A leaf stays one."""

    def __init__(self, flat: Any, is_leaf: bool) -> None:
        self.flat, self.leaf = flat, flat if is_leaf else None

    def read(self, index: Index, detached: bool) -> Any:
        """The elements at an array of indices, with their gradient."""
        flat = self.flat
        if self.leaf is not None:  # what is written into a leaf is its value, and no function of anything
            flat = self.leaf + (self.flat - self.leaf).detach()
        found = flat[torch.tensor(index.copy())]
        return found.detach() if detached else found

    def write(self, index: Index, value: Any, detached: bool) -> None:
        """Give the elements at indices a value."""
        places = torch.tensor(index.reshape(-1).copy())
        value = (value.detach() if detached or self.leaf is not None else value).reshape(-1)
        flat = self.flat if self.leaf is None else self.flat.detach()
        self.flat = flat.index_put((places,), value)


class Held(NamedTuple):
    """A tensor by its name, its memory, its indices there, and whether detach() is on the way."""

    name: str
    tensor: Any
    base: Base
    index: Index
    cut: bool = False

    @property
    def value(self) -> Any:
        """What PyTorch has for it."""
        return self.base.read(self.index, self.cut)

    def write(self, value: Any) -> None:
        """Let PyTorch have another value for it."""
        self.base.write(self.index, value, self.cut)


class Gradients:
    """A program over leaves, memory and expressions, with views, writes and reads; then the gradients of the leaves.

    text is the program in Python, after the lines that make its first tensors.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.text, self.count = random.Random(seed), list[str](), 0
        self.live: list[Held] = []
        self.leaves: list[tuple[Any, Any]] = []
        self.losses = 0
        for kind in ("leaf", "leaf", "memory"):
            self.start(kind)
        held = self.rng.choice(self.live)
        self.add(held.tensor * 2 + 1, held.value * 2 + 1, f"{held.name} * 2 + 1")

    def note(self, text: str) -> str:
        """Write down a new tensor; its name."""
        self.count += 1
        self.text.append(f"t{self.count} = {text}")
        return f"t{self.count}"

    def start(self, kind: str) -> None:
        """A new tensor: a leaf or memory."""
        shape = self.rng.choice([(6,), (4, 3), (2, 3, 2), (3, 4)])
        values = np.array([self.rng.uniform(-1, 1) for _ in range(int(np.prod(shape)))])
        tensor, flat = Tensor(values.reshape(shape), requires_grad=kind == "leaf" or None), torch.tensor(values)
        if kind == "leaf":
            self.leaves.append((tensor, flat.requires_grad_()))
        name = self.note(f"new{shape}  # {kind}")
        self.live.append(Held(name, tensor, Base(flat, kind == "leaf"), np.arange(values.size).reshape(shape)))

    def add(self, tensor: Any, value: Any, text: str) -> None:
        """A value of its own."""
        index = np.arange(value.numel()).reshape(value.shape)
        self.live.append(Held(self.note(text), tensor, Base(value.reshape(-1), False), index))

    def value(self, shape: tuple[int, ...]) -> tuple[Any, Any, str]:
        """A value of a shape, here and in PyTorch: of live tensors of that shape, or of one element."""
        like = [held for held in self.live if held.index.shape == shape]
        if not like or self.rng.random() < 0.2:
            held = self.rng.choice([held for held in self.live if held.index.size])
            at = tuple(self.rng.randrange(n) for n in held.index.shape)
            mine, its = held.tensor[at] if at else held.tensor, held.value[at]
            mine = mine.reshape((1,) * len(shape)).expand(shape) * 0.5
            return (
                mine,
                its.expand(shape) * 0.5,
                f"{held.name}[{at}].reshape({(1,) * len(shape)}).expand({shape}) * 0.5",
            )
        a, b = self.rng.choice(like), self.rng.choice(like)
        text = self.rng.choice(["a * b", "a * 0.5 - b", "a.sin() + b", "a * a", "a", "a * b.sum()"])
        mine = eval(text, {"a": a.tensor, "b": b.tensor})
        its = eval(text, {"a": a.value, "b": b.value})
        return mine, its, "".join({"a": a.name, "b": b.name}.get(c, c) for c in re.split(r"\b", text))

    def step(self) -> None:
        """One thing that a program does."""
        held = self.rng.choice(self.live)
        name, tensor, base, index, cut = held
        kind = self.rng.choice(
            ["view", "view", "assign", "assign part", "+=", "[] =", "read", "realize", "value", "value", "loss", "del"]
        )
        if kind in ("view", "assign part"):
            step, move, same = self.rng.choice(moves(index.shape, self.rng))
            part = Held(f"{name}.{step}", move(tensor), base, same(index), cut or step == "detach")
            if kind == "view":
                self.live.append(part._replace(name=self.note(part.name)))
            else:
                self.write(part)
        elif kind == "assign":
            self.write(held)
        elif kind == "[] =" and index.ndim and index.shape[0]:
            at = self.rng.randrange(index.shape[0])
            mine, its, text = self.value(index[at].shape)
            self.text.append(f"{name}[{at}] = {text}")
            held._replace(index=index[at]).write(its)
            tensor[at] = mine
        elif kind == "+=":
            mine, its, text = self.value(index.shape)
            self.text.append(f"{name} += {text}")
            held.write(held.value + its)
            tensor += mine
        elif kind == "read":
            self.text.append(f"{name}.numpy()")
            self.check(held)
        elif kind == "realize":
            self.text.append(f"{name}.realize()")
            tensor.realize()
        elif kind == "value":
            mine, its, text = self.value(index.shape)
            self.add(mine * 1, its * 1, f"({text}) * 1")
        elif kind == "loss" and index.size and self.losses < 3 and held.value.requires_grad:
            self.losses += 1
            self.text.append(f"({name} * {name}).sum().backward()")
            (tensor * tensor).sum().backward()
            (held.value**2).sum().backward(retain_graph=True)
        elif kind == "del" and len(self.live) > 4:
            self.text.append(f"del {name}")
            self.live = [other for other in self.live if other is not held]

    def write(self, held: Held) -> None:
        """Assign to a tensor."""
        mine, its, text = self.value(held.index.shape)
        self.text.append(f"{held.name}.assign({text})")
        held.write(its)
        held.tensor.assign(mine)

    def check(self, held: Held) -> None:
        """Compare the values of a tensor."""
        expected = held.value.detach().numpy()
        np.testing.assert_allclose(held.tensor.numpy(), expected, 1e-9, 1e-9, err_msg="\n".join(self.text))

    def run(self, steps: int) -> None:
        """Steps, a loss of all that there is, and the gradients of the leaves."""
        for _ in range(steps):
            self.step()
        kept = [held for held in self.live if held.index.size]
        self.text.append(" + ".join(f"({held.name} * {held.name}).sum()" for held in kept) + "  # .backward()")
        mine = functools.reduce(operator.add, [(held.tensor * held.tensor).sum() for held in kept])
        its = functools.reduce(operator.add, [(held.value**2).sum() for held in kept])
        if its.requires_grad:
            mine.backward()
            its.backward()
        for tensor, leaf in self.leaves:
            wanted = np.zeros(tensor.shape) if leaf.grad is None else leaf.grad.numpy().reshape(tensor.shape)
            found = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
            size = max(float(np.abs(wanted).max()), 1e-3)
            np.testing.assert_allclose(found, wanted, 1e-8, 1e-9 * size, err_msg="\n".join(self.text))
        for held in self.live:
            self.check(held)


def seeds(whole: range) -> list[Any]:
    """The first quarter of them, and the others for the slow tests."""
    few = len(whole) // 4
    return [*whole[:few], *(pytest.param(seed, marks=pytest.mark.slow) for seed in whole[few:])]


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_gradients_of_random_programs_of_views(seed: int) -> None:
    """Leaves, memory and expressions, views of views, writes of what has a gradient, reads, and losses in between."""
    Gradients(seed).run(16)


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_random_programs_of_views(seed: int) -> None:
    """Views of views, writes, reads, realises and deletions in random order."""
    Program(seed).run(20)


@pytest.mark.parametrize("seed", seeds(range(300, 330)))
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
