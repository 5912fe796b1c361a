"""Neural networks: layers, optimizers (nn.optim), weights by name (nn.state) and data sets (nn.datasets).

A model is any Python object; there is no base class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinygraft.nn import datasets, optim, state
from tinygraft.nn.conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from tinygraft.nn.dense import Embedding, Linear, LSTMCell
from tinygraft.nn.norm import (
    BatchNorm,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from tinygraft.nn.precision import autocast

__all__ = [
    "BatchNorm", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d",
    "Embedding", "GroupNorm", "InstanceNorm", "LSTMCell", "LayerNorm", "LayerNorm2d", "Linear", "RMSNorm",
    "autocast", "datasets", "optim", "state",
]  # fmt: skip

_INSTEAD = {  # what other libraries have in their nn, and what is done here
    "Module": "a model is any object: give it __call__; nn.state.get_parameters(model) finds its tensors",
    "Parameter": "any tensor in a model is one; requires_grad=False leaves it out",
    "functional": "what it has are methods of Tensor",
    "Sequential": "x.sequential([first, second]) calls one after the other",
    "ModuleList": "a list will do",
    "utils": "gradients are tensors: change t.grad between backward() and step()",
    "init": "weights are made by Tensor.kaiming_uniform, glorot_uniform, normal and the like",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        """Say where a name that people look for here is to be found."""
        raise AttributeError(f"module 'tinygraft.nn' has no attribute {name!r}{_elsewhere(name)}")


def _elsewhere(name: str) -> str:
    """Return what to use in place of a layer without weights, as a hint: a method of Tensor."""
    from tinygraft.tensor.tensor import Tensor

    if name in _INSTEAD:
        return f"\n  hint: {_INSTEAD[name]}"
    wanted = name.lower()
    methods = {method.replace("_", ""): method for method in dir(Tensor) if not method.startswith("_")}
    found = methods.get(wanted) or methods.get(wanted.removesuffix("loss"))
    return f"\n  hint: it has no weights, and is Tensor.{found} here" if found and not name.islower() else ""
