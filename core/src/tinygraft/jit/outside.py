"""The tensors from outside whose values a captured call reads, and whether one of them has its value elsewhere by now.

A replay reads the memory that these tensors had when the call was captured. A write goes into that memory; but a tensor
that keeps an old value, was lazy, or gets another node has its value elsewhere afterwards, and the function, run again,
would read it there.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence, Set
from typing import Any

from tinygraft.engine.capture import Capture
from tinygraft.tensor.state.storage import SharedStorage, whole_value
from tinygraft.uop.held import PLAIN, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


class OutsideTensors:
    """The tensors and storages that a captured call may have read from outside, weakly: each with its node and memory.

    A lazy one whose value was computed on the way has no memory.
    """

    def __init__(self, all_: Sequence[tuple[weakref.ref[Any], weakref.ref[UOp], tuple[int, ...]]] = ()) -> None:
        self._all = list(all_)

    @classmethod
    def of(cls, capture: Capture, outside: Set[int]) -> OutsideTensors:
        """Return those that existed before the call and are over BUFFERs with ids in `outside`, or were pinned."""
        found = []
        for key, (ref, _) in capture.existing.items():
            if (holder := ref()) is not None:
                memory = _memory_of(holder.uop)
                if key in capture.pinned or not outside.isdisjoint(memory):
                    found.append((ref, weakref.ref(holder.uop), memory))
        return cls(found)

    def have_moved(self) -> bool:
        """Return whether one of them is over other memory than when the call was captured, or has another expression.

        A write that another thread has asked for is done first.
        """
        for number, (ref, node, memory) in enumerate(self._all):
            holder = ref()
            if holder is None or (now := holder.uop) is node():
                continue
            if _base_of(now).op is Ops.ASSIGN:
                holder.settle() if isinstance(holder, SharedStorage) else holder.realize()
                now = holder.uop
            if not memory or memory != _memory_of(now):
                whole = now if isinstance(holder, SharedStorage) else whole_value(holder)[0]
                if not memory or memory != _memory_of(whole):  # else the elements of a view are cached
                    return True
            self._all[number] = ref, weakref.ref(now), memory
        return False


def _memory_of(node: UOp) -> tuple[int, ...]:
    """Return the ids of the BUFFERs of the value that `node` is, or is a view of; none where that is no memory."""
    return tuple([buffer.arg.uid for buffer in buffers_of(_base_of(node))])


def _base_of(node: UOp) -> UOp:
    """Return the node of the whole value that `node` is, or is a view of."""
    base = node.base
    while base.op in PLAIN:
        base = base.src[0].base
    return base
