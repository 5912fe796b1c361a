"""Operators of ONNX that are several nodes in the graph: convolutions, softmax, normalisation, activations, argmax.

A node is recognised by building it again: from the shape of the graph a finder guesses the operands and attributes,
then the method of Tensor is called with them. Nodes are interned, so where that is this very node the guess is proven,
and nothing that is only similar is ever replaced; else the node is written as the operators that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import TinygraftError
from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep
from tinygraft.onnx.write_elementwise import const_of, without_expand
from tinygraft.onnx.write_movement import padded_with, padding
from tinygraft.onnx.write_products import Labelled
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

Guess = tuple[Sequence[UOp], Callable[..., Tensor], str, dict[str, Any]]  # operands, method, operator, attributes
FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16)


def recognised(writer: GraphWriter, node: UOp) -> NodePlan:
    """The plan of a node that is a method with an operator of its own; None for any other."""
    padded = padded_with(node)
    if padded is not None and padded[0].shape == node.shape:
        return padding(writer, *padded)
    for finder in _FINDERS.get(node.op, ()):
        for plan in finder(writer, node):
            if plan is not None:
                return plan
    return None


def _is(node: UOp, method: Callable[..., Tensor], *operands: UOp) -> bool:
    """Return whether a node is what the method makes of operands: then it is built again as the same node."""
    try:
        return method(*(Tensor(0)._wrap(each) for each in operands)).uop is node
    except (TinygraftError, TypeError, ValueError):
        return False  # the guess was wrong: it is no call that the method takes


def _simple(
    writer: GraphWriter, node: UOp, x: UOp, op: str, method: Callable[..., Tensor], **attributes: Any
) -> WriteStep | None:
    """Return the plan of one operator of one operand, if that is what the node is, else None."""
    if not _is(node, method, x):
        return None
    return WriteStep((x,), lambda name: writer.node(op, [name], **attributes))


def _maximum(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plan of Relu."""
    if node.dtype in FLOATS:
        yield _simple(writer, node, node.src[0], "Relu", Tensor.relu)


