"""What a renderer of text asks about a Linear: copies, widths, and which of two forms of an index is written.

An index that moves along a vector is written in one or both of two forms: `whole`, a vector of all lanes, and
`base`, the number of lane 0 alone, which is all that a load or store of neighbouring elements needs.
Used by render.cstyle and render.llvm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinygraft.uop.linear import Lane, copies, lane_stride, ranges_of
from tinygraft.errors import GraphError
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp

Copy = tuple[int, ...]  # the values of a node's own UNROLL ranges, by axis
EFFECTS = frozenset({Ops.STORE, Ops.REG, Ops.ACCUM, Ops.END, Ops.BARRIER, Ops.LOCAL})


@dataclass(frozen=True, slots=True)
class Access:
    """How a LOAD or STORE meets memory: width elements whose indices are stride apart (None: anywhere)."""

    width: int
    stride: int | None

    @property
    def is_row(self) -> bool:
        """Whether it is one access of neighbouring elements."""
        return self.width > 1 and self.stride == 1


class Walk:
    """A Linear with what its text depends on, worked out once."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        self.unrolled = ranges_of(linear.uops, AxisKind.UNROLL)
        self.vectors = ranges_of(linear.uops, AxisKind.VECTOR)
        self.accesses = {u: self._access(u) for u in linear.uops if u.op in (Ops.LOAD, Ops.STORE)}
        self.whole: set[UOp] = set()
        self.base: set[UOp] = set()
        for u in reversed(linear.uops):
            self._ask_sources(u)

    def vector(self, node: UOp) -> UOp | None:
        """The VECTOR range that node is a vector over; None for a scalar. Raises GraphError for two of them."""
        found = [r for axis, r in self.vectors.items() if node.ranges >> axis & 1]
        if len(found) > 1:
            axes = " and ".join(str(r.arg.axis) for r in found)
            raise GraphError(
                f"kernel {self.linear.name}: {node.op.name} is a vector over axes {axes}; a node may have one VECTOR range"
            )
        return found[0] if found else None

    def width(self, node: UOp) -> int:
        """How many lanes node has; 1 for a scalar."""
        vector = self.vector(node)
        return 1 if vector is None else int(vector.src[0].arg)

    def lanes(self, node: UOp) -> Iterator[Lane]:
        """The values of the UNROLL ranges that node has a copy for, one after another."""
        return copies(node.ranges, self.unrolled)

    def copy(self, node: UOp, lane: Lane) -> Copy:
        """Which copy of node belongs to the UNROLL values in lane."""
        return tuple(lane[axis] for axis in sorted(self.unrolled) if node.ranges >> axis & 1)

    def _access(self, node: UOp) -> Access:
        vector = self.vector(node)
        if vector is None:
            return Access(1, 0)
        return Access(int(vector.src[0].arg), lane_stride(node.src[1], vector))

    def _ask_sources(self, node: UOp) -> None:
        if node.op in EFFECTS or node in self.whole:
            for place, source in enumerate(node.src):
                by_base = node in self.accesses and place == 1 and self.accesses[node].stride is not None
                self._ask(source, self.base if by_base else self.whole)
        if node in self.base:
            for source in node.src:
                self._ask(source, self.base)

    def _ask(self, node: UOp, form: set[UOp]) -> None:
        (form if self.vector(node) is not None else self.whole).add(node)


def memory(node: UOp) -> UOp:
    """The PARAM or LOCAL that a LOAD or STORE is into: AFTER is only a name for its first source."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node

