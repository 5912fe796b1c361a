"""The NULL device: memory that stores nothing and programs that do nothing.

Every stage up to the launch is real (kernels are rendered as C and not compiled), so the time of compilation can be
measured without hardware. It is also the smallest complete plugin: a new device starts as a copy of this file.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.device.interfaces import Allocator, Backend, Handle, Program
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect
from tinygraft.render.renderer import Renderer
from tinygraft.target import BASIC_OPS, Target
from tinygraft.uop.stages import Binary


class NullAllocator(Allocator):
    """An allocator whose handles are sizes in bytes, without memory; reading gives zeros."""

    def alloc(self, nbytes: int) -> Handle:
        """Return the size itself, as the handle."""
        return nbytes

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Ignore the bytes."""

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Write zeros."""
        target.cast("B")[:] = bytes(target.nbytes)

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Return the size of the view."""
        return nbytes


class NullProgram(Program):
    """A kernel that is never run."""

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Do nothing."""


class NullBackend(Backend):
    """A device with vectors, so that the code generated for it looks like that of a real one."""

    survives_fork = True

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.target: Target = Target(arch="null", native_ops=BASIC_OPS, vector_bytes=32)
        self.renderer: Renderer = CStyleRenderer(Dialect(vectors=True))
        self.allocator: Allocator = NullAllocator()

    def load(self, binary: Binary) -> Program:
        """Return a program that does nothing."""
        return NullProgram()
