"""How far the functions, POW and SQRT may be from the true value, where to look, and how the distance is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinygraft.conformance.corpus import NAMES
from tinygraft.conformance.kernels import param, run_kernel, store
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array, one_by_one
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

TRUE: dict[Ops, Callable[..., Any]] = {
    Ops.EXP2: np.exp2, Ops.LOG2: np.log2, Ops.SIN: np.sin, Ops.POW: np.power, Ops.SQRT: np.sqrt, Ops.EXP: np.exp,
    Ops.EXPM1: np.expm1, Ops.LOG: np.log, Ops.LOG1P: np.log1p, Ops.COS: np.cos, Ops.TAN: np.tan, Ops.ASIN: np.arcsin,
    Ops.ACOS: np.arccos, Ops.ATAN: np.arctan, Ops.TANH: np.tanh,
    **{op: one_by_one(op) for op in (Ops.ERF, Ops.ERFC, Ops.LGAMMA)},
}  # fmt: skip
# The most units in the last place that a result may be from the true value; PYTHON's own are 0.5 (float64: libm's 1).
ULPS = {
    Ops.EXP2: 1.3, Ops.LOG2: 0.55, Ops.SIN: 0.85, Ops.POW: 1.4, Ops.SQRT: 0.5001, Ops.EXP: 0.9, Ops.EXPM1: 1.1,
    Ops.LOG: 0.8, Ops.LOG1P: 0.9, Ops.COS: 0.95, Ops.TAN: 1.0, Ops.ASIN: 0.75, Ops.ACOS: 0.7, Ops.ATAN: 1.0,
    Ops.TANH: 0.8, Ops.ERF: 1.0, Ops.ERFC: 1.0, Ops.LGAMMA: 1.0,
}  # fmt: skip
LESS_KNOWN = {
    Ops.ERF: 1.0,
    Ops.ERFC: 5.0,
    Ops.LGAMMA: 5.0,
}  # what float64 is allowed where Python's values are the truth
SLACK = 0.0 if np.finfo(np.longdouble).nmant >= 60 else 1.0  # of float64, where nothing here is more exact


def allowed(op: Ops, dtype: DType) -> float:
    """How many units in the last place a result may be from what truth gives."""
    unknown = LESS_KNOWN.get(op, SLACK)
    return ULPS[op] + (unknown if dtype is dtypes.float64 else 0.0)


def run(backend: Backend, op: Ops, dtype: DType, *columns: Array) -> Array:
    """op on arrays of dtype."""
    size = len(columns[0])
    r = UOp.range(size, 0)
    loads = [UOp(Ops.LOAD, dtype, (param(i + 1, dtype, size), r)) for i in range(len(columns))]
    sink = UOp(Ops.SINK, dtypes.void, (store(param(0, dtype, size), r, loads[0].alu(op, *loads[1:])),))
    inputs = [c.astype(NAMES[dtype]).tobytes() for c in columns]
    return np.frombuffer(run_kernel(backend, sink, [bytes(size * dtype.itemsize), *inputs])[0], NAMES[dtype])


def truth(op: Ops, dtype: DType, *columns: Array) -> Array:
    """The true values, in a wider dtype."""
    wider = np.float64 if dtype is dtypes.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return np.asarray(TRUE[op](*(c.astype(wider) for c in columns)))


def distances(got: Array, want: Array, dtype: DType) -> Array:
    """How many units in the last place each of got is away from want; inf where only one is NaN, infinite or a zero."""
    info = np.finfo(NAMES[dtype])
    with np.errstate(all="ignore"):
        rounded = want.astype(NAMES[dtype])
        wide = want.astype(np.longdouble)
        exponent = np.maximum(np.frexp(np.abs(wide))[1] - 1, info.minexp)
        units = np.abs(got.astype(np.longdouble) - wide) / np.ldexp(np.longdouble(1), exponent - info.nmant)
        alike = (np.isnan(got) & np.isnan(rounded)) | ((got == rounded) & (np.signbit(got) == np.signbit(rounded)))
        plain = np.isfinite(got) & np.isfinite(rounded) & ~((got == 0) & (rounded == 0))
        return np.asarray(np.where(plain, units, np.where(alike, 0.0, np.inf)).astype(float))


def samples(op: Ops, dtype: DType, count: int) -> tuple[Array, ...]:
    """Operands of op: all bit patterns alike, and where its values are interesting."""
    chance = np.random.default_rng(7)
    whole = chance.integers(0, 2**dtype.bits, count, np.uint64 if dtype.bits == 64 else np.uint32).view(NAMES[dtype])
    most = 128.0 if dtype is dtypes.float32 else 1024.0
    if op is Ops.POW:
        near_one = chance.uniform(0.8, 1.25, count), chance.uniform(-most * 3, most * 3, count)
        wide = np.exp2(chance.uniform(-most, most, count)), chance.uniform(-1.5, 1.5, count)
        powers = chance.uniform(-10, 10, count), chance.integers(-40, 40, count).astype(float)
        return tuple(np.concatenate(parts).astype(NAMES[dtype]) for parts in zip(near_one, wide, powers, strict=True))
    turns = np.arange(1, count // 4) * (np.pi / 2)
    turns = np.concatenate([turns, turns * 1e5])
    if op is Ops.LGAMMA:  # where it is 0 below 0, a device without a wider dtype has few digits
        whole = np.abs(whole)
    others = {
        Ops.EXP2: chance.uniform(-most - 30, most + 1, count), Ops.EXP: chance.uniform(-most, most * 0.7, count),
        Ops.EXPM1: chance.uniform(-3, 3, count), Ops.LOG1P: chance.uniform(-1, 3, count),
        Ops.ASIN: chance.uniform(-1, 1, count), Ops.ACOS: chance.uniform(-1, 1, count),
        Ops.ATAN: chance.uniform(-3, 3, count), Ops.TANH: chance.uniform(-3, 3, count),
        Ops.ERF: chance.uniform(-3, 3, count), Ops.ERFC: chance.uniform(-6, 27, count),
        Ops.LGAMMA: chance.uniform(0, 9, count), **dict.fromkeys((Ops.SIN, Ops.COS, Ops.TAN), turns),
    }  # fmt: skip
    return (np.concatenate([whole, others.get(op, chance.uniform(0.4, 2.1, count)).astype(NAMES[dtype])]),)
