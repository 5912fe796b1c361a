"""For the tests of the CPU plugin: a backend of each route, and hand-built kernels run on numpy arrays."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tinygraft.config import Context
from tinygraft.uop.stages import Linear
from tinygraft_cpu.device import CpuBackend

Run = Callable[..., Any]


@pytest.fixture(params=["llvm", pytest.param("c", marks=pytest.mark.needs("cc"))])
def backend(request: pytest.FixtureRequest) -> CpuBackend:
    """A CPU backend that compiles by each route in turn, with the route checked."""
    with Context(CPU_COMPILER=request.param, CPU_THREADS=3):
        opened = CpuBackend("CPU", 0)
    assert opened.compiler_name == request.param
    return opened


@pytest.fixture
def run_threads() -> Callable[..., list[Any]]:
    """run_threads(job, n) gives what job(0) to job(n - 1) return, each run in a thread of its own at the same time."""

    def start(job: Callable[[int], Any], count: int) -> list[Any]:
        gate = threading.Barrier(count)

        def wait_and_run(k: int) -> Any:
            gate.wait()
            return job(k)

        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(wait_and_run, range(count)))

    return start


@pytest.fixture
def run(backend: CpuBackend) -> Run:
    """run(linear, *arrays) gives what a kernel leaves in its first buffer; each buffer starts as a copy of an array.

    run(linear, *arrays, outputs=n) gives a list of the first n buffers.
    """

    def launch(linear: Linear, *arrays: np.ndarray[Any, Any], variables: Sequence[int] = (), outputs: int = 0) -> Any:
        program = backend.load(backend.compiler.compile(backend.renderer.render(linear)))
        handles = [backend.allocator.alloc(array.nbytes) for array in arrays]
        for handle, array in zip(handles, arrays, strict=True):
            backend.allocator.copy_in(handle, memoryview(array))
        program.launch(handles, variables, (1, 1, 1))
        results = [np.empty_like(array) for array in arrays[: outputs or 1]]
        for result, handle in zip(results, handles, strict=False):
            backend.allocator.copy_out(memoryview(result), handle)
        return results if outputs else results[0]

    return launch
