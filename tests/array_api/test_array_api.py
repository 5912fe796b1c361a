"""The array API standard: every function of array-api-strict is here with its signature, and gives the same.

What is generated goes through both; shapes, kinds of dtypes and values have to agree, special values too.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import array_api as generated

from beside_strict import (
    ALL,
    BOOL,
    COMPLEX,
    EVERY,
    FLOATS,
    INTEGERS,
    NUMERIC,
    Array,
    arrays,
    both,
    case,
    same,
    strict,
)  # fmt: skip
from tinygraft import Tensor
from tinygraft import array_api as xp
from tinygraft.errors import ShapeError

pytestmark = pytest.mark.slow

xps = generated.make_strategies_namespace(xp)

# Names that are not here, and why.
ABSENT = {
    **dict.fromkeys(
        ("Device", "set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags",
         "ArrayAPIStrictFlags", "__version__"), "no part of the standard",
    ),
}  # fmt: skip
# Functions that do not agree on some input, which is not generated, and why.
DEVIATIONS = {
    "pow": "an integer to a negative power, which the standard leaves open",
    "floor_divide": "integers by zero, which the standard leaves open; here they give 0",
    "remainder": "integers by zero, which the standard leaves open; here they give 0",
    "bitwise_left_shift": "by the width or more, which the standard leaves open; here that gives 0",
    "sum": "of small integers: the default integer here has 32 bits",
}


def test_every_name_is_here() -> None:
    """What array-api-strict has, but for what is listed with a reason; both extensions too."""
    assert {name for name in strict.__all__ if not hasattr(xp, name)} == set(ABSENT)
    assert {name for name in strict.linalg.__all__ if not hasattr(xp.linalg, name)} == set()
    assert {name for name in strict.fft.__all__ if not hasattr(xp.fft, name)} == set()
    assert set(xp.__all__) <= set(dir(xp))


def test_the_namespace_is_a_module_of_its_name() -> None:
    """Tools import it by its name; an array, the package and the import system give the same module."""
    import tinygraft

    assert importlib.import_module("tinygraft.array_api") is xp is tinygraft.array_api
    assert Tensor([1.0]).__array_namespace__() is xp
    assert importlib.import_module("tinygraft.array_api.linalg") is xp.linalg
    assert importlib.import_module("tinygraft.array_api.fft") is xp.fft


EXTENSIONS = {"linalg": strict.linalg, "fft": strict.fft}
FULL_NAMES = [*strict.__all__, *(f"{home}.{name}" for home, module in EXTENSIONS.items() for name in module.__all__)]


@pytest.mark.parametrize("name", FULL_NAMES)
def test_signatures(name: str) -> None:
    """Parameters have the names and kinds of the standard; those with defaults there have defaults here."""
    part, dot, last = name.rpartition(".")
    home, other = (getattr(xp, part), getattr(strict, part)) if dot else (xp, strict)
    wanted = getattr(other, last)
    if last in ABSENT or not inspect.isfunction(wanted):
        return
    ours, theirs = inspect.signature(getattr(home, last)).parameters, inspect.signature(wanted).parameters
    kinds = {p.name: p.kind for p in ours.values()}
    positional = [p.kind for p in theirs.values() if p.kind is inspect.Parameter.POSITIONAL_ONLY]
    mine = [p.kind for p in ours.values() if p.kind is inspect.Parameter.POSITIONAL_ONLY]
    assert len(mine) == len(positional)
    for parameter in theirs.values():
        if parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            assert parameter.name in kinds
            if parameter.default is not inspect.Parameter.empty:
                assert ours[parameter.name].default is not inspect.Parameter.empty


EXACT_ONE = {
    "abs": NUMERIC, "bitwise_invert": [*INTEGERS, *BOOL], "ceil": NUMERIC, "floor": NUMERIC, "round": NUMERIC,
    "trunc": NUMERIC, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC, "logical_not": BOOL, "negative": FLOATS,
    "positive": NUMERIC, "sign": NUMERIC, "signbit": FLOATS, "sqrt": FLOATS, "square": FLOATS, "reciprocal": FLOATS,
}  # fmt: skip
NEAR_ONE = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2",
            "log10", "sin", "sinh", "tan", "tanh"]  # fmt: skip


@pytest.mark.parametrize("name", [*EXACT_ONE, *NEAR_ONE])
def test_functions_of_one(name: str) -> None:
    """Each of its dtypes, special values included."""

    @case(12)
    @given(arrays(EXACT_ONE.get(name, FLOATS)))
    def check(x: Array) -> None:
        both(name, x, exact=name in EXACT_ONE)

    check()


TWO = {
    "add": NUMERIC, "subtract": NUMERIC, "multiply": NUMERIC, "divide": FLOATS, "equal": ALL, "not_equal": ALL,
    "greater": NUMERIC, "greater_equal": NUMERIC, "less": NUMERIC, "less_equal": NUMERIC, "maximum": NUMERIC,
    "minimum": NUMERIC, "bitwise_and": [*INTEGERS, *BOOL], "bitwise_or": [*INTEGERS, *BOOL],
    "bitwise_xor": [*INTEGERS, *BOOL], "logical_and": BOOL, "logical_or": BOOL, "logical_xor": BOOL, "copysign": FLOATS,
    "nextafter": FLOATS,
}  # fmt: skip
NEAR_TWO = {
    "atan2": FLOATS,
    "hypot": FLOATS,
    "logaddexp": FLOATS,
    "pow": FLOATS,
    "remainder": FLOATS,
    "floor_divide": FLOATS,
}


@pytest.mark.parametrize("name", [*TWO, *NEAR_TWO])
def test_functions_of_two(name: str) -> None:
    """Broadcast together, special values on both sides."""

    @case(12)
    @given(st.data(), st.sampled_from(TWO.get(name) or NEAR_TWO[name]))
    def check(data: Any, dtype: str) -> None:
        a = data.draw(arrays(dtype))
        shape = data.draw(st.sampled_from([a.shape, a.shape[1:], (*a.shape[:-1], 1) if a.shape else (2,), ()]))
        both(name, a, data.draw(arrays(dtype, shape)), exact=name in TWO)

    check()


@pytest.mark.parametrize("name", ["pow", "floor_divide", "remainder", "bitwise_left_shift", "bitwise_right_shift"])
def test_integers_where_the_standard_says_what_comes_out(name: str) -> None:
    """Small positive second operands: powers, quotients, remainders and shifts."""

    @case(12)
    @given(st.data(), st.sampled_from(INTEGERS))
    def check(data: Any, dtype: str) -> None:
        a = data.draw(arrays(dtype))
        b = data.draw(st.lists(st.integers(1, 3), min_size=a.size, max_size=a.size))
        a = np.asarray(np.clip(a, 0 if dtype.startswith("u") else -5, 5)).astype(dtype)
        both(name, a, np.array(b, dtype=dtype).reshape(a.shape))

    check()


def test_numbers_are_weak() -> None:
    """A Python number on either side takes the dtype of the other."""
    x = np.array([1, 2, 3], dtype="int8")
    both("add", x, 1)
    both("subtract", 10, x)
    both("maximum", np.array([1.5], dtype="float32"), 2.0)
    assert xp.add(Tensor(x), 1).dtype is xp.int8


REDUCTIONS = {
    "all": ALL, "any": ALL, "max": NUMERIC, "min": NUMERIC, "sum": NUMERIC, "prod": NUMERIC, "mean": FLOATS,
    "std": FLOATS, "var": FLOATS, "count_nonzero": ALL,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    """Over all axes, one and several, kept or not."""

    @case(14)
    @given(st.data(), st.booleans())
    def check(data: Any, keepdims: bool) -> None:
        low = 1 if name in ("max", "min", "mean", "std", "var") else 0
        x = data.draw(arrays(REDUCTIONS[name], low=low))
        if x.dtype.kind == "f" and name not in ("max", "min", "all", "any", "count_nonzero"):
            x = np.asarray(np.nan_to_num(x, posinf=2.0, neginf=-3.0))
        elif name in ("sum", "prod") and x.dtype.kind != "b":
            x = np.asarray(x % 3).astype(x.dtype)
        axes = [None, *range(-x.ndim, x.ndim), *([(0, -1)] if x.ndim > 1 else [])]
        kwargs: dict[str, Any] = {"axis": data.draw(st.sampled_from(axes)), "keepdims": keepdims}
        if name in ("std", "var"):
            kwargs["correction"] = 0.0
        both(name, x, exact=False, **kwargs)

    check()


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_values_of_one_number(name: str, flag: bool) -> None:
    """A number is one element, as in NumPy; include_initial raised with an error of cat."""
    found = getattr(xp, name)(xp.asarray(3.0), include_initial=flag)
    assert found.tolist() == getattr(np, name)(np.asarray(3.0), include_initial=flag).tolist()


@pytest.mark.parametrize("name", ["argmax", "argmin", "sort", "argsort", "cumulative_sum", "cumulative_prod", "diff"])
def test_along_one_axis(name: str) -> None:
    """Places, orders, running values and differences."""

    @case(12)
    @given(st.data(), st.booleans())
    def check(data: Any, flag: bool) -> None:
        x = data.draw(arrays(NUMERIC, low=1, dims=1))
        if x.dtype.kind == "f":
            x = np.nan_to_num(x, nan=0.25, posinf=2.0, neginf=-3.0)
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        if name.startswith("cumulative"):
            x = (np.clip(x, 0, 5) % 3).astype(x.dtype)
            both(name, x, axis=axis, include_initial=flag, exact=False)
        elif name == "diff":
            both(name, x, axis=axis, n=1 + flag)
        elif name.startswith("arg") and name != "argsort":
            both(name, x, axis=data.draw(st.sampled_from([axis, None])), keepdims=flag)
        else:
            both(name, x, axis=axis, descending=flag)

    check()


def test_moving_elements() -> None:
    """Shapes are changed as the standard says."""

    @case(40)
    @given(st.data())
    def check(data: Any) -> None:
        x = data.draw(arrays(EVERY))
        axis = data.draw(st.integers(-x.ndim, max(x.ndim - 1, 0))) if x.ndim else 0
        both("expand_dims", x, axis=axis)
        both("flip", x)
        both("reshape", x, (-1,) if x.size else x.shape)
        both("broadcast_to", x, (2, *x.shape))
        both("broadcast_arrays", x, x[None])
        both("stack", [x, x], axis=axis)
        both("tile", x, (2, 1))
        if x.ndim:
            both("concat", [x, x], axis=axis)
            both("flip", x, axis=axis)
            both("roll", x, 2, axis=axis)
            both("permute_dims", x, tuple(reversed(range(x.ndim))))
            both("moveaxis", x, 0, axis)
            both("unstack", x, axis=axis)
            both("repeat", x, 2, axis=axis)
            both("take", x, np.array([0] if x.shape[axis] else [], dtype="int64"), axis=axis)
            both("nonzero", x)
        both("concat", [x, x], axis=None)
        both("roll", x, -1)
        both("squeeze", x[None], 0)
        both("where", x.astype(bool), x, x)

    check()


def test_sets_and_searches() -> None:
    """Distinct values, membership, places in sorted arrays, and elements along an axis."""

    @case(25)
    @given(st.data(), st.sampled_from(NUMERIC))
    def check(data: Any, dtype: str) -> None:
        x = np.asarray(np.nan_to_num(data.draw(arrays(dtype)), posinf=2.0, neginf=-3.0))
        x = np.asarray(x + np.zeros((), x.dtype))  # which of 0.0 and -0.0 stands for both is nobody's business
        both("unique_values", x)
        both("unique_counts", x)
        both("unique_inverse", x)
        both("unique_all", x)
        if dtype in INTEGERS:
            both("isin", x, x.reshape(-1)[:2])
            absent = xp.isin(Tensor(x), Tensor(x.reshape(-1)[:2]), invert=True)  # array-api-strict forgets to invert
            same(absent, ~np.isin(x, x.reshape(-1)[:2]))
        ordered = np.sort(x.reshape(-1))
        for side in ("left", "right"):
            both("searchsorted", ordered, x, side=side)
        if x.ndim and x.size:
            both("take_along_axis", x, np.zeros((*x.shape[:-1], 1), dtype="int64"), axis=-1)

    check()


@pytest.mark.parametrize("dtype", EVERY)
def test_creation(dtype: str) -> None:
    """Every function that makes an array, of every dtype."""
    ours, theirs = getattr(xp, dtype), getattr(strict, dtype)
    for name, args in {
        "zeros": ((2, 3),), "ones": (3,), "full": ((2, 0), 1), "eye": (2, 3), "empty": ((2, 3),),
    }.items():  # fmt: skip
        found, wanted = getattr(xp, name)(*args, dtype=ours), getattr(strict, name)(*args, dtype=theirs)
        assert (found.dtype, found.shape) == (ours, wanted.shape)
        if name != "empty":
            same(found, wanted)
        like = getattr(xp, f"{name}_like", None)
        if like is not None:
            assert like(found, *([1] if name == "full" else [])).dtype is ours
    same(xp.eye(3, 4, k=1, dtype=ours), strict.eye(3, 4, k=1, dtype=theirs))
    if dtype != "bool":
        same(xp.arange(1, 7, 2, dtype=ours), strict.arange(1, 7, 2, dtype=theirs))
    if dtype in [*FLOATS, *COMPLEX]:
        for endpoint in (True, False):
            a = xp.linspace(0.0, 2.0, 5, dtype=ours, endpoint=endpoint)
            same(a, strict.linspace(0.0, 2.0, 5, dtype=theirs, endpoint=endpoint), exact=False)
    x = np.arange(12).reshape(3, 4).astype(dtype)
    both("tril", x, k=1)
    both("triu", x, k=-1)
    both("meshgrid", x[0], x[1], indexing="ij")
    both("meshgrid", x[0], x[1])


def test_linspace_ends_at_its_stop() -> None:
    """The last number is the one that was given, however far from start, and integers between integers are exact."""
    assert xp.linspace(1.0, 2.0**-126, 2).tolist() == [1.0, 2.0**-126]
    assert xp.linspace(0.1, 0.7, 7, dtype=xp.float64)[-1].item() == 0.7
    found = xp.linspace(0, 28785, 302, dtype=xp.int16)
    assert found.tolist() == np.linspace(0, 28785, 302, dtype="int16").tolist()
    assert xp.linspace(2**62 + 1, 2**62 - 5, 3, dtype=xp.int64).tolist() == [2**62 + 1, 2**62 - 2, 2**62 - 5]
    assert xp.linspace(2**24 + 1, 2**24 + 1, 1, dtype=xp.int32, endpoint=False).tolist() == [2**24 + 1]
    assert xp.linspace(-3, 3, 4, dtype=xp.int32, endpoint=False).tolist() == [-3, -2, 0, 1]
    assert xp.linspace(5, 9, 0, dtype=xp.uint8).shape == (0,)
    with pytest.raises(ShapeError, match=r"^linspace needs a number of elements that is not negative, got -1$"):
        xp.linspace(0, 1, -1, dtype=xp.int32)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_a_dtype_that_is_asked_for_is_that_of_the_result(name: str) -> None:
    """Small ones too, which are wider where none is asked for."""
    for dtype in (xp.uint8, xp.int16, xp.float32):
        found = getattr(xp, name)(xp.asarray([3, 100], dtype=xp.uint8), dtype=dtype)
        assert found.dtype is dtype


def test_asarray_and_dtypes() -> None:
    """Copies where asked, promotion, kinds, limits and what the namespace says of itself."""
    t = xp.asarray([1, 2], dtype=xp.int64)
    assert xp.asarray(t) is t
    assert xp.asarray(t, copy=True) is not t
    with pytest.raises(ValueError, match=r"^copy=False, but a tensor made of list has memory of its own$"):
        xp.asarray([1], copy=False)
    with pytest.raises(ValueError, match=r"^copy=False, but another dtype or device needs memory of its own$"):
        xp.asarray(t, dtype=xp.int8, copy=False)
    assert xp.astype(t, xp.float32).dtype is xp.float32
    for a in EVERY:
        for b in EVERY:
            try:
                wanted = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue  # kinds that the standard does not mix
            assert xp.result_type(getattr(xp, a), getattr(xp, b)) is getattr(xp, str(wanted).rpartition(".")[2])
            assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == strict.can_cast(
                getattr(strict, a), getattr(strict, b)
            )
        for kind in (
            "bool",
            "signed integer",
            "unsigned integer",
            "integral",
            "real floating",
            "complex floating",
            "numeric",
        ):
            assert xp.isdtype(getattr(xp, a), kind) == strict.isdtype(getattr(strict, a), kind)
    for name in [*FLOATS, *COMPLEX]:
        ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.smallest_normal) == (
            theirs.bits, theirs.eps, theirs.max, theirs.min, theirs.smallest_normal
        )  # fmt: skip
    for name in INTEGERS:
        limits = xp.iinfo(getattr(xp, name))
        assert (limits.bits, limits.max, limits.min) == (np.iinfo(name).bits, np.iinfo(name).max, np.iinfo(name).min)
    info = xp.__array_namespace_info__()
    capabilities = info.capabilities()
    assert {k: type(v) for k, v in capabilities.items()} == {
        "boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int
    }  # fmt: skip
    assert xp.sum(xp.ones((1,) * (capabilities["max dimensions"] - 1) + (3,)) + 1).item() == 6
    assert set(info.dtypes()) == set(EVERY)
    assert set(info.dtypes(kind="integral")) == set(INTEGERS)
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int32, "indexing": xp.int32
    }  # fmt: skip
    with pytest.raises(
        ValueError, match=r"^the array API standard is implemented in the versions 2021.12, .*, got '1999.01'$"
    ):
        t.__array_namespace__(api_version="1999.01")


def test_linear_algebra() -> None:
    """The extension, on matrices that are well conditioned."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3), rng.normal(size=(2, 3, 2))
    p = a @ a.transpose(0, 2, 1)
    for name in (
        "det",
        "inv",
        "slogdet",
        "matrix_norm",
        "matrix_rank",
        "pinv",
        "svdvals",
        "trace",
        "diagonal",
        "matrix_transpose",
    ):
        both(f"linalg.{name}", a, exact=False)
    both("linalg.cholesky", p, exact=False)
    both("linalg.eigvalsh", p, exact=False)
    both("linalg.solve", a, b, exact=False)
    both("linalg.matrix_power", a, 3, exact=False)
    both("linalg.vector_norm", a, axis=1, keepdims=True, ord=1, exact=False)
    both("linalg.cross", b.transpose(0, 2, 1), b.transpose(0, 2, 1)[::-1].copy(), exact=False)
    both("linalg.outer", b[0, 0], b[1, 1], exact=False)
    for name in ("matmul", "tensordot", "vecdot"):
        kwargs: dict[str, Any] = {"axes": 1} if name == "tensordot" else {}
        both(name, a[0], p[0], exact=False, **kwargs)
        both(f"linalg.{name}", a[0], p[0], exact=False, **kwargs)
    for name in ("qr", "svd", "eigh"):
        found = getattr(xp.linalg, name)(Tensor(p))
        assert type(found)._fields == type(getattr(strict.linalg, name)(strict.asarray(p)))._fields
    q, r = xp.linalg.qr(Tensor(b))
    np.testing.assert_allclose((q @ r).numpy(), b, atol=1e-12)


