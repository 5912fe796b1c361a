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
    """A function of one array: the method of that name, or a rule."""
    apply = rule or methodcaller(name)

    def function(x: Tensor, /) -> Tensor:
        return apply(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = what
    return function


def _kept(name: str, what: str) -> UnaryFunction:
    """A function that leaves integers as they are."""
    method = methodcaller(name)
    return _one(name, what, lambda x: method(x) if x.dtype.kind in ("float", "complex") else x.clone())


def _two(name: str, what: str, rule: Two) -> Two:
    """A function of two arrays, or of one and a number."""

    def function(x1: Any, x2: Any, /) -> Tensor:
        return rule(x1 if isinstance(x1, Tensor) else x2._const(x1), x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = what
    return function


abs = _one("abs", "The absolute value.")
acos = _one("acos", "The angle from 0 to pi whose cosine x is.")
acosh = _one("acosh", "The number from 0 on whose hyperbolic cosine x is.")
asin = _one("asin", "The angle from -pi/2 to pi/2 whose sine x is.")
asinh = _one("asinh", "The number whose hyperbolic sine x is.")
atan = _one("atan", "The angle from -pi/2 to pi/2 whose tangent x is.")
atanh = _one("atanh", "The number whose hyperbolic tangent x is.")
bitwise_invert = _one("bitwise_invert", "All bits inverted; not, for bools.", lambda x: x.bitwise_not())
ceil = _kept("ceil", "The least integer that is not less than x.")
conj = _one("conj", "x with the imaginary part negated.", lambda x: x.conj() if x.is_complex() else x.clone())
cos = _one("cos", "The cosine of an angle.")
cosh = _one("cosh", "The hyperbolic cosine.")
exp = _one("exp", "e to the power of x.")
expm1 = _one("expm1", "exp(x) - 1, without losing digits near 0.")
floor = _kept("floor", "The greatest integer that is not greater than x.")
imag = _one("imag", "The imaginary part, 0 of real numbers.", lambda x: x.imag)
isfinite = _one("isfinite", "Whether x is neither infinite nor NaN.")
isinf = _one("isinf", "Whether x is infinite.")
isnan = _one("isnan", "Whether x is NaN.")
log = _one("log", "The natural logarithm.")
log1p = _one("log1p", "log(1 + x), without losing digits near 0.")
log2 = _one("log2", "The logarithm to base 2.")
log10 = _one("log10", "The logarithm to base 10.")
logical_not = _one("logical_not", "not.")
negative = _one("negative", "-x.", lambda x: x.neg())
positive = _one("positive", "x.", lambda x: x.clone())
real = _one("real", "The real part.", lambda x: x.real.clone())
reciprocal = _one("reciprocal", "1 / x.")
round = _kept("round", "The nearest integer, of two the even one.")
sign = _one("sign", "-1, 0 or 1 by the sign of x; NaN stays. Of a complex number x over its absolute value.")
# of complex infinities that is NaN where a part is infinite, by the standard's rules of division: inf / inf is NaN
signbit = _one("signbit", "Whether the sign bit is set, as it is for -0.0.")
sin = _one("sin", "The sine of an angle.")
sinh = _one("sinh", "The hyperbolic sine.")
sqrt = _one("sqrt", "The square root.")
square = _one("square", "x times x.")
tan = _one("tan", "The tangent of an angle.")
tanh = _one("tanh", "The hyperbolic tangent.")
trunc = _kept("trunc", "x without its fraction.")

add = _two("add", "x1 + x2.", lambda a, b: a + b)
atan2 = _two("atan2", "The angle from the first axis to the point (x2, x1).", lambda a, b: a.atan2(b))
bitwise_and = _two("bitwise_and", "The bits in both.", lambda a, b: a & b)
bitwise_left_shift = _two("bitwise_left_shift", "x1 shifted left by x2 bits.", lambda a, b: a << b)
bitwise_or = _two("bitwise_or", "The bits in any.", lambda a, b: a | b)
bitwise_right_shift = _two("bitwise_right_shift", "x1 shifted right by x2 bits.", lambda a, b: a >> b)
bitwise_xor = _two("bitwise_xor", "The bits in one of both.", lambda a, b: a ^ b)
copysign = _two("copysign", "The size of x1 with the sign of x2.", lambda a, b: a.copysign(b))
divide = _two("divide", "x1 / x2.", lambda a, b: a / b)
equal = _two("equal", "x1 == x2.", lambda a, b: a.eq(b))
floor_divide = _two("floor_divide", "x1 // x2.", lambda a, b: a // b)
greater = _two("greater", "x1 > x2.", lambda a, b: a > b)
greater_equal = _two("greater_equal", "x1 >= x2.", lambda a, b: a >= b)
hypot = _two(
    "hypot", "The root of x1 squared plus x2 squared, which does not overflow on the way.", lambda a, b: a.hypot(b)
)
less = _two("less", "x1 < x2.", lambda a, b: a < b)
less_equal = _two("less_equal", "x1 <= x2.", lambda a, b: a <= b)
logaddexp = _two("logaddexp", "log(exp(x1) + exp(x2)).", lambda a, b: a.logaddexp(b))
logical_and = _two("logical_and", "and.", lambda a, b: a.logical_and(b))
logical_or = _two("logical_or", "or.", lambda a, b: a.logical_or(b))
logical_xor = _two("logical_xor", "Whether one of both is true.", lambda a, b: a.logical_xor(b))
maximum = _two("maximum", "The greater; NaN if either is.", lambda a, b: a.maximum(b))
minimum = _two("minimum", "The less; NaN if either is.", lambda a, b: a.minimum(b))
multiply = _two("multiply", "x1 * x2.", lambda a, b: a * b)
nextafter = _two("nextafter", "The next number after x1 towards x2.", lambda a, b: a.nextafter(b))
not_equal = _two("not_equal", "x1 != x2.", lambda a, b: a.ne(b))
pow = _two("pow", "x1 to the power of x2.", lambda a, b: a**b)
remainder = _two("remainder", "What floor_divide leaves, with the sign of x2.", lambda a, b: a % b)
subtract = _two("subtract", "x1 - x2.", lambda a, b: a - b)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x, but no less than min and no greater than max, which are broadcast with it; NaN in any of them stays."""
    found = x
    if min is not None:
        found = found.maximum(min)
    if max is not None:
        found = found.minimum(max)
    return found.clone() if found is x else found.cast(x.dtype)
