"""When two accesses to one buffer reach the same element: a proof from their indices and gates alone.

    coincide(first, second) -> a mask of ranges, or None

In: two of `GatedIndex`, each an index with the gate under which it is accessed. Each access happens once for every
value of the ranges that its index depends on, and the two run through these values independently. Out: the ranges that
surely have the same value in both whenever the two indices are equal; None where they never are equal.

An index is a sum of terms with constant factors. Where the smaller terms of both sides together stay below a factor,
equal sums have equal multiples of that factor and equal remainders, as the digits of equal numbers are equal; so one
equation becomes two, until each has one term on either side. A range that is such a term is the same on both sides; one
that was cut into quotient and remainder is, once both are. An equation that cannot be split proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.logic import clauses
from tinygraft.uop.ops import Ops
from tinygraft.uop.terms import Terms, chain, const, difference, factors_of, product, surely_negative, terms_of
from tinygraft.uop.uop import UOp

Limits = dict[UOp, tuple[int, int]]  # node -> its least and greatest value, where a gate bounds it more than the node


class GatedIndex(NamedTuple):
    """The index of an access, and the gate under which it happens."""

    element: UOp
    gate: UOp | None = None


class Equation(NamedTuple):
    """The sum of left, plus constant, is the sum of right."""

    left: Terms
    right: Terms
    constant: int


class _NoSolution(Exception):
    """The equation has no solution."""


def coincide(first: GatedIndex, second: GatedIndex, fixed: int = 0) -> int | None:
    """Return, as a mask, the ranges that have one value in both accesses where they reach one element.

    None where they never reach one. `fixed` is a mask of ranges whose values are assumed to be the same in both; they
    are part of the result.

    >>> row, column, other = UOp.range(5, 0), UOp.range(8, 1), UOp.range(8, 2)
    >>> bin(coincide(GatedIndex(row * 8 + column), GatedIndex(row * 8 + other)))
    '0b1'
    >>> bin(coincide(GatedIndex(column), GatedIndex(column)))
    '0b10'
    >>> coincide(GatedIndex(row * 8 + column), GatedIndex(row * 8 + other + 40)) is None
    True
    """
    proof = _Proof(fixed, limits(first.gate), limits(second.gate))
    try:
        return proof.solve(first.element, second.element)
    except _NoSolution:
        return None


def limits(gate: UOp | None) -> Limits:
    """Return the bounds of the terms that a gate compares with numbers, while it is open.

    Of a sum that is compared with one, each term has the bounds that follow for it.

    >>> r, s = UOp.range(8, 0), UOp.range(4, 1)
    >>> limits(ix.lt(r * 4 + s, 4)) == {r: (0, 0)}
    True
    """
    found: Limits = {}
    for clause in clauses(gate) if gate is not None else ():
        negated = clause.op is Ops.NOT
        inner = clause.src[0] if negated else clause
        if not inner.src or inner.src[0].dtype is not dtypes.index:
            if inner.op is Ops.CMPLT and not negated:
                _below_unsigned(inner.src[0], inner.src[1], found)
            continue  # sums of other integers wrap
        if inner.op is Ops.CMPLT:
            a, b = inner.src if not negated else inner.src[::-1]
            _below(a, b, 0 if negated else 1, found)  # a < b; of NOT, b <= a
        elif inner.op is Ops.CMPEQ and not negated and inner.src[1].op is Ops.CONST:
            _narrow(found, inner.src[0], inner.src[1].arg, inner.src[1].arg)
    return found


def _narrow(found: Limits, node: UOp, low: int, high: int) -> None:
    """Narrow the bounds of `node` in `found` to `low` and `high`, inclusive."""
    known = found.get(node, (node.lo, node.hi))
    found[node] = max(known[0], low), min(known[1], high)


def _below_unsigned(a: UOp, b: UOp, found: Limits) -> None:
    """Narrow the bounds of a signed integer, as an index, whose bits are compared as an unsigned one: bits(a) < b."""
    if a.op is not Ops.BITCAST or b.op is not Ops.CONST:
        return
    signed = a.src[0]
    if signed.dtype.kind == "int" and a.dtype.kind == "uint" and 0 < b.arg <= dtypes.max(signed.dtype):
        _narrow(found, signed.cast(dtypes.index), 0, b.arg - 1)


def _below(a: UOp, b: UOp, least: int, found: Limits) -> None:
    """Narrow the bounds of each term of a - b in `found` to those that follow from a + least <= b."""
    terms, constant = terms_of(a)
    for term, factor in (less := terms_of(b))[0].items():
        terms[term] = terms.get(term, 0) - factor
    room = less[1] - least - constant  # the sum of the terms is at most this
    if b.op is Ops.CONST:
        _narrow(found, a, a.lo, b.arg - least)
    low = {term: factor * (term.lo if factor > 0 else term.hi) for term, factor in terms.items() if factor}
    total = sum(low.values())
    for term, mine in low.items():
        factor, most = terms[term], room - (total - mine)  # factor * term <= most
        if factor > 0:
            _narrow(found, term, term.lo, most // factor)
        else:
            _narrow(found, term, -(most // -factor), term.hi)


class _Proof:
    """Equations that follow from two indices being equal, solved one by one.

    `left` and `right` are the bounds by the gates of the two accesses, `same` is the mask of ranges known to be equal.
    """

    def __init__(self, fixed: int, left: Limits, right: Limits) -> None:
        self.same, self.left, self.right = fixed, left, right
        self.equal: set[UOp] = set()  # nodes that have the same value on both sides
        self.halves: list[UOp] = []  # quotients and remainders among them
        self.todo: list[Equation] = []
        for node in left.keys() & right.keys():
            if left[node][0] == left[node][1] == right[node][0] == right[node][1]:
                self.same_value(node)  # both gates leave this value only

    def solve(self, left: UOp, right: UOp) -> int:
        """Return the mask of the ranges that are the same where left == right. Raises _NoSolution."""
        for limit in (self.left, self.right):
            if any(low > high for low, high in limit.values()):
                raise _NoSolution  # the gate is never open
        self.add(left, right, 0)
        progress = True
        while progress:
            todo, self.todo = self.todo, []
            waiting = [equation for equation in todo if not self.step(equation)]
            progress = len(waiting) < len(todo) or self.joined()
            self.todo += waiting  # terms of these may cancel now
        return self.same

    def add(self, left: UOp, right: UOp, constant: int) -> None:
        """Add the equation left + constant == right."""
        (a, first), (b, second) = self.opened(left, self.left), self.opened(right, self.right)
        self.todo.append(Equation(a, b, constant + first - second))

    def opened(self, x: UOp, limit: Limits) -> tuple[Terms, int]:
        """Return the terms of `x`; min(index, last) counts as the index where the gate excludes all past the last."""
        terms, constant = terms_of(x)
        for node in [n for n in terms if n.op is Ops.MIN and self.ends(n.src[0], limit)[1] <= n.src[1].lo]:
            factor = terms.pop(node)
            inner, more = self.opened(node.src[0], limit)
            constant += factor * more
            for term, times in inner.items():
                terms[term] = terms.get(term, 0) + factor * times
        return terms, constant

    def step(self, equation: Equation) -> bool:
        """Solve or split an equation; return False where that is not possible yet. Raises _NoSolution.

        The parts of one that is split are in `todo` then.
        """
        left, right, constant = self.cancelled(equation)
        factors = [*left.values(), *right.values()]
        if not factors:
            if constant:
                raise _NoSolution
            return True
        common = math.gcd(*factors)
        if constant % common:
            raise _NoSolution
        if all(factor < 0 for factor in factors):
            common = -common
        if common != 1:
            left, right = _divided(left, common), _divided(right, common)
            constant //= common
        low, high = self.span(left, right)
        if low + constant > 0 or high + constant < 0:
            raise _NoSolution
        if _past_the_end(left, right, constant):
            raise _NoSolution
        if len(left) <= 1 and len(right) <= 1 and {*left.values(), *right.values()} <= {1}:
            self.known(next(iter(left), None), next(iter(right), None), constant)
            return True
        return (
            self.split(left, right, constant)
            or self.split_symbolic(left, right, constant)
            or self.split_clamped(left, right, constant)
            or self.rejoin(left, right, constant)
        )

    def cancelled(self, equation: Equation) -> Equation:
        """Return an equation without the terms that have one value on both sides."""
        left, right, constant = dict(equation.left), dict(equation.right), equation.constant
        for terms, sign, others in ((left, 1, right), (right, -1, left)):
            here, there = (self.left, self.right) if terms is left else (self.right, self.left)
            for node in [n for n in terms if _is_one(n, here) and (n not in others or _is_one(n, there))]:
                constant += sign * terms.pop(node) * (here.get(node) or (node.lo, node.hi))[0]
        for node in left.keys() & right.keys():
            if node in self.equal or not node.ranges & ~self.same:
                factor = left.pop(node) - right.pop(node)
                if factor:
                    left[node] = factor
        return Equation(left, right, constant)

    def span(self, left: Terms, right: Terms) -> tuple[int, int]:
        """Return the least and greatest difference of two sums."""
        (a, b), (c, d) = _ends(left, self.left), _ends(right, self.right)
        return a - d, b - c

    def split(self, left: Terms, right: Terms, constant: int) -> bool:
        """Split an equation into one of the multiples of a factor and one of the terms that stay below it.

        Returns whether there is such a factor. Raises _NoSolution. The equation is left + constant == right.
        """
        for factor in sorted({abs(f) for f in (*left.values(), *right.values())}, reverse=True):
            if factor == 1:
                break
            small_left, small_right = ({n: f for n, f in terms.items() if f % factor} for terms in (left, right))
            if not small_left and not small_right:
                continue
            low, high = self.span(small_left, small_right)
            first, last = -(-(low + constant) // factor), (high + constant) // factor
            if first > last:
                raise _NoSolution
            if first == last:
                big_left, big_right = ({n: f // factor for n, f in terms.items() if not f % factor}
                                       for terms in (left, right))  # fmt: skip
                self.todo.append(Equation(big_left, big_right, first))
                self.todo.append(Equation(small_left, small_right, constant - first * factor))
                return True
        return False

    def split_symbolic(self, left: Terms, right: Terms, constant: int) -> bool:
        """Split by a symbolic size as the factor: the other terms of both sides have to be from 0 to below it.

        Returns whether there is such a size. The equation is left + constant == right.
        """
        for stride in _sizes((*left, *right)):
            (big_left, small_left), (big_right, small_right) = (_by_size(terms, stride) for terms in (left, right))
            if not big_left or not big_right:
                continue
            times = math.gcd(*big_left.values(), *big_right.values())
            base = ix.mul(stride, times)
            for more in dict.fromkeys((constant, 0)):  # the constant may be part of either side
                a, b = chain(small_left, more), chain(small_right, more - constant)
                if self.is_digit(a, base, self.left) and self.is_digit(b, base, self.right):
                    self.todo.append(Equation(_divided(big_left, times), _divided(big_right, times), 0))
                    self.todo.append(Equation(small_left, small_right, constant))
                    return True
        return False

    def is_digit(self, x: UOp, base: UOp, limit: Limits) -> bool:
        """Return whether `x` is from 0 to below `base` where a gate is open."""
        below = ix.lt(x, base).lo or surely_negative(*difference(x, base), reached=True)
        return bool(below and (ix.ge(x, 0).lo or self.ends(x, limit)[0] >= 0))

    def known(self, left: UOp | None, right: UOp | None, constant: int) -> None:
        """Use the solved equation left + constant == right, each side one node or 0."""
        if left is None or right is None:
            return
        if left is right and constant == 0:
            self.same_value(left)
        else:
            self.split_clamped({left: 1}, {right: 1}, constant)

    def same_value(self, node: UOp) -> None:
        """Record that a node has the same value on both sides, and what follows for its sources."""
        self.equal.add(node)
        if node.op is Ops.RANGE:
            self.same |= 1 << node.arg.axis
        elif node.op in (Ops.IDIV, Ops.MOD):
            self.halves.append(node)
        elif node.op in (Ops.CAST, Ops.MIN):
            self.inside(node)

    def joined(self) -> bool:
        """Find nodes whose quotient and remainder are both the same by now. Returns whether there were new ones."""
        found = False
        for node in list(self.halves):
            whole, by = node.src
            if not by.ranges and all(self.is_same(half(whole, by)) for half in (ix.idiv, ix.mod)):
                self.halves.remove(node)
                if whole not in self.equal:
                    self.add(whole, whole, 0)
                    found = True
        return found

    def rejoin(self, left: Terms, right: Terms, constant: int) -> bool:
        """Replace a quotient on both sides, whose remainder is the same by now, by the dividend; scale the equation.

        The quotient may be one part of a larger one: (r * 32 + s) // 18 is r + (r * 14 + s) // 18. Returns whether
        there is such a quotient. The equation is left + constant == right.
        """
        for node in left.keys() & right.keys():
            whole, by = node.src if node.op is Ops.IDIV else (node, None)
            if by is not None and by.op is Ops.CONST and left[node] == right[node] and self.is_same(ix.mod(whole, by)):
                a, b = (self._times(terms, node, whole, by.arg) for terms in (left, right))
                self.todo.append(Equation(a, b, constant * by.arg))
                return True
        return False

    @staticmethod
    def _times(terms: Terms, quotient: UOp, whole: UOp, by: int) -> Terms:
        """Return the terms times `by`, with `whole` for `quotient` times `by`.

        The remainder and the constant of `whole` are omitted, as they are on both sides.
        """
        found = {node: factor * by for node, factor in terms.items() if node is not quotient}
        for node, factor in terms_of(whole)[0].items():
            found[node] = found.get(node, 0) + factor * terms[quotient]
        return {node: factor for node, factor in found.items() if factor}

    def is_same(self, node: UOp) -> bool:
        """Return whether a node is known to have the same value on both sides."""
        if node in self.equal or not node.ranges & ~self.same:
            return True
        ends = [self.ends(node, limit) for limit in (self.left, self.right)]
        return ends[0] == ends[1] and ends[0][0] == ends[0][1]

    def ends(self, node: UOp, limit: Limits) -> tuple[int, int]:
        """Return the least and greatest value of a node where a gate is open."""
        if node in limit:
            return limit[node]
        if node.op is Ops.IDIV and node.src[1].op is Ops.CONST and node.src[0].lo >= 0 and node.src[1].arg > 0:
            low, high = self.ends(node.src[0], limit)
            return low // node.src[1].arg, high // node.src[1].arg
        terms, constant = terms_of(node)
        if node in terms:
            return node.lo, node.hi
        low = high = constant
        for term, factor in terms.items():
            both = [factor * end for end in self.ends(term, limit)]
            low, high = low + min(both), high + max(both)
        return low, high

    def inside(self, node: UOp) -> None:
        """Use that a CAST or MIN is the same on both sides: so is the source of a cast, or the block of a clamp."""
        source = node.src[0]
        if node.op is Ops.MIN:
            self.split_clamped({node: 1}, {node: 1}, 0)
        elif source.dtype is dtypes.index:
            self.add(source, source, 0)  # other integers wrap, and are no sums of terms

    def split_clamped(self, left: Terms, right: Terms, constant: int) -> bool:
        """Split two sums by whole blocks where one of them is a clamped index, min(index, last).

        Returns whether there are such blocks; False where neither is clamped. The equation is left + constant == right.
        """
        a, b = chain(left, constant), chain(right, 0)
        if Ops.MIN not in (a.op, b.op):
            return False
        sums = [x.src[0] if x.op is Ops.MIN else x for x in (a, b)]
        for block in sorted({abs(f) for x in sums for f in terms_of(x)[0].values()} - {1}, reverse=True):
            first, second = self.in_blocks(a, block, self.left), self.in_blocks(b, block, self.right)
            if first is not None and second is not None:
                self.add(first, second, 0)
                return True
        return False

    def in_blocks(self, x: UOp, block: int, limit: Limits) -> UOp | None:
        """Return x // block, where clamping `x` does not change that; else None."""
        if x.op is Ops.MIN and x.src[1].op is Ops.CONST:
            quotient = ix.idiv(x.src[0], block)
            return quotient if self.ends(quotient, limit)[1] <= x.src[1].arg // block else None
        return ix.idiv(x, block)


