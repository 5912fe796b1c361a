"""The tensors from outside whose values a captured call reads, and whether one of them has another value by now.

A replay reads the memory that these tensors had when the call was captured. A write goes into that memory; but a tensor
that keeps an old value, was lazy, or gets another node or flag is another one for the function, run again.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tinygraft.engine.capture import Capture, note_pinned
from tinygraft.tensor.state.storage import SharedStorage
from tinygraft.uop.held import PLAIN, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort

NodeForm = tuple[tuple[Any, ...], ...]  # the steps from memory to a tensor: (op, dtype, arg, tag), or (op, dtype, ids)


@dataclass(slots=True)
class OutsideTensor:
    """A tensor or storage, weakly, with its node, the form of that, the ids of its memory, and its flag.

    A lazy one, whose value was computed on the way, has no form and no memory.
    """

    holder: weakref.ref[Any]
    node: weakref.ref[UOp]
    form: NodeForm | None
    memory: tuple[int, ...]
    requires_grad: bool | None

    def has_moved(self, holder: Any) -> bool:
        """Return whether `holder`, the tensor or storage, has another value or flag than when the call was captured.

        A write that another thread has asked for is done first. Elements of a view may have been cached meanwhile, or
        are not any more: it is the same view of its storage.
        """
        if holder.requires_grad is not self.requires_grad:
            return True
        if (now := holder.uop) is self.node():
            return False
        if _base_of(now).op is Ops.ASSIGN:
            holder.settle() if isinstance(holder, SharedStorage) else holder.realize()
            now = holder.uop
        if self.form is None or self.form not in (_form_of(now), _form_in_storage(holder)):
            return True
        self.node = weakref.ref(now)
        return False


class OutsideTensors:
    """The tensors and storages that a captured call may have read from outside."""

    def __init__(self, all_: Sequence[OutsideTensor] = ()) -> None:
        self._all = list(all_)
        self._refs = [(one.holder, one.node, one.requires_grad) for one in all_]  # for the loop of each replay

    @classmethod
    def of(cls, capture: Capture, outside: Set[int], results: Iterable[UOp], more: Collection[int]) -> OutsideTensors:
        """Return those that existed before the call and that it may have read.

        They are over BUFFERs with ids in `outside`, or lazy: computed on the way, or in the graphs of `results`. Those
        with a Python id in `more` are among them, too.
        """
        found, lazy = [], set(toposort(*results)) if (results := list(results)) else set[UOp]()
        for key, (ref, _) in capture.existing.items():
            if (holder := ref()) is None:
                continue
            node = holder.uop
            memory = _memory_of(node)
            is_lazy = not memory and (key in capture.pinned or node in lazy)
            if is_lazy or key in more or not outside.isdisjoint(memory):
                form = _form_of(node) if memory else None
                found.append(OutsideTensor(ref, weakref.ref(node), form, memory, holder.requires_grad))
        return cls(found)

    def have_moved(self) -> bool:
        """Return whether one of them has another value or flag than when the call was captured.

        So it is where the last tensor over some of the memory is gone: the function cannot reach that any more.
        """
        for holder_ref, node, requires_grad in self._refs:
            holder = holder_ref()
            if holder is None or holder._node is not node() or holder._requires_grad is not requires_grad:
                return self._look()
        return False

    def _look(self) -> bool:
        """Return what `have_moved` does, where a tensor is gone or has another node or flag.

        The tensors that are gone are dropped. So it is where memory of theirs is that of no other tensor here.
        """
        left = [one for one in self._all if one.holder() is not None]
        if any(one.has_moved(holder) for one in left if (holder := one.holder()) is not None):
            return True
        before, now = ({uid for one in all_ for uid in one.memory} for all_ in (self._all, left))
        self.__init__(left)  # type: ignore[misc]
        return before != now

    def note(self) -> None:
        """Record in the captures of this thread that a replay has read the lazy ones."""
        note_pinned([holder for one in self._all if not one.memory and (holder := one.holder()) is not None])


def _form_of(node: UOp) -> NodeForm:
    """Return the steps from the memory, which has the ids of its BUFFERs, to `node`."""
    form = []
    while node.op not in (Ops.BUFFER, Ops.MULTI):
        form.append((node.op, node.dtype, node.arg, node.tag, node.src[1:]))
        if not node.src:
            break
        node = node.src[0]
    return (*form, (node.op, node.dtype, tuple([buffer.arg.uid for buffer in buffers_of(node)])))


def _form_in_storage(holder: Any) -> NodeForm | None:
    """Return the form that a tensor has as a view of its storage, whether its elements are cached or not."""
    if isinstance(holder, SharedStorage) or (storage := holder._storage) is None:
        return None
    steps = tuple([(op, dtype, arg, tag, sizes) for op, dtype, sizes, arg, tag in reversed(holder._chain)])
    return steps + _form_of(storage.uop)


def _memory_of(node: UOp) -> tuple[int, ...]:
    """Return the ids of the BUFFERs of the value that `node` is, or is a view of; none where that is no memory."""
    return tuple([buffer.arg.uid for buffer in buffers_of(_base_of(node))])


def _base_of(node: UOp) -> UOp:
    """Return the node of the whole value that `node` is, or is a view of."""
    base = node.base
    while base.op in PLAIN:
        base = base.src[0].base
    return base
