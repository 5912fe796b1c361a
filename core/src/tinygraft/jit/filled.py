"""The grads that a captured call sets on tensors from outside, and that each replay sets again.

A replay writes them into the same memory. A grad that was dropped or replaced since the last call is restored over that
memory; other tensors that have the old one read a copy from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tinygraft.device.buffer import Buffer, bind
from tinygraft.jit.results import CapturedTensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.held import buffers_of
from tinygraft.uop.uop import UOp


class GradsBefore:
    """The grads that tensors had before a call."""

    def __init__(self, live: Sequence[TensorBase]) -> None:
        """Record the grads of `live`, the tensors before the call."""
        self._had = [(weakref.ref(t), None if t.grad is None else weakref.ref(t.grad)) for t in live]

    def filled(self) -> list[TensorBase]:
        """Return those of the tensors that have another grad now."""
        now = [(tensor, had) for ref, had in self._had if (tensor := ref()) is not None]
        return [t for t, had in now if t.grad is not None and (had is None or had() is not t.grad)]

    def keeps_grads(self, tensors: Sequence[TensorBase]) -> bool:
        """Return whether each of `tensors` has the grad that it had, or none as before."""
        mine = {id(tensor) for tensor in tensors}
        had = [(t, grad) for ref, grad in self._had if (t := ref()) is not None and id(t) in mine]
        return all(t.grad is None if grad is None else t.grad is not None and t.grad is grad() for t, grad in had)

    def without(self, filled: Sequence[TensorBase]) -> list[TensorBase]:
        """Return those of the `filled` tensors that had no grad before the call."""
        had = {id(tensor) for ref, grad in self._had if grad is not None and (tensor := ref()) is not None}
        return [tensor for tensor in filled if id(tensor) not in had]


@dataclass(slots=True)
class LostGrad:
    """The grad of a tensor: its graph over its memory, its node, and the ids of its BUFFERs."""

    tensor: weakref.ref[TensorBase]
    captured: CapturedTensor
    node: weakref.ref[UOp]
    uids: tuple[int, ...]

    def is_lost(self) -> bool:
        """Return whether the tensor has no grad any more, or another one."""
        tensor = self.tensor()
        return tensor is not None and (tensor.grad is None or tensor.grad.uop is not self.node())


class Gradients:
    """The grads that tensors have now, over memory that every replay writes."""

    def __init__(self, tensors: Sequence[TensorBase] = ()) -> None:
        grads = [(tensor, tensor.grad) for tensor in tensors if tensor.grad is not None]
        self._all = [LostGrad(weakref.ref(t), CapturedTensor(g, _numbers(g)), weakref.ref(g.uop),
                           tuple([node.arg.uid for node in _numbers(g)])) for t, g in grads]  # fmt: skip

    def lost(self) -> list[LostGrad]:
        """Return those that were dropped or replaced."""
        return [grad for grad in self._all if grad.is_lost()] if self._all else []

    @staticmethod
    def still_live(lost: Sequence[LostGrad]) -> set[UOp]:
        """Return the BUFFERs of lost grads that other tensors still have."""
        return {buffer for grad in lost if (node := grad.node()) is not None for buffer in buffers_of(node.base)}

    @staticmethod
    def restore(lost: Sequence[LostGrad], buffers: Mapping[int, Buffer], values: Mapping[str, int]) -> list[UOp]:
        """Set the lost grads of tensors again, each over the buffers of its ids. Returns their new BUFFERs.

        `values` are those of the variables in their shapes.
        """
        nodes = []
        for grad in lost:
            if (tensor := grad.tensor()) is not None:
                mine = [_over(buffers[uid]) for uid in grad.uids]
                tensor.grad = grad.captured.tensor(mine, values)
                grad.node = weakref.ref(tensor.grad.uop)
                nodes += mine
        return nodes


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
