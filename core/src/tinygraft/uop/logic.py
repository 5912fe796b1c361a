"""Conditions that simplify as they are built: lt, ge, eq, and_, or_, not_, where.

In: nodes of dtypes.index, or ints, to compare; nodes of dtypes.bool to join. Out: a bool node, a
constant where the bounds decide. A comparison is `terms < constant` or `terms < terms + constant` with common
factors divided out; `>=` is NOT of it. A conjunction is a left-associated chain of clauses, those of outer ranges
first, without clauses that others imply. RULES has, for each op, the rules in the order in which they are tried; LESS
those for whether a sum, given as terms and a constant, is below 0.
"""

from __future__ import annotations

import math

from tinygraft import events
from tinygraft.dtype import dtypes
from tinygraft.uop.integer import mul
from tinygraft.uop.ops import Ops
from tinygraft.uop.rulebook import reported, rulebook
from tinygraft.uop.terms import Operand, Terms, chain, const, difference, node, span, surely_negative
from tinygraft.uop.uop import UOp


def truth(value: bool) -> UOp:
    """Return the constant True or False."""
    return UOp(Ops.CONST, dtypes.bool, (), value)


def valid(gate: UOp) -> UOp | None:
    """Return `gate`, or None when it is always true."""
    return None if gate.lo else gate


def _built(op: Ops, a: UOp, b: UOp) -> UOp:
    """Return the result of the first rule of `op` that holds for `a` and `b`, else their node."""
    for rule in RULES[op]:
        if (found := rule(a, b)) is not None:
            return reported(rule, found, op, (a, b)) if events.on_rule else found
    return UOp(op, dtypes.bool, (a, b))


# Comparisons


def lt(a: Operand, b: Operand) -> UOp:
    """Return the condition a < b in canonical form; a constant where the bounds of both decide it.

    >>> i, j = UOp.range(9, 0), UOp.range(4, 1)
    >>> lt(i * 4 + j, 16) is lt(i, 4)
    True
    """
    return _built(Ops.CMPLT, node(a), node(b))


def ge(a: Operand, b: Operand) -> UOp:
    """Return the condition a >= b, as NOT of a < b; a constant where the bounds of both decide it."""
    return not_(lt(a, b))


def eq(a: Operand, b: Operand) -> UOp:
    """Return the condition a == b in canonical form; a constant where the form of both decides it."""
    return _built(Ops.CMPEQ, node(a), node(b))


def less_by_bounds(a: UOp, b: UOp) -> UOp | None:
    """a < b is known where the bounds of a and b do not overlap."""
    return truth(True) if a.hi < b.lo else truth(False) if a.lo >= b.hi else None


def less_of_sums(a: UOp, b: UOp) -> UOp:
    """a < b is a - b < 0."""
    return _negative(*difference(a, b))


def _negative(terms: Terms, constant: int) -> UOp:
    """Return the condition terms + constant < 0."""
    for rule in LESS:
        if (found := rule(terms, constant)) is not None:
            return reported(rule, found) if events.on_rule else found
    left = {term: k for term, k in terms.items() if k > 0}
    right = {term: -k for term, k in terms.items() if k < 0}
    return UOp(Ops.CMPLT, dtypes.bool, (chain(left, 0), chain(right, -constant)))


def below_by_bounds(terms: Terms, constant: int) -> UOp | None:
    """A sum is below 0 where its greatest value is, and is not where its least value is not."""
    low, high = span(terms, constant)
    if high < 0 or surely_negative(terms, constant):
        return truth(True)
    if low >= 0 or surely_negative({term: -k for term, k in terms.items()}, -constant - 1):
        return truth(False)
    return None


