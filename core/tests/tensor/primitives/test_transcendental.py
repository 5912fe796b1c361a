"""Functions of one number against numpy, near zero, far out and at special numbers; and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_numpy import evaluate, values
from tinygraft import Tensor, dtypes

ERF = np.vectorize(math.erf, otypes=[np.float64])
LINE = np.concatenate([np.linspace(-12, 12, 193), [1e-12, -1e-9, 1e-6, -1e-4, 1e-3, -0.02, 50.0, -50.0, 300.5]])
UNIT = np.concatenate([np.linspace(-1, 1, 101)[1:-1], [1e-9, -1e-6, 1e-4, -1e-3]])
ABOVE = np.concatenate([np.geomspace(1e-6, 1e6, 61), [1.0, 1.0001, 0.9999]])
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "sqrt": (np.sqrt, ABOVE), "rsqrt": (lambda x: 1 / np.sqrt(x), ABOVE), "reciprocal": (np.reciprocal, ABOVE),
    "exp": (np.exp, LINE[np.abs(LINE) < 60]), "exp2": (np.exp2, LINE[np.abs(LINE) < 60]),
    "expm1": (np.expm1, LINE[np.abs(LINE) < 60]), "log": (np.log, ABOVE), "log2": (np.log2, ABOVE),
    "log10": (np.log10, ABOVE), "log1p": (np.log1p, np.concatenate([ABOVE, UNIT])), "sin": (np.sin, LINE),
    "cos": (np.cos, LINE), "tan": (np.tan, LINE[np.abs(LINE) < 4.6]), "asin": (np.arcsin, UNIT),
    "acos": (np.arccos, UNIT), "atan": (np.arctan, LINE), "sinh": (np.sinh, LINE[np.abs(LINE) < 60]),
    "cosh": (np.cosh, LINE[np.abs(LINE) < 60]), "tanh": (np.tanh, LINE), "asinh": (np.arcsinh, LINE),
    "acosh": (np.arccosh, 1 + ABOVE), "atanh": (np.arctanh, UNIT), "erf": (ERF, LINE),
}  # fmt: skip
ABSOLUTE = {"sin", "cos", "log", "log2", "log10"}  # near their zeros only the absolute error is small


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values(name: str, dtype: Any) -> None:
    """The relative error is a few units in the last place, in both dtypes, also near zero."""
    function, data = FUNCTIONS[name]
    x = data.astype(dtype)
    unit = float(np.finfo(dtype).eps)
    wanted = function(x.astype(np.float64))
    rtol = unit * (60 if name == "tan" else 12)
    got = values(getattr(Tensor(x), name)())
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=4 * unit if name in ABSOLUTE else 0)


@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "cosh"])
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 88.7), (np.float64, 709.7)])
def test_powers_of_e_keep_their_precision_to_the_limits(name: str, dtype: Any, limit: float) -> None:
    """Up to the greatest result of a dtype, and down to its least normal one, the error is below four units."""
    x = np.concatenate([np.linspace(-0.98 * limit, limit, 997), [limit + 0.6]]).astype(dtype)
    x = x if name in ("sinh", "cosh") else x[:-1]
    wanted = getattr(np, name)(x.astype(np.longdouble))
    error = np.abs(values(getattr(Tensor(x), name)()) - wanted) / np.spacing(np.abs(wanted).astype(dtype))
    assert error.max() < 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name: str) -> None:
    """Zeros, infinities, NaN and the edges of the domain give what numpy gives, zeros with their signs."""
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -2.0, 3e38, -3e38], np.float32)
    function = FUNCTIONS[name][0]
    if name in ("sin", "cos", "tan"):
        x = x[:8]
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64)).astype(np.float32)
    found = values(getattr(Tensor(x), name)())
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
    zero = (wanted == 0) & (found == 0)
    assert np.signbit(found)[zero].tolist() == np.signbit(wanted)[zero].tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_types_are_rounded_once(name: str) -> None:
    """float16 gives the float32 result rounded to float16; integers give the default float."""
    function, data = FUNCTIONS[name]
    x = data[np.abs(data) < 9][::7].astype(np.float16)
    got = values(getattr(Tensor(x), name)())
    assert got.dtype == np.float16
    with np.errstate(over="ignore"):
        wanted = function(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(got, wanted, rtol=1.1e-3, atol=1e-6)
    assert getattr(Tensor([1]), name)().dtype is dtypes.float
    assert getattr(Tensor([1.0]).bfloat16(), name)().dtype is dtypes.bfloat16


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    """The gradient is the finite difference in float64, and no NaN where the function is smooth."""
    data = FUNCTIONS[name][1]
    x = data[(np.abs(data) > 1e-3) & (np.abs(data) < 6)][::5]
    x = x[x > 1.1] if name == "acosh" else x
    x = (
        np.concatenate([x, [0.0]])
        if name not in ("sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "acosh")
        else x
    )
    t = Tensor(x)
    function = getattr(Tensor, name)
    (found,) = function(t).sum().gradient(t)
    step = 1e-6
    wanted = (evaluate(function(Tensor(x + step)).uop) - evaluate(function(Tensor(x - step)).uop)) / (2 * step)
    np.testing.assert_allclose(values(found), wanted, rtol=2e-6, atol=2e-8)


@pytest.mark.parametrize("name", ["exp", "tanh", "sinh", "erf", "atan", "asinh", "expm1", "log1p"])
def test_derivatives_of_large_numbers_are_no_nan(name: str) -> None:
    """The branch that is not taken adds no NaN to the gradient."""
    t = Tensor([1e20, 300.0, 0.0] if name in ("log1p",) else [1e20, -1e20, 300.0, -300.0, 0.0])
    (found,) = getattr(t, name)().sum().gradient(t)
    assert not np.isnan(values(found)).any()


def test_logaddexp_of_special_numbers() -> None:
    """logaddexp is numpy's for equal infinities and far apart numbers."""
    some = [0.0, 1.0, -1.0, 1000.0, -1000.0, np.inf, -np.inf, np.nan]
    a, b = (np.array(side, np.float32) for side in zip(*[(x, y) for x in some for y in some], strict=True))
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp(a, b)
    np.testing.assert_allclose(values(Tensor(a).logaddexp(Tensor(b))), wanted, rtol=1e-6)
