"""The CUDA backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

import weakref

from tinygraft.plugin.driver import DriverAllocator, DriverBackend, DriverQueue, named
from tinygraft_cuda import cards, compiler
from tinygraft_cuda.bindings import opened, why
from tinygraft_cuda.context import CudaContext
from tinygraft_cuda.dialect import cuda_renderer, target_of
from tinygraft_cuda.driver import Driver
from tinygraft_cuda.probe import dotted

DLPACK = 2  # what dlpack.h calls the memory of such a card


class CudaAllocator(DriverAllocator):
    """Memory of the primary context of a card."""

    primary = "; with pycuda, import pycuda.autoprimaryctx instead of pycuda.autoinit"


class CudaBackend(DriverBackend):
    """A card. context says by which binding the driver is called."""

    compiler: compiler.NvrtcCompiler
    context: CudaContext
    array_interface = "__cuda_array_interface__"

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.device = cards.choose(ordinal)
        self.driver: Driver = cards.started()
        self.compiler = compiler.choose(self.driver.version, self.device.card.capability)
        self.target = target_of(self.device.card)
        self.renderer = cuda_renderer()
        self.context = opened(self.driver, self.device)
        # in one order with the default stream, on which other libraries work that say nothing of streams
        self.queue = DriverQueue(self, is_beside=False)
        self.allocator = CudaAllocator(name, self.context, self.queue)
        self.dlpack_device = (DLPACK, self.device.number)
        self.context.backend = weakref.ref(self)

    def about(self) -> str:
        """Return the card, the versions, and which binding calls the driver and why, with the way to the other."""
        library, driver = self.compiler.library, self.driver
        every = cards.every()
        which = f"{self.device}, " + (f"of the cards {named(every)}, " if len(every) > 1 else "")
        return (
            f"{which}a driver for CUDA {dotted(driver.version)}, NVRTC {dotted(library.version)} in "
            f"{library.path}; called by {self.context.binding}: {why(self.context.binding)}"
        )
