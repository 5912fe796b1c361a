"""The simplifying index constructors: random expressions agree with plain Python, and the forms they promise."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, AxisKind, Ops, ParamArg, ReduceArg
from tinygraft.uop.uop import UOp, substitute, toposort


def evaluate(root: UOp, values: dict[UOp, int]) -> Any:
    """The value of an index or bool node where its RANGEs and VARIABLEs have the given values."""
    done: dict[UOp, Any] = dict(values)
    for u in toposort(root, enter=lambda n: n not in values):
        if u not in done:
            meaning: Any = FACTS[u.op].python
            done[u] = u.arg if u.op is Ops.CONST else meaning(*(done[s] for s in u.src))
    return done[root]


def leaves(rng: random.Random) -> tuple[list[UOp], list[UOp]]:
    """Two variables and four ranges, two of them of symbolic size."""
    n, m = UOp.variable("n", 1, rng.choice((3, 7))), UOp.variable("m", 1, rng.choice((2, 6)))
    sizes = [rng.choice((1, 2, 3, 4, 6, 7)), rng.choice((2, 4, 5, 12)), n, rng.choice((n, m, ix.add(m, 1)))]
    return [n, m], [UOp.range(size, axis) for axis, size in enumerate(sizes)]


def draw(rng: random.Random, variables: list[UOp], ranges: list[UOp]) -> dict[UOp, int]:
    """Values of the leaves, each range below its size."""
    values = {v: rng.randint(v.lo, v.hi) for v in variables}
    for r in ranges:
        values[r] = rng.randrange(evaluate(r.src[0], values))
    return values


def number(rng: random.Random, depth: int, variables: list[UOp], ranges: list[UOp]) -> tuple[UOp, UOp]:
    """A random integer expression, written plainly and built by the constructors."""
    kind = rng.choice(
        (
            "add",
            "add",
            "add",
            "mul",
            "mul",
            "idiv",
            "mod",
            "idiv",
            "mod",
            "sub",
            "pick",
            "min",
            "max",
            "symbol",
            "times",
        )
    )
    if depth == 0 or rng.random() < 0.1:
        leaf = rng.choice((*ranges, *ranges, *variables, UOp.const(dtypes.index, rng.randint(-9, 9))))
        return leaf, leaf
    a, x = number(rng, depth - 1, variables, ranges)
    if kind in ("mul", "idiv", "mod") or (kind == "add" and rng.random() < 0.3):
        k = rng.choice((2, 3, 4, 6, 8, 12)) if kind != "mul" else rng.choice((-4, -1, 0, 2, 3, 4, 6, 12))
        b = y = UOp.const(dtypes.index, k)
        if rng.random() < 0.25 and kind != "add":
            b = y = rng.choice(variables)
            if rng.random() < 0.4:
                b, y = b * 2, ix.mul(y, 2)
        if kind == "mul":
            return a * b, ix.mul(x, y)
        if kind == "idiv":
            return a // b, ix.idiv(x, y)
        if kind == "mod":
            return a % b, ix.mod(x, y)
        return a + b, ix.add(x, y)
    if kind == "symbol":
        r = rng.choice(ranges)
        return a * r.src[0] + r, ix.add(ix.mul(x, r.src[0]), r)
    b, y = number(rng, depth - 1, variables, ranges)
    if kind == "add":
        return a + b, ix.add(x, y)
    if kind == "times":
        r = rng.choice(ranges)
        return (a - b) * r, ix.mul(ix.sub(x, y), r)
    if kind == "sub":
        return a - b, ix.sub(x, y)
    if kind == "min":
        return a.minimum(b), ix.minimum(x, y)
    if kind == "max":
        return a.maximum(b), ix.maximum(x, y)
    c, z = truth(rng, depth - 1, variables, ranges)
    return c.where(a, b), ix.where(z, x, y)


def truth(rng: random.Random, depth: int, variables: list[UOp], ranges: list[UOp]) -> tuple[UOp, UOp]:
    """A random condition, written plainly and built by the constructors."""
    kind = rng.choice(("lt", "ge", "eq", "lt", "and", "or", "not")) if depth > 0 else rng.choice(("lt", "ge", "eq"))
    if kind in ("lt", "ge", "eq"):
        a, x = number(rng, depth, variables, ranges)
        if rng.random() < 0.6:
            b = y = UOp.const(dtypes.index, rng.randint(-5, 12)) if rng.random() < 0.7 else rng.choice(variables)
        else:
            b, y = number(rng, min(depth, 1), variables, ranges)
        return {"lt": (a < b, ix.lt(x, y)), "ge": (a >= b, ix.ge(x, y)), "eq": (a.eq(b), ix.eq(x, y))}[kind]
    a, x = truth(rng, depth - 1, variables, ranges)
    if kind == "not":
        return ~a, ix.not_(x)
    b, y = truth(rng, depth - 1, variables, ranges)
    return (a & b, ix.and_(x, y)) if kind == "and" else (a | b, ix.or_(x, y))


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_keep_their_value(seed: int) -> None:
    """What the constructors build equals the plain expression at random points, and lies within its bounds."""
    rng = random.Random(seed)
    for _ in range(400):
        variables, ranges = leaves(rng)
        make = number if rng.random() < 0.7 else truth
        plain, built = make(rng, rng.randint(1, 4), variables, ranges)
        again = ix.simplify(plain)
        for _ in range(6):
            values = draw(rng, variables, ranges)
            expected = evaluate(plain, values)
            for x in (built, again):
                found = evaluate(x, values)
                assert found == expected, (plain, x, values)
                assert x.lo <= found <= x.hi, (x, values)
            assert plain.lo <= expected <= plain.hi, (plain, values)


@pytest.mark.parametrize("seed", range(4))
def test_division_by_a_constant_has_a_left_side_that_is_not_negative(seed: int) -> None:
    """In what the constructors build, IDIV and MOD by a constant divide non-negative numbers, as renderers expect."""
    rng = random.Random(100 + seed)
    seen = 0
    for _ in range(200):
        variables, ranges = leaves(rng)
        _, built = number(rng, 4, variables, ranges)
        for u in toposort(built):
            if u.op in (Ops.IDIV, Ops.MOD) and u.src[1].op is Ops.CONST and u.src[1].arg > 0:
                assert u.src[0].lo >= 0, u
                seen += 1
    assert seen > 20


def test_sums_are_canonical() -> None:
    """The order in which terms are added does not matter, equal terms are one, constants come last."""
    n, i, j = UOp.variable("n", 1, 9), UOp.range(4, 0), UOp.range(5, 1)
    x = ix.add(ix.add(ix.mul(j, 2), ix.add(i, 3)), ix.add(n, ix.mul(i, 4)))
    assert x is ix.add(n, ix.add(3, ix.add(ix.mul(i, 5), ix.add(j, j))))
    assert x is ((n + i * 5) + j * 2) + 3
    assert ix.sub(x, x) is ix.const(0)
    assert ix.mul(ix.add(i, 3), 4) is i * 4 + 12


def test_a_flat_index_takes_apart_and_joins_again() -> None:
    """Quotients and remainders of a flat index give its ranges back, and those of one range join to it again."""
    a, b, c = UOp.range(5, 0), UOp.range(7, 1), UOp.range(11, 2)
    flat = ix.add(ix.mul(ix.add(ix.mul(a, 7), b), 11), c)
    assert ix.idiv(flat, 77) is a
    assert ix.mod(ix.idiv(flat, 11), 7) is b
    assert ix.mod(flat, 11) is c
    r = UOp.range(385, 3)
    parts = ix.idiv(r, 77), ix.mod(ix.idiv(r, 11), 7), ix.mod(r, 11)
    assert ix.add(ix.add(ix.mul(parts[0], 77), ix.mul(parts[1], 11)), parts[2]) is r
    assert ix.add(ix.mul(parts[1], 11), parts[2]) is ix.mod(r, 77)


def test_a_symbolic_flat_index_takes_apart() -> None:
    """The same with sizes that are variables, products and sums of them."""
    n, m = UOp.variable("n", 1, 100), UOp.variable("m", 1, 100)
    for size in (m, ix.mul(m, 2), ix.add(m, 1), ix.mul(n, m)):
        i, j = UOp.range(n, 0), UOp.range(size, 1)
        flat = ix.add(ix.mul(i, size), j)
        assert ix.idiv(flat, size) is i
        assert ix.mod(flat, size) is j
        assert ix.lt(flat, ix.mul(n, size)) is ix.truth(True)
        assert ix.ge(flat, 0) is ix.truth(True)
        assert ix.lt(j, size) is ix.truth(True)
        assert ix.lt(ix.sub(ix.sub(size, 1), j), 0) is ix.truth(False)
        back = ix.idiv(ix.sub(ix.mul(ix.add(i, 20_000), size), j), size)  # -j alone is negative
        assert all(u.src[0].lo >= 0 for u in toposort(back) if u.op is Ops.IDIV)


def test_a_divisor_that_may_be_zero_is_left_alone() -> None:
    """Division by zero is 0, so nothing cancels unless the divisor is positive."""
    n, i = UOp.variable("n", 0, 4), UOp.range(3, 0)
    x = ix.idiv(ix.mul(i, n), n)
    assert x.op is Ops.IDIV
    assert evaluate(x, {n: 0, i: 2}) == 0
    assert ix.idiv(7, 0) is ix.mod(7, 0) is ix.const(0)
    assert ix.idiv(7, -2) is ix.const(-4)
    assert ix.mod(7, -2) is ix.const(-1)


def test_nested_divisions_are_one() -> None:
    """x//a//b is x//(a*b), x%(a*b)%a is x%a and x%(a*b)//a is x//a%b."""
    r = UOp.range(1000, 0)
    assert ix.idiv(ix.idiv(r, 6), 5) is ix.idiv(r, 30)
    assert ix.mod(ix.mod(r, 30), 6) is ix.mod(r, 6)
    assert ix.idiv(ix.mod(r, 30), 6) is ix.mod(ix.idiv(r, 6), 5)
    assert ix.idiv(ix.add(ix.mul(r, 4), 2), 6) is ix.idiv(ix.add(ix.mul(r, 2), 1), 3)
    assert ix.mod(ix.add(ix.mul(r, 4), 3), 6) is ix.add(ix.mul(ix.mod(ix.add(ix.mul(r, 2), 1), 3), 2), 1)


