"""Lowering of one kernel, from the tensor graph by demand: the value of a node at an index.

`Lowering.value(node, index)` walks from a node to its sources, and lowers movement to index arithmetic, reductions
to REDUCE over new ranges and memory to LOAD. The same node at the same index is the same UOp, so common
subexpressions of two outputs are computed once. Which nodes are memory is decided before (schedule/stored.py).

Each op has one handler: a generator that yields the values it needs as requests (node, index, gate), is sent them,
and yields its own value last. So the walk has a stack of its own, however deep the graph is. A gate is the condition
under which an element exists; loads below it are gated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence

from tinygraft.dtype import SMALL_FLOATS, dtypes
from tinygraft.errors import GraphError
from tinygraft.rules.fold import fold
from tinygraft.schedule.effort import spend
from tinygraft.schedule.picked import index_in_axis, picked_terms
from tinygraft.schedule.views import ZERO, Index, both, flatten, source_index
from tinygraft.uop import index as ix
from tinygraft.uop.ops import (
    ELEMENTWISE,
    FACTS,
    IDEMPOTENT,
    MOVEMENT,
    AxisKind,
    Ops,
    ParamArg,
    ReduceArg,
    WindowArg,
)
from tinygraft.uop.sizes import Shape, high, is_size, sint
from tinygraft.uop.uop import UOp

ValueRequest = tuple[UOp, Index, UOp | None]
Answer = Generator[list[ValueRequest] | UOp, list[UOp], None]
PendingValue = tuple[ValueRequest, Answer, list[ValueRequest]]  # the last: the values that its handler waits for
# Instructions that an operation becomes where the Target lacks it, of those that become more than one.
LENGTH = {op: facts.length for op, facts in FACTS.items() if facts.length > 1}


class Lowering:
    """The state of a kernel while it is lowered.

    `memory` maps each stored node of the tensor graph to its BUFFER; `members` maps the nodes that this kernel
    computes to the indices, made of its loops, at which it computes them. `slots` numbers the buffers that the kernel
    uses, in order of first use; `values` caches the value of each request.
    """

    def __init__(self, memory: Mapping[UOp, UOp]) -> None:
        self.memory = memory
        self.members: dict[UOp, tuple[Index, ...]] = {}
        self.slots: dict[UOp, int] = {}
        self.values: dict[ValueRequest, UOp] = {}
        self.length: int = 0  # instructions of its operations beyond one each
        self.loops: list[UOp] = []
        self.sizes: dict[int, sint] = {}  # of every range, by axis
        self.reduces: dict[UOp, UOp] = {}  # REDUCE of this kernel -> the node that it computes
        self._computes: dict[UOp, UOp] = {}  # the same, with REDUCEs that were merged into a longer one since

    def loop(self, depth: int, size: sint) -> UOp:
        """Return the loop of the outputs at `depth`, counted from the outermost; made with `size` at its first use.

        All outputs of a kernel share it.
        """
        while len(self.loops) <= depth:
            self.loops.append(self.range(size))
        return self.loops[depth]

    def range(self, size: sint, kind: AxisKind = AxisKind.LOOP) -> UOp:
        """Return a new range of `size` iterations, numbered by the next free axis."""
        axis = len(self.sizes)
        self.sizes[axis] = size
        return UOp.range(size, axis, kind)

    def param(self, buffer: UOp) -> UOp:
        """Return the PARAM of `buffer`; at its first use the buffer gets the next slot."""
        slot = self.slots.setdefault(buffer, len(self.slots))
        return UOp(Ops.PARAM, buffer.dtype, (), ParamArg(slot, buffer.arg.size))

    def value(self, node: UOp, index: Index, gate: UOp | None = None) -> UOp:
        """Return the value of `node` at `index`, as a node of the kernel graph.

        As `shared_value` does, where that is known not to be None: it fails an assertion otherwise.
        """
        found = self.shared_value(node, index, gate)
        assert found is not None, f"{node.op} is computed at another index of its kernel"
        return found

    def shared_value(self, node: UOp, index: Index, gate: UOp | None = None) -> UOp | None:
        """Return the value of `node` at `index`, or None where that needs a member at another index than its loops'.

        The member's value at that other index is computed in another iteration, and not in memory yet. `gate` is the
        condition under which the value is used; None where it always is. What was lowered before None is returned
        stays in `values`.
        """
        wanted = (node, index, gate)
        if (known := self.values.get(wanted)) is not None:
            return known
        stack: list[PendingValue] = []
        if not self._begin(wanted, stack):
            return None
        while stack:
            request, answer, needs = stack[-1]
            for need in needs:
                if need not in self.values:
                    if not self._begin(need, stack):
                        return None
                    break
            else:
                found = answer.send([self.values[need] for need in needs])
                if isinstance(found, UOp):
                    self.values[request] = found
                    stack.pop()
                else:
                    stack[-1] = (request, answer, found)
        return self.values[wanted]

    def _begin(self, request: ValueRequest, stack: list[PendingValue]) -> bool:
        """Put the value of `request` into `values`, or the request on `stack` where it needs other values first.

        Returns False for a member of this kernel at another index than that at which it is computed. Raises
        GraphError for an op without a handler.
        """
        node, index, gate = request
        computed_at = None
        if node in self.memory:
            computed_at = self.members.get(node)
            if computed_at is None:
                self.values[request] = self.load(self.memory[node], flatten(index, node.shape), gate)
                return True
            if index not in computed_at:
                return False
        if computed_at is not None and gate is not None:
            answer = self._member(node, index)
        elif (handler := HANDLERS.get(node.op)) is not None:
            spend()
            answer = handler(self, node, index, gate)
        else:
            raise GraphError(f"{node.op} has no meaning in a kernel")
        found = next(answer)
        if isinstance(found, UOp):
            self.values[request] = found
        else:
            stack.append((request, answer, found))
        return True

    def load(self, buffer: UOp, position: UOp, gate: UOp | None) -> UOp:
        """Return the LOAD of the element of `buffer` at flat index `position`, which is 0 where `gate` is closed.

        Where the index is always inside of the buffer the load has no gate, and may be another number: it needs none
        to be safe, and `guarded` selects the 0.
        """
        if gate is not None and position.lo >= 0 and position.hi < buffer.arg.size:
            gate = None
        src = (self.param(buffer), position) if gate is None else (self.param(buffer), position, gate)
        return UOp(Ops.LOAD, buffer.dtype, src)

    def _member(self, node: UOp, index: Index) -> Answer:
        """Yield the value of a member under no gate: it is computed and stored even where this use's gate is closed."""
        (value,) = yield [(node, index, None)]
        yield value

    # One handler per op

    def _leaf(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of a node without sources, or of a BIND; only a BUFFER is loaded, and needs the gate."""
        if node.op is Ops.CONST:
            yield UOp.const(node.dtype, node.arg)
        elif node.op is Ops.IOTA:
            yield index[0].cast(node.dtype)
        elif node.op is Ops.BUFFER:
            yield self.load(node, index[0], gate)
        elif node.op is Ops.BIND:  # without a device: what is computed with it would have constants on it
            yield UOp(Ops.BIND, node.dtype, node.src[:1], node.arg)
        else:
            yield node  # VARIABLE

    def _elementwise(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the op of `node` applied to the values of its sources at the same index, and add to `length`."""
        values = yield [(s, index, gate) for s in node.src]
        self.length += LENGTH.get(node.op, 1) - 1
        yield fold(node.op, node.dtype, tuple(values), node.arg)

    def _transparent(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of the source, which `node` does not change."""
        (value,) = yield [(node.src[0], index, gate)]
        yield value

    def _movement(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of the source at the index that the movement leads to, 0 where that is outside of it."""
        moved, inside = source_index(node, index)
        if _never(inside):
            yield UOp.const(node.dtype, 0)
            return
        (value,) = yield [(node.src[0], moved, both(gate, inside))]
        yield guarded(value, inside)

    def _cat(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of a CAT: that of the source that `index` falls into, chosen by nested WHEREs.

        Each source is computed at `index` less where it starts, under the gate that this is inside of it; not one that
        the bounds of `index` leave out. The last one needs no condition of its own in the WHEREs: an index in no other
        source is in the last.
        """
        axis, needs, ends = node.arg, [], []
        start: sint = 0
        for source in node.src:
            end = ix.add(start, source.shape[axis])
            i = ix.sub(index[axis], start)
            inside = both(None if start == 0 else ix.ge(i, 0), ix.lt(i, source.shape[axis]))
            start = end
            if not _never(inside):
                needs.append((source, (*index[:axis], i, *index[axis + 1 :]), both(gate, inside)))
                ends.append(end)
        values = yield needs
        result = values[-1]
        for value, end in zip(reversed(values[:-1]), reversed(ends[:-1]), strict=True):
            result = fold(Ops.WHERE, node.dtype, (ix.lt(index[axis], end), value, result))
        yield result

    def _reduce_axis(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of a REDUCE_AXIS: a REDUCE over a new range for each reduced axis, none for one of size 1.

        Over an axis of size 0 it is the identity of the op, and the source is not computed.
        """
        op, old = node.arg.op, node.src[0].shape
        identity = FACTS[op].identity
        assert identity is not None
        if any(is_size(old[axis], 0) for axis in node.arg.axes):
            yield UOp.const(node.dtype, identity(node.dtype))
            return
        inner = list(index)
        ranges = []
        for axis in node.arg.axes:
            if not is_size(old[axis], 1):
                inner[axis] = self.range(old[axis])
                ranges.append(inner[axis])
        (value,) = yield [(node.src[0], tuple(inner), gate)]
        yield self._reduced(node, op, value, tuple(ranges))

    def _fold(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of a FOLD: the sum of all elements of windows that cover `index`, 0 where none does.

        The adjoint of WINDOW (PyTorch: fold), written as a gather: for each folded axis a loop over offsets in a
        window, which determine the window that covers `index`. So no element is stored twice, and the loops over the
        result can be parallel. Small floats are summed in float32 and rounded once.
        """
        arg: WindowArg = node.arg
        n = len(arg.length)
        outs, inners, ranges, inside = [], [], [], gate
        for axis in range(n):
            out, k, fits, over = self._fold_axis(index[len(index) - n + axis], arg, axis)
            outs.append(out)
            inners.append(k)
            ranges.extend(over)
            inside = both(inside, fits)
        source = (*index[: len(index) - n], *outs, *inners)
        (value,) = yield [(node.src[0], source, inside)]
        wide = dtypes.float32 if node.dtype in SMALL_FLOATS else node.dtype
        value = fold(Ops.CAST, wide, (self._guarded_sum(value, inside),))
        yield fold(Ops.CAST, node.dtype, (self._reduced(node, Ops.ADD, value, tuple(ranges)),))

    def _guarded_sum(self, value: UOp, inside: UOp | None) -> UOp:
        """Return `value` where `inside` holds, else 0.

        Where `value` is a sum each of its terms is guarded instead, so that `_reduced` can still merge it into a sum
        around it. Replaces the sum in `reduces`.
        """
        if inside is None or value.op is not Ops.REDUCE or value.arg.op is not Ops.ADD:
            return guarded(value, inside)
        terms = UOp(Ops.REDUCE, value.dtype, (guarded(value.src[0], inside), *value.src[1:]), value.arg)
        self.reduces.pop(value, None)  # no KeyError: it may have been merged into another sum already
        self._name(terms, self._computes[value])
        return terms

    def _fold_axis(self, i: UOp, arg: WindowArg, axis: int) -> tuple[UOp, UOp, UOp | None, list[UOp]]:
        """Return (window, element in it, whether both exist, ranges to sum over) for index `i` of one folded axis.

        `axis` is its number in the fields of `arg`. Where windows are of one element, or adjoin without gaps, at most
        one has `i`: both follow from `i`, and there are no ranges. Else the element is a new range, over which is
        summed, and the window follows from it and `i`. Where the condition is false, the window may be out of bounds.
        None stands for a condition that always holds.
        """
        size, stride, dilation, count = arg.size[axis], arg.stride[axis], arg.dilation[axis], arg.count[axis]
        if size == 1 or (
            stride == size and dilation == 1
        ):  # windows do not overlap: at most one has `i`, nothing to sum
            out, k = ix.idiv(i, stride), ix.mod(i, stride)
            return out, k if size > 1 else ZERO, both(ix.lt(out, count), ix.eq(k, 0) if size == 1 else None), []
        over = self.range(size)
        shift = -(-(size - 1) * dilation // stride) * stride  # keeps the dividend from being negative
        position = ix.sub(ix.add(i, shift), ix.mul(over, dilation))
        out = ix.sub(ix.idiv(position, stride), shift // stride)
        fits = both(both(ix.ge(out, 0), ix.lt(out, count)), ix.eq(ix.mod(position, stride), 0))
        return out, over, fits, [over]

    def combined(self, node: UOp, op: Ops, value: UOp, sizes: Sequence[UOp]) -> UOp:
        """Return `value`, which computes `node`, combined with itself by `op` over new ranges of `sizes`."""
        ranges = [self.range(size.arg if size.op is Ops.CONST else size) for size in sizes]
        return self._reduced(node, op, value, tuple(ranges))

    def _reduced(self, node: UOp, op: Ops, value: UOp, ranges: tuple[UOp, ...]) -> UOp:
        """Return `value` combined by `op` over `ranges`, and record its REDUCE as one that computes `node`.

        A range that `value` does not depend on needs no loop where `_repeats` holds: a sum is multiplied by its size.
        Nor does one of whose terms a condition picks one.
        """
        if op is Ops.ADD:
            value, ranges = picked_terms(value, ranges)
        looped = tuple(r for r in ranges if not _repeats(op, value, r))
        times = math.prod(r.src[0].arg for r in ranges if r not in looped)
        if looped:
            terms, over = value, looped
            # a sum of sums is one sum over the loops of both, but where the inner one can be hoisted
            if value.op is Ops.REDUCE and value.arg.op is op and not _invariant(value, looped):
                self.reduces.pop(value, None)
                terms, over = value.src[0], looped + value.src[1:]
            value = UOp(Ops.REDUCE, value.dtype, (terms, *over), ReduceArg(op))
            self._name(value, node)
        return _times(value, times) if op is Ops.ADD and len(looped) < len(ranges) else value

    def _name(self, reduce: UOp, node: UOp) -> None:
        """Record that `reduce` computes `node`."""
        self.reduces[reduce] = self._computes[reduce] = node

    def _gather(self, node: UOp, index: Index, gate: UOp | None) -> Answer:
        """Yield the value of a GATHER: the table at the index that is read from `where`, 0 where that is outside.

        `index` is (axes of the table before `axis`, axes of `where`, axes of the table after it).
        """
        table, where = node.src
        axis, n = node.arg, len(where.shape)
        (picked,) = yield [(where, index[axis : axis + n], gate)]
        i, inside = index_in_axis(picked, table.shape[axis])
        (value,) = yield [(table, (*index[:axis], i, *index[axis + n :]), both(gate, inside))]
        yield guarded(value, inside)


def _invariant(reduce: UOp, ranges: tuple[UOp, ...]) -> bool:
    """Return whether a reduction depends on none of `ranges`, so that it is hoisted out of their loops."""
    return not any(reduce.ranges >> r.arg.axis & 1 for r in ranges)


def _repeats(op: Ops, value: UOp, r: UOp) -> bool:
    """Return whether `value` is the same in every iteration of `r`, and `op` combines equal values without a loop.

    Besides its time, the loop would be inexact: a float32 sum of equal terms stops growing at 2**24 times the first.
    Such an op is one of IDEMPOTENT, or the sum of anything but bools. The size of `r` has to be constant.
    """
    if value.ranges >> r.arg.axis & 1 or r.src[0].op is not Ops.CONST:
        return False
    return op in IDEMPOTENT or (op is Ops.ADD and value.dtype is not dtypes.bool)


def _times(value: UOp, times: int) -> UOp:
    """Return the sum of `times` equal values: a product. Sums begin with 0.0, so that a sum of -0.0 is 0.0."""
    wide = dtypes.float32 if value.dtype in SMALL_FLOATS else value.dtype  # a half holds no number above 65504
    product = fold(Ops.MUL, wide, (fold(Ops.CAST, wide, (value,)), UOp.const(wide, times)))
    if wide.kind == "float":
        product = fold(Ops.ADD, wide, (product, UOp.const(wide, 0.0)))
    return fold(Ops.CAST, value.dtype, (product,))


def guarded(value: UOp, inside: UOp | None) -> UOp:
    """Return `value` where `inside` holds, else 0. A load that is gated by `inside` is 0 there by itself."""
    if inside is None or (value.op is Ops.LOAD and len(value.src) == 3 and terms(inside) <= terms(value.src[2])):
        return value
    return fold(Ops.WHERE, value.dtype, (inside, value, UOp.const(value.dtype, 0)))


def _never(inside: UOp | None) -> bool:
    """Return whether the bounds of indices show that a condition never holds."""
    return inside is not None and inside.hi is not None and not inside.hi


def terms(condition: UOp) -> set[UOp]:
    """Return the conditions whose AND `condition` is."""
    return set(ix.clauses(condition))


def output_loops(shape: Shape) -> list[sint]:
    """Return the sizes of the loops over a shape: its axes without those of size 1."""
    return [size for size in shape if not is_size(size, 1)]


def numel(shape: Shape) -> int:
    """Return how many elements a shape has at most."""
    count = 1
    for size in shape:
        count *= high(size)
    return count


HANDLERS: dict[Ops, Callable[[Lowering, UOp, Index, UOp | None], Answer]] = {
    **dict.fromkeys(ELEMENTWISE, Lowering._elementwise),
    **dict.fromkeys(MOVEMENT, Lowering._movement),
    **dict.fromkeys((Ops.CONST, Ops.IOTA, Ops.BUFFER, Ops.VARIABLE, Ops.BIND), Lowering._leaf),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY), Lowering._transparent),
    Ops.CAT: Lowering._cat,
    Ops.REDUCE_AXIS: Lowering._reduce_axis,
    Ops.FOLD: Lowering._fold,
    Ops.GATHER: Lowering._gather,
}
