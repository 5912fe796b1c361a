"""Integer arithmetic that simplifies as it builds: add, sub, mul, idiv, mod, minimum, maximum.

In: nodes of dtypes.index; any operand may be an int. Out: a node with the same value for every value of the
RANGEs and VARIABLEs. Sums have the form of terms.py. Division floors: multiples of the divisor are taken out of it,
and an IDIV or MOD by a constant has a non-negative left side wherever the bounds allow that. RULES has, for each op,
the rules in the order in which they are tried, BY_CONSTANT those where b is a constant. A rule returns the node, or
None where it does not hold; one whose name ends in _in_form returns the node that needs no change, so that no later
one is tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft import events
from tinygraft.dtype import dtypes
from tinygraft.uop.meanings import floor_divide, modulo
from tinygraft.uop.ops import Ops
from tinygraft.uop.rulebook import reported, rows_of, rulebook
from tinygraft.uop.terms import (
    Operand,
    Terms,
    chain,
    const,
    difference,
    exact,
    factored,
    monomial,
    node,
    one_quotient,
    product,
    shift,
    span,
    split,
    terms_of,
)
from tinygraft.uop.uop import UOp


def _built(op: Ops, a: UOp, b: UOp) -> UOp:
    """Return the result of the first rule of `op` that holds for `a` and `b`, else their node."""
    for rule in BY_CONSTANT[op] if b.op is Ops.CONST else RULES[op]:
        if (found := rule(a, b)) is not None:
            return reported(rule, found, op, (a, b)) if events.on_rule else found
    return UOp(op, dtypes.index, (a, b))


# Sums


def add(a: Operand, b: Operand) -> UOp:
    """Return a + b in canonical form: equal sums are one node.

    >>> i = UOp.range(10, 0)
    >>> add(mul(add(i, 1), 2), i) is add(mul(i, 3), 2)
    True
    """
    a, b = node(a), node(b)
    return _built(Ops.ADD, b, a) if a.op is Ops.CONST else _built(Ops.ADD, a, b)


def dot(values: Iterable[UOp], factors: Iterable[int]) -> UOp:
    """Return the sum of values times factors, in one step.

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
    """Return a - b in canonical form, as a sum."""
    return add(a, -b if isinstance(b, int) else mul(b, -1))


def mul(a: Operand, b: Operand) -> UOp:
    """Return a * b in canonical form. A constant distributes over a sum."""
    a, b = node(a), node(b)
    return _built(Ops.MUL, b, a) if a.op is Ops.CONST else _built(Ops.MUL, a, b)


def add_constants(a: UOp, b: UOp) -> UOp | None:
    """The sum of two constants is one."""
    return const(a.arg + b.arg) if a.op is Ops.CONST else None


def add_nothing(a: UOp, b: UOp) -> UOp | None:
    """x + 0 is x."""
    return a if b.arg == 0 else None


def add_to_constant(a: UOp, b: UOp) -> UOp | None:
    """(x + c) + d is x + (c + d)."""
    if a.op is Ops.ADD and a.src[1].op is Ops.CONST and a.src[0].op is not Ops.CONST:
        return add(a.src[0], a.src[1].arg + b.arg)
    return None


def constant_in_form(a: UOp, b: UOp) -> UOp | None:
    """x + c needs no change, unless x is a difference."""
    return UOp(Ops.ADD, dtypes.index, (a, b)) if a.op is not Ops.SUB and a.op is not Ops.NEG else None


def collect_terms(a: UOp, b: UOp) -> UOp:
    """A sum of sums is one sum, in which each term is once."""
    terms, constant = terms_of(a)
    more, extra = terms_of(b)
    for term, factor in more.items():
        terms[term] = terms.get(term, 0) + factor
    return _sum(terms, constant + extra)


def times_one(a: UOp, b: UOp) -> UOp | None:
    """x * 1 is x."""
    return a if b.arg == 1 else None


