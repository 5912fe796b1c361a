"""Integer arithmetic that simplifies as it builds: add, sub, mul, idiv, mod, minimum, maximum.

In: nodes of dtypes.index; ints are taken for any operand. Out: a node with the same value for every value of the
RANGEs and VARIABLEs. Sums have the form of terms.py. Division floors: what is a multiple of the divisor leaves it,
and an IDIV or MOD by a constant has a non-negative left side wherever the bounds allow that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tinygraft.dtype import dtypes
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.terms import (
    Operand,
    Terms,
    chain,
    const,
    difference,
    factors_of,
    monomial,
    node,
    product,
    span,
    surely_negative,
    terms_of,
)
from tinygraft.uop.uop import UOp

_BIG = 1 << 62  # beyond this a bound says nothing, and a shift might not fit into 64 bits


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
        if a.op is Ops.ADD and a.src[1].op is Ops.CONST and a.src[0].op is not Ops.CONST:
            return add(a.src[0], a.src[1].arg + b.arg)
        if a.op is not Ops.SUB and a.op is not Ops.NEG:
            return UOp(Ops.ADD, dtypes.index, (a, b))
    terms, constant = terms_of(a)
    more, extra = terms_of(b)
    for term, factor in more.items():
        terms[term] = terms.get(term, 0) + factor
    return _sum(terms, constant + extra)


def dot(values: Iterable[UOp], factors: Iterable[int]) -> UOp:
    """The sum of values times factors, in one step.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> dot((i, j), (3, 1)) is add(mul(i, 3), j)
    True
    """
    terms: Terms = {}
    constant = 0
    for value, factor in zip(values, factors, strict=True):
        more, extra = ({value: 1}, 0) if value.op is Ops.RANGE else terms_of(value)
        constant += extra * factor
        for term, k in more.items():
            terms[term] = terms.get(term, 0) + k * factor
    return _sum(terms, constant)


def sub(a: Operand, b: Operand) -> UOp:
    """a - b."""
    return add(a, -b if isinstance(b, int) else mul(b, -1))


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
        if a.op is Ops.RANGE:
            return UOp(Ops.MUL, dtypes.index, (a, b))
        terms, constant = terms_of(a)
        return chain({term: k * factor for term, k in terms.items()}, constant * factor)
    left, k = monomial(a)
    right, m = monomial(b)
    return mul(product(left + right), k * m)


def _sum(terms: Terms, constant: int) -> UOp:
    """The sum, after putting divisions and their remainders together again."""
    if len(terms) > 1:
        for term in terms:
            if term.op is Ops.MOD and (found := _rejoin(terms, constant, term)) is not None:
                return found
    return chain(terms, constant)


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
    if b.hi < 0:
        return idiv(mul(a, -1), mul(b, -1))
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
    if b.hi < 0:
        return mul(mod(mul(a, -1), mul(b, -1)), -1)
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
    return 0 if a.lo >= 0 and (a.hi < b.lo or surely_negative(*difference(a, b))) else None


def _exact(a: UOp, b: UOp) -> UOp | None:
    """a / b where b divides every value of a by its form, else None."""
    quotient, rest = _split(a, b)
    return quotient if rest.op is Ops.CONST and rest.arg == 0 else None


def _split(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """(q, r) with a == q * b + r: q has what is a multiple of b by its form. b is positive.

    A sum as divisor is a multiple of nothing but itself.

    >>> i, j = UOp.range(4, 0), UOp.range(9, 1)
    >>> q, r = _split(add(mul(i, 12), add(j, 7)), const(6))
    >>> q is add(mul(i, 2), 1), r is add(j, 1)
    (True, True)
    """
    symbols, c = monomial(b)
    terms, constant = terms_of(a)
    q: Terms = {}
    r: Terms = {}
    whole = 0
    for term, k in terms.items():
        rest = _remove(factors_of(term), symbols) if symbols else [term]
        times, left = (0, k) if rest is None else (k // c, k % c) if k > 0 else (-(-k // c), -(-k % c))
        if left and symbols:  # a symbolic divisor takes a term as a whole
            times, left = 0, k
        if left:
            r[term] = left
        if times and rest:
            part = product(rest) if symbols else term
            q[part] = q.get(part, 0) + times
        else:
            whole += times
    if not symbols:
        whole += constant // c
        constant %= c
    if not q and not whole:
        return const(0), a
    return chain(q, whole), chain(r, constant)


def _remove(factors: list[UOp], gone: list[UOp]) -> list[UOp] | None:
    """factors without those gone; None when one of these is not there."""
    left = list(factors)
    for factor in gone:
        if factor not in left:
            return None
        left.remove(factor)
    return left


def _nested_idiv(a: UOp, b: UOp) -> UOp | None:
    """(x // m + k) // n is (x + k * m) // (m * n), and x % (m * n) // n is x // n % m."""
    offset = 0
    if a.op is Ops.ADD and a.src[1].op is Ops.CONST:
        a, offset = a.src[0], a.src[1].arg
    if a.op is Ops.IDIV and a.src[1].lo > 0:
        return idiv(add(a.src[0], mul(a.src[1], offset)), mul(a.src[1], b))
    if a.op is Ops.MOD and offset == 0 and a.src[1].lo > 0 and (m := _exact(a.src[1], b)) is not None:
        return mod(idiv(a.src[0], b), m)
    return None


def _split_idiv(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) // b is q + r // b."""
    q, r = _split(a, b)
    if r is a or (b.op is not Ops.CONST and r.lo < 0 <= a.lo):
        return None
    return add(q, idiv(r, b))


def _split_mod(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) % b is r % b, and in a sum (x % (m * b) + r) % b is (x + r) % b."""
    _, r = _split(a, b)
    terms, constant = terms_of(r)
    for term, factor in terms.items():
        if term.op is Ops.MOD and term.src[1].lo > 0 and _exact(mul(term.src[1], factor), b) is not None:
            rest = {other: k for other, k in terms.items() if other is not term}
            without = add(chain(rest, constant), mul(term.src[0], factor))
            if factor < 0 and without.lo < 0 and not _shift(without, b):
                continue  # a place that a kernel has loaded: nobody knows how far below 0 this may be
            r = without
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
        rest = {term: k for term, k in terms.items() if k % g}
        low, high = span(rest, constant % g)
        if low >= 0 and high < g:
            s = chain({term: k // g for term, k in terms.items() if k % g == 0}, constant // g)
            return s, chain(rest, constant % g), g, b.arg // g
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
    """How many times b must be added to a so that it is never negative; 0 when that is not known.

    Nor where b is no constant: the bounds of that quotient would be much wider.
    """
    if b.op is not Ops.CONST or a.lo >= 0 or a.lo < -_BIG or a.hi > _BIG or b.arg > _BIG:
        return 0
    times: int = -(a.lo // b.arg)
    return times


def _raw_idiv(a: UOp, b: UOp) -> UOp:
    """a // b as a node that divides a non-negative number: (a + k * b) // b - k."""
    if times := _shift(a, b):
        return add(UOp(Ops.IDIV, dtypes.index, (add(a, times * b.arg), b)), -times)
    return UOp(Ops.IDIV, dtypes.index, (a, b))


def _raw_mod(a: UOp, b: UOp) -> UOp:
    """a % b as a node that divides a non-negative number: (a + k * b) % b."""
    if times := _shift(a, b):
        a = add(a, times * b.arg)
    return UOp(Ops.MOD, dtypes.index, (a, b))


# Extremes


def minimum(a: Operand, b: Operand) -> UOp:
    """The less of a and b."""
    a, b = node(a), node(b)
    low, high = span(*difference(a, b))
    if high <= 0:
        return a
    if low >= 0:
        return b
    return UOp(Ops.MIN, dtypes.index, (b, a) if a.op is Ops.CONST else (a, b))


def maximum(a: Operand, b: Operand) -> UOp:
    """The greater of a and b."""
    a, b = node(a), node(b)
    low, high = span(*difference(a, b))
    if low >= 0:
        return a
    if high <= 0:
        return b
    return UOp(Ops.MAX, dtypes.index, (b, a) if a.op is Ops.CONST else (a, b))
