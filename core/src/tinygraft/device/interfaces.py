"""What a device plugin implements: Backend, Allocator, Compiler and Program, with defaults where there are any.

A Backend is one opened ordinal of a device. Required of a plugin: a Target, a renderer, three allocator methods,
`Backend.load` and `Program.launch`; all else has a default.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from tinygraft.errors import UnsupportedError
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target
from tinygraft.uop.stages import Binary, Source

Handle = Any  # a buffer as its allocator knows it; opaque to core


class Allocator(ABC):
    """Memory of one backend. Core keeps freed buffers for reuse; an allocator only hands memory out."""

    @abstractmethod
    def alloc(self, nbytes: int) -> Handle:
        """nbytes of uninitialised memory. Raises DeviceMemoryError when there is no room."""

    @abstractmethod
    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Host bytes to the device."""

    @abstractmethod
    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Device bytes to the host; waits for the kernels that write them."""

    def free(self, handle: Handle, nbytes: int) -> None:
        """Give memory back. Default: drop the reference."""

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """A part of a buffer. Default: not supported, so core never sub-allocates."""
        raise UnsupportedError(f"{type(self).__name__} has no views into a buffer")

    def as_host(self, handle: Handle) -> memoryview | None:
        """The buffer as host memory, without a copy; None where that cannot be. Default: None."""
        return None


class Program(ABC):
    """A loaded kernel."""

    @abstractmethod
    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run the kernel on buffers by slot; may return before it has finished."""


class Compiler:
    """From source to binary. The default passes the text on as UTF-8.

    key tells binaries of different compilers and options apart; None means that they are not kept on disk. threads is
    how many kernels are best compiled at once; above 1 compile() is called from that many threads.
    """

    key: str | None = None
    threads: int = 1

    def compile(self, source: Source) -> Binary:
        """Raises CompileError with the compiler's words."""
        return Binary(source.name, source.text.encode(), source.signature)


class Backend(ABC):
    """One opened ordinal of a device, such as CPU:0.

    survives_fork says that memory and programs still work in a forked child, as host memory does. Where it is False
    (a driver's context never survives) core forgets the backend in the child without closing it.
    """

    survives_fork: bool = False
    name: str
    target: Target
    renderer: Renderer
    allocator: Allocator
    compiler: Compiler

    def __init__(self, name: str, ordinal: int) -> None:
        self.name, self.ordinal = name, ordinal
        self.compiler = Compiler()

    @abstractmethod
    def load(self, binary: Binary) -> Program:
        """A binary as something that can be launched."""

    def synchronize(self) -> None:
        """Wait until everything that was launched has finished. Default: launches already wait."""

    def close(self) -> None:
        """Give everything back. Called once, in the reverse order of opening, also at exit."""

    def timed_launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int],
                     grid: tuple[int, int, int]) -> float:  # fmt: skip
        """Seconds that one launch took. Default: the clock of the host around it."""
        self.synchronize()
        start = time.perf_counter()
        program.launch(buffers, variables, grid)
        self.synchronize()
        return time.perf_counter() - start
