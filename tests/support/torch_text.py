"""The losses of 8 training steps of the language models of examples/ in PyTorch, from weights that numpy makes.

`first_values(state)` needs no PyTorch: a test starts tinygraft from the same numbers and compares its losses with those
in torch_text.json, which `python tests/support/torch_text.py` (with torch) writes again. numpy's RandomState is
used because its numbers are the same in every version; the batches are those of the examples.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 8
STORED = Path(__file__).with_suffix(".json")
EXAMPLES = Path(__file__).parents[2] / "examples"
GPT_ARGUMENTS = ["--steps", "20", "--batch", "16", "--context", "24"]  # 20 steps of the schedule: two of warm-up
LSTM_ARGUMENTS = ["--batch", "8", "--length", "6"]


def first_values(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """A first value for each parameter by name, float32: small numbers, and those around 1 that scale a norm."""
    random = np.random.RandomState(0)
    found = {}
    for name in sorted(shapes):
        value = random.random_sample(shapes[name]) * 0.2 - 0.1
        found[name] = (value + ("norm" in name and name.endswith("weight"))).astype(np.float32)
    return found


def stored_losses(model: str) -> list[float]:
    """The losses that PyTorch had, of "gpt" or "lstm"."""
    return json.loads(STORED.read_text())[model]  # type: ignore[no-any-return]


def _start(model: Any) -> None:
    """Give a module of PyTorch its first values."""
    import torch

    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    values = {name: torch.from_numpy(value) for name, value in first_values(shapes).items()}
    model.load_state_dict(values)


def _gpt(size: int, context: int, width: int = 128, heads: int = 4, layers: int = 2) -> Any:
    """The model of char_gpt.py as a module of PyTorch, with its names."""
    from torch import arange, nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            rows, length, _ = x.shape
            parts = self.attend(self.norm1(x)).view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).flatten(2))
            return x + self.contract(functional.gelu(self.expand(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters, self.places = nn.Embedding(size, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, size, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.characters(x) + self.places(arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.scores(self.norm(x))

    return GPT()


def _lstm(size: int, width: int = 64, hidden: int = 128) -> Any:
    """The layers of char_lstm.py in PyTorch, by its names."""
    from torch import nn

    model = nn.Module()
    model.characters = nn.Embedding(size, width)
    model.lstm = nn.LSTM(width, hidden, batch_first=True)
    model.scores = nn.Linear(hidden, size)
    return model


def _gpt_losses() -> list[float]:
    """The loss of each step of char_gpt.py in PyTorch."""
    import torch
    from char_gpt import Training, arguments
    from char_text import load

    args, text = arguments(GPT_ARGUMENTS), load()
    ours, model = Training(text, 0, args), _gpt(len(text.characters), args.context)
    _start(model)
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer, rates = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.99)), torch.optim.lr_scheduler
    warm_up, fall = (
        rates.LinearLR(optimizer, 1 / 2, total_iters=2),
        rates.CosineAnnealingLR(optimizer, 18, args.lr / 10),
    )
    schedule = rates.SequentialLR(optimizer, [warm_up, fall], milestones=[2])
    losses = []
    for number in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for rows in torch.from_numpy(ours.batch(number)).long():
            loss = torch.nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            (loss / args.parts).backward()
            total += loss.item() / args.parts
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(total)
    return losses


def _lstm_losses() -> list[float]:
    """The loss of each step of char_lstm.py in PyTorch."""
    import torch
    from char_lstm import Training, arguments
    from char_text import load

    args, text = arguments(LSTM_ARGUMENTS), load()
    ours, model, losses = Training(text, 0, args), _lstm(len(text.characters)), []
    _start(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    state = (torch.zeros(1, args.batch, 128), torch.zeros(1, args.batch, 128))
    for number in range(STEPS):
        rows = torch.from_numpy(ours.rows(text.train, number)).long()
        optimizer.zero_grad()
        output, state = model.lstm(model.characters(rows[:, :-1]), state)
        state = tuple(part.detach() for part in state)
        loss = torch.nn.functional.cross_entropy(model.scores(output).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    """Write torch_text.json."""
    import torch

    sys.path.insert(0, str(EXAMPLES))
    about = f"{STEPS} steps of char_gpt.py and char_lstm.py, torch {torch.__version__} on the CPU"
    result = {"about": about, "gpt": _gpt_losses(), "lstm": _lstm_losses()}
    STORED.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
