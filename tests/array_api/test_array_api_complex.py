"""Complex numbers and Fourier transforms of the array API standard, beside array-api-strict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beside_strict import COMPLEX, EVERY, FLOATS, Array, arrays, both, case, same, strict
from tinygraft import Tensor
from tinygraft import array_api as xp

pytestmark = pytest.mark.slow

ONE = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh", "exp", "expm1", "imag", "isfinite",
    "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive", "real", "round", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh",
]  # fmt: skip
TWO = ["add", "subtract", "multiply", "divide", "equal", "not_equal", "pow"]
KEPT = ["fft", "ifft", "fftn", "ifftn", "irfft", "irfftn", "hfft"]  # that take complex numbers
REAL = ["rfft", "rfftn", "ihfft"]  # that take real ones


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name: str) -> None:
    """On the axes too, where functions have their cuts."""

    @case(12)
    @given(arrays(COMPLEX))
    def check(x: Array) -> None:
        if name in ("acos", "asin", "atan", "acosh", "atanh", "log", "log2", "log10", "log1p"):
            x = np.asarray(x + x.dtype.type(0.25 + 0.5j))  # beside poles and cuts
        both(name, x, exact=False)

    check()


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two(name: str) -> None:
    """With each other, and with real numbers of the same kind of width."""

    @case(12)
    @given(st.data(), st.sampled_from(COMPLEX))
    def check(data: Any, dtype: str) -> None:
        a = data.draw(arrays(dtype))
        b = np.asarray(data.draw(arrays(dtype, a.shape)) + (1.5 + 0.5j)).astype(dtype)
        if name == "pow":
            a = np.asarray(a + (2.5 + 0.5j)).astype(dtype)
            b = np.asarray(b / 4).astype(dtype)
        both(name, a, b, exact=False)

    check()


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "all", "any", "count_nonzero"])
def test_reductions(name: str) -> None:
    """Over all axes and over one."""

    @case(10)
    @given(arrays(COMPLEX, low=1))
    def check(x: Array) -> None:
        x = np.asarray(x / 2).astype(x.dtype)
        both(name, x, exact=False)
        if x.ndim:
            both(name, x, axis=0, keepdims=True, exact=False)

    check()


def test_sums_sets_and_products() -> None:
    """Running ones, distinct values, places of what is not 0, matrices."""

    @case(20)
    @given(arrays(COMPLEX, low=1, dims=1))
    def check(x: Array) -> None:
        both("cumulative_sum", x, axis=0, include_initial=True, exact=False)
        both("cumulative_prod", np.asarray(x / 4).astype(x.dtype), axis=-1, exact=False)
        both("diff", x, exact=False)
        for name in ("unique_values", "unique_counts", "unique_inverse", "unique_all", "nonzero"):
            both(name, x)
        both("vecdot", x, x, exact=False)
        both("linalg.vector_norm", x, exact=False)
        if x.ndim > 1:
            both("matmul", x, np.swapaxes(x, -1, -2), exact=False)
            both("tensordot", x, x, axes=((0,), (0,)), exact=False)
            both("linalg.trace", x, exact=False)
            both("linalg.matrix_norm", x, exact=False)

    check()


@pytest.mark.parametrize("name", [*KEPT, *REAL])
def test_transforms(name: str) -> None:
    """Of all lengths and norms, along any axis."""

    @case(12)
    @given(st.data(), st.sampled_from(["backward", "ortho", "forward"]))
    def check(data: Any, norm: str) -> None:
        x = data.draw(arrays(FLOATS if name in REAL else COMPLEX, low=2, dims=1))
        x = np.nan_to_num(x, posinf=2.0, neginf=-3.0)
        axis, n = data.draw(st.integers(-x.ndim, x.ndim - 1)), data.draw(st.none() | st.integers(1, 6))
        if name.endswith("n"):
            both(f"fft.{name}", x, s=None if n is None else [n], axes=[axis], norm=norm, exact=False)
            both(f"fft.{name}", x, norm=norm, exact=False)
        else:
            both(f"fft.{name}", x, n=n, axis=axis, norm=norm, exact=False)

    check()


def test_frequencies_and_shifts() -> None:
    """As the standard has them; shifts of every dtype."""
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(xp.fft, name)(n, d=0.5, dtype=xp.float64)
            same(found, getattr(strict.fft, name)(n, d=0.5, dtype=strict.float64), exact=False)
    for dtype in (*FLOATS, *COMPLEX):
        both("fft.fftshift", np.arange(6).reshape(2, 3).astype(dtype))
        both("fft.ifftshift", np.arange(5).astype(dtype), axes=0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [(lambda: xp.fft.rfft(xp.asarray([1j])), r"^rfft transforms real floats, got dtypes.complex64\n  made at "),
     (lambda: xp.fft.fft(xp.asarray([1])), r"^fft transforms real floats or complex numbers, got dtypes.int\n"),
     (lambda: xp.fft.fftfreq(4, dtype=xp.complex64), r"^fftfreq gives real floats, got dtypes.complex64$"),
     (lambda: xp.floor(xp.asarray([1j])), r"^floor is not defined for dtypes.complex64\n"),
     (lambda: xp.astype(xp.asarray([1j]), xp.float32), r"^cannot cast dtypes.complex64 to dtypes.float: that would")],
)  # fmt: skip
def test_what_is_refused(wrong: Any, sentence: str) -> None:
    """A TypeError, as array-api-strict raises."""
    with pytest.raises(TypeError, match=sentence):
        wrong()


def test_python_numbers_and_dtypes() -> None:
    """A complex number beside an array makes it complex; what an empty complex() becomes."""
    assert xp.asarray(0j).dtype is xp.complex64
    assert (xp.asarray([1.0], dtype=xp.float64) * 1j).dtype is xp.complex128
    for name in EVERY:
        assert xp.astype(xp.asarray([1, 0]), getattr(xp, name)).dtype is getattr(xp, name)
    x = xp.asarray([1 + 2j])
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match=r"^copy=False, but another dtype or device needs memory of its own$"):
        xp.asarray(x, dtype=xp.complex128, copy=False)
    assert isinstance(xp.real(x), Tensor) and not xp.real(x).is_complex()
