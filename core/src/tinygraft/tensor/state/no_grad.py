"""Blocks in which no result requires a gradient: `with Tensor.no_grad(): ...`, for programs written for PyTorch.

Every method that makes a tensor checks whether its thread is in such a block, so the check is one look at a list.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any, TypeVar
from weakref import ReferenceType, ref

from tinygraft.engine import tape
from tinygraft.errors import SettingWarning
from tinygraft.helpers import warn_user
from tinygraft.tensor.state.leaf_nodes import by_itself
from tinygraft.tensor.state.live import LIVE
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.ops import FunctionArg, Ops
from tinygraft.uop.uop import UOp

F = TypeVar("F", bound=Callable[..., Any])


class _Here(threading.local):
    """The blocks of one thread."""

    def __init__(self) -> None:
        self.blocks: list[ReferenceType[NoGrad]] = []


here: _Here = _Here()  # here.blocks: the blocks that this thread is in


class NoGrad(ContextDecorator):
    """A block or a function whose results are constants to every gradient.

    The thread refers to it weakly, so that a block whose object is gone is over: a signal may end `__exit__` before
    its first line, and then nothing else would end the block. The traceback of the signal's error keeps the object
    until the error has been handled.
    """

    _is_used = False  # whether it was entered, or decorates a function

    def _recreate_cm(self) -> NoGrad:
        """Return a new block for each call of a decorated function, as ContextDecorator requires."""
        return NoGrad()

    def __enter__(self) -> None:
        """Begin the block in this thread."""
        self._is_used = True
        here.blocks.append(ref(self))

    def __exit__(self, *_: object) -> None:
        """End the block in this thread."""
        here.blocks.remove(ref(self))

    def __call__(self, func: F) -> F:
        """Return the function with such a block around each call."""
        self._is_used = True
        decorated: F = super().__call__(func)
        return decorated

    def __del__(self) -> None:
        """Say so where it was made for nothing."""
        if not self._is_used and not sys.is_finalizing():
            warn_user(
                "Tensor.no_grad() by itself changes nothing: it is a block\n"
                "  hint: with Tensor.no_grad(): ... around what has no gradient",
                SettingWarning,
            )


def is_quiet() -> bool:
    """Return whether this thread is in such a block. Removes blocks whose objects are gone."""
    if here.blocks and not any(block() for block in here.blocks):
        here.blocks.clear()
    return bool(here.blocks)


def cut(node: UOp) -> UOp:
    """Return the node of a result, detached: no gradient flows through it. What is no float needs no DETACH."""
    return UOp(Ops.DETACH, node.dtype, (node,)) if node.dtype.kind == "float" and node.op is not Ops.DETACH else node


def may_have_gradient(node: UOp, requires_grad: bool | None) -> bool:
    """Return whether a gradient of `node` reaches a tensor with requires_grad=True, perhaps the node's own tensor.

    `requires_grad` is the flag of the node's tensor. Without it, memory has a gradient only where a value that has one
    was written into it, which the tape shows; running averages and caches have none.
    """
    if node.dtype.kind != "float" or requires_grad:
        return node.dtype.kind == "float"
    memory = memory_base(node)
    if memory.op in HELD and not any(tape.origin_of(buffer) is not None for buffer in buffers_of(memory)):
        entry = tape.entry_of(memory)
        return entry is not None and entry.tracked
    return tape.needs_gradient(node, tape.nodes_requiring_grad(LIVE.near(())))


def unrecorded(value: UOp, old: UOp) -> UOp:
    """Return the node that writes `value` in such a block over `old`, which may have a gradient.

    The write is not taped, as in PyTorch: the gradient of the new value goes to the sources of `old`, as if `old` had
    not been overwritten.
    """
    return UOp(Ops.FUNCTION, value.dtype, (by_itself(value), old), _UNRECORDED)


def _to_old(node: UOp, gradient: UOp, numbers: tuple[int, ...]) -> Sequence[UOp | None]:
    """Return the gradient as it is for each source: the rule of the FUNCTION of `unrecorded`."""
    return [gradient for _ in numbers]


_UNRECORDED = FunctionArg("a write in no_grad", _to_old)
