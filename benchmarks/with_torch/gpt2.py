"""GPT-2 small: forward, training step, and decoding one token with a memory of the keys and values before it."""

from __future__ import annotations

from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.data import CONTEXT, HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH
from benchmarks.with_torch.ops import COMPILED, called, read
from benchmarks.with_torch.weights import load


class Attention(nn.Module):
    """Each token looks at itself and those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor | None, place: int) -> Tensor:
        """(N, T, WIDTH) -> the same shape. With a memory x is one token, which is put at its place there."""
        batch, length, _ = x.shape
        qkv = self.c_attn(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if memory is not None:
            memory[:, :, :, place : place + 1, :] = qkv[1:]
            k, v = memory[0, :, :, : place + 1], memory[1, :, :, : place + 1]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=memory is None)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))  # type: ignore[no-any-return]


class MLP(nn.Module):
    """Four times as wide in between."""

    def __init__(self) -> None:
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(..., WIDTH) -> the same shape."""
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each added to what it got."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), MLP()

    def forward(self, x: Tensor, memory: Tensor | None, place: int) -> Tensor:
        """(N, T, WIDTH) -> the same shape."""
        x = x + self.attn(self.ln_1(x), memory, place)
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


class GPT2(nn.Module):
    """Tokens (N, T) -> scores of the token after each (N, T, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, memories: list[Tensor] | None = None, place: int = 0) -> Tensor:
        """The scores; place is where the first token stands."""
        x = self.wte(tokens) + self.wpe.weight[place : place + tokens.shape[1]]
        for layer, block in enumerate(self.h):
            x = block(x, memories[layer] if memories else None, place)
        return F.linear(self.ln_f(x), self.wte.weight)


def model() -> GPT2:
    """GPT-2 with its weights."""
    with torch.device("meta"):
        net = GPT2()
    net.to_empty(device="cpu")
    load(net, data.gpt2())
    return net


def gpt2(batch: int, length: int) -> Case:
    """The scores of all tokens."""
    return called(model(), torch.from_numpy(data.tokens(batch, length)[0]))


def gpt2_train(batch: int, length: int) -> Case:
    """Forward, backward and Adam."""
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0003, fused=True)
    scores = torch.compile(net) if COMPILED else net
    tokens, targets = (torch.from_numpy(array).long() for array in data.tokens(batch, length))

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(scores(tokens).view(-1, VOCABULARY), targets.view(-1))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    return training(step)


def gpt2_decode() -> Case:
    """The scores of the token after one token."""
    net, memories = model(), [torch.from_numpy(data.memory(layer)) for layer in range(LAYERS)]
    token, positions = torch.tensor([[11]]), cycle(POSITIONS)
    return Case(torch.inference_mode()(lambda: net(token, memories, next(positions))), read)


ITEMS: dict[str, Builder] = {"gpt2": gpt2, "gpt2_train": gpt2_train, "gpt2_decode": gpt2_decode}
