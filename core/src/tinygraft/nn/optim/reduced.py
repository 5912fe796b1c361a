"""Which gradients are the means over all ranks already: those that nn.parallel reduced, and what is made of them.

A gradient that backward has added to is another tensor, so it is reduced with the next step.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from tinygraft.tensor.tensor import Tensor

_reduced: WeakValueDictionary[int, Tensor] = WeakValueDictionary()  # by id


def mark_reduced(grad: Tensor) -> Tensor:
    """Note that a gradient is the same on all ranks, and return it."""
    _reduced[id(grad)] = grad
    return grad


def is_reduced(grad: Tensor) -> bool:
    """Return whether a gradient is known to be the same on all ranks."""
    return _reduced.get(id(grad)) is grad


def as_reduced(grad: Tensor, new: Tensor) -> Tensor:
    """Return `new`, made of `grad` and what all ranks have alike, such as a clipped one; reduced where that is."""
    return mark_reduced(new) if is_reduced(grad) else new
