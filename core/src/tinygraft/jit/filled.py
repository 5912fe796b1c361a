"""The grads that a captured call sets on tensors from outside, and that each replay sets again.

A replay writes them into the same memory. A grad that was dropped since the last call is set again itself, where
nothing else has it, so that what adds to it or reads it is replayed too; else, and for one that was replaced, another
one is set over that memory, and other tensors that have the old one read a copy from then on.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import SimpleNamespace

from tinygraft.device.buffer import Buffer, bind
from tinygraft.jit.results import CapturedTensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import LIVE, note_touched
from tinygraft.uop.held import HELD, buffers_of, is_constant, memory_base
from tinygraft.uop.uop import UOp


def _own_references() -> int:
    """Return how many references to a grad there are: by its tensor, by a local variable, and by what counts them."""
    tensor = SimpleNamespace(grad=object())
    grad = tensor.grad
    return sys.getrefcount(grad)


OWN_REFERENCES = _own_references()


@dataclass(frozen=True, slots=True)
class FoundGrad:
    """The grad that a tensor has at some moment: the object, and its value without plain reshapes and the like.

    One that is computed from constants alone has no memory and stays lazy. Where the call drops the object, another
    one of that value, `constant`, is the same to it.
    """

    tensor: weakref.ref[TensorBase]
    grad: weakref.ref[TensorBase]
    value: weakref.ref[UOp]
    uids: tuple[int, ...]  # of its memory, where it is in memory
    is_lazy: bool
    constant: UOp | None = None

    @staticmethod
    def of(tensor: TensorBase, grad: TensorBase) -> FoundGrad:
        """Return the grad that a tensor has now."""
        base, value = grad.uop.base, memory_base(grad.uop)
        uids, is_lazy = tuple([node.arg.uid for node in buffers_of(base)]), base.op not in HELD
        constant = value if is_lazy and is_constant(value) else None
        return FoundGrad(weakref.ref(tensor), weakref.ref(grad), weakref.ref(value), uids, is_lazy, constant)

    def is_there(self) -> bool:
        """Return whether the tensor, if there is one, has this grad, in the same memory or of the same expression."""
        tensor = self.tensor()
        if tensor is None:
            return True
        grad = tensor.grad
        if self.constant is not None:
            return grad is not None and memory_base(grad.uop) is self.constant
        return grad is not None and grad is self.grad() and memory_base(grad.uop) is self.value()

    def is_gone(self) -> bool:
        """Return whether the tensor cannot have it again."""
        if self.tensor() is None or self.constant is not None:
            return False
        return self.grad() is None or self.value() is None


class GradsBefore:
    """The grads that tensors had before a call."""

    def __init__(self, live: Sequence[TensorBase]) -> None:
        """Record the grads of `live`, the tensors before the call."""
        self._had = [(weakref.ref(t), None if t.grad is None else FoundGrad.of(t, t.grad)) for t in live]

    def filled(self) -> list[TensorBase]:
        """Return those of the tensors that have another grad now."""
        now = [(tensor, had) for ref, had in self._had if (tensor := ref()) is not None]
        return [t for t, had in now if t.grad is not None and (had is None or had.grad() is not t.grad)]

    def now(self) -> Iterator[TensorBase]:
        """Yield the grads that the tensors have now."""
        for ref, _ in self._had:
            if (tensor := ref()) is not None and tensor.grad is not None:
                yield tensor.grad

    def are_kept(self, results: Sequence[TensorBase]) -> bool:
        """Return whether a grad that a tensor got in the call is also referred to from elsewhere.

        Not those that are among the `results`.
        """
        returned = set(map(id, results))
        for tensor in self.filled():
            grad = tensor.grad
            if id(grad) not in returned and sys.getrefcount(grad) > OWN_REFERENCES:
                return True
        return False

    def keeps_grads(self, tensors: Sequence[TensorBase]) -> bool:
        """Return whether each of `tensors` has the grad that it had, or none as before."""
        mine = {id(tensor) for tensor in tensors}
        had = [(t, grad) for ref, grad in self._had if (t := ref()) is not None and id(t) in mine]
        return all(t.grad is None if had is None else t.grad is not None and t.grad is had.grad() for t, had in had)

    def states(self, touched: Collection[int], outside: AbstractSet[int]) -> GradStates:
        """Return the states of the grads that the call has set, and of those that are in memory from outside.

        `touched` are the Python ids of tensors whose grad was set in the call, `outside` the ids of the memory.
        """
        empty: list[weakref.ref[TensorBase]] = []
        dropped: list[weakref.ref[TensorBase]] = []
        same: list[FoundGrad] = []
        for ref, had in self._had:
            if (tensor := ref()) is None:
                continue
            now, is_touched = tensor.grad, id(tensor) in touched
            if had is None:
                if is_touched or now is not None:
                    empty.append(ref)
                continue
            if now is None:
                dropped.append(ref)
            is_kept = now is not None and now is had.grad()
            if not outside.isdisjoint(had.uids) or (is_touched if is_kept else had.is_lazy):
                same.append(replace(had, constant=None) if is_kept else had)  # a lazy one may have been read
        return GradStates(empty, dropped, same)


@dataclass(frozen=True, slots=True)
class GradStates:
    """What a captured call found as grads of tensors, and what it left, where a replay does not see it by itself.

    The tensors in `empty` had none when the call began, so that one is added to where a tensor has one. Those in
    `dropped` had one and have none afterwards. Those in `same` had the one that the call has read or written.
    """

    empty: Sequence[weakref.ref[TensorBase]] = ()
    dropped: Sequence[weakref.ref[TensorBase]] = ()
    same: Sequence[FoundGrad] = ()

    @property
    def watches(self) -> bool:
        """Return whether a call could find other grads than these."""
        return bool(self.empty or self.same)

    def hold(self) -> bool:
        """Return whether grads are as the captured call found them, or as it would not notice."""
        for ref in self.empty:
            if (tensor := ref()) is not None and tensor.grad is not None:
                return False
        return all([grad.is_there() for grad in self.same])  # noqa: C419  faster

    def is_expired(self) -> bool:
        """Return whether a grad that the call found and left is gone, so that no call finds it again."""
        return any(grad.is_gone() for grad in self.same)

    def written(self, uids: AbstractSet[int]) -> list[weakref.ref[TensorBase]]:
        """Return the grads that the call has found and written to; `uids` are those of the memory that it writes."""
        return [found.grad for found in self.same if not uids.isdisjoint(found.uids)]

    def drop(self) -> None:
        """Set the grads to None that the captured call has dropped."""
        for ref in self.dropped:
            if (tensor := ref()) is not None and tensor.grad is not None:
                tensor.grad = None

    def note(self) -> None:
        """Record for an outer TinyJit that the call depends on these grads."""
        for ref in (*self.empty, *self.dropped, *[grad.tensor for grad in self.same]):
            if (tensor := ref()) is not None:
                note_touched("grads", tensor)


@dataclass(slots=True)
class LostGrad:
    """The grad of a tensor: itself, its graph over its memory, its value in that, its BUFFERs and their ids.

    The value is the node without plain reshapes and the like, which is the same one after the grad was written to.
    """

    tensor: weakref.ref[TensorBase]
    grad: TensorBase | None
    captured: CapturedTensor
    value: weakref.ref[UOp]
    memory: tuple[weakref.ref[UOp], ...]
    uids: tuple[int, ...]

    @staticmethod
    def of(tensor: TensorBase, grad: TensorBase) -> LostGrad:
        """Return the grad that a tensor has now."""
        buffers = _numbers(grad)
        refs = tuple([weakref.ref(node) for node in buffers])
        uids = tuple([node.arg.uid for node in buffers])
        value = weakref.ref(memory_base(grad.uop))
        return LostGrad(weakref.ref(tensor), grad, CapturedTensor(grad, buffers), value, refs, uids)

    def set_again(self, grad: TensorBase) -> None:
        """Give the tensor another grad, over new BUFFERs of the same memory."""
        if (tensor := self.tensor()) is not None:
            tensor.grad = self.grad = grad
            self.value = weakref.ref(memory_base(grad.uop))
            self.memory = tuple([weakref.ref(node) for node in _numbers(grad)])

    def is_lost(self) -> bool:
        """Return whether the tensor has no grad any more, or another one, or something else refers to it or is a view.

        The function makes a new one, so that one that was kept stays as it is.
        """
        tensor = self.tensor()
        if tensor is None:
            return False
        grad = tensor.grad
        if grad is None or grad is not self.grad or memory_base(grad.uop) is not self.value():
            return True
        if grad._storage is not None and len(grad._storage.members()) > 1:
            return True
        return sys.getrefcount(grad) > OWN_REFERENCES + 1  # that of this object

    def is_dropped(self) -> bool:
        """Return whether the tensor has no grad, and nothing else than this object refers to the one that it had."""
        tensor, grad = self.tensor(), self.grad
        if tensor is None or tensor.grad is not None or grad is None:
            return False
        if memory_base(grad.uop) is not self.value():
            return False
        return sys.getrefcount(grad) <= OWN_REFERENCES


class Gradients:
    """The grads that tensors have now, over memory that every replay writes."""

    def __init__(self, tensors: Sequence[TensorBase] = ()) -> None:
        grads = [(tensor, tensor.grad) for tensor in tensors if tensor.grad is not None]
        self._all = [LostGrad.of(tensor, grad) for tensor, grad in grads]

    def lost(self) -> tuple[list[LostGrad], list[LostGrad]]:
        """Return those of which other ones are to be set, and those that were dropped and are to be set again."""
        lost = [grad for grad in self._all if grad.is_lost()] if self._all else []
        again = _unread([grad for grad in lost if grad.is_dropped()])
        chosen = set(map(id, again))
        others = [grad for grad in lost if id(grad) not in chosen]
        for grad in others:
            grad.grad = None  # it keeps its node, and with it a copy of the values, as long as it is referred to
        return others, again

    @staticmethod
    def still_live(lost: Sequence[LostGrad]) -> set[UOp]:
        """Return the BUFFERs of lost grads that other tensors still have."""
        return {node for grad in lost for ref in grad.memory if (node := ref()) is not None}

    @staticmethod
    def restore(lost: Sequence[LostGrad], buffers: Mapping[int, Buffer], values: Mapping[str, int]) -> dict[UOp, int]:
        """Set the lost grads of tensors again, each over the buffers of its ids.

        Returns their new BUFFERs, each with the id that its memory has in the capture. `values` are those of the
        variables in their shapes.
        """
        nodes: dict[UOp, int] = {}
        for grad in lost:
            if grad.tensor() is not None:
                mine = {_over(buffers[uid]): uid for uid in grad.uids}
                grad.set_again(grad.captured.tensor(list(mine), values))
                nodes |= mine
        return nodes


def _unread(dropped: Sequence[LostGrad]) -> list[LostGrad]:
    """Return those of the grads that tensors have dropped whose memory no other tensor, such as a view, has."""
    memory = {id(one): (one, set(buffers_of(one.grad.uop.base))) for one in dropped if one.grad is not None}
    if not memory:
        return []
    nodes = set[UOp]().union(*[mine for _, mine in memory.values()])
    grads = {id(one.grad) for one in dropped}
    others = [holder for holder in LIVE.near(nodes) if id(holder) not in grads]
    read = nodes.intersection([node for holder in others for node in buffers_of(holder.uop.base)])
    return [one for one, mine in memory.values() if read.isdisjoint(mine)]


def is_over(tensor: TensorBase, uids: Collection[int]) -> bool:
    """Return whether a tensor is over BUFFERs whose ids are all in `uids`."""
    mine = buffers_of(tensor.uop.base)
    return bool(mine) and all(node.arg.uid in uids for node in mine)


def _numbers(tensor: TensorBase) -> dict[UOp, int]:
    """Return the BUFFERs that a tensor is over, each with its index among them."""
    return {node: number for number, node in enumerate(buffers_of(tensor.uop.base))}


def _over(buffer: Buffer) -> UOp:
    """Return a new BUFFER node over a buffer."""
    node = UOp.buffer(buffer.device, buffer.size, buffer.dtype)
    bind(node, buffer)
    return node
