"""Arithmetic of complex numbers on their parts: what each op of the graph means for pairs of real tensors.

A ComplexPair is two real tensors that broadcast together; its imaginary part is None where all of it is zero, as for a
real operand, so that nothing is multiplied by zeros (and an infinity stays one). RULES gives a pair, or a tensor of
bools, for each op that complex numbers have; functions of one number and powers are added in complex_derivatives.py,
and what is in neither, such as an order, is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tinygraft.uop.ops import Ops


class ComplexPair(NamedTuple):
    """The real and the imaginary parts; imaginary is None for real numbers."""

    real: Any
    imaginary: Any = None


def full(z: ComplexPair) -> ComplexPair:
    """Return the pair with zeros for an imaginary part of None."""
    return z if z.imaginary is not None else ComplexPair(z.real, z.real._const(0.0, z.real.dtype))


def add(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """Return a + b."""
    if a.imaginary is None or b.imaginary is None:
        return ComplexPair(a.real + b.real, b.imaginary if a.imaginary is None else a.imaginary)
    return ComplexPair(a.real + b.real, a.imaginary + b.imaginary)


def neg(a: ComplexPair) -> ComplexPair:
    """Return -a."""
    return ComplexPair(-a.real, None if a.imaginary is None else -a.imaginary)


def sub(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """Return a - b."""
    if a.imaginary is None or b.imaginary is None:
        return ComplexPair(a.real - b.real, a.imaginary if b.imaginary is None else -b.imaginary)
    return ComplexPair(a.real - b.real, a.imaginary - b.imaginary)


def scaled(a: ComplexPair, by: Any) -> ComplexPair:
    """Return a times a real tensor or number."""
    return ComplexPair(a.real * by, None if a.imaginary is None else a.imaginary * by)


def mul(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """Return a * b, by four real products, or two where one of them is real."""
    if b.imaginary is None:
        return scaled(a, b.real)
    if a.imaginary is None:
        return scaled(b, a.real)
    real = a.real * b.real - a.imaginary * b.imaginary
    return ComplexPair(real, a.real * b.imaginary + a.imaginary * b.real)


def div(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """a / b by the method of R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (1962): the
    smaller part of b is divided by the larger, so that no square overflows.
    """
    if b.imaginary is None:
        return ComplexPair(a.real / b.real, None if a.imaginary is None else a.imaginary / b.real)
    wide = b.real.abs() >= b.imaginary.abs()
    large, small = wide.where(b.real, b.imaginary), wide.where(b.imaginary, b.real)
    # both parts 0: no division, so that the quotient has the infinities and NaN of a division by 0
    share = (large == 0).where(small, small / (large == 0).where(1.0, large))
    whole = large + small * share
    if a.imaginary is None:
        first, second = wide.where(a.real, a.real * share), wide.where(-a.real * share, -a.real)
    else:
        first = wide.where(a.real + a.imaginary * share, a.real * share + a.imaginary)
        second = wide.where(a.imaginary - a.real * share, a.imaginary * share - a.real)
    return ComplexPair(first / whole, second / whole)


def reciprocal(a: ComplexPair) -> ComplexPair:
    """Return 1 / a."""
    return div(ComplexPair(a.real._const(1.0, a.real.dtype)), a)


def is_zero(a: ComplexPair) -> Any:
    """Return bools: where both parts are 0."""
    return a.real == 0 if a.imaginary is None else (a.real == 0) & (a.imaginary == 0)


def equal(a: ComplexPair, b: ComplexPair) -> Any:
    """Return bools: whether both parts are equal."""
    a, b = full(a), full(b)
    return (a.real == b.real) & (a.imaginary == b.imaginary)


def unequal(a: ComplexPair, b: ComplexPair) -> Any:
    """Return bools: whether a part differs."""
    a, b = full(a), full(b)
    return (a.real != b.real) | (a.imaginary != b.imaginary)


def choose(condition: Any, a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """Return `a` where the condition holds, else `b`."""
    a, b = full(a), full(b)
    return ComplexPair(condition.where(a.real, b.real), condition.where(a.imaginary, b.imaginary))


RULES: dict[Ops, Callable[..., Any]] = {
    Ops.ADD: add, Ops.SUB: sub, Ops.MUL: mul, Ops.FDIV: div, Ops.NEG: neg, Ops.RECIPROCAL: reciprocal,
    Ops.CMPEQ: equal, Ops.CMPNE: unequal, Ops.WHERE: choose, Ops.FMA: lambda a, b, c: add(mul(a, b), c),
}  # fmt: skip
