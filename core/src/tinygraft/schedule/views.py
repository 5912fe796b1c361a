"""Movement as index arithmetic: the index in its source of each element of a movement op.

`source_index` takes a movement node and an index into its value, one dtypes.index node per axis. It returns the index
into the source, and the condition that the element is inside of the source (None where it always is).
"""

from __future__ import annotations

from collections.abc import Callable

from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, is_size
from tinygraft.uop.uop import UOp

Index = tuple[UOp, ...]
ViewIndex = tuple[Index, UOp | None]

ZERO = ix.const(0)


def flatten(index: Index, shape: Shape) -> UOp:
    """Return the flat index, in elements, of `index` in row-major memory of `shape`."""
    if is_concrete(shape):
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        return ix.dot(index, strides)
    position, stride = ZERO, ix.const(1)
    for i, size in zip(reversed(index), reversed(shape), strict=True):
        position = ix.add(ix.mul(i, stride), position)
        stride = ix.mul(stride, size)
    return position


def unflatten(position: UOp, shape: Shape) -> Index:
    """Return the index into `shape`, one for each axis, of flat index `position` in row-major memory.

    Past the end only the first axis leaves its size.
    """
    index: list[UOp] = []
    for axis in range(len(shape) - 1, -1, -1):
        if axis == 0:
            index.append(position)
        else:
            index.append(ix.mod(position, shape[axis]))
            position = ix.idiv(position, shape[axis])
    return tuple(reversed(index))


def reshape_index(index: Index, new: Shape, old: Shape) -> Index:
    """Return an index into shape `new` as one into shape `old`.

    Axes are matched in the shortest groups of equal product: each group that is one axis of both needs no division.
    """
    if new == old:
        return index
    result: list[UOp] = []
    i = j = 0
    while j < len(old):
        if i < len(new) and is_size(new[i], 1):
            i += 1
        elif i == len(new) or is_size(old[j], 1):
            result.append(ZERO)  # an axis of size 1, or, where `new` has no axes left, one beside an axis of size 0
            j += 1
        else:
            i_end, j_end = _group(new, i, old, j)
            result += unflatten(flatten(index[i:i_end], new[i:i_end]), old[j:j_end])
            i, j = i_end, j_end
    return tuple(result)


def _group(new: Shape, i: int, old: Shape, j: int) -> tuple[int, int]:
    """Return where the shortest groups of axes from `i` and `j` end whose products are equal.

    The groups are all remaining axes where no shorter ones are known to agree, as with symbolic sizes.
    """
    a, b = new[i], old[j]
    i, j = i + 1, j + 1
    if a is b:
        return i, j
    while isinstance(a, int) and isinstance(b, int) and a != b:
        if a < b and i < len(new):
            a, i = a * new[i], i + 1
        elif a > b and j < len(old):
            b, j = b * old[j], j + 1
        else:
            break
    return (i, j) if isinstance(a, int) and isinstance(b, int) and a == b else (len(new), len(old))


def _reshape(node: UOp, index: Index) -> ViewIndex:
    """Return the index of the same element in the shape of the source; nothing is outside."""
    return reshape_index(index, node.shape, node.src[0].shape), None


def _expand(node: UOp, index: Index) -> ViewIndex:
    """Return the index with 0 along axes that have size 1 in the source; nothing is outside."""
    return tuple(ZERO if is_size(old, 1) else i for i, old in zip(index, node.src[0].shape, strict=True)), None


def _permute(node: UOp, index: Index) -> ViewIndex:
    """Return the index with that of axis k of the result at axis `node.arg[k]` of the source; nothing is outside."""
    moved = [ZERO] * len(index)
    for axis, i in zip(node.arg, index, strict=True):
        moved[axis] = i
    return tuple(moved), None


def _pad(node: UOp, index: Index) -> ViewIndex:
    """Return the index less the padding in front, and that it is on the source.

    Sides without padding need no test. The condition is None where no side has padding.
    """
    moved: list[UOp] = []
    inside: UOp | None = None
    for i, (before, after), size in zip(index, node.arg, node.src[0].shape, strict=True):
        i = ix.sub(i, before)
        if not (isinstance(before, int) and before == 0):
            inside = both(inside, ix.ge(i, 0))
        if not (isinstance(after, int) and after == 0):
            inside = both(inside, ix.lt(i, size))
        moved.append(i)
    return tuple(moved), inside


def _shrink(node: UOp, index: Index) -> ViewIndex:
    """Return the index plus where each axis starts; nothing is outside."""
    return tuple(ix.add(i, start) for i, (start, _) in zip(index, node.arg, strict=True)), None


def _flip(node: UOp, index: Index) -> ViewIndex:
    """Return the index with each axis in `node.arg` counted from its end; nothing is outside."""
    return tuple(
        ix.sub(ix.sub(size, 1), i) if axis in node.arg else i
        for axis, (i, size) in enumerate(zip(index, node.shape, strict=True))
    ), None


def _window(node: UOp, index: Index) -> ViewIndex:
    """Return o * stride + k * dilation, for window `o` and element `k` of it, on each windowed axis.

    The last axes of the result are those of windows, then those of elements in them. Nothing is outside.
    """
    arg = node.arg
    n = len(arg.length)
    leading, out, inner = index[: -2 * n], index[-2 * n : -n], index[-n:]
    return leading + tuple(
        ix.add(ix.mul(o, stride), ix.mul(k, dilation))
        for o, k, stride, dilation in zip(out, inner, arg.stride, arg.dilation, strict=True)
    ), None


MOVES: dict[Ops, Callable[[UOp, Index], ViewIndex]] = {
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
    Ops.FLIP: _flip,
    Ops.WINDOW: _window,
}


def both(a: UOp | None, b: UOp | None) -> UOp | None:
    """Return the condition that both hold, where None stands for one that always holds."""
    if a is None:
        return ix.valid(b) if b is not None else None
    return a if b is None else ix.valid(ix.and_(a, b))


def source_index(node: UOp, index: Index) -> ViewIndex:
    """Return the index in the source of a movement node's element at `index`, and the condition that it is inside."""
    return MOVES[node.op](node, index)
