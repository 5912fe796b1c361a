"""Blocks in which nothing asks for a gradient: `with Tensor.no_grad(): ...`, for programs written for PyTorch.

Whether this thread is in one is asked whenever a tensor is computed, so most of the cost is one look at a number.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator

from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class _Here(threading.local):
    depth = 0


_here = _Here()
_lock = threading.Lock()
blocks = 0  # that are open in all threads


class NoGrad(ContextDecorator):
    """A block or a function whose results are constants to every gradient."""

    def __enter__(self) -> None:
        global blocks
        with _lock:
            blocks += 1
        _here.depth += 1

    def __exit__(self, *_: object) -> None:
        global blocks
        _here.depth -= 1  # first: a signal may end this at any call, and the number below only saves time
        with _lock:
            blocks -= 1


def is_quiet() -> bool:
    """Whether this thread is in such a block."""
    return _here.depth > 0


def cut(node: UOp) -> UOp:
    """A node of a result: what no gradient goes through."""
    return UOp(Ops.DETACH, node.dtype, (node,)) if node.dtype.kind == "float" and node.op is not Ops.DETACH else node
