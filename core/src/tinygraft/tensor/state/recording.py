"""What a method does beside its graph, while a template of it is recorded (templates.py): it may not be left out.

`impure()`: it looks at values of its own, writes or warns. `again(check, tensors, ...)`: it checks values of its
operands, which is done in each repeated call. `named(node, method)`: a node has a name in messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class Recording:
    """A call that is being recorded: whether it did nothing but what is here and build a graph.

    `checks` are functions with the nodes of their tensors, which come first, and their other arguments; `names` the
    nodes that were named.
    """

    __slots__ = ("checks", "is_pure", "names")

    def __init__(self) -> None:
        self.is_pure = True
        self.checks: list[tuple[Callable[..., Any], list[UOp], tuple[Any, ...]]] = []
        self.names: list[tuple[UOp, str]] = []


class _OpenRecordings(threading.local):
    """The calls that this thread is recording, the innermost last."""

    open: tuple[Recording, ...] = ()


here = _OpenRecordings()


def impure() -> None:
    """Note that a method does more than a recording has: each call has to run it."""
    for recording in here.open:
        recording.is_pure = False


def named(node: UOp, method: str) -> None:
    """Note that a method names a node in messages."""
    for recording in here.open:
        recording.names.append((node, method))


def again(check: Callable[..., Any], tensors: Sequence[Any], *rest: Any) -> bool:
    """Note that `check(*tensors, *rest)` looks at values of its last tensor, if a call is recorded.

    Returns whether that is so, and there is nothing to look at: the tensor is a stand-in.
    """
    if not here.open or memory_base(tensors[-1].uop).op is not Ops.PLACEHOLDER:
        return False
    here.open[-1].checks.append((check, [tensor.uop for tensor in tensors], rest))
    return True