def _is_one(node: UOp, limit: Limits) -> bool:
    """Return whether a node has one value only where a gate is open."""
    low, high = limit.get(node) or (node.lo, node.hi)
    return low == high and not _may_be_empty(node)


def _may_be_empty(node: UOp) -> bool:
    """Return whether a node counts a loop of symbolic size, which may have no iteration: then it has no value."""
    return node.op is Ops.RANGE and node.src[0].op is not Ops.CONST


def _past_the_end(left: Terms, right: Terms, constant: int) -> bool:
    """Return whether left + constant == right only past the end of a loop of symbolic size: counter == size."""
    if len(left) != 1 or len(right) != 1 or {*left.values(), *right.values()} != {1}:
        return False
    (a,), (b,) = left, right
    return (a.op is Ops.RANGE and a.src[0] is b and constant <= 0) or (
        b.op is Ops.RANGE and b.src[0] is a and constant >= 0
    )


def _ends(terms: Terms, limit: Limits) -> tuple[int, int]:
    """Return the least and greatest value of a sum where a gate is open.

    Two sums that a gate compares with numbers may have terms in common, and only one of them can replace these: each
    is tried first, and the bounds of all attempts hold.

    >>> r, s, t = UOp.range(9, 0), UOp.range(3, 1), UOp.range(2, 2)
    >>> whole = r * 6 + s * 2 + t
    >>> _ends(terms_of(whole)[0], limits(ix.lt(r * 3 + s, 26) & ix.lt(whole, 51)))
    (0, 50)
    """
    sums = [total for total in limit if total.op is Ops.ADD]
    low, high = -math.inf, math.inf
    for first in range(max(1, len(sums))):
        here = there = 0
        for node, factor in _joined(terms, [*sums[first:], *sums[:first]]):
            ends = limit.get(node) or (node.lo, node.hi)
            a, b = factor * ends[0], factor * ends[1]
            here, there = here + min(a, b), there + max(a, b)
        low, high = max(low, here), min(high, there)
    return int(low), int(high)


