"""A function under TinyJit does what it does without: to arguments, to what is outside, and to gradients.

Each program runs both ways.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from failures import failing
from tinygraft import Context, Tensor, TinyJit

Jit = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture(autouse=True)
def python():
    """All of this runs on PYTHON."""
    with Context(DEV="PYTHON"):
        yield


def floats(*values: float) -> Tensor:
    """Numbers in memory."""
    return Tensor([float(value) for value in values]).realize()


def lazy_outside(jit: Jit) -> Any:
    """A tensor from outside that was lazy when the function was captured is assigned to afterwards."""
    s = Tensor.zeros(2).contiguous()
    f = jit(lambda x: (x + s).realize())
    for i in range(3):
        f(floats(i, i))
    s.assign(floats(100, 100)).realize()
    return f(floats(0, 0)).tolist()


def twin_outside(jit: Jit) -> Any:
    """Of two equal tensors, computed together, the one that the function does not use is written."""
    y = floats(1, 2) + 1
    a, b = y.contiguous(), y.contiguous()
    Tensor.realize(a, b)
    f = jit(lambda x: (x + a).realize())
    for i in range(3):
        f(floats(i, i))
    b.assign(floats(100, 100)).realize()
    return f(floats(0, 0)).tolist()


def view_without_base(jit: Jit) -> Any:
    """Views from outside, of which one is written, whose base is gone."""
    t = floats(0, 0, 0, 0)
    s, u = t[0:3], t[1:4]
    del t

    def add(x: Tensor) -> None:
        s.assign(s + x)

    f = jit(add)
    for _ in range(5):
        f(floats(1))
    return s.tolist(), u.tolist()


def borrowed(jit: Jit, writes_first: bool) -> Any:
    """An argument and its contiguous(), which has the same memory until one of them is written."""

    def add(x: Tensor, y: Tensor) -> Tensor:
        if writes_first:
            x.assign(x + 1)
        else:
            y.assign(y + 1)
        return (x + y).realize()

    f = jit(add)
    for i in range(4):
        x = floats(i, 1)
        y = x.contiguous()
        f(x, y)
    return x.tolist(), y.tolist()


def borrowed_from_outside(jit: Jit) -> Any:
    """The same where the lender is outside."""
    w = floats(1, 2)

    def add(y: Tensor) -> None:
        y.assign(y + 1)

    f = jit(add)
    for _ in range(4):
        y = w.contiguous()
        f(y)
    return y.tolist(), w.tolist()


def replaced(jit: Jit) -> Any:
    """An argument gets another node."""

    def double(x: Tensor) -> None:
        x.replace((x * 2).realize())

    f = jit(double)
    for _ in range(4):
        x = floats(1, 2)
        f(x)
    return x.tolist()


def grad_of_an_argument(jit: Jit) -> Any:
    """Each argument gets a grad of its own."""

    def square(x: Tensor) -> None:
        (x * x).sum().backward()

    f = jit(square)
    xs = [Tensor([float(i), 1.0], requires_grad=True).realize() for i in range(2)]
    for i in range(6):
        f(xs[i % 2])
    new = Tensor([5.0, 1.0], requires_grad=True).realize()
    f(new)
    return xs[0].grad.tolist(), None if new.grad is None else new.grad.tolist()


def accumulated(jit: Jit) -> Any:
    """The first calls begin without a grad, later ones add to it."""
    w = Tensor([1.0, 2.0], requires_grad=True).realize()

    def backward(x: Tensor) -> None:
        (x * w * w).sum().backward()

    f = jit(backward)
    for i in range(4):
        if i < 2:
            w.grad = None
        f(floats(1, 1))
    return w.grad.tolist()


def no_grad(jit: Jit) -> Any:
    """The function was captured in a block of no_grad, and is called outside of it."""
    w = Tensor([2.0, 3.0], requires_grad=True).realize()
    f = jit(lambda x: (x * w).realize())
    with Tensor.no_grad():
        for _ in range(2):
            f(floats(1, 1))
    (f(floats(1, 1)) * w).sum().backward()
    return w.grad.tolist()


def other_thread(jit: Jit) -> Any:
    """A write that another thread has asked for is done before a replay reads its memory."""
    w = floats(1, 2)
    f = jit(lambda x: (x + w).realize())
    for _ in range(3):
        f(floats(0, 0))
    w.assign(w + 100)
    zeros, out = floats(0, 0), []
    thread = threading.Thread(target=lambda: out.append(f(zeros).tolist()))
    thread.start()
    thread.join()
    return out


def detached_without_base(jit: Jit) -> Any:
    """A write to a detached tensor whose base is gone is done before a replay."""
    v = floats(1, 2).detach()
    f = jit(lambda x: (x + v).realize())
    for _ in range(3):
        f(floats(0, 0))
    v.assign(v * 0 + 100)
    return f(floats(0, 0)).tolist()


def zero_of_a_complex(jit: Jit) -> Any:
    """-0j and 0j are two arguments."""
    f = jit(lambda x, c: (x * c.imag).realize())
    with np.errstate(divide="ignore"):
        return [(1 / f(floats(1), complex(0, z)).numpy()).tolist() for z in (0.0, 0.0, 0.0, -0.0)]


@pytest.mark.parametrize(
    "program",
    [
        lazy_outside,
        twin_outside,
        view_without_base,
        pytest.param(lambda jit: borrowed(jit, True), id="borrowed, the first is written"),
        pytest.param(lambda jit: borrowed(jit, False), id="borrowed, the second is written"),
        borrowed_from_outside,
        replaced,
        grad_of_an_argument,
        accumulated,
        no_grad,
        other_thread,
        detached_without_base,
        zero_of_a_complex,
    ],
)
def test_tinyjit_changes_nothing(program: Callable[[Jit], Any]) -> None:
    """What a program returns is the same with and without it."""
    assert program(TinyJit) == program(lambda function: function)


@pytest.mark.parametrize("fails", [False, True])
def test_views_and_base_agree_after_a_failure(fails: bool) -> None:
    """A view that the function writes and returns is old or new, in the base and in all views, and stays so."""
    x = floats(1, 2, 3, 4)
    v, u = x[0:2], x.reshape(2, 2)

    def add(t: Tensor) -> Tensor:
        a = t[0:2]
        a.assign(a + 10)
        return a

    with failing("launch", 0 if fails else 99):
        try:
            TinyJit(add)(x)
        except RuntimeError:
            assert fails
    want = [1, 2, 3, 4] if fails else [11, 12, 3, 4]
    assert (x.tolist(), v.tolist(), u.flatten().tolist()) == (want, want[:2], want)
    v[0:1].assign(Tensor([99.0])).realize()
    assert (x.tolist(), v.tolist()) == ([99, *want[1:]], [99, want[1]])
