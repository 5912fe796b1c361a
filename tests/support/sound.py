"""Devices without a fault, which mutants are made from: PYTHON and others like it, and one in C with threads."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from gpusim import TARGET
from host_groups import HostGroups
from late_queues import LateBackend
from tinygraft.conformance.flushed import flushed
from tinygraft.device.interfaces import Handle, Program
from tinygraft.dtype import dtypes
from tinygraft.engine.arithmetic import of_memory
from tinygraft.engine.routine_values import routine_values
from tinygraft.reference.python import TARGET as PYTHON
from tinygraft.reference.python import HostAllocator, PythonBackend
from tinygraft.target import DeclaredRoutine
from tinygraft.uop.stages import Binary, Routine, Signature

Grid = tuple[int, int, int]


class Queued(PythonBackend):
    """The interpreter, whose launches return at once and run one after another in a thread of the device."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.tasks: queue.Queue[Callable[[], None] | None] = self.line()
        self.allocator = QueuedMemory(self)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def line(self) -> queue.Queue[Callable[[], None] | None]:
        """Where launches wait."""
        return queue.Queue()

    def work(self) -> None:
        """Run what waits until there is nothing more to come."""
        while (task := self.tasks.get()) is not None:
            task()
            self.tasks.task_done()

    def load(self, binary: Binary) -> Program:
        """A program that waits in the line."""
        return QueuedProgram(self, super().load(binary))

    def synchronize(self) -> None:
        """Wait until the line is empty."""
        self.tasks.join()

    def close(self) -> None:
        """End the thread."""
        self.tasks.put(None)
        self.thread.join()


class QueuedProgram(Program):
    """A kernel that is launched later."""

    def __init__(self, backend: Queued, program: Program) -> None:
        self.backend, self.program = backend, program

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> None:
        """Get in line."""
        self.backend.tasks.put(lambda: self.program.launch(buffers, variables, grid))


class QueuedMemory(HostAllocator):
    """Memory that is copied to and from once all launches before have run."""

    reads_early = writes_early = False

    def __init__(self, backend: Queued) -> None:
        self.backend = backend

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Wait, then copy."""
        if not self.writes_early:
            self.backend.tasks.join()
        super().copy_in(target, source)

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Wait, then copy."""
        if not self.reads_early:
            self.backend.tasks.join()
        super().copy_out(target, source)


class Kept(PythonBackend):
    """The interpreter, whose binaries are kept on disk."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler.key = "kept"


class Host(HostGroups):
    """C, with a thread of the host for each thread of a group."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__()
        self.name, self.ordinal = name, ordinal


class Gpu(PythonBackend):
    """The interpreter, with the Target of a GPU that has matrix units."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal, TARGET)


class Shares(PythonBackend):
    """The interpreter, whose loops four threads would share."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal, replace(PYTHON, chunks=4))


class FlushingProgram(Program):
    """A kernel of the interpreter after which buffers of float32 that it writes have zeros for subnormal numbers."""

    def __init__(self, program: Program, signature: Signature) -> None:
        self.program, self.params = program, signature.params

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Launch it, and flush."""
        self.program.launch(buffers, variables, grid)
        for buffer, param in zip(buffers, self.params, strict=True):
            if param.written and param.dtype is dtypes.float32:
                values = np.frombuffer(memoryview(buffer)[: param.size * 4], np.float32)
                values[:] = flushed(values, dtypes.float32)


class Flushes(PythonBackend):
    """The interpreter, which flushes results of float32, and declares that."""

    declared = False

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal, replace(PYTHON, subnormals=self.declared))

    def load(self, binary: Binary) -> Program:
        """The program, which flushes."""
        return FlushingProgram(super().load(binary), binary.signature)


class NumpyRoutine(Program):
    """A routine by its meaning in NumPy, of the device that interprets; `change` alters its operands and results."""

    def __init__(self, routine: Routine, change: Callable[[Routine, list[Any]], list[Any]]) -> None:
        self.routine, self.change = routine, change

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Compute the wanted results, which come before the operands."""
        count, routine = len(self.routine.results), self.routine
        given = [of_memory(bytearray(memoryview(buffer)[: prod(shape) * dtype.itemsize]), dtype).reshape(shape)
                 for buffer, (dtype, shape) in zip(buffers[count:], routine.operands, strict=True)]  # fmt: skip
        found = self.change(routine, routine_values(routine.name, given, routine.options))
        for buffer, number in zip(buffers, routine.results, strict=False):
            data = np.ascontiguousarray(found[number]).tobytes()
            memoryview(buffer)[: len(data)] = data


class Sorts(PythonBackend):
    """The interpreter, with routines that sort float32."""

    def __init__(self, name: str, ordinal: int) -> None:
        declared = tuple([DeclaredRoutine(routine, (dtypes.float32,)) for routine in ("sort", "topk", "unique")])
        super().__init__(name, ordinal, replace(PYTHON, routines=declared))

    def change(self, routine: Routine, found: list[Any]) -> list[Any]:
        """Return the results as they are."""
        return found

    def routine(self, routine: Routine) -> Program:
        """Return the routine with the fault of this device."""
        return NumpyRoutine(routine, self.change)


SOUND = {
    "SOUNDPYTHON": PythonBackend, "SOUNDKEPT": Kept, "SOUNDQUEUE": Queued, "SOUNDHOST": Host, "SOUNDGPU": Gpu,
    "SOUNDSHARES": Shares, "SOUNDLATE": LateBackend, "SOUNDSORTS": Sorts,
    "SOUNDFLUSHES": Flushes,
}  # fmt: skip
