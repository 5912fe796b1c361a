"""Which gradients are the means over all ranks already: those that nn.parallel reduced, and what is made of them.

A gradient that backward has added to is not, so it is reduced with the next step. What reads gradients before, to clip
them, calls `reduce_first`: each rank would clip by a norm of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from tinygraft.tensor.state.settled import is_settled, settle
from tinygraft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tinygraft.nn.optim.optimizer import Optimizer

_parallel: list[ReferenceType[Optimizer]] = []  # in the order of the program, which all ranks have alike


def note_parallel(optimizer: Optimizer) -> None:
    """Note that an optimizer reduces its gradients over the ranks."""
    _parallel[:] = [one for one in _parallel if one() is not None]
    _parallel.append(ref(optimizer))


def reduce_first(params: Sequence[Tensor]) -> None:
    """Reduce the gradients of all data parallel optimizers that train some of these tensors, which have gradients."""
    known = {id(p) for p in params}
    for one in _parallel:
        optimizer = one()
        if optimizer is not None and any(id(p) in known for p in optimizer.params):
            optimizer.gradients()


def mark_reduced(grad: Tensor) -> Tensor:
    """Note that a gradient is the same on all ranks, and return it."""
    settle(grad)
    return grad


def is_reduced(grad: Tensor) -> bool:
    """Return whether a gradient is known to be the same on all ranks."""
    return is_settled(grad)


def as_reduced(grad: Tensor, new: Tensor) -> Tensor:
    """Return `new`, made of `grad` and what all ranks have alike, such as a clipped one; reduced where that is."""
    return mark_reduced(new) if is_reduced(grad) else new
