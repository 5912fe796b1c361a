"""Elementwise values: every op on every dtype it takes, from buffers and with constants, and every conversion."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from tinygraft.conformance.corpus import CASES, NAMES, apply, constants, convertible, edges, operands, ops_on
from tinygraft.conformance.expression_batch import BatchedExpression, Outcome, outcomes
from tinygraft.conformance.flushed import variants
from tinygraft.conformance.oracle import can_compute, differing, python, report
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.target import Target
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.uop import UOp

Jobs = Callable[[DType], list[BatchedExpression]]
Asked = Callable[[DType, Hashable], bool]  # whether a dtype's job of that key is wanted
OPERATIONS = [pytest.param(op, dtype, id=f"{op.name}-{NAMES[dtype]}") for op, dtype in CASES]
PAIRS = [pytest.param(a, b, id=f"{NAMES[a]}-{NAMES[b]}") for a in dtypes.all for b in dtypes.all]
ALIKE = [pytest.param(a, b, id=f"{NAMES[a]}-{NAMES[b]}") for a in dtypes.all for b in dtypes.all
         if a.itemsize == b.itemsize and dtypes.bool not in (a, b)]  # fmt: skip

# Expressions whose values change if a compiler contracts, reassociates or cancels them. All are in one kernel, and no
# two have a product in common: clang contracts what is used once, and leaves what is used twice.
WRITTEN: dict[str, Callable[[UOp, UOp], UOp]] = {
    "product-plus": lambda a, b: a * b + a, "product-minus": lambda a, b: b * b - a,
    "sum-less": lambda a, b: (a + b) - a, "quotient-times": lambda a, b: a / b * b,
    "times-zero": lambda a, b: a * a.const_like(0.0), "less-itself": lambda a, b: a - a,
    "plus-zero": lambda a, b: a + a.const_like(0.0), "zero-less": lambda a, b: a.const_like(0.0) - a,
    "equal-itself": lambda a, b: a.eq(a).where(a, b), "sum-of-sums": lambda a, b: (a - b) + b,
    "over-itself": lambda a, b: a / a, "least-or-zero": lambda a, b: (a < b).where(a, a.const_like(0.0)),
}  # fmt: skip
AS_WRITTEN = [pytest.param(form, dtype, id=f"{form}-{NAMES[dtype]}") for form in WRITTEN for dtype in dtypes.floats]


class Judged:
    """The outcomes of jobs on a backend and on PYTHON. All jobs of a dtype are run when one of them is first requested.

    `jobs` returns the jobs of a dtype, of which those that `asked` says are run: with -k the ops of the tests that are
    left, since a kernel of all of them may take a compiler seconds. Where the backend may flush subnormal numbers,
    PYTHON's are several.
    """

    backend: Backend
    jobs: Jobs
    asked: Asked

    def __init__(self, backend: Backend, jobs: Jobs, asked: Asked = lambda dtype, key: True) -> None:
        self.backend, self.jobs, self.asked = backend, jobs, asked
        self.got: dict[DType, dict[Hashable, Outcome]] = {}
        self.want: dict[DType, list[dict[Hashable, Outcome]]] = {}
        self.by_key: dict[DType, dict[Hashable, BatchedExpression]] = {}

    def __call__(self, dtype: DType, key: Hashable) -> tuple[BatchedExpression, Outcome, *tuple[Outcome, ...]]:
        """Return the job of a key, its outcome on the backend, and those on PYTHON that the backend may have."""
        if dtype not in self.got:
            jobs = [job for job in self.jobs(dtype) if self.asked(dtype, job.key)]
            self.by_key[dtype] = {job.key: job for job in jobs}
            self.got[dtype] = outcomes(self.backend, jobs)
            also = [[replace(job, build=one) for one in variants(self.backend.target, job.build)] for job in jobs]
            self.want[dtype] = [outcomes(python(), which) for which in (jobs, *zip(*also, strict=True))]
        return self.by_key[dtype][key], self.got[dtype][key], *(found[key] for found in self.want[dtype])


def asked_of(request: pytest.FixtureRequest, test: str, of_key: str) -> Asked:
    """Return which jobs the tests named `test` that will run ask for; `of_key` is the parameter that a key is.

    Where a key is a pair, its first half is the parameter. A test has a dtype beside it.
    """
    cases = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test and item.cls is request.cls
    ]
    asked = {(case["dtype"], case[of_key]) for case in cases}
    return lambda dtype, key: (dtype, key[0] if isinstance(key, tuple) else key) in asked


def operation(op: Ops) -> Callable[..., UOp]:
    """Return an op as the expression of a job."""
    return lambda *src: apply(op, *src)


def of_buffers(dtype: DType) -> list[BatchedExpression]:
    """Return a job for each op on a dtype, with all operands from buffers."""
    return [BatchedExpression(op, operation(op), operands(op, dtype)) for op in ops_on(dtype)]


def of_constants(dtype: DType) -> list[BatchedExpression]:
    """Return jobs for each op on a dtype with constants: each as the only or right operand, one of them as the left."""
    jobs, values = [], edges(dtype)
    for op in ops_on(dtype):
        arity = FACTS[op].arity
        for number, c in enumerate(constants(dtype)):
            build: Callable[..., UOp] = {
                1: lambda x, op=op, c=c: apply(op, x.const_like(c)),
                2: lambda x, op=op, c=c: apply(op, x, x.const_like(c)),
                3: lambda x, op=op, c=c: chosen(op, x, c),
            }[arity or 0]
            jobs.append(BatchedExpression((op, number), build, ((dtype, values),)))
        if arity == 2:
            c = constants(dtype)[len(jobs) % len(constants(dtype))]
            build = lambda x, op=op, c=c: apply(op, x.const_like(c), x)  # noqa: E731
            jobs.append(BatchedExpression((op, "left"), build, ((dtype, values),)))
    return jobs


def chosen(op: Ops, x: UOp, c: Any) -> UOp:
    """Return the node of an op of three operands with one constant."""
    return x.eq(x).where(x.const_like(c), x) if op is Ops.WHERE else apply(op, x, x.const_like(c), x)


def of_casts(dtype: DType) -> list[BatchedExpression]:
    """Return a job for each cast from a dtype, on `convertible`."""
    columns = ((dtype, tuple(convertible(dtype))),)
    return [BatchedExpression(to, lambda x, to=to: x.cast(to), columns) for to in dtypes.all]


def of_bitcasts(dtype: DType) -> list[BatchedExpression]:
    """Return a job for each bitcast from a dtype. NaN is not among the values, since its bits may change."""
    columns = ((dtype, tuple(x for x in edges(dtype) if x == x)),)
    alike = [to for to in dtypes.all if to.itemsize == dtype.itemsize and to.kind != "bool"]
    return [BatchedExpression(to, lambda x, to=to: x.bitcast(to), columns) for to in alike]


def of_expressions(dtype: DType) -> list[BatchedExpression]:
    """Return a job for each of WRITTEN, on every pair of edge values."""
    return [BatchedExpression(name, build, operands(Ops.ADD, dtype)) for name, build in WRITTEN.items()]


class Values:
    """Each result is PYTHON's bit for bit, but for the ops that oracle.STEPS has a bound for.

    A device that declares that it flushes subnormal numbers may give zeros for them, and take them for zeros.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def buffers(cls, request: pytest.FixtureRequest, backend: Backend) -> Judged:
        """Return the outcomes of ops on buffers."""
        return Judged(backend, of_buffers, asked_of(request, "test_elementwise", "op"))

    @pytest.fixture(scope="class")
    @classmethod
    def literals(cls, request: pytest.FixtureRequest, backend: Backend) -> Judged:
        """Return the outcomes of ops with constants."""
        return Judged(backend, of_constants, asked_of(request, "test_constants", "op"))

    @pytest.fixture(scope="class")
    @classmethod
    def written(cls, backend: Backend) -> Judged:
        """Return the outcomes of expressions of several ops."""
        return Judged(backend, of_expressions)

    @pytest.fixture(scope="class")
    @classmethod
    def casts(cls, request: pytest.FixtureRequest, backend: Backend) -> Judged:
        """Return the outcomes of casts."""
        return Judged(backend, of_casts, asked_of(request, "test_cast", "to"))

    @pytest.fixture(scope="class")
    @classmethod
    def bitcasts(cls, request: pytest.FixtureRequest, backend: Backend) -> Judged:
        """Return the outcomes of bitcasts."""
        return Judged(backend, of_bitcasts, asked_of(request, "test_bitcast", "to"))

    @pytest.mark.parametrize(("op", "dtype"), OPERATIONS)
    def test_elementwise(self, target: Target, buffers: Judged, op: Ops, dtype: DType) -> None:
        """An op on every pair of edge values from buffers is PYTHON's; one that the Target lacks is refused."""
        job, got, *wanted = buffers(dtype, op)
        if not can_compute(target, op, dtype):
            assert isinstance(got, UnsupportedError), f"{op.name} of {dtype!r} is not declared, and was not refused"
            return
        found = differing(op, dtype, job, got, *wanted)
        assert not found, report(found)

    @pytest.mark.parametrize(("op", "dtype"), OPERATIONS)
    def test_constants(self, target: Target, literals: Judged, op: Ops, dtype: DType) -> None:
        """An op with literals is PYTHON's: extremes, both zeros, subnormals, infinity and NaN."""
        which: list[Any] = [*range(len(constants(dtype))), *(["left"] if FACTS[op].arity == 2 else [])]
        found: list[str] = []
        for constant in which:
            job, got, *wanted = literals(dtype, (op, constant))
            if not can_compute(target, op, dtype):
                assert isinstance(got, UnsupportedError), f"{op.name} of {dtype!r} is not declared, and was not refused"
                continue
            name = f"constant {constants(dtype)[constant]!r}" if constant != "left" else "constant on the left"
            found += [f"{name}: {line}" for line in differing(op, dtype, job, got, *wanted)]
        assert not found, report(found)

    @pytest.mark.parametrize(("form", "dtype"), AS_WRITTEN)
    def test_as_written(self, written: Judged, form: str, dtype: DType) -> None:
        """Nothing is contracted, reassociated or cancelled: NaN, infinities and signed zeros come out."""
        found = differing(Ops.ADD, dtype, *written(dtype, form))
        assert not found, report(found)

    @pytest.mark.parametrize(("dtype", "to"), PAIRS)
    def test_cast(self, casts: Judged, dtype: DType, to: DType) -> None:
        """Integers wrap, floats saturate to integers with NaN as 0, and a number is rounded once to a float."""
        found = differing(Ops.CAST, to, *casts(dtype, to))
        assert not found, f"from {dtype!r}\n{report(found)}"

    @pytest.mark.parametrize(("dtype", "to"), ALIKE)
    def test_bitcast(self, bitcasts: Judged, dtype: DType, to: DType) -> None:
        """A bitcast keeps the bits."""
        found = differing(Ops.BITCAST, to, *bitcasts(dtype, to))
        assert not found, f"from {dtype!r}\n{report(found)}"
