"""Movement, reductions and leaves as operators of ONNX: Reshape, Expand, Transpose, Pad, Slice, Concat, ReduceSum ...

A size that is symbolic is computed by the model from the shapes of its inputs, where Reshape cannot infer it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygraft.dtype import dtypes
from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep, onnx_dtype, symbolic
from tinygraft.onnx.write_elementwise import const_of
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.uop import UOp

_REDUCE = {
    Ops.ADD: "ReduceSum", Ops.MAX: "ReduceMax", Ops.MIN: "ReduceMin", Ops.MUL: "ReduceProd",
    Ops.OR: "ReduceMax", Ops.AND: "ReduceMin",  # of bools
}  # fmt: skip
_SAME = {Ops.DETACH, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.FUNCTION, Ops.COPY, Ops.SHARD, Ops.AFTER}
_END = -(2**63) + 1


def movement(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a movement, a reduction or a leaf; None for any other."""
    if node.op in _SAME:
        return node.src[0]
    planner = _PLANNERS.get(node.op)
    return None if planner is None else planner(writer, node)


def _reshape(writer: GraphWriter, node: UOp) -> NodePlan:
    """Squeeze, Unsqueeze, or Reshape with 0 for a size that stays and one -1."""
    source = node.src[0]
    if source.op in (Ops.BUFFER, Ops.MULTI) and is_concrete(node.shape):
        return _stored(writer, node)
    if source.shape == node.shape or source.op is Ops.RESHAPE:
        return source if source.shape == node.shape else UOp(Ops.RESHAPE, node.dtype,
                                                             (source.src[0], *node.src[1:]), node.arg)  # fmt: skip
    added = _ones_added(source.shape, node.shape)
    if added is not None:
        return WriteStep((source,), lambda x: writer.node("Unsqueeze", [x, writer.vector(added)]))
    removed = _ones_added(node.shape, source.shape)
    if removed is not None:
        pooled = source.op is Ops.REDUCE_AXIS and source.src[0].op is Ops.WINDOW
        if source.op is Ops.REDUCE_AXIS and removed == list(source.arg.axes) and not pooled:
            plan = reduction(writer, source, keep=False)
            if plan is not None:
                return plan
        return WriteStep((source,), lambda x: writer.node("Squeeze", [x, writer.vector(removed)]))
    sizes, open_sizes = _target(source.shape, node.shape)
    has_zero = 0 in node.shape
    if has_zero:
        sizes, open_sizes = list(node.shape), symbolic(node.shape)
    more = {"allowzero": 1} if has_zero else {}
    return WriteStep(
        (source, *open_sizes), lambda x, *_: writer.node("Reshape", [x, writer.vector(sizes)], **more)
    )  # fmt: skip


def _target(old: Shape, new: Shape) -> tuple[list[sint], tuple[UOp, ...]]:
    """Return the vector of a Reshape, and the sizes in it that have to be computed.

    In it 0 is a symbolic size that stays, and one other symbolic size is -1.
    """
    sizes: list[sint] = []
    for axis, size in enumerate(new):
        stays = not isinstance(size, int) and axis < len(old) and old[axis] is size
        sizes.append(0 if stays else size)
    left = [axis for axis, size in enumerate(sizes) if not isinstance(size, int)]
    if len(left) == 1:
        sizes[left[0]] = -1
    return sizes, symbolic(sizes)


def _ones_added(few: Shape, many: Shape) -> list[int] | None:
    """Return the axes of size 1 by which `many` has more than `few`, None where that is not the difference."""
    if len(few) >= len(many):
        return None
    axes, at = [], 0
    for axis, size in enumerate(many):
        if at < len(few) and (few[at] is size or few[at] == size):
            at += 1
        elif isinstance(size, int) and size == 1:
            axes.append(axis)
        else:
            return None
    return axes if at == len(few) else None


