"""Findings 1.8, 1.9, 1.10 and 1.12: remainders, running sums, long sums and functions as exact as they can be."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.conformance.accuracy import distances
from tinygraft.dtype import DType, round_small, values_of
from tinygraft.engine.arithmetic import one_by_one
from tinygraft.uop.ops import Ops

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]
KINDS = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}


def pairs(kind: Any, count: int) -> tuple[Array, Array]:
    """Operands of a division: any bits, quotients that are whole or nearly so, and all that is special."""
    chance, bits = np.random.default_rng(18), KINDS[kind]
    width = 8 * np.dtype(bits).itemsize
    a, b = (chance.integers(0, 2**width, count, bits).view(kind) for _ in range(2))
    info = np.finfo(kind)
    some = np.array(
        [0.0, 1.0, 0.5, 3.0, 7.0, 1e4, math.inf, math.nan, info.max, info.tiny, info.smallest_subnormal], kind
    )
    grid = np.meshgrid(np.concatenate([some, -some]), np.concatenate([some, -some]))
    with np.errstate(all="ignore"):
        whole = b * chance.integers(1, 2**20, count).astype(kind)
        beside = np.nextafter(whole, np.asarray(chance.choice([-1, 1], count) * math.inf, kind))
    return np.concatenate([a, whole, beside, grid[0].ravel()]), np.concatenate([b, b, b, grid[1].ravel()])


def assert_same(got: Array, want: Array, *operands: Array) -> None:
    """Equal numbers and signs, NaN where NaN is wanted."""
    alike = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    wrong = np.flatnonzero(~alike)[:5]
    assert not len(wrong), [(*(float(x[i]) for x in operands), float(got[i]), float(want[i])) for i in wrong]


def test_1_8_the_remainder_of_the_finding() -> None:
    """1e10 % 3 is 1, and the sign of a zero is that of the divisor for %, that of the dividend for fmod."""
    assert (Tensor([1e10]) % 3).item() == 1.0
    assert math.copysign(1, Tensor([-1.0]).fmod(1.0).item()) == -1
    assert math.copysign(1, (Tensor([-1.0]) % 1.0).item()) == 1
    assert math.copysign(1, (Tensor([1.0]) % -1.0).item()) == -1


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_1_8_remainders_are_exact(kind: Any) -> None:
    """fmod, % and remainder are numpy's, which C's fmod makes exact, for every quotient, with the signs of zeros."""
    a, b = pairs(kind, 5000)
    x, y = Tensor(a), Tensor(b)
    with np.errstate(all="ignore"):
        assert_same(x.fmod(y).numpy(), np.fmod(a, b), a, b)
        assert_same((x % y).numpy(), np.mod(a, b), a, b)
        assert_same(x.remainder(y).numpy(), np.mod(a, b), a, b)


def test_1_8_remainders_of_bfloat16() -> None:
    """The remainder of bfloat16 is what float64 says, which has all digits of the smaller quotients."""
    values = np.array(values_of(dtypes.bfloat16))
    a, b = (np.random.default_rng(seed).choice(values, 20000) for seed in (1, 2))
    with np.errstate(all="ignore"):
        near = np.abs(a) < np.abs(b) * 2.0**40  # beyond, fmod of float64 is as exact, and slow
        a, b = a[near], b[near]
        fmod, mod = np.fmod(a, b), np.mod(a, b)
    x, y = Tensor(a).cast(dtypes.bfloat16), Tensor(b).cast(dtypes.bfloat16)
    rounded = np.array([round_small(float(v), dtypes.bfloat16) for v in mod])
    assert_same(x.fmod(y).cast(dtypes.float64).numpy(), fmod, a, b)
    assert_same((x % y).cast(dtypes.float64).numpy(), rounded, a, b)


@pytest.mark.parametrize("kind", [np.float32, np.float64], ids=lambda k: k.__name__)
def test_1_8_floor_division_is_the_floor(kind: Any) -> None:
    """// is the floor of the true quotient, rounded once: by fractions, also of the largest quotients."""
    chance = np.random.default_rng(8)
    digits = {np.float32: 24, np.float64: 53}[kind]
    a = (chance.uniform(-1, 1, 4000) * 2.0 ** chance.integers(-20, 70, 4000)).astype(kind)
    b = (chance.uniform(-1, 1, 4000) * 2.0 ** chance.integers(-20, 10, 4000)).astype(kind)
    a[:2000] = (b * chance.integers(-(2**22), 2**22, 4000))[:2000].astype(kind)
    got = (Tensor(a) // Tensor(b)).numpy()

    def rounded(whole: int) -> float:
        extra = abs(whole).bit_length() - digits
        unit = 2 ** max(extra, 0)
        return float(round(Fraction(whole, unit)) * unit)

    want = np.array([rounded(Fraction(float(x)) // Fraction(float(y))) for x, y in zip(a, b, strict=True)], kind)
    assert (got == want).all(), [(a[i], b[i], got[i], want[i]) for i in np.flatnonzero(got != want)[:5]]


def test_1_8_floor_division_of_what_is_special() -> None:
    """By zero, of and by infinities and NaN // is numpy's, and so are the signs of its zeros."""
    some = np.array([0.0, 1.0, 2.5, 1e-45, 3e38, math.inf, math.nan], np.float32)
    a, b = (g.ravel() for g in np.meshgrid(np.concatenate([some, -some]), np.concatenate([some, -some])))
    with np.errstate(all="ignore"):
        assert_same((Tensor(a) // Tensor(b)).numpy(), np.floor_divide(a, b), a, b)


def test_1_8_derivatives_of_remainders() -> None:
    """The remainder falls by the whole quotient for each unit of the divisor: floored for %, cut for fmod as in C."""
    a, b = [7.5, -7.5, 7.5, -7.5, 1e9], [2.0, 2.0, -2.0, -2.0, 3.0]
    for method, quotient in (("fmod", math.trunc), ("mod", math.floor)):
        x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
        getattr(x, method)(y).sum().backward()
        assert x.grad.tolist() == [1.0] * 5
        np.testing.assert_allclose(y.grad.tolist(), [-quotient(p / q) for p, q in zip(a, b, strict=True)], rtol=1e-6)


def test_1_9_ones_are_counted_beyond_2_24() -> None:
    """The running sum of 2**25 ones ends with 2**25, and that of 1e7 times 0.1 within a millionth."""
    assert Tensor.ones(2**25).contiguous().cumsum(0)[-1].item() == 2**25
    true = float(np.float32(0.1)) * np.arange(1, 10**7 + 1)
    got = Tensor.full((10**7,), 0.1).contiguous().cumsum(0).numpy()
    assert np.abs(got / true - 1).max() < 1e-6


@pytest.mark.parametrize("shape", [(129,), (300,), (4097,), (100_003,), (5, 1000, 7), (1000, 3), (2, 1999)])
def test_1_9_running_sums_of_any_length(shape: tuple[int, ...]) -> None:
    """A running sum along any axis is within a millionth of the sum of magnitudes, whatever the length."""
    a = np.random.default_rng(9).normal(size=shape).astype(np.float32)
    for axis in range(a.ndim):
        wide = a.astype(np.float64)
        bound = 1e-6 * np.cumsum(np.abs(wide), axis)
        assert (np.abs(Tensor(a).cumsum(axis).numpy() - np.cumsum(wide, axis)) <= bound).all()
    halves = a.astype(np.float16)
    wide = np.cumsum(halves.astype(np.float64), -1)
    assert (np.abs(Tensor(halves).cumsum(-1).numpy() - wide) <= 1e-3 * np.maximum(np.abs(wide), 1)).all()


def test_1_9_what_is_special_runs_on() -> None:
    """Infinities and NaN go on from where they are, minus zeros stay, and integers wrap as they did."""
    a = np.ones(500, np.float32)
    a[300], a[400] = math.inf, -math.inf
    got = Tensor(a).cumsum(0).numpy()
    np.testing.assert_array_equal(got, np.cumsum(a))
    assert np.signbit(Tensor(np.full(300, -0.0, np.float32)).cumsum(0).numpy()).all()
    whole = np.random.default_rng(3).integers(-(2**31), 2**31, 1000).astype(np.int32)
    np.testing.assert_array_equal(Tensor(whole).cumsum(0).numpy(), np.cumsum(whole, dtype=np.int32))


def test_1_9_a_running_sum_has_the_same_bits_on_every_device() -> None:
    """The blocks follow from the shape: another device makes the same additions."""
    a = np.random.default_rng(4).normal(size=333).astype(np.float32)
    np.testing.assert_array_equal(Tensor(a).cumsum(0).numpy(), Tensor(a, device="PYTHON").cumsum(0).numpy())


def test_1_9_running_products_and_logarithms_of_sums() -> None:
    """cumprod is within 2e-7, also where a block by itself would overflow; logcumsumexp within two millionths."""
    a = np.random.default_rng(5).uniform(0.5, 1.5, 3000).astype(np.float32)
    want = np.cumprod(a.astype(np.float64))
    np.testing.assert_allclose(Tensor(a).cumprod(0).numpy(), want, rtol=2e-7, atol=1e-44)
    swings = np.array(([1e-30] * 1 + [1e30] * 1) * 200, np.float32)
    np.testing.assert_allclose(Tensor(swings).cumprod(0).numpy(), np.cumprod(swings.astype(np.float64)), rtol=1e-5)
    x = np.random.default_rng(6).normal(size=5000).astype(np.float32)
    want = np.logaddexp.accumulate(x.astype(np.float64))
    np.testing.assert_allclose(Tensor(x).logcumsumexp(0).numpy(), want, rtol=2e-6, atol=2e-6)


def test_1_9_the_derivative_of_a_long_running_sum() -> None:
    """The gradient of element k counts the elements from k on, each with its weight."""
    weight = np.random.default_rng(7).normal(size=1000).astype(np.float32)
    x = Tensor(np.ones(1000, np.float32), requires_grad=True)
    (x.cumsum(0) * Tensor(weight)).sum().backward()
    want = np.cumsum(weight[::-1].astype(np.float64))[::-1]
    np.testing.assert_allclose(x.grad.numpy(), want, atol=1e-5)


def test_1_10_a_sum_of_many_equal_numbers() -> None:
    """The sum of 2**28 times 0.1 is within a millionth, and so is its mean: over memory that is read many times."""
    x = Tensor(np.full(2**18, 0.1, np.float32)).realize().reshape(1, -1).expand(2**10, 2**18)
    true = float(np.float32(0.1))
    assert abs(x.sum().item() / (true * 2**28) - 1) < 1e-6
    assert abs(x.mean().item() / true - 1) < 1e-6


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1 / 3, math.pi])
def test_1_10_sums_of_rows_and_columns(value: float) -> None:
    """Long rows, long columns, and sums of products of equal numbers are within a millionth too."""
    x = Tensor(np.full(2**20, value, np.float32)).realize()
    true = float(np.float32(value))
    for got, want in (
        (x.sum(), true * 2**20),
        (x.reshape(2**16, 16).sum(0), true * 2**16),
        (x.reshape(64, 2**14).sum(1), true * 2**14),
        (x.reshape(2**15, 32).square().sum(0), true**2 * 2**15),
        (x[: 10**6 + 3].sum(), true * (10**6 + 3)),
        (x.reshape(2**12, 2**8).sum(0), true * 2**12),
    ):
        assert np.abs(got.numpy() / want - 1).max() < 1e-6
    assert x.var().item() < 1e-11


def test_1_10_sums_without_optimisations() -> None:
    """Plain loops are as exact: the blocks are no matter of speed."""
    from tinygraft import Context

    with Context(NOOPT=1):
        x = Tensor(np.full(2**16, 0.1, np.float32)).realize()
        assert abs(x.sum().item() / (float(np.float32(0.1)) * 2**16) - 1) < 1e-6


# 1.12: functions

NUMPY: dict[str, tuple[Callable[..., Any], float, float]] = {
    # a function of numpy in float64, and the most units in the last place for float32 and float64
    "exp": (np.exp, 0.9, 0.9), "expm1": (np.expm1, 1.0, 1.1), "log": (np.log, 0.8, 0.81),
    "log1p": (np.log1p, 0.9, 0.91), "sin": (np.sin, 0.85, 0.86), "cos": (np.cos, 0.85, 0.95),
    "tan": (np.tan, 1.0, 1.0), "tanh": (np.tanh, 0.8, 0.81), "asin": (np.arcsin, 0.75, 0.76),
    "acos": (np.arccos, 0.7, 0.75), "atan": (np.arctan, 1.0, 1.0), "sinh": (np.sinh, 2.0, 2.0),
    "cosh": (np.cosh, 2.0, 2.0),
}  # fmt: skip
HARD = {
    "exp": (-104, 89), "expm1": (-20, 3), "log": (0.4, 2.5), "log1p": (-1, 3), "tanh": (-3, 3), "asin": (-1, 1),
    "acos": (-1, 1), "atan": (-3, 3), "sinh": (-3, 3), "cosh": (-3, 3), "erf": (-4, 4), "erfc": (-5, 11),
    "lgamma": (-10, 5),
}  # fmt: skip


def points(name: str, kind: Any, every: int, near: int) -> Array:
    """Numbers of all exponents and signs, and more where the function is hard."""
    bits = KINDS[kind]
    width = 8 * np.dtype(bits).itemsize
    step = 2**width // every + 1
    whole = (np.arange(every, dtype=np.uint64) * np.uint64(step) + np.uint64(step // 3)).astype(bits).view(kind)
    if name in ("sin", "cos", "tan"):
        turns = np.arange(1, near // 4, dtype=np.float64) * (np.pi / 2)
        return np.concatenate([whole, *((turns * s).astype(kind) for s in (1, 1001, 1e5 + 1, -1e10))])
    return np.concatenate([whole, np.random.default_rng(12).uniform(*HARD[name], near).astype(kind)])


@pytest.mark.parametrize("name", NUMPY)
def test_1_12_functions_in_float32(name: str) -> None:
    """Over all floats a function is within its bound of the true value, which float64 has to enough digits."""
    function, bound, _ = NUMPY[name]
    x = points(name, np.float32, 200_000, 100_000)
    with np.errstate(all="ignore"):
        away = distances(getattr(Tensor(x), name)().numpy(), function(x.astype(np.float64)), dtypes.float32)
    worst = int(np.argmax(away))
    assert away[worst] <= bound, (float(x[worst]), float(away[worst]))


@pytest.mark.parametrize("name", NUMPY)
def test_1_12_functions_in_float64(name: str) -> None:
    """The same for float64, where numpy's longest float has more digits."""
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("nothing here is more exact than float64")
    function, _, bound = NUMPY[name]
    x = points(name, np.float64, 40_000, 30_000)
    with np.errstate(all="ignore"):
        away = distances(getattr(Tensor(x), name)().numpy(), function(x.astype(np.longdouble)), dtypes.float64)
    worst = int(np.argmax(away))
    assert away[worst] <= bound, (float(x[worst]), float(away[worst]))


@pytest.mark.parametrize(("name", "bound"), [("erf", 0.95), ("erfc", 0.95), ("lgamma", 0.6)])
def test_1_12_special_functions_in_float32(name: str, bound: float) -> None:
    """erf, erfc and lgamma too, the last also beside its zeros below 0."""
    x = points(name, np.float32, 40_000, 40_000)
    true = one_by_one(Ops[name.upper()])(x.astype(np.float64))
    away = distances(getattr(Tensor(x), name)().numpy(), true, dtypes.float32)
    worst = int(np.argmax(away))
    assert away[worst] <= bound, (float(x[worst]), float(away[worst]))


SMALL = {**{name: row[0] for name, row in NUMPY.items()},
         **{op.name.lower(): one_by_one(op) for op in (Ops.ERF, Ops.ERFC, Ops.LGAMMA)}}  # fmt: skip


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", SMALL)
def test_1_12_every_half(name: str, dtype: DType) -> None:
    """For every number of a half type the result is the true value rounded, or nearly so beside a tie."""
    x = np.array(values_of(dtype), np.float32)
    with np.errstate(all="ignore"):
        true = SMALL[name](x.astype(np.float64))
        got = getattr(Tensor(x).cast(dtype), name)().cast(dtypes.float32).numpy()
        want = np.array([round_small(float(v), dtype) if math.isfinite(v) else v for v in true])
        unit = 2.0 ** np.maximum(np.floor(np.log2(np.abs(true))), -14 if dtype is dtypes.float16 else -126)
        away = np.abs(got - true) / unit * 2 ** (10 if dtype is dtypes.float16 else 7)
    fine = (got == want) | np.isnan(got) & np.isnan(want) | (away < 0.501)
    assert fine.all(), [(float(x[i]), float(got[i]), float(true[i])) for i in np.flatnonzero(~fine)[:5]]


MPMATH = {
    "erf": ("erf(x)", [(-6, 6), (-1.2, 1.2)], 1.0), "erfc": ("erfc(x)", [(-6, 27), (-1, 1)], 1.0),
    "lgamma": ("loggamma(x)", [(0, 4), (0, 1e-3), (3, 200)], 2.0), "exp": ("exp(x)", [(-745, 709)], 0.9),
    "expm1": ("expm1(x)", [(-3, 3), (-40, 40)], 1.1), "log1p": ("log1p(x)", [(-1, 3)], 0.91),
    "tanh": ("tanh(x)", [(-3, 3)], 0.81), "asin": ("asin(x)", [(-1, 1)], 0.76), "acos": ("acos(x)", [(-1, 1)], 0.75),
    "cos": ("cos(x)", [(-8, 8), (-1e9, 1e9)], 0.95), "tan": ("tan(x)", [(-8, 8), (-1e9, 1e9)], 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", MPMATH)
def test_1_12_beside_mpmath(name: str) -> None:
    """With forty digits as the judge, float64 and float32 are within the bound of float64."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath here, which knows the true values")
    text, ranges, bound = MPMATH[name]
    function = eval(f"lambda x: {text}", vars(mpmath))
    x = np.concatenate([np.random.default_rng(13).uniform(low, high, 250) for low, high in ranges])
    for kind, dtype in ((np.float64, dtypes.float64), (np.float32, dtypes.float32)):
        given = x.astype(kind)
        got = getattr(Tensor(given), name)().numpy()
        with mpmath.workdps(40):
            for v, g in zip(given, got, strict=True):
                true = function(mpmath.mpf(float(v)))
                if not np.isfinite(g) or not true:
                    continue
                least = np.finfo(kind).minexp
                exponent = max(int(mpmath.floor(mpmath.log(abs(true), 2))), least)
                units = float(abs(mpmath.mpf(float(g)) - true) / mpmath.mpf(2) ** (exponent - np.finfo(kind).nmant))
                assert units <= bound, (dtype, float(v), float(g), units)


def test_1_12_lgamma_beside_its_zeros() -> None:
    """float32 beside each zero below -2, where the parts of lgamma cancel, is within 0.6 units in the last place."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath here, which knows the true values")
    zeros = [-2.4570247382208006, -2.7476826467274127, -3.1435808883499798, -3.955294284858598, -4.039361839740537,
             -4.991544640560048, -5.008218168440859, -5.998607480080876]  # fmt: skip
    x = np.array(zeros, np.float32)
    for _ in range(3):
        x = np.concatenate([np.nextafter(x, np.float32(-9)), x, np.nextafter(x, np.float32(9))])
    got = Tensor(x).lgamma().numpy()
    with mpmath.workdps(40):
        for v, g in zip(x, got, strict=True):
            true = mpmath.log(abs(mpmath.gamma(mpmath.mpf(float(v)))))
            unit = mpmath.mpf(2) ** (int(mpmath.floor(mpmath.log(abs(true), 2))) - 23)
            assert abs(mpmath.mpf(float(g)) - true) <= 0.6 * unit, (float(v), float(g), float(true))


def test_1_12_cosines_many_turns_away() -> None:
    """Beside zeros of the cosine at 1e5, 1e10 and 1e30 all digits are right: the finding's arguments, by 60 digits."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath here, which knows the true values")
    with mpmath.workdps(60):
        turns = [mpmath.floor(mpmath.mpf(far) / mpmath.pi) * mpmath.pi + mpmath.pi / 2 for far in (1e5, 1e10, 1e30)]
        x = np.array([float(t) for t in turns], np.float32)
        for name in ("cos", "tan"):
            got = getattr(Tensor(x), name)().numpy()
            true = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
            np.testing.assert_allclose(got, [float(t) for t in true], rtol=2**-23)


@pytest.mark.parametrize("name", [*NUMPY, "erf", "erfc", "lgamma"])
def test_1_12_gradients_stay_right(name: str) -> None:
    """The gradient in float64 is the slope that finite differences find, at both signs where the function has both."""
    low, high = {"log": (0.5, 3), "log1p": (-0.8, 3), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9),
                 "tan": (-1.4, 1.4), "lgamma": (0.1, 4)}.get(name, (-2.5, 2.5))  # fmt: skip
    at = np.random.default_rng(2).uniform(low, high, 50)
    x = Tensor(at, requires_grad=True)
    getattr(x, name)().sum().backward()
    step = 1e-5
    up, down = (getattr(Tensor(at + s), name)().numpy() for s in (step, -step))
    np.testing.assert_allclose(x.grad.numpy(), (up - down) / (2 * step), rtol=2e-6, atol=1e-8)


# Findings of 2026-11-24


def test_acosh_beside_1() -> None:
    """Within 2 units in the last place where the root counts, which was 2.6; infinitely steep at 1, NaN below it."""
    x = np.float32(1) + np.float32(2.0) ** np.random.default_rng(20).uniform(-23, 2, 100_000).astype(np.float32)
    away = distances(Tensor(x).acosh().numpy(), np.arccosh(x.astype(np.float64)), dtypes.float32)
    assert away.max() <= 2, float(x[away.argmax()])
    below = Tensor([0.99, 0.0, -1.0, -1.5, -1e4, -1e30, -math.inf, math.nan])
    assert np.isnan(below.acosh().numpy()).all()
    x = Tensor([1.0, 1.0000001, 3.0, 1e30, math.inf], requires_grad=True)
    x.acosh().sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [math.inf, 2048, 8**-0.5, 1e-30, 0], rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_digamma_beside_its_zero(kind: Any) -> None:
    """Within 3 units in the last place; float32 was 94 off in the last digits of where the zero is."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath here, which knows the true values")
    zero, chance = 1.4616321449683623, np.random.default_rng(21)
    around = [kind(zero)]
    for _ in range(20):
        around += [np.nextafter(around[-1], kind(2)), np.nextafter(around[0], kind(0))]
        around.sort()
    far = zero + chance.normal(size=200) * 2.0 ** chance.uniform(-20, -2, 200)
    x = np.concatenate([around, far]).astype(kind)
    with mpmath.workdps(40):
        true = [mpmath.digamma(mpmath.mpf(float(v))) for v in x]
        for v, g, t in zip(x, Tensor(x).digamma().numpy(), true, strict=True):
            exponent = int(mpmath.floor(mpmath.log(abs(t), 2)))
            units = float(abs(mpmath.mpf(float(g)) - t) / mpmath.mpf(2) ** (exponent - np.finfo(kind).nmant))
            assert units <= 3, (float(v), float(g), units)


@pytest.mark.parametrize(("shape", "scale"), [((5000,), 1), ((5000,), 30), ((64, 1000), 3), ((3, 1), 1)])
def test_running_logarithms_of_sums_are_as_exact_as_running_sums(shape: tuple[int, ...], scale: float) -> None:
    """An error of 1e-6 in the sum, as cumsum has it, and the rounding of the result; each step rounded the result."""
    x = (np.random.default_rng(22).normal(size=shape) * scale).astype(np.float32)
    want = np.logaddexp.accumulate(x.astype(np.float64), axis=-1)
    bound = 1e-6 + 0.51 * np.spacing(np.abs(want).astype(np.float32))
    assert (np.abs(Tensor(x).logcumsumexp(-1).numpy() - want) <= bound).all()


def test_running_logarithms_of_sums_of_what_is_special() -> None:
    """Infinities and NaN run on; terms that are nothing have no gradient, and no NaN."""
    inf = math.inf
    x = Tensor([-inf, -200.0, 4.0, -inf, inf, 3.0, -inf])
    assert x.logcumsumexp().tolist() == [-inf, -200.0, 4.0, 4.0, inf, inf, inf]
    found = Tensor([1.0, math.nan, 2.0, inf]).logcumsumexp().numpy()
    assert found[0] == 1 and np.isnan(found[1:]).all()
    x = Tensor([-inf, -inf, -200.0, -300.0, 4.0, -inf], requires_grad=True)
    y = x.logcumsumexp()
    y[2:].sum().backward()
    assert x.grad is not None
    assert y.tolist() == [-inf, -inf, -200.0, -200.0, 4.0, 4.0]
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, 2, 0, 2, 0], atol=1e-30)
    assert Tensor.zeros(2, 0).logcumsumexp(1).shape == (2, 0)
