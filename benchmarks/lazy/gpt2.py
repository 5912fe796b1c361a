"""GPT-2 small: forward, training step, and decoding one token with a memory of the keys and values before it."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.data import CACHE, CONTEXT, HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH
from benchmarks.lazy.library import Context, Tensor, TinyJit, Variable, load, nn, wait
from benchmarks.lazy.ops import read, replayed


class Attention:
    """Each token looks at itself and those before it."""

    def __init__(self) -> None:
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def __call__(self, x: Tensor, memory: Tensor | None, place: Any) -> Tensor:
        """(N, T, WIDTH) -> the same shape. With a memory x is one token, which is put at its place there."""
        batch, length, _ = x.shape
        qkv = self.c_attn(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        if memory is not None:
            memory[:, :, :, place : place + 1, :] = qkv[1:]
            k, v = memory[0, :, :, : place + 1], memory[1, :, :, : place + 1]
        y = q.scaled_dot_product_attention(k, v, is_causal=memory is None)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class MLP:
    """Four times as wide in between."""

    def __init__(self) -> None:
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., WIDTH) -> the same shape."""
        return self.c_proj(self.c_fc(x).gelu())


class Block:
    """Attention and MLP, each added to what it got."""

    def __init__(self) -> None:
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), MLP()

    def __call__(self, x: Tensor, memory: Tensor | None, place: Any) -> Tensor:
        """(N, T, WIDTH) -> the same shape."""
        x = x + self.attn(self.ln_1(x), memory, place)
        return x + self.mlp(self.ln_2(x))


class GPT2:
    """Tokens (N, T) -> scores of the token after each (N, T, VOCABULARY)."""

    def __init__(self) -> None:
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = [Block() for _ in range(LAYERS)]
        self.ln_f = nn.LayerNorm(WIDTH)

    def __call__(self, tokens: Tensor, memories: list[Tensor] | None = None, place: Any = 0) -> Tensor:
        """The scores; place is where the first token stands."""
        x = self.wte(tokens) + self.wpe.weight[place : place + tokens.shape[1]]
        for layer, block in enumerate(self.h):
            x = block(x, memories[layer] if memories else None, place)
        return self.ln_f(x).linear(self.wte.weight.transpose())


def model() -> GPT2:
    """GPT-2 with its weights."""
    net = GPT2()
    load(net, data.gpt2())
    return net


def gpt2(batch: int, length: int) -> Case:
    """The scores of all tokens."""
    return replayed(model(), Tensor(data.tokens(batch, length)[0]).realize())


def gpt2_train(batch: int, length: int) -> Case:
    """Forward, backward and Adam."""
    net = model()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.0003)
    tokens, targets = (Tensor(array).realize() for array in data.tokens(batch, length))

    @TinyJit
    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = net(tokens).sparse_categorical_crossentropy(targets).backward()
            return loss.realize(*optimizer.schedule_step())

    return training(lambda: step(tokens, targets).item())


def gpt2_decode() -> Case:
    """The scores of the token after one token. Its place is a variable: one capture serves all of them."""
    net, memories = model(), [Tensor(data.memory(layer)).realize() for layer in range(LAYERS)]
    token, variable, positions = Tensor([[11]]).realize(), Variable("place", 1, CACHE - 1), cycle(POSITIONS)
    step: Any = TinyJit(lambda token, place: net(token, memories, place).realize(*memories))

    def compute() -> Tensor:
        scores: Tensor = step(token, variable.bind(next(positions)))
        wait()
        return scores

    return Case(compute, read)


ITEMS: dict[str, Builder] = {"gpt2": gpt2, "gpt2_train": gpt2_train, "gpt2_decode": gpt2_decode}
