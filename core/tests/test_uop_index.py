"""The simplifying index constructors: random expressions agree with plain Python, and the forms they promise."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, AxisKind, Ops, ParamArg
from tinygraft.uop.uop import UOp, substitute, toposort


def evaluate(root: UOp, values: dict[UOp, int]) -> Any:
    """The value of an index or bool node where its RANGEs and VARIABLEs have the given values."""
    done: dict[UOp, Any] = dict(values)
    for u in toposort(root, enter=lambda n: n not in values):
        if u not in done:
            meaning = FACTS[u.op].python
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
    kind = rng.choice(("add", "add", "add", "mul", "mul", "idiv", "mod", "idiv", "mod", "sub", "pick", "min", "max", "symbol"))
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
            b = y = UOp.const(dtypes.index, rng.randint(-5, 12))
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