def below_without_factor(terms: Terms, constant: int) -> UOp | None:
    """g * s + r < 0 says s <= floor((-1 - r) / g), where that does not depend on r; for the greatest such g above 1."""
    for g in sorted({abs(k) for k in terms.values()} | {math.gcd(*terms.values())}, reverse=True):
        if g == 1:
            break
        low, high = span({term: k for term, k in terms.items() if k % g}, constant)
        if (most := (-1 - low) // g) == (-1 - high) // g:
            return _negative({term: k // g for term, k in terms.items() if k % g == 0}, -1 - most)
    return None


def below_negated(terms: Terms, constant: int) -> UOp | None:
    """c - x < 0 is not (x < c + 1)."""
    if any(k > 0 for k in terms.values()):
        return None
    return not_(_negative({term: -k for term, k in terms.items()}, -constant - 1))


def below_of_quotient(terms: Terms, constant: int) -> UOp | None:
    """x // n < m is x < m * n."""
    if len(terms) == 1:
        term, k = next(iter(terms.items()))
        if k == 1 and term.op is Ops.IDIV and term.src[1].lo > 0:
            return lt(term.src[0], mul(term.src[1], -constant))
    return None


LESS = (below_by_bounds, below_without_factor, below_negated, below_of_quotient)


def equal_by_bounds(a: UOp, b: UOp) -> UOp | None:
    """a == b is known where a - b is a constant, and false where its bounds exclude 0."""
    terms, constant = difference(a, b)
    low, high = span(terms, constant)
    if low > 0 or high < 0:
        return truth(False)
    return None if terms else truth(constant == 0)


def equal_of_sums(a: UOp, b: UOp) -> UOp:
    """a == b with common factors divided out; false where they do not divide the constant."""
    terms, constant = difference(a, b)
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
    """Return the condition that `a` is false."""
    for rule in RULES[Ops.NOT]:
        if (found := rule(a)) is not None:
            return reported(rule, found, Ops.NOT, (a,)) if events.on_rule else found
    return UOp(Ops.NOT, dtypes.bool, (a,))


def and_(a: UOp, b: UOp) -> UOp:
    """Return the condition that both hold. Clauses that others imply are omitted.

    >>> i = UOp.range(9, 0)
    >>> and_(lt(i, 7), lt(i, 4)) is lt(i, 4)
    True
    """
    return _built(Ops.AND, a, b)


def or_(a: UOp, b: UOp) -> UOp:
    """Return the condition that one of them holds."""
    return _built(Ops.OR, a, b)


def clauses(a: UOp, op: Ops = Ops.AND) -> list[UOp]:
    """Return the clauses that `a` joins by `op`, in order."""
    found: list[UOp] = []
    stack = [a]
    while stack:
        a = stack.pop()
        if a.op is op and a.dtype is dtypes.bool:
            stack += (a.src[1], a.src[0])
        else:
            found.append(a)
    return found


def negation_known(a: UOp) -> UOp | None:
    """NOT of what is known is known."""
    return truth(not a.lo) if a.lo == a.hi else None


def negation_twice(a: UOp) -> UOp | None:
    """NOT of NOT a is a."""
    return a.src[0] if a.op is Ops.NOT else None


def negation_of_equal(a: UOp) -> UOp | None:
    """NOT of a == b is a != b."""
    return UOp(Ops.CMPNE, dtypes.bool, a.src) if a.op is Ops.CMPEQ else None


def negation_of_unequal(a: UOp) -> UOp | None:
    """NOT of a != b is a == b."""
    return UOp(Ops.CMPEQ, dtypes.bool, a.src) if a.op is Ops.CMPNE else None


def both_with_known(a: UOp, b: UOp) -> UOp | None:
    """True and a is a, False and a is False."""
    if a.lo == a.hi:
        return b if a.lo else truth(False)
    if b.lo == b.hi:
        return a if b.lo else truth(False)
    return None


def either_with_known(a: UOp, b: UOp) -> UOp | None:
    """False or a is a, True or a is True."""
    if a.lo == a.hi:
        return truth(True) if a.lo else b
    if b.lo == b.hi:
        return truth(True) if b.lo else a
    return None


def both_of_clauses(a: UOp, b: UOp) -> UOp:
    """A conjunction of conjunctions is one, without the clauses that others imply."""
    return _join(Ops.AND, a, b)


def either_of_clauses(a: UOp, b: UOp) -> UOp:
    """A disjunction of disjunctions is one, without the clauses that imply others."""
    return _join(Ops.OR, a, b)


def _join(op: Ops, a: UOp, b: UOp) -> UOp:
    """Return the clauses of `a` and `b` joined by `op`, each once; a clause and its negation decide the whole.

    Clauses of outer ranges come first, and one that adds nothing to another is omitted.
    """
    decided = op is Ops.OR  # the value of the whole then
    found = clauses(a, op)
    for clause in clauses(b, op):
        if any(_adds_nothing(clause, beside, op) for beside in found):
            continue
        opposite = not_(clause)
        if any(_adds_nothing(opposite, beside, op) for beside in found):
            return truth(decided)
        found = [other for other in found if not _adds_nothing(other, clause, op)]
        found.append(clause)
    found.sort(key=_ranges)
    total = found[0]
    for clause in found[1:]:
        total = UOp(op, dtypes.bool, (total, clause))
    return total


def _ranges(clause: UOp) -> int:
    return clause.ranges


def _adds_nothing(clause: UOp, beside: UOp, op: Ops) -> bool:
    """Return whether joining `clause` to `beside` changes nothing: it is implied by that (AND), or implies it (OR)."""
    return _implies(beside, clause) if op is Ops.AND else _implies(clause, beside)


def _implies(a: UOp, b: UOp) -> bool:
    """Return whether `b` holds wherever `a` does, for clauses about one expression and a constant."""
    if a is b:
        return True
    x, low, high = _interval(a)
    if x is None:
        return False
    y, least, most = _interval(b)
    return x is y and low >= least and high <= most


def _interval(clause: UOp) -> tuple[UOp | None, float, float]:
    """Return (x, low, high) of a clause that means low <= x <= high; None for x when it means something else."""
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
    """Return `a` where `condition` holds, `b` elsewhere; both of one dtype, ints are of dtypes.index."""
    a, b = node(a), node(b)
    for rule in RULES[Ops.WHERE]:
        if (found := rule(condition, a, b)) is not None:
            return reported(rule, found, Ops.WHERE, (condition, a, b)) if events.on_rule else found
    return UOp(Ops.WHERE, a.dtype, (condition, a, b))


def choice_known(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(True, a, b) is a, where(False, a, b) is b."""
    if condition.lo == condition.hi:
        return a if condition.lo else b
    return None


def choice_negated(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(NOT c, a, b) is where(c, b, a)."""
    return where(condition.src[0], b, a) if condition.op is Ops.NOT else None


def choice_in_first(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(c, where(c, x, y), b) is where(c, x, b)."""
    return where(condition, a.src[1], b) if a.op is Ops.WHERE and a.src[0] is condition else None


def choice_in_second(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(c, a, where(c, x, y)) is where(c, a, y)."""
    return where(condition, a, b.src[2]) if b.op is Ops.WHERE and b.src[0] is condition else None


def choice_of_same(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(c, a, a) is a."""
    return a if a is b else None


def choice_of_truths(condition: UOp, a: UOp, b: UOp) -> UOp | None:
    """where(c, True, False) is c, where(c, False, True) is NOT c."""
    if a.dtype is dtypes.bool and a.op is b.op is Ops.CONST:
        return condition if a.arg else not_(condition)
    return None


RULES = rulebook(
    (Ops.CMPLT, less_by_bounds),
    (Ops.CMPLT, less_of_sums),
    (Ops.CMPEQ, equal_by_bounds),
    (Ops.CMPEQ, equal_of_sums),
    (Ops.NOT, negation_known),
    (Ops.NOT, negation_twice),
    (Ops.NOT, negation_of_equal),
    (Ops.NOT, negation_of_unequal),
    (Ops.AND, both_with_known),
    (Ops.AND, both_of_clauses),
    (Ops.OR, either_with_known),
    (Ops.OR, either_of_clauses),
    (Ops.WHERE, choice_known),
    (Ops.WHERE, choice_negated),
    (Ops.WHERE, choice_in_first),
    (Ops.WHERE, choice_in_second),
    (Ops.WHERE, choice_of_same),
    (Ops.WHERE, choice_of_truths),
)


__all__ = ["and_", "clauses", "const", "eq", "ge", "lt", "not_", "or_", "truth", "valid", "where"]
