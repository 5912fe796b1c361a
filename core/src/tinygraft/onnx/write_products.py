"""Sums of products as MatMul and Gemm.

In the graph a matrix product is a REDUCE_AXIS of a MUL of two broadcast operands. An axis of that MUL belongs to the
first operand alone (a row), to the second (a column), to both (a batch), or is summed (a term); what is no such
product, as a sum of squares, stays a Mul and a ReduceSum.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_size, sint, symbolic_sizes
from tinygraft.uop.uop import UOp


def product(writer: GraphWriter, node: UOp) -> NodePlan:
    """The plan of a sum of products, or of a RESHAPE of one that leaves out axes of size 1."""
    target = node.shape
    if node.op is Ops.RESHAPE and node.src[0].op is Ops.REDUCE_AXIS:
        if _long(node.shape) != _long(node.src[0].shape):
            return None
        node = node.src[0]
    if node.op is not Ops.REDUCE_AXIS or node.arg.op is not Ops.ADD or node.src[0].op is not Ops.MUL:
        return None
    first, second = (Labelled(source) for source in node.src[0].src)
    summed, axes = set(node.arg.axes), range(len(node.shape))
    if any((axis in summed) and first.has(axis) != second.has(axis) for axis in axes):
        return None
    kind = {
        (True, True, False): "batch", (True, False, False): "row", (False, True, False): "column",
        (True, True, True): "term",
    }  # fmt: skip
    found: dict[str, list[int]] = {"batch": [], "row": [], "column": [], "term": []}
    for axis in axes:
        known = kind.get((first.has(axis), second.has(axis), axis in summed))
        if known is not None:
            found[known].append(axis)
    if not found["term"] or not (found["row"] or found["column"]):
        return None
    return _matmul(writer, first, second, found, target)


def _long(shape: Shape) -> list[sint]:
    """Return the sizes of a shape that are not 1."""
    return [size for size in shape if not is_size(size, 1)]


class Labelled:
    """An operand without the EXPANDs, PERMUTEs and axes of size 1 on the way to it: the node below, and the axis of it
    that each axis is, None for one along which the operand does not change."""

    def __init__(self, node: UOp) -> None:
        self.shape: Shape = node.shape
        labels: list[int | None] = list(range(len(node.shape)))  # by axis of the operand: the axis of `node`
        while True:
            if node.op in (Ops.DETACH, Ops.CONTIGUOUS):
                node = node.src[0]
            elif node.op is Ops.EXPAND:
                source = node.src[0]
                grown = [new is not old and new != old for new, old in zip(node.shape, source.shape, strict=True)]
                labels = [None if label is None or grown[label] else label for label in labels]
                node = source
            elif node.op is Ops.PERMUTE:
                labels = [None if label is None else node.arg[label] for label in labels]
                node = node.src[0]
            elif node.op is Ops.RESHAPE and _long(node.shape) == _long(node.src[0].shape):
                new = [axis for axis, size in enumerate(node.shape) if not is_size(size, 1)]
                old = [axis for axis, size in enumerate(node.src[0].shape) if not is_size(size, 1)]
                to = dict(zip(new, old, strict=True))
                labels = [None if label is None else to.get(label) for label in labels]
                node = node.src[0]
            else:
                break
        self.node = node
        self.labels: list[int | None] = [
            None if label is None or is_size(node.shape[label], 1) else label for label in labels
        ]

    def has(self, axis: int) -> bool:
        """Whether the operand changes along an axis."""
        return self.labels[axis] is not None

    def arranged(self, *groups: Sequence[int], flat: int) -> UOp:
        """The operand with its axes in the order of the groups, of which all from number `flat` on become one each."""
        order = [label for group in groups for axis in group if (label := self.labels[axis]) is not None]
        rest = [axis for axis in range(len(self.node.shape)) if axis not in order]
        node = self.node
        if [*order, *rest] != sorted([*order, *rest]):
            node = UOp(Ops.PERMUTE, node.dtype, (node,), (*order, *rest))
        shape: list[sint] = []
        for number, group in enumerate(groups):
            sizes = [self.shape[axis] for axis in group]
            shape += sizes if number < flat else [times(sizes)]
        return reshaped(node, tuple(shape))


def times(sizes: Sequence[sint]) -> sint:
    """The product of sizes."""
    total: sint = 1
    for size in sizes:
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            total = size if is_size(total, 1) else ix.settled(ix.mul(total, size))
    return total


def reshaped(node: UOp, shape: Shape) -> UOp:
    """A node in a shape."""
    return node if node.shape == shape else UOp(Ops.RESHAPE, node.dtype, (node, *symbolic_sizes(shape)), shape)


def _matmul(
    writer: GraphWriter, first: Labelled, second: Labelled, found: dict[str, list[int]], target: Shape
) -> NodePlan:
    """The plan of a product: MatMul of (batch, rows, terms) and (batch, terms, columns), or Gemm."""
    batch, rows, columns, terms = (found[each] for each in ("batch", "row", "column", "term"))
    spread = not batch  # rows need not be one axis where all of them meet the same matrix
    left = first.arranged(batch, rows, terms, flat=2 if spread and rows else 1)
    kept = [first.shape[axis] for axis in rows]
    right = second.arranged(batch, terms, columns, flat=1)
    shape: list[sint] = [first.shape[axis] for axis in batch]
    shape += (kept if spread and rows else [times(kept)]) + [times([second.shape[axis] for axis in columns])]
    transposed = right.op is Ops.PERMUTE and right.arg == (1, 0) and len(left.shape) == 2
    inputs = (left, right.src[0] if transposed else right)
    made = UOp.placeholder(tuple(shape), left.dtype, None, "onnx.export")  # the value of the MatMul, not yet in order
    split = (*(first.shape[axis] for axis in [*batch, *rows]), *(second.shape[axis] for axis in columns))
    result = reshaped(made, split)
    order = [*batch, *rows, *columns]
    if order != sorted(order):
        result = UOp(Ops.PERMUTE, result.dtype, (result,), tuple(order.index(axis) for axis in sorted(order)))
    result = reshaped(result, target)

    def write(*names: str) -> str:
        if transposed:
            return writer.node("Gemm", names, transB=1)
        return writer.node("MatMul", names)

    if result is made:
        return WriteStep(inputs, write)
    writer.plan(made, WriteStep(inputs, write))
    return result