@pytest.mark.parametrize("name", ["matmul", "tensordot", "vecdot", "outer", "cross"])
@pytest.mark.parametrize("pair", [("int8", "int8"), ("uint8", "int16"), ("uint16", "uint16"), ("float32", "float64")])
def test_products_have_the_dtype_of_their_operands(name: str, pair: tuple[str, str]) -> None:
    """Sums of products do not grow wider as sum does; they wrap."""
    a, b = (np.array([[3, 5, 7], [9, 100, 2], [4, 4, 90]], dtype=dtype) for dtype in pair)
    if name in ("outer", "cross"):
        a, b = a[0], b[1]
    kwargs: dict[str, Any] = {"axes": 1} if name == "tensordot" else {}
    both(f"linalg.{name}", a, b, exact=False, **kwargs)
    wanted = xp.result_type(getattr(xp, pair[0]), getattr(xp, pair[1]))
    assert getattr(xp.linalg, name)(Tensor(a), Tensor(b), **kwargs).dtype is wanted


@pytest.mark.parametrize("shape", [(2,), (2, 1), (0, 2, 1)])
def test_solve_promotes(shape: tuple[int, ...]) -> None:
    """The solution of float32 and float64 is in float64, whichever is which."""
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(shape)
    for left, right in (("float32", "float64"), ("float64", "float32")):
        found = xp.linalg.solve(Tensor(a.astype(left)), Tensor(b.astype(right)))
        assert found.dtype is xp.float64
        np.testing.assert_allclose(found.numpy(), np.linalg.solve(a, b), rtol=1e-12)
    assert xp.linalg.solve(xp.zeros((0, 0)), xp.zeros((0,), dtype=xp.float64)).dtype is xp.float64


def test_hypothesis_can_generate_arrays() -> None:
    """The strategies of hypothesis for array libraries work with this one."""

    @case(5)
    @given(xps.arrays(xp.float32, (2, 3), elements={"min_value": -1, "max_value": 1}))
    def check(x: Any) -> None:
        assert (x.shape, x.dtype) == ((2, 3), xp.float32)
        assert xp.all(xp.abs(x) <= 1).item()

    check()
