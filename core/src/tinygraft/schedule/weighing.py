"""What storing a node saves and costs, by what that depends on: stored.py weighs each once for equal keys.

In: what is known of a node (Facts), and how often it would be computed (Evaluations). Out: how often its source is,
and whether it is better stored. All amounts are simple operations for one element of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tinygraft.schedule.kernel_body import numel
from tinygraft.uop.ops import ELEMENTWISE, FACTS, Ops
from tinygraft.uop.sizes import max_shape
from tinygraft.uop.uop import UOp

# assumed: unless a line says otherwise. There is no record of one being measured by itself, only of all together:
# kernels, bytes and time of an MNIST step and of GPT-2 (benchmarks/NOTES.md, 2026-11-20, "what a schedule stores")
AGAIN = 48  # simple operations that cost about as much as writing an element of four bytes and reading it back
FETCH = 8  # simple operations that cost about as much as reading an element from memory
SPREAD = 16  # simple operations that cost about as much as an element from a place of its own, not beside the last one
KERNEL = 2e6  # simple operations that cost less than making another kernel: random numbers of a small weight
NUMBERS = 16  # elements up to which what a chain reads counts as nothing
NEAR = 2  # the same for an element that the kernel has read before
WAYS = 4  # different indices at which a chain may be written out again in one kernel
AGAIN_HEAVY = 2.0  # times that a reduction may run for each of its results
MIN_ROWS = 16  # with fewer rows than this a broadcast reduction over much data is a kernel of its own
MUCH = 1 << 14  # elements above which data is much
REUSED = 8  # times that a product of matrices reads each element of its operands, at least
LARGE = 1 << 18  # multiplications from which such a product has a kernel of its own
# assumed: never measured
MANY = 16  # inputs of a chain above which they are no longer counted
HEAVIEST = 1e6  # weights stop growing here: a reduction over reductions is not computed twice whatever it weighs
WEIGHT = {op: FACTS[op].weight for op in ELEMENTWISE}  # others weigh 1

# the stored node that asks, the node that asks at an index of its own, for which source
EvaluationContext = tuple[UOp, UOp, int]


class Evaluations(NamedTuple):
    """How often a context evaluates a node, at how many different indices, and whether where nothing can be hoisted."""

    evals: float
    indices: int
    inside: bool

    def more(self, other: Evaluations | None) -> Evaluations:
        """What both need of a node at one place."""
        if other is None or other == self:
            return self
        return Evaluations(max(self.evals, other.evals), max(self.indices, other.indices), self.inside or other.inside)


@dataclass(slots=True)
class Facts:
    """What is known of a node on the way: its users and, once they are decided, how often it is evaluated."""

    size: int  # elements
    users: list[UOp] = field(default_factory=list)
    weight: float = 0.0  # simple operations in its chain for one element, since the last memory
    inputs: tuple[UOp, ...] = ()  # the memory that its chain reads
    heavy: bool = False  # ends a reduction of its own size
    product: UOp | None = (
        None  # the reduction in its chain that reads its operands most often, where that is many times
    )
    contexts: dict[EvaluationContext, Evaluations] = field(default_factory=dict)  # where it is needed -> how often


def is_product(iterations: int, operands: Sequence[int]) -> bool:
    """Whether a reduction of so many iterations, over operands of so many elements, reads these many times over."""
    return iterations >= LARGE and iterations >= REUSED * max(operands, default=0)


def larger(a: UOp | None, b: UOp | None) -> UOp | None:
    """Of two products the one with more to multiply; the first of equals."""
    if a is None or b is None:
        return b if a is None else a
    return b if numel(b.src[0].shape) > numel(a.src[0].shape) else a


def trailing(node: UOp) -> tuple[int, int]:
    """(rows, repeats) of an EXPAND: the size of what it keeps in front, and of the axes it adds behind that."""
    old, new = max_shape(node.src[0].shape), max_shape(node.shape)
    last = max((axis for axis, size in enumerate(old) if size != 1), default=-1)
    rows = repeats = 1
    for axis, size in enumerate(new):
        if axis <= last:
            rows *= size
        else:
            repeats *= size
    return rows, repeats


def flow(user: UOp, source: UOp, need: Evaluations) -> Evaluations:
    """How often source is evaluated when its user is evaluated as often as need says."""
    evals, indices, inside = need.evals, need.indices, need.inside
    if user.op is Ops.EXPAND:
        rows, repeats = trailing(user)
        if repeats > 1:
            indices = 1
            evals = evals if inside else min(evals / repeats, float(rows))
    elif user.op is Ops.REDUCE_AXIS:
        shape = user.src[0].shape
        evals *= numel(shape) / max(numel(user.shape), 1)
        behind = user.shape[min(user.arg.axes, default=0) :]
        inside = inside or any(size != 1 for size in behind)
    elif user.op is Ops.FOLD:
        inside = True  # its loops go through the windows in another order
        for size, stride in zip(user.arg.size, user.arg.stride, strict=True):
            evals *= size if size != stride else 1
    elif user.op in (Ops.PAD, Ops.CAT):
        evals = min(evals, evals * numel(source.shape) / max(numel(user.shape), 1))
    return Evaluations(evals, indices, inside)


def ends_a_reduction(node: UOp, own: Facts, again: float) -> bool:
    """Whether a reduction, with what follows it at the same place, is better stored than run where it is needed."""
    return len(own.contexts) > 1 or again > AGAIN_HEAVY or _starves(own) or _pooled(own)


def costs_again(node: UOp, own: Facts, again: float, ways: int, roots: int, inputs: float) -> bool:
    """Whether computing a chain of simple operations again costs more than storing it, in time or in text.

    Each time it is computed again costs its operations, less what reading it would have cost where it reads nothing
    itself; each further kernel reads its inputs instead of it.
    """
    if ways > WAYS and own.weight > 0:
        return True
    once = own.weight - (0 if own.inputs else NEAR)
    extra = once * (again - 1.0) + FETCH * max(inputs - 1.0, 0.0) * (roots - 1)
    return again > 1.25 and extra > AGAIN * node.dtype.itemsize / 4


def _starves(own: Facts) -> bool:
    """Whether broadcasting a reduction leaves too few rows to share out among threads."""
    return any(u.op is Ops.EXPAND and trailing(u)[0] < MIN_ROWS and numel(u.shape) > MUCH for u in own.users)


def _pooled(own: Facts) -> bool:
    """Whether windows slide over a long reduction: two short kernels are better than one with nested loops."""
    return own.weight > AGAIN and any(user.op is Ops.WINDOW for user in own.users)
