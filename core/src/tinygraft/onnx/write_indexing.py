"""Gathers, scatters, running reductions, assignments and sorting as operators of ONNX.

An index outside the axis reads 0 and stores nothing in the graph. ONNX refuses such an index, so it is replaced where
it cannot be ruled out; but an index of the form that t[i] makes, where a negative one counts from the end, is a
Gather: there the runtime raises what tinygraft reads as 0.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygraft.dtype import dtypes
from tinygraft.onnx.element_types import element_of
from tinygraft.onnx.graph_writer import GraphWriter, NodePlan, WriteStep, symbolic
from tinygraft.onnx.write_elementwise import chosen, const_of, without_expand
from tinygraft.onnx.write_products import reshaped, times
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops, ScatterArg
from tinygraft.uop.sizes import is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp

_REDUCTIONS = {None: "none", Ops.ADD: "add", Ops.MUL: "mul", Ops.MAX: "max", Ops.MIN: "min"}


def indexing(writer: GraphWriter, node: UOp) -> NodePlan:
    """The plan of a node that moves values by computed indices; None for any other."""
    planner = _PLANNERS.get(node.op)
    return None if planner is None else planner(writer, node)


def _gather(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a Gather: 0 where an index is outside, which is tested where its bounds do not tell."""
    source, index = node.src[:2]
    size, axis = source.shape[node.arg], node.arg
    plain = _counted_from_either_end(index, size)
    if plain is not None or _is_inside(index, size):
        return WriteStep(
            (source, index if plain is None else plain), lambda x, i: writer.node("Gather", [x, i], axis=axis)
        )
    more = symbolic([size])

    def write(x: str, i: str, *names: str) -> str:
        valid, safe = _guarded(writer, index, i, names[0] if names else size)
        found = writer.node("Gather", [x, safe], axis=axis)
        behind = len(source.shape) - axis - 1
        if behind:
            axes = [axis + len(index.shape) + number for number in range(behind)]
            valid = writer.node("Unsqueeze", [valid, writer.vector([at - axis for at in axes])])
        return chosen(writer, node.dtype, valid, found, writer.constant(0, node.dtype))

    return WriteStep((source, index, *more), write)


def _guarded(writer: GraphWriter, index: UOp, name: str, size: str | int) -> tuple[str, str]:
    """Where an index is inside the axis, and it with 0 where it is not."""
    zero = writer.constant(0, dtypes.int64)
    end = size if isinstance(size, str) else writer.constant(size, dtypes.int64)
    name = name if index.dtype is dtypes.int64 else writer.cast(name, dtypes.int64)
    not_negative = writer.node("Not", [writer.node("Less", [name, zero])])
    valid = writer.node("And", [not_negative, writer.node("Less", [name, end])])
    return valid, writer.node("Where", [valid, name, zero])


def _counted_from_either_end(index: UOp, size: object) -> UOp | None:
    """Return the i of WHERE(i < 0, i + size, i), None for another index."""
    if index.op is not Ops.WHERE or index.src[0].op is not Ops.CMPLT or index.src[1].op is not Ops.ADD:
        return None
    plain, (negative, zero), (moved, by) = index.src[2], index.src[0].src, index.src[1].src
    if negative is not plain or moved is not plain or const_of(zero) != 0:
        return None
    by = without_expand(by)
    while by.op in (Ops.CAST, Ops.RESHAPE):
        by = by.src[0]
    fits = by is size or (isinstance(size, int) and const_of(by) == size)
    return plain if fits and plain.dtype in (dtypes.int32, dtypes.int64) else None


def _is_inside(index: UOp, size: object) -> bool:
    """Return whether the bounds of an index are inside an axis of `size`."""
    if index.dtype not in (dtypes.int32, dtypes.int64) or not isinstance(size, int):
        return False
    bounds = bounds_at(index)
    return bounds is not None and bounds[0] >= 0 and bounds[1] < size


def bounds_at(index: UOp) -> tuple[int, int] | None:
    """Return the least and greatest value of an index that is a constant or counts, None where that is not known."""
    if index.lo is not None and (index.lo > -(2**30) or index.hi < 2**30):
        return index.lo, index.hi
    return None


