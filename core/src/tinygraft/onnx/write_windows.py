"""Windows as MaxPool and AveragePool, or by their definition: WINDOW is a Gather per axis, FOLD a scattered sum.

Convolutions are found in recognised.py. What is left here are reductions of windows that ONNX has an operator for, and
WINDOW and FOLD themselves, of any stride and dilation.
"""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep, symbolic
from tinygraft.onnx.write_elementwise import const_of
from tinygraft.onnx.write_movement import padded_with
from tinygraft.onnx.write_products import reshaped, times
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

_POOLED = (dtypes.float32, dtypes.float64, dtypes.float16)


def windows(writer: GraphWriter, node: UOp) -> NodePlan:
    """The plan of a pooling, a WINDOW or a FOLD; None for any other."""
    inner = node.src[0] if node.op is Ops.RESHAPE else node
    if inner.op is Ops.REDUCE_AXIS and inner.src[0].op is Ops.WINDOW:
        found = _pool(writer, inner, 1)
        return None if found is None else reshaped(found, node.shape)
    if node.op is Ops.FDIV and isinstance(count := const_of(node.src[1]), (int, float)):
        total = node.src[0]
        while total.op is Ops.RESHAPE:
            total = total.src[0]
        if total.op is Ops.REDUCE_AXIS and total.arg.op is Ops.ADD and total.src[0].op is Ops.WINDOW:
            found = _pool(writer, total, count)
            return None if found is None else reshaped(found, node.shape)
    if node.op is Ops.WINDOW:
        return _window(writer, node)
    return _fold(writer, node) if node.op is Ops.FOLD else None


def _pool(writer: GraphWriter, node: UOp, count: float) -> UOp | None:
    """Return the plan of a MaxPool or AveragePool of a reduction over all of each window; None for any other.

    `count` is what a sum is divided by.
    """
    window, arg = node.src[0], node.src[0].arg
    spatial = len(arg.size)
    if node.dtype not in _POOLED or node.arg.axes != tuple(range(len(window.shape) - spatial, len(window.shape))):
        return None
    source = window.src[0]
    name = {Ops.MAX: "MaxPool", Ops.ADD: "AveragePool"}.get(node.arg.op)
    if name is None or spatial > 3 or (name == "MaxPool" and count != 1):
        return None
    pads = [0] * (2 * spatial)
    if name == "MaxPool" and (padded := padded_with(source)) is not None and padded[1] == -math.inf:
        ends = padded[0].arg
        if all(isinstance(each, int) for end in ends for each in end) and not any(map(any, ends[:-spatial])):
            halves = [ends[axis - spatial][side] for side in (0, 1) for axis in range(spatial)]
            if all(pad < size for pad, size in zip(halves, [*arg.size] * 2, strict=True)):
                pads, source = halves, padded[0].src[0]
    lead = source.shape[:-spatial]
    images = reshaped(source, (times(lead), 1, *source.shape[-spatial:]) if len(lead) != 2 else source.shape)
    attributes = {"kernel_shape": arg.size, "strides": arg.stride, "dilations": arg.dilation, "pads": pads}
    shape = (*images.shape[:2], *arg.count)
    made = UOp.placeholder(shape, node.dtype, None, "onnx.export")
    factor = math.prod(arg.size) / count

    def write(x: str) -> str:
        found: str = writer.node(name, [x], **attributes)
        return found if name == "MaxPool" or factor == 1 else (
            writer.node("Mul", [found, writer.constant(float(factor), node.dtype)])
        )  # fmt: skip

    writer.plan(made, WriteStep((images,), write))
    return reshaped(made, node.shape)


def _window(writer: GraphWriter, node: UOp) -> NodePlan:
    """A Gather for each axis, then the axes of counts before those of sizes."""
    arg, lead = node.arg, len(node.shape) - 2 * len(node.arg.size)
    many = len(arg.size)

    def write(x: str) -> str:
        for number in range(many):
            starts = range(0, arg.count[number] * arg.stride[number], arg.stride[number])
            picks = [start + k * arg.dilation[number] for start in starts for k in range(arg.size[number])]
            index = writer.constant(picks, dtypes.int64, (arg.count[number], arg.size[number]))
            x = writer.node("Gather", [x, index], axis=lead + 2 * number)
        order = [*range(lead), *(lead + 2 * n for n in range(many)), *(lead + 2 * n + 1 for n in range(many))]
        return x if order == sorted(order) else writer.node("Transpose", [x], perm=order)

    return WriteStep((node.src[0],), write)


def _fold(writer: GraphWriter, node: UOp) -> NodePlan:
    """ScatterElements of all elements of the windows into zeros, adding."""
    arg, source = node.arg, node.src[0]
    lead, many = node.shape[: -len(arg.size)], len(arg.size)
    flat = reshaped(source, (*lead, math.prod(source.shape[-2 * many :])))
    targets = [0]
    for number in range(many):  # (..., count, ...) then (..., size, ...): the index in the row of each
        starts = range(0, arg.count[number] * arg.stride[number], arg.stride[number])
        targets = [target * arg.length[number] + start for target in targets for start in starts]
    inner = [0]
    for number in range(many):
        inner = [at * arg.length[number] + k * arg.dilation[number] for at in inner for k in range(arg.size[number])]
    picks = [target + at for target in targets for at in inner]
    whole = (*lead, math.prod(arg.length))
    made = UOp.placeholder(whole, node.dtype, None, "onnx.export")

    def write(x: str, *_: str) -> str:
        index = writer.constant(picks, dtypes.int64, (*(1 for _ in lead), len(picks)))
        index = writer.node("Expand", [index, writer.node("Shape", [x])])
        zeros = writer.node("Expand", [writer.constant(0, node.dtype), writer.vector(whole)])
        return writer.node("ScatterElements", [zeros, index, x], axis=len(lead), reduction="add")

    writer.plan(made, WriteStep((flat, *symbolic(whole)), write))
    return reshaped(made, node.shape)
