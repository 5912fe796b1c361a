"""Functions of each element: one argument, two broadcast together, and clip.

A function of two takes a Python number on either side, which is weak: it has the dtype of the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

from tinygraft.tensor.tensor import Tensor

UnaryFunction = Callable[[Tensor], Tensor]
Two = Callable[[Any, Any], Tensor]


def _one(name: str, what: str, rule: UnaryFunction | None = None) -> UnaryFunction:
    """Return a function of one array: the method `name` of it, or `rule`. `what` is its docstring."""
    apply = rule or methodcaller(name)

    def function(x: Tensor, /) -> Tensor:
        return apply(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = what
    return function


def _kept(name: str, what: str) -> UnaryFunction:
    """Return a function of one array that leaves integers as they are: rounding."""
    method = methodcaller(name)
    return _one(name, what, lambda x: method(x) if x.dtype.kind in ("float", "complex") else x.clone())


def _two(name: str, what: str, rule: Two) -> Two:
    """Return a function of two arrays, or of one and a number. `what` is its docstring."""

    def function(x1: Any, x2: Any, /) -> Tensor:
        return rule(x1 if isinstance(x1, Tensor) else x2._const(x1), x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = what
    return function


abs: UnaryFunction = _one("abs", "The absolute value.")
acos: UnaryFunction = _one("acos", "The angle from 0 to pi whose cosine x is.")
acosh: UnaryFunction = _one("acosh", "The number from 0 on whose hyperbolic cosine x is.")
asin: UnaryFunction = _one("asin", "The angle from -pi/2 to pi/2 whose sine x is.")
asinh: UnaryFunction = _one("asinh", "The number whose hyperbolic sine x is.")
atan: UnaryFunction = _one("atan", "The angle from -pi/2 to pi/2 whose tangent x is.")
atanh: UnaryFunction = _one("atanh", "The number whose hyperbolic tangent x is.")
bitwise_invert: UnaryFunction = _one("bitwise_invert", "All bits inverted; not, for bools.", lambda x: x.bitwise_not())
ceil: UnaryFunction = _kept("ceil", "The least integer that is not less than x.")
conj: UnaryFunction = _one(
    "conj", "x with the imaginary part negated.", lambda x: x.conj() if x.is_complex() else x.clone()
)
cos: UnaryFunction = _one("cos", "The cosine of an angle.")
cosh: UnaryFunction = _one("cosh", "The hyperbolic cosine.")
exp: UnaryFunction = _one("exp", "e to the power of x.")
expm1: UnaryFunction = _one("expm1", "exp(x) - 1, without losing digits near 0.")
floor: UnaryFunction = _kept("floor", "The greatest integer that is not greater than x.")
imag: UnaryFunction = _one("imag", "The imaginary part, 0 of real numbers.", lambda x: x.imag)
isfinite: UnaryFunction = _one("isfinite", "Whether x is neither infinite nor NaN.")
isinf: UnaryFunction = _one("isinf", "Whether x is infinite.")
isnan: UnaryFunction = _one("isnan", "Whether x is NaN.")
log: UnaryFunction = _one("log", "The natural logarithm.")
log1p: UnaryFunction = _one("log1p", "log(1 + x), without losing digits near 0.")
log2: UnaryFunction = _one("log2", "The logarithm to base 2.")
log10: UnaryFunction = _one("log10", "The logarithm to base 10.")
logical_not: UnaryFunction = _one("logical_not", "not.")
negative: UnaryFunction = _one("negative", "-x.", lambda x: x.neg())
positive: UnaryFunction = _one("positive", "x.", lambda x: x.clone())
real: UnaryFunction = _one("real", "The real part.", lambda x: x.real.clone())
reciprocal: UnaryFunction = _one("reciprocal", "1 / x.")
round: UnaryFunction = _kept("round", "The nearest integer, of two the even one.")
sign: UnaryFunction = _one(
    "sign", "-1, 0 or 1 by the sign of x; NaN stays. Of a complex number x over its absolute value."
)
# of complex infinities that is NaN where a part is infinite, by the standard's rules of division: inf / inf is NaN
signbit: UnaryFunction = _one("signbit", "Whether the sign bit is set, as it is for -0.0.")
sin: UnaryFunction = _one("sin", "The sine of an angle.")
sinh: UnaryFunction = _one("sinh", "The hyperbolic sine.")
sqrt: UnaryFunction = _one("sqrt", "The square root.")
square: UnaryFunction = _one("square", "x times x.")
tan: UnaryFunction = _one("tan", "The tangent of an angle.")
tanh: UnaryFunction = _one("tanh", "The hyperbolic tangent.")
trunc: UnaryFunction = _kept("trunc", "x without its fraction.")

add: Two = _two("add", "x1 + x2.", lambda a, b: a + b)
atan2: Two = _two("atan2", "The angle from the first axis to the point (x2, x1).", lambda a, b: a.atan2(b))
bitwise_and: Two = _two("bitwise_and", "The bits in both.", lambda a, b: a & b)
bitwise_left_shift: Two = _two("bitwise_left_shift", "x1 shifted left by x2 bits.", lambda a, b: a << b)
bitwise_or: Two = _two("bitwise_or", "The bits in any.", lambda a, b: a | b)
bitwise_right_shift: Two = _two("bitwise_right_shift", "x1 shifted right by x2 bits.", lambda a, b: a >> b)
bitwise_xor: Two = _two("bitwise_xor", "The bits in one of both.", lambda a, b: a ^ b)
copysign: Two = _two("copysign", "The size of x1 with the sign of x2.", lambda a, b: a.copysign(b))
divide: Two = _two("divide", "x1 / x2.", lambda a, b: a / b)
equal: Two = _two("equal", "x1 == x2.", lambda a, b: a.eq(b))
floor_divide: Two = _two("floor_divide", "x1 // x2.", lambda a, b: a // b)
greater: Two = _two("greater", "x1 > x2.", lambda a, b: a > b)
greater_equal: Two = _two("greater_equal", "x1 >= x2.", lambda a, b: a >= b)
hypot: Two = _two(
    "hypot", "The root of x1 squared plus x2 squared, which does not overflow on the way.", lambda a, b: a.hypot(b)
)
less: Two = _two("less", "x1 < x2.", lambda a, b: a < b)
less_equal: Two = _two("less_equal", "x1 <= x2.", lambda a, b: a <= b)
logaddexp: Two = _two("logaddexp", "log(exp(x1) + exp(x2)).", lambda a, b: a.logaddexp(b))
logical_and: Two = _two("logical_and", "and.", lambda a, b: a.logical_and(b))
logical_or: Two = _two("logical_or", "or.", lambda a, b: a.logical_or(b))
logical_xor: Two = _two("logical_xor", "Whether one of both is true.", lambda a, b: a.logical_xor(b))
maximum: Two = _two("maximum", "The greater; NaN if either is.", lambda a, b: a.maximum(b))
minimum: Two = _two("minimum", "The less; NaN if either is.", lambda a, b: a.minimum(b))
multiply: Two = _two("multiply", "x1 * x2.", lambda a, b: a * b)
nextafter: Two = _two("nextafter", "The next number after x1 towards x2.", lambda a, b: a.nextafter(b))
not_equal: Two = _two("not_equal", "x1 != x2.", lambda a, b: a.ne(b))
pow: Two = _two("pow", "x1 to the power of x2.", lambda a, b: a**b)
remainder: Two = _two("remainder", "What floor_divide leaves, with the sign of x2.", lambda a, b: a % b)
subtract: Two = _two("subtract", "x1 - x2.", lambda a, b: a - b)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x, but no less than min and no greater than max, which are broadcast with it; NaN in any of them stays."""
    found = x
    if min is not None:
        found = found.maximum(min)
    if max is not None:
        found = found.minimum(max)
    return found.clone() if found is x else found.cast(x.dtype)
