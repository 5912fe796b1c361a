"""Choose the actions of a kernel, by the fields of its Target alone.

`CANDIDATES` is a list of functions, each for a kind of kernel: sums of products on matrix units (matrix.py), kernels
in thread blocks (grid.py), sums of products in tiles (packed.py, tiling.py), rows stored at computed indices
(scattered.py), and any kernel in vectors (vectors.py).
The first candidate of the first function that yields one is applied; a search tries all. Then the outermost loops are
made parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinygraft.codegen import transforms
from tinygraft.codegen.action import Action
from tinygraft.codegen.apply import PARALLEL, action_of, apply_actions
from tinygraft.codegen.grid import thread_block_kernels
from tinygraft.codegen.interleave import interleaved_kernels
from tinygraft.codegen.loops import often, size
from tinygraft.codegen.matrix import matrix_unit_kernels
from tinygraft.codegen.packed import packings
from tinygraft.codegen.panels import tile
from tinygraft.codegen.scattered import scattered_rows
from tinygraft.codegen.stencil_kernel import stencil_kernels
from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.vectors import vector_kernels
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.uop import UOp, postorder

# assumed: since then two threads were measured to pay from kernels of 0.25 us on (2026-11-20, the cpu plugin,
# benchmarks/NOTES.md "a replay is one native call"), which is less; other devices were not measured
WORTH_PARALLEL = 1 << 14  # iterations of the innermost loop below which waking threads costs more than it saves
# measured: a step of an LSTM on 32 x 128 elements, some 300 operations each, takes 13 us on one thread and 7 on two
# (2026-11-24, two cores of an AMD EPYC, the cpu plugin); assumed: that it pays from a quarter of that on
WORTH_OPERATIONS = 1 << 18  # operations from which waking threads pays where there are fewer iterations

Chosen = tuple[UOp, tuple[Action, ...]]  # a kernel with actions applied, and those
Candidates = Callable[[UOp, Target], Iterator[Chosen]]


def choose(sink: UOp, target: Target) -> Chosen:
    """Return the kernel `sink` with the first candidate for `target` applied, and its actions.

    PARALLEL is the last of them where the device has several threads and the kernel is worth waking them. `sink` is the
    kernel before any action; the one returned has axis numbers with gaps (transforms.py).
    """
    sink, applied = next(kernel_candidates(transforms.with_gaps(sink), target))
    # after all others: it changes the kind of the loops that they expect to be plain ones
    if target.chunks > 1 and is_worth_parallel(sink):
        return apply_actions(sink, (PARALLEL,), target), (*applied, PARALLEL)
    return sink, applied


def kernel_candidates(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Yield the candidates for a kernel: each as the kernel that it makes, and its actions.

    Those of the functions of CANDIDATES one after another, of each the best first. The axis numbers of `sink` have to
    have gaps (transforms.py). No loop is parallel yet.
    """
    for found in CANDIDATES:
        yield from found(sink, target)


def _dot_product_kernels(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Yield (kernel with its sum of products on packed lanes, in tiles; actions) for each tiling, cheapest first."""
    found = [(tiling, packed, dot) for packed, dot in packings(sink, target) for tiling in tilings(packed, target)]
    for tiling, packed, dot in sorted(found, key=lambda one: one[0].cost):
        yield tile(packed, tiling), (dot, action_of(tiling))


def _tiled_kernels(sink: UOp, target: Target) -> Iterator[Chosen]:
    """Yield (kernel with its sum of products in tiles; its one action) for each tiling, cheapest first.

    Nothing with a grid, where grid.py tiles them.
    """
    if not target.grid_dims:
        yield from ((tile(sink, tiling), (action_of(tiling),)) for tiling in tilings(sink, target))


def is_worth_parallel(sink: UOp) -> bool:
    """Return whether a kernel has enough iterations for several threads, and loops to divide, one of each store.

    Enough are WORTH_PARALLEL of the part of the kernel that runs most often, or fewer with WORTH_OPERATIONS in them.
    """
    nodes = postorder(sink)
    sizes = {r.arg.axis: size(r) for r in nodes if r.op is Ops.RANGE}
    inside = {n.src[0].ranges if n.op is Ops.REDUCE else n.ranges for n in nodes}
    iterations = {mask: often(mask, sizes) for mask in inside}
    if max(iterations.values()) < WORTH_PARALLEL:
        computed = [FACTS[n.op].length * iterations[n.ranges] for n in nodes if n.op in ELEMENTWISE]
        if sum(computed) < WORTH_OPERATIONS:
            return False
    return transforms.loop_of_each(sink) is not None


# from the special to the general: `vector_kernels` has a candidate for every kernel, and so is the last
CANDIDATES: tuple[Candidates, ...] = (
    matrix_unit_kernels,
    thread_block_kernels,
    _dot_product_kernels,
    stencil_kernels,
    _tiled_kernels,
    interleaved_kernels,
    scattered_rows,
    vector_kernels,
)
