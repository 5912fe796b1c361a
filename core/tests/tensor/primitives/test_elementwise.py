"""Elementwise methods and operators against numpy: values, dtypes, special numbers, gradients, errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.dtype import DType
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop.ops import Ops

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, 3e4, np.inf, -np.inf, np.nan], np.float32)
PAIRS = [(a, b) for a in SPECIAL for b in SPECIAL]
LEFT, RIGHT = (np.array(side, np.float32) for side in zip(*PAIRS, strict=True))
INTS = np.array([0, 1, -1, 2, -2, 7, -7, 2**31 - 1, -(2**31)], np.int32)


def close(found: Tensor, wanted: Any, rtol: float = 1e-6, atol: float = 0.0) -> None:
    """The values, their shape and their dtype."""
    got, wanted = values(found), np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("maximum", np.maximum),
        ("minimum", np.minimum), ("mod", np.mod), ("fmod", np.fmod), ("copysign", np.copysign), ("eq", np.equal),
        ("ne", np.not_equal),
    ],
)  # fmt: skip
def test_binary_method_on_special_numbers(name: str, function: Callable[..., Any]) -> None:
    """Each method of two floats gives what numpy gives, for every pair of special numbers."""
    left, right = LEFT, RIGHT
    with np.errstate(all="ignore"):
        if name in ("mod", "fmod"):  # exact up to that quotient
            fits = ~(np.abs(left / right) > 2**24) | np.isinf(left) | (right == 0)
            left, right = left[fits], right[fits]
        close(getattr(Tensor(left), name)(Tensor(right)), function(left, right))


def test_copysign_and_sign_keep_signed_zeros() -> None:
    """copysign reads the sign of -0.0 and writes it; abs takes it away."""
    ones, zeros = Tensor([1.0, 0.0]), Tensor([-0.0, -0.0])
    assert np.signbit(values(ones.copysign(zeros))).tolist() == [True, True]
    assert np.signbit(values(Tensor([-0.0, 0.0, -1.0]).abs())).tolist() == [False, False, False]
    assert np.signbit(values(Tensor([-0.0, 0.0, -1.0]).sign())).tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_remainder_of_zero_has_the_sign_of_the_divisor(dtype: str) -> None:
    """As in Python, -0.0 % 1.0 is 0.0 and 3.0 % -1.0 is -0.0; the gradient of such a zero is that of any remainder."""
    left = np.array([0.0, -0.0, 0.0, -0.0, 3.0, -3.0, 3.0, -3.0, 0.0, -0.0], dtype)
    right = np.array([1.0, 1.0, -1.0, -1.0, 1.5, 1.5, -1.5, -1.5, -np.inf, np.inf], dtype)
    x, y = Tensor(left), Tensor(right[:8])
    found = values(x % Tensor(right))
    np.testing.assert_array_equal(found, np.zeros(10))
    assert np.signbit(found).tolist() == np.signbit(np.mod(left, right)).tolist()
    part = x[:8]
    slopes = [values(g).tolist() for g in (part % y).sum().gradient(part, y)]
    assert slopes == [[1.0] * 8, [0.0, 0.0, 0.0, 0.0, -2.0, 2.0, 2.0, -2.0]]


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_floats(mode: Any) -> None:
    """The floor is exact, so that 1.0 // 0.1 is 9; trunc cuts the rounded quotient."""
    a = np.array([1.0, 7.0, -7.0, 7.0, -7.0, 6.0, 0.3, 1e9], np.float32)
    b = np.array([0.1, 2.0, 2.0, -2.0, -2.0, 3.0, 0.1, 0.7], np.float32)
    wanted = np.floor_divide(a, b) if mode == "floor" else np.trunc(a / b)
    close(Tensor(a).div(Tensor(b), rounding_mode=mode), wanted)


