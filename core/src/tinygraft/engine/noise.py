"""Rounding as noise: an evaluation, and further runs in which each inexact operation is off by a random amount.

This is Monte Carlo arithmetic (Parker, 1997): compiled code rounds the same operations in one more way, with sums in an
order of its own, so it differs from the evaluation about as much as the noisy runs do. Each run carries its own errors
along, so that errors that cancel in compiled code cancel in it; a value that is badly determined differs much between
runs. No noise is added where nothing is rounded: to an operation whose result the dtype has, and to a sum of numbers
that are such small multiples of one power of two that every partial sum is exact.

The noise is uniform and up to

- one unit in the last place for an operation that is rounded once: twice what rounding can do;
- ULPS units for a function such as EXP, SIN or POW, which devices compute to about one unit;
- (1 + sqrt(n) / 4) units of the sum of the absolute values for a sum of n terms: summed one by one, with all terms of
  one sign, the partial sums take a random walk of sqrt(n / 3) steps of 0.29 units. Kernels sum in a few registers, so
  log2(n) / 2, the bound for sums by halves, is too narrow: a batch norm over 15,488 numbers was beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygraft.autograd.build import number_of
from tinygraft.dtype import FORMATS, DType, dtypes
from tinygraft.engine.arithmetic import NEAR, Array, rounded, wide
from tinygraft.schedule.multiplied import MOST
from tinygraft.uop.ops import BINARY, FACTS, Ops
from tinygraft.uop.uop import UOp

NoisySamples = Sequence[Array]
# given: half as much again as Accuracy of uop/ops.py allows, or more, so that right code passes
ULPS = {op: max(3.0 if op in BINARY else 2.0, 1.5 * facts.accuracy.ulps)
        for op, facts in FACTS.items() if facts.accuracy and op in NEAR}  # fmt: skip
LONGER = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def unit(dtype: DType) -> float:
    """Return the distance from 1 to the next number of a float dtype."""
    return 2.0 ** -FORMATS[dtype].mantissa


def _units(node: UOp) -> float:
    """Return how many units in the last place a result of `node` may be off by: each factor of a power adds one."""
    found = ULPS.get(node.op, 1.0)
    power = number_of(node.src[1]) if node.op is Ops.POW else None
    return found if power is None or abs(power) > MOST else max(found, abs(power))


def least(dtype: DType) -> float:
    """Return the least number of a float dtype above 0."""
    return math.ldexp(1.0, 1 - FORMATS[dtype].bias - FORMATS[dtype].mantissa)


class Noise:
    """Computes nodes in several runs: the first rounds to nearest, `others` more are noisy.

    The seed is fixed, so that a failure can be repeated.
    """

    def __init__(self, others: int) -> None:
        self.others = others
        self._chance = np.random.default_rng(20_000 + others)

    def elementwise(self, node: UOp, src: Sequence[NoisySamples]) -> tuple[Array, ...]:
        """Return the values of an elementwise node that rounds, in all runs, from those of its sources.

        One array stands for all runs where no source has noise and no result is inexact.
        """
        found: list[Array] = []
        for run in range(max(map(len, src))):
            here = [samples[run if len(samples) > 1 else 0] for samples in src]
            exact = wide(node, here)
            near = rounded(exact, node.dtype)
            if run == 0:
                found.append(near)
                if max(map(len, src)) > 1:
                    continue
            error = _units(node) * unit(node.dtype) * np.abs(near.astype(np.float64))
            loses = self._loses(node, here, exact, near)
            if run > 0:
                found.append(self._noisy(exact, near, error, loses, node.dtype))
            elif loses.any():
                found += [self._noisy(exact, near, error, loses, node.dtype) for _ in range(self.others)]
        return tuple(found)

    def combined(self, dtype: DType, op: Ops, count: int, src: Sequence[NoisySamples],
                 combine: Callable[..., Array]) -> tuple[Array, ...]:  # fmt: skip
        """Return values combined by `op` in all runs; at most `count` values are combined for one result.

        `combine` gets one array for each of `src`: the values first, for a SCATTER also an index and the new values.
        One array stands for all runs where none of `src` has noise and nothing is inexact.
        """
        runs = range(max(map(len, src)))
        rounds = dtype.kind == "float" and op in (Ops.ADD, Ops.MUL)
        long = _longest(dtype) if rounds else None

        def widened(samples: NoisySamples, run: int, magnitude: bool = False) -> Array:
            """Return the values of one run. Where sums round, floats are as wide as `long`, absolute with `magnitude`.

            All else comes as it is.
            Samples without noise have one array for all runs.
            """
            x = samples[run if len(samples) > 1 else 0]
            if long is None or x.dtype.kind != "f":
                return x
            return np.abs(x.astype(long)) if magnitude else x.astype(long)

        totals = [combine(*[widened(samples, run) for samples in src]) for run in runs]
        if not rounds:
            return tuple(totals)
        if op is Ops.ADD:
            sizes = combine(*[widened(samples, 0, magnitude=True) for samples in src])
            steps = [_step(samples[0]) for samples in src if samples[0].dtype.kind == "f"]
            return self._noisy_sums(totals, sizes, min(steps), count, dtype)
        error = unit(dtype) * math.sqrt(max(count, 1)) * np.abs(totals[0].astype(np.float64))
        return self._with_errors(totals, error, totals[0] != rounded(totals[0], dtype), dtype)

    def routine(self, operands: Sequence[NoisySamples], dtypes_: Sequence[DType],
                compute: Callable[[list[Array]], Array]) -> tuple[Array, ...]:  # fmt: skip
        """Return a result of an inexact routine in all runs: `compute` gets the operands.

        Its rounding is as if the elements of the operands were off, by a random walk along an axis of each (backward
        stability, as LAPACK's functions have it). `dtypes_` are those of `operands`.
        """
        first = compute([samples[0] for samples in operands])
        found = [first]
        for run in range(1, self.others + 1):
            here = [samples[run if len(samples) > 1 else 0] for samples in operands]
            found.append(compute([self._off(x, dtype) for x, dtype in zip(here, dtypes_, strict=True)]))
        return tuple(found)

    def _off(self, x: Array, dtype: DType) -> Array:
        """Return floats that are off by up to 1 + sqrt(n) units in the last place, n the length of their last axis."""
        if dtype.kind != "float":
            return x
        error = unit(dtype) * (1 + math.sqrt(x.shape[-1])) * self._chance.uniform(-1, 1, x.shape)
        return np.asarray(x.astype(np.float64) * (1 + error))

    def contraction(self, node: UOp, factors: Sequence[NoisySamples]) -> tuple[Array, ...]:
        """Return the sum of the products of two factors in all runs; the products are never stored.

        `node` is the REDUCE_AXIS, whose axes stay with length 1; `factors` has the samples of each factor.
        """
        dtype, axes = node.dtype, node.arg.axes
        runs = range(max(map(len, factors)))
        pick = [[samples[run if len(samples) > 1 else 0] for samples in factors] for run in runs]
        if dtype.kind != "float":
            return tuple([_contract(a, b, axes) for a, b in pick])
        long = _longest(dtype)
        totals = [_contract(a.astype(long), b.astype(long), axes) for a, b in map(_compact, pick)]
        a, b = _compact(pick[0])
        sizes = _contract(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)), axes)
        lengths = np.broadcast_shapes(*(samples[0].shape for samples in factors))  # of symbolic axes too
        count = math.prod([lengths[axis] for axis in axes])
        return self._noisy_sums(totals, sizes, _step(a) * _step(b), count, dtype)

    def _noisy_sums(
        self, totals: list[Array], sizes: Array, step: float, count: int, dtype: DType
    ) -> tuple[Array, ...]:
        """Return sums of `count` terms in all runs.

        `totals` are the sums before rounding, `sizes` those of the absolute values. All terms are multiples of `step`.
        """
        limit = 2.0 ** (FORMATS[dtype].mantissa + 1) * step  # up to it every partial sum is exact
        error = unit(dtype) * (1 + math.sqrt(count) / 4) * sizes.astype(np.float64)
        return self._with_errors(totals, error, np.asarray(~(sizes <= limit)), dtype)

    def _with_errors(self, totals: list[Array], error: Array, loses: Array, dtype: DType) -> tuple[Array, ...]:
        """Return `totals` rounded to `dtype`, all but the first with a random error of up to `error` added before.

        It is added where `loses` says that a result is inexact; where none is, one array stands for all runs. One total
        is that of all runs, from which there are `others` noisy ones then.
        """
        near = [rounded(np.asarray(total), dtype) for total in totals]
        if not self.others or (len(near) == 1 and not loses.any()):
            return tuple(near)
        totals, near = (totals * (self.others + 1), near * (self.others + 1)) if len(near) == 1 else (totals, near)
        others = zip(totals[1:], near[1:], strict=True)
        return (near[0], *[self._noisy(total, best, error, loses, dtype) for total, best in others])

    def _loses(self, node: UOp, src: list[Array], exact: Array, near: Array) -> Array:
        """Return where the result of an operation may be inexact; for float64, as far as longdouble shows it.

        `exact` are the results before they are rounded, `near` those after.
        """
        finite = np.isfinite(near) & (near != 0)
        if node.op in NEAR:
            return np.asarray(finite)
        if node.dtype is dtypes.float64:
            if not LONGER or node.op is Ops.FMA:
                return np.asarray(finite)
            exact = wide(node, src, longer=True) if node.op is not Ops.CAST else exact
        return np.asarray(np.isfinite(near) & (exact != near))

    def _noisy(self, exact: Array, near: Array, error: Array, loses: Array, dtype: DType) -> Array:
        """Return `near`, and where `loses` says so `exact` rounded with noise of up to `error`, or the least number."""
        error = np.where(np.isfinite(error), np.maximum(error, least(dtype)), 0.0)
        shift = self._chance.uniform(-1.0, 1.0, np.shape(near)) * error
        return np.where(loses, rounded(np.asarray(exact + shift), dtype), near).astype(near.dtype, copy=False)


def _longest(dtype: DType) -> Any:
    """Return the type in which sums of values of `dtype` are computed."""
    return np.longdouble if dtype is dtypes.float64 else np.float64


def _step(x: Array) -> float:
    """Return the greatest power of two that all finite elements of `x` are multiples of; inf where all are 0.

    It is at least 2**-1000.
    """
    whole = x[np.isfinite(x) & (x != 0)].astype(np.float64)
    if not whole.size:
        return math.inf
    mantissa, exponent = np.frexp(whole)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((digits & -digits).astype(np.float64))[1] - 1  # the number of the lowest bit that is 1
    return math.ldexp(1.0, int(max((exponent - 53 + lowest).min(), -1000)))


def _compact(pair: Sequence[Array]) -> tuple[Array, Array]:
    """Return two factors with length 1 along the axes where one is broadcast, which makes the contraction smaller.

    Where both are, the first is left as it is, so that the axis has its length.
    """
    a, b = np.broadcast_arrays(*pair)
    second = [stride == 0 and size > 1 for stride, size in zip(b.strides, b.shape, strict=True)]
    first = [stride == 0 and not both for stride, both in zip(a.strides, second, strict=True)]
    return _without_repeats(a, first), _without_repeats(b, second)


def _without_repeats(x: Array, repeats: Sequence[bool]) -> Array:
    """Return the first element of `x` along each axis that `repeats`; other axes are whole."""
    return x[tuple([slice(0, 1 if again else None) for again in repeats])]


def _contract(a: Array, b: Array, axes: Sequence[int]) -> Array:
    """Return the sum of a * b, which are broadcast, over `axes`; these stay with length 1."""
    free = [axis for axis in range(a.ndim) if axis not in axes]
    shape = np.broadcast_shapes(a.shape, b.shape)
    mine = [axis for axis in range(a.ndim) if a.shape[axis] == shape[axis]]
    other = [axis for axis in range(a.ndim) if b.shape[axis] == shape[axis]]
    first = a.reshape([a.shape[axis] for axis in mine])
    second = b.reshape([b.shape[axis] for axis in other])
    faster = a.dtype == np.float64  # BLAS, which einsum then calls, has no longdouble
    total = np.einsum(first, mine, second, other, free, optimize=faster)
    return np.asarray(total).reshape([1 if axis in axes else size for axis, size in enumerate(shape)])
