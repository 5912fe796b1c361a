"""The accuracy of the functions, POW and SQRT: sampled operands, true values, distances in ulps and what is allowed.

Level ops checks every device with these; docs/conformance.md prints the bounds (ULPS).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygraft.conformance.corpus import NAMES
from tinygraft.conformance.flushed import flushed, operand_choices
from tinygraft.conformance.kernels import param, run_kernel, store
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array, of_numpy
from tinygraft.target import Target
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.uop import UOp

ACCURACY = {op: facts.accuracy for op, facts in FACTS.items() if facts.accuracy is not None}
TRUE = {op: of_numpy(op) for op in ACCURACY}
# The most units in the last place that a result may be from the true value; PYTHON's own are 0.5 (float64: libm's 1).
ULPS = {op: accuracy.ulps for op, accuracy in ACCURACY.items()}
SLACK = 0.0 if np.finfo(np.longdouble).nmant >= 60 else 1.0  # of float64, where nothing here is more exact


def allowed(op: Ops, dtype: DType) -> float:
    """Return how many units in the last place a result may be from what `truth` returns."""
    unknown = ACCURACY[op].python or SLACK
    return ULPS[op] + (unknown if dtype is dtypes.float64 else 0.0)


def run(backend: Backend, op: Ops, dtype: DType, *columns: Array) -> Array:
    """Compute `op` on arrays of `dtype`, in one kernel on a backend. Returns its results."""
    size = len(columns[0])
    r = UOp.range(size, 0)
    loads = [UOp(Ops.LOAD, dtype, (param(i + 1, dtype, size), r)) for i in range(len(columns))]
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtype, size), r, loads[0].alu(op, *loads[1:])),))
    inputs = [c.astype(NAMES[dtype]).tobytes() for c in columns]
    return np.frombuffer(run_kernel(backend, sink, [bytes(size * dtype.itemsize), *inputs])[0], NAMES[dtype])


def truth(op: Ops, dtype: DType, *columns: Array) -> Array:
    """Return the true values of `op`, computed by numpy in a wider dtype."""
    wider = np.float64 if dtype is dtypes.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return np.asarray(TRUE[op](*(c.astype(wider) for c in columns)))


def distances(got: Array, want: Array, dtype: DType) -> Array:
    """Return how many ulps of `dtype` each of `got` is from `want`; inf where only one is NaN, infinite or 0."""
    info = np.finfo(NAMES[dtype])
    with np.errstate(all="ignore"):
        rounded = want.astype(NAMES[dtype])
        wide = want.astype(np.longdouble)
        exponent = np.maximum(np.frexp(np.abs(wide))[1] - 1, info.minexp)
        units = np.abs(got.astype(np.longdouble) - wide) / np.ldexp(np.longdouble(1), exponent - info.nmant)
        alike = (np.isnan(got) & np.isnan(rounded)) | ((got == rounded) & (np.signbit(got) == np.signbit(rounded)))
        plain = np.isfinite(got) & np.isfinite(rounded) & ~((got == 0) & (rounded == 0))
        return np.asarray(np.where(plain, units, np.where(alike, 0.0, np.inf)).astype(float))


def least_distances(target: Target, op: Ops, dtype: DType, got: Array, columns: Sequence[Array]) -> Array:
    """Return how many ulps results of `op` on `columns` are from what a device of `target` may give.

    That is the true value, and where the Target flushes subnormal numbers also the true value of flushed operands, and
    0 for either where it is subnormal.
    """
    found = []
    for operands in operand_choices(target, dtype, columns):
        want = truth(op, dtype, *operands)
        found += [distances(got, one, dtype) for one in ([want] if target.subnormals else [want, flushed(want, dtype)])]
    return np.asarray(np.minimum.reduce(found))


def samples(op: Ops, dtype: DType, count: int) -> tuple[Array, ...]:
    """Return columns of operands of `op`: `count` random bit patterns, and values from the range where it varies.

    For POW all are from ranges where the power is neither 0 nor infinite, about three times `count` of them.
    """
    chance = np.random.default_rng((7, int(op)))  # of its own, so that a new op changes no other one's operands
    whole = chance.integers(0, 2**dtype.bits, count, np.uint64 if dtype.bits == 64 else np.uint32).view(NAMES[dtype])
    most = 128.0 if dtype is dtypes.float32 else 1024.0
    if op is Ops.POW:
        near_one = chance.uniform(0.8, 1.25, count), chance.uniform(-most * 3, most * 3, count)
        wide = np.exp2(chance.uniform(-most, most, count)), chance.uniform(-1.5, 1.5, count)
        powers = chance.uniform(-10, 10, count), chance.integers(-40, 40, count).astype(float)
        return tuple(np.concatenate(parts).astype(NAMES[dtype]) for parts in zip(near_one, wide, powers, strict=True))
    quadrants = np.arange(1, count // 4) * (np.pi / 2)  # where reducing the argument cancels most digits
    quadrants = np.concatenate([quadrants, quadrants * 1e5])
    if op is Ops.LGAMMA:  # near its zeros below 0, a device without a wider dtype has few correct digits
        whole = np.abs(whole)
    ranges = {Ops.EXP2: (-most - 30, most + 1), Ops.EXP: (-most, most * 0.7)}
    ranges |= {other: accuracy.between for other, accuracy in ACCURACY.items() if accuracy.between is not None}
    others = quadrants if op in (Ops.SIN, Ops.COS, Ops.TAN) else chance.uniform(*ranges.get(op, (0.4, 2.1)), count)
    first = np.concatenate([whole, others.astype(NAMES[dtype])])
    return (first, *[chance.permutation(first) for _ in range(1, FACTS[op].arity or 1)])
