"""Caches of keys and values as scripts of tinygrad fill them: the tokens are those of PyTorch without a cache.

A small transformer with random weights, decoded greedily. Its layers write each token's keys and values into a cache
through a view and realise that, as the gpt2 and llama examples of tinygrad do, or leave that to the end of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, Variable, nn

torch = pytest.importorskip("torch")

VOCAB, LENGTH = 29, 12
PROMPT = [3, 14, 15]


class Sizes:
    """Layers, width, heads and the longest context of a model."""

    def __init__(self, layers: int = 2, width: int = 16, heads: int = 2, context: int = 16) -> None:
        self.layers, self.width, self.heads, self.context = layers, width, heads, context

    def weights(self) -> dict[str, Any]:
        """Random weights by name."""
        rng, d = np.random.default_rng(7), self.width
        shapes = {"embed": (VOCAB, d), "place": (self.context, d), "head": (d, VOCAB)}
        for i in range(self.layers):
            shapes |= {f"{i}.qkv": (d, 3 * d), f"{i}.out": (d, d), f"{i}.up": (d, 2 * d), f"{i}.down": (2 * d, d)}
        return {name: (rng.normal(size=s) * (1 if s[0] == VOCAB else 1.5 * d**-0.5)).astype(np.float32)
                for name, s in shapes.items()}  # fmt: skip


def gpt2(cache: Any, start: Any, keys: Any, values: Any) -> Any:
    """The idiom of the gpt2 example, and of llama before 2025."""
    length = keys.shape[1]
    cache.shrink((None, None, (start, start + length), None, None)).assign(Tensor.stack(keys, values)).realize()
    return cache


def llama(cache: Any, start: Any, keys: Any, values: Any) -> Any:
    """A slice that is assigned to, and realised."""
    cache[:, :, start : start + keys.shape[1]].assign(Tensor.stack(keys, values)).realize()
    return cache


def setitem(cache: Any, start: Any, keys: Any, values: Any) -> Any:
    """Keys and values each at an index, nothing realised."""
    cache[0, :, start : start + keys.shape[1]] = keys
    cache[1, :, start : start + keys.shape[1]] = values
    return cache


def once(cache: Any, start: Any, keys: Any, values: Any) -> Any:
    """One assignment that is realised with all the rest of the step."""
    cache[:, :, start : start + keys.shape[1]].assign(Tensor.stack(keys, values))
    return cache


class Model:
    """The transformer, with a cache for each layer that `write` fills."""

    def __init__(self, write: Callable[..., Any], sizes: Sizes, captured: bool) -> None:
        self.write, self.sizes = write, sizes
        self.weights = {name: Tensor(value).realize() for name, value in sizes.weights().items()}
        head = sizes.width // sizes.heads
        self.caches = [
            Tensor.zeros(2, 1, sizes.context, sizes.heads, head).contiguous().realize() for _ in range(sizes.layers)
        ]
        self.captured = TinyJit(self.forward) if captured else self.forward

    def attend(self, i: int, x: Tensor, start: Any) -> Tensor:
        """Attention of layer i for the tokens from start on."""
        count, heads = x.shape[1], self.sizes.heads
        q, k, v = (x @ self.weights[f"{i}.qkv"]).reshape(1, count, 3, heads, -1).unbind(2)
        cache = self.write(self.caches[i], start, k, v)
        keys, values = (cache[n].shrink((None, (0, start + count), None, None)).transpose(1, 2) for n in (0, 1))
        scores = q.transpose(1, 2) @ keys.transpose(-2, -1) * (self.sizes.width // heads) ** -0.5
        if count > 1:
            scores = scores + Tensor.full((1, 1, count, count), float("-inf")).triu(1)
        return (scores.softmax(-1) @ values).transpose(1, 2).reshape(1, count, -1) @ self.weights[f"{i}.out"]

    def forward(self, tokens: Tensor, start: Any) -> Tensor:
        """The token that follows."""
        count = tokens.shape[1]
        x = self.weights["embed"][tokens] + self.weights["place"].shrink(((start, start + count), None))
        for i in range(self.sizes.layers):
            x = x + self.attend(i, x, start)
            x = (x + (x @ self.weights[f"{i}.up"]).relu() @ self.weights[f"{i}.down"]).contiguous()
        return (x[:, -1] @ self.weights["head"]).argmax(-1).realize()

    def generate(self, prompt: list[int], length: int) -> list[int]:
        """Tokens up to a length: the prompt at once, then one after the other."""
        tokens = [*prompt, int(self.forward(Tensor([prompt]), 0).item())]
        at = Variable("start_pos", 1, self.sizes.context - 1)
        while len(tokens) < length:
            found = self.captured(Tensor([tokens[-1:]]).realize(), at.bind(len(tokens) - 1))
            tokens.append(int(found.item()))
        return tokens


def expected(prompt: list[int], length: int, sizes: Sizes) -> list[int]:
    """The tokens by PyTorch, each from all before it."""
    w = {name: torch.tensor(value) for name, value in sizes.weights().items()}
    tokens = list(prompt)
    while len(tokens) < length:
        n = len(tokens)
        x = w["embed"][tokens] + w["place"][:n]
        for i in range(sizes.layers):
            q, k, v = (x @ w[f"{i}.qkv"]).reshape(n, 3, sizes.heads, -1).permute(1, 2, 0, 3)
            mask = torch.full((n, n), float("-inf")).triu(1)
            scores = q @ k.transpose(-2, -1) * (sizes.width // sizes.heads) ** -0.5 + mask
            x = x + (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1) @ w[f"{i}.out"]
            x = x + (x @ w[f"{i}.up"]).relu() @ w[f"{i}.down"]
        tokens.append(int((x[-1] @ w["head"]).argmax()))
    return tokens


@pytest.mark.parametrize("write", [gpt2, llama, setitem, once])
@pytest.mark.parametrize("captured", [False, True])
def test_the_tokens_are_those_without_a_cache(write: Callable[..., Any], captured: bool) -> None:
    """Eager and captured, for each kind of write; a captured step is replayed."""
    sizes = Sizes()
    wanted = expected(PROMPT, LENGTH, sizes)
    assert len(set(wanted)) > 4
    model = Model(write, sizes, captured)
    assert model.generate(PROMPT, LENGTH) == wanted
    if captured:
        assert model.captured.captured == 1  # type: ignore[attr-defined]
    assert model.generate(PROMPT, LENGTH) == wanted  # over the cache as it was left


class Block:
    """A layer without contiguous(), with a cache of keys and one of values; `how` says what it realises."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        self.width, self.heads = width, heads
        self.norm, self.project, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.keys, self.values = (
            Tensor.zeros(1, heads, context, width // heads).contiguous().realize() for _ in range(2)
        )

    def __call__(self, x: Tensor, at: Any, how: str) -> Tensor:
        """The layer for one token at place `at`."""
        parts = self.project(self.norm(x)).chunk(3, -1)
        q, k, v = (t.reshape(1, 1, self.heads, self.width // self.heads).transpose(1, 2) for t in parts)
        self.keys[:, :, at : at + 1].assign(k)
        self.values[:, :, at : at + 1].assign(v)
        if how == "each":
            self.keys.realize()
            self.values.realize()
        elif how == "block":
            self.keys.realize(self.values)
        seen = q.scaled_dot_product_attention(self.keys[:, :, : at + 1], self.values[:, :, : at + 1])
        return x + self.out(seen.transpose(1, 2).reshape(1, 1, self.width)).gelu()


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("captured", [True, False])
def test_kernels_of_a_step_do_not_depend_on_how_often_caches_are_realised(captured: bool, bound: bool) -> None:
    """In each block, at the end of the step, or never; keys and values together or each; an int or a Variable."""
    counts, results = {}, {}
    for how in ("never", "step", "block", "each"):
        Tensor.manual_seed(0)
        blocks = [Block(16, 2, 8) for _ in range(4)]

        def step(x: Tensor, at: Any, how: str = how, blocks: list[Block] = blocks) -> Tensor:
            for block in blocks:
                x = block(x, at, how)
            return x.realize(*[c for block in blocks for c in (block.keys, block.values)] if how == "step" else [])

        function: Any = TinyJit(step) if captured else step
        place = Variable("place", 1, 7)
        token = Tensor(np.linspace(-1, 1, 16, dtype=np.float32)).reshape(1, 1, 16).realize()
        for at in (1, 2, 3, 4):
            GlobalCounters.reset()
            found = function(token, place.bind(at) if bound else at)
            counts[how], results[how] = GlobalCounters.kernel_count, found.numpy()
    assert len(set(counts.values())) == 1, counts
    for found in results.values():
        np.testing.assert_allclose(found, results["never"], rtol=1e-5, atol=1e-6)


def test_realising_each_write_computes_no_layer_twice() -> None:
    """A replayed step launches what the one that realises once launches, and one product more for each layer.

    The layers end with contiguous(), as those of the examples do. Queries, keys and values are one product, which is
    computed again for the queries; the first layer embeds its token again as well.
    """
    count = []
    for write in (once, gpt2):
        model = Model(write, Sizes(), captured=True)
        model.generate(PROMPT, LENGTH)
        at = Variable("start_pos", 1, 15)
        token = Tensor([[5]]).realize()
        GlobalCounters.reset()
        model.captured(token, at.bind(LENGTH))
        count.append(GlobalCounters.kernel_count)
    assert count[1] <= count[0] + Sizes().layers + 1
