"""Whether kernels that take numbers as arguments sum floats in the order of those that have them as constants.

    same_sums(fixed, lifted, bound) -> bool

The order of a sum follows from the loops of its reduction, and these from the actions that codegen chooses for the
kernel (codegen/heuristics.py) and from how it cuts long sums. Both are compared here, without compiling anything: for
the numbers of the graph, and for the least and the greatest value of each argument, where conditions are decided that
are open in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.loops import size
from tinygraft.codegen.options import Options
from tinygraft.codegen.sums import shorten
from tinygraft.rules.fold import is_const
from tinygraft.schedule.schedule import Schedule
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call, KernelCall, Routine, RoutineCall
from tinygraft.uop.uop import UOp, postorder


def same_sums(fixed: Schedule, lifted: Schedule, names: frozenset[str], targets: Mapping[str, Target],
              options: Options) -> bool:  # fmt: skip
    """Return whether `lifted`, a schedule with the arguments `names`, sums all floats as `fixed` does, which has none.

    `targets` are those of the devices by name, `options` those that both are compiled with. False too where the calls
    are of other kinds, or their numbers differ.
    """
    if len(fixed.calls) != len(lifted.calls):
        return False
    for one, other in zip(fixed.calls, lifted.calls, strict=True):
        if not isinstance(one, KernelCall) or not isinstance(other, KernelCall):
            if type(one) is not type(other) or _routine_of(one) != _routine_of(other):
                return False
            continue
        mine, theirs, target = one.kernel.sink, other.kernel.sink, targets[one.device]
        if mine is theirs or not (_sums(mine) or _sums(theirs)):
            continue
        arguments = [n for n in postorder(theirs) if n.op is Ops.VARIABLE and n.arg.name in names]
        order = order_of_sums(theirs, target, options)
        if not _same_order(order_of_sums(mine, target, options), order):
            return False
        starts = [n for n in arguments if n.lo is not None and n.dtype.kind == "index"]
        for ends in ({n: ix.const(n.lo) for n in starts}, {n: ix.const(n.hi) for n in starts}):
            if ends and order_of_sums(ix.rebuild_simplified((theirs,), ends)[theirs], target, options) != order:
                return False
    return True


def _same_order(fixed: tuple[Any, ...], lifted: tuple[Any, ...]) -> bool:
    """Return whether two results of order_of_sums are of one order: of kernels with constants, and with arguments.

    A factor of 1 is removed where it is a constant, and changes no bit where it is an argument, also in an FMA.
    """
    if fixed[0] != lifted[0] or len(fixed[1]) != len(lifted[1]):
        return False
    for mine, theirs in zip(fixed[1], lifted[1], strict=True):
        if mine[:3] != theirs[:3] or (mine[3] != theirs[3] and (mine[3][1:], theirs[3][1:]) != ((None,), (Ops.MUL,))):
            return False
        if mine[3][0] != theirs[3][0]:
            return False
    return True


def _sums(sink: UOp) -> list[UOp]:
    """Return the REDUCEs over floats of a kernel, in postorder."""
    return [node for node in postorder(sink) if node.op is Ops.REDUCE and node.dtype.kind == "float"]


def order_of_sums(sink: UOp, target: Target, options: Options) -> tuple[Any, ...]:
    """Return what decides the order in which a kernel adds: its actions, and the loops of each sum of floats.

    Whether a term is a product, perhaps under a condition, is part of that: such a sum may be one of FMAs. `options`
    are those of codegen.
    """
    actions: tuple[Any, ...] = ()
    if not options.noopt:
        sink, actions = choose(collapse(sink), target)
    return actions, [
        (node.dtype, node.arg.op, [(r.arg.kind, size(r)) for r in node.src[1:]], _term(node.src[0]))
        for node in _sums(shorten(sink, target))
    ]


def _term(value: UOp) -> tuple[Any, ...]:
    """Return whether a term is gated to 0, and its op if that is MUL, DOT, REDUCE or CAST, else None."""
    is_gated = value.op is Ops.WHERE and is_const(value.src[2], 0)
    inner = value.src[1] if is_gated else value
    return is_gated, inner.op if inner.op in (Ops.MUL, Ops.DOT, Ops.REDUCE, Ops.CAST) else None


def _routine_of(call: Call) -> Routine | None:
    """Return the routine that a call runs; None for any other call."""
    return call.routine if isinstance(call, RoutineCall) else None
