"""Gradients that need no further work, as those that are means over all ranks: until backward adds to one."""

from __future__ import annotations

from weakref import WeakValueDictionary

from tinygraft.tensor.primitives.base import TensorBase

_settled: WeakValueDictionary[int, TensorBase] = WeakValueDictionary()  # by id: == of tensors is a tensor


def settle(grad: TensorBase) -> None:
    """Note that a gradient needs no further work."""
    _settled[id(grad)] = grad


def is_settled(grad: TensorBase) -> bool:
    """Return whether a gradient needs no further work: nothing was added to it since that was noted."""
    return _settled.get(id(grad)) is grad


def unsettle(grad: TensorBase) -> None:
    """Note that a gradient was added to."""
    if _settled:
        _settled.pop(id(grad), None)
