"""Elementwise names of NumPy and PyTorch against numpy: special numbers, integers, gradients, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, 3e4, 3e38, np.inf, -np.inf, np.nan], np.float32)
PAIRS = [(a, b) for a in SPECIAL for b in SPECIAL]
LEFT, RIGHT = (np.array(side, np.float32) for side in zip(*PAIRS, strict=True))
INTS = np.array([0, 1, -1, 2, -2, 12, -18, 7, 2**31 - 1], np.int32)

BINARY: dict[str, Callable[..., Any]] = {
    "atan2": np.arctan2, "hypot": np.hypot, "fmax": np.fmax, "fmin": np.fmin, "heaviside": np.heaviside,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "nextafter": np.nextafter, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "true_divide": np.divide,
}  # fmt: skip
UNARY: dict[str, Callable[..., Any]] = {
    "nan_to_num": np.nan_to_num, "signbit": np.signbit, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "isreal": np.isreal, "sgn": np.sign, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "positive": np.positive,
}  # fmt: skip


def close(found: Tensor, wanted: Any, rtol: float = 3e-7, zeros: bool = True) -> None:
    """The values to a subnormal number's last place, NaN equal to NaN, and which zeros are negative."""
    got, want = found.numpy(), np.asarray(wanted)
    want = want.astype(np.float32) if want.dtype == np.float64 else want
    np.testing.assert_allclose(got, want, rtol=rtol, atol=3e-45)
    if got.dtype.kind == "f" and zeros:
        zero = (got == 0) & ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_pairs_of_special_numbers(name: str) -> None:
    """Every pair of special numbers gives what numpy gives, the signs of zeros too (of two zeros any is greatest)."""
    with np.errstate(all="ignore"):
        want = BINARY[name](LEFT, RIGHT)
    got = getattr(Tensor(LEFT), name)(Tensor(RIGHT))
    close(got, want, zeros=name not in ("fmax", "fmin"))


@pytest.mark.parametrize("name", sorted(UNARY))
def test_special_numbers(name: str) -> None:
    """Every special number gives what numpy gives."""
    with np.errstate(all="ignore"):
        want = UNARY[name](SPECIAL)
    got = getattr(Tensor(SPECIAL), name)()
    close(got, want, rtol=1e-6, zeros=name != "sgn")


def test_hypot_of_the_least_numbers() -> None:
    """Squares of numbers near the least of a dtype do not vanish on the way."""
    for dtype in (np.float32, np.float64):
        small = np.array([3, 5, 1e6], dtype) * np.finfo(dtype).smallest_subnormal
        found = Tensor(small).hypot(Tensor(small / 3 * 4)).numpy()
        np.testing.assert_allclose(
            found, np.hypot(small, small / 3 * 4), rtol=1e-6, atol=np.finfo(dtype).smallest_subnormal
        )


