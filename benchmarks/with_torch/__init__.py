"""The items for PyTorch, eager. Inference is without gradients; a step of training reads its loss."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.case import Builder
from benchmarks.with_torch import convnet, gpt2, ops, resnet

ITEMS: dict[str, Builder] = ops.ITEMS | convnet.ITEMS | resnet.ITEMS | gpt2.ITEMS


def facts() -> dict[str, Any]:
    """Version and threads."""
    return {"version": torch.__version__, "threads": torch.get_num_threads()}