def test_floor_division_and_remainder_go_together() -> None:
    """(a // b) * b + a % b is a, and a % b has the sign of b and is smaller."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 100, 200).astype(np.float32), rng.normal(0, 3, 200).astype(np.float32)
    quotient, rest = Tensor(a) // Tensor(b), Tensor(a) % Tensor(b)
    close(rest, np.mod(a.astype(np.float64), b).astype(np.float32), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values(quotient).astype(np.float64) * b + values(rest), a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integer_division_of_all_signs_and_by_zero(dtype: Any) -> None:
    """// and % floor, rounding_mode trunc and fmod cut; by zero all give 0; the least value by -1 wraps."""
    info = np.iinfo(dtype)
    some = [v for v in (0, 1, -1, 2, -2, 7, -7, info.max, info.min) if info.min <= v]
    a, b = (np.array(side, dtype) for side in zip(*[(x, y) for x in some for y in some], strict=True))
    python = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]

    def wrapped(numbers: list[int]) -> Any:
        return np.array([(n - info.min) % (info.max - info.min + 1) + info.min for n in numbers], dtype)

    x, y = Tensor(a), Tensor(b)
    close(x // y, wrapped([m // n if n else 0 for m, n in python]))
    close(x % y, wrapped([m % n if n else 0 for m, n in python]))
    cut = [abs(m) // abs(n) * (1 if (m < 0) == (n < 0) else -1) if n else 0 for m, n in python]
    close(x.div(y, rounding_mode="trunc"), wrapped(cut))
    close(x.fmod(y), wrapped([m - q * n if n else 0 for (m, n), q in zip(python, cut, strict=True)]))


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_division_by_negative_constants(device: str, bits: int) -> None:
    """NumPy's, of the ends of the dtype too; what is bounded is divided by another rule than what is not."""
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    drawn = np.random.default_rng(bits).integers(least, most, 300)
    x = np.array([least, least + 1, -1, 0, 1, most - 1, most, *drawn], f"int{bits}")
    t, near = Tensor(x, device=device).realize(), np.clip(x, -50, 50)
    for by in (-2, -3, -7, -64, -127, least, least + 1):
        divisor = np.array(by, x.dtype)
        assert np.array_equal(values(t // by), x // divisor), by
        assert np.array_equal(values(t % by), x % divisor), by
        assert np.array_equal(values(t.clamp(-50, 50) // by), near // divisor), by


def test_division_of_integers_is_a_float() -> None:
    """/ gives the default float, also for integers and bools."""
    close(Tensor([1, 2]) / Tensor([2, 4]), np.array([0.5, 0.5], np.float32))
    close(Tensor([True, False]) / 2, np.array([0.5, 0], np.float32))


def test_unknown_rounding_mode_is_refused() -> None:
    """Only trunc, floor and None exist."""
    with pytest.raises(ValueError, match="rounding_mode is 'trunc', 'floor' or None, got 'up'"):
        Tensor([1.0]).div(2, rounding_mode="up")  # type: ignore[arg-type]


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, 64, -1, -2, 0.5, 1.5, -0.5, 2.5, -1.5, 0.0, 3.0])
def test_constant_powers(power: float) -> None:
    """A constant power of floats is that of numpy, with the special numbers too."""
    base = np.array([0.0, 1.0, 2.0, 0.3, 1.7, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        close(Tensor(base) ** power, base**power, rtol=4e-6)
        if power == int(power):
            close(Tensor(-base) ** power, (-base) ** power, rtol=4e-6)


@pytest.mark.parametrize("power", [0, 1, 2, 5, 31])
def test_constant_powers_of_integers(power: int) -> None:
    """An integer to a constant power stays an integer, exactly."""
    base = np.array([0, 1, -1, 2, -2, 3], np.int64)
    close(Tensor(base) ** power, base**power)


def test_integer_to_a_float_power_is_a_float() -> None:
    """2 ** 0.5 of an int tensor, and ** 2.0, are floats."""
    close(Tensor([1, 4, 9]) ** 0.5, np.array([1, 2, 3], np.float32))
    close(Tensor([3]) ** 2.0, np.array([9], np.float32))


def test_powers_of_a_constant() -> None:
    """2 ** t and 3 ** t are exponentials of t."""
    x = np.array([-1.0, 0.0, 0.5, 3.0], np.float32)
    close(2 ** Tensor(x), 2.0**x, rtol=2e-6)
    close(3.0 ** Tensor(x), 3.0**x, rtol=4e-6)


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "trunc": np.trunc, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_method_on_special_numbers(name: str) -> None:
    """Each method of one float gives what numpy gives."""
    x = np.concatenate([SPECIAL, np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, 8388609.0, -0.3], np.float32)])
    with np.errstate(all="ignore"):
        close(getattr(Tensor(x), name)(), UNARY[name](x))


@pytest.mark.parametrize("name", UNARY)
def test_unary_method_on_integers(name: str) -> None:
    """Rounding leaves integers as they are; the other methods wrap like numpy."""
    close(getattr(Tensor(INTS), name)(), UNARY[name](INTS).astype(np.bool_ if name[:2] == "is" else np.int32))


def test_isinf_of_one_sign() -> None:
    """detect_positive and detect_negative choose the sign."""
    x = Tensor([np.inf, -np.inf, 1.0])
    assert values(x.isinf(detect_negative=False)).tolist() == [True, False, False]
    assert values(x.isinf(detect_positive=False)).tolist() == [False, True, False]
    assert values(x.isinf(False, False)).tolist() == [False, False, False]


def test_clamp_keeps_nan_and_takes_either_bound() -> None:
    """clamp and clip bound below, above or both, by numbers or tensors."""
    x = np.array([-3.0, 0.0, 3.0, np.nan], np.float32)
    close(Tensor(x).clamp(-1, 1), np.clip(x, -1, 1))
    close(Tensor(x).clip(min_=0.5), np.clip(x, 0.5, None))
    close(Tensor(x).clamp(max_=Tensor([-4.0, 1.0, 2.0, 3.0])), np.minimum(x, np.array([-4, 1, 2, 3], np.float32)))
    with pytest.raises(ValueError, match="clamp needs min_ or max_, got neither"):
        Tensor(x).clamp()


def test_a_bound_that_is_nan() -> None:
    """It gives NaN, as in NumPy and PyTorch, as a number and in a tensor."""
    assert np.isnan(values(Tensor([1.0, 2.0]).clamp(np.nan, 1.5))).all()
    assert np.isnan(values(Tensor([1, 2]).clip(None, float("nan")))).all()
    found = values(Tensor([1.0, 2.0, np.nan]).clamp(Tensor([np.nan, 3.0, 0.0]), Tensor([5.0, np.nan, 1.0])))
    assert np.isnan(found).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_round_to_tens(dtype: str) -> None:
    """A half goes to the even multiple; what is too large for the dtype wraps, as all integers do."""
    known = np.iinfo(dtype)
    numbers = [known.min, known.max, known.max - 7, 0, 4, 5, 6, 14, 15, 25, 55, 95, 100, 115]
    numbers += [-n for n in numbers[3:] if known.min < 0]
    for digits in (1, 2, 4, 9, 18, 19, 20):
        step = 10**digits
        wanted = [step * ((2 * n + step) // (2 * step) - int((2 * n + step) % (2 * step) == 0 and
                  (2 * n + step) // (2 * step) % 2 == 1)) for n in numbers]  # fmt: skip
        wrapped = [(n - known.min) % (1 << known.bits) + known.min for n in wanted]
        found = Tensor(np.array(numbers, dtype)).round(decimals=-digits)
        assert values(found).tolist() == wrapped, (dtype, digits)
    assert values(Tensor(np.array(numbers, dtype)).round(2)).tolist() == numbers
    with pytest.raises(DTypeError, match=r"round needs an integer as decimals, got 1\.5"):
        Tensor([1.0]).round(1.5)  # type: ignore[arg-type]


def test_a_list_is_added_alpha_times() -> None:
    """alpha times the numbers of a list, and not the list so often."""
    assert values(Tensor([1.0, 2.0]).add([3.0, 4.0], alpha=2)).tolist() == [7.0, 10.0]
    assert values(Tensor([[1, 2]]).sub([[3, 4]], alpha=3)).tolist() == [[-8, -10]]


def test_copysign_of_eight_bits() -> None:
    """fp8 has a sign bit too."""
    a, b = Tensor([1.0, -2.0, 0.0]).cast(dtypes.fp8e4m3), Tensor([-1.0, 1.0, -0.0]).cast(dtypes.fp8e4m3)
    found = values(a.copysign(b).float())
    assert np.array_equal(found, [-1.0, 2.0, -0.0])
    assert np.signbit(found).tolist() == [True, False, True]


def test_gradient_of_clamp_flows_at_the_bounds() -> None:
    """At a bound and between both the gradient is 1, outside 0."""
    x = Tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    x.clamp(-1, 1).sum().backward()
    assert x.grad is not None
    assert values(x.grad).tolist() == [0, 1, 1, 1, 0]


def test_isclose_of_special_numbers() -> None:
    """isclose is that of numpy, with equal_nan too."""
    for equal in (False, True):
        found = Tensor(LEFT).isclose(Tensor(RIGHT), equal_nan=equal)
        assert values(found).tolist() == np.isclose(LEFT, RIGHT, equal_nan=equal).tolist()


def test_isclose_prints_the_numbers_of_the_documentation() -> None:
    """The documented example."""
    x, zero = Tensor([1e-7, 1e-8, 1e-9, float("nan")]), Tensor([0.0, 0.0, 0.0, float("nan")])
    assert values(x.isclose(zero)).tolist() == [False, True, True, False]


@pytest.mark.parametrize("name", ["lt", "gt", "le", "ge", "eq", "ne"])
def test_comparison_operators(name: str) -> None:
    """Comparisons with NaN are False (True for !=); numbers may stand on either side."""
    compare = getattr(operator, name)
    assert values(compare(Tensor(LEFT), Tensor(RIGHT))).tolist() == compare(LEFT, RIGHT).tolist()
    assert values(compare(Tensor(INTS), 2)).tolist() == compare(INTS, 2).tolist()
    assert values(compare(2, Tensor(INTS))).tolist() == compare(2, INTS).tolist()
    assert values(compare(Tensor(SPECIAL), 0.5)).tolist() == compare(SPECIAL, 0.5).tolist()


def test_comparison_with_none_is_identity() -> None:
    """t == None is False and t != None True, so that None can be looked for."""
    t = Tensor([1])
    assert (t == None) is False  # noqa: E711
    assert (t != None) is True  # noqa: E711
    assert len({t, t}) == 1


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"]
)
def test_operators_reflected_and_in_place(name: str) -> None:
    """Each operator works with a number on either side, and in place on the same object."""
    function = getattr(operator, name)
    data = np.array([1, 2, 5, 3], np.int32)
    float_result = name == "truediv"
    wanted = np.float32 if float_result else np.int32
    close(function(Tensor(data), 3), function(data, 3).astype(wanted))
    close(function(3, Tensor(data)), function(3, data).astype(wanted))
    target = Tensor(data.astype(np.float32) if float_result else data)
    same = target
    target = getattr(operator, "i" + name.rstrip("_"))(target, 2)
    assert target is same
    close(target, function(data, 2).astype(wanted))


def test_in_place_result_of_another_dtype_is_refused() -> None:
    """An int tensor cannot hold its quotient."""
    t = Tensor([1, 2])
    with pytest.raises(DTypeError, match="a /= b keeps the dtype of a"):
        t /= 2


def test_matmul_in_place_and_unary_operators() -> None:
    """@=, -t, +t, ~t and abs(t)."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    t @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert values(t).tolist() == [[2, 1], [4, 3]]
    assert values(-t).tolist() == [[-2, -1], [-4, -3]]
    assert +t is not t and values(+t).tolist() == [[2, 1], [4, 3]]
    assert values(~Tensor([0, 1, -1])).tolist() == [-1, -2, 0]
    assert values(abs(Tensor([-1, 2]))).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_bits_and_shifts(dtype: Any) -> None:
    """Bitwise methods are numpy's; a shift by the width or more gives 0, or the sign."""
    a, b = np.array([0, 1, 5, 100, 127], dtype), np.array([3, 5, 6, 100, 1], dtype)
    close(Tensor(a).bitwise_and(Tensor(b)), a & b)
    close(Tensor(a).bitwise_or(Tensor(b)), a | b)
    close(Tensor(a).bitwise_xor(Tensor(b)), a ^ b)
    close(Tensor(a).bitwise_not(), ~a)
    width = np.dtype(dtype).itemsize * 8
    close(Tensor(a).lshift(2), a << dtype(2))
    close(Tensor(a).lshift(width), np.zeros_like(a))
    close(Tensor(~a).rshift(width), (~a >> dtype(width - 1)) if dtype is not np.uint8 else np.zeros_like(a))


def test_bitwise_operation_of_floats_is_refused() -> None:
    """Floats have no bits to combine, and the error says what has."""
    with pytest.raises(DTypeError, match="it needs integers or bools"):
        Tensor([1.0]).bitwise_and(Tensor([2.0]))


def test_logical_not_and_negation_of_bools() -> None:
    """logical_not is True for zeros; the negation of a bool is its opposite."""
    assert values(Tensor([0.0, 2.0, float("nan")]).logical_not()).tolist() == [True, False, False]
    assert values(Tensor([True, False]).logical_not()).tolist() == [False, True]
    assert values(-Tensor([True, False])).tolist() == [False, True]


def test_scalars_are_weak() -> None:
    """A Python number keeps the tensor's dtype within its kind, and makes a float of an integer tensor."""
    assert (Tensor([1.0]).half() * 2.5).dtype is dtypes.half
    assert (Tensor([1], dtype=dtypes.int8) + 1).dtype is dtypes.int8
    assert (Tensor([1]) + 1.5).dtype is dtypes.float
    assert (1 - Tensor([1], dtype=dtypes.uint8)).dtype is dtypes.uint8


def test_lerp_and_the_sums_of_many() -> None:
    """lerp goes from start to end by weight; usum and uprod take any number of tensors."""
    a, b = Tensor([0.0, 10.0]), Tensor([4.0, 20.0])
    assert values(a.lerp(b, 0.25)).tolist() == [1.0, 12.5]
    assert values(a.lerp(b, Tensor([0.0, 1.0]))).tolist() == [0.0, 20.0]
    assert values(a.usum(b, 1)).tolist() == [5.0, 31.0]
    assert values(a.uprod(b, 2)).tolist() == [0.0, 400.0]


def test_raw_ops() -> None:
    """alu applies an elementwise op, and refuses others; ufix gives a constant of this dtype."""
    assert values(Tensor([1.5]).alu(Ops.TRUNC)).tolist() == [1.0]
    with pytest.raises(DTypeError, match="alu takes an elementwise op, got RESHAPE"):
        Tensor([1.5]).alu(Ops.RESHAPE)
    assert Tensor([1.5]).half().ufix(2).dtype is dtypes.half


def test_shapes_of_any_size_broadcast() -> None:
    """Empty, single and prime sizes broadcast; others raise with both shapes."""
    assert (Tensor.ones(0, 3) + Tensor.ones(3)).shape == (0, 3)
    assert values(Tensor.ones(7, 1) * Tensor.ones(1, 5)).shape == (7, 5)
    with pytest.raises(ShapeError, match=r"cannot multiply shapes \(2, 3\) and \(2,\)"):
        Tensor.ones(2, 3) * Tensor.ones(2)


def test_gradient_of_remainders_and_rounding() -> None:
    """d(a % b)/da is 1, d/db is -floor(a / b); rounding is flat."""
    a, b = Tensor([7.5, -7.5], requires_grad=True), Tensor([2.0, 2.0], requires_grad=True)
    (a % b).sum().backward()
    assert a.grad is not None and b.grad is not None
    assert values(a.grad).tolist() == [1, 1]
    assert values(b.grad).tolist() == [-3, 4]
    (flat,) = (a.floor() + a.ceil() + a.round() + a.trunc() + a.sign()).sum().gradient(a)
    assert values(flat).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", ["lt", "gt", "le", "ge", "eq", "ne"])
def test_comparison_with_a_number_that_the_dtype_does_not_hold(name: str, dtype: Any) -> None:
    """It is decided by the number itself, not by what is left of it in that many bits."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 44, limits.max], dtype)
    compare = getattr(operator, name)
    for number in (limits.min - 1, limits.min - 256, limits.max + 1, limits.max + 45, 2**80):
        assert values(compare(Tensor(x), number)).tolist() == [compare(int(a), number) for a in x]
        assert values(compare(number, Tensor(x))).tolist() == [compare(number, int(a)) for a in x]


def test_bounds_that_the_dtype_does_not_hold() -> None:
    """A bound below or above all values of a dtype leaves them as they are."""
    x = Tensor(np.array([0, 255, 7], np.uint8))
    assert values(x.clip(-5, 300)).tolist() == [0, 255, 7]
    assert values(x.maximum(-1)).tolist() == [0, 255, 7]
    assert values(x.minimum(256)).tolist() == [0, 255, 7]


def test_an_integer_of_more_than_64_bits_is_refused() -> None:
    """No integer dtype holds it, so it does not wrap silently, nor as bits."""
    with pytest.raises(OverflowError, match="^1180591620717411303424 is out of range for dtypes.int, which holds"):
        Tensor([1]) + 2**70
    with pytest.raises(OverflowError, match="^1180591620717411303424 has more than 64 bits, so it cannot be combined"):
        Tensor([1]) & 2**70
    assert values(Tensor([1.0]) + 2**70).tolist() == [2.0**70]


@pytest.mark.parametrize("dtype", dtypes.fp8s, ids=lambda d: d.name)
def test_small_floats_without_infinities(dtype: DType) -> None:
    """Of all bits: 448 is the greatest number of fp8e4m3, and was infinite, and nothing was finite in fp8e4m3fnuz."""
    x = Tensor(np.arange(256, dtype=np.uint8)).bitcast(dtype)
    wide = x.cast(dtypes.float32).numpy()
    assert np.array_equal(x.isinf().numpy(), np.isinf(wide))
    assert np.array_equal(x.isfinite().numpy(), np.isfinite(wide))
    found = x.nan_to_num(0.0, 1.0, -1.0).cast(dtypes.float32).numpy()
    assert np.array_equal(found, np.nan_to_num(wide, nan=0, posinf=1, neginf=-1))
