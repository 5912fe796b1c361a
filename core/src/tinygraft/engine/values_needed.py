"""Whether a derivative needs the values of some memory: that of a sum does not, that of a product does.

It is used before memory is overwritten, for untracked graphs: values that no derivative needs are not saved for one.
"""

from __future__ import annotations

from collections.abc import Collection

from tinygraft.uop.held import HELD, is_no_memory
from tinygraft.uop.ops import MOVEMENT, Ops, Own
from tinygraft.uop.uop import UOp, toposort

# ops whose derivatives are the same whatever the values are
_LINEAR = MOVEMENT | {
    Ops.ADD, Ops.SUB, Ops.NEG, Ops.CAST, Ops.CAT, Ops.FOLD, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.COPY,
    Ops.SHARD, Ops.MULTI, Ops.ASSIGN,
}  # fmt: skip
_SUMS = frozenset({Ops.REDUCE_AXIS, Ops.SCAN})


def needs_values(root: UOp, memory: Collection[UOp]) -> bool:
    """Return whether a gradient of `root` by any leaf may need the present value of one of the BUFFERs of `memory`.

    >>> from tinygraft import Tensor
    >>> x, w = Tensor([1.0]).realize(), Tensor([2.0]).realize()
    >>> [needs_values(y.uop, {w.uop.base}) for y in (x + w, x * w, w * 3)]
    [False, True, False]
    """
    reads: set[UOp] = set()  # nodes whose values are computed from it
    on_path: set[UOp] = set()  # nodes that a gradient may come to on its way to a leaf
    for node in toposort(root, enter=is_no_memory):
        if node in memory or not reads.isdisjoint(node.src) or (node.op is Ops.MULTI and _has(node, memory)):
            reads.add(node)
        if node.dtype.kind != "float" or node.op is Ops.DETACH:
            continue
        if node.op in HELD or isinstance(node.tag, Own):
            on_path.add(node)
        elif not on_path.isdisjoint(node.src):
            on_path.add(node)
            if _derivative_reads(node, on_path, reads):
                return True
    return False


def _has(node: UOp, memory: Collection[UOp]) -> bool:
    """Return whether a MULTI has one of `memory` as a shard."""
    return any(n in memory for n in toposort(node) if n.op is Ops.BUFFER)


def _derivative_reads(node: UOp, on_path: set[UOp], reads: set[UOp]) -> bool:
    """Return whether the derivative of `node` by its sources on the path is computed from one of `reads`.

    `on_path` are the nodes that a gradient may come to.
    """
    if node.op in _LINEAR or (node.op in _SUMS and node.arg.op is Ops.ADD):
        return False
    if node.op is Ops.MUL:
        a, b = node.src
        return (a in on_path and b in reads) or (b in on_path and a in reads)
    if node.op in (Ops.WHERE, Ops.GATHER):  # the condition, or the index, decides where a gradient goes
        return node.src[0 if node.op is Ops.WHERE else 1] in reads
    return node in reads
