"""Conditions that simplify as they are built: lt, ge, eq, and_, or_, not_, where.

In: nodes of dtypes.index to compare (ints are taken too), nodes of dtypes.bool to join. Out: a bool node, a
constant where the bounds decide. A comparison is `terms < constant` or `terms < terms + constant` with common
factors divided out; `>=` is NOT of it. A conjunction is a left-associated chain of clauses, those of outer ranges
first, without what another clause says already.
"""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.uop.integer import mul
from tinygraft.uop.ops import Ops
from tinygraft.uop.terms import Operand, Terms, chain, const, difference, node, span, surely_negative
from tinygraft.uop.uop import UOp


def truth(value: bool) -> UOp:
    """The constant True or False."""
    return UOp(Ops.CONST, dtypes.bool, (), value)


def valid(gate: UOp) -> UOp | None:
    """gate, or None when it is always true."""
    return None if gate.lo else gate


# Comparisons


def lt(a: Operand, b: Operand) -> UOp:
    """a < b.

    >>> i, j = UOp.range(9, 0), UOp.range(4, 1)
    >>> lt(i * 4 + j, 16) is lt(i, 4)
    True
    """
    a, b = node(a), node(b)
    if a.hi < b.lo:
        return truth(True)
    if a.lo >= b.hi:
        return truth(False)
    return _negative(*difference(a, b))


def ge(a: Operand, b: Operand) -> UOp:
    """a >= b."""
    return not_(lt(a, b))