def _expand(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of an EXPAND; its source where no size changes."""
    source = node.src[0]
    sizes = [1 if old is new else new for old, new in zip(source.shape, node.shape, strict=True)]
    if all(isinstance(size, int) and size == 1 for size in sizes):
        return source
    return WriteStep((source, *symbolic(sizes)), lambda x, *_: writer.node("Expand", [x, writer.vector(sizes)]))


def _permute(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Transpose; the source where the order stays."""
    if node.arg == tuple(range(len(node.arg))):
        return node.src[0]
    return WriteStep((node.src[0],), lambda x: writer.node("Transpose", [x], perm=list(node.arg)))


def _flip(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Slice with steps of -1."""
    axes = list(node.arg)

    def write(x: str) -> str:
        vectors = [writer.vector([number] * len(axes)) for number in (-1, _END)]
        return writer.node("Slice", [x, *vectors, writer.vector(axes), vectors[0]])

    return WriteStep((node.src[0],), write)


def _pad(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a PAD with zeros."""
    return padding(writer, node, False if node.dtype is dtypes.bool else 0)


def padding(writer: GraphWriter, node: UOp, value: bool | int | float) -> WriteStep:
    """Return the plan of a PAD with `value` in its padding."""
    pads = [*(before for before, _ in node.arg), *(after for _, after in node.arg)]

    wide = dtypes.int32 if node.dtype in (dtypes.int16, dtypes.uint16) else node.dtype

    def write(x: str, *_: str) -> str:
        given = x if wide is node.dtype else writer.cast(x, wide)
        found: str = writer.node("Pad", [given, writer.vector(pads), writer.constant(value, wide)])
        return found if wide is node.dtype else writer.cast(found, node.dtype)

    return WriteStep((node.src[0], *symbolic(pads)), write)


def padded_with(node: UOp) -> tuple[UOp, bool | int | float] | None:
    """Return the PAD and the value of WHERE(PAD(True), PAD(x), value); None for others.

    Tensor.pad makes that of a value.
    """
    if node.op is not Ops.WHERE:
        return None
    inside, padded, other = node.src
    value = const_of(other)
    if inside.op is not Ops.PAD or padded.op is not Ops.PAD or inside.arg != padded.arg or value is None:
        return None
    return (padded, value) if const_of(inside.src[0]) is True else None


def _shrink(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Slice of the axes that are cut; the source where none is."""
    source = node.src[0]
    bounds = [
        (axis, start, end)
        for axis, ((start, end), size) in enumerate(zip(node.arg, source.shape, strict=True))
        if not (isinstance(start, int) and start == 0 and (end is size or end == size))
    ]
    if not bounds:
        return source
    axes, starts, ends = (list(each) for each in zip(*bounds, strict=True))

    def write(x: str, *_: str) -> str:
        return writer.node("Slice", [x, writer.vector(starts), writer.vector(ends), writer.vector(axes)])

    return WriteStep((source, *symbolic([*starts, *ends])), write)


def _cat(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Concat."""
    count = sum(source.dtype is not dtypes.index for source in node.src)
    sources = node.src[:count]
    return WriteStep(sources, lambda *names: writer.node("Concat", names, axis=node.arg))


def _reduce(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a reduction that keeps its axes."""
    return reduction(writer, node, keep=True)


def reduction(writer: GraphWriter, node: UOp, keep: bool) -> WriteStep | None:
    """The plan of a REDUCE_AXIS; small integers and bools are reduced as int32, uint32 and uint64 as int64."""
    name, dtype = _REDUCE.get(node.arg.op), onnx_dtype(node.dtype)
    if name is None:
        return None
    wide = dtypes.int64 if dtype in (dtypes.uint32, dtypes.uint64) else dtypes.int32
    narrow = dtype.kind in ("bool", "int", "uint") and dtype not in (dtypes.int32, dtypes.int64)
    ordered = dtype is dtypes.uint64 and node.arg.op in (Ops.MAX, Ops.MIN)

    def write(x: str) -> str:
        given = writer.cast(x, wide) if narrow else x
        half = writer.constant(-(2**63), dtypes.int64) if ordered else ""  # added, it gives int64 the order of uint64
        given = writer.node("Add", [given, half]) if ordered else given
        found = writer.node(name, [given, writer.vector(list(node.arg.axes))], keepdims=int(keep))
        found = writer.node("Add", [found, half]) if ordered else found
        return writer.cast(found, dtype) if narrow else found

    return WriteStep((node.src[0],), write)


# Leaves


def _const(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of an initializer."""
    return WriteStep((), lambda: writer.folded(node))


def _stored(writer: GraphWriter, node: UOp) -> NodePlan:
    """A weight, once, under the name that the model has for it."""
    base = node.src[0] if node.op is Ops.RESHAPE else node

    def write() -> str:
        name, shape = writer.weights.get(base, ("weight", node.shape))
        if base not in writer.held:
            whole = base if base.shape == shape else UOp(Ops.RESHAPE, base.dtype, (base,), shape)
            writer.held[base] = writer.store(writer.fresh(name), Tensor(0)._wrap(whole), tuple(shape))
        if writer.shapes[writer.held[base]] == node.shape:
            return writer.held[base]
        return writer.node("Reshape", [writer.held[base], writer.vector(node.shape)])

    return WriteStep((), write)


def _iota(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Range from 0."""
    (length,) = node.arg if isinstance(node.arg, tuple) else (node.arg,)
    return WriteStep(symbolic([length]), lambda *names: _range(writer, node, length, names))


def _range(writer: GraphWriter, node: UOp, length: sint, names: Sequence[str]) -> str:
    """Write the numbers from 0 to `length`, which `names` has where it is symbolic; return their name."""
    end = names[0] if names else writer.constant(int(length), dtypes.int64)
    zero, one = (writer.constant(number, dtypes.int64) for number in (0, 1))
    found: str = writer.node("Range", [zero, end, one])
    return found if onnx_dtype(node.dtype) is dtypes.int64 else writer.cast(found, node.dtype)


def _size(writer: GraphWriter, node: UOp) -> NodePlan:
    """A symbolic size, from the shape of an input that has it."""
    if node not in writer.sizes:
        raise writer.refuse(node, "a symbolic size becomes ONNX where it is one of an input, named in dynamic_axes")
    name, axis = writer.sizes[node]

    def write() -> str:
        shape = writer.node("Shape", [name], start=axis, end=axis + 1)
        return writer.node("Squeeze", [shape, writer.vector([0])])

    return WriteStep((), write)


_PLANNERS: dict[Ops, Callable[[GraphWriter, UOp], NodePlan]] = {
    Ops.RESHAPE: _reshape, Ops.EXPAND: _expand, Ops.PERMUTE: _permute, Ops.FLIP: _flip, Ops.PAD: _pad,
    Ops.SHRINK: _shrink, Ops.CAT: _cat, Ops.REDUCE_AXIS: _reduce, Ops.CONST: _const, Ops.BUFFER: _stored,
    Ops.MULTI: _stored, Ops.IOTA: _iota, Ops.VARIABLE: _size, Ops.BIND: _size,
}  # fmt: skip
