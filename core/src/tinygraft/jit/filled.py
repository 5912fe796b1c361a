"""The grads that a captured call gives to tensors from outside, which each replay gives them again.

A replay writes them into the same memory. A grad that was dropped or replaced since the last call comes back over that
memory; whoever else holds the old one reads a copy from then on.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tinygraft.device.buffer import Buffer, bind
from tinygraft.jit.results import Held
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.held import buffers_of
from tinygraft.uop.uop import UOp


class Before:
    """Which grads there were before a call."""

    def __init__(self, live: Sequence[TensorBase]) -> None:
        """live are the tensors before the call."""
        self._had = [(weakref.ref(t), None if t.grad is None else weakref.ref(t.grad)) for t in live]

    def filled(self) -> list[TensorBase]:
        """Those of the tensors that have another grad now."""
        now = [(tensor, had) for ref, had in self._had if (tensor := ref()) is not None]
        return [t for t, had in now if t.grad is not None and (had is None or had() is not t.grad)]


@dataclass(slots=True)
class LostGrad:
    """The grad of a tensor: how it looks at its memory, its node, and the numbers of its BUFFERs."""

    tensor: weakref.ref[TensorBase]
    held: Held
    node: weakref.ref[UOp]
    uids: tuple[int, ...]

    def is_lost(self) -> bool:
        """Whether the tensor has no grad any more, or another one."""
        tensor = self.tensor()
        return tensor is not None and (tensor.grad is None or tensor.grad.uop is not self.node())


class Gradients:
    """The grads that tensors have now, over memory that stays theirs."""

    def __init__(self, tensors: Sequence[TensorBase] = ()) -> None:
        grads = [(tensor, tensor.grad) for tensor in tensors if tensor.grad is not None]
        self._all = [LostGrad(weakref.ref(t), Held(g, _numbers(g)), weakref.ref(g.uop),
                           tuple([node.arg.uid for node in _numbers(g)])) for t, g in grads]  # fmt: skip

    def lost(self) -> list[LostGrad]:
        """Those that were dropped or replaced."""
        return [grad for grad in self._all if grad.is_lost()] if self._all else []

    @staticmethod
    def still_held(lost: Sequence[LostGrad]) -> set[UOp]:
        """The BUFFERs of lost ones that somebody else holds."""
        return {buffer for grad in lost if (node := grad.node()) is not None for buffer in buffers_of(node.base)}

    @staticmethod
    def give(lost: Sequence[LostGrad], buffers: Mapping[int, Buffer], values: Mapping[str, int]) -> list[UOp]:
        """Let tensors have their lost grads again, each over the buffers of its numbers; their new BUFFERs."""
        nodes = []
        for grad in lost:
            if (tensor := grad.tensor()) is not None:
                mine = [_over(buffers[uid]) for uid in grad.uids]
                tensor.grad = grad.held.tensor(mine, values)
                grad.node = weakref.ref(tensor.grad.uop)
                nodes += mine
        return nodes


def is_made_of(tensor: TensorBase, numbers: Collection[int]) -> bool:
    """Whether a tensor is over BUFFERs of these numbers."""
    mine = buffers_of(tensor.uop.base)
    return bool(mine) and all(node.arg.uid in numbers for node in mine)


def _numbers(tensor: TensorBase) -> dict[UOp, int]:
    """The BUFFERs that a tensor is over, by number."""
    return {node: number for number, node in enumerate(buffers_of(tensor.uop.base))}


def _over(buffer: Buffer) -> UOp:
    """A new BUFFER node over a buffer."""
    node = UOp.buffer(buffer.device, buffer.size, buffer.dtype)
    bind(node, buffer)
    return node