def times_zero(a: UOp, b: UOp) -> UOp | None:
    """x * 0 is 0."""
    return b if b.arg == 0 else None


def range_in_form(a: UOp, b: UOp) -> UOp | None:
    """A RANGE times a constant needs no change."""
    return UOp(Ops.MUL, dtypes.index, (a, b)) if a.op is Ops.RANGE else None


def distribute(a: UOp, b: UOp) -> UOp:
    """(x + y) * c is x * c + y * c."""
    factor = b.arg
    terms, constant = terms_of(a)
    return chain({term: k * factor for term, k in terms.items()}, constant * factor)


def join_products(a: UOp, b: UOp) -> UOp:
    """A product of products is one product, with its constants as one factor."""
    left, k = monomial(a)
    right, m = monomial(b)
    return mul(product(left + right), k * m)


def _sum(terms: Terms, constant: int) -> UOp:
    """Return the sum of terms and a constant, with divisions and their remainders joined again."""
    if len(terms) > 1:
        for term in terms:
            if term.op is Ops.MOD and (found := _rejoined(terms, constant, term)) is not None:
                return found
    return chain(terms, constant)


def _rejoined(terms: Terms, constant: int, remainder: UOp) -> UOp | None:
    """Return a sum that has the term `remainder` with that joined to its quotient, by the first rule that holds."""
    x, n = remainder.src
    if terms[remainder] == 0 or n.lo <= 0:
        return None
    quotient = idiv(x, n)
    for rule in REJOINING:
        if (found := rule(terms, constant, remainder, quotient)) is not None:
            return reported(rule, found) if events.on_rule else found
    return None


def rejoin_quotient(terms: Terms, constant: int, remainder: UOp, quotient: UOp) -> UOp | None:
    """x // n * n + x % n is x; the same times any constant."""
    x, n = remainder.src
    factor = terms[remainder]
    if n.op is Ops.CONST and quotient.op is Ops.IDIV:  # as most are: the same without making nodes of a product
        whole, offset = {quotient: n.arg * factor}, 0
    else:
        whole, offset = terms_of(mul(quotient, mul(n, factor)))
    if whole and all(terms.get(term) == k for term, k in whole.items()):
        left = {term: k for term, k in terms.items() if term not in whole and term is not remainder}
        return add(_sum(left, constant - offset), mul(x, factor))
    return None


def rejoin_remainders(terms: Terms, constant: int, remainder: UOp, quotient: UOp) -> UOp | None:
    """x // n % m * n + x % n is x % (n * m); the same times any constant."""
    x, n = remainder.src
    factor = terms[remainder]
    for other, k in terms.items():
        if other.op is Ops.MOD and other.src[0] is quotient and n.op is Ops.CONST and k == factor * n.arg:
            left = {term: k for term, k in terms.items() if term is not other and term is not remainder}
            return add(_sum(left, constant), mul(mod(x, mul(n, other.src[1])), factor))
    return None


# Division


def idiv(a: Operand, b: Operand) -> UOp:
    """Return a // b in canonical form, which floors; by zero it gives 0.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> idiv(add(mul(i, 3), j), 3) is i
    True
    """
    return _built(Ops.IDIV, node(a), node(b))


def mod(a: Operand, b: Operand) -> UOp:
    """Return a % b in canonical form: a - idiv(a, b) * b where b is not 0. By zero it gives 0.

    >>> i, j = UOp.range(4, 0), UOp.range(3, 1)
    >>> mod(add(mul(i, 3), j), 3) is j
    True
    """
    return _built(Ops.MOD, node(a), node(b))


def quotient_of_constants(a: UOp, b: UOp) -> UOp | None:
    """The quotient of two constants is one."""
    return const(floor_divide(a.arg, b.arg)) if a.op is Ops.CONST else None


def quotient_by_one(a: UOp, b: UOp) -> UOp | None:
    """x // 1 is x."""
    return a if b.arg == 1 else None