def _negative(terms: Terms, constant: int) -> UOp:
    """terms + constant < 0."""
    low, high = span(terms, constant)
    if high < 0 or surely_negative(terms, constant):
        return truth(True)
    if low >= 0 or surely_negative({term: -k for term, k in terms.items()}, -constant - 1):
        return truth(False)
    for g in sorted({abs(k) for k in terms.values()} | {math.gcd(*terms.values())}, reverse=True):
        if g == 1:
            break
        low, high = span({term: k for term, k in terms.items() if k % g}, constant)
        # g * s + rest < 0 says s <= floor((-1 - rest) / g): that must not depend on rest
        if (most := (-1 - low) // g) == (-1 - high) // g:
            return _negative({term: k // g for term, k in terms.items() if k % g == 0}, -1 - most)
    left = {term: k for term, k in terms.items() if k > 0}
    right = {term: -k for term, k in terms.items() if k < 0}
    if not left:  # constant < right is not (right < constant + 1)
        return not_(_negative(right, -constant - 1))
    if not right and len(left) == 1:
        term, k = next(iter(left.items()))
        if k == 1 and term.op is Ops.IDIV and term.src[1].lo > 0:  # x // n < m is x < m * n
            return lt(term.src[0], mul(term.src[1], -constant))
    return UOp(Ops.CMPLT, dtypes.bool, (chain(left, 0), chain(right, -constant)))


def eq(a: Operand, b: Operand) -> UOp:
    """a == b."""
    terms, constant = difference(node(a), node(b))
    low, high = span(terms, constant)
    if low > 0 or high < 0:
        return truth(False)
    if not terms:
        return truth(constant == 0)
    g = math.gcd(*terms.values())
    if constant % g:
        return truth(False)
    if all(k < 0 for k in terms.values()):
        g = -g
    left = {term: k // g for term, k in terms.items() if k // g > 0}
    right = {term: -k // g for term, k in terms.items() if k // g < 0}
    return UOp(Ops.CMPEQ, dtypes.bool, (chain(left, 0), chain(right, -constant // g)))


# Logic


def not_(a: UOp) -> UOp:
    """Whether a is false."""
    if a.lo == a.hi:
        return truth(not a.lo)
    if a.op is Ops.NOT:
        return a.src[0]
    if a.op is Ops.CMPEQ:
        return UOp(Ops.CMPNE, dtypes.bool, a.src)
    if a.op is Ops.CMPNE:
        return UOp(Ops.CMPEQ, dtypes.bool, a.src)
    return UOp(Ops.NOT, dtypes.bool, (a,))


def and_(a: UOp, b: UOp) -> UOp:
    """Whether both hold. What another clause says already is left out.

    >>> i = UOp.range(9, 0)
    >>> and_(lt(i, 7), lt(i, 4)) is lt(i, 4)
    True
    """
    return _join(Ops.AND, a, b)


def or_(a: UOp, b: UOp) -> UOp:
    """Whether one of them holds."""
    return _join(Ops.OR, a, b)


def clauses(a: UOp, op: Ops = Ops.AND) -> list[UOp]:
    """What a joins by op, in order."""
    found: list[UOp] = []
    stack = [a]
    while stack:
        a = stack.pop()
        if a.op is op and a.dtype is dtypes.bool:
            stack += (a.src[1], a.src[0])
        else:
            found.append(a)
    return found


def _join(op: Ops, a: UOp, b: UOp) -> UOp:
    """The clauses of a and b joined by op, each once; a clause beside its negation decides it all."""
    ends = op is Ops.OR  # the truth that decides
    if a.lo == a.hi:
        return truth(ends) if bool(a.lo) is ends else b
    if b.lo == b.hi:
        return truth(ends) if bool(b.lo) is ends else a
    kept = clauses(a, op)
    for clause in clauses(b, op):
        if any(_adds_nothing(clause, beside, op) for beside in kept):
            continue
        opposite = not_(clause)
        if any(_adds_nothing(opposite, beside, op) for beside in kept):
            return truth(ends)
        kept = [other for other in kept if not _adds_nothing(other, clause, op)]
        kept.append(clause)
    kept.sort(key=_ranges)
    total = kept[0]
    for clause in kept[1:]:
        total = UOp(op, dtypes.bool, (total, clause))
    return total


def _ranges(clause: UOp) -> int:
    return clause.ranges


def _adds_nothing(clause: UOp, beside: UOp, op: Ops) -> bool:
    """Whether joining clause by op changes nothing: it is implied (AND) or implies (OR) what is there."""
    return _implies(beside, clause) if op is Ops.AND else _implies(clause, beside)


def _implies(a: UOp, b: UOp) -> bool:
    """Whether b holds wherever a does, for clauses about one expression and a constant."""
    if a is b:
        return True
    x, low, high = _interval(a)
    if x is None:
        return False
    y, least, most = _interval(b)
    return x is y and low >= least and high <= most


def _interval(clause: UOp) -> tuple[UOp | None, float, float]:
    """(x, low, high) of a clause that says low <= x <= high; None for x when it says something else."""
    negated = clause.op is Ops.NOT
    inner = clause.src[0] if negated else clause
    if inner.op is Ops.CMPLT or (inner.op is Ops.CMPEQ and not negated):
        x, bound = inner.src
        if x.dtype is dtypes.index and bound.op is Ops.CONST:
            if inner.op is Ops.CMPEQ:
                return x, bound.arg, bound.arg
            return (x, bound.arg, math.inf) if negated else (x, -math.inf, bound.arg - 1)
    return None, 0, 0


def where(condition: UOp, a: Operand, b: Operand) -> UOp:
    """a where condition holds, b elsewhere; a and b of any one dtype, ints are of dtypes.index."""
    a, b = node(a), node(b)
    if condition.lo == condition.hi:
        return a if condition.lo else b
    if condition.op is Ops.NOT:
        return where(condition.src[0], b, a)
    if a.op is Ops.WHERE and a.src[0] is condition:
        a = a.src[1]
    if b.op is Ops.WHERE and b.src[0] is condition:
        b = b.src[2]
    if a is b:
        return a
    if a.dtype is dtypes.bool and a.op is b.op is Ops.CONST:
        return condition if a.arg else not_(condition)
    return UOp(Ops.WHERE, a.dtype, (condition, a, b))


__all__ = ["and_", "clauses", "const", "eq", "ge", "lt", "not_", "or_", "truth", "valid", "where"]
