"""How the contributions of several users to the gradient of one node are added.

    total(parts)              their sum
    separate(node, parts)     what `node` passes on: their sum, or several gradients that are passed on one by one

The parts that a value was cut into give a CAT, scattered contributions are scattered into the others, and the matrix
products of a weight that is used again and again, as in the steps of an LSTM, are one product over all uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tinygraft.autograd.build import expand, expanded_axes, full, is_number
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

# assumed: an element is copied in the time of ten multiplications; a use of more rows is a good product by itself
MOST_COPIED = 4  # times the elements of the result that a use may read to be joined with others


def total(parts: Sequence[UOp]) -> UOp:
    """Return the sum of contributions, in their order."""
    sum_, *others = _joined_pads(parts)
    for part in others:
        sum_ = _added(sum_, part)
    return sum_


def separate(node: UOp, parts: Sequence[UOp]) -> list[UOp]:
    """Return the contributions to `node` as it passes them on: what matrix products give apart from the sum of others.

    A weight that is used again is one EXPAND in all of its uses. Each use is a matrix product also backward; products
    that are added before they are summed are none, and took ten times as long. Those over few rows are one product over
    the rows of all, whose size along an axis that EXPAND adds is then another than that of `node`.
    """
    products = [part for part in parts if _is_contracted(node, part)]
    if len(parts) < 2 or not products:
        return [total(parts)]
    others = [part for part in parts if not _is_contracted(node, part)]
    return [*([total(others)] if others else ()), *_joined_products(node, products)]


def _is_contracted(node: UOp, part: UOp) -> bool:
    """Return whether a contribution to `node` is that of a matrix product, whose products are summed next."""
    return node.op is Ops.EXPAND and part.op is Ops.MUL and all(source.op is Ops.EXPAND for source in part.src)


def _joined_products(node: UOp, products: Sequence[UOp]) -> list[UOp]:
    """Return contributions to the EXPAND `node` with those of operands of equal shapes as one, where that pays.

    The operands of all are put together along an axis that `node` adds, which is summed next.
    """
    alike: dict[tuple[object, ...], list[UOp]] = {}
    for product in products:
        alike.setdefault(tuple([source.src[0].shape for source in product.src]), []).append(product)
    found: list[UOp] = []
    for members in alike.values():
        axis = _axis_to_join(node, members[0]) if len(members) > 1 else None
        found += members if axis is None else [_one_product(members, axis)]
    return found


def _axis_to_join(node: UOp, product: UOp) -> int | None:
    """Return an axis that `node` adds and that both operands of `product` have; None where joining does not pay."""
    operands = [source.src[0] for source in product.src]
    if not all(is_concrete(value.shape) for value in (product, *operands)) or isinstance(node.device, tuple):
        return None
    if sum([prod(operand.shape) for operand in operands]) > MOST_COPIED * prod(node.src[0].shape):
        return None
    axes = [axis for axis in expanded_axes(node.src[0].shape, node.shape)
            if all(operand.shape[axis] == product.shape[axis] for operand in operands)]  # fmt: skip
    return axes[0] if axes else None


def _one_product(members: Sequence[UOp], axis: int) -> UOp:
    """Return the products `members` along `axis` one after another, as the product of their operands put together."""
    shape = list(members[0].shape)
    shape[axis] = sum([member.shape[axis] for member in members])
    first, second = [
        expand(UOp(Ops.CAT, members[0].dtype, tuple([member.src[side].src[0] for member in members]), axis), shape)
        for side in range(2)
    ]
    return first * second


def _joined_pads(parts: Sequence[UOp]) -> Sequence[UOp]:
    """Return contributions with those to different parts of one axis as one CAT, first.

    Nothing changes where fewer than two are PADs along the same axis alone, or two of them overlap.
    """
    pads: dict[int, list[UOp]] = {}
    for part in parts:
        if (axis := _padded_axis(part)) is not None:
            pads.setdefault(axis, []).append(part)
    for axis, members in pads.items():
        members = sorted(members, key=lambda part: _bounds(part, axis))
        bounds = [_bounds(member, axis) for member in members]
        ends = [0, *[end for _, end in bounds]]
        if len(members) > 1 and all(start >= end for (start, _), end in zip(bounds, ends, strict=False)):
            joined = set(members)
            return [_between_zeros(members, axis), *[part for part in parts if part not in joined]]
    return parts


def _padded_axis(part: UOp) -> int | None:
    """Return the axis along which a PAD of concrete sizes adds zeros, where it is one; else None."""
    if part.op is not Ops.PAD or isinstance(part.device, tuple):
        return None
    if not is_concrete(part.shape) or not all(is_concrete(padding) for padding in part.arg):
        return None  # a slice that begins at a variable, of a fixed length or not
    axes = [axis for axis, padding in enumerate(part.arg) if padding != (0, 0)]
    return axes[0] if len(axes) == 1 else None


def _bounds(pad: UOp, axis: int) -> tuple[int, int]:
    """Return the start and the end of the source of a PAD along `axis`."""
    before, _ = pad.arg[axis]
    return before, before + pad.src[0].shape[axis]


def _between_zeros(members: Sequence[UOp], axis: int) -> UOp:
    """Return the sources of PADs that follow each other along `axis` as one CAT, with zeros where none of them is."""
    sources: list[UOp] = []
    reached = 0
    for member in members:
        start, end = _bounds(member, axis)
        if start > reached:
            sources.append(_zeros(member, axis, start - reached))
        sources.append(member.src[0])
        reached = end
    if (length := members[0].shape[axis]) > reached:
        sources.append(_zeros(members[0], axis, length - reached))
    return UOp(Ops.CAT, members[0].dtype, tuple(sources), axis)


def _zeros(like: UOp, axis: int, length: int) -> UOp:
    """Return zeros in the shape of `like`, but for the `length` of `axis`."""
    return full((*like.shape[:axis], length, *like.shape[axis + 1 :]), 0.0, like.dtype, like.device)


def _added(a: UOp, b: UOp) -> UOp:
    """Return the sum of two contributions. A scattered one is scattered into the other: a sum would read all zeros."""
    if _is_scattered(a) and not _is_scattered(b):
        a, b = b, a
    if _is_scattered(b):
        return UOp(Ops.SCATTER, b.dtype, (a, *b.src[1:]), b.arg)
    return a + b


def _is_scattered(x: UOp) -> bool:
    """Return whether `x` is zeros with values added at some indices: the gradient of a GATHER."""
    return x.op is Ops.SCATTER and x.arg.op is Ops.ADD and is_number(x.src[0], 0.0)
