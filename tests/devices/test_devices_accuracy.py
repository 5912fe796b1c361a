"""EXP2, LOG2, SIN, POW and SQRT against the true value: samples of whole ranges, numpy's hard cases, and corners."""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import DEVICES, backend_of
from tinygraft.conformance.kernels import param, run_kernel, store
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

Array = np.ndarray[Any, Any]
TRUE: dict[Ops, Callable[..., Any]] = {
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.POW: np.power, Ops.SQRT: np.sqrt,
}  # fmt: skip
# The most units in the last place that a result may be from the true value; PYTHON's own are 0.5 (float64: libm's 1).
ULPS = {Ops.EXP2: 1.3, Ops.LOG2: 0.55, Ops.SIN: 0.87, Ops.POW: 1.4, Ops.SQRT: 0.5001}
COUNT = {"GPUSIM": 1500, "CPU-llvm": 100_000, "CPU-c": 100_000}
DOUBLES = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no long double here to judge float64 by")
FLOATS = [dtypes.float32, pytest.param(dtypes.float64, marks=DOUBLES)]


def kind(dtype: DType) -> Any:
    """The numpy dtype."""
    return {dtypes.float32: np.float32, dtypes.float64: np.float64}[dtype]


def run(backend: Backend, op: Ops, dtype: DType, *columns: Array) -> Array:
    """op on arrays of dtype."""
    size = len(columns[0])
    r = UOp.range(size, 0)
    loads = [UOp(Ops.LOAD, dtype, (param(i + 1, dtype, size), r)) for i in range(len(columns))]
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtype, size), r, loads[0].alu(op, *loads[1:])),))
    inputs = [c.astype(kind(dtype)).tobytes() for c in columns]
    return np.frombuffer(run_kernel(backend, sink, [bytes(size * dtype.itemsize), *inputs])[0], kind(dtype))


def truth(op: Ops, dtype: DType, *columns: Array) -> Array:
    """The true values, in a wider dtype."""
    wider = np.float64 if dtype is dtypes.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return np.asarray(TRUE[op](*(c.astype(wider) for c in columns)))


def distances(got: Array, want: Array, dtype: DType) -> Array:
    """How many units in the last place each of got is away from want; inf where only one is NaN, infinite or a zero."""
    info = np.finfo(kind(dtype))
    with np.errstate(all="ignore"):
        rounded = want.astype(kind(dtype))
        wide = want.astype(np.longdouble)
        exponent = np.maximum(np.frexp(np.abs(wide))[1] - 1, info.minexp)
        units = np.abs(got.astype(np.longdouble) - wide) / np.ldexp(np.longdouble(1), exponent - info.nmant)
        alike = (np.isnan(got) & np.isnan(rounded)) | ((got == rounded) & (np.signbit(got) == np.signbit(rounded)))
        plain = np.isfinite(got) & np.isfinite(rounded) & ~((got == 0) & (rounded == 0))
        return np.asarray(np.where(plain, units, np.where(alike, 0.0, np.inf)).astype(float))


def samples(op: Ops, dtype: DType, count: int) -> tuple[Array, ...]:
    """Operands of op: all bit patterns alike, and where its values are interesting."""
    chance = np.random.default_rng(7)
    whole = chance.integers(0, 2**dtype.bits, count, np.uint64 if dtype.bits == 64 else np.uint32).view(kind(dtype))
    most = 128.0 if dtype is dtypes.float32 else 1024.0
    if op is Ops.POW:
        near_one = chance.uniform(0.8, 1.25, count), chance.uniform(-most * 3, most * 3, count)
        wide = np.exp2(chance.uniform(-most, most, count)), chance.uniform(-1.5, 1.5, count)
        powers = chance.uniform(-10, 10, count), chance.integers(-40, 40, count).astype(float)
        return tuple(np.concatenate(parts).astype(kind(dtype)) for parts in zip(near_one, wide, powers, strict=True))
    turns = np.arange(1, count // 4) * (np.pi / 2)
    others = {Ops.EXP2: chance.uniform(-most - 30, most + 1, count), Ops.SIN: np.concatenate([turns, turns * 1e5])}
    return (np.concatenate([whole, others.get(op, chance.uniform(0.4, 2.1, count)).astype(kind(dtype))]),)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", sorted(TRUE), ids=lambda op: op.name)
@pytest.mark.parametrize("name", DEVICES)
def test_samples_are_within_the_bound(name: str, op: Ops, dtype: DType) -> None:
    """Over the whole range of the dtype a result is within the stated distance of the true value."""
    columns = samples(op, dtype, COUNT[name])
    away = distances(run(backend_of(name), op, dtype, *columns), truth(op, dtype, *columns), dtype)
    worst = int(np.argmax(away))
    assert away[worst] <= ULPS[op], [float(c[worst]) for c in columns]


VALIDATION = Path(np.__file__).parent / "_core" / "tests" / "data"


@pytest.mark.parametrize("op", [Ops.EXP2, Ops.LOG2, Ops.SIN], ids=lambda op: op.name)
@pytest.mark.parametrize("name", DEVICES)
def test_numpys_hard_cases(name: str, op: Ops) -> None:
    """The cases that numpy validates its own functions with agree within the greater of its bound and ours."""
    file = VALIDATION / f"umath-validation-set-{op.name.lower()}.csv"
    if not file.exists():
        pytest.skip(f"this numpy has no {file.name}")
    with file.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith(("#", "\n"))))
    for dtype, label in ((dtypes.float32, "np.float32"), (dtypes.float64, "np.float64")):
        chosen = [row for row in rows if row["dtype"] == label]
        bits = np.uint32 if dtype is dtypes.float32 else np.uint64
        given = np.array([int(row["input"], 16) for row in chosen], bits).view(kind(dtype))
        want = np.array([int(row["output"], 16) for row in chosen], bits).view(kind(dtype))
        allowed = np.array([max(float(row["ulperrortol"]), math.ceil(ULPS[op])) for row in chosen])
        assert len(given) > 300
        away = distances(run(backend_of(name), op, dtype, given), want, dtype)
        assert [float(x) for x in given[away > allowed]] == [], dtype


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
        assert away.max() <= ULPS[Ops.SIN], (given, away)


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
