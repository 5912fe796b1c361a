"""checkpoint computes again from what the first run read: numbers drawn, indices, masks, state; and writes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, checkpoint, dtypes, jacobian, jvp, value_and_grad, vjp, vmap
from tinygraft.functions import Function

X = np.linspace(0.5, 2, 8).astype(np.float32)
Block = Callable[[Tensor], Tensor]


def same(block: Block) -> Block:
    """In the place of checkpoint."""
    return block


def nested(x: Tensor) -> Tensor:
    """A checkpoint in a checkpoint, both of which draw."""
    inner = checkpoint(lambda z: z.dropout(0.5, training=True) * z)
    result: Tensor = inner(x.dropout(0.3, training=True).exp()).sin()
    return result


class Dropped(Function):
    """A function of one's own that draws in its forward and keeps what it has drawn."""

    def forward(self, x: Tensor) -> Tensor:
        """A mask of two kinds times x."""
        self.mask = (x.rand_like(contiguous=False) < 0.5) * x.ones_like().dropout(0.5, training=True)
        return x * self.mask

    def backward(self, gradient: Tensor) -> Tensor:
        """The mask again."""
        return gradient * self.mask


DRAW: dict[str, Block] = {
    "dropout": lambda x: x.dropout(0.5, training=True),
    "two": lambda x: x.dropout(0.5, training=True).sin().dropout(0.3, training=True),
    "dropout2d": lambda x: x.reshape(2, 2, 1, 2).dropout2d(0.5, training=True).flatten(),
    "alpha": lambda x: x.alpha_dropout(0.5, training=True),
    "rand": lambda x: x * Tensor.rand(*x.shape),
    "late": lambda x: x * Tensor.rand(*x.shape, contiguous=False),
    "randn": lambda x: (x * Tensor.randn(*x.shape)).sin() * Tensor.randn(*x.shape),
    "randint": lambda x: x * Tensor.randint(*x.shape, low=0, high=100),
    "rand_like": lambda x: x * (x.rand_like() < 0.5),
    "bernoulli": lambda x: (Tensor.rand(*x.shape) < 0.5).where(x * x, x.exp()),
    "multinomial": lambda x: x * x.detach().multinomial(x.shape[0], replacement=True),
    "choice": lambda x: x[x.detach().multinomial(x.shape[0])] * x,
    "randperm": lambda x: x[Tensor.randperm(x.shape[0])] * x,
    "nested": nested,
    "function": lambda x: Dropped.apply(x),
}


def trained(block: Block, read: str) -> list[Any]:
    """The value of a block and the gradient of its squares, where one of both is read before backward."""
    Tensor.manual_seed(3)
    w = Tensor(X, requires_grad=True)
    y = block(w)
    late = Tensor.rand(3) if read == "later draw" else None
    loss = (y * y).sum()
    if read in ("value", "draw", "twice"):
        y.realize()
    if read == "loss":
        loss.item()
    if read == "draw":
        Tensor.rand(3).realize()
    if late is not None:
        late.realize()
    loss.backward()
    found = w.grad.tolist()  # type: ignore[union-attr]
    if read == "twice":
        w.grad = None
        loss.backward()
        assert w.grad is not None
        assert w.grad.tolist() == found
    return [y.numpy(), np.array(found), loss.numpy()]


@pytest.mark.parametrize("name", DRAW)
def test_the_gradient_has_the_numbers_of_the_value(name: str) -> None:
    """Whatever is read or drawn before backward, and by a second backward: as without checkpoint and reads."""
    wanted = trained(DRAW[name], "nothing")
    for read in ("nothing", "value", "loss", "draw", "later draw", "twice"):
        for wrap in (same, checkpoint):
            for a, b in zip(trained(wrap(DRAW[name]), read), wanted, strict=True):
                np.testing.assert_allclose(a, b, 1e-5, 1e-6, err_msg=f"{wrap.__name__} {read}")


@pytest.mark.parametrize("name", ["dropout", "two", "randint", "nested"])
@pytest.mark.parametrize("read", ["nothing", "value", "draw"])
def test_each_replay_draws_anew_and_once(name: str, read: str) -> None:
    """Under TinyJit value and gradient have one mask, another one in each call, the same ones as without TinyJit."""

    def run(wrap: Any, jit: bool) -> list[Any]:
        Tensor.manual_seed(5)
        w = Tensor(X, requires_grad=True).realize()

        def step() -> tuple[Tensor, Tensor]:
            w.grad = None
            y = wrap(DRAW[name])(w)
            if read != "nothing":
                y.realize()
            if read == "draw":
                Tensor.rand(3).realize()
            (y * y).sum().backward()
            assert w.grad is not None
            return y.realize(), w.grad.realize()

        call = TinyJit(step) if jit else step
        found = [[t.tolist() for t in call()] for _ in range(4)]
        assert not isinstance(call, TinyJit) or call.captured == 1
        return found

    wanted = run(same, False)
    assert len({str(value) for value, _ in wanted}) > 1
    for wrap, jit in ((same, True), (checkpoint, False), (checkpoint, True)):
        np.testing.assert_allclose(run(wrap, jit), wanted, 1e-5, 1e-6, err_msg=f"{wrap.__name__} {jit}")


