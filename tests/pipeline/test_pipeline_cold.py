"""What a first step costs, in counts that are the same on every machine: kernels compiled, nodes made, calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, nn
from tinygraft.engine import compile as compiling
from tinygraft.engine import plan
from tinygraft.uop.uop import nodes_made


@pytest.fixture(autouse=True)
def cold(tmp_path) -> Iterator[None]:
    """Each test starts without plans and kernels, in memory and on disk; checks of each node are left out."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1, SPEC=0):
        forget()
        yield
        forget()


def forget() -> None:
    """Drop plans and kernels from memory."""
    plan.clear()
    compiling.clear()


def compiled_and_made(run: Callable[[], object]) -> tuple[int, int]:
    """How many kernels a first call of `run` compiles, and how many nodes it makes."""
    forget()
    before = GlobalCounters.kernels_compiled, nodes_made()
    run()
    return GlobalCounters.kernels_compiled - before[0], nodes_made() - before[1]


def back_through(count: int) -> None:
    """Go backward through so many operations, one after another."""
    x = Tensor.empty(2).realize().requires_grad_()
    y = x
    for _ in range(count):
        y = y.sin()
    y.sum().backward()
    assert x.grad is not None
    x.grad.realize()


def calls_made(run: Callable[[], object]) -> int:
    """How many functions of Python are called in `run`: what its time is made of."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    forget()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
def test_backward_through_a_chain_costs_its_length() -> None:
    """Backward through 200 operations makes twice the nodes and calls that 100 need, and compiles as many kernels."""
    with Context(DEV="NULL"):
        back_through(3)  # what is made once in a process
        compiled, made = zip(*[compiled_and_made(lambda n=n: back_through(n)) for n in (100, 200)], strict=True)
        assert made[1] < 2.2 * made[0], made
        assert compiled[1] <= compiled[0] + 2, compiled
        called = [calls_made(lambda n=n: back_through(n)) for n in (100, 200)]
    assert called[1] < 2.3 * called[0], called


def recurrent(steps: int) -> None:
    """A training step of an LSTM over so many steps."""
    model = nn.LSTM(8, 16)
    optimizer = nn.optim.Adam(nn.state.get_parameters(model))
    x = Tensor.empty(steps, 4, 8).realize()
    Tensor.realize(*nn.state.get_parameters(model))
    with Tensor.train():
        output, _ = model(x)
        (output * output).mean().backward()
        optimizer.step()


@pytest.mark.slow
def test_steps_of_a_recurrent_layer_compile_as_one() -> None:
    """A training step of 32 LSTM steps compiles no more kernels than one of 16: equal cells are one form."""
    with Context(DEV="NULL"):
        recurrent(2)
        few, _ = compiled_and_made(lambda: recurrent(16))
        many, _ = compiled_and_made(lambda: recurrent(32))
    assert many <= few + 2, (few, many)
    assert many < 70


class Block:
    """Attention and a perceptron, each with a norm before it."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it to (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, dim=-1)
        q, k, v = [part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts]
        attended = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.up(self.second(x)).gelu())


class CharGPT:
    """A small language model of characters."""

    def __init__(self, layers: int, width: int = 64, length: int = 64) -> None:
        self.letters, self.places = nn.Embedding(65, width), nn.Embedding(length, width)
        self.blocks = [Block(width, 4) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 65, bias=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Return scores of the next letter, for letters (batch, length)."""
        y = self.letters(x) + self.places(Tensor.arange(x.shape[1]))
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y))


def language_step(layers: int) -> None:
    """The first training step of a language model, weights included."""
    model = CharGPT(layers)
    optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=3e-4)
    x, y = Tensor.zeros(4, 64, dtype="int32"), Tensor.zeros(4, 64, dtype="int32")
    with Tensor.train():
        model(x.contiguous()).sparse_categorical_crossentropy(y.contiguous()).backward()
        optimizer.step()


@pytest.mark.slow
def test_layers_of_a_language_model_compile_as_one() -> None:
    """The first step with four layers compiles hardly more kernels than with two, and makes few nodes for each more."""
    with Context(DEV="NULL"):
        language_step(1)
        two, made_two = compiled_and_made(lambda: language_step(2))
        four, made_four = compiled_and_made(lambda: language_step(4))
    assert four <= two + 4, (two, four)
    assert two < 110, two
    assert made_four < 1.6 * made_two, (made_two, made_four)


def test_svd_is_one_routine() -> None:
    """The first svd of a matrix compiles next to nothing: it is a routine, not 700 kernels."""
    with Context(DEV="CPU"):
        x = Tensor(np.eye(8, dtype=np.float32)).realize()
        compiled, made = compiled_and_made(lambda: x.svd()[1].numpy())
    assert compiled <= 2
    assert made < 200


def test_an_unrolled_loop_comes_from_the_disk() -> None:
    """A plan whose steps have numbers of their own is read again by a later process, which compiles nothing."""
    data = np.arange(48, dtype=np.float32).reshape(8, 6)

    def looped() -> np.ndarray:
        x = Tensor(data).realize()
        y = x[0] * 0
        for i in range(8):
            y = ((y + x[i]).cumsum(axis=0) * 0.5).contiguous()
        return y.numpy()

    with Context(DEV="CPU"):
        want = looped()
        steps = [step for made in plan._plans.values() for step in made.steps if step.kernel is not None]
        assert any("=" in name for step in steps for name in step.kernel.signature.variables)
        compiled, _ = compiled_and_made(lambda: np.testing.assert_array_equal(looped(), want))
        plan.clear()
        np.testing.assert_array_equal(looped(), want)  # programs that are still loaded
    assert compiled == 0
