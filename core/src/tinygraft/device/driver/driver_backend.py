"""The parts of a backend that all cards with such a driver have: loading, queues, graphs, other libraries' streams."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from tinygraft.device.driver.driver_cards import DriverCard
from tinygraft.device.driver.driver_context import DriverContext
from tinygraft.device.driver.driver_graph import DriverGraph
from tinygraft.device.driver.driver_memory import DriverAllocator
from tinygraft.device.driver.driver_program import DriverProgram
from tinygraft.device.driver.driver_queue import DriverQueue
from tinygraft.device.interfaces import Backend, GraphExecutor, Program, Step
from tinygraft.uop.stages import Binary


class DriverBackend(Backend):
    """A card. A plugin's class sets what it declares here, and has a Target, a renderer and a compiler."""

    device: DriverCard
    allocator: DriverAllocator
    queue: DriverQueue
    context: DriverContext

    def open_context(
        self, context: DriverContext, dlpack: int, allocator: type[DriverAllocator] = DriverAllocator
    ) -> None:
        """Set the context of `device`, its first queue, and its memory, which `dlpack` is the kind of in dlpack.h.

        The queue is in one order with the default stream, on which other libraries work that say nothing of streams.
        """
        self.context = context
        self.queue = DriverQueue(self, is_beside=False)
        self.allocator = allocator(self.name, context, self.queue)
        self.dlpack_device: tuple[int, int] = (dlpack, self.device.number)
        context.backend = weakref.ref(self)

    def load(self, binary: Binary) -> Program:
        """Return the kernel of a binary. Raises DeviceError where the driver does not take it."""
        with self.queue.errors(f"kernel {binary.name} could not be loaded"):
            return DriverProgram(self.context, self.queue, binary)

    def make_queue(self) -> DriverQueue:
        """Return one more stream of the same context."""
        return type(self.queue)(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return `steps` as one graph of the driver, which is launched as a whole."""
        return DriverGraph(self, steps)

    def stream_number(self) -> int:
        """Return the first queue's stream as a number, as other libraries have theirs."""
        return self.context.number_of(self.queue.stream)

    def lend(self, stream: int) -> None:
        """Let another library's stream wait for all that was launched on the first queue; the host for other queues."""
        self.synchronize_others()
        self.context.order(self.queue.stream, self.context.stream_at(stream))

    def follow(self, stream: int) -> None:
        """Let the first queue wait for what another library has put on its stream."""
        self.context.order(self.context.stream_at(stream), self.queue.stream)

    def synchronize_others(self) -> None:
        """Wait for the queues beside the first."""
        for queue in self.timeline.queues if self.timeline is not None else ():
            if queue is not self.queue:
                queue.finish()

    def synchronize_all(self) -> None:
        """Wait for the whole context: for streams of other libraries too."""
        with self.queue.late_errors():
            self.context.synchronize()

    def close(self) -> None:
        """Wait for what still runs, unless it is known to have failed, and destroy what was made on the card."""
        try:
            if not self.context.is_lost:
                self.synchronize()
        finally:
            self.context.close()
