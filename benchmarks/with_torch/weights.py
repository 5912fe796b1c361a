"""The weights of a model from arrays of numpy."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.data import Weights


def load(model: nn.Module, weights: Weights) -> None:
    """Give a model its weights, one after the other; it takes the memory of the arrays as its own."""
    places = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, array in weights:
        places[name].data = torch.from_numpy(array)
