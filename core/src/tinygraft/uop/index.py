"""Constructors of integer index arithmetic that simplify as they build: add, mul, idiv, mod, lt, and_, where, ...

In: nodes of dtypes.index (ints are taken for any operand) and nodes of dtypes.bool. Out: a node with the same
value for every value of its RANGEs and VARIABLEs, usually smaller. Addresses, gates and sizes are built with
these from the schedule down, so that no pass has to clean a whole graph afterwards.

The form that they keep:

- A sum is a left-associated chain of terms, each a node times a constant: variables first, then terms by the
  number of their innermost range, the constant last. Equal terms are collected, a constant factor distributes.
- Division floors. What is a multiple of a constant divisor leaves the division, and an IDIV or MOD by a constant
  has a non-negative left side wherever the bounds allow it.
- A comparison is `terms < constant` or `terms < terms + constant`, with common factors divided out; >= is NOT of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tinygraft.dtype import dtypes
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.uop import UOp, toposort

Operand = UOp | int
Terms = dict[UOp, int]  # node -> its constant factor

_BIG = 1 << 62  # beyond this a bound says nothing, and a shift might not fit into 64 bits


def const(value: int) -> UOp:
    """The index constant value."""
    return UOp(Ops.CONST, dtypes.index, (), value)


def truth(value: bool) -> UOp:
    """The constant True or False."""
    return UOp(Ops.CONST, dtypes.bool, (), value)


def node(value: Operand) -> UOp:
    """value as a node."""
    return value if isinstance(value, UOp) else const(int(value))


def valid(gate: UOp) -> UOp | None:
    """gate, or None when it is always true."""
    return None if gate.lo else gate


# Sums


def add(a: Operand, b: Operand) -> UOp:
    """a + b.

    >>> i = UOp.range(10, 0)
    >>> add(mul(add(i, 1), 2), i) is add(mul(i, 3), 2)
    True
    """
    a, b = node(a), node(b)
    if a.op is Ops.CONST:
        a, b = b, a
    if b.op is Ops.CONST:
        if a.op is Ops.CONST:
            return const(a.arg + b.arg)
        if b.arg == 0:
            return a
        if a.op is not Ops.ADD and a.op is not Ops.SUB and a.op is not Ops.NEG:
            return UOp(Ops.ADD, dtypes.index, (a, b))
    terms, constant = terms_of(a)
    more, extra = terms_of(b)
    for term, factor in more.items():
        terms[term] = terms.get(term, 0) + factor
    return _sum(terms, constant + extra)


def sub(a: Operand, b: Operand) -> UOp:
    """a - b."""
    return add(a, mul(b, -1))


def mul(a: Operand, b: Operand) -> UOp:
    """a * b. A constant distributes over a sum."""
    a, b = node(a), node(b)
    if a.op is Ops.CONST:
        a, b = b, a
    if b.op is Ops.CONST:
        factor = b.arg
        if factor == 0:
            return b
        if factor == 1:
            return a
        terms, constant = terms_of(a)
        return _chain({term: k * factor for term, k in terms.items()}, constant * factor)
    left, right = _monomial(a), _monomial(b)
    if left is None or right is None:
        factors, factor = (a, b), 1
    else:
        factors, factor = left[0] + right[0], left[1] * right[1]
    return mul(_product(factors), factor)


def terms_of(x: UOp) -> tuple[Terms, int]:
    """x as the sum of its terms and a constant.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> terms_of(i * 3 + (j + 5)) == ({i: 3, j: 1}, 5)
    True
    """
    terms: Terms = {}
    constant = 0
    stack = [(x, 1)]
    while stack:
        x, factor = stack.pop()
        if x.op is Ops.CONST:
            constant += x.arg * factor
        elif x.op is Ops.ADD:
            stack += ((x.src[1], factor), (x.src[0], factor))
        elif x.op is Ops.SUB:
            stack += ((x.src[1], -factor), (x.src[0], factor))
        elif x.op is Ops.NEG:
            stack.append((x.src[0], -factor))
        elif x.op is Ops.MUL and x.src[1].op is Ops.CONST:
            stack.append((x.src[0], factor * x.src[1].arg))
        elif x.op is Ops.MUL and x.src[0].op is Ops.CONST:
            stack.append((x.src[1], factor * x.src[0].arg))
        else:
            terms[x] = terms.get(x, 0) + factor
    return terms, constant


def _sum(terms: Terms, constant: int) -> UOp:
    """The sum, after putting divisions and their remainders together again."""
    if len(terms) > 1:
        for term in terms:
            if term.op is Ops.MOD and (found := _rejoin(terms, constant, term)) is not None:
                return found
    return _chain(terms, constant)


def _rejoin(terms: Terms, constant: int, rest: UOp) -> UOp | None:
    """x//n*n + x%n is x, and x//n%m*n + x%n is x%(n*m); the same times any constant. rest is the x%n."""
    x, n = rest.src
    factor = terms[rest]
    if factor == 0 or n.lo <= 0:
        return None
    quotient = idiv(x, n)
    whole, offset = terms_of(mul(quotient, mul(n, factor)))
    if whole and all(terms.get(term) == k for term, k in whole.items()):
        left = {term: k for term, k in terms.items() if term not in whole and term is not rest}
        return add(_sum(left, constant - offset), mul(x, factor))
    for other, k in terms.items():
        if other.op is Ops.MOD and other.src[0] is quotient and n.op is Ops.CONST and k == factor * n.arg:
            left = {term: k for term, k in terms.items() if term is not other and term is not rest}
            return add(_sum(left, constant), mul(mod(x, mul(n, other.src[1])), factor))
    return None


