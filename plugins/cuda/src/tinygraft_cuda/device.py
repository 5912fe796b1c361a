"""The CUDA backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from tinygraft.plugin import Backend, Binary, GraphExecutor, Program, Step
from tinygraft_cuda import cards, compiler
from tinygraft_cuda.allocator import CudaAllocator
from tinygraft_cuda.bindings import opened, why
from tinygraft_cuda.context import CudaContext
from tinygraft_cuda.dialect import cuda_renderer, target_of
from tinygraft_cuda.graph import CudaGraph
from tinygraft_cuda.probe import dotted
from tinygraft_cuda.program import CudaProgram
from tinygraft_cuda.queues import CudaQueue

DLPACK = 2  # what dlpack.h calls the memory of such a card


class CudaBackend(Backend):
    """A card. context says by which binding the driver is called."""

    allocator: CudaAllocator
    queue: CudaQueue
    compiler: compiler.NvrtcCompiler
    context: CudaContext
    array_interface = "__cuda_array_interface__"

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.device = cards.choose(ordinal)
        driver = cards.started()
        self.compiler = compiler.choose(driver.version, self.device.card.capability)
        self.target = target_of(self.device.card)
        self.renderer = cuda_renderer()
        self.context = opened(driver, self.device)
        # in one order with the default stream, on which other libraries work that say nothing of streams
        self.queue = CudaQueue(self, is_beside=False)
        self.allocator = CudaAllocator(name, self.context, self.queue)
        self.dlpack_device = (DLPACK, self.device.number)
        self.context.backend = weakref.ref(self)

    def load(self, binary: Binary) -> Program:
        """Return the kernel of a binary. Raises DeviceError where the driver does not take it."""
        with self.queue.errors(f"kernel {binary.name} could not be loaded"):
            return CudaProgram(self.context, self.queue, binary)

    def make_queue(self) -> CudaQueue:
        """Return one more stream of the same context."""
        return CudaQueue(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return a captured list of launches as one graph of the driver, which is launched as a whole."""
        return CudaGraph(self, steps)

    def stream_number(self) -> int:
        """Return the first queue's stream as a number, as PyTorch and CuPy have theirs."""
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

    def about(self) -> str:
        """Return the card, the versions, and which binding calls the driver and why, with the way to the other."""
        library, driver = self.compiler.library, self.context.driver
        every = cards.allowed()
        which = f"{self.device}, " + (f"of the cards {cards.named(every)}, " if len(every) > 1 else "")
        return (
            f"{which}a driver for CUDA {dotted(driver.version)}, NVRTC {dotted(library.version)} in "
            f"{library.path}; called by {self.context.binding}: {why(self.context.binding)}"
        )

    def close(self) -> None:
        """Wait for what still runs, unless it is known to have failed, and destroy what was made on the card."""
        try:
            if not self.context.is_lost:
                self.synchronize()
        finally:
            self.context.close()
