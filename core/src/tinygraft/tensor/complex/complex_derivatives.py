"""The derivatives of functions of one complex number, and those functions with them.

A pair of real tensors in, a pair out. On the axes, where real numbers are, and on branch cuts the formulas of
complex_functions.py choose between two sides, so it is not those that are differentiated. With f' for the derivative a
gradient g of the result makes the gradient g times the conjugate of f' of the operand; f' on a branch cut is that of
the side on which the function is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.tensor.complex import complex_functions as functions
from tinygraft.tensor.complex.complex_arithmetic import RULES as ARITHMETIC
from tinygraft.tensor.complex.complex_arithmetic import ComplexPair, add, full, is_zero, mul, neg, reciprocal, scaled
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

ComplexRule = Callable[[ComplexPair], ComplexPair]


def _of(name: str, factor: float = 1.0) -> ComplexRule:
    """A function that is the derivative of another one, times a factor. It has a derivative itself, the second one."""
    return lambda z: scaled(analytic(name)(z), factor)


def _one(z: ComplexPair) -> ComplexPair:
    """Return the pair 1 + 0i, in the shape of `z`."""
    return ComplexPair(z.real._const(1.0, z.real.dtype))


def _over(z: ComplexPair, factor: float = 1.0) -> ComplexPair:
    """Return factor / z."""
    return scaled(reciprocal(z), factor)


def _one_and_square(z: ComplexPair, sign: float) -> ComplexPair:
    """Return 1 + sign * z * z."""
    return add(_one(z), scaled(mul(z, z), sign))


def _over_roots(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """Return 1 / (sqrt(a) * sqrt(b))."""
    return _over(mul(analytic("sqrt")(a), analytic("sqrt")(b)))


def _of_asin(z: ComplexPair) -> ComplexPair:
    """Return 1 / sqrt(1 - z * z), by its two roots."""
    return _over_roots(ComplexPair(1.0 - z.real, -z.imaginary), ComplexPair(z.real + 1.0, z.imaginary))


def _of_sigmoid(z: ComplexPair) -> ComplexPair:
    """Return sigmoid(z) * (1 - sigmoid(z))."""
    share = analytic("sigmoid")(z)
    return mul(share, ComplexPair(1.0 - share.real, -share.imaginary))


DERIVATIVES: dict[str, ComplexRule] = {
    "exp": _of("exp"), "expm1": _of("exp"), "exp2": _of("exp2", math.log(2)),
    "log": _over, "log1p": lambda z: _over(add(z, _one(z))), "log2": lambda z: _over(z, 1 / math.log(2)),
    "log10": lambda z: _over(z, 1 / math.log(10)), "sqrt": lambda z: _over(analytic("sqrt")(z), 0.5),
    "sin": _of("cos"), "cos": _of("sin", -1.0), "sinh": _of("cosh"), "cosh": _of("sinh"), "sigmoid": _of_sigmoid,
    "tan": lambda z: _one_and_square(analytic("tan")(z), 1.0),
    "tanh": lambda z: _one_and_square(analytic("tanh")(z), -1.0),
    "asin": _of_asin, "acos": lambda z: neg(_of_asin(z)), "atan": lambda z: _over(_one_and_square(z, 1.0)),
    "asinh": lambda z: _of_asin(ComplexPair(-z.imaginary, z.real)),
    "acosh": lambda z: _over_roots(ComplexPair(z.real - 1.0, z.imaginary), ComplexPair(z.real + 1.0, z.imaginary)),
    "atanh": lambda z: _over(_one_and_square(z, -1.0)),
}  # fmt: skip


def analytic(name: str) -> ComplexRule:
    """Return the function of that name on pairs, with its derivative.

    Raises AttributeError or KeyError for another name.
    """
    function, derivative = getattr(functions, name), DERIVATIVES[name]

    def of_real_part(node: UOp, gradient: Any, wanted: list[bool]) -> Sequence[Any]:
        slope = full(derivative(ComplexPair(*(gradient._wrap(source) for source in node.src[1:]))))
        return gradient * slope.real, -gradient * slope.imaginary

    def of_imaginary_part(node: UOp, gradient: Any, wanted: list[bool]) -> Sequence[Any]:
        slope = full(derivative(ComplexPair(*(gradient._wrap(source) for source in node.src[1:]))))
        return gradient * slope.imaginary, gradient * slope.real

    def found(z: ComplexPair) -> ComplexPair:
        """Return both parts of the function at `z`, each a node of its own with its gradients."""
        whole = full(z)
        real, imaginary = function(whole)
        return ComplexPair(
            with_derivative(name, real, whole, of_real_part),
            with_derivative(name, imaginary, whole, of_imaginary_part),
        )

    return found


def power(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    """a ** b, the principal value exp(b * log(a)); 1 for the power 0. Powers of 0 are 0 on the right of the imaginary
    axis, infinite on the left of it (as 1 / 0 is) and NaN on it.
    """
    a, nothing = full(a), is_zero(a)
    base = ComplexPair(nothing.where(1.0, a.real), nothing.where(0.0, a.imaginary))
    found = analytic("exp")(full(mul(b, analytic("log")(base))))
    left = (b.real < 0).where(math.inf, found[0]._const(math.nan))
    real = is_zero(b).where(1.0, (b.real > 0).where(0.0, left))
    imaginary = (is_zero(b) | (b.real > 0)).where(0.0, found[1]._const(math.nan))
    return ComplexPair(nothing.where(real, found[0]), nothing.where(imaginary, found[1]))


RULES: dict[Ops, Callable[..., Any]] = {
    **ARITHMETIC, Ops.POW: power, Ops.SQRT: analytic("sqrt"), Ops.EXP2: analytic("exp2"), Ops.LOG2: analytic("log2"),
    **{op: analytic(op.name.lower()) for op in (
        Ops.SIN, Ops.COS, Ops.TAN, Ops.ASIN, Ops.ACOS, Ops.ATAN, Ops.EXP, Ops.EXPM1, Ops.LOG, Ops.LOG1P, Ops.TANH,
    )},
}  # fmt: skip
