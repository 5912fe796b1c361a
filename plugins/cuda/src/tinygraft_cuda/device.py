"""The CUDA backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

from tinygraft.plugin.driver import DriverAllocator, DriverBackend
from tinygraft_cuda import compiler
from tinygraft_cuda.bindings import opened, why
from tinygraft_cuda.cards import CARDS
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
        self.device = CARDS.choose(ordinal)
        self.driver: Driver = CARDS.started()
        self.compiler = compiler.choose(self.driver.version, self.device.card.capability)
        self.target = target_of(self.device.card)
        self.renderer = cuda_renderer()
        self.open_context(opened(self.driver, self.device), DLPACK, CudaAllocator)

    def about(self) -> str:
        """Return the card, the versions, and which binding calls the driver and why, with the way to the other."""
        library, driver = self.compiler.library, self.driver
        return (
            f"{CARDS.about(self.device)}a driver for CUDA {dotted(driver.version)}, NVRTC {dotted(library.version)} in "
            f"{library.path}; called by {self.context.binding}: {why(self.context.binding)}"
        )