def _sum(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """abs, and what adds a bias: convolutions and normalisations."""
    left, right = node.src
    if left.op is Ops.MAX:
        yield _simple(writer, node, left.src[0], "Abs", Tensor.abs)
    if node.dtype not in FLOATS:
        return
    bias = without_expand(right)
    while bias.op is Ops.RESHAPE and len(bias.shape) != 1:
        bias = bias.src[0]
    if left.op is Ops.MAX:
        yield _simple(writer, node, left.src[0], "Softplus", Tensor.softplus)
    if left.op in (Ops.RESHAPE, Ops.SHRINK, Ops.PAD) and len(bias.shape) == 1:
        yield from _convolution(writer, node, left, bias)
        yield _gemm(writer, node, left, bias)
    if left.op is Ops.MUL:
        yield _batch_norm(writer, node)
        yield _layer_norm(writer, node)


def _product(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plans of Gelu and of a normalisation without a bias."""
    left, right = node.src
    if right.op in (Ops.WHERE, Ops.ADD):
        yield _simple(writer, node, left, "Gelu", lambda x: x.gelu(), approximate="tanh")
        yield _simple(writer, node, left, "Gelu", lambda x: x.gelu("none"), approximate="none")
    if left.op is Ops.SUB:
        yield _layer_norm(writer, node)


def _quotient(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Softmax and mean."""
    above, below = node.src
    total = below.src[0] if below.op is Ops.EXPAND else below
    if above.op is Ops.EXP2 and total.op is Ops.REDUCE_AXIS and len(total.arg.axes) == 1:
        x, axis = _before_maximum(above.src[0]), total.arg.axes[0]
        if x is not None:
            yield _simple(writer, node, x, "Softmax", lambda t: t.softmax(axis), axis=axis)
    summed = above
    while summed.op is Ops.RESHAPE:
        summed = summed.src[0]
    pooled = summed.op is Ops.REDUCE_AXIS and summed.src[0].op is Ops.WINDOW
    if summed.op is Ops.REDUCE_AXIS and summed.arg.op is Ops.ADD and node.dtype in FLOATS and not pooled:
        x, axes = summed.src[0], summed.arg.axes
        keep = len(node.shape) == len(x.shape)
        if _is(node, lambda t: t.mean(axes, keepdim=keep), x):
            yield WriteStep((x,), lambda name: writer.node(
                "ReduceMean", [name, writer.vector(list(axes))], keepdims=int(keep)
            ))  # fmt: skip


def _before_maximum(node: UOp) -> UOp | None:
    """The x of (x - max) * number."""
    inner = node.src[0] if node.op is Ops.MUL else node
    return inner.src[0] if inner.op is Ops.SUB else None


def _difference(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plan of LogSoftmax."""
    left, right = node.src
    log = without_expand(right)
    if left.op is Ops.SUB and log.op is Ops.LOG and log.src[0].op is Ops.REDUCE_AXIS:
        axis = log.src[0].arg.axes[0]
        yield _simple(writer, node, left.src[0], "LogSoftmax", lambda t: t.log_softmax(axis), axis=axis)


def _choice(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plans of activations, rounding and Clip, which choose by a comparison."""
    condition, first, second = node.src
    if node.dtype not in FLOATS or condition.op is not Ops.CMPLT:
        return
    yield from _clip(writer, node)
    for x in dict.fromkeys((*condition.src, second)):
        if x.shape != node.shape or x.dtype is not node.dtype:
            continue
        for op, method in _ACTIVATIONS.items():
            yield _simple(writer, node, x, op, method)
        slopes = [const_of(source) for part in (first, second) for source in part.src if part.op is Ops.MUL]
        for slope in slopes:
            if isinstance(slope, float):
                yield _simple(
                    writer, node, x, "LeakyRelu", lambda t, slope=slope: t.leaky_relu(slope), alpha=float(slope)
                )


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": Tensor.sigmoid, "Floor": Tensor.floor, "Ceil": Tensor.ceil, "Elu": Tensor.elu, "Selu": Tensor.selu,
    "Round": Tensor.round,
}  # fmt: skip


def _clip(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plans of a Clip of one or two numbers."""
    inner = node.src[2]
    lows = [*({const_of(source) for source in inner.src} - {None} if inner.op is Ops.WHERE else ()), None]
    outer = [const_of(source) for source in node.src[0].src]
    for number in outer:
        if number is None:
            continue
        for low, high, x in [(low, number, inner.src[2] if low is not None else inner) for low in lows] + [
            (number, None, inner)
        ]:
            if x.shape == node.shape and _is(node, lambda t, low=low, high=high: t.clip(low, high), x):
                bounds = ["" if each is None else writer.constant(float(each), node.dtype) for each in (low, high)]
                yield WriteStep((x,), lambda name, bounds=bounds: writer.node("Clip", [name, *bounds]))


def _reshape(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plans of a convolution without a bias and of ArgMax."""
    yield from _convolution(writer, node, node, None)
    yield from _argmax(writer, node, node.src[0])


def _reduction(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """Yield the plans of ArgMax and ArgMin that keep the axis."""
    yield from _argmax(writer, node, node)


def _argmax(writer: GraphWriter, node: UOp, reduced: UOp) -> Iterator[NodePlan]:
    """Yield the plans of ArgMax and ArgMin: the first index of the greatest or least element along an axis."""
    if reduced.op is not Ops.REDUCE_AXIS or reduced.arg.op is not Ops.MIN or reduced.src[0].op is not Ops.WHERE:
        return
    found = reduced.src[0].src[0]
    equal = found.src[0] if found.op is Ops.OR else found
    if equal.op is not Ops.CMPEQ or len(reduced.arg.axes) != 1:
        return
    x, axis, keep = equal.src[0], reduced.arg.axes[0], len(node.shape) == len(reduced.shape)
    for op, method in (("ArgMax", Tensor.argmax), ("ArgMin", Tensor.argmin)):
        if _is(node, lambda t, method=method: method(t, axis, keepdim=keep), x):
            yield WriteStep((x,), lambda name, op=op: writer.cast(
                writer.node(op, [name], axis=axis, keepdims=int(keep)), node.dtype
            ))  # fmt: skip


def _gather(writer: GraphWriter, node: UOp) -> Iterator[NodePlan]:
    """x.gather(axis, index), which is a gather of all elements as one line."""
    source, index = node.src[0], node.src[1]
    if source.op is not Ops.RESHAPE or index.op is not Ops.WHERE or index.src[1].op is not Ops.ADD:
        return
    x, inner = source.src[0], index.src[1].src[0]
    inner = inner.src[0] if inner.op is Ops.MUL else inner
    if x.op in (Ops.BUFFER, Ops.MULTI) or inner.op is not Ops.WHERE or inner.src[2].dtype is not dtypes.int32:
        return
    for axis in range(len(x.shape)):
        if _is(node, lambda t, i, axis=axis: t.gather(axis, i), x, inner.src[2]):
            yield WriteStep((x, inner.src[2]), lambda a, b, axis=axis: writer.node("GatherElements", [a, b], axis=axis))


# Products with weights


def _gemm(writer: GraphWriter, node: UOp, product: UOp, bias: UOp) -> WriteStep | None:
    """Return the plan of x @ w.T + b of two axes as one Gemm; None for any other node."""
    reduced = product.src[0]
    if len(node.shape) != 2 or reduced.op is not Ops.REDUCE_AXIS or reduced.src[0].op is not Ops.MUL:
        return None
    x, w = (Labelled(source) for source in reduced.src[0].src)
    if len(x.node.shape) != 2 or len(w.node.shape) != 2 or x.labels != [0, None, 1]:
        return None
    for labels, transposed in (([None, 0, 1], 1), ([None, 1, 0], 0)):
        turned = (lambda t: t.transpose()) if transposed else (lambda t: t)
        if w.labels == labels and _is(
            node, lambda a, b, c, turned=turned: a.linear(turned(b), c), x.node, w.node, bias
        ):
            return WriteStep(
                (x.node, w.node, bias), lambda *names, turn=transposed: writer.node("Gemm", names, transB=turn)
            )
    return None


def _convolution(writer: GraphWriter, node: UOp, root: UOp, bias: UOp | None) -> Iterator[NodePlan]:
    """Yield the plans of Conv and ConvTranspose, with a bias where there is one; `root` is the node without it.

    Each is proven by building the node again; a plan may be None.
    """
    reduced = root
    while reduced.op in (Ops.RESHAPE, Ops.SHRINK, Ops.PAD):
        reduced = reduced.src[0]
    if reduced.op is Ops.FOLD:
        yield _transposed(writer, node, root, reduced, bias)
    reduced = root
    while reduced.op is Ops.RESHAPE:
        reduced = reduced.src[0]
    if reduced.op is not Ops.REDUCE_AXIS or reduced.src[0].op is not Ops.MUL or reduced.arg.op is not Ops.ADD:
        return
    image, w = (_below(source) for source in reduced.src[0].src)
    if image.op is not Ops.WINDOW or len(w.shape) != len(image.arg.size) + 2:
        return
    arg, many, source = image.arg, len(image.arg.size), image.src[0]
    pads: list[tuple[int, int]] = [(0, 0)] * many
    padded = source.op is Ops.PAD and not any(map(any, source.arg[:-many]))
    for x, ends in ([(source.src[0], list(source.arg[-many:]))] if padded else []) + [(source, pads)]:
        if len(x.shape) != many + 2 or not all(isinstance(each, int) for end in ends for each in end):
            continue
        groups = x.shape[1] // w.shape[1]
        flat = tuple(each for end in reversed(ends) for each in end)  # as Tensor.pad: the last axis first

        def method(t: Tensor, weight: Tensor, *b: Tensor, flat: Any = flat, groups: int = groups) -> Tensor:
            return t.conv2d(weight, b[0] if b else None, groups, arg.stride, arg.dilation, flat)

        operands = (x, w) if bias is None else (x, w, bias)
        if _is(node, method, *operands):
            attributes = {
                "kernel_shape": arg.size, "strides": arg.stride, "dilations": arg.dilation, "group": groups,
                "pads": [end[side] for side in (0, 1) for end in ends],
            }  # fmt: skip
            yield WriteStep(operands, lambda *names, attributes=attributes: writer.node("Conv", names, **attributes))


def _below(node: UOp) -> UOp:
    """The node under EXPANDs, PERMUTEs and RESHAPEs, or the weight in its shape."""
    while node.op in (Ops.EXPAND, Ops.PERMUTE, Ops.RESHAPE, Ops.FLIP):
        if node.op is Ops.RESHAPE and node.src[0].op in (Ops.BUFFER, Ops.MULTI):
            break
        node = node.src[0]
    return node


def _transposed(writer: GraphWriter, node: UOp, root: UOp, fold: UOp, bias: UOp | None) -> WriteStep | None:
    """Return the plan of a ConvTranspose, whose padding cuts off what it would pad; None for any other node."""
    cut = None
    while root is not fold:
        cut = root.arg if root.op is Ops.SHRINK else cut
        root = root.src[0]
    arg, many, reduced = fold.arg, len(fold.arg.size), fold.src[0]
    while reduced.op is Ops.RESHAPE:
        reduced = reduced.src[0]
    if reduced.op is not Ops.REDUCE_AXIS or reduced.src[0].op is not Ops.MUL:
        return None
    x, w = (_below(source) for source in reduced.src[0].src)
    if len(x.shape) != many + 2 or len(w.shape) != many + 2:
        return None
    before = [0] * many if cut is None else [cut[axis - many][0] for axis in range(many)]
    wanted = [
        2 * pad + size - (old - 1) * stride - dilation * (kernel - 1) - 1
        for pad, size, old, stride, dilation, kernel in zip(
            before, node.shape[2:], x.shape[2:], arg.stride, arg.dilation, arg.size, strict=True
        )
    ]
    groups = reduced.shape[1] if len(reduced.shape) == 2 * many + 4 else 1

    def method(t: Tensor, weight: Tensor, *b: Tensor) -> Tensor:
        return t.conv_transpose2d(weight, b[0] if b else None, groups, arg.stride, arg.dilation, before, wanted)

    operands = (x, w) if bias is None else (x, w, bias)
    if any(each < 0 for each in wanted) or not _is(node, method, *operands):
        return None
    return WriteStep(operands, lambda *names: writer.node(
        "ConvTranspose", names, kernel_shape=arg.size, strides=arg.stride, dilations=arg.dilation, group=groups,
        pads=[*before, *before], output_padding=wanted,
    ))  # fmt: skip


# Normalisation


def _batch_norm(writer: GraphWriter, node: UOp) -> WriteStep | None:
    """Return the plan of a BatchNormalization; None for any other node.

    That is (x - mean) / sqrt(var + eps) * weight + bias, with one number of each per channel.
    """
    scaled, weight = node.src[0].src
    if scaled.op is not Ops.MUL or scaled.src[0].op is not Ops.SUB:
        return None
    (x, mean), inverse = scaled.src[0].src, without_expand(scaled.src[1])
    if inverse.op is not Ops.RECIPROCAL or inverse.src[0].op is not Ops.SQRT or inverse.src[0].src[0].op is not Ops.ADD:
        return None
    variance, eps = inverse.src[0].src[0].src
    epsilon, parts = const_of(eps), []
    for part in (weight, node.src[1], mean, variance):
        channel = _of_channel(part, x)
        if channel is None:
            return None
        parts.append(channel)
    if not isinstance(epsilon, float) or len(x.shape) < 2:
        return None
    return WriteStep((x, *parts), lambda *names: writer.node("BatchNormalization", names, epsilon=float(epsilon)))


def _of_channel(node: UOp, x: UOp) -> UOp | None:
    """Return a vector that is broadcast along all axes but axis 1, None for what is none."""
    found = Labelled(node)
    if len(found.labels) != len(x.shape) or found.node.shape != (x.shape[1],):
        return None
    return found.node if found.labels == [None, 0, *(None for _ in x.shape[2:])] else None


def _layer_norm(writer: GraphWriter, node: UOp) -> WriteStep | None:
    """Return the plan of a LayerNormalization over the last axes, with or without a weight and a bias; else None."""
    inner, rest = node, []
    if node.op is Ops.ADD:
        inner, rest = node.src[0].src[0], [node.src[0].src[1], node.src[1]]
    if inner.op is not Ops.MUL or inner.src[0].op is not Ops.SUB:
        return None
    x, root = inner.src[0].src[0], without_expand(inner.src[1])
    if root.op is not Ops.RECIPROCAL or root.src[0].op is not Ops.SQRT or root.src[0].src[0].op is not Ops.ADD:
        return None
    mean, eps = root.src[0].src[0].src[0], const_of(root.src[0].src[0].src[1])
    total = mean.src[0] if mean.op is Ops.FDIV else mean
    if total.op is not Ops.REDUCE_AXIS or not isinstance(eps, float):
        return None
    axes, count = total.arg.axes, len(total.arg.axes)
    last = tuple(range(len(x.shape) - count, len(x.shape)))
    if axes != last or not _is(inner, lambda t: t.layernorm(axis=axes, eps=eps), x):
        return None
    sizes, operands = x.shape[-count:], []
    wide = {"stash_type": 11} if node.dtype is dtypes.float64 else {}  # without it the mean is one of float32
    for part in rest:
        found = without_expand(part)
        if found.shape != sizes:
            return None
        operands.append(found)

    def write(name: str, *names: str) -> str:
        given = names or (writer.node("Expand", [writer.constant(1.0, node.dtype), writer.vector(sizes)]),)
        return writer.node("LayerNormalization", [name, *given], axis=-count, epsilon=float(eps), **wide)

    return WriteStep((x, *operands), write) if all(isinstance(size, int) for size in sizes) else None


_FINDERS: dict[Ops, tuple[Callable[[GraphWriter, UOp], Iterator[NodePlan]], ...]] = {
    Ops.MAX: (_maximum,), Ops.ADD: (_sum,), Ops.MUL: (_product,), Ops.FDIV: (_quotient,), Ops.SUB: (_difference,),
    Ops.WHERE: (_choice,), Ops.RESHAPE: (_reshape,), Ops.GATHER: (_gather,), Ops.SHRINK: (_reshape,),
    Ops.REDUCE_AXIS: (_reduction,),
    Ops.PAD: (_reshape,),
}  # fmt: skip
