"""Special functions: their gradients at zeros, at ends of the range, and where values overflow."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tinygraft import Tensor

INF, NAN = math.inf, math.nan
# gradients at points, from the formulas; at the kink of i0e PyTorch has 0, too
ENDS: dict[str, dict[float, float]] = {
    "i0e": {0.0: 0.0, INF: 0.0, NAN: NAN},
    "i0": {0.0: 0.0, 800.0: INF, -800.0: -INF, NAN: NAN},
    "i1": {0.0: 0.5, 800.0: INF, -800.0: INF, NAN: NAN},
    "i1e": {0.0: 0.5, NAN: NAN},
    "ndtr": {0.0: 1 / math.sqrt(2 * math.pi), 50.0: 0.0, -50.0: 0.0, INF: 0.0, -INF: 0.0, NAN: NAN},
    "log_ndtr": {50.0: 0.0, INF: 0.0, NAN: NAN, 0.0: math.sqrt(2 / math.pi)},
    "erfcx": {-30.0: -INF, 0.0: -2 / math.sqrt(math.pi), NAN: NAN},
    "entr": {0.0: INF, 1.0: -1.0, -1.0: NAN, NAN: NAN},
    "logit": {0.0: INF, 1.0: INF, 0.5: 4.0, -1.0: NAN, 2.0: NAN, NAN: NAN},
    "sinc": {0.0: 0.0, 1e-38: -(math.pi**2) / 3 * 1e-38, 1.0: -1.0, NAN: NAN},
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ENDS)
def test_gradients_at_the_ends_of_the_range(name: str, dtype: str) -> None:
    """Each is the number, the infinity or the NaN of its formula."""
    cases = [(x, wanted) for x, wanted in ENDS[name].items() if dtype != "float16" or abs(x) != 1e-38]
    cases += [(-0.0, wanted) for x, wanted in cases if x == 0 and name != "logit"]
    x = Tensor([x for x, _ in cases], dtype=dtype)
    found = getattr(x, name)().sum().gradient(x)[0].numpy()
    exact = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(found, [wanted for _, wanted in cases], rtol=exact, atol=0)


TRUE = {
    "i0e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), "i0": lambda x: mpmath.besseli(0, x),
    "i1": lambda x: mpmath.besseli(1, x), "i1e": lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x),
    "ndtr": mpmath.ncdf, "log_ndtr": lambda x: mpmath.log(mpmath.ncdf(x)),
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "entr": lambda x: -x * mpmath.log(x), "logit": lambda x: mpmath.log(x / (1 - x)),
    "sinc": lambda x: mpmath.sincpi(x),
}  # fmt: skip


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", TRUE)
def test_derivatives_are_those_of_mpmath(name: str, order: int) -> None:
    """First and second ones in float64, close to zero and far from it, on both sides where there are two."""
    points = [1e-7, 0.01, 0.3, 0.45, 0.499, 0.501, 0.7, 0.9]
    if name not in ("entr", "logit"):
        points += [1.7, 3.2, 7.9, 8.1, 20.0, *[-x for x in (1e-7, 0.01, 0.4, 0.9, 1.7, 3.2, 7.9, 8.1, 20.0)]]
    x = Tensor(points, dtype="float64")
    found = getattr(x, name)()
    for _ in range(order):
        found = found.sum().gradient(x)[0]
    with mpmath.workdps(60):
        wanted = [float(mpmath.diff(TRUE[name], mpmath.mpf(point), order)) for point in points]
    # what is left of numbers near 1 has their rounding error
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-11, atol=3e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_derivatives_of_the_normal_distribution_far_away(dtype: str) -> None:
    """They are 0 where there is nothing left to change, and NaN of NaN."""
    x = Tensor([15.0, 50.0, 300.0, INF, NAN, -30.0], dtype=dtype)
    second = {}
    for name in ("ndtr", "log_ndtr"):
        (first,) = getattr(x, name)().sum().gradient(x)
        second[name] = first.sum().gradient(x)[0].numpy()
    np.testing.assert_allclose(second["ndtr"], [0, 0, 0, 0, NAN, 0], atol=1e-40)
    np.testing.assert_allclose(second["log_ndtr"], [0, 0, 0, 0, NAN, -0.998896], atol=2e-6)