def test_comparisons_lose_what_does_not_matter() -> None:
    """Bounds decide, constants move right, common factors and what lies between their multiples go away."""
    i, j = UOp.range(9, 0), UOp.range(4, 1)
    assert ix.lt(i, 9) is ix.ge(i, 0) is ix.truth(True)
    assert ix.lt(i, 0) is ix.eq(i, 9) is ix.truth(False)
    assert ix.lt(ix.add(i, 2), 5) is ix.lt(i, 3)
    assert ix.lt(ix.add(ix.mul(i, 4), j), 16) is ix.lt(i, 4)
    assert ix.lt(ix.sub(3, i), 0) is ix.ge(i, 4)
    assert ix.lt(ix.idiv(i, 3), 2) is ix.lt(i, 6)
    assert ix.eq(ix.mul(i, 4), 6) is ix.truth(False)
    assert ix.eq(ix.mul(i, 4), 8) is ix.eq(i, 2)
    assert ix.lt(ix.add(i, j), ix.add(j, 3)) is ix.lt(i, 3)


def test_clauses_are_kept_once() -> None:
    """A clause that another one implies is dropped; contradictions are False and tautologies True."""
    i, j = UOp.range(9, 0), UOp.range(9, 1)
    a, b = ix.lt(i, 5), ix.lt(j, 5)
    assert ix.and_(a, ix.and_(b, a)) is ix.and_(b, a) is ix.and_(a, b)
    assert ix.and_(a, ix.lt(i, 3)) is ix.lt(i, 3)
    assert ix.or_(a, ix.lt(i, 3)) is a
    assert ix.and_(a, ix.ge(i, 5)) is ix.and_(a, ix.ge(i, 7)) is ix.truth(False)
    assert ix.or_(a, ix.ge(i, 5)) is ix.or_(a, ix.ge(i, 2)) is ix.truth(True)
    five = ix.eq(i, 5)
    assert ix.and_(five, ix.ge(i, 5)) is ix.and_(five, ix.lt(i, 6)) is five
    assert ix.and_(five, a) is ix.truth(False)
    assert ix.or_(five, a).op is Ops.OR
    assert ix.not_(ix.not_(a)) is a
    assert ix.not_(ix.eq(i, 3)).op is Ops.CMPNE
    assert ix.not_(ix.not_(ix.eq(i, 3))) is ix.eq(i, 3)
    assert ix.valid(ix.lt(i, 9)) is None
    assert ix.valid(a) is a