def _chain(terms: Terms, constant: int) -> UOp:
    """The canonical sum of terms."""
    total: UOp | None = None
    for term in sorted(terms, key=_order):
        factor = terms[term]
        if factor:
            part = term if factor == 1 else UOp(Ops.MUL, dtypes.index, (term, const(factor)))
            total = part if total is None else UOp(Ops.ADD, dtypes.index, (total, part))
    if total is None:
        return const(constant)
    return UOp(Ops.ADD, dtypes.index, (total, const(constant))) if constant else total


def _order(term: UOp) -> tuple[int, str]:
    """Variables by name, then terms by their open ranges: what changes least often comes first."""
    return term.ranges, term.arg.name if term.op is Ops.VARIABLE else ""


def _product(factors: Iterable[UOp]) -> UOp:
    """The product of factors that are not constant, in canonical order; 1 if there are none."""
    total: UOp | None = None
    for factor in sorted(factors, key=lambda f: (-f.ranges, _order(f)[1])):
        total = factor if total is None else UOp(Ops.MUL, dtypes.index, (total, factor))
    return const(1) if total is None else total


def _factors(x: UOp) -> tuple[UOp, ...]:
    """The factors of a term; a constant is not expected among them."""
    found: list[UOp] = []
    stack = [x]
    while stack:
        x = stack.pop()
        if x.op is Ops.MUL:
            stack += (x.src[1], x.src[0])
        else:
            found.append(x)
    return tuple(found)


def _monomial(x: UOp) -> tuple[tuple[UOp, ...], int] | None:
    """(factors, constant) of a node that is one term, None for a sum."""
    terms, constant = terms_of(x)
    if not terms:
        return (), constant
    if constant or len(terms) > 1:
        return None
    term, factor = next(iter(terms.items()))
    return _factors(term), factor


# Division


def idiv(a: Operand, b: Operand) -> UOp:
    """a // b, which floors; by zero it gives 0.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> idiv(add(mul(i, 3), j), 3) is i
    True
    """
    a, b = node(a), node(b)
    if a.op is b.op is Ops.CONST:
        return const(_python(Ops.IDIV)(a.arg, b.arg))
    if b.lo <= 0:
        return UOp(Ops.IDIV, dtypes.index, (a, b))
    if b.op is Ops.CONST and b.arg == 1:
        return a
    if (quotient := _one_quotient(a, b)) is not None:
        return const(quotient)
    return _first((_nested_idiv, _split_idiv, _factor_idiv, _raw_idiv), a, b)


