"""Batches: many small jobs in few kernels, so that a level is quick with a slow compiler, and each job fails alone.

A job applies an expression to columns of values. Jobs with the same columns share a kernel; kernels are compiled at
the same time. Where a batch fails each job gets a kernel of its own, so that a failure names the job that causes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.kernels import Run, map_kernel, run_all, unpack
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

Columns = tuple[tuple[DType, tuple[Any, ...]], ...]
MOST = 24  # jobs in one kernel. assumed: never measured


@dataclass(frozen=True, slots=True)
class BatchedExpression:
    """An expression, and the columns that it is applied to.

    `build` takes a node for each column and returns the result's; the columns have the same length. `key` names it.
    """

    key: Hashable
    build: Callable[..., UOp]
    columns: Columns


Outcome = list[Any] | Exception  # the values of a job, or why there are none


def outcomes(backend: Backend, jobs: Sequence[BatchedExpression]) -> dict[Hashable, Outcome]:
    """Run `jobs` in few kernels. Returns by key the values of each, or the exception that it raised."""
    groups: dict[Columns, list[BatchedExpression]] = {}
    for job in jobs:
        groups.setdefault(job.columns, []).append(job)
    batches = []
    for columns, group in groups.items():
        room = max(min(MOST, backend.target.max_params - len(columns)), 1)
        batches += [group[i : i + room] for i in range(0, len(group), room)]
    return _together(backend, batches)


def _together(backend: Backend, batches: Sequence[Sequence[BatchedExpression]]) -> dict[Hashable, Outcome]:
    """Run batches together. Where that fails, run each batch alone; where one fails alone, each of its jobs.

    Returns the outcomes by key.
    """
    try:
        return _run(backend, batches)
    except Exception as error:
        if len(batches) == len(batches[0]) == 1:
            return {batches[0][0].key: error}
    smaller = [[batch] for batch in batches] if len(batches) > 1 else [[[job]] for job in batches[0]]
    found: dict[Hashable, Outcome] = {}
    for part in smaller:
        found |= _together(backend, part)
    return found


def _run(backend: Backend, batches: Sequence[Sequence[BatchedExpression]]) -> dict[Hashable, Outcome]:
    """Run each batch as one kernel. Returns the values of each job by its key."""
    runs, kinds = [], []
    for batch in batches:
        sink, buffers, dtypes = map_kernel([job.build for job in batch], batch[0].columns)
        runs.append(Run(to_linear(Kernel(sink), backend.target), buffers))
        kinds.append(dtypes)
    found: dict[Hashable, Outcome] = {}
    for batch, done, dtypes in zip(batches, run_all(backend, runs), kinds, strict=True):
        found |= {job.key: unpack(data, d) for job, data, d in zip(batch, done, dtypes, strict=False)}
    return found
