"""Loops in vectors: which ones, how wide, and what is written out beside them so that units and memory are kept busy.

Vectors first: the loop along which most loads and stores move by one element, and the loops that run beside it. What
else is done depends on what that loop is:

- results of a reduction that share loads: copies of a second loop, so that what is loaded serves several of them
- results of a reduction that share none, as sums of columns: copies side by side, so that longer parts of rows are read
- terms of a reduction: vectors several registers wide, since one register waits for its own last sum; or, where terms
  lie in pieces as those of a channel, several results at once
- elements behind a long chain of arithmetic: copies, so that one chain runs while another waits
- elements that lie side by side in the output and far apart in an input, as in a transposition: copies of the loop
  along which they lie side by side there, so that a block is turned in registers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinygraft.codegen.action import Action, action
from tinygraft.codegen.actions import loops_of, name_of
from tinygraft.codegen.loops import often, size
from tinygraft.codegen.take import take
from tinygraft.codegen.tiling import NEAR
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import COMPOSITE, ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: they put kernels into vectors that were slow without, which is all that was measured:
# a max pool with stride 2 1.8 -> 0.46 ms, the gradient of one 1,793 -> 686 us (benchmarks/NOTES.md, 2026-11-20)
SHORTEST = 4  # iterations of a loop below which it is not made of vectors
NEARBY = 0.4  # what a load of lanes a few elements apart is worth, where one of neighbours is worth 1
GATHER = 2.0  # what a load at a computed address for each lane costs, in vector loads for each lane saved
ARITHMETIC = 0.5  # what an operation in vectors saves, in the same measure
# assumed: about those of an x86; with them sums of rows of 2048 have registers enough, which BEAM found to be worth
# 2.1 and the choice itself gives 526 -> 239 us (benchmarks/NOTES.md, 2026-11-20, one thread of an EPYC, AVX-512)
SUM = 4  # cycles until the sum of two registers is there
REST = 4  # cycles of an iteration that is left over from vectors
# assumed: never measured; rows of 37 elements in vectors of 32 lose a fifth (NOTES.md, 2026-11-20)
LONG = 16  # vectors of a row that is longer than what a machine looks ahead: shorter ones do not wait for each other
# assumed: set so that 16 vectors of a row are read at once, as BEAM found best for 2048x2048: 671 -> 354 us
# (NOTES.md, 2026-11-20)
ALONE, START = 5.0, 4.0  # of sums of columns: a vector of a row read by itself, and the first of several, in later ones
SLOW = COMPOSITE  # a chain of a dozen operations or more
# assumed: never measured
MOST_SLOW = 3  # of them in a body that is copied: more fill the units by themselves
# measured: BEAM chose four for exp(relu(x*2+1)) on 1M floats, 283 -> 216 us (NOTES.md, 2026-11-20)
COPIES = 4  # of such a body
# assumed: the price was measured, compiling a transposition 18 ms instead of 4, gelu 9 instead of 6 (NOTES.md,
# 2026-11-20); from where on it is earned was not
WORTH = 1 << 12  # elements below which a kernel is done before longer code is compiled


def offers(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """One list of actions for any kernel, perhaps an empty one."""
    taken = tuple(_LoopFacts(sink, target).actions())
    yield take(sink, taken, target), taken


class _LoopFacts:
    """What is known of a kernel and its loops."""

    def __init__(self, sink: UOp, target: Target) -> None:
        self.sink, self.target = sink, target
        self.nodes = postorder(sink)
        self.accesses = [n for n in self.nodes if n.op in (Ops.LOAD, Ops.STORE)]
        self.reduces = [n for n in self.nodes if n.op is Ops.REDUCE]
        self.summed = {r for n in self.reduces for r in n.src[1:]}
        results = [*(n.dtype for n in self.reduces), *(s.src[0].dtype for s in sink.src)]
        most = target.vector_bytes // max(4, *(dtype.itemsize for dtype in results))
        self.loops = [r for r in loops_of(sink) if most > 1 and size(r) >= SHORTEST]
        self.sizes = {r.arg.axis: size(r) for r in self.nodes if r.op is Ops.RANGE}
        self.widths = {r: min(most, 1 << (size(r).bit_length() - 1)) for r in self.loops}

    def actions(self) -> list[Action]:
        """The actions, in order."""
        turned = self.turned()
        if turned is not None:
            return turned
        scores = {r: self.score(r) * (1 - 1 / self.widths[r]) for r in self.loops}
        best = max(self.loops, key=lambda r: (scores[r], r.arg.axis), default=None)
        if best is None or scores[best] <= 0:
            return []
        shared = self.shared(best) or self.abreast(best)
        taken = [action("vectorise", name_of(best), self.width(best, shared is None))]
        if shared is not None:
            taken.append(action("unroll", name_of(shared[0]), shared[1]))
        for r in self.apart(best, sorted((r for r in self.loops if scores[r] > 0), key=lambda r: -scores[r])):
            taken.append(action("vectorise", name_of(r), self.width(r, shared is None)))
        copies = 1 if shared is not None or best in self.summed else self.copies(best)
        return [*taken, action("unroll", name_of(best), copies)] if copies > 1 else taken

    def score(self, loop: UOp) -> float:
        """How many element accesses become parts of a vector access, less those that become gathers; and arithmetic."""
        inside = (n for n in self.nodes if n.ranges >> loop.arg.axis & 1 and n.op in ELEMENTWISE)
        score = ARITHMETIC * sum(self.iterations(n.ranges) for n in inside if n.dtype.kind == "float")
        for access in self.accesses:
            position = access.src[1]
            if position.ranges >> loop.arg.axis & 1:
                iterations = self.iterations(access.ranges)
                step = lane_stride(position, loop)
                score += iterations if step == 1 else iterations * NEARBY if step in NEAR else -GATHER * iterations
        return score

    def iterations(self, mask: int) -> float:
        """How often what depends on the loops of mask is computed."""
        return often(mask, self.sizes)

    def width(self, loop: UOp, free: bool) -> int:
        """Lanes: of one register, or of several where sums would wait and registers are free."""
        width, count = self.widths[loop], size(loop)
        if loop not in self.summed or not free or count < LONG * width:
            return width
        return min((width, 2 * width, 4 * width), key=lambda w: count // w * max(SUM, w // width) + count % w * REST)

    def apart(self, first: UOp, loops: Sequence[UOp]) -> list[UOp]:
        """The loops that run beside first and beside each other, never one inside the other: as those of a softmax."""
        chosen = [first]
        for loop in loops:
            masks = [1 << loop.arg.axis | 1 << other.arg.axis for other in chosen]
            if loop not in chosen and not any(n.ranges & mask == mask for n in self.nodes for mask in masks):
                chosen.append(loop)
        return chosen[1:]

    def copies(self, best: UOp) -> int:
        """How many vectors of a loop over elements or results are computed side by side."""
        vectors = size(best) // self.widths[best]
        if any(n.src[0].ranges >> best.arg.axis & 1 for n in self.reduces):
            around = any(
                r is not best and s.ranges >> r.arg.axis & 1 for r in loops_of(self.sink) for s in self.sink.src
            )
            least = 1 if around else self.target.chunks  # blocks that threads have to share
            counts = [n for n in (4, 8, 16) if n <= self.target.registers // 2 and vectors // n >= least]
            return min(counts, key=lambda n: vectors // n * (n + START) + vectors % n * ALONE, default=1)
        slow = [n for n in self.nodes if n.op in SLOW and n.ranges >> best.arg.axis & 1]
        many = max(self.iterations(s.ranges) for s in self.sink.src) >= WORTH
        return COPIES if many and vectors >= COPIES and 0 < len(slow) <= MOST_SLOW else 1

    def shared(self, vector: UOp) -> tuple[UOp, int] | None:
        """A loop over results that share loads of a reduction, and how often to write it out."""
        reduces = [n for n in self.reduces if n.src[0].ranges >> vector.arg.axis & 1]
        if not reduces:
            return None
        main = max(reduces, key=lambda n: self.iterations(n.src[0].ranges))
        inside = main.src[0].ranges
        loads = [n for n in postorder(main.src[0]) if n.op is Ops.LOAD]
        best: tuple[float, UOp] | None = None
        for node in self.nodes:
            if node.op is not Ops.RANGE or node is vector or not main.ranges >> node.arg.axis & 1:
                continue
            if node.arg.kind is not AxisKind.LOOP or node.src[0].op is not Ops.CONST or size(node) < 2:
                continue
            same = [n for n in loads if n.ranges & inside and not n.ranges >> node.arg.axis & 1]
            saved = sum(self.iterations(n.ranges) for n in same)
            if saved and (best is None or saved > best[0]):
                best = (saved, node)
        if best is None:
            return None
        count = size(best[1])
        return best[1], next((n for n in (8, 6, 4) if count % n == 0), 4 if count > 8 else count)

    def abreast(self, best: UOp) -> tuple[UOp, int] | None:
        """The outermost loop over results whose sums run over several loops, and how many to compute at once."""
        mine = [n for n in self.reduces if best in n.src[1:]]
        around = [r for r in loops_of(self.sink) if all(s.ranges >> r.arg.axis & 1 for s in self.sink.src)]
        if not mine or any(len(n.src) < 3 for n in self.reduces) or not around:
            return None
        most = min(self.target.registers // 2 // len(self.reduces), size(around[0]) // self.target.chunks)
        count = next((n for n in (8, 4, 2) if n <= most), 1)
        return (around[0], count) if count > 1 else None

    def turned(self) -> list[Action] | None:
        """Vectors of the loop that stores move along, and copies of the one that loads move along; None if all agree.

        The inner loop is the one along which the array with the longer rows is contiguous.
        """
        stores, loads = ([n for n in self.accesses if n.op is op] for op in (Ops.STORE, Ops.LOAD))
        along = [r for r in self.loops if all(lane_stride(s.src[1], r) == 1 for s in stores)]
        if not along or self.reduces or max(self.iterations(s.ranges) for s in stores) < WORTH:
            return None
        vector = along[-1]
        steps = {n: lane_stride(n.src[1], vector) for n in loads}
        far = [n for n, step in steps.items() if step not in NEAR]
        others = [r for r in self.loops if r is not vector and all(lane_stride(n.src[1], r) == 1 for n in far)]
        if not far or not others:
            return None
        other, width = others[-1], self.widths[vector]
        first, second = sorted((name_of(vector), name_of(other)))
        inner = name_of(vector) if size(vector) >= size(other) else name_of(other)
        swap = [Action("reorder", (second, first))] if inner == first else []
        names = {first: second, second: first} if swap else {first: first, second: second}
        count = min(width, size(other))
        return [
            *swap,
            action("vectorise", names[name_of(vector)], width),
            action("unroll", names[name_of(other)], count),
        ]
