"""What storing a node saves and costs: functions of what it depends on alone, which stored.py caches by that.

In: what is known of a node (Facts), and how often it would be computed (Evaluations). Out: how often its source would
be, and whether it is better stored. All costs are counted in simple operations for one element of the node.
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
# measured (benchmarks/NOTES.md, 2026-11-28): the same for a chain with the weight of a function that one kernel
# needs in each loop over rows: stored it is 1.2 to 1.8 times as fast, one of two operations up to 1.35 times slower
AGAIN_IN_ROWS = 20
FUNCTION = 12  # the weight of a logarithm or an exponential
FETCH = 8  # simple operations that cost about as much as reading an element from memory
SPREAD = 16  # simple operations that cost about as much as an element that is not next to the one loaded before
KERNEL = 2e6  # simple operations that cost less than making another kernel: random numbers of a small weight
NUMBERS = 16  # elements up to which what a chain reads counts as nothing
NEAR = 2  # simple operations that cost about as much as an element that the kernel has read before
COPIES = 4  # different indices at which a chain may be written out again in one kernel
AGAIN_HEAVY = 2.0  # times that a reduction may run for each of its results
MIN_ROWS = 16  # with fewer rows than this a broadcast reduction over much data is a kernel of its own
MUCH = 1 << 14  # elements above which data is much
REUSED = 8  # times that a product of matrices reads each element of its operands, at least
LARGE = 1 << 18  # multiplications from which such a product has a kernel of its own
AGAIN_FREE = 1.25  # times up to which computing a value again is never too much, whatever its operations cost
OWN_PARAMS = 8  # parameters of a kernel that stay free for its results and for what a value that joins it reads
# assumed: a kernel has room for a chain and for another one that joins it, and of a shared chain for four users
LONGEST, LONGEST_SHARED = 2, 4  # the parts of Target.max_ops that a chain may have
# assumed: never measured
MANY = 16  # inputs of a chain above which they are no longer counted
HEAVIEST = 1e6  # weights stop growing here: a reduction over reductions is not computed twice whatever it weighs
WEIGHT = {op: FACTS[op].weight for op in ELEMENTWISE}  # others weigh 1

# (the stored node that needs a node, the last user on the way to it that is in other loops, the number of that user's
# source); a stored node that needs it in its own loops is (itself, itself, 0)
EvaluationContext = tuple[UOp, UOp, int]


class Evaluations(NamedTuple):
    """How often a context evaluates a node: `evals` times in all, at `indices` different indices in a kernel's text.

    `inside` says that the loops around it are such that nothing can be hoisted out of them.
    """

    evals: float
    indices: int
    inside: bool

    def more(self, other: Evaluations | None) -> Evaluations:
        """Return what two users in one context need together: the larger of both, since they share its value."""
        if other is None or other == self:
            return self
        return Evaluations(max(self.evals, other.evals), max(self.indices, other.indices), self.inside or other.inside)


@dataclass(slots=True)
class Facts:
    """What the rules know of a node: its users, what its chain costs, and how often its users evaluate it."""

    size: int  # elements
    users: list[UOp] = field(default_factory=list)
    weight: float = 0.0  # simple operations in its chain for one element, since the last memory
    inputs: tuple[UOp, ...] = ()  # the memory that its chain reads
    heavy: bool = False  # ends a reduction of its own size
    # the largest reduction in its chain that reads its operands many times over
    product: UOp | None = None
    contexts: dict[EvaluationContext, Evaluations] = field(default_factory=dict)  # where it is needed -> how often


def is_product(iterations: int, operands: Sequence[int]) -> bool:
    """Return whether a reduction is like a product of matrices: long, and reading its operands many times over.

    `iterations` are those for all of its results; `operands` the number of elements of each operand.
    """
    return iterations >= LARGE and iterations >= REUSED * max(operands, default=0)


def larger(a: UOp | None, b: UOp | None) -> UOp | None:
    """Return the product with more to multiply, the first of equals; None stands for no product."""
    if a is None or b is None:
        return b if a is None else a
    return b if numel(b.src[0].shape) > numel(a.src[0].shape) else a


def trailing(node: UOp) -> tuple[int, int]:
    """Return (rows, repeats) of an EXPAND: `repeats` is the size of the axes after the last one that is not broadcast.

    `rows` is the size of all axes up to that one. A value that is broadcast can be hoisted out of the loops over the
    axes after it, and so is computed `rows` times.
    """
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
    """Return how often `source` is evaluated when its `user` is evaluated as often as `need` says.

    An EXPAND needs it less often where it can be hoisted, a reduction and a FOLD of windows that do not adjoin more
    often, a SCATTER for each value that it stores, a PAD and a CAT for its own elements only.
    """
    evals, indices, inside = need.evals, need.indices, need.inside
    if user.op is Ops.EXPAND:
        rows, repeats = trailing(user)
        if repeats > 1:
            indices = 1
            evals = evals if inside else min(evals / repeats, float(rows))
    elif user.op is Ops.REDUCE_AXIS:
        shape = user.src[0].shape
        evals *= numel(shape) / max(numel(user.shape), 1)
        inner = user.shape[min(user.arg.axes, default=0) :]
        inside = inside or any(size != 1 for size in inner)
    elif user.op is Ops.FOLD:
        inside = True  # its loops go through the windows in another order
        for size, stride in zip(user.arg.size, user.arg.stride, strict=True):
            evals *= size if size != stride else 1
    elif user.op is Ops.SCATTER and source is not user.src[0]:
        evals *= numel(user.src[2].shape) / max(numel(user.shape), 1)
    elif user.op in (Ops.PAD, Ops.CAT):
        evals = min(evals, evals * numel(source.shape) / max(numel(user.shape), 1))
    return Evaluations(evals, indices, inside)


def ends_a_reduction(node: UOp, own: Facts, again: float) -> bool:
    """Return whether a node that ends a reduction is better stored than computed where it is needed.

    `again` is how often each of its elements would be computed. It is where it is needed in several contexts, or more
    than AGAIN_HEAVY times, where its broadcast leaves few rows for the threads (`_starves`), and where windows slide
    over it (`_pooled`). `own` are the facts of `node`.
    """
    return len(own.contexts) > 1 or again > AGAIN_HEAVY or _starves(own) or _pooled(own)


def costs_again(node: UOp, own: Facts, again: float, copies: int, roots: int, inputs: float, much: bool) -> bool:
    """Return whether computing a chain of simple operations again costs more than storing it, in time or in text.

    `again` is how often each element would be computed, `copies` at how many indices one kernel would write it out,
    `roots` how many stored nodes need it, `inputs` how many elements it reads for one of its own. Each time it is
    computed again costs its operations, less what reading it would have cost where it reads nothing itself; each
    further kernel reads its inputs instead of it. Functions are computed again for less where one kernel needs them and
    they are `much` work in all, more than making another kernel. `own` are the facts of `node`.
    """
    if copies > COPIES and own.weight > 0:
        return True
    once = own.weight - (0 if own.inputs else NEAR)
    extra = once * (again - 1.0) + FETCH * max(inputs - 1.0, 0.0) * (roots - 1)
    least = AGAIN_IN_ROWS if roots == 1 and much and own.weight >= FUNCTION else AGAIN
    return again > AGAIN_FREE and extra > least * node.dtype.itemsize / 4


def _starves(own: Facts) -> bool:
    """Return whether broadcasting a reduction leaves too few rows for the threads, over much data."""
    return any(u.op is Ops.EXPAND and trailing(u)[0] < MIN_ROWS and numel(u.shape) > MUCH for u in own.users)


def _pooled(own: Facts) -> bool:
    """Return whether windows slide over a long reduction: two short kernels are better than one with nested loops."""
    return own.weight > AGAIN and any(user.op is Ops.WINDOW for user in own.users)
