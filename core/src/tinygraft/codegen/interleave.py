"""Copies that interleave: results of phases side by side, as those of a transposed convolution, or pixels shuffled.

Element m of a row is read at m // n of the source m % n, which no vector follows. Here the loop over m is one over
m // n, in vectors, with its n phases unrolled, so that each is read in whole vectors, and the n vectors of a block are
interleaved in registers as they are stored. Rows that are interleaved are unrolled in the same way.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from tinygraft.codegen.action import Action, action, plain_numbers
from tinygraft.codegen.loops import often, size
from tinygraft.codegen.panels import gated
from tinygraft.codegen.tiling import NEAR
from tinygraft.codegen.transforms import UNROLL, VECTOR, loops_of, name_of
from tinygraft.dtype import dtypes
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
MOST = 4  # phases that are interleaved
SHORTEST = 4  # elements of one of them below which vectors save nothing
WORTH = 1 << 12  # elements below which a kernel is done before longer code is compiled


def interleaved_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield (kernel that interleaves in vectors, its one action); nothing for a kernel that does not interleave.

    Nothing for a `target` without vectors or with a grid, with a reduction or a symbolic size, for few elements, and
    where a source is not read in whole vectors then. The axis numbers of `sink` have to have gaps.
    """
    found = interleaving(sink) if target.vector_bytes and not target.grid_dims else None
    if found is None:
        return
    loop, count = found
    widest = target.vector_bytes // max(4, *(s.src[0].dtype.itemsize for s in sink.src))
    width = min(widest, 1 << (-(-size(loop) // count) - 1).bit_length())
    made = _interleaved(sink, loop, width)
    loads = [n for n in postorder(made) if n.op is Ops.LOAD]
    lanes = [n for n in postorder(made) if n.op is Ops.RANGE and n.arg.kind is AxisKind.VECTOR]
    if all(lane_stride(n.src[1], lane) in NEAR for n in loads for lane in lanes):
        yield made, (action("interleave", name_of(loop), count, width),)


def apply_interleave(sink: UOp, one: Action, target: Target) -> UOp:
    """Return `sink` with `one`, an `interleave(loop, n, width)`, applied.

    Raises ActionError where the kernel does not interleave n phases along this loop on `target`, and where width is not
    2, 4, 8, ... lanes.
    """
    count, width = plain_numbers(one, 2)
    found = interleaving(sink) if target.vector_bytes and not target.grid_dims else None
    if found is None or (name_of(found[0]),) != one.loops or found[1] != count:
        raise ActionError(f"{one}: the kernel does not interleave {count} phases along this loop on this Target")
    if width < 2 or width & (width - 1):
        raise ActionError(f"{one}: a vector has 2, 4, 8, ... lanes")
    return _interleaved(sink, found[0], width)


def interleaving(sink: UOp) -> tuple[UOp, int] | None:
    """Return the innermost loop of a kernel and how many phases it interleaves; None where it does not interleave."""
    nodes, loops = postorder(sink), loops_of(sink)
    ranges = [n for n in nodes if n.op is Ops.RANGE]
    plain = len(loops) == len(ranges) and all(r.src[0].op is Ops.CONST for r in loops)
    if not plain or any(n.op is Ops.REDUCE for n in nodes):
        return None
    sizes = {r.arg.axis: size(r) for r in loops}
    along = [r for r in loops if all(lane_stride(s.src[1], r) == 1 for s in sink.src)]
    count = _phases(nodes, along[-1]) if along else 1
    if count < 2 or size(along[-1]) < SHORTEST * count or max(often(s.ranges, sizes) for s in sink.src) < WORTH:
        return None
    return along[-1], count


def _phases(nodes: Sequence[UOp], loop: UOp) -> int:
    """Return the least number up to MOST that a loop, or its sum with others, is divided by in indices; 1 for none."""
    divided = (n for n in nodes if n.op in (Ops.IDIV, Ops.MOD) and n.src[0].ranges >> loop.arg.axis & 1)
    found = (n.src[1].arg for n in divided if n.dtype is dtypes.index and lane_stride(n.src[0], loop) == 1)
    return min((int(n) for n in found if isinstance(n, int) and 1 < n <= MOST), default=1)


def _interleaved(sink: UOp, loop: UOp, width: int) -> UOp:
    """Return the kernel with `loop` as vectors of `width` elements of each of its phases, which are unrolled.

    Of other loops the phases are unrolled where they divide the size.
    """
    nodes, swap, gates = postorder(sink), dict[UOp, UOp](), list[UOp]()
    for r in loops_of(sink):
        count = _phases(nodes, r)
        if r is loop:
            blocks = -(-size(r) // (count * width))
            at = ix.mul(UOp.range(blocks, r.arg.axis), width) if blocks > 1 else ix.const(0)
            at = ix.add(at, UOp.range(width, r.arg.axis + VECTOR, AxisKind.VECTOR))
            swap[r] = ix.add(ix.mul(at, count), UOp.range(count, r.arg.axis + UNROLL, AxisKind.UNROLL))
            if blocks * count * width > size(r):
                gates = [ix.lt(swap[r], size(r))]
        elif count > 1 and size(r) % count == 0:
            unrolled = UOp.range(count, r.arg.axis + UNROLL, AxisKind.UNROLL)
            swap[r] = ix.add(ix.mul(UOp.range(size(r) // count, r.arg.axis), count), unrolled)
    stores = []
    for s in sink.src:
        value = gated(s.src[2], gates, [loop])
        done = ix.rebuild_simplified((value, s.src[1], *s.src[3:]), swap)
        gate = [*gates, *(done[g] for g in s.src[3:])]
        inside = (functools.reduce(ix.and_, gate),) if gate else ()
        stores.append(UOp(Ops.STORE, s.dtype, (s.src[0], done[s.src[1]], done[value], *inside), s.arg))
    return UOp(Ops.SINK, src=tuple(stores))