def _scatter(writer: GraphWriter, node: UOp) -> NodePlan:
    """ScatterND of rows at indices along the first axis; what is outside goes to a row that is cut off again."""
    base, index, value = node.src[:3]
    arg: ScatterArg = node.arg
    reduction = _REDUCTIONS.get(arg.op)
    if reduction is None:
        raise writer.refuse(node, f"ONNX has no scatter that combines by {arg.op.name if arg.op else 'nothing'}")
    axis, size, count = arg.axis, base.shape[arg.axis], times(index.shape)
    behind = base.shape[axis + 1 :]
    rows = reshaped(value, (*base.shape[:axis], count, *behind))
    flat = reshaped(index, (count,))
    order = (axis, *(each for each in range(len(base.shape)) if each != axis))
    if axis:
        base, rows = (UOp(Ops.PERMUTE, each.dtype, (each,), order) for each in (base, rows))
    pad = UOp(Ops.PAD, base.dtype, (base,), ((0, 1), *((0, 0) for _ in behind), *((0, 0) for _ in range(axis))))
    made = UOp.placeholder(base.shape, node.dtype, None, "onnx.export")

    def write(table: str, at: str, given: str, *names: str) -> str:
        end = names[0] if names else writer.constant(size, dtypes.int64)
        at = at if index.dtype is dtypes.int64 else writer.cast(at, dtypes.int64)
        not_negative = writer.node("Not", [writer.node("Less", [at, writer.constant(0, dtypes.int64)])])
        valid = writer.node("And", [not_negative, writer.node("Less", [at, end])])
        at = writer.node("Unsqueeze", [writer.node("Where", [valid, at, end]), writer.vector([1])])
        narrow = node.dtype if node.dtype.kind in ("bool", "int", "uint") and node.dtype.itemsize < 4 else None
        if narrow is not None:
            table, given = writer.cast(table, dtypes.int32), writer.cast(given, dtypes.int32)
        found = writer.node("ScatterND", [table, at, given], reduction=reduction)
        found = found if narrow is None else writer.cast(found, narrow)
        ends = writer.vector([size]) if isinstance(size, int) else writer.node("Unsqueeze", [end, writer.vector([0])])
        return writer.node("Slice", [found, writer.vector([0]), ends, writer.vector([0])])

    writer.plan(made, WriteStep((pad, flat, rows, *symbolic([size])), write))
    return UOp(Ops.PERMUTE, node.dtype, (made,), tuple(order.index(each) for each in range(len(order)))) if axis else (
        made
    )  # fmt: skip


