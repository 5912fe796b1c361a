"""The items for PyTorch, eager, or under torch.compile what it is for: networks and chains of operations.

Inference is without gradients; a step of training reads its loss.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.case import Builder
from benchmarks.with_torch import convnet, gpt2, ops, policy, resnet

TO_COMPILE = ("chain", "softmax", "layernorm", "resnet18", "mnist_train", "gpt2", "gpt2_train")
EVERY: dict[str, Builder] = ops.ITEMS | convnet.ITEMS | resnet.ITEMS | gpt2.ITEMS | policy.ITEMS
ITEMS = {kind: make for kind, make in EVERY.items() if kind in TO_COMPILE or not ops.COMPILED}


def facts() -> dict[str, Any]:
    """Version and threads."""
    return {"version": torch.__version__, "threads": torch.get_num_threads()}
