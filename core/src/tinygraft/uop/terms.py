"""The normal form of integer sums: a node as terms with constant factors, and the canonical node of such terms.

In: nodes of dtypes.index. A sum is a left-associated chain of terms, each a node times a constant: those of variables
alone first, then terms by the number of their innermost range, the constant last. A product has the innermost range
first. Variables, bound or not, are ordered by name, and expressions of them by their text, so that one size has one
node. Sums in other forms (SUB, NEG, sums on the right) can be read as well. Also here: splitting a sum by a divisor,
and comparing one with symbolic sizes with 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tinygraft.dtype import dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

Operand = UOp | int
Terms = dict[UOp, int]  # node -> its constant factor


_constants: dict[int, UOp] = {}  # a cache: constants are made and dropped all the time
_MOST_CONSTANTS = 1024
_BIG = 1 << 62  # beyond this a bound is useless, and a shift might not fit into 64 bits
_LONG = 64  # nodes; assumed, never measured: sizes in programs have fewer


def const(value: int) -> UOp:
    """Return the CONST of dtypes.index with this value."""
    if (found := _constants.get(value)) is not None:
        return found
    found = UOp(Ops.CONST, dtypes.index, (), value)
    if len(_constants) < _MOST_CONSTANTS:
        _constants[value] = found
    return found


def node(value: Operand) -> UOp:
    """Return `value` as a node."""
    return value if isinstance(value, UOp) else const(int(value))


def terms_of(x: UOp) -> tuple[Terms, int]:
    """Return `x` as terms, each with its factor, and a constant, whose sum it is.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> terms_of(i * 3 + (j + 5)) == ({i: 3, j: 1}, 5)
    True
    """
    terms: Terms = {}
    constant = 0
    stack = [(x, 1)]
    while stack:
        x, factor = stack.pop()
        op = x.op
        if op is Ops.ADD:
            left, right = x.src
            if right.op is Ops.CONST:
                constant += right.arg * factor
            else:
                stack.append((right, factor))
            stack.append((left, factor))
        elif op is Ops.MUL and x.src[1].op is Ops.CONST:
            stack.append((x.src[0], factor * x.src[1].arg))
        elif op is Ops.CONST:
            constant += x.arg * factor
        elif op is Ops.SUB:
            stack += ((x.src[1], -factor), (x.src[0], factor))
        elif op is Ops.NEG:
            stack.append((x.src[0], -factor))
        elif op is Ops.MUL and x.src[0].op is Ops.CONST:
            stack.append((x.src[1], factor * x.src[0].arg))
        else:
            terms[x] = terms[x] + factor if x in terms else factor
    return terms, constant


def difference(a: UOp, b: UOp) -> tuple[Terms, int]:
    """Return the terms and the constant of a - b, without terms that cancel."""
    terms, constant = terms_of(a)
    if b.op is Ops.CONST:
        return terms, constant - int(b.arg)
    less, offset = terms_of(b)
    for term, factor in less.items():
        if remaining := terms.get(term, 0) - factor:
            terms[term] = remaining
        else:
            del terms[term]
    return terms, constant - offset


def span(terms: Terms, constant: int) -> tuple[int, int]:
    """Return the least and greatest value of a sum, from the bounds of its terms."""
    low = high = constant
    for term, factor in terms.items():
        if factor > 0:
            low += factor * term.lo
            high += factor * term.hi
        else:
            low += factor * term.hi
            high += factor * term.lo
    return low, high


def chain(terms: Terms, constant: int) -> UOp:
    """Return the canonical sum of terms and a constant."""
    total: UOp | None = None
    for term in sorted(terms, key=_order) if len(terms) > 1 else terms:
        if factor := terms[term]:
            value = term if factor == 1 else UOp(Ops.MUL, dtypes.index, (term, const(factor)))
            total = value if total is None else UOp(Ops.ADD, dtypes.index, (total, value))
    if total is None:
        return const(constant)
    return UOp(Ops.ADD, dtypes.index, (total, const(constant))) if constant else total


def _order(term: UOp) -> tuple[int, str]:
    """Return the sort key of a term: variables by name, then terms by their open ranges, outer ones first."""
    return (term.ranges, "") if term.ranges else (0, _text(term))


def _text(x: UOp) -> str:
    """Return a sort key, which is the same in every process, of a node without ranges.

    That is the name of a variable, else a line for each node. It is empty for a graph of more than _LONG nodes, or
    with another dtype than dtypes.index, as one that reads memory has: these have no order among each other.
    """
    if x.op is Ops.VARIABLE:
        return str(x.arg.name)
    if x.op is Ops.BIND:
        return f"{x.src[0].arg.name} {x.arg}"
    order, numbers = [x], {x: 0}
    for node in order:  # `order` grows meanwhile
        if node.dtype is not dtypes.index or len(order) > _LONG:
            return ""
        for source in node.src:
            if source not in numbers:
                numbers[source] = len(order)
                order.append(source)
    return "\n".join([f"{n.op.name} {n.arg} {[numbers[s] for s in n.src]}" for n in order])


def factors_of(x: UOp) -> list[UOp]:
    """Return the factors of a term, which has no constant factor."""
    if x.op is not Ops.MUL:
        return [x]
    found: list[UOp] = []
    stack = [x]
    while stack:
        x = stack.pop()
        if x.op is Ops.MUL:
            stack += (x.src[1], x.src[0])
        else:
            found.append(x)
    return found


def product(factors: Iterable[UOp]) -> UOp:
    """Return the product of factors that are not constant, in canonical order; 1 if there are none."""
    total: UOp | None = None
    for factor in sorted(factors, key=lambda f: (-f.ranges, "" if f.ranges else _text(f))):
        total = factor if total is None else UOp(Ops.MUL, dtypes.index, (total, factor))
    return const(1) if total is None else total


def monomial(x: UOp) -> tuple[list[UOp], int]:
    """Return (factors, constant) whose product is `x`; a sum is one factor."""
    if x.op is Ops.CONST:
        return [], x.arg
    terms, constant = terms_of(x)
    if constant or len(terms) != 1:
        return [x], 1
    term, factor = next(iter(terms.items()))
    return factors_of(term), factor


# Division of a sum by a positive divisor, for the rules of IDIV and MOD in integer.py


def one_quotient(a: UOp, b: UOp) -> int | None:
    """Return a // b where it is one number for all values of `a` and `b`, else None."""
    if b.op is Ops.CONST:
        quotient: int = a.lo // b.arg
        return quotient if quotient == a.hi // b.arg else None
    return 0 if a.lo >= 0 and (a.hi < b.lo or surely_negative(*difference(a, b))) else None


