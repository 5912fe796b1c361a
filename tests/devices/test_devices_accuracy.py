"""EXP2, LOG2, SIN, POW and SQRT against the true value: samples of whole ranges, numpy's hard cases, and corners."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from backends import DEVICES, backend_of
from tinygraft.conformance.accuracy import TRUE, allowed, distances, run, samples, truth
from tinygraft.conformance.corpus import NAMES
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import Ops

pytestmark = pytest.mark.slow

COUNT = {"GPUSIM": 1500, "CPU-llvm": 40_000, "CPU-c": 40_000}
FLOATS = [dtypes.float32, dtypes.float64]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", sorted(TRUE), ids=lambda op: op.name)
@pytest.mark.parametrize("name", DEVICES)
def test_samples_are_within_the_bound(name: str, op: Ops, dtype: DType) -> None:
    """Over the whole range of the dtype a result is within the stated distance of the true value."""
    columns = samples(op, dtype, COUNT[name])
    away = distances(run(backend_of(name), op, dtype, *columns), truth(op, dtype, *columns), dtype)
    worst = int(np.argmax(away))
    assert away[worst] <= allowed(op, dtype), [float(c[worst]) for c in columns]


VALIDATION = Path(np.__file__).parent / "_core" / "tests" / "data"


def test_the_bounds_are_tight() -> None:
    """No function may be further away than 1.5 units in float32, nor than 6 in float64, where less is known."""
    assert max(allowed(op, dtypes.float32) for op in TRUE) <= 1.5
    assert max(allowed(op, dtypes.float64) for op in TRUE) <= 6


@pytest.mark.parametrize(
    ("op", "units"), [(Ops.EXP2, 2), (Ops.LOG2, 1), (Ops.SIN, 1)], ids=lambda v: getattr(v, "name", "")
)
@pytest.mark.parametrize("name", DEVICES)
def test_numpys_hard_cases(name: str, op: Ops, units: int) -> None:
    """The cases that numpy validates its own functions with agree within the greater of its bound and units."""
    file = VALIDATION / f"umath-validation-set-{op.name.lower()}.csv"
    if not file.exists():
        pytest.skip(f"this numpy has no {file.name}")
    with file.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith(("#", "\n"))))
    for dtype, label in ((dtypes.float32, "np.float32"), (dtypes.float64, "np.float64")):
        chosen = [row for row in rows if row["dtype"] == label]
        bits = np.uint32 if dtype is dtypes.float32 else np.uint64
        given = np.array([int(row["input"], 16) for row in chosen], bits).view(NAMES[dtype])
        want = np.array([int(row["output"], 16) for row in chosen], bits).view(NAMES[dtype])
        bound = np.array([max(float(row["ulperrortol"]), units) for row in chosen])
        assert len(given) > 300
        away = distances(run(backend_of(name), op, dtype, given), want, dtype)
        assert [float(x) for x in given[away > bound]] == [], dtype


@pytest.mark.parametrize("name", DEVICES)
def test_sine_of_the_hardest_arguments(name: str) -> None:
    """Next to multiples of pi/2, where most digits cancel, all digits are right: for the nearest floats there are.

    The expected values were computed with mpmath at 1400 bits.
    """
    double, single = 6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72
    doubles = {
        double: 1.0,
        2 * double: -9.374331848509255e-19,
        1e22: -0.8522008497671888,
        math.pi: 1.2246467991473532e-16,
    }
    singles = {single: 1.0, 2 * single: -3.2295395964952422e-09}
    for dtype, cases in ((dtypes.float64, doubles), (dtypes.float32, singles)):
        given = np.array([*cases, *(-x for x in cases)])
        want = np.array([*cases.values(), *(-x for x in cases.values())])
        away = distances(run(backend_of(name), Ops.SIN, dtype, given), want, dtype)
        assert away.max() <= allowed(Ops.SIN, dtype), (given, away)


@pytest.mark.parametrize("name", DEVICES)
def test_power_at_the_corners(name: str) -> None:
    """Every pair of zeros, units, infinities, NaN and odd and even whole numbers gives what C's pow gives."""
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324,
               9007199254740991.0, -9007199254740991.0, 9007199254740992.0, 1e300, -1e300]  # fmt: skip
    x, y = np.meshgrid(np.array(corners), np.array(corners))
    got = run(backend_of(name), Ops.POW, dtypes.float64, x.ravel(), y.ravel())
    with np.errstate(all="ignore"):
        want = np.power(x.ravel(), y.ravel())
    away = distances(got, want, dtypes.float64)
    assert [(a, b, g, w) for a, b, g, w, d in zip(x.ravel(), y.ravel(), got, want, away, strict=True) if d > 1] == []