def mod(a: Operand, b: Operand) -> UOp:
    """a % b, what idiv leaves: a - idiv(a, b) * b where b is not 0. By zero it gives 0.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> mod(add(mul(i, 3), j), 3) is j
    True
    """
    a, b = node(a), node(b)
    if a.op is b.op is Ops.CONST:
        return const(_python(Ops.MOD)(a.arg, b.arg))
    if b.lo <= 0:
        return UOp(Ops.MOD, dtypes.index, (a, b))
    if b.op is Ops.CONST and b.arg == 1:
        return const(0)
    if (quotient := _one_quotient(a, b)) is not None:
        return sub(a, mul(b, quotient))
    return _first((_split_mod, _factor_mod, _raw_mod), a, b)


def _first(rules: Iterable[Callable[[UOp, UOp], UOp | None]], a: UOp, b: UOp) -> UOp:
    """What the first rule that applies makes of a and b; the last one always applies."""
    return next(found for rule in rules if (found := rule(a, b)) is not None)


def _python(op: Ops) -> Callable[[int, int], int]:
    meaning = FACTS[op].python
    assert meaning is not None
    return meaning


def _one_quotient(a: UOp, b: UOp) -> int | None:
    """a // b where it is one number for all values of a and b, else None."""
    if b.op is Ops.CONST:
        quotient: int = a.lo // b.arg
        return quotient if quotient == a.hi // b.arg else None
    return 0 if a.lo >= 0 and less(a, b) else None


def less(a: UOp, b: UOp) -> bool:
    """Whether a < b is certain."""
    if a.hi < b.lo:
        return True
    return (a.op is Ops.RANGE and a.src[0] is b) or (a.op is Ops.MOD and a.src[1] is b and b.lo > 0)


def _exact(a: UOp, b: UOp) -> UOp | None:
    """a / b where b divides every value of a by its form, else None."""
    quotient, rest = _split(a, b)
    return quotient if rest.op is Ops.CONST and rest.arg == 0 else None


