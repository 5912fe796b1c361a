"""Loaded kernels, launched one by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from tinygraft.device.driver.driver_context import DriverContext
from tinygraft.device.driver.driver_memory import DriverMemory
from tinygraft.device.driver.driver_module import DriverModule
from tinygraft.device.driver.driver_queue import DriverQueue, GridSize
from tinygraft.device.interfaces import Program
from tinygraft.errors import DeviceError
from tinygraft.uop.stages import Binary


class DriverProgram(Program):
    """A kernel of a card, launched on `queue` unless another one is named.

    Raises DeviceError for a binary that is not taken.
    """

    name: str
    context: DriverContext
    queue: DriverQueue
    threads: int
    shared: int

    def __init__(self, context: DriverContext, queue: DriverQueue, binary: Binary) -> None:
        signature = binary.signature
        self.name, self.context, self.queue = binary.name, context, queue
        self.threads, self.shared = signature.block_threads, signature.shared
        self.module: DriverModule = context.load(binary.name, binary.data, signature.shared)

    def launch(self, buffers: Sequence[DriverMemory | None], variables: Sequence[int], grid: GridSize) -> None:
        """Run the kernel on the first queue; returns before it has finished.

        A grid without thread blocks launches nothing.
        """
        self.enqueue(self.queue.stream, buffers, variables, grid)

    def enqueue(
        self, stream: Any, buffers: Sequence[DriverMemory | None], variables: Sequence[int], grid: GridSize
    ) -> None:
        """Put a launch behind the others of a stream; nothing where a size of the grid is 0.

        Raises what the driver's error is, with the name of the kernel.
        """
        if 0 in grid:
            return
        words, mark = words_of(buffers, variables), self.context.mark
        try:
            with nullcontext() if mark is None else mark(self.name):
                self.context.launch(self.module, grid, self.threads, self.shared, stream, words)
        except DeviceError as error:
            raise type(error)(f"kernel {self.name} could not be launched: {error}") from error


def words_of(buffers: Sequence[DriverMemory | None], variables: Sequence[int]) -> list[int]:
    """Return the arguments of a kernel: addresses, 0 where there are no elements, then numbers."""
    return [0 if buffer is None else buffer.value for buffer in buffers] + list(variables)