def quotient_by_negative(a: UOp, b: UOp) -> UOp | None:
    """x // -n is -x // n."""
    return idiv(mul(a, -1), mul(b, -1)) if b.hi < 0 else None


def quotient_in_form(a: UOp, b: UOp) -> UOp | None:
    """A quotient by what may be 0 or of either sign needs no change. In the rules that follow b is positive."""
    return UOp(Ops.IDIV, dtypes.index, (a, b)) if b.lo <= 0 else None


def quotient_known(a: UOp, b: UOp) -> UOp | None:
    """x // n is a constant where the bounds allow one quotient only."""
    return None if (quotient := one_quotient(a, b)) is None else const(quotient)


def quotient_of_quotient(a: UOp, b: UOp) -> UOp | None:
    """(x // m + k) // n is (x + k * m) // (m * n). Without the second division it is cheaper."""
    offset = 0
    if a.op is Ops.ADD and a.src[1].op is Ops.CONST:
        a, offset = a.src[0], a.src[1].arg
    if a.op is Ops.IDIV and a.src[1].lo > 0:
        return idiv(add(a.src[0], mul(a.src[1], offset)), mul(a.src[1], b))
    return None


def quotient_of_remainder(a: UOp, b: UOp) -> UOp | None:
    """x % (m * n) // n is x // n % m."""
    if a.op is Ops.MOD and a.src[1].lo > 0 and (m := exact(a.src[1], b)) is not None:
        return mod(idiv(a.src[0], b), m)
    return None


def quotient_of_multiples(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) // b is q + r // b."""
    q, r = split(a, b)
    if r is a or (b.op is not Ops.CONST and r.lo < 0 <= a.lo):
        return None
    return add(q, idiv(r, b))


def quotient_without_factor(a: UOp, b: UOp) -> UOp | None:
    """(g * s + t) // (g * n) is s // n."""
    if (parts := factored(a, b)) is None:
        return None
    s, _, _, n = parts
    return idiv(s, n)


def quotient_shifted(a: UOp, b: UOp) -> UOp | None:
    """a // b is (a + k * b) // b - k, which divides what is not negative."""
    if times := shift(a, b):
        return add(UOp(Ops.IDIV, dtypes.index, (add(a, times * b.arg), b)), -times)
    return None


def remainder_of_constants(a: UOp, b: UOp) -> UOp | None:
    """The remainder of two constants is one."""
    return const(modulo(a.arg, b.arg)) if a.op is Ops.CONST else None


def remainder_by_one(a: UOp, b: UOp) -> UOp | None:
    """x % 1 is 0."""
    return const(0) if b.arg == 1 else None


def remainder_by_negative(a: UOp, b: UOp) -> UOp | None:
    """x % -n is -(-x % n)."""
    return mul(mod(mul(a, -1), mul(b, -1)), -1) if b.hi < 0 else None


def remainder_in_form(a: UOp, b: UOp) -> UOp | None:
    """A remainder by what may be 0 or of either sign needs no change. In the rules that follow b is positive."""
    return UOp(Ops.MOD, dtypes.index, (a, b)) if b.lo <= 0 else None


def remainder_of_known_quotient(a: UOp, b: UOp) -> UOp | None:
    """x % n is x - q * n where the bounds allow one quotient q only."""
    return None if (quotient := one_quotient(a, b)) is None else sub(a, mul(b, quotient))


def remainder_of_sum(a: UOp, b: UOp) -> UOp | None:
    """(q * b + r) % b is r % b, and in a sum (x % (m * b) + r) % b is (x + r) % b."""
    _, r = split(a, b)
    terms, constant = terms_of(r)
    for term, factor in terms.items():
        if term.op is Ops.MOD and term.src[1].lo > 0 and exact(mul(term.src[1], factor), b) is not None:
            others = {other: k for other, k in terms.items() if other is not term}
            without = add(chain(others, constant), mul(term.src[0], factor))
            if factor < 0 and without.lo < 0 and not shift(without, b):
                continue  # an index that a kernel has loaded: how far below 0 this may be is unknown
            r = without
            break
    if r is a or (b.op is not Ops.CONST and r.lo < 0 <= a.lo):
        return None
    return mod(r, b)


