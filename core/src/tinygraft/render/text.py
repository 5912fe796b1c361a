"""The base of renderers: the walk over a Linear, with its unrolled copies, widths and index forms.

An index that depends on a VECTOR range is written in one or both of two forms: `whole`, a vector of all lanes, and
`base`, the index of lane 0 alone, which suffices for a load or store of constant stride.
render.cstyle and render.llvm subclass Writer for their languages.
"""

from __future__ import annotations

import functools
import itertools
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tinygraft.dtype import DType
from tinygraft.errors import GraphError
from tinygraft.render.dialect import MatrixWords
from tinygraft.uop.linear import Lane, copies, lane_stride, ranges_of, scratch_of
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.units import MatrixUnit, TileArg
from tinygraft.uop.uop import UOp

UnrolledCopy = tuple[int, ...]  # the values of a node's own UNROLL ranges, by axis
LOOPS = frozenset({AxisKind.LOOP, AxisKind.ORDERED, AxisKind.PARALLEL})
EFFECTS = frozenset({Ops.STORE, Ops.REG, Ops.ACCUM, Ops.END, Ops.BARRIER, Ops.LOCAL, Ops.RANGE, Ops.TILE,
    Ops.PRODUCT, Ops.PUT,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """How a LOAD or STORE accesses memory: `width` elements, `stride` from lane to lane (None: not constant).

    `across` is an UNROLL range along which copies are contiguous while lanes are not: together they are a block, which
    is transposed in registers.
    """

    width: int
    stride: int | None
    across: UOp | None = None

    @property
    def is_row(self) -> bool:
        """Return whether this is one access of contiguous elements."""
        return self.width > 1 and self.stride == 1


@dataclass(frozen=True, slots=True)
class ElementwiseStep:
    """An elementwise op to write: the dtypes of its result and of its first operand, and its number of lanes."""

    op: Ops
    dtype: DType
    operand: DType
    width: int


class LinearWalk:
    """A Linear with the widths, copies and index forms of its nodes."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        self.unrolled: dict[int, UOp] = ranges_of(linear.uops, AxisKind.UNROLL)
        self.vectors: dict[int, UOp] = ranges_of(linear.uops, AxisKind.VECTOR)
        self.accesses: dict[UOp, VectorAccess] = {
            u: self._access(u) for u in linear.uops if u.op in (Ops.LOAD, Ops.STORE)
        }
        self.whole: set[UOp] = set()
        self.base: set[UOp] = set()
        for u in reversed(linear.uops):  # users before sources: a node's forms are those that its users need
            self._request_sources(u)

    def vector(self, node: UOp) -> UOp | None:
        """Return the VECTOR range that `node` is a vector over; None for a scalar. Raises GraphError for two."""
        found = [r for axis, r in self.vectors.items() if node.ranges >> axis & 1]
        if len(found) > 1:
            axes = " and ".join(str(r.arg.axis) for r in found)
            raise GraphError(
                f"kernel {self.linear.name}: {node.op.name} is a vector over axes {axes}; "
                "a node may have one VECTOR range"
            )
        return found[0] if found else None

    def width(self, node: UOp) -> int:
        """Return how many lanes `node` has; 1 for a scalar."""
        vector = self.vector(node)
        return 1 if vector is None else int(vector.src[0].arg)

    def lanes(self, node: UOp) -> Iterator[Lane]:
        """Yield, for each unrolled copy of `node`, the values of its UNROLL ranges."""
        return copies(node.ranges, self.unrolled)

    def lanes_of_sum(self, u: UOp) -> Iterator[Lane]:
        """Yield `lanes` of an ACCUM; of products, those that differ in vectors alone follow each other.

        Compilers leave additions where they are written. Written so, one number for a row is in all lanes of a register
        at a time, and not those of all rows, for which sums would be stored and loaded again.
        """
        reg, *values = u.src
        sizes = {axis: int(r.src[0].arg) for axis, r in self.unrolled.items() if u.ranges >> axis & 1}
        if len(values) < 2 or any(not reg.ranges >> axis & 1 for axis in sizes):
            return self.lanes(u)  # copies that are added to one register stay in order
        wide = functools.reduce(operator.or_, (v.ranges for v in values if self.width(v) > 1), 0)
        order = sorted(sizes, key=lambda axis: (wide >> axis & 1, axis))
        counters = itertools.product(*(range(sizes[axis]) for axis in order))
        return (dict(zip(order, counter, strict=True)) for counter in counters)

    def copy(self, node: UOp, lane: Lane) -> UnrolledCopy:
        """Return the copy of `node` for the UNROLL values in `lane`."""
        return tuple(lane[axis] for axis in sorted(self.unrolled) if node.ranges >> axis & 1)

    def _access(self, node: UOp) -> VectorAccess:
        """Return the width and the stride of a LOAD or STORE; 1 and 0 for a scalar."""
        vector = self.vector(node)
        if vector is None:
            return VectorAccess(1, 0)
        width, stride = int(vector.src[0].arg), lane_stride(node.src[1], vector)
        return VectorAccess(width, stride, self._across(node.src[1], width, stride))

    def _across(self, index: UOp, width: int, stride: int | None) -> UOp | None:
        """Return the UNROLL range whose copies are contiguous, where the lanes of the vector are not: a block of rows.

        None also where the number of lanes is no power of two: blocks are transposed by halves.
        """
        if stride is None or stride in (0, 1) or width & (width - 1):
            return None
        for axis, r in self.unrolled.items():
            count = int(r.src[0].arg)
            if index.ranges >> axis & 1 and count > 1 and lane_stride(index, r) == 1:
                return r
        return None

    def _request_sources(self, node: UOp) -> None:
        """Record in which form the sources of `node` are needed; called from last to first, so its own forms are known.

        An access whose lanes have a constant stride needs only the base of its index.
        """
        if node.op in EFFECTS or node in self.whole:
            values = node.src[:1] if node.op in (Ops.REG, Ops.LANES) else node.src  # the others are only ranges
            for number, source in enumerate(values):
                by_base = number == 1 and node in self.accesses and self.accesses[node].stride is not None
                self._request(source, self.base if by_base else self.whole)
        if node in self.base:
            for source in node.src:
                self._request(source, self.base)

    def _request(self, node: UOp, form: set[UOp]) -> None:
        (form if self.vector(node) is not None else self.whole).add(node)


class Writer(ABC):
    """Writes one kernel, instruction by instruction; `names` has the text by which the value of each copy is read."""

    linear: Linear
    walk: LinearWalk
    matrix: Mapping[str, MatrixWords]
    scratch: dict[UOp, int]
    scratch_bytes: int

    def __init__(self, linear: Linear, matrix: Mapping[str, MatrixWords]) -> None:
        self.linear, self.walk, self.matrix = linear, LinearWalk(linear), matrix
        self.scratch, self.scratch_bytes = scratch_of(linear.uops)
        self.names: dict[tuple[UOp, UnrolledCopy], str] = {}
        self.bases: dict[tuple[UOp, UnrolledCopy], str] = {}
        self.tiles: dict[tuple[UOp, UnrolledCopy], int] = {}  # the numbers of tile registers

    def write(self) -> None:
        """Write all instructions in order. Raises GraphError for an op that the linear form does not have."""
        by_op = {
            Ops.CONST: self.const, Ops.VARIABLE: self.variable, Ops.LOCAL: self.local, Ops.RANGE: self.range_,
            Ops.END: self.end, Ops.REG: self.reg, Ops.ACCUM: self.accum, Ops.GET: self.get, Ops.LANES: self.fold,
            Ops.LOAD: self.load, Ops.STORE: self.store, Ops.BARRIER: self.barrier, Ops.AFTER: self.after,
            Ops.TILE: self.tile, Ops.PRODUCT: self.product, Ops.PUT: self.put,
        }  # fmt: skip
        for u in self.linear.uops:
            if u.op in by_op:
                by_op[u.op](u)
            elif u.op in ELEMENTWISE:
                self.elementwise(u)
            elif u.op is not Ops.PARAM and u.op is not Ops.SINK:
                raise GraphError(f"kernel {self.linear.name}: {u.op.name} is no instruction of the linear form")

    def elementwise(self, u: UOp) -> None:
        """Write each copy of an elementwise op, in the forms that its users need."""
        for lane in self.walk.lanes(u):
            self.one_copy(u, lane)

    def one_copy(self, u: UOp, lane: Lane) -> None:
        """Write the copy of an elementwise op for `lane`, in the forms that its users need."""
        copy = self.walk.copy(u, lane)
        if u in self.walk.base:
            operands = [self.scalar(s, lane) for s in u.src]
            self.bases[u, copy] = self.value(u, ElementwiseStep(u.op, u.dtype, u.src[0].dtype, 1), operands)
        if u in self.walk.whole:
            width = self.walk.width(u)
            operands = [self.operand(s, lane, width) for s in u.src]
            self.names[u, copy] = self.value(u, ElementwiseStep(u.op, u.dtype, u.src[0].dtype, width), operands)

    def scalar(self, u: UOp, lane: Lane) -> str:
        """Return the text of a scalar, or of lane 0 of a vector."""
        key = u, self.walk.copy(u, lane)
        return self.names[key] if self.walk.vector(u) is None else self.bases[key]

    def operand(self, u: UOp, lane: Lane, width: int) -> str:
        """Return the text of `u` in the copy for `lane`, as a vector of `width` lanes where that is more than 1."""
        name = self.names[u, self.walk.copy(u, lane)]
        if width > 1 and self.walk.vector(u) is None:
            return self.splat(name, u.dtype, width)
        return name

    def after(self, u: UOp) -> None:
        """Give an AFTER the names of its first source: it only orders instructions."""
        source = u.src[0]
        for names in (self.names, self.bases):
            for lane in self.walk.lanes(source):
                key = source, self.walk.copy(source, lane)
                if key in names:
                    names[u, self.walk.copy(u, lane)] = names[key]

    def accumulated(self, u: UOp) -> Iterator[tuple[str, list[str], ElementwiseStep]]:
        """Yield, for each copy of an ACCUM, its register, the operands, and the op that combines them.

        Raises GraphError for a vector that is added to a scalar register.
        """
        reg, *values = u.src
        width = self.walk.width(reg)
        if any(self.walk.width(value) > width for value in values):
            raise GraphError(
                f"kernel {self.linear.name}: ACCUM puts a vector into a scalar register; LANES comes first"
            )
        for lane in self.walk.lanes_of_sum(u):
            self.before_sum(u, lane)
            operands = [self.operand(value, lane, width) for value in values]
            op = Ops.DOT if isinstance(u.arg, MatrixUnit) else u.arg
            yield self.register(reg, lane), operands, ElementwiseStep(op, reg.dtype, reg.dtype, width)

    def before_sum(self, u: UOp, lane: Lane) -> None:
        """Write what one copy of an ACCUM alone needs, where the language does so this late."""

    def units(self) -> list[MatrixWords]:
        """Return the MatrixWords of each matrix unit that the kernel uses."""
        args = (u.arg for u in self.linear.uops if u.op in (Ops.ACCUM, Ops.TILE))
        units = (arg.unit if isinstance(arg, TileArg) else arg for arg in args)
        return [self.words_of(unit) for unit in dict.fromkeys(units) if isinstance(unit, MatrixUnit)]

    def words_of(self, unit: MatrixUnit) -> MatrixWords:
        """Return the MatrixWords of a matrix unit. Raises GraphError where the language has none."""
        if unit.name not in self.matrix:
            known = ", ".join(self.matrix) or "none"
            raise GraphError(
                f"kernel {self.linear.name}: matrix unit {unit.name} has no words in the language of this renderer, "
                f"which has words for {known}; leave it out of Target.matrix"
            )
        return self.matrix[unit.name]

    def tile(self, u: UOp) -> None:
        """Clear a tile register for each copy of a TILE, numbered from 0."""
        words = self.words_of(u.arg.unit)
        for number, lane in enumerate(self.walk.lanes(u)):
            self.tiles[u, self.walk.copy(u, lane)] = number
            self.say_all(words.zero.format(t=number))

    def product(self, u: UOp) -> None:
        """Load each copy of the operands to a tile register, and write a product for each copy of the tile.

        Raises GraphError where the unit has too few tile registers.
        """
        tile, first, at_first, second, at_second = u.src
        unit, words = u.arg.unit, self.words_of(u.arg.unit)
        free = len(list(self.walk.lanes(tile)))  # the registers of operands come after those of results
        loaded: tuple[dict[UnrolledCopy, int], dict[UnrolledCopy, int]] = ({}, {})  # both may have one index, as 0
        for text, source, index, row, numbers in (
            (words.first, first, at_first, u.arg.first * unit.first.itemsize, loaded[0]),
            (words.second, second, at_second, u.arg.second * unit.word.itemsize, loaded[1]),
        ):
            for lane in self.walk.lanes(index):
                number = numbers[self.walk.copy(index, lane)] = free
                free += 1
                self.say_all(text.format(t=number, p=self.pointer(source, index, lane), stride=row))
        if free > unit.tiles:
            raise GraphError(f"kernel {self.linear.name}: {free} tile registers of {unit.name}, which has {unit.tiles}")
        for lane in self.walk.lanes(tile):
            a, b = loaded[0][self.walk.copy(at_first, lane)], loaded[1][self.walk.copy(at_second, lane)]
            self.say_all(words.multiply.format(c=self.tiles[tile, self.walk.copy(tile, lane)], a=a, b=b))

    def put(self, u: UOp) -> None:
        """Store each copy of a tile."""
        target, index, tile = u.src
        words, row = self.words_of(u.arg.unit), u.arg.result * u.arg.unit.result.itemsize
        for lane in self.walk.lanes(tile):
            number = self.tiles[tile, self.walk.copy(tile, lane)]
            self.say_all(words.store.format(t=number, p=self.pointer(target, index, lane), stride=row))

    def register(self, reg: UOp, lane: Lane) -> str:
        """Return the name of a register's copy."""
        return "_".join([f"acc{reg.arg.number}", *map(str, self.walk.copy(reg, lane))])

    def wrong_range(self, u: UOp) -> GraphError:
        """Return the error for a range of a kind that the language does not have."""
        return GraphError(
            f"kernel {self.linear.name}: range {u.arg.axis} is a {u.arg.kind.value} range, which the language of this "
            "renderer does not have"
        )

    @abstractmethod
    def value(self, u: UOp, step: ElementwiseStep, operands: list[str]) -> str:
        """Write an elementwise op where it needs an instruction. Returns the text by which its users read it."""

    @abstractmethod
    def splat(self, value: str, dtype: DType, width: int) -> str:
        """Broadcast a scalar to every lane of a vector. Returns its text."""

    @abstractmethod
    def const(self, u: UOp) -> None:
        """Name a literal."""

    @abstractmethod
    def variable(self, u: UOp) -> None:
        """Name an integer argument."""

    @abstractmethod
    def local(self, u: UOp) -> None:
        """Declare scratch memory."""

    @abstractmethod
    def range_(self, u: UOp) -> None:
        """Begin a loop, or name a grid index, a thread index, lanes or copies."""

    @abstractmethod
    def end(self, u: UOp) -> None:
        """End a loop."""

    @abstractmethod
    def reg(self, u: UOp) -> None:
        """Declare each copy of a register, with its first value."""

    @abstractmethod
    def accum(self, u: UOp) -> None:
        """Combine each copy of a register with a value."""

    @abstractmethod
    def get(self, u: UOp) -> None:
        """Read each copy of a register."""

    @abstractmethod
    def fold(self, u: UOp) -> None:
        """Combine the lanes of a vector to a scalar (LANES)."""

    @abstractmethod
    def load(self, u: UOp) -> None:
        """Write each copy of a LOAD."""

    @abstractmethod
    def store(self, u: UOp) -> None:
        """Write each copy of a STORE."""

    @abstractmethod
    def pointer(self, place: UOp, index: UOp, lane: Lane) -> str:
        """Return the address of an element of memory."""

    @abstractmethod
    def say_all(self, lines: str) -> None:
        """Write statements as they are, one a line."""

    @abstractmethod
    def barrier(self, u: UOp) -> None:
        """Wait for the threads of the block."""


def memory(node: UOp) -> UOp:
    """Return the PARAM or LOCAL that a LOAD or STORE accesses: AFTER is only a name for its first source."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def streamed(store: UOp, width: int) -> int:
    """Return the alignment in bytes of a streamed STORE of `width` elements; buffers are aligned to 64."""
    return min(width * store.src[2].dtype.itemsize, 64)


def halves(linear: Linear, span: UOp) -> int:
    """Return the number of lanes of a vector that LANES folds. Raises GraphError unless it is a power of two."""
    size = int(span.src[0].arg)
    if size & (size - 1):
        raise GraphError(f"kernel {linear.name}: LANES folds halves, and {size} lanes cannot be halved down to one")
    return size
