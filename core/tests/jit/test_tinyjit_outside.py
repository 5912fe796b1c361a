"""Tensors from outside that have their values elsewhere since a call was captured: replays follow.

Each program runs with TinyJit and without it, on PYTHON and on CPU, and has to return the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tinygraft import Context, Tensor, TinyJit, nn

Jit = Callable[[Callable[..., Any]], Callable[..., Any]]
PROGRAMS: dict[str, Callable[[Jit], Any]] = {}


def program(function: Callable[[Jit], Any]) -> Callable[[Jit], Any]:
    """List a program by its name."""
    PROGRAMS[function.__name__] = function
    return function


def floats(*values: float) -> Tensor:
    """Numbers in memory."""
    return Tensor([float(value) for value in values]).realize()


def calls(f: Callable[..., Any], count: int) -> list[Any]:
    """What some calls of a function of one tensor return."""
    return [f(floats(i, 1)).tolist() for i in range(count)]


@program
def replaced(jit: Jit) -> Any:
    """The tensor gets another node, in memory and lazy."""
    s = floats(1, 2)
    f = jit(lambda x: (x + s).realize())
    out = calls(f, 3)
    s.replace(floats(100, 100))
    out += calls(f, 1)
    s.replace(s * 2)
    return out + calls(f, 4)


@program
def view_of_a_lazy_one(jit: Jit) -> Any:
    """The function reads a view, the base of which is lazy and written later; then the view."""
    s = Tensor.zeros(4).contiguous()
    v = s[1:3]
    f = jit(lambda x: (x + v).realize())
    out = calls(f, 3)
    s[1] = 7.0
    out += calls(f, 4)
    v.assign(floats(5, 6))
    return out + calls(f, 4)


@program
def realised_later(jit: Jit) -> Any:
    """A lazy tensor is realised by somebody else, then written."""
    s = floats(1, 2) * 3
    f = jit(lambda x: (x + s).realize())
    out = calls(f, 3)
    s.realize()
    out += calls(f, 1)
    s += 1
    return out + calls(f, 4)


@program
def lazy_one_keeps_its_value(jit: Jit) -> Any:
    """What a lazy tensor is computed from is written: it has its old value."""
    b = floats(1, 2)
    s = b * 3
    f = jit(lambda x: (x + s).realize())
    out = calls(f, 3)
    b.assign(floats(10, 10)).realize()
    return out + calls(f, 3), s.tolist()


@program
def loaded(jit: Jit) -> Any:
    """A state dict is loaded into the layer that the function uses."""
    Tensor.manual_seed(0)
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    f = jit(lambda x: layer(x).realize())
    out = calls(f, 3)
    nn.state.load_state_dict(layer, nn.state.get_state_dict(other), verbose=False)
    return out + calls(f, 3)


@program
def twin_that_is_written_inside(jit: Jit) -> Any:
    """Of two equal tensors one is written by the function, later the other one outside."""
    y = floats(1, 2) + 1
    a, b = y.contiguous(), y.contiguous()
    Tensor.realize(a, b)

    def add(x: Tensor) -> Tensor:
        b.assign(b + x)
        return (a + x).realize()

    f = jit(add)
    out = [(calls(f, 1), a.tolist(), b.tolist()) for _ in range(5)]
    a += 5
    return out, [(calls(f, 1), a.tolist(), b.tolist()) for _ in range(5)]


@program
def shards(jit: Jit) -> Any:
    """A sharded tensor, lazy when the function is captured."""
    devices = tuple(f"{floats(1).device}:{i}" for i in range(2))
    s = Tensor([1.0, 2.0]).shard(devices, axis=0)
    x = floats(1, 1).shard(devices, axis=0).realize()
    f = jit(lambda x: (x + s).realize())
    out = [f(x).tolist() for _ in range(3)]
    s.assign(s * 10)
    return out + [f(x).tolist() for _ in range(3)]


@program
def views_written_in_turn(jit: Jit) -> Any:
    """The function reads all rows; before each call one of them is written."""
    c = Tensor.zeros(4).contiguous().realize()
    rows = [c[i] for i in range(4)]
    f = jit(lambda x: sum([row * x for row in rows], x).realize())
    out = []
    for i in range(5):
        rows[i % 4].assign(rows[i % 4] + i + 1)
        out.append((calls(f, 2), c.tolist()))
    return out


@program
def lazy_leaf(jit: Jit) -> Any:
    """A leaf that was never realised has a gradient in each call, and is assigned later."""
    w = Tensor([1.0, 2.0], requires_grad=True)

    def backward(x: Tensor) -> Tensor:
        w.grad = None
        (x * w * w).sum().backward()
        return w.grad.realize()

    f = jit(backward)
    out = calls(f, 4)
    w.assign(floats(3, 3))
    return out + calls(f, 4)


@program
def trained(jit: Jit) -> Any:
    """An optimizer steps inside; between calls the weights are set by hand."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (x * w * w).sum()
        loss.backward()
        optimizer.step()
        return loss.realize()

    f = jit(step)
    with Tensor.train():
        out = calls(f, 4)
        with Tensor.no_grad():
            w.assign(floats(3, 3))
        out += calls(f, 4)
    return out, w.tolist()


@program
def write_to_a_view_in_another_thread(jit: Jit) -> Any:
    """The base has a pending write of this thread when another one calls."""
    w = floats(1, 2, 3)
    v = w[0:2]
    f = jit(lambda x: (x + v).realize())
    calls(f, 3)
    zeros, out = floats(0, 0), []
    w[0:1].assign(Tensor([50.0]))
    thread = threading.Thread(target=lambda: out.append(f(zeros).tolist()))
    thread.start()
    thread.join()
    return out, w.tolist()


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_replays_follow_what_is_outside(name: str, device: str) -> None:
    """What a program returns is the same with and without TinyJit."""
    with Context(DEV=device):
        assert PROGRAMS[name](TinyJit) == PROGRAMS[name](lambda function: function)


def test_what_moves_nothing_keeps_the_capture() -> None:
    """Writes in place, other tensors that come and go, and elements of views that are read cost no capture."""
    w, other = floats(1, 2), floats(1, 2) + 1
    v = w[0:1]
    f = TinyJit(lambda x: (x + w).realize())
    for i in range(6):
        f(floats(i, 1))
        w += 1
        v.tolist()
        other = other + w
        w.realize()
    assert f.captured == 1
    f(floats(0, 0))
    assert f.captured == 1
    w.replace(floats(0, 0))
    f(floats(0, 0))
    assert f.captured == 0
