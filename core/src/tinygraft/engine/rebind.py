"""Giving tensors their results: the nodes that were computed are replaced in graphs by what reads their memory."""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.engine import computed_again
from tinygraft.engine.assigns import HasNode
from tinygraft.engine.tape import note_rebuilt
from tinygraft.uop.held import in_shape
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild


def read_of(node: UOp, memory: UOp) -> UOp:
    """Return the node that reads the value of `node` from `memory`."""
    return in_shape(memory, node.shape) if memory.op is Ops.BUFFER else memory


def rebind(swap: dict[UOp, UOp], tensors: Sequence[HasNode]) -> None:
    """Replace the nodes of `swap` by their results in the graphs of `tensors`, which get the new nodes.

    A tensor that is memory in the end reads it by one RESHAPE, except where a gradient may be requested at one of
    several.
    """
    nodes = [tensor.uop for tensor in tensors]
    done = swap
    if not all(map(swap.__contains__, nodes)):
        done = rebuild(nodes, swap)
        note_rebuilt(done)
        computed_again.note_rebuilt(done)
    for tensor in tensors:
        new = base = done[tensor.uop]
        while base.op is Ops.RESHAPE:  # a DETACH stays: a gradient of later results must end there
            base = base.src[0]
        differentiable = tensor.requires_grad is not False and new.dtype.kind == "float"
        tensor.uop = new if new is base or base.op is not Ops.BUFFER or differentiable else read_of(new, base)