def remainder_without_factor(a: UOp, b: UOp) -> UOp | None:
    """(g * s + t) % (g * n) is g * (s % n) + t."""
    if (parts := factored(a, b)) is None:
        return None
    s, t, g, n = parts
    return add(mul(mod(s, n), g), t)


def remainder_shifted(a: UOp, b: UOp) -> UOp | None:
    """a % b is (a + k * b) % b, which divides what is not negative."""
    times = shift(a, b)
    return UOp(Ops.MOD, dtypes.index, (add(a, times * b.arg), b)) if times else None


# Extremes


def minimum(a: Operand, b: Operand) -> UOp:
    """Return the less of a and b; one of them, or a constant, where the bounds show which it is."""
    return _built(Ops.MIN, node(a), node(b))


def maximum(a: Operand, b: Operand) -> UOp:
    """Return the greater of a and b; one of them, or a constant, where the bounds show which it is."""
    return _built(Ops.MAX, node(a), node(b))


def least_known(a: UOp, b: UOp) -> UOp | None:
    """The less of two is one of them where their difference has a sign."""
    low, high = span(*difference(a, b))
    return a if high <= 0 else b if low >= 0 else None


def least_of_constant(a: UOp, b: UOp) -> UOp | None:
    """A constant is on the right."""
    return UOp(Ops.MIN, dtypes.index, (b, a)) if a.op is Ops.CONST else None


def greatest_known(a: UOp, b: UOp) -> UOp | None:
    """The greater of two is one of them where their difference has a sign."""
    low, high = span(*difference(a, b))
    return a if low >= 0 else b if high <= 0 else None


def greatest_of_constant(a: UOp, b: UOp) -> UOp | None:
    """A constant is on the right."""
    return UOp(Ops.MAX, dtypes.index, (b, a)) if a.op is Ops.CONST else None


RULES = rulebook(
    (Ops.ADD, collect_terms),
    (Ops.MUL, join_products),
    (Ops.IDIV, quotient_by_negative),
    (Ops.IDIV, quotient_in_form),
    (Ops.IDIV, quotient_known),
    (Ops.IDIV, quotient_of_quotient),
    (Ops.IDIV, quotient_of_remainder),
    (Ops.IDIV, quotient_of_multiples),
    (Ops.IDIV, quotient_without_factor),
    (Ops.IDIV, quotient_shifted),
    (Ops.MOD, remainder_by_negative),
    (Ops.MOD, remainder_in_form),
    (Ops.MOD, remainder_of_known_quotient),
    (Ops.MOD, remainder_of_sum),
    (Ops.MOD, remainder_without_factor),
    (Ops.MOD, remainder_shifted),
    (Ops.MIN, least_known),
    (Ops.MIN, least_of_constant),
    (Ops.MAX, greatest_known),
    (Ops.MAX, greatest_of_constant),
)
BY_CONSTANT = rulebook(
    (Ops.ADD, add_constants),
    (Ops.ADD, add_nothing),
    (Ops.ADD, add_to_constant),
    (Ops.ADD, constant_in_form),
    (Ops.MUL, times_one),
    (Ops.MUL, times_zero),
    (Ops.MUL, range_in_form),
    (Ops.MUL, distribute),
    (Ops.IDIV, quotient_of_constants),
    (Ops.IDIV, quotient_by_one),
    (Ops.MOD, remainder_of_constants),
    (Ops.MOD, remainder_by_one),
    *[row for row in rows_of(RULES) if row[0] is not Ops.MUL],
)
REJOINING = (rejoin_quotient, rejoin_remainders)