def test_choices_with_a_known_condition_are_made() -> None:
    """where, minimum and maximum give one side when bounds or equal conditions decide."""
    i = UOp.range(9, 0)
    c = ix.lt(i, 5)
    assert ix.where(ix.lt(i, 9), i, 3) is i
    assert ix.where(ix.lt(i, 0), i, 3) is ix.const(3)
    assert ix.where(c, i, i) is i
    assert ix.where(ix.not_(c), 1, i) is ix.where(c, i, 1)
    assert ix.where(c, ix.where(c, 1, 2), 3) is ix.where(c, 1, 3)
    assert ix.where(c, 1, ix.where(c, 2, 3)) is ix.where(c, 1, 3)
    assert ix.where(c, ix.truth(True), ix.truth(False)) is c
    assert ix.minimum(i, 8) is i
    assert ix.maximum(ix.add(i, 1), i) is ix.add(i, 1)
    assert ix.minimum(4, i) is ix.minimum(i, 4)


def test_rebuilding_simplifies_indices_gates_and_reductions() -> None:
    """A range replaced by outer * 4 + inner: addresses simplify, a gate that became true is dropped, one that never
    opens makes the load 0, and the reduction runs over both new ranges."""
    memory = UOp(Ops.PARAM, dtypes.float, (), ParamArg(0, 12))
    i, outer, inner = UOp.range(16, 0), UOp.range(3, 0), UOp.range(4, 1)
    gate = ix.lt(i, 12)
    load = UOp(Ops.LOAD, dtypes.float, (memory, ix.mul(ix.idiv(i, 4), 4), gate))
    closed = UOp(Ops.LOAD, dtypes.float, (memory, i, ix.ge(i, 12)))
    total = UOp(Ops.REDUCE, dtypes.float, (load + closed, i), ReduceArg(Ops.ADD))
    new = ix.rebuild_simplified((total,), {i: ix.add(ix.mul(outer, 4), inner)})
    assert new[gate] is ix.truth(True)
    assert new[load] is UOp(Ops.LOAD, dtypes.float, (memory, ix.mul(outer, 4)))
    assert new[closed] is UOp.const(dtypes.float, 0)
    assert new[total].src == (new[load] + new[closed], outer, inner)
    store = UOp(Ops.STORE, dtypes.void, (memory, i, load, gate))
    assert len(ix.rebuild_simplified((store,), {i: inner})[store].src) == 3
    assert len(ix.rebuild_simplified((store,), {i: UOp.range(14, 0)})[store].src) == 4
    assert ix.rebuild_simplified((total,), {i: ix.const(0)})[total] is UOp(
        Ops.LOAD, dtypes.float, (memory, ix.const(0))
    ) + UOp.const(dtypes.float, 0)


