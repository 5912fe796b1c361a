"""Transforms of codegen, thread blocks with shared memory and barriers, scratch memory, and declared limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from tinygraft.codegen.action import Action, parse
from tinygraft.codegen.heuristics import kernel_candidates
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance import action_cases, shared
from tinygraft.conformance.compare import same
from tinygraft.conformance.gate import needs
from tinygraft.conformance.kernels import map_kernel, pack, run_kernel, run_linear, unpack
from tinygraft.conformance.linears import KERNELS
from tinygraft.conformance.oracle import python
from tinygraft.conformance.product_cases import matmul, product, small
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ActionError
from tinygraft.target import Target
from tinygraft.uop.stages import Kernel, Linear
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp, toposort

ACTIONS = [pytest.param(kernel, case, id=f"{kernel.__name__}-{case.replace(', ', '+').replace(' ', '-')}")
           for kernel, case in action_cases.RUNS]  # fmt: skip
EXAMINED = 40  # candidates for a product that are examined
REPEATS = 5  # launches of a kernel, since threads that do not wait are not always too early
NEEDED: dict[str, Sequence[pytest.MarkDecorator]] = {
    "plain": (), "running_sum": (), "scratch": [needs(local_memory=48)],
    "matmul": [needs(vector_bytes=1, chunks=2)], "streamed": [needs(vector_bytes=1, stream_bytes=1)],
}  # fmt: skip
BY_HAND = [pytest.param(name, marks=NEEDED.get(name, [needs(vector_bytes=1)])) for name in KERNELS]


def whole(count: int) -> list[int]:
    """Return `count` whole numbers, different from each other up to 100,003 of them."""
    return [(i * 7919 + 13) % 100_003 for i in range(count)]


def for_target(linear: Linear, target: Target) -> Linear:
    """Return a kernel that was built by hand as one for a Target."""
    return replace(linear, target=target)


def using(unit: MatrixUnit, sink: UOp, target: Target) -> Iterator[tuple[Action, ...]]:
    """Yield up to two lists of transforms by which a kernel uses a unit, the best ones first."""
    found = 0
    for made, applied in islice(kernel_candidates(with_gaps(sink), target), EXAMINED):
        if found < 2 and any(unit in (u.arg, getattr(u.arg, "unit", None)) for u in toposort(made)):
            found += 1
            yield applied


class Threads:
    """Features that a device may lack: where the Target does not declare one, codegen refuses to use it."""

    @pytest.mark.parametrize(("kernel", "case"), ACTIONS)
    def test_action(self, backend: Backend, target: Target, kernel: Callable[[], UOp], case: str) -> None:
        """Each transform changes no value, at prime sizes; one that the Target cannot apply raises ActionError."""
        columns = action_cases.COLUMNS_OF.get(case, action_cases.COLUMNS)
        sink = action_cases.matmul(columns) if kernel is action_cases.matmul else kernel()
        options = Options(actions=parse(action_cases.actions_of(case, sink, target)))
        if action_cases.allowed(case, sink, options, target):
            inputs = action_cases.inputs_of(kernel, columns)
            found = action_cases.computed(backend, sink, options, inputs, action_cases.ROWS * columns)
            same(found, action_cases.expected(kernel, columns))
            return
        with pytest.raises(ActionError, match=r"the Target has no|a thread block has|cannot be computed so|no such"):
            to_linear(Kernel(sink), target, options)

    @needs("matrix")
    def test_matrix_units(self, backend: Backend, target: Target) -> None:
        """Products of whole numbers by each unit of the Target, at sizes that it divides and at others."""
        unused = set(target.matrix)
        for unit in target.matrix:
            for m, k, n in ((64, 64, 64), (37, 66, 50)):
                a, b = small(m * k, 1, unit.second), small(k * n, 2, unit.second)
                sink = matmul(m, k, n, unit.second, unit.result)
                for applied in using(unit, sink, target):
                    linear = to_linear(Kernel(sink), target, Options(actions=applied))
                    buffers = [bytes(m * n * unit.result.itemsize), pack(a, unit.second), pack(b, unit.second)]
                    got = unpack(run_linear(backend, linear, buffers)[0], unit.result)
                    same(got, product(a, b, m, k, n), f"{unit.name}: {applied}")
                    unused.discard(unit)
        assert not unused, f"nothing uses {', '.join(unit.name for unit in unused)}"

    @pytest.mark.parametrize("name", BY_HAND)
    def test_by_hand(self, backend: Backend, target: Target, name: str) -> None:
        """Kernels in the linear form, with vectors, copies, gates and registers, have PYTHON's results."""
        linear = for_target(KERNELS[name](), target)
        params, values = linear.signature.params, [2] * len(linear.signature.variables)
        buffers = [pack([v % 11 for v in whole(p.size)], p.dtype) for p in params]
        same(run_linear(backend, linear, buffers, values), run_linear(python(), linear, buffers, values))

    @needs(block_threads=2, grid_dims=1, shared_memory=8)
    @pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.uint8, dtypes.int64], ids=("float32", "uint8", "int64"))
    def test_barrier(self, backend: Backend, target: Target, dtype: DType) -> None:
        """Each thread reads from shared memory what another of its block stored, however late, before the barrier.

        Each of five blocks, as large as the Target allows, reverses its own row; it gets nothing of another block.
        """
        threads, blocks = min(target.block_threads, target.shared_memory // dtype.itemsize), 5
        linear = for_target(shared.exchange(blocks, threads, dtype=dtype), target)
        values = [v % 251 for v in whole(blocks * threads)]
        rows = [values[b * threads : (b + 1) * threads] for b in range(blocks)]
        for _ in range(REPEATS):
            (got, _) = run_linear(backend, linear, [b"\xff" * (len(values) * dtype.itemsize), pack(values, dtype)])
            same(unpack(got, dtype), [x for row in rows for x in reversed(row)])

    @needs(block_threads=2, grid_dims=1, shared_memory=8)
    def test_barrier_in_a_loop(self, backend: Backend, target: Target) -> None:
        """Shared memory is filled anew in each iteration: no thread overwrites what another has not read yet."""
        threads, iterations = min(target.block_threads, target.shared_memory // 4), 23
        values = [v % 1009 for v in whole(iterations * threads)]
        want = [sum((k + 1) * values[k * threads + threads - 1 - t] for k in range(iterations)) for t in range(threads)]
        for _ in range(REPEATS):
            buffers = [bytes(4 * threads), pack(values, dtypes.int32)]
            got = run_linear(backend, for_target(shared.relay(iterations, threads), target), buffers)[0]
            same(unpack(got, dtypes.int32), want)

    @needs(block_threads=2, grid_dims=1, shared_memory=8)
    def test_all_shared_memory(self, backend: Backend, target: Target) -> None:
        """A thread block has as much shared memory as the Target says, to the last element."""
        room, threads = target.shared_memory // 4, min(target.block_threads, target.shared_memory // 4)
        values = whole(2 * threads)
        linear = for_target(shared.exchange(2, threads, room, dtypes.int32), target)
        (got, _) = run_linear(backend, linear, [bytes(8 * threads), pack(values, dtypes.int32)])
        same(unpack(got, dtypes.int32), [*reversed(values[:threads]), *reversed(values[threads:])])

    @pytest.mark.parametrize("dims", [pytest.param(d, id=str(d), marks=needs(grid_dims=d)) for d in (1, 2, 3)])
    def test_positions(self, backend: Backend, target: Target, dims: int) -> None:
        """Every thread of every block has its own thread index, and its block's grid index along each dimension."""
        sizes, threads = (3, 5, 2)[:dims], min(target.block_threads, 4)
        linear = for_target(shared.grid_indices(sizes, threads), target)
        count = linear.signature.params[0].size
        (got,) = run_linear(backend, linear, [b"\xff" * (4 * count)])
        same(unpack(got, dtypes.int32), [3 * i + 1 for i in range(count)])

    @pytest.mark.parametrize("dim", [pytest.param(d, id=str(d), marks=needs(grid_dims=d + 1)) for d in range(3)])
    def test_a_large_grid(self, backend: Backend, target: Target, dim: int) -> None:
        """A grid has as many thread blocks along a dimension as the Target says, up to 65535."""
        sizes = (1,) * dim + (min(target.max_grid[dim], 65535),)
        linear = for_target(shared.grid_indices(sizes, 1), target)
        (got,) = run_linear(backend, linear, [b"\xff" * (4 * sizes[-1])])
        same(unpack(got, dtypes.int32), [3 * i + 1 for i in range(sizes[-1])])

    @needs(local_memory=64)
    def test_all_private_memory(self, backend: Backend, target: Target) -> None:
        """A thread has as much scratch memory as the Target says."""
        size = target.local_memory // 4
        values = whole(size)
        (got, _) = run_linear(backend, for_target(shared.reversed_in_scratch(size), target),
                              [bytes(4 * size), pack(values, dtypes.float32)])  # fmt: skip
        same(unpack(got, dtypes.float32), values[::-1])

    def test_all_buffers(self, backend: Backend, target: Target) -> None:
        """A kernel takes as many buffers as the Target says, up to 256."""
        count = min(target.max_params, 256)
        values = tuple(range(5))
        builds = [lambda x, i=i: x * 2 + i for i in range(count - 1)]
        sink, buffers, _ = map_kernel(builds, [(dtypes.int32, values)])
        done = run_kernel(backend, sink, buffers)
        assert [unpack(data, dtypes.int32) for data in done[:-1]] == [
            [2 * v + i for v in values] for i in range(count - 1)
        ]