def exact(a: UOp, b: UOp) -> UOp | None:
    """Return a / b where the form of `a` shows that `b` divides every value of it, else None."""
    quotient, remainder = split(a, b)
    return quotient if remainder.op is Ops.CONST and remainder.arg == 0 else None


def split(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Return (q, r) with a == q * b + r: q has the terms of `a` whose form shows that they are multiples of `b`.

    `b` is positive. Where it is a sum, only the same sum is a multiple of it.

    >>> i, j = UOp.range(4, 0), UOp.range(9, 1)
    >>> q, r = split(chain({i: 12, j: 1}, 7), const(6))
    >>> q is chain({i: 2}, 1), r is chain({j: 1}, 1)
    (True, True)
    """
    symbols, c = monomial(b)
    terms, constant = terms_of(a)
    q: Terms = {}
    r: Terms = {}
    whole = 0
    for term, k in terms.items():
        others = _remove(factors_of(term), symbols) if symbols else [term]
        times, remaining = (0, k) if others is None else (k // c, k % c) if k > 0 else (-(-k // c), -(-k % c))
        if remaining and symbols:  # a symbolic divisor divides a term as a whole, or not at all
            times, remaining = 0, k
        if remaining:
            r[term] = remaining
        if times and others:
            divided = product(others) if symbols else term
            q[divided] = q.get(divided, 0) + times
        else:
            whole += times
    if not symbols:
        whole += constant // c
        constant %= c
    if not q and not whole:
        return const(0), a
    return chain(q, whole), chain(r, constant)


def _remove(factors: list[UOp], gone: list[UOp]) -> list[UOp] | None:
    """Return `factors` without those of `gone`; None when one of these is not among them."""
    remaining = list(factors)
    for factor in gone:
        if factor not in remaining:
            return None
        remaining.remove(factor)
    return remaining


def factored(a: UOp, b: UOp) -> tuple[UOp, UOp, int, int] | None:
    """Return (s, t, g, n) with a == g * s + t, 0 <= t < g, b == g * n, for the greatest such g above 1, else None."""
    if b.op is not Ops.CONST:
        return None
    terms, constant = terms_of(a)
    for g in sorted({math.gcd(k, b.arg) for k in terms.values()} - {1}, reverse=True):
        below = {term: k for term, k in terms.items() if k % g}
        low, high = span(below, constant % g)
        if low >= 0 and high < g:
            s = chain({term: k // g for term, k in terms.items() if k % g == 0}, constant // g)
            return s, chain(below, constant % g), g, b.arg // g
    return None


def shift(a: UOp, b: UOp) -> int:
    """Return how many times `b` has to be added to `a` so that it is never negative; 0 when that is not known.

    It is 0, too, where `b` is no constant: the bounds of that quotient would be much wider.
    """
    if b.op is not Ops.CONST or a.lo >= 0 or a.lo < -_BIG or a.hi > _BIG or b.arg > _BIG:
        return 0
    times: int = -(a.lo // b.arg)
    return times


# Symbolic sizes: whether a sum is negative for all of their values

Polynomial = dict[tuple[UOp, ...], int]  # factors, ordered by serial -> constant factor


def surely_negative(terms: Terms, constant: int, reached: bool = False) -> bool:
    """Return whether a sum is below 0 for all values of its variables, with each counter at its first or last value.

    `reached` says that every counter has a value, as it has where an access happens: then its size is not 0.

    >>> n, m = UOp.variable("n", 1, 9), UOp.variable("m", 1, 9)
    >>> i, j = UOp.range(n, 0), UOp.range(m, 1)
    >>> surely_negative(*difference(i * m + j, n * m))
    True
    """
    if not any(_symbolic_limit(f) is not None for term in terms for f in factors_of(term)):
        return False
    bound: Polynomial = {(): constant}
    for term, factor in terms.items():
        for factors, k in _greatest(factors_of(term), factor, reached).items():
            bound[factors] = bound.get(factors, 0) + k
    return _most(bound) < 0 or (reached and any(_most(_without(op, bound)) < 0 for op in (Ops.IDIV, Ops.MOD)))


def _most(bound: Polynomial) -> int:
    """Return an upper bound of a polynomial, from the bounds of its products."""
    high = 0
    for factors, k in bound.items():
        if factors and k:
            whole = product(factors)
            high += k * (whole.hi if k > 0 else whole.lo)
    return high + bound.get((), 0)


def _without(op: Ops, bound: Polynomial) -> Polynomial:
    """Return a polynomial without quotients, or without remainders, by constants: x // c * c is x - x % c.

    Terms may cancel then: a loop over x is split into one over x // c whole blocks and a remainder of x % c iterations.
    """
    total: Polynomial = {}
    for factors, k in bound.items():
        divided = next((f for f in factors if f.op is op and f.src[1].op is Ops.CONST and f.src[1].arg > 0), None)
        if divided is None or (op is Ops.IDIV and k % divided.src[1].arg):
            total[factors] = total.get(factors, 0) + k
            continue
        x, c = divided.src
        others = list(factors)
        others.remove(divided)
        instead = _polynomial(x, 0)
        if op is Ops.IDIV:
            k, other, times = k // c.arg, UOp(Ops.MOD, dtypes.index, (x, c)), -1
        else:
            other, times = UOp(Ops.IDIV, dtypes.index, (x, c)), -c.arg
        instead[(other,)] = instead.get((other,), 0) + times
        for more, value in _times({tuple(others): k}, instead).items():
            total[more] = total.get(more, 0) + value
    return total


def _symbolic_limit(x: UOp) -> UOp | None:
    """Return the symbolic node that a counter or a remainder stays below, None where there is none."""
    if x.op is Ops.RANGE and x.src[0].op is not Ops.CONST:
        return x.src[0]
    return x.src[1] if x.op is Ops.MOD and x.src[1].op is not Ops.CONST and x.src[1].lo > 0 else None


def _greatest(factors: list[UOp], constant: int, reached: bool) -> Polynomial:
    """Return an upper bound of `constant` times `factors`: each counter of symbolic size at its last or first value.

    `reached` is that of `surely_negative`.
    """
    total: Polynomial = {(): constant}
    counters = [f for f in factors if _symbolic_limit(f) is not None]
    has_value = reached or all(f.src[0].lo > 0 for f in counters if f.op is Ops.RANGE)
    if counters and all(f.lo >= 0 for f in factors) and has_value:
        if constant < 0:
            return {}
    else:
        counters = []
    for factor in factors:
        limit = _symbolic_limit(factor) if factor in counters else None
        total = _times(total, _polynomial(factor if limit is None else limit, 0 if limit is None else -1))
    return total


def _polynomial(x: UOp, more: int) -> Polynomial:
    """Return x + more, with products of sums multiplied out."""
    terms, constant = terms_of(x)
    found: Polynomial = {(): constant + more}
    for term, k in terms.items():
        expanded: Polynomial = {(): k}
        for factor in factors_of(term):
            expanded = _times(expanded, _polynomial(factor, 0) if factor.op is Ops.ADD else {(factor,): 1})
        for key, times in expanded.items():
            found[key] = found.get(key, 0) + times
    return found


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product of two polynomials. Keys have factors in the order of serials, so that equal terms add up."""
    total: Polynomial = {}
    for x, k in a.items():
        for y, m in b.items():
            key = tuple(sorted(x + y, key=lambda f: f.serial))
            total[key] = total.get(key, 0) + k * m
    return total
