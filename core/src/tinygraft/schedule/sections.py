"""Outputs that are put together from sections: one loop over a section computes an element of each of them.

    sections_of(node, memory) -> Sections(axis, count), or None

A CAT, or a sum of PADs, has another formula in each section. Computed by one loop over the whole, each element is
chosen from all formulas. A loop over the first section that stores to all of them chooses nothing: conditions on the
index are constants there, and what the sections have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import accumulate
from math import gcd, prod
from typing import NamedTuple

from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.sizes import Shape, is_concrete
from tinygraft.uop.uop import UOp

# assumed: a vector of the widest Target; shorter runs would be stored element by element
RUN = 16  # adjacent elements that a section has in memory at least
# assumed: more operations are a kernel that takes long to compile
OPERATIONS = 512  # of all sections together, above the CATs and PADs
SLACK = 2  # sections for each formula, at most: of 1 element in front of 1,000 there would be 1,001
LOOPS = frozenset({Ops.REDUCE_AXIS, Ops.FOLD})
SAME_INDEX = ELEMENTWISE | {Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH}


class Sections(NamedTuple):
    """An axis of a value, and the number of equal pieces into which it is cut."""

    axis: int
    pieces: int

    def loops(self, shape: Shape) -> Shape:
        """Return the shape of one section of `shape`, which the loops are over."""
        length = shape[self.axis]
        assert isinstance(length, int)
        return (*shape[: self.axis], length // self.pieces, *shape[self.axis + 1 :])


def sections_of(node: UOp, memory: Container[UOp]) -> Sections | None:
    """Return the sections in which the stored `node` is computed; None where one loop over all of it does.

    `memory` has what is loaded and not computed. An assigned value is one loop: where that reads the old value has a
    proof that is about one store.
    """
    if node.op is Ops.ASSIGN or not is_concrete(node.shape):
        return None
    starts: dict[int, set[int]] = {}  # axis -> where another formula begins
    seen, stack, operations = {node}, [node], 0
    while stack:
        current = stack.pop()
        if current is not node and (current in memory or current.op is Ops.BUFFER):
            continue
        if current.op is Ops.CAT:
            lengths = [source.shape[current.arg] for source in current.src]
            if not is_concrete(lengths):
                return None
            starts.setdefault(current.arg, set()).update(accumulate(lengths[:-1]))
        elif current.op is Ops.PAD:
            if not all(is_concrete(padding) for padding in current.arg):
                return None
            for axis, (before, after) in enumerate(current.arg):
                ends = {before, current.shape[axis] - after} - {0, current.shape[axis]}
                if ends:
                    starts.setdefault(axis, set()).update(ends)
        elif current.op in SAME_INDEX:
            operations += 1
            new = [source for source in current.src if source not in seen]
            seen.update(new)
            stack += new
    for axis, begins in sorted(starts.items()):
        size = node.shape[axis]
        assert isinstance(size, int)
        length = gcd(size, *begins)
        count = size // length if length else 0
        run = length * prod(node.shape[axis + 1 :])
        fits = 1 < count <= SLACK * (len(begins) + 1) and run >= RUN and count * operations <= OPERATIONS
        if fits and not _has_loops(node, memory):
            return Sections(axis, count)
    return None


def is_of_sections(cat: UOp) -> bool:
    """Return whether each source of a CAT is a section of it, should these be stored."""
    lengths = {source.shape[cat.arg] for source in cat.src}
    if len(lengths) > 1 or not is_concrete(cat.shape):
        return False
    return prod(cat.src[0].shape[cat.arg :]) >= RUN


def _has_loops(node: UOp, memory: Container[UOp]) -> bool:
    """Return whether `node` is computed by loops of its own beside those over its elements, as a reduction is."""
    seen, stack = {node}, [node]
    while stack:
        current = stack.pop()
        if current.op in LOOPS:
            return True
        if current is node or not (current in memory or current.op is Ops.BUFFER):
            new = [source for source in current.src if source not in seen]
            seen.update(new)
            stack += new
    return False
