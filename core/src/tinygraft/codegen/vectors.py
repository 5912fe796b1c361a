"""Vectorised kernels: which loops, how wide, and which loops are unrolled to keep arithmetic units and memory busy.

First the loop along which most loads and stores have stride 1 becomes vectors, and with it loops that are independent
of it. Then a loop is unrolled, by what the vectorised one is:

- results of a reduction that share loads: a second loop is unrolled, so that each load is used by several results
- results of a reduction that share none, as sums of columns: unrolled, so that longer parts of rows are read
- terms of a reduction: vectors several registers wide, since an accumulator waits for its own last addition; or, where
  terms are contiguous only in pieces as those of a channel, several results at once
- short rows, of which a second reduction waits for the first: several of them at once
- elements of a long chain of arithmetic: unrolled, so that one chain runs while another waits for its results
- elements that are contiguous in the output and strided in an input, as in a transposition: the loop that is
  contiguous in the input is unrolled, so that a block is transposed in registers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinygraft.codegen.action import Action, action
from tinygraft.codegen.apply import apply_actions
from tinygraft.codegen.loops import often, size
from tinygraft.codegen.tiling import NEAR
from tinygraft.codegen.transforms import is_inside, loops_of, name_of
from tinygraft.target import Target
from tinygraft.uop.linear import lane_stride
from tinygraft.uop.ops import COMPOSITE, ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: they put kernels into vectors that were slow without, which is all that was measured:
# a max pool with stride 2 1.8 -> 0.46 ms, the gradient of one 1,793 -> 686 us (benchmarks/NOTES.md, 2026-11-20)
SHORTEST = 4  # iterations of a loop below which it is not made of vectors
NEARBY = 0.4  # what a load of lanes a few elements apart is worth, where one of neighbours is worth 1
GATHER = 2.0  # what a load at a computed address for each lane costs, in vector loads for each lane saved
GATHERED = 0.0  # the same where one instruction does that for all lanes: it takes as long as their loads
ARITHMETIC = 0.5  # what an operation in vectors saves, in the same measure
# assumed: about those of an x86; with them sums of rows of 2048 have registers enough, which BEAM found to be worth
# 2.1 and the choice itself gives 526 -> 239 us (benchmarks/NOTES.md, 2026-11-20, one thread of an EPYC, AVX-512)
SUM = 4  # cycles of latency of an addition
REMAINDER = 4  # cycles of an iteration of the remainder
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
# measured: log_softmax of 400,000 elements in rows of 10, 31, 63 and 100 took 537, 247, 184 and 153 us one row after
# another, 341, 179, 147 and 128 in fours (NOTES.md, 2026-12-01, rows with a remainder), 20 ms more to compile
ABREAST = ((4, 4), (8, 2))  # vectors of a row, and how many such rows are abreast
MANY_ROWS = 1 << 16  # elements below which that is not earned


def vector_kernels(sink: UOp, target: Target) -> Iterator[tuple[UOp, tuple[Action, ...]]]:
    """Yield one candidate for any kernel: the kernel with actions applied, and these, of which there may be none."""
    actions = tuple(_LoopFacts(sink, target).actions())
    yield apply_actions(sink, actions, target), actions


class _LoopFacts:
    """The nodes of a kernel, and the loops that may be vectorised, with their sizes and widths."""

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
        """Return the actions, in the order in which they are applied; none where vectors save nothing.

        Those of a transposition where the kernel is one; else vectors of the loop with the best score and of loops that
        are independent of it, and one loop unrolled.
        """
        swapped = self.transposition()
        if swapped is not None:
            return swapped
        scores = {r: self.score(r) * (1 - 1 / self.widths[r]) for r in self.loops}
        best = max(self.loops, key=lambda r: (scores[r], r.arg.axis), default=None)
        if best is None or scores[best] <= 0:
            return []
        shared = self.shared(best) or self.abreast(best) or self.short_rows(best)
        if shared is None and self.is_over_columns(best) and not self.slow(best):
            self.widths[best] = self.without_rest(best)
        found = [action("vectorise", name_of(best), self.width(best, shared is None))]
        if shared is not None:
            found.append(action("unroll", name_of(shared[0]), shared[1]))
        for r in self.independent(best, sorted((r for r in self.loops if scores[r] > 0), key=lambda r: -scores[r])):
            found.append(action("vectorise", name_of(r), self.width(r, shared is None)))
        copies = 1 if shared is not None or best in self.summed else self.copies(best)
        return [*found, action("unroll", name_of(best), copies)] if copies > 1 else found

    def score(self, loop: UOp) -> float:
        """Return what vectorising `loop` saves: accesses that become vector accesses, minus gathers, and arithmetic.

        The unit is one load of neighbouring elements; below 0 vectors would cost more than they save.
        """
        inside = (n for n in self.nodes if n.ranges >> loop.arg.axis & 1 and n.op in ELEMENTWISE)
        score = ARITHMETIC * sum(self.iterations(n.ranges) for n in inside if n.dtype.kind == "float")
        for access in self.accesses:
            index = access.src[1]
            if index.ranges >> loop.arg.axis & 1:
                iterations = self.iterations(access.ranges)
                step = lane_stride(index, loop)
                cost = GATHERED if step is None and self.is_gathered(access) else GATHER
                score += iterations if step == 1 else iterations * NEARBY if step in NEAR else -cost * iterations
        return score

    def is_gathered(self, access: UOp) -> bool:
        """Return whether the machine has an instruction for a load of lanes at computed addresses."""
        return access.op is Ops.LOAD and access.dtype.itemsize in self.target.gathers

    def iterations(self, mask: int) -> float:
        """Return how often the body of the loops of `mask` runs."""
        return often(mask, self.sizes)

    def width(self, loop: UOp, free: bool) -> int:
        """Return the lanes for a loop: of one register, or of several where sums would wait and registers are free.

        `free` says that they are: no other loop is unrolled. Several only for sums of LONG vectors or more.
        """
        width, count = self.widths[loop], size(loop)
        if loop not in self.summed or not free or count < LONG * width:
            return width
        inside = is_inside(self.sink, loop)  # then the remainder is one more vector

        def cycles(lanes: int) -> int:
            """Return the cycles of the sum with so many lanes."""
            each, rest = max(SUM, lanes // width), count % lanes
            return count // lanes * each + (min(rest, 1) * each if inside else rest * REMAINDER)

        return min((width, 2 * width, 4 * width), key=cycles)

    def independent(self, first: UOp, loops: Sequence[UOp]) -> list[UOp]:
        """Return those of `loops`, in their order, that nest neither in `first` nor in each other, without `first`.

        So are the three loops of a softmax, and those of the parts of what is joined. Of two that nest, the one that
        comes first is chosen.
        """
        inside = {n.ranges for n in self.nodes if n.op is not Ops.SINK}  # what is beside each other meets there
        chosen = [first]
        for loop in loops:
            masks = [1 << loop.arg.axis | 1 << other.arg.axis for other in chosen]
            if loop not in chosen and not any(ranges & mask == mask for ranges in inside for mask in masks):
                chosen.append(loop)
        return chosen[1:]

    def is_over_columns(self, loop: UOp) -> bool:
        """Return whether `loop` goes over results of reductions: each of its remainder goes through all rows again.

        Vectors of half a register without a remainder are better then, unless the units are what it waits for: sums of
        1,000 columns of 1,600 rows took 213 us, then 155 (benchmarks/NOTES.md, 2026-11-28).
        """
        return loop not in self.summed and any(n.src[0].ranges >> loop.arg.axis & 1 for n in self.reduces)

    def without_rest(self, loop: UOp) -> int:
        """Return half the lanes of `loop` where these leave no remainder and all would leave one; else all of them."""
        width, half = self.widths[loop], self.widths[loop] // 2
        return half if half >= SHORTEST and size(loop) % width and not size(loop) % half else width

    def slow(self, loop: UOp) -> list[UOp]:
        """Return the slow ops that depend on `loop`."""
        return [n for n in self.nodes if n.op in SLOW and n.ranges >> loop.arg.axis & 1]

    def copies(self, best: UOp) -> int:
        """Return by how much the vectors of `best`, a loop over elements or results, are unrolled; 1 for not at all.

        Results of a reduction by 4, 8 or 16, where registers and threads allow it; others by COPIES where they are
        many, with one to MOST_SLOW slow ops.
        """
        vectors = size(best) // self.widths[best]
        if self.is_over_columns(best):
            around = any(
                r is not best and s.ranges >> r.arg.axis & 1 for r in loops_of(self.sink) for s in self.sink.src
            )
            least = 1 if around else self.target.chunks  # a block for each thread, where this loop is the parallel one
            counts = [n for n in (4, 8, 16) if n <= self.target.registers // 2 and vectors // n >= least]
            return min(counts, key=lambda n: vectors // n * (n + START) + vectors % n * ALONE, default=1)
        slow = self.slow(best)
        many = max(self.iterations(s.ranges) for s in self.sink.src) >= WORTH
        return COPIES if many and vectors >= COPIES and 0 < len(slow) <= MOST_SLOW else 1

    def shared(self, vector: UOp) -> tuple[UOp, int] | None:
        """Return the loop over results that share most loads of a reduction, and by how much to unroll it.

        None where `vector` is in no reduction, or no loop of constant size shares loads. `vector` is the loop that is
        vectorised.
        """
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
        """Return the outermost loop over results whose sums are over several loops, and by how much to unroll it.

        None where `best` is no loop of a sum, a reduction is over one loop only, no loop is around all stores, or
        registers and threads leave nothing to unroll.
        """
        mine = [n for n in self.reduces if best in n.src[1:]]
        around = [r for r in loops_of(self.sink) if all(s.ranges >> r.arg.axis & 1 for s in self.sink.src)]
        if not mine or any(len(n.src) < 3 for n in self.reduces) or not around:
            return None
        most = min(self.target.registers // 2 // len(self.reduces), size(around[0]) // self.target.chunks)
        count = next((n for n in (8, 4, 2) if n <= most), 1)
        return (around[0], count) if count > 1 else None

    def short_rows(self, best: UOp) -> tuple[UOp, int] | None:
        """Return the outermost loop, over rows with a reduction after another one, and by how much to unroll it.

        As in a softmax: the time that one row waits, for the lanes of a sum and a logarithm, the others fill. None
        where no loop is around all stores, or where there are few rows, or long ones.
        """
        around = [r for r in loops_of(self.sink) if all(s.ranges >> r.arg.axis & 1 for s in self.sink.src)]
        vectors = size(best) / self.widths[best]
        count = next((copies for most, copies in ABREAST if vectors <= most and 8 * copies <= self.target.registers), 1)
        rows = size(around[0]) // self.target.chunks if around and around[0] is not best else 0
        if count == 1 or rows < count or max(self.iterations(n.ranges) for n in self.accesses) < MANY_ROWS:
            return None
        after = (m for n in self.reduces for m in postorder(n.src[0]))
        return (around[0], count) if any(m.op is Ops.REDUCE for m in after) else None

    def transposition(self) -> list[Action] | None:
        """Return the actions of a transposition; None where loads and stores are contiguous along the same loop.

        None too for a kernel with a reduction, and for fewer than WORTH elements. The loop along which stores are
        contiguous is vectorised, the one along which loads are is unrolled. Of the two, the longer one becomes the
        inner loop: so the array with the longer rows is read or written contiguously.
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
