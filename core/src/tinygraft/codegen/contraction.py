"""Sums of products: which of a kernel's loops are rows and which are columns of a matrix product.

A REDUCE whose value has operands that do not depend on all of its output loops does more work than it reads: a matrix
product, a convolution, the gradients of both. Seen from one operand, the loops that it does not depend on are rows,
each of which reads the operand again; loops that only it and the results depend on are columns. What each result reads
for itself, as a depthwise convolution its input, has to be contiguous along the columns, which become lanes.
codegen/tiling.py lists the tilings, codegen/panels.py applies one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinygraft.codegen.loops import mask_of, often, size, trip_count
from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
FEWEST_TERMS = 4  # iterations of the reduction below which storing the results is most of the work


@dataclass(frozen=True, slots=True)
class Window:
    """A loop of the reduction whose stride in the operand is that of the first column loop, or its negative."""

    loop: UOp
    forwards: bool


@dataclass(frozen=True, slots=True)
class Contraction:
    """A reduction, seen from one of its operands, `staged`.

    `columns` are loops, outermost first, that `staged` depends on and that are contiguous in the results; `rows` are
    the loops that it does not depend on; `outer` are all other output loops. `across` are the operands that differ
    from row to row, `stores` those inside of all output loops. `window` slides over the first of several column
    loops, where there is such a loop.
    """

    reduce: UOp
    staged: UOp
    columns: tuple[UOp, ...]
    rows: tuple[UOp, ...]
    outer: tuple[UOp, ...]
    across: tuple[UOp, ...]
    stores: tuple[UOp, ...]
    window: Window | None = None

    @property
    def terms(self) -> tuple[UOp, ...]:
        """Return the loops of the reduction, in the order in which the REDUCE has them."""
        return self.reduce.src[1:]

    def over(self, operand: UOp) -> tuple[UOp, ...]:
        """Return the loops of the reduction that `operand` depends on."""
        return tuple(r for r in self.terms if operand.ranges >> r.arg.axis & 1)


def sliding(c: Contraction) -> Window | None:
    """Return the window that slides over the first of several column loops in the load of the staged operand, or None.

    A gate of the load has to depend on the loaded index only: x[y + k] if 0 <= y + k < n, as in a convolution and its
    gradient. Otherwise outputs that read one element would disagree whether it is 0.
    """
    load, first = c.staged, c.columns[0]
    if len(c.columns) < 2 or load.op is not Ops.LOAD:
        return None
    step = lane_stride(load.src[1], first)
    for loop in c.over(load):
        along = lane_stride(load.src[1], loop)
        if not step or along is None or abs(along) != abs(step):
            continue
        # the column for which y + k no longer depends on k: a gate that still does depends on more than the index
        index = ix.sub(first, loop) if along == step else ix.add(first, loop)
        if all(not ix.rebuild_simplified((g,), {first: index})[g].ranges >> loop.arg.axis & 1 for g in load.src[2:]):
            return Window(loop, along == step)
    return None


def run_of(index: UOp, loops: Sequence[UOp]) -> int:
    """Return how many contiguous elements an index addresses over the innermost of `loops`, the last ones.

    1 where the index has no stride of 1 along the last one.
    """
    run = 1
    for loop in reversed(loops):
        if lane_stride(index, loop) != run:
            break
        run *= size(loop)
    return run


def contractions(sink: UOp) -> Iterator[Contraction]:
    """Yield a Contraction for each operand that may be staged, of the reduction with the most iterations.

    Nothing where that is no sum or has fewer than FEWEST_TERMS terms, where a loop is no plain one of constant size,
    the kernel has scratch memory, or the stores outside of these loops read or write memory that the others write or
    read. An operand may be staged that is no bool, depends on a loop of the sum, and has rows and columns of its own;
    what each result reads for itself has stride 0 or 1 along the innermost of these columns.
    """
    nodes = postorder(sink)
    reduces = [n for n in nodes if n.op is Ops.REDUCE]
    if not reduces or not _is_flat(nodes):
        return
    sizes = {n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE}
    main = max(reduces, key=lambda n: often(n.src[0].ranges, sizes))
    loops = sorted((n for n in nodes if n.op is Ops.RANGE and main.ranges >> n.arg.axis & 1), key=lambda r: r.arg.axis)
    whole = mask_of(loops)
    stores = tuple(s for s in sink.src if s.ranges & whole == whole)
    if main.arg.op is not Ops.ADD or not _separable(stores, [s for s in sink.src if s not in stores]):
        return
    if any(mask_of(n.src[1:]) & whole for n in reduces if n is not main) or trip_count(main.src[1:]) < FEWEST_TERMS:
        return
    operands = _operands(main.src[0], whole)
    private = [n for n in postorder(main.src[0]) if n.op is Ops.LOAD and n.ranges & whole == whole]
    for staged in operands:
        rows = tuple(r for r in loops if not staged.ranges >> r.arg.axis & 1)
        across = tuple(x for x in operands if any(x.ranges >> r.arg.axis & 1 for r in rows))
        shared = 0  # the loops of what differs from row to row
        for operand in across:
            shared |= operand.ranges
        own = [r for r in loops if staged.ranges >> r.arg.axis & 1 and not shared >> r.arg.axis & 1]
        if staged.dtype is dtypes.bool or not own or not rows or not staged.ranges & mask_of(main.src[1:]):
            continue
        columns = _neighbours(own, stores)
        if any(lane_stride(load.src[1], columns[-1]) not in (0, 1) for load in private):
            continue  # lanes would be gathered
        outer = tuple(r for r in loops if r not in rows and r not in columns)
        yield Contraction(main, staged, columns, rows, outer, across, stores)


def _is_flat(nodes: Sequence[UOp]) -> bool:
    """Return whether all loops are of kind LOOP and constant size, and all memory is that of buffer arguments."""
    loops = (n for n in nodes if n.op is Ops.RANGE)
    plain = all(r.arg.kind is AxisKind.LOOP and r.src[0].op is Ops.CONST for r in loops)
    return plain and all(n.src[0].op is Ops.PARAM for n in nodes if n.op in (Ops.LOAD, Ops.STORE))


def _operands(value: UOp, whole: int) -> list[UOp]:
    """Return the largest subexpressions of a value, but constants, that do not depend on all loops of the mask `whole`.

    They are found through elementwise ops and DOT only.
    """
    found: dict[UOp, None] = {}
    seen, stack = {value}, [value]
    while stack:
        node = stack.pop()
        if node.ranges & whole != whole:
            if node.op is not Ops.CONST:
                found[node] = None
        elif node.op in ELEMENTWISE or node.op is Ops.DOT:
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
    return list(found)


def _separable(stores: Sequence[UOp], others: Sequence[UOp]) -> bool:
    """Return whether `others` may run in loops of their own: neither they nor `stores` read what the others write.

    False where `stores` is empty.
    """

    def touched(mine: Sequence[UOp], theirs: Sequence[UOp]) -> bool:
        """Return whether `theirs` read a buffer that `mine` write."""
        written = {s.src[0] for s in mine}
        return any(n.op is Ops.LOAD and n.src[0] in written for n in postorder(*theirs))

    return bool(stores) and not (others and (touched(stores, others) or touched(others, stores)))


def _neighbours(own: Sequence[UOp], stores: Sequence[UOp]) -> tuple[UOp, ...]:
    """Return the innermost loop of `own` with those around it that are contiguous with it in every result.

    Both are in order of nesting, the innermost last. Loops outside of one that is not contiguous are not among them.
    `stores` are those of the results.
    """
    columns = [own[-1]]
    for outer in reversed(own[:-1]):
        inner = columns[0]
        steps = [(lane_stride(s.src[1], outer), lane_stride(s.src[1], inner)) for s in stores]
        if any(a is None or b is None or a != b * size(inner) for a, b in steps):
            break
        columns.insert(0, outer)
    return tuple(columns)
