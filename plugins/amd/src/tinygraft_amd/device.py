"""The AMD backend: one card in numbers, with its context, its first queue and the compiler for it."""

from __future__ import annotations

from tinygraft.plugin.driver import DriverBackend
from tinygraft_amd import compiler
from tinygraft_amd.cards import CARDS
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
        self.device = CARDS.choose(ordinal)
        self.driver = CARDS.started()
        self.compiler = compiler.choose(self.device.card.arch)
        self.target = target_of(self.device.card)
        self.renderer = amd_renderer()
        self.open_context(AmdContext(self.driver, self.device), DLPACK)

    def about(self) -> str:
        """Return the card, the version, and what compiles kernels and why, with the way to another."""
        return (
            f"{CARDS.about(self.device)}{self.device.card.arch}, waves of {self.device.card.wave}, HIP "
            f"{dotted(self.driver.version)} in {self.driver.path}, called by cffi; kernels are compiled by "
            f"{self.compiler.about()}; experimental: it has been run on an emulated HIP only"
        )
