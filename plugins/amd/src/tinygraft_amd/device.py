"""The AMD backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

import weakref

from tinygraft.plugin.driver import DriverAllocator, DriverBackend, DriverQueue, named
from tinygraft_amd import cards, compiler
from tinygraft_amd.context import AmdContext
from tinygraft_amd.dialect import amd_renderer, target_of
from tinygraft_amd.probe import dotted

DLPACK = 10  # what dlpack.h calls the memory of such a card


class AmdBackend(DriverBackend):
    """A card."""

    context: AmdContext
    compiler: compiler.AmdCompiler
    array_interface = "__cuda_array_interface__"  # PyTorch and CuPy have this name on ROCm too

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.device = cards.choose(ordinal)
        self.driver = cards.started()
        self.compiler = compiler.choose(self.device.card.arch)
        self.target = target_of(self.device.card)
        self.renderer = amd_renderer()
        self.context = AmdContext(self.driver, self.device)
        # in one order with the default stream, on which other libraries work that say nothing of streams
        self.queue = DriverQueue(self, is_beside=False)
        self.allocator = DriverAllocator(name, self.context, self.queue)
        self.dlpack_device = (DLPACK, self.device.number)
        self.context.backend = weakref.ref(self)

    def about(self) -> str:
        """Return the card, the version, and what compiles kernels and why, with the way to another."""
        every = cards.every()
        which = f"{self.device}, " + (f"of the cards {named(every)}, " if len(every) > 1 else "")
        return (
            f"{which}{self.device.card.arch}, waves of {self.device.card.wave}, HIP {dotted(self.driver.version)} in "
            f"{self.driver.path}, called by cffi; kernels are compiled by {self.compiler.about()}; experimental: it "
            "has been run on an emulated HIP only"
        )
