"""What LLVM's kernels compute behind a branch: the far arguments of sine, in lanes, copies, scalars, sums and gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor

FAR_OF = {np.float32: 2.0**16, np.float64: 2.0**30}


def mixed(dtype: Any, count: int, far: float) -> Any:
    """`count` arguments, a part `far` of them above the limit; with zeros, infinities, NaN and the limit itself."""
    rng = np.random.default_rng(count)
    limit = dtype(FAR_OF[dtype])
    x = rng.uniform(-100, 100, count).astype(dtype)
    beyond = rng.random(count) < far
    x[beyond] = (limit * rng.uniform(1, 1000, count)).astype(dtype)[beyond]
    edge = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        limit,
        np.nextafter(limit, dtype(np.inf)),
        np.nextafter(limit, dtype(0)),
    ]
    x[: len(edge)] = np.array(edge, dtype)[:count]
    return x


def close(got: Any, x: Any, name: str) -> None:
    """Within a unit in the last place of the function in long double; NaN where that is, with the sign of zeros."""
    with np.errstate(invalid="ignore"):
        want = getattr(np, name)(x.astype(np.longdouble))
    assert (np.isnan(got) == np.isnan(want)).all()
    there = ~np.isnan(want)
    unit = np.spacing(np.abs(want[there].astype(got.dtype)))
    assert (np.abs(got[there] - want[there]) <= unit).all()
    assert (np.signbit(got[x == 0]) == np.signbit(want[x == 0])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("far", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("count", [3, 17, 1000, 70_001])
def test_near_and_far_arguments(name: str, count: int, far: float, dtype: Any) -> None:
    """Lanes that are far take their own value, others that of the short path, in any mixture."""
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("needs a long double of more digits")
    x = mixed(dtype, count, far)
    close(getattr(Tensor(x), name)().numpy(), x, name)


@pytest.mark.parametrize("name", ["digamma", "lgamma", "sinc", "erfinv"])
def test_choices_inside_of_choices(name: str) -> None:
    """No branch is inside of another; what a function chooses by several conditions is what the PYTHON device has."""
    x = np.random.default_rng(3).uniform(-0.99, 0.99, 2000).astype(np.float32)
    here = getattr(Tensor(x), name)().numpy()
    there = getattr(Tensor(x[:100], device="PYTHON"), name)().numpy()
    np.testing.assert_allclose(here[:100], there, rtol=2e-5, atol=2e-5)


def test_several_in_one_kernel_and_in_sums() -> None:
    """Two functions of one argument and of another, and as terms of a sum in a loop."""
    x, y = mixed(np.float32, 4096, 0.1), mixed(np.float32, 4096, 0.3)[::-1].copy()
    a, b = Tensor(x), Tensor(y)
    with np.errstate(invalid="ignore"):
        sines = np.sin(x.astype(np.float64)) * np.cos(y.astype(np.float64)) + np.cos(x.astype(np.float64))
    np.testing.assert_allclose((a.sin() * b.cos() + a.cos()).numpy(), sines, rtol=1e-5, atol=1e-6)
    finite = np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0).reshape(64, 64)
    total = np.sin(finite.astype(np.float64)).sum(1)
    np.testing.assert_allclose(Tensor(finite).sin().sum(1).numpy(), total, rtol=1e-4, atol=1e-4)
    with Context(NOOPT=1):
        np.testing.assert_allclose(Tensor(finite).sin().sum(1).numpy(), total, rtol=1e-4, atol=1e-4)
