"""First values of parameters and of other tensors that a layer or an optimizer keeps.

Each is memory of its own. `Tensor.zeros(3).contiguous()` is not: equal graphs are one node, so two such tensors would
start as one buffer, and a captured step could not write into it in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.tensor.tensor import Tensor


def uniform(bound: float, shape: Sequence[int]) -> Tensor:
    """Return a float tensor drawn uniformly from [-bound, bound)."""
    return Tensor.uniform(*shape, low=-bound, high=bound)


def filled(shape: Sequence[int], value: float, **kwargs: Any) -> Tensor:
    """Return a tensor with `value` everywhere, in memory of its own. kwargs are dtype, device and requires_grad."""
    return Tensor.empty(*shape, **kwargs).assign(value)
