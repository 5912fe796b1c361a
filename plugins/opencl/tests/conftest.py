"""For the tests of the OpenCL plugin: a backend with work-groups and one with loops, kernels on numpy arrays, marks."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft.config import Context
from tinygraft.uop.stages import Linear
from tinygraft_opencl.device import OpenCLBackend

Run = Callable[..., Any]
# operations on edge values: make test-slow has these dtypes, make long the others; PoCL takes seconds for each of them
SOME = {"bool", "int32", "float32", "float16"}


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the kit tests of other dtypes with the levels that are the same for all of them."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.parent != Path(__file__).parent:
            continue
        on_edges = item.originalname in ("test_elementwise", "test_constants")
        if on_edges and item.callspec.params["dtype"].name not in SOME:
            item.add_marker(pytest.mark.long)


def opened(groups: str) -> OpenCLBackend:
    """Open a backend whose kernels run in work-groups (1) or as loops (0), the value of OPENCL_GROUPS."""
    with Context(OPENCL_GROUPS=groups):
        backend = OpenCLBackend("OPENCL", 0)
    assert backend.work_groups == (groups == "1")
    return backend


@pytest.fixture(scope="session")
def loops() -> Iterator[OpenCLBackend]:
    """A backend whose kernels are loops."""
    backend = opened("0")
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def groups() -> Iterator[OpenCLBackend]:
    """A backend whose kernels run in work-groups (thread blocks)."""
    backend = opened("1")
    yield backend
    backend.close()


@pytest.fixture(params=["loops", "groups"])
def backend(request: pytest.FixtureRequest) -> OpenCLBackend:
    """Each of the two in turn."""
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def run() -> Run:
    """run(backend, linear, *arrays) gives what a kernel leaves in its first buffer; each starts as an array."""

    def launch(backend: OpenCLBackend, linear: Linear, *arrays: np.ndarray[Any, Any],
               variables: Sequence[int] = (), grid: tuple[int, int, int] = (1, 1, 1)) -> Any:  # fmt: skip
        program = backend.load(backend.compiler.compile(backend.renderer.render(linear)))
        handles = [backend.allocator.alloc(array.nbytes) for array in arrays]
        for handle, array in zip(handles, arrays, strict=True):
            backend.allocator.copy_in(handle, memoryview(array))
        program.launch(handles, variables, grid)
        result = np.empty_like(arrays[0])
        backend.allocator.copy_out(memoryview(result), handles[0])
        return result

    return launch
