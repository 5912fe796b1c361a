"""What a kernel may compute behind a branch, because nothing needs it elsewhere.

In: the instructions of a Linear. Out: what belongs to a gated store alone, and what belongs to WHEREs with one
condition alone. A renderer whose language has branches may write these instructions there, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.uop import UOp

MANY = 40  # assumed: operations from which a branch, with what a wrong guess costs, is cheaper than they are
LARGE = 2.0**16  # assumed: arguments above it are rare, as of sines


@dataclass(frozen=True, slots=True)
class RareOperands:
    """Operands that WHEREs with one `condition` choose where it holds, with `nodes`, all that only these need."""

    condition: UOp
    nodes: tuple[UOp, ...]
    operands: tuple[UOp, ...]


def behind_gates(uops: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    """Return, for each STORE, what a kernel without vectors and copies may compute behind the branch of its gate.

    These are loads with the same gate, and what is computed from them, where nothing else uses it. So an element that
    is added to is read and written behind one branch.
    """
    users = users_of(uops)
    found: dict[UOp, list[UOp]] = {}
    for number, store in enumerate(uops):
        if store.op is not Ops.STORE or len(store.src) != 4:
            continue
        mine, needed, used = [], {store.src[2]: 1}, False
        for u in reversed(uops[:number]):
            if u.op is Ops.LOAD or u.op in ELEMENTWISE:
                if needed.get(u) != users.get(u):
                    continue
                if u.op is Ops.LOAD and u.src[2:] != store.src[3:]:
                    continue
                used |= u.op is Ops.LOAD
                mine.append(u)
                for source in u.src if u.op is not Ops.LOAD else ():
                    needed[source] = needed.get(source, 0) + 1
            elif u.op not in (Ops.CONST, Ops.PARAM):
                break  # a loop or another store
        if used:
            found[store] = mine[::-1]
    return found


def rare_operands(uops: Sequence[UOp]) -> dict[UOp, RareOperands]:
    """Return what the first WHERE of each condition may compute where its condition holds, if that is MANY operations.

    All of it is in the same loops, vectors and copies as the WHEREs, and needs nothing that comes after the first one.
    """
    number = {u: n for n, u in enumerate(uops)}
    chosen: dict[UOp, list[UOp]] = {}
    for u in uops:
        if u.op is Ops.WHERE and u.src[1].op in ELEMENTWISE and _is_rare(u.src[0]):
            chosen.setdefault(u.src[0], []).append(u)
    found: dict[UOp, RareOperands] = {}
    taken: set[UOp] = set()
    users = users_of(uops) if chosen else {}
    for condition, wheres in chosen.items():
        nodes = _needed_by(wheres, uops[: number[wheres[-1]]], users)
        inside = set(nodes)
        outside = [s for u in nodes for s in u.src if s not in inside]
        if len(nodes) < MANY or condition in inside or any(number[s] >= number[wheres[0]] for s in outside):
            continue
        if taken.isdisjoint(inside | set(wheres)):  # no branch is inside of another
            taken |= inside | set(wheres)
            operands = tuple(dict.fromkeys(w.src[1] for w in wheres if w.src[1] in inside))
            found[wheres[0]] = RareOperands(condition, tuple(nodes), operands)
    return found


def _is_rare(condition: UOp) -> bool:
    """Return whether a condition rarely holds: that a number is above LARGE.

    Of others nothing is known, and a branch that is taken costs a sixth: copies of a body no longer run side by side.
    """
    limit = condition.src[0] if condition.op is Ops.CMPLT else condition
    return limit.op is Ops.CONST and limit.dtype.kind == "float" and limit.arg >= LARGE


def _needed_by(wheres: Sequence[UOp], before: Sequence[UOp], users: dict[UOp, int]) -> list[UOp]:
    """Return the operations among `before` that nothing but the second operands of `wheres` needs, in their order.

    Those of the innermost loop that the last of `wheres` is in, and of its ranges.
    """
    needed: dict[UOp, int] = {}
    for where in wheres:
        needed[where.src[1]] = needed.get(where.src[1], 0) + 1
    nodes = []
    for u in reversed(before):
        if u.op is Ops.RANGE or u.op is Ops.END:
            break
        if u in wheres:
            continue
        if u.op in ELEMENTWISE and needed.get(u) == users[u] and u.ranges == wheres[0].ranges:
            nodes.append(u)
            for source in u.src:
                needed[source] = needed.get(source, 0) + 1
    return nodes[::-1]


def users_of(uops: Sequence[UOp]) -> dict[UOp, int]:
    """Return how often each node is an operand."""
    users: dict[UOp, int] = dict.fromkeys(uops, 0)
    for u in uops:
        for source in u.src:
            users[source] = users.get(source, 0) + 1
    return users
