"""The elementwise ops on Python numbers, where `math` and `operator` have no function of exactly the same values.

Results are those before rounding to the dtype; FACTS of uop/ops.py refers to them. `outside` makes one from a function
of `math` that raises. The identities of reductions, by dtype, are here too: `zero`, `one`, `ones`, `lowest`, `highest`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from tinygraft.dtype import DType


def floor_divide(a: int, b: int) -> int:
    """a // b; by zero it gives 0."""
    return a // b if b else 0


def modulo(a: int, b: int) -> int:
    """a % b; by zero it gives 0."""
    return a % b if b else 0


def divide(a: float, b: float) -> float:
    """a / b as IEEE 754 defines it; by zero it gives an infinity or NaN."""
    if b != 0:
        return a / b
    if a != a or a == 0 or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


# Of two zeros MAX and MIN return the first here; a device may return either, so max(-0.0, 0.0) has no defined sign.
def maximum(a: Any, b: Any) -> Any:
    """The greater; NaN if either is."""
    return a if a != a or a >= b else b


def minimum(a: Any, b: Any) -> Any:
    """The less; NaN if either is."""
    return a if a != a or a <= b else b


def sqrt(a: float) -> float:
    """The square root; NaN below 0."""
    return math.sqrt(a) if a >= 0 else math.nan


def exp2(a: float) -> float:
    """2**a; inf past the greatest number."""
    try:
        return math.pow(2.0, a)
    except OverflowError:
        return math.inf


def log2(a: float) -> float:
    """log2(a): -inf at 0, NaN below."""
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def outside(function: Callable[[float], float], at: Callable[[float], float]) -> Callable[[float], float]:
    """Return a function of math that returns `at(a)` where `function(a)` raises: at poles, outside of its domain."""

    def found(a: float) -> float:
        """Return `function(a)`, or `at(a)` where that raises ValueError or OverflowError."""
        try:
            return function(a)
        except (ValueError, OverflowError):
            return at(a)

    return found


def nan(a: float) -> float:
    """NaN, whatever the operand: for `outside`."""
    return math.nan


def inf(a: float) -> float:
    """Infinity, whatever the operand: for `outside`."""
    return math.inf


def pole(at: float) -> Callable[[float], float]:
    """Return a function that is -inf at the pole `at`, NaN elsewhere: for `outside`."""
    return lambda a: -math.inf if a == at else math.nan


@cache
def _gamma_series() -> list[float]:
    """Return (-1)**k (zeta(k) - 1) / k from k = 2 on.

    The first terms of the sum of i**-k are added, those from n on are summed by the formula of Euler and Maclaurin.
    """
    n, found = 100.0, []
    for k in range(2, 60):
        tail = n ** (1 - k) / (k - 1) + n**-k / 2 + k / 12 * n ** (-k - 1) - k * (k + 1) * (k + 2) / 720 * n ** (-k - 3)
        found.append((-1) ** k / k * math.fsum([*(i**-k for i in range(2, 100)), tail]))
    return found


def lgamma(a: float) -> float:
    """log(|gamma(a)|), by a power series about 2 where math.lgamma loses some digits."""
    if not 0.0 < a < 16.0:
        return outside(math.lgamma, inf)(a)
    factor = 1.0
    while a > 2.5:
        a -= 1
        factor *= a
    e = a - 2 if a >= 1.25 else a - 1
    total = 0.0
    for c in reversed(_gamma_series()):
        total = (total + c) * e
    total = e * (0.4227843350984671 + total)  # 1 less Euler's constant
    return total + math.log(factor) if a >= 1.25 else total - (math.log(a) if a < 0.5 else math.log1p(e))


def tanh(a: float) -> float:
    """tanh(a) by 40 digits: that of the C library is off by up to 2 ulps."""
    if not 2.0**-27 < abs(a) < 20.0:
        return math.copysign(1.0, a) if abs(a) >= 20.0 else a
    import decimal  # takes 5 ms, and is used only here

    with decimal.localcontext(decimal.Context(prec=40)):
        power = (2 * decimal.Decimal(a)).exp()
        return float((power - 1) / (power + 1))


def fmod(a: float, b: float) -> float:
    """The exact remainder of division towards zero, with the sign of a, as in C."""
    return math.fmod(a, b) if math.isfinite(a) and b != 0 else math.nan


def trunc(a: float) -> float:
    """a without its fraction and with its sign."""
    return math.copysign(float(math.trunc(a)), a) if math.isfinite(a) else a


def power(a: Any, b: Any) -> Any:
    """a**b: of integers its last 64 bits, for b below 0 the whole part; of floats as IEEE 754 defines it."""
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            return a if a == 1 or (a == -1 and b % 2) else int(a == -1)
        return a**b if b <= 64 else pow(a, b, 1 << 64)  # 64 bits of it are enough for every dtype
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and abs(math.fmod(b, 2)) == 1 else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if abs(math.fmod(b, 2)) == 1 else math.inf
        return math.nan


def shift_left(a: int, b: int) -> int:
    """a << b; 0 for an amount of 64 or more."""
    return a << b if 0 <= b < 64 else 0


def shift_right(a: int, b: int) -> int:
    """a >> b; for an amount of 64 or more 0, or -1 for a negative number."""
    return a >> b if 0 <= b < 64 else -(a < 0)


def _rotl(a: int, n: int) -> int:
    """Return the 32 bits of `a` rotated left by `n`, from 0 to 32."""
    return ((a << n) | (a >> (32 - n))) & 0xFFFFFFFF


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY = 0x1BD11BDA


def threefry2x32(counter: int, key: int) -> int:
    """64 random bits from a 64-bit counter and key, low word first: Threefry 2x32 with 20 rounds.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    x0, x1 = counter & 0xFFFFFFFF, counter >> 32
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    keys = (k1, k0 ^ k1 ^ THREEFRY_PARITY, k0)
    x0, x1 = (x0 + keys[2]) & 0xFFFFFFFF, (x1 + keys[0]) & 0xFFFFFFFF
    for i in range(5):
        for rotation in THREEFRY_ROTATIONS[i % 2]:
            x0 = (x0 + x1) & 0xFFFFFFFF
            x1 = x0 ^ _rotl(x1, rotation)
        x0 = (x0 + keys[i % 3]) & 0xFFFFFFFF
        x1 = (x1 + keys[(i + 1) % 3] + i + 1) & 0xFFFFFFFF
    return (x1 << 32) | x0


def lowest(dtype: DType) -> Any:
    """The identity of a maximum."""
    if dtype.kind == "float":
        return -math.inf
    return False if dtype.kind == "bool" else 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))


def highest(dtype: DType) -> Any:
    """The identity of a minimum."""
    if dtype.kind == "float":
        return math.inf
    return True if dtype.kind == "bool" else 2 ** (dtype.bits - (dtype.kind == "int")) - 1


def one(dtype: DType) -> Any:
    """The identity of a product."""
    return True if dtype.kind == "bool" else 1.0 if dtype.kind == "float" else 1


def zero(dtype: DType) -> Any:
    """The identity of a sum."""
    return False if dtype.kind == "bool" else 0.0 if dtype.kind == "float" else 0


def ones(dtype: DType) -> Any:
    """All bits set, the identity of AND."""
    return True if dtype.kind == "bool" else -1 if dtype.kind == "int" else 2**dtype.bits - 1


def same(a: Any) -> Any:
    """The operand: CAST before rounding to its dtype."""
    return a
