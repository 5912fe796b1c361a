"""Writes in a block of no_grad: the tape does not hear of them. The value is the new one, the gradient goes on to what
the old one was computed from; a leaf stays a leaf. The numbers are PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tinygraft import Tensor, TinyJit, checkpoint, nn

Write = Callable[[Tensor, Tensor], Any]
READS = ["", "before", "after", "both"]


def element(b: Tensor, w: Tensor) -> None:
    """A part."""
    with Tensor.no_grad():
        b[0] = 7.0


def product(b: Tensor, w: Tensor) -> None:
    """The whole, by an operator."""
    with Tensor.no_grad():
        b *= 3


def view_inside(b: Tensor, w: Tensor) -> None:
    """A part, through a view that is made inside."""
    with Tensor.no_grad():
        v = b[1:]
        v += 1


def view_outside(b: Tensor, w: Tensor) -> None:
    """A part, through a view that was there."""
    v = b[1:]
    with Tensor.no_grad():
        v += 1


def other(b: Tensor, w: Tensor) -> None:
    """The whole, from another tensor."""
    with Tensor.no_grad():
        b.assign(w * 4)


def indexed(b: Tensor, w: Tensor) -> None:
    """By a tensor of indices."""
    with Tensor.no_grad():
        b[Tensor([2, 0])] = Tensor([5.0, 6.0])


def masked(b: Tensor, w: Tensor) -> None:
    """By a mask."""
    with Tensor.no_grad():
        b[b > 1.5] = 0.5


def twice(b: Tensor, w: Tensor) -> None:
    """After another, and with a recorded one in between, which cuts the gradient of its element."""
    with Tensor.no_grad():
        b[:2] += 1
    b[1] = 10.0
    with Tensor.no_grad():
        b[1:] *= 2


def detached(b: Tensor, w: Tensor) -> None:
    """Through detach()."""
    with Tensor.no_grad():
        b.detach()[0] = 7.0


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("write", "value", "gradient"),
    [
        (element, [7, 2, 3], [14, 4, 6]),
        (product, [3, 6, 9], [6, 12, 18]),
        (view_inside, [1, 3, 4], [2, 6, 8]),
        (view_outside, [1, 3, 4], [2, 6, 8]),
        (other, [4, 8, 12], [8, 16, 24]),
        (indexed, [6, 2, 5], [12, 4, 10]),
        (masked, [1, 0.5, 0.5], [2, 1, 1]),
        (twice, [2, 20, 6], [4, 0, 12]),
        (detached, [7, 2, 3], [14, 4, 6]),
    ],
)
def test_the_gradient_goes_on_to_what_was_there(
    write: Write, value: list[float], gradient: list[float], read: str
) -> None:
    """Of a computed tensor, and of two that were computed before and after; reads change nothing."""
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = w * 1
    before = b * b
    if read in ("before", "both"):
        b.realize()
    write(b, w)
    if read in ("after", "both"):
        b.realize()
    (b * b).sum().backward()
    assert w.grad is not None
    assert (b.tolist(), w.grad.tolist(), b.requires_grad) == (value, gradient, True)
    w.grad = None
    before.sum().backward()  # PyTorch raises: it has lost the value
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("same", [Tensor.contiguous, Tensor.float, Tensor.dropout, Tensor.__pos__, Tensor.clone])
@pytest.mark.parametrize("realized", [False, True])
def test_a_value_that_is_a_leaf_s(same: Callable[[Tensor], Tensor], realized: bool) -> None:
    """What a method gives that has nothing to do is a value of its own, whose gradient goes to the leaf."""
    for part in (False, True):
        w = Tensor([1.0, 2.0], requires_grad=True)
        if realized:
            w.realize()
        t = same(w)
        with Tensor.no_grad():
            if part:
                t[0] = 5.0
            else:
                t *= 2
        (t * t).sum().backward()
        assert w.grad is not None
        assert (t.tolist(), w.tolist()) == ([5.0, 2.0] if part else [2.0, 4.0], [1.0, 2.0])
        assert w.grad.tolist() == ([10.0, 4.0] if part else [4.0, 8.0])


@pytest.mark.parametrize("read", READS)
def test_leaves_and_constants_stay_what_they_are(read: str) -> None:
    """A parameter, a tensor that asks for nothing, and one whose gradient came with a write."""
    w, c = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([1.0, 1.0, 1.0])
    mixed = Tensor([0.0, 0.0, 0.0])
    mixed[1] = w[1] * 2
    if read in ("before", "both"):
        Tensor.realize(c, mixed)
    with Tensor.no_grad():
        w[0] = 4.0
        w *= 2
        c[1:] = w[1:]
        mixed += 1
    if read in ("after", "both"):
        Tensor.realize(w, c, mixed)
    (w * c * mixed).sum().backward()
    assert w.grad is not None
    assert (w.tolist(), c.tolist(), mixed.tolist()) == ([8.0, 4.0, 6.0], [1.0, 4.0, 6.0], [1.0, 5.0, 1.0])
    assert w.grad.tolist() == [1.0, 52.0, 6.0]  # c * mixed, and where mixed came from w, 2 * w * c
    assert (c.grad, mixed.grad) == (None, None)


def test_a_long_loop_of_averages_keeps_nothing() -> None:
    """What asks for no gradient is a constant: no chain of its old values, and backward through it is right."""
    w, average = Tensor([1.0, 2.0], requires_grad=True), Tensor([0.0, 0.0]).contiguous().realize()
    for _ in range(300):
        with Tensor.no_grad():
            average.assign(average * 0.5 + w * 0.5).realize()
    (w * average).sum().backward()
    assert w.grad is not None
    assert (w.grad - average).abs().max().item() == 0


def test_views_in_a_block_share_memory() -> None:
    """A write that reads another part of its memory arrives there, whether or not anything asks for a gradient."""
    for flag, read in itertools.product((None, False, True), (False, True)):
        c = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=flag)
        if read:
            c.realize()
        with Tensor.no_grad():
            c[:1] = c[-1:] * 2
            view = c.T
            view[0, 1] = 9.0
        assert (c.tolist(), view.tolist()) == ([[6.0, 8.0], [9.0, 4.0]], [[6.0, 9.0], [8.0, 4.0]])


def test_under_tinyjit_checkpoint_and_in_a_second_derivative() -> None:
    """The write is part of what is captured and computed again."""

    def block(x: Tensor) -> Tensor:
        y = x * x
        with Tensor.no_grad():
            y[0] = 5.0
            y *= 2
        return y * y

    for run in (block, checkpoint(block)):
        w = Tensor([1.0, 2.0], requires_grad=True)
        first = run(w).sum().gradient(w)[0]  # 2 y' * 2 x, with y' as it is now
        assert first.tolist() == [40.0, 64.0]
        assert first.sum().gradient(w)[0].tolist() == [48.0, 64.0]

        def step(x: Tensor, run: Any = run, w: Tensor = w) -> tuple[Tensor, Tensor]:
            w.grad = None
            y = run(w * x)
            y.sum().backward()
            assert w.grad is not None
            return y.realize(), w.grad.realize()

        call = TinyJit(step)
        for scale in (1.0, 2.0, 3.0, 4.0):
            y, gradient = call(Tensor([scale, scale]).realize())
            s = scale * scale
            assert (y.tolist(), gradient.tolist()) == ([100.0, 64 * s * s], [40 * s, 64 * s * s])
        assert call.captured == 1


def test_a_step_by_hand_of_a_model() -> None:
    """As programs from PyTorch do it: clamp an activation, step, and scale a part of the weights in place."""
    layer = nn.Linear(2, 1, bias=False)
    layer.weight = Tensor([[1.0, -2.0]], requires_grad=True)
    x = Tensor([[1.0, 3.0]])
    for _ in range(2):
        layer.weight.grad = None
        hidden = layer(x)
        with Tensor.no_grad():
            hidden[hidden < -4] = -4.0
        (hidden * hidden).sum().backward()
        with Tensor.no_grad():
            assert layer.weight.grad is not None
            layer.weight -= 0.125 * layer.weight.grad
            layer.weight[:, 1:] *= 0.5
    assert (layer.weight.tolist(), layer.weight.requires_grad) == ([[1.125, -1.0625]], True)