def _scan(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a CumSum, or of a Scan whose body is one operator; raises what `refuse` returns for others."""
    axis, op = node.arg.axis, node.arg.op
    dtype = node.dtype
    wide = dtypes.int64 if dtype in (dtypes.uint32, dtypes.uint64) else dtypes.int32
    narrow = dtype.kind in ("bool", "int", "uint") and dtype not in (dtypes.int32, dtypes.int64)
    of = wide if narrow else dtype
    if op is Ops.ADD:

        def cumulated(x: str) -> str:
            given = writer.cast(x, of) if narrow else x
            found: str = writer.node("CumSum", [given, writer.constant(axis, dtypes.int64)])
            return writer.cast(found, dtype) if narrow else found

        return WriteStep((node.src[0],), cumulated)
    name = {Ops.MAX: "Max", Ops.MIN: "Min", Ops.MUL: "Mul"}.get(op)
    identity = FACTS[op].identity
    if name is None or identity is None or (dtype is dtypes.uint64 and op is not Ops.MUL):
        raise writer.refuse(node, f"ONNX has no running reduction by {op.name} of {dtype}")
    line = (*node.shape[:axis], *node.shape[axis + 1 :])
    first = UOp.const(of, identity(of), None)

    def scanned(x: str, *_: str) -> str:
        from onnx import helper

        given = writer.cast(x, of) if narrow else x
        start = writer.node("Expand", [writer.constant(first.arg, of), writer.vector(line)])
        kind = element_of(of)
        values = {each: helper.make_tensor_value_info(each, kind, None) for each in ("so_far", "next", "now", "out")}
        body = helper.make_graph(
            [helper.make_node(name, ["so_far", "next"], ["now"]), helper.make_node("Identity", ["now"], ["out"])],
            "running", [values["so_far"], values["next"]], [values["now"], values["out"]],
        )  # fmt: skip
        found = writer.several(
            "Scan", [start, given], 2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
            scan_output_axes=[axis],
        )[1]  # fmt: skip
        return writer.cast(found, dtype) if narrow else found

    return WriteStep((node.src[0], *symbolic(line)), scanned)


def _assign(writer: GraphWriter, node: UOp) -> NodePlan:
    """The old value with another in a view of it, as a scatter at the indices that the view reads."""
    old, value = node.src[:2]
    view = next((source for source in node.src[2:] if source.dtype is not dtypes.index), None)
    if view is None:
        return value
    chain, each = [], view
    while each is not old:
        if each.op in ELEMENTWISE or not each.src:
            raise writer.refuse(node, "ONNX has no assignment to this view")
        chain.append(each)
        each = each.src[0]
    if not is_concrete(old.shape):
        raise writer.refuse(node, "an assignment to a part becomes ONNX where the sizes of the whole are numbers")
    count = times(old.shape)
    index = UOp(Ops.IOTA, dtypes.int64, (UOp.on(node.device),), (count,))
    index = reshaped(index, old.shape)
    for each in reversed(chain):
        index = UOp(each.op, dtypes.int64, (index, *each.src[1:]), each.arg)
    length = times(index.shape)
    found = UOp(
        Ops.SCATTER, node.dtype,
        (reshaped(old, (count,)), reshaped(index, (length,)), reshaped(value, (length,))), ScatterArg(0, None),
    )  # fmt: skip
    return UOp(Ops.RESHAPE, node.dtype, (found, *symbolic_sizes(old.shape)), old.shape)


def _transform(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of one part of a Fourier transform, as DFT along axis 1 of pairs (real, imaginary).

    The inverse of DFT divides by the length, that of the routines does not. Of irfft the numbers that are not given
    are gathered first: they mirror those that are.
    """
    kind, inverse = node.arg.routine, bool(node.arg.options[0])
    length = int(node.arg.options[1]) if kind == "irfft" else int(node.src[0].shape[1])
    dtype, pair = node.dtype, len(node.src[0].shape)

    def mirrored(names: tuple[str, ...]) -> tuple[str, ...]:
        """Return names of the real and imaginary parts of all `length` numbers."""
        given = [min(number, length - number) for number in range(length)]
        signs = [0.0 if 2 * number % length == 0 else 1.0 if 2 * number < length else -1.0 for number in range(length)]
        real, imaginary = (writer.node("Gather", [name, writer.vector(given)], axis=1) for name in names)
        return real, writer.node("Mul", [imaginary, writer.constant(signs, dtype, (length,))])

    def transformed(names: tuple[str, ...]) -> str:
        """Return the name of the transform (rows, length, ..., 2) of all parts."""
        columns = [writer.node("Unsqueeze", [name, writer.vector([pair])]) for name in names]
        rows = columns[0] if len(columns) == 1 else writer.node("Concat", columns, axis=pair)
        axis, back = writer.constant(1, dtypes.int64), inverse and kind != "rfft"
        found = writer.node("DFT", [rows, "", axis], inverse=int(back), onesided=int(kind == "rfft"))
        return writer.node("Mul", [found, writer.constant(float(length), dtype)]) if back else found

    def write(*names: str) -> str:
        key = (kind, *names, node.arg.options)
        if key not in writer.shared:
            writer.shared[key] = [transformed(mirrored(names) if kind == "irfft" else names)]
        number = writer.constant(node.arg.result, dtypes.int64)
        part = writer.node("Gather", [writer.shared[key][0], number], axis=pair)
        # of real rows the inverse is the conjugate
        return writer.node("Neg", [part]) if kind == "rfft" and inverse and node.arg.result else part

    return WriteStep(tuple(node.src), write)


def _routine(writer: GraphWriter, node: UOp) -> NodePlan:
    """Return the plan of a sort or topk, as TopK, or of a Fourier transform; raises `refuse` for other routines."""
    arg, source = node.arg, node.src[0]
    if arg.routine in ("fft", "rfft", "irfft"):
        return _transform(writer, node)
    if arg.routine not in ("sort", "topk"):
        raise writer.refuse(node, f"ONNX has no operator for the routine {arg.routine}")
    count = source.shape[-1] if arg.routine == "sort" else arg.options[0]
    largest = int(arg.options[0] if arg.routine == "sort" else arg.options[1])
    dtype = source.dtype
    wide = _WIDE_KEYS.get(dtype)

    def write(x: str) -> str:
        key = (x, count, largest)
        if key not in writer.shared:
            given = x if wide is None else writer.cast(x, wide)
            writer.shared[key] = writer.several(
                "TopK", [given, writer.vector([count])], 2, axis=-1, largest=largest, sorted=1
            )
        values, indices = writer.shared[key]
        if arg.result:
            return writer.cast(indices, node.dtype)
        return values if wide is None else writer.cast(values, dtype)

    return WriteStep((source,), write)


_WIDE_KEYS = {
    dtypes.bool: dtypes.int32, dtypes.int8: dtypes.int32, dtypes.int16: dtypes.int32, dtypes.uint8: dtypes.int32,
    dtypes.uint16: dtypes.int32, dtypes.uint32: dtypes.int64, dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
}  # fmt: skip
_PLANNERS: dict[Ops, Callable[[GraphWriter, UOp], NodePlan]] = {
    Ops.GATHER: _gather, Ops.SCATTER: _scatter, Ops.SCAN: _scan, Ops.ASSIGN: _assign, Ops.ROUTINE: _routine,
}  # fmt: skip