@pytest.mark.parametrize("name", ["dropout", "two", "nested"])
def test_transformations_have_one_mask(name: str) -> None:
    """vjp with a value that is read and two pulls, jvp, value_and_grad, jacobian, vmap and its backward."""
    found: list[list[Any]] = []
    for wrap in (same, checkpoint):
        block, ones, results = wrap(DRAW[name]), Tensor.ones(8), []
        Tensor.manual_seed(1)
        value, back = vjp(block, Tensor(X))
        results += [value.numpy(), back(ones)[0].numpy(), back(ones)[0].numpy()]
        Tensor.manual_seed(1)
        results += [t.numpy() for t in jvp(block, (Tensor(X),), (ones,))]
        Tensor.manual_seed(1)
        results += [t.numpy() for t in value_and_grad(lambda x, block=block: block(x).sum())(Tensor(X))]
        Tensor.manual_seed(1)
        results += [jacobian(block)(Tensor(X)).numpy()]
        rows = Tensor(X.reshape(2, 4), requires_grad=True)
        Tensor.manual_seed(1)
        each = vmap(block)(rows)
        results += [each.numpy()]
        each.sum().backward()
        assert rows.grad is not None
        found.append([*results, rows.grad.numpy()])
    np.testing.assert_array_equal(found[1][1], found[1][2])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


@pytest.mark.parametrize("axis", [0, None])
def test_on_several_devices(axis: int | None) -> None:
    """Cut along an axis, or the whole on each."""
    found = []
    for wrap, read in itertools.product((same, checkpoint), (False, True)):
        Tensor.manual_seed(2)
        w = Tensor(X).shard((f"{Tensor(0.0).device}", f"{Tensor(0.0).device}:1"), axis).realize().requires_grad_()
        y = wrap(DRAW["two"])(w)
        if read:
            y.realize()
        (y * y).sum().backward()
        assert w.grad is not None
        found.append([y.tolist(), w.grad.tolist()])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], 1e-5, 1e-6)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("argument", [False, True])
def test_an_index_or_a_mask_may_be_written_over(argument: bool, read: bool) -> None:
    """The gradient is of what was chosen then, not of what would be chosen now."""
    w, index = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([0, 1]).realize()
    mask = Tensor([True, False]).realize()
    if argument:
        y = checkpoint(lambda x, index, mask: mask.where(x[index] * x[index], x[index]))(w, index, mask)
    else:
        y = checkpoint(lambda x: mask.where(x[index] * x[index], x[index]))(w)
    if read:
        y.realize()
    index.assign(Tensor([1, 2])).realize()
    mask[0] = False
    mask.realize()
    (y * y).sum().backward()
    assert w.grad is not None
    assert (y.tolist(), w.grad.tolist()) == ([1.0, 2.0], [4.0, 4.0, 0.0])


def whole(x: Tensor, state: Tensor) -> Tensor:
    """State that is written as a whole, and read."""
    state.assign(state + x.detach())
    return x * state


def part(x: Tensor, state: Tensor) -> Tensor:
    """A part of it, with a gradient."""
    state[1:] = x[:2] * 2
    return x * state


def between(x: Tensor, state: Tensor) -> Tensor:
    """Twice, and read in between."""
    state[:1] += x[:1].detach()
    y = x * state
    state.assign(state * 2)
    return y * state


def through(x: Tensor, state: Tensor) -> Tensor:
    """By a view."""
    view = state[1:]
    view += x[1:].detach()
    return x * state


@pytest.mark.parametrize("write", [whole, part, between, through])
@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("realized", [False, True])
def test_state_is_written_once(write: Callable[[Tensor, Tensor], Tensor], argument: bool, realized: bool) -> None:
    """Value, gradient and state are those of the function, in whatever order they are read."""
    wanted: list[Any] | None = None
    for wrap, order in itertools.product((same, checkpoint), itertools.permutations(range(3))):
        w, state = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([1.0, 2.0, 3.0]) * 1
        if realized:
            state = state.contiguous().realize()
        if argument:
            y = wrap(write)(w, state)  # type: ignore[operator]
        else:
            y = wrap(lambda x, state=state: write(x, state))(w)
        y.sum().backward()
        assert w.grad is not None
        tensors = (y, w.grad, state)
        read = {place: tensors[place].tolist() for place in order}
        found = [read[place] for place in range(3)]
        wanted = wanted or found
        assert found == wanted, (wrap, order)


def test_what_is_read_in_a_block_of_a_block_is_known_there() -> None:
    """Integers and bools too: jvp goes through such blocks, and nothing waits for a gradient that there is not."""
    index = Tensor([1, 0], dtype=dtypes.int32).realize()
    inner = checkpoint(lambda x: x[index].sin())
    outer = checkpoint(lambda x: inner(x * x) * x)
    plain = lambda x: (x * x)[index].sin() * x  # noqa: E731
    x, t = Tensor([1.0, 2.0]), Tensor([1.0, -1.0])
    for found, wanted in zip(jvp(outer, (x,), (t,)), jvp(plain, (x,), (t,)), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-6)
    wide = lambda block: jacobian(lambda x: block(x).reshape(2, 1).expand(2, 3))(x).numpy()  # noqa: E731
    np.testing.assert_allclose(wide(outer), wide(plain), 1e-6)
