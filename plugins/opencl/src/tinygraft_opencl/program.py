"""Loaded kernels: launched one by one, or as a prepared list whose arguments are set once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygraft.plugin import (
    Backend,
    DeviceError,
    DeviceMemoryError,
    GraphExecutor,
    Handle,
    Program,
    Signature,
    Step,
    size_of,
)
from tinygraft_opencl.allocator import ClMemory
from tinygraft_opencl.platforms import binding

WorkSizes = tuple[int, int, int]


class ClProgram(Program):
    """A loaded kernel. It runs in work-groups of threads; a chunked one in as many chunks as the device has `units`."""

    name: str
    signature: Signature

    def __init__(self, name: str, program: Any, queue: Any, signature: Signature, units: int) -> None:
        self.name, self.program, self.queue, self.signature = name, program, queue, signature
        self.units: int = units if signature.chunked else 1
        self.cl = binding()
        self.kernel = self.new_kernel()
        self.lock = threading.Lock()  # the arguments of a kernel are its state

    def new_kernel(self) -> Any:
        """Return a new kernel object of the program, with its own arguments."""
        return self.cl.Kernel(self.program, self.name)

    def launch(self, buffers: Sequence[ClMemory | None], variables: Sequence[int], grid: WorkSizes) -> None:
        """Run the kernel on the first queue; returns before it has finished."""
        self.enqueue(self.queue, buffers, variables, grid)

    def enqueue(
        self, queue: Any, buffers: Sequence[ClMemory | None], variables: Sequence[int], grid: WorkSizes
    ) -> None:
        """Set the arguments and add a launch to pyopencl's `queue`; does not wait.

        Raises DeviceMemoryError or DeviceError for what the driver refuses.
        """
        with self.lock, errors_of(self.name):
            for argument, buffer in enumerate(buffers):
                self.kernel.set_arg(argument, None if buffer is None else buffer.buffer)
            for argument, value in enumerate(variables, len(buffers)):
                self.kernel.set_arg(argument, np.int64(value))
            self.start(queue, self.kernel, grid)

    def start(self, queue: Any, kernel: Any, grid: WorkSizes) -> None:
        """Add a launch of `kernel`, whose arguments are set, to a queue; none where the grid has no thread blocks."""
        threads = self.signature.block_threads
        whole = (grid[0] * threads * self.units, grid[1], grid[2])
        if 0 not in whole:
            self.cl.enqueue_nd_range_kernel(queue, kernel, whole, (threads, 1, 1))


class ClGraph(GraphExecutor):
    """A captured list of launches, each with its own kernel object, so that only changed arguments are set again."""

    SECONDS = 0.1  # after which `run` returns, so that Python can handle Ctrl-C (GraphExecutor.run)

    def __init__(self, backend: Backend, steps: Sequence[Step]) -> None:
        super().__init__(backend, steps)
        self.kernels: list[Any | None] = [None if s.program is None else program_of(s).new_kernel() for s in steps]
        self.uses: dict[int, list[tuple[Any, int]]] = {}  # by place: the kernels, and which argument of each it is
        self.readers: dict[str, list[tuple[Any, int]]] = {}  # the same by variable
        for kernel, step in zip(self.kernels, steps, strict=True):
            if kernel is not None:
                for argument, place in enumerate(step.buffers):
                    self.uses.setdefault(place, []).append((kernel, argument))
                for argument, name in enumerate(step.variables, len(step.buffers)):
                    self.readers.setdefault(name, []).append((kernel, argument))

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Let `handle` be the buffer of `place`; sets the arguments of all kernels that use it."""
        super().set_buffer(place, handle)
        for kernel, argument in self.uses.get(place, ()):
            kernel.set_arg(argument, None if handle is None else handle.buffer)

    def set_values(self, values: Mapping[str, int]) -> None:
        """Set the values of variables, by name."""
        super().set_values(values)
        for name, arguments in self.readers.items():
            for kernel, argument in arguments:
                kernel.set_arg(argument, np.int64(values[name]))

    def run(self, first: int) -> int:
        """Add steps from number `first` on to the queue. Returns the number of the step that comes next."""
        until = time.perf_counter() + self.SECONDS
        number = first
        while number < len(self.steps) and (number == first or time.perf_counter() < until):
            self._start(number)
            number += 1
        return number

    def _start(self, number: int) -> None:
        """Add one step, a launch or a copy, to the queue."""
        step, kernel = self.steps[number], self.kernels[number]
        if kernel is None:
            target, source = (self.handles[place] for place in step.buffers)
            self.queue.copy(target, source, step.nbytes)
            return
        x, y, z = (size_of(size, self.values) for size in step.grid)
        program = program_of(step)
        with errors_of(program.name):
            program.start(self.queue.queue, kernel, (x, y, z))  # type: ignore[attr-defined]


def program_of(step: Step) -> ClProgram:
    """Return the program of a step that has one."""
    assert isinstance(step.program, ClProgram)
    return step.program


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Raise what the driver refuses in the block as DeviceMemoryError or DeviceError, with the kernel's name."""
    cl = binding()
    try:
        yield
    except cl.MemoryError as error:
        raise DeviceMemoryError(
            f"no room to run kernel {name}: {error}; drop tensors that are no longer needed, or use a smaller batch"
        ) from error
    except cl.Error as error:
        raise DeviceError(f"kernel {name} could not be launched: {error}") from error
