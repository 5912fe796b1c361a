"""The losses of 20 training steps of the digits CNN in PyTorch, from weights and batches that numpy makes.

`weights()` and `batches()` need no PyTorch: a test starts tinygraft from the same numbers and compares the losses with
those in torch_trajectory.json, which `python tests/support/torch_trajectory.py` (with torch) writes again.
numpy's RandomState is used because its numbers are the same in every version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

STEPS, BATCH, RATE = 20, 64, 3e-3
STORED = Path(__file__).with_suffix(".json")

SHAPES = {
    "conv1.weight": (16, 1, 3, 3),
    "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3),
    "conv2.bias": (32,),
    "linear.weight": (10, 512),
    "linear.bias": (10,),
}


def weights() -> dict[str, Any]:
    """The first value of each convolution and of the linear layer, float32: uniform in +-1/sqrt(fan in)."""
    random = np.random.RandomState(0)
    found = {}
    for name, shape in SHAPES.items():
        fan_in = np.prod(SHAPES[name.replace("bias", "weight")][1:])
        found[name] = ((random.random_sample(shape) * 2 - 1) / np.sqrt(fan_in)).astype(np.float32)
    return found


def batches() -> Iterator[tuple[Any, Any]]:
    """(images (64, 1, 8, 8) float32, labels (64,) int32) for each of the 20 steps."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x_train, _, y_train, _ = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    order = np.random.RandomState(1).permutation(len(x_train))
    for step in range(STEPS):
        chosen = order[step * BATCH : (step + 1) * BATCH]
        yield (
            (x_train[chosen] / 16).reshape(-1, 1, 8, 8).astype(np.float32),
            y_train[chosen].astype(np.int32),
        )


def stored_losses() -> list[float]:
    """The losses that PyTorch had."""
    return json.loads(STORED.read_text())["losses"]  # type: ignore[no-any-return]


def torch_losses() -> list[float]:
    """Train in PyTorch, dropout off; the loss before each step."""
    import torch
    from torch import nn

    conv1, norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
    conv2, norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
    linear = nn.Linear(512, 10)
    model = nn.Sequential(conv1, norm1, nn.ReLU(), conv2, norm2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    layers = {"conv1": conv1, "conv2": conv2, "linear": linear}
    with torch.no_grad():
        for name, value in weights().items():
            layer, kind = name.split(".")
            getattr(layers[layer], kind).copy_(torch.from_numpy(value))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    losses = []
    for images, labels in batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    about = f"{STEPS} steps, batch {BATCH}, Adam lr {RATE}, torch {torch.__version__} on the CPU"
    STORED.write_text(json.dumps({"about": about, "losses": torch_losses()}, indent=1) + "\n")
    print(STORED.read_text())
