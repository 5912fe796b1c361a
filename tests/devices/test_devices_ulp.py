"""Functions of one number in units in the last place: numpy's own validation sets, and special functions by mpmath.

STATED has how many units in the last place a function may be from numpy's values, which are the true ones, rounded.
"""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor

Array = np.ndarray[Any, Any]
VALIDATION = Path(np.__file__).parent / "_core" / "tests" / "data"
# numpy's name: (our name, units for float32, units for float64)
STATED = {
    "arccos": ("acos", 1, 1), "arccosh": ("acosh", 2, 2), "arcsin": ("asin", 1, 1), "arcsinh": ("asinh", 2, 2),
    "arctan": ("atan", 1, 1), "arctanh": ("atanh", 2, 2), "cos": ("cos", 1, 1), "cosh": ("cosh", 2, 1),
    "cbrt": ("cbrt", 2, 2), "exp": ("exp", 1, 1), "exp2": ("exp2", 1, 1), "expm1": ("expm1", 1, 1),
    "log": ("log", 1, 1), "log10": ("log10", 2, 1), "log1p": ("log1p", 1, 1), "log2": ("log2", 1, 1),
    "sin": ("sin", 1, 1), "sinh": ("sinh", 2, 1), "tan": ("tan", 1, 1), "tanh": ("tanh", 1, 1),
}  # fmt: skip
KINDS = [np.float32, np.float64]


def float_steps(got: Array, want: Array) -> Array:
    """Return how many floats are between each pair; 0 for equal values and two NaNs, inf for different signs."""
    bits = np.int32 if got.dtype == np.float32 else np.int64
    steps = np.abs(np.abs(got).view(bits).astype(np.int64) - np.abs(want).view(bits).astype(np.int64)).astype(float)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.signbit(got) == np.signbit(want), steps, np.inf))


def cases(name: str, kind: Any) -> tuple[Array, Array]:
    """Inputs and outputs of a validation set."""
    file = VALIDATION / f"umath-validation-set-{name}.csv"
    if not file.exists():
        pytest.skip(f"this numpy has no {file.name}")
    with file.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith(("#", "\n"))))
    chosen = [row for row in rows if row["dtype"] == f"np.{np.dtype(kind).name}"]
    bits = np.uint32 if kind is np.float32 else np.uint64
    x, want = (np.array([int(row[column], 16) for row in chosen], bits).view(kind) for column in ("input", "output"))
    return x, want


@pytest.mark.parametrize("kind", KINDS, ids=["single", "double"])
@pytest.mark.parametrize("name", sorted(STATED))
def test_numpys_cases(name: str, kind: Any) -> None:
    """Each case is within our bound, also where numpy allows itself more, and cos and tan of many turns too."""
    ours, *stated = STATED[name]
    x, want = cases(name, kind)
    assert len(x) > 100
    got = getattr(Tensor(x), ours)().numpy()
    wrong = float_steps(got, want) > stated[kind is np.float64]
    assert [(float(a), float(g), float(w)) for a, g, w in zip(x[wrong], got[wrong], want[wrong], strict=True)] == []


MPMATH: dict[str, tuple[str, float, float, int, int]] = {
    # name: mpmath's expression of x, from, to, units for float32 and float64
    "erfc": ("erfc(x)", -6, 26, 1, 1), "erfcx": ("exp(x * x) * erfc(x)", -5, 25, 3, 3),
    "erfinv": ("erfinv(x)", -1, 1, 3, 3),
    "ndtr": ("erfc(-x / sqrt(2)) / 2", -36, 9, 4, 4), "ndtri": ("sqrt(2) * erfinv(2 * x - 1)", 0, 1, 3, 3),
    "log_ndtr": ("log(erfc(-x / sqrt(2)) / 2)", -30, 9, 4, 3), "entr": ("-x * log(x)", 0, 30, 2, 2),
    "lgamma": ("loggamma(x)", 0, 40, 1, 2), "digamma": ("digamma(x)", 0, 40, 3, 3),
    "i0": ("besseli(0, x)", -80, 80, 4, 4), "i0e": ("besseli(0, x) * exp(-abs(x))", -80, 80, 5, 4),
    "i1": ("besseli(1, x)", -80, 80, 6, 5), "i1e": ("besseli(1, x) * exp(-abs(x))", -80, 80, 6, 5),
    "sinc": ("sincpi(x)", -10, 10, 3, 3), "logit": ("log(x / (1 - x))", 0, 1, 3, 3),
    "cos": ("cos(x)", -8000, 8000, 1, 1), "tan": ("tan(x)", -8000, 8000, 1, 1),
}  # fmt: skip


def _unit(mpmath: Any, size: Any, kind: Any) -> Any:
    """A unit in the last place of a number of this size."""
    return mpmath.ldexp(float(np.finfo(kind).eps), int(mpmath.floor(mpmath.log(size, 2))))


@pytest.mark.parametrize("kind", KINDS, ids=["single", "double"])
@pytest.mark.parametrize("name", sorted(MPMATH))
def test_special_functions(name: str, kind: Any) -> None:
    """A function is within its stated bound of the true value, also beside its zeros and at the ends of its range."""
    mpmath = pytest.importorskip("mpmath", reason="no mpmath here, which knows the true values")
    text, low, high, *stated = MPMATH[name]
    chance = np.random.default_rng(5)
    x = np.concatenate([chance.uniform(low, high, 100), chance.uniform(max(low, 0.9), min(high, 1.1), 20)])
    if high > 30:
        x = np.concatenate([x, (2 * np.arange(40) + 1) * (math.pi / 2)])
    x = x[(x >= low) & (x <= high)].astype(kind)
    function: Callable[..., Any] = eval(f"lambda x: {text}", {**vars(mpmath), "abs": abs})
    with mpmath.workdps(40):
        true = [function(mpmath.mpf(float(v))) for v in x]
        got = getattr(Tensor(x), name)().numpy()
        least = mpmath.mpf(float(np.finfo(kind).smallest_normal))
        units = [
            float(abs(float(g) - t) / _unit(mpmath, max(abs(t), least), kind)) for g, t in zip(got, true, strict=True)
        ]
    worst = int(np.argmax(units))
    assert units[worst] <= stated[kind is np.float64], (float(x[worst]), float(got[worst]), float(true[worst]))
