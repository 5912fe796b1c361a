"""Compute long reductions and CATs of many sources in two steps: each part by itself, then all parts together.

A tensor graph goes in, one of the same values comes out. Three kinds of nodes are cut, by shapes alone, so that
results do not depend on the number of threads (long scans are rewritten in blocked_scans.py, what slides back over a
product with a stride in phases.py):

- a reduction to few results. One sum over a million numbers would keep one thread busy and add small numbers to a
  large one; cut into PARTS, the parts are computed by all threads and stay small. Its neighbouring axes are made one
  before, so that parts are pieces of memory.
- a long product of matrices, such as the gradient of a convolution's weights. Codegen packs a panel of an operand, as
  long as the reduction; panels of at most TERMS fit in a cache, and each part costs one more result to add.
- a CAT of many sources. A kernel computes each of its elements from all sources, under gates, and has no room for many;
  but one that stores the CAT itself, section by section (sections.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.schedule import blocked_scans
from tinygraft.schedule.kernel_body import numel
from tinygraft.schedule.phases import has_phases, in_phases
from tinygraft.schedule.sections import SAME_INDEX, is_of_sections
from tinygraft.schedule.weighing import OWN_PARAMS, WEIGHT, is_product
from tinygraft.target import Target
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, ReduceArg
from tinygraft.uop.sizes import Shape, is_concrete
from tinygraft.uop.uop import UOp, rebuild

# measured: a sum of 50,000 and 100,000 elements takes 133 us where it is cut, 87 and 92 where not, under TinyJit 59 and
# 63, 60 and 66: another kernel costs what half of the sum does (2026-11-30, two cores of an EPYC with AVX2)
LONG = 1 << 17  # elements for one result from which a reduction is cut
LIGHT = 16  # simple operations for each of them, computed from memory, for which that holds
# assumed: never measured
MUCH = 1 << 15  # the same where they take more, or reductions of their own
FEW = 16  # results below which there are too few for one thread each
PARTS = 256  # of a reduction to few results, at most
# measured: of 51,200 terms (the gradient of 5x5 weights) a product takes 133 ms as one and 12 ms as 16 parts
# (benchmarks/NOTES.md, 2026-11-20, two threads)
TERMS = 4096  # of a product: a panel of 32 columns of float32 then fills half a cache of 1 MiB
# measured: 2026-11-22, two cores, as each line says
SOURCES = 8  # of a CAT in one kernel: 40 of 20,000 elements took 68 ms, by 16 116 and by 32 379
NUMBERS = 32  # the same where they are numbers, which are another kernel each time: 5,000 take 4 s, by 8 they take 12
# assumed: what that costs for so few elements is less than the launch of another kernel
NARROW = 1 << 10  # elements of a CAT up to which one kernel has as many stored sources as it has parameters
# assumed: never measured
MORE_GROUPS = 1.25  # times the fewest groups of a CAT, where groups are then of equal length and can be one loop
SLACK = 1.5  # times TERMS that a product may have without being cut
_SINGLE = (SAME_INDEX | MOVEMENT) - {Ops.CONTIGUOUS}  # ops of one element of each source


def regroup(order: Sequence[UOp], target: Target) -> dict[UOp, UOp]:
    """Return what replaces each node of the graph `order` (sources before users), by node; empty when nothing is cut.

    A node with nothing upstream that is cut stays itself. `target` says whether running products can be computed in
    float64.
    """
    scattered = _scattered_cats(order) | _summed_picks(order)
    if not scattered and not any(
        _parts(n) or _is_wide(n, target) or blocked_scans.is_long(n) or has_phases(n) for n in order
    ):
        return {}

    def cut(node: UOp, new: UOp) -> UOp:
        """Return what becomes of `node`, given `new`: the same node over sources that have been cut already.

        Whether to cut is decided on `node`: in the sources of `new`, the CONTIGUOUS of a first step may hide an
        operand.
        """
        if parts := _parts(node):
            axis, count, merged = parts
            return in_two_steps(with_merged(new, merged), axis, count, node.shape)
        if blocked_scans.is_long(node):
            return blocked_scans.rewritten(new, target)
        if has_phases(node):
            return in_phases(new)
        if _is_wide(node, target):
            return in_groups(new, target)
        return UOp(Ops.CONTIGUOUS, new.dtype, (new,)) if node in scattered else new

    # not graph_rewrite, which goes on until no rule matches: the first of two steps may look long and is not cut
    # again
    return rebuild(order, {}, cut)


def _scattered_cats(order: Sequence[UOp]) -> set[UOp]:
    """Return the CATs of more than SOURCES sources that a scatter would read before they are stored.

    Stored they are computed section by section; a scatter chooses each element from all sources, in a loop that is no
    vector: 40 rows of ctc_loss took 2.6 ms, and 0.06 stored first.
    """
    if not any(node.op is Ops.CAT and len(node.src) > SOURCES for node in order):
        return set()
    read: set[UOp] = set()
    for node in reversed(order):
        if node.op is Ops.SCATTER:
            read.update(node.src[1:])
        elif node in read and node.op in SAME_INDEX | {Ops.RESHAPE, Ops.PERMUTE} and node.op is not Ops.CONTIGUOUS:
            read.update(node.src)
    return {node for node in read if node.op is Ops.CAT and len(node.src) > SOURCES and is_of_sections(node)}


def _summed_picks(order: Sequence[UOp]) -> set[UOp]:
    """Return the CATs of single elements that slices read, as log-probabilities of actions, of which floats are summed.

    Stored first, they are summed in one order, whichever elements they are: in one kernel with the sum, that would
    depend on how their positions simplify, and each batch of them would be compiled (engine/same_sums.py).
    """
    cats = {n for n in order if n.op is Ops.CAT and all(numel(source.shape) == 1 for source in n.src)}
    if not cats:
        return set()
    sliced: set[UOp] = set()
    read: set[UOp] = set()
    for node in order:
        if node.op is Ops.SHRINK or (node.op in _SINGLE and not sliced.isdisjoint(node.src)):
            sliced.add(node)
    for node in reversed(order):
        sums = node.op is Ops.REDUCE_AXIS and node.dtype.kind == "float"
        if sums or (node in read and node.op in _SINGLE):
            read.update(node.src)
    return {cat for cat in cats & read if not sliced.isdisjoint(cat.src)}


def _is_wide(node: UOp, target: Target) -> bool:
    """Return whether `node` is a CAT of more sources than one kernel should have."""
    return node.op is Ops.CAT and len(node.src) > SOURCES and len(node.src) > _most(node, target)


def _most(node: UOp, target: Target) -> int:
    """Return how many sources a kernel of the CAT `node` may have.

    NUMBERS if all are constants; as many as a kernel of `target` has buffers for where it computes them section by
    section (sections.py), each of its own source; else SOURCES.
    """
    if all(_comes_from_constant(source) for source in node.src):
        return NUMBERS
    return max(_room(target), SOURCES) if is_of_sections(node) else SOURCES


def _room(target: Target) -> int:
    """Return how many parameters a kernel of `target` may have for what it reads."""
    return target.max_params - OWN_PARAMS


def in_groups(node: UOp, target: Target) -> UOp:
    """Return the CAT `node` as a CAT of stored CATs of as many sources as a kernel of `target` may have.

    These are CATs of stored CATs again where there are too many of them; above the first level SOURCES is the limit,
    or that of the kernel's parameters where there are at most NARROW elements, as of the norms of many tensors.
    The groups are of equal length where that takes at most MORE_GROUPS times the fewest groups.
    """
    src = node.src
    most = _most(node, target)
    while len(src) > most:
        fewest = -(-len(src) // most)
        each = -(-len(src) // _divisor(len(src), range(fewest, int(fewest * MORE_GROUPS) + 1)))
        groups = [src[i : i + each] for i in range(0, len(src), each)]
        cats = [UOp(Ops.CAT, node.dtype, group, node.arg) if len(group) > 1 else group[0] for group in groups]
        src = tuple([UOp(Ops.CONTIGUOUS, node.dtype, (cat,)) for cat in cats])
        narrow = is_concrete(node.shape) and numel(node.shape) <= NARROW
        most = max(_room(target), SOURCES) if narrow else SOURCES
    return UOp(Ops.CAT, node.dtype, src, node.arg)


def _comes_from_constant(x: UOp) -> bool:
    """Return whether `x` is one constant, moved and cast or not."""
    while x.op in MOVEMENT or x.op is Ops.CAST:
        x = x.src[0]
    return x.op is Ops.CONST


def _parts(node: UOp) -> tuple[int, int, tuple[int, int] | None] | None:
    """Return (axis, number of parts, axes to be merged before) by which `node` is cut; None where it is not to be cut.

    It is cut where it has fewer than FEW results of at least LONG terms each (MUCH, where these are not light), and
    where it is a product of matrices of floats; not with a symbolic size, nor with SLACK * TERMS terms or fewer. The
    axis is that of the reduction whose merged axes (`_merged_axes`) are one; of a product there are none.
    """
    if node.op is not Ops.REDUCE_AXIS or not node.arg.axes or not is_concrete(node.src[0].shape):
        return None
    results, shape = numel(node.shape), node.src[0].shape
    axes = _moving_axes(node)
    terms = numel(tuple(shape[a] for a in axes))
    if results == 0 or terms <= SLACK * TERMS:
        return None
    axis = max(axes, key=lambda a: (shape[a], -a))
    if results < FEW and (terms >= LONG or (terms >= MUCH and not _is_light(node.src[0]))):
        axis = next((a for a in axes if shape[a] >= PARTS // 4), axis)  # parts of the first axis are whole rows
        length = shape[axis]
        if merged := _merged_axes(node):
            axis, length = merged[0], numel(shape[merged[0] : merged[1]])
        most = min(PARTS, length)
        return axis, _divisor(length, range(most, most // 4, -1)), merged
    if node.arg.op is Ops.ADD and node.dtype.kind == "float" and _is_matrix_product(node):
        least = -(-terms // TERMS)
        return axis, _divisor(shape[axis], range(min(least, shape[axis]), min(2 * least, shape[axis]) + 1)), None
    return None


def _is_light(value: UOp) -> bool:
    """Return whether an element of `value` is computed from memory by LIGHT simple operations at most."""
    weight, seen, pending = 0, {value}, [value]
    while pending:
        node = pending.pop()
        if node.op in HELD or node.op is Ops.CONST:
            continue
        if node.op in ELEMENTWISE:
            weight += WEIGHT[node.op]
        elif node.op not in MOVEMENT:
            return False
        if weight > LIGHT:
            return False
        new = [source for source in node.src if source not in seen]
        seen.update(new)
        pending += new
    return True


def _moving_axes(node: UOp) -> list[int]:
    """Return the axes that `node` reduces by a loop: without those along which its terms were broadcast.

    A sum of equal terms is a multiplication (kernel_body.py), their maximum is one of them; only their product is a
    loop, so for that all axes are returned.
    """
    axes, value = list(node.arg.axes), node.src[0]
    while value.op in (Ops.EXPAND, Ops.CAST) and node.arg.op is not Ops.MUL:
        if value.op is Ops.EXPAND:
            axes = [a for a in axes if value.shape[a] == value.src[0].shape[a]]
        value = value.src[0]
    return axes


def _merged_axes(node: UOp) -> tuple[int, int] | None:
    """Return (first, end) of axes that a reduction to few results is to have as one before it is cut; None for none.

    All neighbours of the first one where elements are next to each other in memory: then those of parts are, too.
    Else as many as have parts enough, so that these are whole rows, and not columns of all rows.
    """
    shape, axes = node.src[0].shape, _moving_axes(node)
    if numel(node.shape) >= FEW or len(axes) < 2 or len(axes) < len(node.arg.axes) or not isinstance(node.device, str):
        return None
    first, end = axes[0], axes[0] + 1
    while end in axes:
        end += 1
    if not _in_order(node.src[0], first, end):
        end = next((e for e in range(first + 1, end) if numel(shape[first:e]) >= PARTS // 4), end)
    return (first, end) if end > first + 1 else None


def _in_order(value: UOp, first: int, end: int) -> bool:
    """Return whether a value is computed from memory, each element from the one at its place along these axes.

    It may be computed from numbers too, and from what is one along all of these axes.
    """
    seen, pending = {value}, [value]
    while pending:
        node = pending.pop()
        base = memory_base(node)
        if node.op is Ops.EXPAND and all(size == 1 for size in node.src[0].shape[first:end]):
            continue
        if base.op in HELD or base.op is Ops.CONTIGUOUS:
            continue
        if node.op not in ELEMENTWISE and node.op not in (Ops.DETACH, Ops.CONTIGUOUS_BACKWARD):
            return False
        new = [source for source in node.src if source not in seen]
        seen.update(new)
        pending += new
    return True


def with_merged(node: UOp, axes: tuple[int, int] | None) -> UOp:
    """Return the reduction `node` with those of its axes from the first to before the second as one."""
    if axes is None:
        return node
    (first, end), source = axes, node.src[0]
    shape = (*source.shape[:first], numel(source.shape[first:end]), *source.shape[end:])
    rest = tuple(a - (end - first - 1) for a in node.arg.axes if a >= end)
    before = tuple(a for a in node.arg.axes if a < first)
    flat = UOp(Ops.RESHAPE, source.dtype, (source,), shape)
    return UOp(Ops.REDUCE_AXIS, node.dtype, (flat,), ReduceArg(node.arg.op, (*before, first, *rest)))


def _divisor(length: int, wanted: range) -> int:
    """Return the first number in `wanted` that divides `length`; the first one where none does."""
    return next((n for n in wanted if length % n == 0), wanted[0])


def _is_matrix_product(node: UOp) -> bool:
    """Return whether the sum `node` is a product of matrices: of products of operands that are read many times over."""
    value = node.src[0]
    while value.op in MOVEMENT or value.op is Ops.CAST:
        value = value.src[0]
    return value.op is Ops.MUL and is_product(
        numel(node.src[0].shape), [_elements_read(operand) for operand in value.src]
    )


def _elements_read(operand: UOp) -> int:
    """Return how many different elements `operand` can have: the fewest of the values that movements made it from."""
    least = numel(operand.shape)
    while operand.op in MOVEMENT or operand.op is Ops.CAST:
        operand = operand.src[0]
        least = min(least, numel(operand.shape))
    return least


def in_two_steps(node: UOp, axis: int, parts: int, shape_of_result: Shape) -> UOp:
    """Return the reduction `node` as one over the stored results of `parts` equal parts of `axis`, in this shape.

    The elements that do not divide among the parts are reduced by themselves, and combined with that result.
    """
    source, op = node.src[0], node.arg.op
    length = source.shape[axis]
    each = length // parts
    main = _part(source, axis, 0, parts * each)
    shape = (*source.shape[:axis], parts, each, *source.shape[axis + 1 :])
    split = UOp(Ops.RESHAPE, node.dtype, (main,), shape)
    inner = tuple(a if a < axis else a + 1 for a in node.arg.axes)
    first = UOp(Ops.CONTIGUOUS, node.dtype, (UOp(Ops.REDUCE_AXIS, node.dtype, (split,), ReduceArg(op, inner)),))
    second = UOp(Ops.REDUCE_AXIS, node.dtype, (first,), ReduceArg(op, (axis,)))
    result = UOp(Ops.RESHAPE, node.dtype, (second,), shape_of_result)
    if parts * each == length:
        return result
    remainder = UOp(Ops.REDUCE_AXIS, node.dtype, (_part(source, axis, parts * each, length),), node.arg)
    return UOp(op, node.dtype, (result, UOp(Ops.RESHAPE, node.dtype, (remainder,), shape_of_result)))


def _part(source: UOp, axis: int, start: int, end: int) -> UOp:
    """Return elements `start` to `end` of `source` along `axis`; `source` itself where that is all of them."""
    if (start, end) == (0, source.shape[axis]):
        return source
    bounds = tuple((start, end) if a == axis else (0, size) for a, size in enumerate(source.shape))
    return UOp(Ops.SHRINK, source.dtype, (source,), bounds)