def test_rebuilding_leaves_other_arithmetic_alone() -> None:
    """Nodes of other dtypes are only given their new sources: x + 0 of floats stays."""
    x = UOp(Ops.PARAM, dtypes.int32, (), ParamArg(0, 4))
    i, k = UOp.range(4, 0), UOp.range(4, 2, AxisKind.VECTOR)
    load = UOp(Ops.LOAD, dtypes.int32, (x, i))
    plain = (load * 1 + 0) < load
    new = ix.rebuild_simplified((plain,), {i: k})[plain]
    assert new is substitute(plain, {i: k})


def test_a_remainder_of_a_loaded_place_never_divides_below_zero() -> None:
    """Where a place has no known bounds, (4 - x % 5) % 5 keeps its inner remainder: kernels divide as C does."""
    memory = UOp(Ops.PARAM, dtypes.long, (), ParamArg(0, 20))
    place = UOp(Ops.LOAD, dtypes.long, (memory, ix.const(0))).cast(dtypes.index)
    flipped = ix.add(ix.mul(ix.idiv(place, 5), 5), ix.sub(4, ix.mod(place, 5)))
    assert ix.mod(flipped, 5) is ix.sub(4, ix.mod(place, 5))
    known = UOp.range(20, 0)
    flipped = ix.add(ix.mul(ix.idiv(known, 5), 5), ix.sub(4, ix.mod(known, 5)))
    assert ix.mod(flipped, 5).src[0].lo >= 0
