"""The CUDA backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.plugin import Backend, Binary, GraphExecutor, Program, Step
from tinygraft_cuda import cards, compiler
from tinygraft_cuda.allocator import CudaAllocator
from tinygraft_cuda.bindings import opened
from tinygraft_cuda.context import CudaContext
from tinygraft_cuda.dialect import cuda_renderer, target_of
from tinygraft_cuda.graph import CudaGraph
from tinygraft_cuda.program import CudaProgram
from tinygraft_cuda.queues import CudaQueue


class CudaBackend(Backend):
    """A card. context says by which binding the driver is called."""

    allocator: CudaAllocator
    queue: CudaQueue
    context: CudaContext

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.device = cards.choose(ordinal)
        driver = cards.started()
        self.compiler = compiler.choose(driver.version, self.device.card.capability)
        self.target = target_of(self.device.card)
        self.renderer = cuda_renderer()
        self.context = opened(driver, self.device)
        self.queue = CudaQueue(self)
        self.allocator = CudaAllocator(name, self.context, self.queue)

    def load(self, binary: Binary) -> Program:
        """Return the kernel of a binary. Raises DeviceError where the driver does not take it."""
        return CudaProgram(self.context, self.queue, binary)

    def make_queue(self) -> CudaQueue:
        """Return one more stream of the same context."""
        return CudaQueue(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return a captured list of launches as one graph of the driver, which is launched as a whole."""
        return CudaGraph(self, steps)

    def close(self) -> None:
        """Wait for what still runs, and let go of the card."""
        try:
            self.synchronize()
        finally:
            self.context.close()
