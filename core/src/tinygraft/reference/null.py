"""The NULL device: memory that holds nothing and programs that do nothing.

Every stage up to the launch runs for real, so it shows what compiling costs and needs no hardware. It is also the
smallest complete plugin: a new device starts as a copy of this file.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.device.interfaces import Allocator, Backend, Handle, Program
from tinygraft.render.renderer import Renderer
from tinygraft.target import BASIC_OPS, Target
from tinygraft.uop.stages import Binary, Linear, Source


class NullAllocator(Allocator):
    """Hands out the number of bytes that was asked for in place of memory; reading gives zeros."""

    def alloc(self, nbytes: int) -> Handle:
        """The size itself, as the handle."""
        return nbytes

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Forget the bytes."""

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Zeros."""
        target.cast("B")[:] = bytes(target.nbytes)

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """The size of the part."""
        return nbytes


class NullProgram(Program):
    """A kernel that is never run."""

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Do nothing."""


class LinearText(Renderer):
    """The linear form itself, one instruction a line, as the text of a kernel."""

    language = "linear"

    def render(self, linear: Linear) -> Source:
        """Each instruction with its number, its arg and the numbers of its sources."""
        number = {u: i for i, u in enumerate(linear.uops)}
        lines = [f"# {linear.name}: {', '.join(linear.actions) or 'no actions'}"]
        for i, u in enumerate(linear.uops):
            arg = "" if u.arg is None else f" {u.arg!r}"
            lines.append(f"{i:4} {u.op.name} {u.dtype.name}{arg} ({', '.join(str(number[s]) for s in u.src)})")
        return Source(linear.name, "\n".join(lines) + "\n", self.language, linear.signature)


class NullBackend(Backend):
    """A device with vectors, so that the code generated for it looks like that of a real one."""

    survives_fork = True

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.target = Target(arch="null", native_ops=BASIC_OPS, vector_bytes=32, joins_nests=True)
        self.renderer = LinearText()
        self.allocator = NullAllocator()

    def load(self, binary: Binary) -> Program:
        """A program that does nothing."""
        return NullProgram()
