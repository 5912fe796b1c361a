"""Reading the linear form: which ranges a node is repeated over, and the stride of an index along a vector.

The list itself is `Linear.uops`; docs/graph.md, "The linear form", says what each instruction means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinygraft.helpers import round_up
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.terms import terms_of
from tinygraft.uop.uop import UOp, toposort

SCRATCH_ALIGNMENT = 64  # bytes, the width of the widest vector of a processor
Lane = dict[int, int]  # axis of an UNROLL range -> its value


def ranges_of(uops: Sequence[UOp], kind: AxisKind) -> dict[int, UOp]:
    """Return the RANGEs of one kind, by axis."""
    return {u.arg.axis: u for u in uops if u.op is Ops.RANGE and u.arg.kind is kind}


def lane_stride(index: UOp, vector: UOp) -> int | None:
    """Return the stride of `index` along the range `vector`; 0 when it does not depend on it, None if not constant.

    >>> r = UOp.range(4, 0, AxisKind.VECTOR)
    >>> lane_stride(r * 3 + 1, r)
    3
    """
    bit = 1 << vector.arg.axis
    stride: dict[UOp, int | None] = {}
    for node in toposort(index, enter=lambda n: bool(n.ranges & bit)):
        if not node.ranges & bit:
            stride[node] = 0
        elif node is vector:
            stride[node] = 1
        elif node.op is Ops.ADD:
            a, b = (stride[s] for s in node.src)
            stride[node] = None if a is None or b is None else a + b
        elif node.op is Ops.SUB:
            a, b = (stride[s] for s in node.src)
            stride[node] = None if a is None or b is None else a - b
        elif node.op is Ops.MUL and (factor := _constant(node.src)) is not None:
            inner = next(s for s in node.src if s.op is not Ops.CONST)
            a = stride[inner]
            stride[node] = None if a is None else a * factor
        elif node.op is Ops.CAST and node.lo is not None and node.src[0].lo is not None:
            stride[node] = stride[node.src[0]]
        else:
            stride[node] = None
    return stride[index]


def starts_aligned(index: UOp, vector: UOp) -> bool:
    """Return whether `index` has stride 1 along `vector` and starts at a multiple of its width, in every iteration.

    >>> r, v = UOp.range(3, 0), UOp.range(4, 1, AxisKind.VECTOR)
    >>> starts_aligned(r * 8 + v, v), starts_aligned(r * 6 + v, v), starts_aligned(r * 8 + v + 1, v)
    (True, False, False)
    """
    width = int(vector.src[0].arg)
    terms, constant = terms_of(index)
    return terms.pop(vector, 0) == 1 and not any(number % width for number in (constant, *terms.values()))


def scratch_of(uops: Sequence[UOp]) -> tuple[dict[UOp, int], int]:
    """Return the offset of each LOCAL of a thread in its scratch memory, aligned, and the size of that in bytes."""
    offsets, end = {}, 0
    for u in uops:
        if u.op is Ops.LOCAL and not u.arg.shared:
            offsets[u] = end
            end += round_up(u.arg.size * u.dtype.itemsize, SCRATCH_ALIGNMENT)
    return offsets, end


def _constant(src: Sequence[UOp]) -> int | None:
    """Return the number of the first CONST among `src`; None where there is none."""
    return next((int(s.arg) for s in src if s.op is Ops.CONST), None)


def copies(mask: int, unrolled: dict[int, UOp]) -> Iterator[Lane]:
    """Yield every combination of values of the UNROLL ranges in `mask`, the last axis fastest.

    `unrolled` has these ranges by axis.
    """
    axes = [axis for axis in sorted(unrolled) if mask >> axis & 1]
    sizes = [int(unrolled[axis].src[0].arg) for axis in axes]
    counters = [0] * len(axes)
    while True:
        yield dict(zip(axes, counters, strict=True))
        last = len(axes) - 1
        while last >= 0 and counters[last] + 1 == sizes[last]:
            counters[last] = 0
            last -= 1
        if last < 0:
            return
        counters[last] += 1