def _split(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """(q, r) with a == q * b + r: q has what is a multiple of b by its form. b is positive.

    >>> i, j = UOp.range(4, 0), UOp.range(9, 1)
    >>> q, r = _split(add(mul(i, 12), add(j, 7)), const(6))
    >>> q is add(mul(i, 2), 1), r is add(j, 1)
    (True, True)
    """
    divisor = _monomial(b)
    terms, constant = terms_of(a)
    if divisor is None:  # the divisor is a sum: only a term that has it as a factor is a multiple
        divisor = (b,), 1
    symbols, c = divisor
    q: Terms = {}
    r: Terms = {}
    q_constant = 0
    for term, k in terms.items():
        rest = _remove(_factors(term), symbols)
        if rest is None:
            r[term] = k
            continue
        times, left = divmod(abs(k), c)
        if k < 0:
            times, left = -times, -left
        if symbols and left:  # only whole multiples of a symbolic divisor
            times, left = 0, k
        if left:
            r[term] = left
        if times and rest:
            part = _product(rest)
            q[part] = q.get(part, 0) + times
        elif times:
            q_constant += times
    if not symbols:
        q_constant += constant // c
        constant %= c
    return _chain(q, q_constant), _chain(r, constant)


def _remove(factors: tuple[UOp, ...], gone: tuple[UOp, ...]) -> list[UOp] | None:
    """factors without those gone; None when one of these is not there."""
    left = list(factors)
    for factor in gone:
        if factor not in left:
            return None
        left.remove(factor)
    return left


def _nested_idiv(a: UOp, b: UOp) -> UOp | None:
    """(x // m + k) // n is (x + k * m) // (m * n), and x % (m * n) // n is x // n % m."""
    terms, constant = terms_of(a)
    if len(terms) != 1:
        return None
    term, factor = next(iter(terms.items()))
    if factor != 1:
        return None
    if term.op is Ops.IDIV and term.src[1].lo > 0:
        return idiv(add(term.src[0], mul(term.src[1], constant)), mul(term.src[1], b))
    if term.op is Ops.MOD and constant == 0 and term.src[1].lo > 0 and (m := _exact(term.src[1], b)) is not None:
        return mod(idiv(term.src[0], b), m)
    return None


def _split_idiv(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) // b is q + r // b."""
    q, r = _split(a, b)
    if q.op is Ops.CONST and q.arg == 0:
        return None
    if b.op is not Ops.CONST and r.lo < 0 <= a.lo:
        return None
    return add(q, idiv(r, b))


def _split_mod(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) % b is r % b, and in a sum (x % (m * b) + r) % b is (x + r) % b."""
    _, r = _split(a, b)
    terms, constant = terms_of(r)
    for term, factor in terms.items():
        if term.op is Ops.MOD and term.src[1].lo > 0 and _exact(mul(term.src[1], factor), b) is not None:
            del terms[term]
            r = add(_chain(terms, constant), mul(term.src[0], factor))
            break
    if r is a or (b.op is not Ops.CONST and r.lo < 0 <= a.lo):
        return None
    return mod(r, b)


def _factored(a: UOp, b: UOp) -> tuple[UOp, UOp, int, int] | None:
    """(s, t, g, n) with a == g * s + t, 0 <= t < g and b == g * n, for the greatest such g above 1."""
    if b.op is not Ops.CONST:
        return None
    terms, constant = terms_of(a)
    for g in sorted({math.gcd(k, b.arg) for k in terms.values()} - {1}, reverse=True):
        t = _chain({term: k for term, k in terms.items() if k % g}, constant % g)
        if 0 <= t.lo and t.hi < g:
            s = _chain({term: k // g for term, k in terms.items() if k % g == 0}, constant // g)
            return s, t, g, b.arg // g
    return None


def _factor_idiv(a: UOp, b: UOp) -> UOp | None:
    """(g * s + t) // (g * n) is s // n."""
    if (parts := _factored(a, b)) is None:
        return None
    s, _, _, n = parts
    return idiv(s, n)


def _factor_mod(a: UOp, b: UOp) -> UOp | None:
    """(g * s + t) % (g * n) is g * (s % n) + t."""
    if (parts := _factored(a, b)) is None:
        return None
    s, t, g, n = parts
    return add(mul(mod(s, n), g), t)


def _shift(a: UOp, b: UOp) -> int:
    """How many times b must be added to a so that it is never negative; 0 when that is not known."""
    if b.op is not Ops.CONST or a.lo >= 0 or a.lo < -_BIG or a.hi > _BIG or b.arg > _BIG:
        return 0
    times: int = -(a.lo // b.arg)
    return times


def _raw_idiv(a: UOp, b: UOp) -> UOp:
    """a // b as a node that divides a non-negative number: (a + k * b) // b - k."""
    times = _shift(a, b)
    return add(UOp(Ops.IDIV, dtypes.index, (add(a, mul(b, times)), b)), -times)


def _raw_mod(a: UOp, b: UOp) -> UOp:
    """a % b as a node that divides a non-negative number: (a + k * b) % b."""
    return UOp(Ops.MOD, dtypes.index, (add(a, mul(b, _shift(a, b))), b))


# Choices


def minimum(a: Operand, b: Operand) -> UOp:
    """The less of a and b."""
    a, b = node(a), node(b)
    if (apart := sub(a, b)).hi <= 0:
        return a
    if apart.lo >= 0:
        return b
    return UOp(Ops.MIN, dtypes.index, (b, a) if a.op is Ops.CONST else (a, b))


def maximum(a: Operand, b: Operand) -> UOp:
    """The greater of a and b."""
    a, b = node(a), node(b)
    if (apart := sub(a, b)).lo >= 0:
        return a
    if apart.hi <= 0:
        return b
    return UOp(Ops.MAX, dtypes.index, (b, a) if a.op is Ops.CONST else (a, b))


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


# Comparisons and logic


def lt(a: Operand, b: Operand) -> UOp:
    """a < b.

    >>> i, j = UOp.range(9, 0), UOp.range(4, 1)
    >>> lt(add(mul(i, 4), j), 16) is lt(i, 4)
    True
    """
    a, b = node(a), node(b)
    apart = sub(a, b)
    if apart.hi < 0 or less(a, b):
        return truth(True)
    if apart.lo >= 0 or (a.op is not Ops.CONST and not a.lo < b.hi):
        return truth(False)
    terms, constant = terms_of(apart)
    return _lt_zero(terms, constant)


def _lt_zero(terms: Terms, constant: int) -> UOp:
    """terms + constant < 0, with common factors divided out and the terms on the side where they are positive."""
    for g in sorted({abs(k) for k in terms.values()} | {math.gcd(*terms.values())}, reverse=True):
        if g == 1:
            break
        rest = _chain({term: k for term, k in terms.items() if k % g}, constant)
        # g * s + rest < 0 means s <= floor((-1 - rest) / g), which must not depend on rest
        if (most := (-1 - rest.lo) // g) == (-1 - rest.hi) // g:
            return lt(_chain({term: k // g for term, k in terms.items() if k % g == 0}, 0), most + 1)
    left = {term: k for term, k in terms.items() if k > 0}
    right = {term: -k for term, k in terms.items() if k < 0}
    if not left:  # constant < right
        return not_(lt(_chain(right, 0), constant + 1))
    if not right and len(left) == 1:
        term, k = next(iter(left.items()))
        if k == 1 and term.op is Ops.IDIV and term.src[1].lo > 0:  # x // n < m is x < m * n
            return lt(term.src[0], mul(term.src[1], -constant))
    return UOp(Ops.CMPLT, dtypes.bool, (_chain(left, 0), _chain(right, -constant)))


def ge(a: Operand, b: Operand) -> UOp:
    """a >= b."""
    return not_(lt(a, b))


def eq(a: Operand, b: Operand) -> UOp:
    """a == b."""
    terms, constant = terms_of(apart := sub(a, b))
    if apart.lo > 0 or apart.hi < 0:
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
    return UOp(Ops.CMPEQ, dtypes.bool, (_chain(left, 0), _chain(right, -constant // g)))


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
    """The clauses of a and b joined by op, each once; a is false and b is its negation ends it."""
    ends = op is Ops.OR  # the truth that decides everything
    kept: list[UOp] = []
    for clause in clauses(a, op) + clauses(b, op):
        if clause.lo == clause.hi:
            if bool(clause.lo) is ends:
                return truth(ends)
            continue
        if any(_decided(other, clause, op) for other in kept):
            continue
        opposite = not_(clause)
        if any(_decided(other, opposite, op) for other in kept):
            return truth(ends)
        kept = [other for other in kept if not _decided(clause, other, op)]
        kept.append(clause)
    kept.sort(key=_ranges)
    total = truth(not ends)
    for i, clause in enumerate(kept):
        total = clause if i == 0 else UOp(op, dtypes.bool, (total, clause))
    return total


def _ranges(clause: UOp) -> int:
    return clause.ranges


def _decided(known: UOp, clause: UOp, op: Ops) -> bool:
    """Whether clause adds nothing beside known: known implies it under AND, it implies known under OR."""
    return _implies(known, clause) if op is Ops.AND else _implies(clause, known)


def _implies(a: UOp, b: UOp) -> bool:
    """Whether b holds wherever a does, for clauses about one expression and a constant."""
    if a is b:
        return True
    (x, low, high), (y, least, most) = _interval(a), _interval(b)
    return x is not None and x is y and low >= least and high <= most


def _interval(clause: UOp) -> tuple[UOp | None, float, float]:
    """(x, low, high) of a clause that says low <= x <= high; None for x when it says something else."""
    negated = clause.op is Ops.NOT
    inner = clause.src[0] if negated else clause
    if inner.op in (Ops.CMPLT, Ops.CMPEQ) and inner.src[0].dtype is dtypes.index and inner.src[1].op is Ops.CONST:
        x, bound = inner.src[0], inner.src[1].arg
        if inner.op is Ops.CMPEQ:
            return x, bound, bound
        return (x, bound, math.inf) if negated else (x, -math.inf, bound - 1)
    return None, 0, 0


# Rebuilding


def build(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """u with other sources, by the constructors above where they apply.

    A gate that is always true is dropped, a LOAD whose gate never opens is 0, a choice with a known condition is
    made. A REDUCE whose ranges became expressions runs over the RANGEs in them.
    """
    op = u.op
    if u.dtype is dtypes.index and op in _INDEX:
        return _INDEX[op](*src)
    if u.dtype is dtypes.bool and op in _BOOL and (op not in _COMPARE or src[0].dtype is dtypes.index):
        return _BOOL[op](*src)
    if op is Ops.WHERE:
        return where(*src)
    if (op is Ops.LOAD and len(src) == 3) or (op is Ops.STORE and len(src) == 4):
        if src[-1].lo:
            src = src[:-1]
        elif op is Ops.LOAD and not src[-1].hi:
            return UOp.const(u.dtype, 0)
    elif op is Ops.REDUCE:
        src = (src[0], *_ranges_in(src[1:]))
        if len(src) == 1:
            return src[0]
    return UOp(op, u.dtype, src, u.arg, u.tag)


def _ranges_in(nodes: Iterable[UOp]) -> Iterable[UOp]:
    """The RANGEs that count in nodes, each once, outermost first within a node."""
    found: dict[UOp, None] = {}
    for x in nodes:
        if x.op is Ops.RANGE:
            found[x] = None
        elif x.ranges:
            inside = [r for r in toposort(x, enter=lambda n: n.op is not Ops.RANGE) if r.op is Ops.RANGE]
            found.update(dict.fromkeys(sorted(inside, key=lambda r: int(r.arg.axis))))
    return found


_INDEX: dict[Ops, Callable[..., UOp]] = {
    Ops.ADD: add, Ops.SUB: sub, Ops.MUL: mul, Ops.IDIV: idiv, Ops.MOD: mod, Ops.MIN: minimum, Ops.MAX: maximum,
    Ops.NEG: lambda a: mul(a, -1),
}  # fmt: skip
_BOOL: dict[Ops, Callable[..., UOp]] = {
    Ops.AND: and_, Ops.OR: or_, Ops.NOT: not_, Ops.CMPLT: lt, Ops.CMPEQ: eq, Ops.CMPNE: lambda a, b: not_(eq(a, b)),
}  # fmt: skip
_COMPARE = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE})


def rebuild_simplified(roots: Iterable[UOp], swap: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """What each node becomes when the nodes of swap are replaced, simplifying on the way (see build).

    >>> i, outer, inner = UOp.range(12, 0), UOp.range(3, 0), UOp.range(4, 1)
    >>> x = idiv(i, 4)
    >>> rebuild_simplified((x,), {i: add(mul(outer, 4), inner)})[x] is outer
    True
    """
    done = dict(swap)
    for x in toposort(*roots, enter=lambda n: n not in swap):
        if x not in done:
            src = tuple(done[s] for s in x.src)
            done[x] = x if src == x.src else build(x, src)
    return done


def simplify(x: UOp) -> UOp:
    """x, written with plain operators, as the constructors would have built it."""
    done: dict[UOp, UOp] = {}
    for u in toposort(x):
        done[u] = build(u, tuple(done[s] for s in u.src)) if u.src else u
    return done[x]