def _joined(terms: Terms, sums: Iterable[UOp]) -> Iterator[tuple[UOp, int]]:
    """Yield terms with their factors; the terms of a sum in `sums`, which a gate bounds, as that sum."""
    remaining = dict(terms)
    for total in sums:
        mine, constant = terms_of(total)
        first = next(iter(mine))
        times = remaining.get(first, 0) // mine[first]
        if times and not constant and all(remaining.get(n) == times * f for n, f in mine.items()):
            for node in mine:
                del remaining[node]
            yield total, times
    yield from remaining.items()


def _divided(terms: Terms, by: int) -> Terms:
    """Return the terms with every factor divided by `by`, rounded down."""
    return {node: factor // by for node, factor in terms.items()}


def _sizes(nodes: Iterable[UOp]) -> list[UOp]:
    """Return the products of variables that terms have as factors, those of more factors first."""
    found: dict[UOp, int] = {}
    for node in nodes:
        fixed = [f for f in factors_of(node) if not f.ranges and f.lo is not None]
        if fixed and len(fixed) < len(factors_of(node)):
            found[product(fixed)] = len(fixed)
    return sorted(found, key=lambda node: -found[node])


def _by_size(terms: Terms, stride: UOp) -> tuple[Terms, Terms]:
    """Return the terms that are multiples of `stride`, divided by it, and the others."""
    wanted = factors_of(stride)
    big: Terms = {}
    others: Terms = {}
    for node, factor in terms.items():
        factors = factors_of(node)
        if all(f in factors for f in wanted):
            for f in wanted:
                factors.remove(f)
            big[product(factors) if factors else const(1)] = factor
        else:
            others[node] = factor
    return big, others
