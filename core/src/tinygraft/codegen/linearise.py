"""The last step of codegen: from a kernel graph to a list of instructions, each hoisted out of the loops it can leave.

In: a SINK of STOREs whose ranges all have their kind. Out: the list that docs/graph.md, "The linear form", describes.

Blocks are nested like the loops. A value goes into the outermost open block that is inside of all the loops it
depends on, so that a value that does not change in a loop is computed before it. A reduction becomes REGs before its
loop, ACCUMs in it and GETs after it; reductions over the same ranges in the same block share one loop. Stores come
last in their block, and stores inside of the same loops share these, so that a kernel that overwrites its input has
read it before; uop/hazards.py proves that of the result.

The walk has a stack of steps instead of recursion, since graphs are deeper than Python's stack. A step is a method and
its arguments; `later` pushes steps, of which the last one given runs first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinygraft.rules.fold import is_const
from tinygraft.uop.ops import FACTS, AxisKind, Ops, RangeArg, ReduceArg, RegArg
from tinygraft.uop.units import TileArg
from tinygraft.uop.uop import UOp, postorder

LOOPS = frozenset({AxisKind.LOOP, AxisKind.PARALLEL, AxisKind.ORDERED})
PendingStep = tuple[Callable[..., None], tuple[object, ...]]


class LoopBody:
    """The body of a loop, or of the kernel (then `axis` is -1 and `range` None), while it is filled.

    `axis` is that of its range in the kernel graph, `range` the one in the linear form. The instructions are `items`,
    then `stores`, then `last`: the BARRIER at which the threads of a block wait before the next iteration fills the
    same shared memory.
    """

    axis: int
    range: UOp | None

    __slots__ = ("axis", "items", "last", "range", "stores", "values")

    def __init__(self, axis: int, loop: UOp | None) -> None:
        self.axis, self.range = axis, loop
        self.items: list[UOp] = []
        self.stores: list[UOp] = []
        self.last: list[UOp] = []
        self.values: dict[UOp, UOp] = {}  # node of the kernel graph -> what was emitted for it here


def linearise(sink: UOp, fuses: bool = False) -> list[UOp]:
    """Return the instructions of the kernel `sink`.

    With `fuses` sums of products of floats are accumulated by FMA, rounding once.
    """
    return _Lineariser(sink, fuses).run()


class Nest:
    """The stores of one block, and the Nest of each loop in it by axis."""

    __slots__ = ("loops", "stores")

    def __init__(self) -> None:
        self.stores: list[UOp] = []
        self.loops: dict[int, Nest] = {}

    def forks(self) -> bool:
        """Return whether this block, or one inside of it, has two loops, one after the other."""
        return len(self.loops) > 1 or any(inner.forks() for inner in self.loops.values())

    def all_stores(self) -> Iterator[UOp]:
        """Yield its stores, and then those of its loops, loop by loop."""
        yield from self.stores
        for inner in self.loops.values():
            yield from inner.all_stores()


class _Lineariser:
    """Builds the linear form of one kernel: `run` does it, once.

    `path` are the open blocks, from the kernel to the innermost loop.
    """

    def __init__(self, sink: UOp, fuses: bool) -> None:
        self.sink, self.fuses = sink, fuses
        nodes = postorder(sink)
        self.ranges = {n.arg.axis: n for n in nodes if n.op is Ops.RANGE}
        self.looping: int = sum(1 << axis for axis, r in self.ranges.items() if r.arg.kind in LOOPS)
        self.nodes, self.early = nodes, list[UOp]()  # `early` has nodes for `read_early`
        self.masks = _masks(sink, nodes)
        self.reduces: dict[tuple[int, tuple[UOp, ...]], list[UOp]] = {}
        for node in nodes:
            if node.op is Ops.REDUCE:
                self.reduces.setdefault((self.mask(node), node.src[1:]), []).append(node)
        self.path = [LoopBody(-1, None)]
        self.fresh = 0  # number of the next range
        self.registers = self.tiles = 0
        self.filled: dict[UOp, list[UOp]] = {}  # AFTER -> the stores that filled its memory
        self.steps: list[PendingStep] = []

    def mask(self, node: UOp) -> int:
        """Return the mask of the loops that a node has to be inside of."""
        ranges: int = node.ranges if self.masks is None else self.masks.get(node, node.ranges)
        return ranges & self.looping

    def run(self) -> list[UOp]:
        """Return the instructions. Emits all stores, each inside its loops, which are opened once for all of them."""
        for store in self.in_nests():
            self.enter(store)
            self.walk((self.store, (store,)), *[(self.visit, (s,)) for s in store.src])
        self.leave(1)
        root = self.path[0]
        return root.items + root.stores

    def axes(self, store: UOp) -> list[int]:
        """Return the axis numbers of the loops that a store is inside of, outermost first."""
        mask = self.mask(store)
        return [axis for axis in sorted(self.ranges) if mask >> axis & 1]

    def in_nests(self) -> list[UOp]:
        """Return the stores in the order in which they are emitted.

        It is that of the SINK, but those of one loop together where a block has several loops in sequence; `early` is
        set then.
        """
        root = Nest()
        for store in self.sink.src:
            nest = root
            for axis in self.axes(store):
                nest = nest.loops.setdefault(axis, Nest())
            nest.stores.append(store)
        if not root.forks():  # no loop is closed before a store that needs it: the order of the SINK will do
            return list(self.sink.src)
        self.early = _early(self.sink, self.nodes)
        return list(root.all_stores())

    def walk(self, *steps: PendingStep) -> None:
        """Run `steps`, the last one given first, and all steps that they push, until none is left."""
        self.later(*steps)
        while self.steps:
            step, arguments = self.steps.pop()
            step(*arguments)

    def later(self, *steps: PendingStep) -> None:
        """Push steps to run next; the last one given runs first."""
        self.steps.extend(steps)

    # Blocks

    def enter(self, store: UOp) -> None:
        """Open the loops of a store, after closing those that it is not inside of.

        Where all of its own are open already none is closed: the store then goes into an outer block.
        """
        wanted = self.axes(store)
        shared = 0
        while shared < min(len(wanted), len(self.path) - 1) and self.path[shared + 1].axis == wanted[shared]:
            shared += 1
        if shared < len(wanted):
            if shared + 1 < len(self.path):
                self.read_early(shared + 1)
            self.leave(shared + 1)
        for axis in wanted[shared:]:
            self.open(self.ranges[axis])

    def read_early(self, depth: int) -> None:
        """Emit, before loops are closed, the loads that later stores need of memory that these loops overwrite.

        `depth` is how many blocks stay open: what depends on other loops than theirs is not emitted.
        """
        inside = sum(1 << block.axis for block in self.path[1:depth])
        for node in self.early:
            if not self.mask(node) & ~inside:
                self.walk((self.visit, (node,)))

    def open(self, loop: UOp) -> None:
        """Open a block for a loop in the innermost one. Its size is emitted here: it depends on no other loop."""
        for node in postorder(loop.src[0]):
            self.emit(node)
        kind = loop.arg.kind if loop.arg.kind in LOOPS else AxisKind.LOOP
        opened = self.numbered(loop, self.value(loop.src[0]), kind)
        block = LoopBody(loop.arg.axis, opened)
        block.items.append(opened)
        block.values[loop] = opened
        self.path.append(block)

    def numbered(self, old: UOp, size: UOp, kind: AxisKind) -> UOp:
        """Return a range of the linear form for the range `old`, of `kind`, with a number of its own each time.

        `size` is its trip count, as it was emitted; the dimension of the grid is that of `old`.
        """
        self.fresh += 1
        return UOp(Ops.RANGE, old.dtype, (size,), RangeArg(self.fresh - 1, kind, old.arg.dim))

    def leave(self, depth: int) -> None:
        """Close blocks until `depth` remain; a closed block becomes part of the one around it."""
        while len(self.path) > depth:
            block = self.path.pop()
            assert block.range is not None
            end = UOp(Ops.END, src=(block.range,))
            self.path[-1].items += [*block.items, *block.stores, *block.last, end]

    def depth(self, node: UOp) -> int:
        """Return the number of open blocks up to that of the innermost loop that a node depends on."""
        mask = self.mask(node)
        depth = len(self.path)
        while depth > 1 and not mask >> self.path[depth - 1].axis & 1:
            depth -= 1
        return depth

    def find(self, node: UOp) -> UOp | None:
        """Return what was emitted for a node in an open block; None otherwise, also where its block is closed."""
        for block in reversed(self.path):
            if (found := block.values.get(node)) is not None:
                return found
        return None

    def value(self, node: UOp) -> UOp:
        """Return what was emitted for a node that has been visited; fails an assertion for any other node."""
        found = self.find(node)
        assert found is not None, f"{node.op} is used before it is computed"
        return found

    # Steps

    def visit(self, node: UOp) -> None:
        """Push the steps that compute a value and its sources; nothing where it was emitted in an open block."""
        if self.find(node) is not None:
            return
        if node.op is Ops.REDUCE:
            self.begin_reduce(node)
        elif node.op is Ops.AFTER and any(s.op in (Ops.RANGE, Ops.MATRIX) for s in node.src):
            self.begin_fill(node)
        else:
            self.later((self.emit, (node,)))
            self.later(*[(self.visit, (s,)) for s in reversed(node.src)])

    def emit(self, node: UOp) -> None:
        """Append a node, whose sources are emitted, to the outermost block that it can be in.

        An AFTER is no instruction but the memory that was filled; the BARRIER of a fill waits for its stores.
        """
        if self.find(node) is not None:
            return
        block = self.path[self.depth(node) - 1]
        if node.op is Ops.RANGE:
            made = self.numbered(node, self.value(node.src[0]), node.arg.kind)
        elif node.op is Ops.AFTER:
            made = self.value(node.src[0])
        elif node.op is Ops.BARRIER:
            made = UOp(Ops.BARRIER, src=tuple(s for fill in node.src for s in self.filled[fill]))
            if block.range is not None:  # in a loop: the next iteration may not fill before all threads have read
                block.last = [UOp(Ops.BARRIER, src=(made,))]
        else:
            src = tuple(self.value(s) for s in node.src)
            made = node if src == node.src else UOp(node.op, node.dtype, src, node.arg)
        block.values[node] = made
        if node.op is not Ops.AFTER:
            block.items.append(made)

    def store(self, store: UOp) -> None:
        """Append a store to the stores of its block; loops inside of that block may still be open."""
        self.path[len(self.axes(store))].stores.append(store.replace(src=tuple(self.value(s) for s in store.src)))

    def begin_fill(self, node: UOp) -> None:
        """Emit the scratch memory of an AFTER, open the loops that fill it, and push the steps that do.

        It is filled by loops of its own, in the block of the loops that its contents depend on; deeper blocks stay
        open, and `finish_fill` returns to them.
        """
        saved, depth = self.path, self.depth(node)
        self.path = self.path[:depth]
        self.emit(node.src[0])
        ranges = [s for s in node.src[1:] if s.op is Ops.RANGE]
        for r in ranges:
            if r.arg.kind not in LOOPS:  # lanes, copies and thread indices open no block: they are values of this one
                for part in postorder(r):
                    self.emit(part)
        made: list[UOp] = []  # the stores of the fill
        # steps run in the reverse order of `later`: what is pushed first here closes the loops
        self.later((self.finish_fill, (node, made, depth, saved)))
        for store in reversed([s for s in node.src[1:] if s.op is not Ops.RANGE]):
            if store.op is Ops.MATRIX:
                self.later((self.begin_tile, (store, made)))
            else:
                self.later((self.fill, (store, made)), *[(self.visit, (s,)) for s in reversed(store.src)])
        for r in sorted((r for r in ranges if r.arg.kind in LOOPS), key=lambda r: r.arg.axis):
            self.open(r)

    def fill(self, store: UOp, made: list[UOp]) -> None:
        """Append a store to scratch memory to the innermost block, and to `made`."""
        made.append(store.replace(src=tuple(self.value(s) for s in store.src)))
        self.path[-1].items.append(made[-1])

    def finish_fill(self, node: UOp, made: list[UOp], depth: int, saved: list[LoopBody]) -> None:
        """Close the loops of a fill down to `depth` blocks, record its stores, and return to the blocks `saved`.

        From here on the memory can be read; where other threads do, they have a BARRIER for it in the graph. `node` is
        the AFTER, `made` are these stores.
        """
        self.leave(depth)
        self.filled[node] = made
        self.path[-1].values[node] = self.value(node.src[0])
        self.path = saved

    def begin_tile(self, node: UOp, made: list[UOp]) -> None:
        """Emit the TILE of a matrix product, one for each unrolled copy, and push the steps of its loops and stores.

        The steps open the loops over its terms, add a PRODUCT in them, close them and store the tiles. `node` is a
        MATRIX, one of the stores of a fill; `made` is the list of these, to which the last step adds.
        """
        copies = [r for axis, r in sorted(self.ranges.items()) if node.ranges >> axis & 1]
        copies = [r for r in copies if r.arg.kind is AxisKind.UNROLL]
        for part in postorder(*copies):
            self.emit(part)
        unit = node.arg.unit
        self.tiles += 1
        tile = UOp(Ops.TILE, unit.result, tuple(self.value(r) for r in copies), TileArg(self.tiles - 1, unit))
        self.path[-1].items.append(tile)
        loops = sorted(node.src[6:], key=lambda r: r.arg.axis)
        self.later(
            (self.put, (node, tile, len(self.path), made)),
            (self.product, (node, tile)),
            *[(self.visit, (s,)) for s in reversed(node.src[2:6])],
            *[(self.open, (r,)) for r in reversed(loops)],
            (self.visit, (node.src[1],)),
        )

    def product(self, node: UOp, tile: UOp) -> None:
        """Emit the body of the loops over terms: a PRODUCT, which adds to the tiles."""
        src = (tile, *(self.value(s) for s in node.src[2:6]))
        self.path[-1].items.append(UOp(Ops.PRODUCT, src=src, arg=node.arg))

    def put(self, node: UOp, tile: UOp, depth: int, made: list[UOp]) -> None:
        """Close the loops over terms down to `depth` blocks, and store the tiles by a PUT, which is added to `made`."""
        self.leave(depth)
        made.append(UOp(Ops.PUT, src=(self.value(node.src[0]), self.value(node.src[1]), tile), arg=node.arg))
        self.path[-1].items.append(made[-1])

    def begin_reduce(self, node: UOp) -> None:
        """Emit the REGs of all reductions over the same ranges in the same block, and open their loops.

        Pushes the steps that accumulate in the loops and close them; deeper blocks stay open, and `finish_reduce`
        returns to them.
        """
        group = [n for n in self.reduces[(self.mask(node), node.src[1:])] if self.find(n) is None]
        saved, depth = self.path, self.depth(node)
        self.path = self.path[:depth]
        flat = [r for r in node.src[1:] if r.arg.kind not in LOOPS]
        for r in [x for n in group for x in self.copies(n)] + flat:
            for part in postorder(r):
                self.emit(part)
        registers = [self.register(n) for n in group]
        loops = [r for r in node.src[1:] if r.arg.kind in LOOPS]
        self.later((self.finish_reduce, (group, registers, depth, saved)))
        for n, register in zip(reversed(group), reversed(registers), strict=True):
            self.later((self.accumulate, (n, register)), *[(self.visit, (s,)) for s in reversed(self.added(n))])
        for r in sorted(loops, key=lambda r: r.arg.axis):
            self.open(r)

    def copies(self, node: UOp) -> list[UOp]:
        """Return the VECTOR and UNROLL ranges for which a reduction has separate registers.

        An UNROLL range that it reduces over has none: its copies are added to one register. Those of a VECTOR range
        are combined after the loop, by LANES.
        """
        closed = {r.arg.axis for r in node.src[1:] if r.arg.kind is AxisKind.UNROLL}
        inside = node.src[0].ranges
        copied = [r for axis, r in sorted(self.ranges.items()) if inside >> axis & 1 and axis not in closed]
        return [r for r in copied if r.arg.kind in (AxisKind.VECTOR, AxisKind.UNROLL)]

    def register(self, node: UOp) -> UOp:
        """Emit the REG of a reduction, set to the identity of its op, in the innermost block. Returns it."""
        identity = FACTS[node.arg.op].identity
        assert identity is not None
        first = UOp.const(node.dtype, identity(node.dtype))
        self.emit(first)
        src = (self.value(first), *(self.value(r) for r in self.copies(node)))
        self.registers += 1
        register = UOp(Ops.REG, node.dtype, src, RegArg(self.registers - 1))
        self.path[-1].items.append(register)
        return register

    def added(self, node: UOp) -> tuple[UOp, ...]:
        """Return the operands of a reduction in each iteration: its value or, for a FMA or DOT, its factors.

        A product under a condition, 0 elsewhere, has the condition as a third operand.
        """
        value = node.src[0]
        if value.op is Ops.DOT:
            return value.src
        gate: tuple[UOp, ...] = ()
        if not self.fuses or node.arg.op is not Ops.ADD or value.dtype.kind != "float":
            return (value,)
        if value.op is Ops.WHERE and is_const(value.src[2], 0):
            value, gate = value.src[1], value.src[:1]
        return (*value.src, *gate) if value.op is Ops.MUL else node.src[:1]

    def accumulate(self, node: UOp, register: UOp) -> None:
        """Emit an ACCUM: combine a register with the operands of this iteration."""
        values = self.added(node)
        # of several operands the arg of a DOT is its matrix unit; that of a product is None
        op = node.arg.op if len(values) == 1 else node.src[0].arg or Ops.FMA
        src = (register, *(self.value(v) for v in values))
        self.path[-1].items.append(UOp(Ops.ACCUM, node.dtype, src, op))

    def finish_reduce(self, group: list[UOp], registers: list[UOp], depth: int, saved: list[LoopBody]) -> None:
        """Close the loops down to `depth` blocks, emit the GETs (the values), and return to the blocks `saved`.

        `group` are the reductions, and `registers` their REGs in the same order.
        """
        self.leave(depth)
        block = self.path[-1]
        for node, register in zip(group, registers, strict=True):
            made = UOp(Ops.GET, node.dtype, (register,))
            block.items.append(made)
            for r in node.src[1:]:
                if r.arg.kind is AxisKind.VECTOR:
                    made = UOp(Ops.LANES, node.dtype, (made, self.value(r)), ReduceArg(node.arg.op))
                    block.items.append(made)
            block.values[node] = made
        self.path = saved


def _early(sink: UOp, nodes: list[UOp]) -> list[UOp]:
    """Return the loads of memory that the kernel stores to, and the REDUCEs and fills that have such loads in them.

    They are in the order of `nodes`, the postorder of `sink`.
    """
    stored = {store.src[0] for store in sink.src if store.op is Ops.STORE}
    reads: set[UOp] = set()
    found: list[UOp] = []
    for node in nodes:
        load = node.op is Ops.LOAD and node.src[0] in stored
        if load or not reads.isdisjoint(node.src):
            reads.add(node)
            if load or node.op is Ops.REDUCE or node.op is Ops.AFTER:
                found.append(node)
    return found


def _masks(sink: UOp, nodes: list[UOp]) -> dict[UOp, int] | None:
    """Return the mask of ranges that each node has to be inside of, where a load reads what an ordered store wrote.

    Such a load may not be hoisted out of the loop, although it does not depend on its counter: each iteration changes
    its value. None for a kernel without ordered stores, or whose ordered stores need no such load: there a node's own
    ranges suffice. `nodes` is the postorder of `sink`.
    """
    ordered = sum(1 << n.arg.axis for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.ORDERED)
    written: dict[UOp, int] = {}
    for store in sink.src:
        if store.ranges & ordered:
            reads = (n for n in postorder(store.src[2]) if n.op is Ops.LOAD and n.src[0] is store.src[0])
            written.update((n, store.ranges) for n in reads)
    if not written:
        return None
    masks: dict[UOp, int] = {}
    for node in nodes:
        mask = node.ranges
        for source in node.src:
            mask |= masks[source] & ~(source.ranges & ~node.ranges)
        if node.op is Ops.LOAD:
            mask |= written.get(node, 0)
        masks[node] = mask
    return masks
