"""Derivatives of the ops that choose, multiply many or store: the rows of `vjp.py` that take more than a line.

Each rule takes the node `n` and its gradient `g`, and returns the gradient with respect to one source. Where several
values could be the chosen one (ties), MAX and MIN share the gradient equally among them, as elementwise ops and as
reductions; but of a tie with a constant the other operand gets nothing, and a running maximum gives all to the latest
of them. Where the result is NaN nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable

from tinygraft.autograd.build import (
    add_up,
    add_up_from_end,
    expand,
    flip,
    full,
    full_like,
    gather,
    iota,
    is_number,
    pad,
    permute,
    reduce_axes,
    reshape,
    scan,
    scatter,
    shrink,
)
from tinygraft.dtype import accumulator, dtypes
from tinygraft.errors import GraphError
from tinygraft.helpers import argsort, prod
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.uop import UOp, substitute


def where_true(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the second source of WHERE: g where the condition holds, else 0."""
    return n.src[0].where(g, full_like(g, 0.0))


def where_false(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the third source of WHERE: 0 where the condition holds, else g."""
    return n.src[0].where(full_like(g, 0.0), g)


def routine_operand(n: UOp, g: UOp) -> UOp:
    """Return the gradient of the values of sort and topk: each goes to where its value came from.

    Raises GraphError for another routine: their derivatives are FUNCTIONs around them.
    """
    if n.arg.routine not in ("sort", "topk"):
        raise GraphError(f"the routine {n.arg.routine} has no derivative of its own")
    rows, size = n.src[0].shape
    indices = UOp(Ops.ROUTINE, dtypes.int32, n.src, RoutineArg(n.arg.routine, 1, n.arg.options))
    start = expand(reshape(iota(rows, n.device).cast(dtypes.int64) * size, (rows, 1)), n.shape)
    flat = reshape(indices.cast(dtypes.int64) + start, (prod(n.shape),))
    zeros = full((rows * size,), 0.0, n.dtype, n.device)
    return reshape(scatter(zeros, flat, reshape(g, (prod(n.shape),)), 0, None), (rows, size))


def _chosen(n: UOp, g: UOp, mine: UOp, other: UOp) -> UOp:
    """Return the gradient of MAX or MIN to `mine`: 0 where it loses to `other`, half where both are equal, else all.

    Where `other` is a constant the comparison reads the result alone, so that the gradient of relu needs no operand in
    memory; a tie then gives 0.
    """
    if is_number(other):
        won = other < n if n.op is Ops.MAX else n < other
        return won.where(g, full_like(g, 0.0))
    lost = mine < other if n.op is Ops.MAX else other < mine
    return lost.where(full_like(g, 0.0), mine.eq(other).where(g * 0.5, g))


def extreme_a(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the first operand of MAX or MIN, where it is chosen."""
    return _chosen(n, g, *n.src)


def extreme_b(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the second operand of MAX or MIN, where it is chosen."""
    return _chosen(n, g, n.src[1], n.src[0])


def reduce_extreme(n: UOp, g: UOp) -> UOp:
    """Return the gradient of MAX or MIN over axes: an equal share for each element that equals the result."""
    x = n.src[0]
    hit = x.eq(expand(n, x.shape))
    wide = accumulator(x.dtype)  # half types count to 2,048 or less exactly
    share = g.cast(wide) / add_up(hit.cast(wide), n.arg.axes)
    return hit.where(expand(share.cast(x.dtype), x.shape), full_like(x, 0.0))


def reduce_mul(n: UOp, g: UOp) -> UOp:
    """Return the gradient of a product over axes: g times the product of the other elements.

    That product is result / element, except at a zero: there it is the product of the other elements if this is the
    only zero, and 0 if there are more. A second derivative is exact where at most one of the elements is zero.
    """
    x = n.src[0]
    zero = x.eq(0.0)
    one_zero = reduce_axes(Ops.ADD, zero.cast(dtypes.int32), n.arg.axes).eq(1)
    others = reduce_axes(Ops.MUL, zero.where(full_like(x, 1.0), x), n.arg.axes)
    at_zero = expand(one_zero.where(g * others, full_like(g, 0.0)), x.shape)
    # 1 in place of a zero divisor: a second derivative would be NaN in the branch that is not chosen
    return zero.where(at_zero, expand(g * n, x.shape) / zero.where(full_like(x, 1.0), x))


def scan_mul(n: UOp, g: UOp) -> UOp:
    """Return the gradient of a running product y: for element k the sum over i >= k of g[i] * y[i] / x[k].

    At the first zero, where the division is not possible, y is computed again with a 1 instead of that zero. The
    elements after it have the gradient 0.
    """
    x, axis = n.src[0], n.arg.axis
    zero = x.eq(0.0)
    first = zero & scan(Ops.ADD, zero.cast(dtypes.int32), axis).eq(1)
    without = scan(Ops.MUL, first.where(full_like(x, 1.0), x), axis)
    elsewhere = add_up_from_end(g * n, axis) / zero.where(full_like(x, 1.0), x)
    at_zero = first.where(add_up_from_end(g * without, axis), full_like(x, 0.0))
    return zero.where(at_zero, elsewhere)


def scan_extreme(n: UOp, g: UOp) -> UOp:
    """Return the gradient of a running maximum or minimum: each output's goes to the latest element that equals it.

    The index of that element is a running maximum of indices; the gradients are added there by one SCATTER.
    """
    x, axis = n.src[0], n.arg.axis
    length, outer = x.shape[axis], prod(x.shape[:axis]) * prod(x.shape[axis + 1 :])
    index = _repeated_along(iota(length, x.device), x, axis)
    latest = scan(Ops.MAX, x.eq(n).where(index, full_like(index, 0)), axis)
    rows = _last(latest, axis)  # each scan is one row of a matrix; a flat index of it is row * length + latest
    row = expand(reshape(iota(outer, x.device), (outer, 1)), (outer, length)).cast(rows.dtype)
    flat = reshape(row * length + reshape(rows, (outer, length)), (outer * length,))
    value = reshape(_last(g, axis), (outer * length,))
    total = scatter(full((outer * length,), 0.0, g.dtype, g.device), flat, value, 0, Ops.ADD)
    order = (*(i for i in range(len(x.shape)) if i != axis), axis)
    return permute(reshape(total, tuple(x.shape[i] for i in order)), argsort(order))


def _repeated_along(line: UOp, x: UOp, axis: int) -> UOp:
    """Return the numbers of `line`, of one axis, along `axis` of the shape of `x`, repeated along the other axes."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(x.shape))
    return expand(reshape(line, shape), x.shape)


def _last(x: UOp, axis: int) -> UOp:
    """Return `x` with `axis` moved to the end."""
    return permute(x, (*(i for i in range(len(x.shape)) if i != axis), axis))


def gather_table(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the table of a GATHER: for each element the sum over all of its reads."""
    table, index = n.src
    return scatter(full_like(table, 0.0), index, g, n.arg, Ops.ADD)


def scatter_base(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the base of a SCATTER: 0 where a value was stored, all of it where values were added.

    Of a product it is multiplied by the values, of a MAX or MIN shared among the elements that equal the result.
    """
    base, index, value = n.src
    axis, op = n.arg.axis, n.arg.op
    if op is Ops.ADD:
        return g
    if op is None:
        return scatter(g, index, full_like(value, 0.0), axis)
    if op is Ops.MUL:
        return scatter(g, index, value, axis, Ops.MUL)
    return base.eq(n).where(g / _hits(n), full_like(g, 0.0))


def scatter_value(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the values of a SCATTER: that at the index, if the value was stored there or added.

    Of a product it is multiplied by all others at the index, of a MAX or MIN shared as in `scatter_base`.
    """
    _, index, value = n.src
    axis, op = n.arg.axis, n.arg.op
    if op is Ops.ADD:
        return gather(g, index, axis)
    if op is None:
        return _survives(n).where(gather(g, index, axis), full_like(value, 0.0))
    if op is Ops.MUL:
        return _scatter_mul_value(n, g)
    hit = value.eq(gather(n, index, axis))
    return hit.where(gather(g / _hits(n), index, axis), full_like(value, 0.0))


def _survives(n: UOp) -> UOp:
    """Return where the values of a storing SCATTER are in the result, as bools: the last one for each index is."""
    base, index, value = n.src
    axis = n.arg.axis
    # store the numbers of the values in the same way, and see which are left
    order = reshape(iota(prod(index.shape), base.device), index.shape)
    last = scatter(full((base.shape[axis],), -1, order.dtype, base.device), index, order, 0)
    wins = gather(last, index, 0).eq(order)
    inside = (1,) * axis + index.shape + (1,) * (len(base.shape) - axis - 1)
    return expand(reshape(wins, inside), value.shape)


def _hits(n: UOp) -> UOp:
    """Return how many of base and values of a SCATTER by MAX or MIN equal the result; 1 where that is NaN."""
    base, index, value = n.src
    axis = n.arg.axis
    of_value = value.eq(gather(n, index, axis)).cast(n.dtype)
    return scatter(base.eq(n).cast(n.dtype), index, of_value, axis, Ops.ADD).maximum(1.0)


def _scatter_mul_value(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the values of a SCATTER by MUL: g times all others at that index, as in `reduce_mul`."""
    base, index, value = n.src
    axis = n.arg.axis
    zero = value.eq(0.0)
    others = zero.where(full_like(value, 1.0), value)
    zeros = scatter(full(base.shape, 0, dtypes.int32, base.device), index, zero.cast(dtypes.int32), axis, Ops.ADD)
    product = scatter(base, index, others, axis, Ops.MUL)
    at_zero = gather(zeros.eq(1).where(g * product, full_like(g, 0.0)), index, axis)
    return zero.where(at_zero, gather(g * n, index, axis) / others)


def assign_value(n: UOp, g: UOp) -> UOp:
    """Return the gradient to an assigned value: that of the elements that it was assigned to."""
    if len(n.src) == 2:  # without a view all of the old value is replaced
        return g
    return substitute(n.src[2], {n.src[0]: g})


def _unstrided(v: UOp, ones: UOp) -> UOp:
    """Return `ones`, of the shape of a WINDOW of size 1, in the shape of its source: 0 at elements between strides."""
    first = len(v.src[0].shape) - len(v.arg.length)
    x = reshape(ones, ones.shape[: len(v.src[0].shape)])
    for axis, (length, count, stride) in enumerate(zip(v.arg.length, v.arg.count, v.arg.stride, strict=True), first):
        outer, inner = x.shape[:axis], x.shape[axis + 1 :]
        x = reshape(x, (*outer, count, 1, *inner))
        x = reshape(pad(x, [(0, stride - 1 if i == axis + 1 else 0) for i in range(len(x.shape))]),
                    (*outer, count * stride, *inner))  # fmt: skip
        if count * stride < length:
            x = pad(x, [(0, length - count * stride if i == axis else 0) for i in range(len(x.shape))])
        else:
            x = shrink(x, [(0, length if i == axis else size) for i, size in enumerate(x.shape)])
    return x


def _folded(v: UOp, x: UOp) -> UOp:
    """Return `x`, of the shape of a WINDOW, in the shape of its source.

    Windows do not overlap here: `assign` raises for a view in which they do.
    """
    if all(size == 1 for size in v.arg.size):
        return _unstrided(v, x)
    wide = x.cast(dtypes.int32) if x.dtype is dtypes.bool else x  # FOLD adds, which bools do not
    return UOp(Ops.FOLD, wide.dtype, (wide,), v.arg).cast(x.dtype)


def _gathered(v: UOp, x: UOp) -> UOp:
    """Return `x`, of the shape of an EXPAND, in the shape of its source.

    A sum, since at most one of the copies of an element is written and the others are 0.
    """
    wide = x.cast(dtypes.int32) if x.dtype is dtypes.bool else x
    source = v.src[0].shape
    axes = tuple(i for i, (new, old) in enumerate(zip(v.shape, source, strict=True)) if new is not old and new != old)
    return reshape(reduce_axes(Ops.ADD, wide, axes), source).cast(x.dtype)


_BACK: dict[Ops, Callable[[UOp, UOp], UOp]] = {
    Ops.RESHAPE: lambda v, ones: reshape(ones, v.src[0].shape),
    Ops.WINDOW: _folded,
    Ops.EXPAND: _gathered,
    Ops.PERMUTE: lambda v, ones: permute(ones, argsort(v.arg)),
    Ops.FLIP: lambda v, ones: flip(ones, v.arg),
    Ops.SHRINK: lambda v, ones: pad(
        ones, [(start, size - end) for (start, end), size in zip(v.arg, v.src[0].shape, strict=True)]
    ),
    Ops.PAD: lambda v, ones: shrink(
        ones, [(before, before + size) for (before, _), size in zip(v.arg, v.src[0].shape, strict=True)]
    ),
}


def read_back(view: UOp, x: UOp) -> UOp:
    """Return `x`, of the shape of the movement `view`, in the shape of its source: 0 where that is not read."""
    return _BACK[view.op](view, x)


def assign_old(n: UOp, g: UOp) -> UOp:
    """Return the gradient to the old value of an assignment: g where the view did not write, else 0.

    The mask of the written elements is made by inverting the movements of the view, from the last to the first.
    """
    old, value, view = n.src
    mask = full(value.shape, True, dtypes.bool, n.device)
    while view is not old:
        mask = read_back(view, mask)
        view = view.src[0]
    return mask.where(full_like(g, 0.0), g)
