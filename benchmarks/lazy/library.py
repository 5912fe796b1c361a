"""The library that this process measures: tinygraft, or tinygrad where BENCHMARK says so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("BENCHMARK", "tinygraft") == "tinygraft":
    from tinygraft import Context, Device, Tensor, TinyJit, Variable, dtypes, nn
else:
    from tinygrad import Context, Device, Tensor, TinyJit, Variable, dtypes, nn

from benchmarks.data import Weights

__all__ = ["Context", "Device", "Tensor", "TinyJit", "Variable", "dtypes", "load", "nn", "wait"]


def wait() -> None:
    """Return when everything that was launched has finished."""
    Device[Device.DEFAULT].synchronize()


def load(model: object, weights: Weights) -> None:
    """Give a model its weights, one after the other."""
    tensors = nn.state.get_state_dict(model)
    for name, array in weights:
        tensors[name].replace(Tensor(array).realize())