def test_sinc_is_exact_beside_its_zeros() -> None:
    """sin(pi x) is 0 at whole numbers, and right to the last places beside them."""
    x = np.array([0.0, 1.0, -7.0, 0.25, 7.999915, -2.5, 3e4], np.float32)
    want = np.sinc(x.astype(np.float64))
    want[[1, 2, 6]] = 0
    np.testing.assert_allclose(Tensor(x).sinc().numpy(), want, rtol=5e-7, atol=0)
    assert np.isnan(Tensor([math.inf, math.nan]).sinc().numpy()).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frexp_and_ldexp(dtype: Any) -> None:
    """A float is its mantissa times a power of two, subnormal numbers too, and ldexp undoes frexp."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, 1.0, -3.5, 1e-30, tiny, -tiny * 5, np.finfo(dtype).max, np.inf, np.nan], dtype)
    mantissa, exponent = Tensor(x).frexp()
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), want[0])
    np.testing.assert_array_equal(exponent.numpy()[:-2], want[1][:-2])
    np.testing.assert_array_equal(mantissa.ldexp(exponent).numpy()[:-2], x[:-2])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_divisors_and_multiples(dtype: Any) -> None:
    """gcd and lcm of integers of every sign, zeros and neighbours of Fibonacci's, which take the most steps."""
    most = {np.int8: 89, np.int32: 1836311903, np.int64: 7540113804746346429}[dtype]
    before = {np.int8: 55, np.int32: 1134903170, np.int64: 4660046610375530309}[dtype]
    a = np.array([0, 0, 12, -12, 18, 7, most], dtype)
    b = np.array([0, 5, 18, 18, -12, 0, before], dtype)
    np.testing.assert_array_equal(Tensor(a).gcd(Tensor(b)).numpy(), np.gcd(a, b))
    np.testing.assert_array_equal(Tensor(a[:6]).lcm(Tensor(b[:6])).numpy(), np.lcm(a[:6], b[:6]))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_divisors_of_the_least_integer(dtype: Any) -> None:
    """Its magnitude is no value of its dtype; as the second operand it made divisors negative."""
    bounds = np.iinfo(dtype)
    edges = np.array([bounds.min, bounds.min + 1, bounds.max, bounds.min // 2, -1, 0, 1, 2, 3, 12], dtype)
    a, b = np.meshgrid(edges, edges)
    np.testing.assert_array_equal(Tensor(a).gcd(Tensor(b)).numpy(), np.gcd(a, b))


def test_products_with_logarithms() -> None:
    """0 * log(0) and 0 * log(inf) are 0, and NaN is not lost."""
    x = Tensor([0.0, 0.0, 2.0, 0.0, 0.0, 2.0])
    y = Tensor([0.0, 5.0, math.e, math.nan, math.inf, math.inf])
    np.testing.assert_allclose(x.xlogy(y).numpy(), [0, 0, 2, np.nan, 0, np.inf], rtol=1e-6)
    np.testing.assert_allclose(x.xlog1py(y - 1).numpy(), [0, 0, 2, np.nan, 0, np.inf], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        (lambda t: t.atan2(Tensor([-2.0, 0.5, 2.0])), [-2 / 4.25, 0.5 / 1.25, 2 / 8.0]),
        (lambda t: t.hypot(Tensor([0.0, 0.0, 2.0])), [-1.0, 1.0, 0.5**0.5]),
        (lambda t: t.sinc(), [4 / math.pi, -1.0, 0.5]),
        (lambda t: t.frexp()[0], [1.0, 0.5, 0.25]),
        (lambda t: t.logaddexp2(Tensor([-0.5, 1.0, 2.0])), [0.5, 0.5, 0.5]),
        (lambda t: t.xlogy(Tensor([1.0, 2.0, 4.0])), [0.0, math.log(2), math.log(4)]),
        (lambda t: t.rsub(1, alpha=3), [-3.0, -3.0, -3.0]),
    ],
)
def test_gradients(function: Callable[[Tensor], Tensor], derivative: list[float]) -> None:
    """Derivatives at -0.5, 1 and 2, worked out by hand."""
    x = Tensor([-0.5, 1.0, 2.0])
    np.testing.assert_allclose(function(x).sum().gradient(x)[0].numpy(), derivative, rtol=2e-6, atol=1e-6)


def test_errors_name_the_dtype() -> None:
    """What needs integers, floats or numbers says what it got and where that was made."""
    with pytest.raises(DTypeError, match=r"^gcd needs integers, got dtypes.float\n  made at .*test_pointwise.py:"):
        Tensor([1.0]).gcd(Tensor([2.0]))
    with pytest.raises(DTypeError, match=r"^nextafter needs floats, got dtypes.int\n  made at "):
        Tensor([1]).nextafter(Tensor([2]))
    with pytest.raises(DTypeError, match=r"^positive needs numbers, got dtypes.bool\n  made at "):
        Tensor([True]).positive()
    with pytest.raises(DTypeError, match=r"^frexp needs floats, got dtypes.int\n  made at "):
        Tensor([1]).frexp()


def test_equal_reads_and_compares() -> None:
    """equal is a Python bool: shapes and all elements."""
    assert Tensor([1, 2]).equal(Tensor([1, 2])) is True
    assert Tensor([1, 2]).equal(Tensor([1, 3])) is False
    assert Tensor([math.nan]).equal(Tensor([math.nan])) is False
    assert Tensor.zeros(0, dtype=dtypes.int32).equal(Tensor.zeros(0, dtype=dtypes.int32)) is True


def test_bools_are_shifted_as_integers() -> None:
    """Two tensors of bools, as a bool and a number: no dtype has fewer bits to shift."""
    some, other = Tensor([True, False, True]), Tensor([True, True, False])
    assert ((some << other).tolist(), (some >> other).tolist()) == ([2, 0, 1], [0, 0, 1])
    assert (some << other).dtype is (some << 1).dtype is dtypes.default_int
    view = some[:2]
    with pytest.raises(DTypeError, match="a <<= b keeps the dtype of a"):
        view <<= view


@pytest.mark.parametrize(
    ("dtype", "least", "exponents"),
    [(np.float32, -149, (0, 3, -3, 126, -126, 200, -200, 255, 260, 276, -300, 4000)),
     (np.float64, -1074, (0, -3, 1022, -1022, 2046, 2090, -2200))],
)  # fmt: skip
def test_ldexp_where_the_power_by_itself_is_no_number(dtype: type, least: int, exponents: tuple[int, ...]) -> None:
    """Zeros, infinities, the least numbers and usual ones, as NumPy has them: rounded once, to the bit."""
    x = np.array(
        [0.0, -0.0, np.inf, -np.inf, 2.0**least, 3 * 2.0**least, 1.0, -1.7, 1e30, 1e-30, 1.99 * 2.0**-125], dtype
    )
    for exponent in exponents:
        with np.errstate(all="ignore"):
            wanted = np.ldexp(x, exponent)
        found = Tensor(x).ldexp(Tensor([exponent])).numpy()
        assert found.tobytes() == wanted.tobytes(), exponent


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_logarithm_of_the_normal_distribution_at_zero_and_minus_infinity(dtype: str) -> None:
    """Its slope at both zeros is sqrt(2 / pi), where two formulas meet; nothing is below minus infinity."""
    x = Tensor([0.0, -0.0, -math.inf], dtype=dtype)
    y = x.log_ndtr()
    exact = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(y.numpy(), [math.log(0.5), math.log(0.5), -math.inf], rtol=exact)
    slope = y[:2].sum().gradient(x)[0].numpy()
    np.testing.assert_allclose(slope[:2], [math.sqrt(2 / math.pi)] * 2, rtol=exact)
