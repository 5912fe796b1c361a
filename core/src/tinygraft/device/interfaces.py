"""What a device plugin implements: Backend, Allocator, Compiler, Program and GraphExecutor, with defaults.

A Backend is one opened ordinal of a device. Required of a plugin: a Target, a renderer, three allocator methods,
`Backend.load` and `Program.launch`; all else has a default.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.errors import UnsupportedError
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target
from tinygraft.uop.index import size_of
from tinygraft.uop.shape import sint
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

    def copy(self, target: Handle, source: Handle, nbytes: int) -> None:
        """Bytes from one buffer to another of this memory. Default: through the host."""
        view = self.as_host(source)
        if view is None:
            view = memoryview(bytearray(nbytes))
            self.copy_out(view, source)
        self.copy_in(target, view)

    def free(self, handle: Handle, nbytes: int) -> None:
        """Give memory back. Default: drop the reference."""

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """A part of a buffer. Default: not supported, so core never sub-allocates."""
        raise UnsupportedError(f"{type(self).__name__} has no views into a buffer")

    def as_host(self, handle: Handle) -> memoryview | None:
        """The buffer as host memory, writable, without a copy; None where that cannot be. Default: None."""
        return None

    def at_address(self, address: int, nbytes: int) -> Handle:
        """Memory that somebody else made, as a buffer that this never frees. Default: not supported."""
        raise UnsupportedError(f"{type(self).__name__} cannot use memory that others made")


class Program(ABC):
    """A loaded kernel."""

    @abstractmethod
    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run the kernel on buffers by slot; may return before it has finished.

        What it raises it raises before the kernel has stored anything. Where that is not so, the error is a
        DeviceLostError, after which nothing on the device is read any more, or has an attribute `stored`: what this
        kernel stores to is lost then. The same holds for copies.
        """


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a captured list: a program, or a copy of nbytes within the memory of the device when there is none.

    buffers are places: numbers of the list's buffers, which are given later; a copy has its target and its source.
    variables are names in the order in which the program takes them. A size of the grid may be symbolic.
    """

    program: Program | None
    buffers: tuple[int, ...]
    variables: tuple[str, ...] = ()
    grid: tuple[sint, sint, sint] = (1, 1, 1)
    nbytes: int = 0


class GraphExecutor:
    """A captured list of launches on one backend, to be run again with other buffers and values.

    This one launches step by step from Python; a device that can do better overrides it. It is used by one thread at a
    time. Before the first run each place has been given its buffer; buffers and values stay until they are changed.
    is_native says that no Python runs in run(), so that Ctrl-C cannot end it in the middle of a step.
    """

    is_native: bool = False

    def __init__(self, backend: Backend, steps: Sequence[Step]) -> None:
        self.backend, self.steps = backend, steps
        self.handles: dict[int, Handle] = {}
        self.values: Mapping[str, int] = {}

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Let handle be the buffer of a place."""
        self.handles[place] = handle

    def set_values(self, values: Mapping[str, int]) -> None:
        """Give variables their values, by name."""
        self.values = values

    def run(self, first: int) -> int:
        """Run steps from number first on, at least one; the number of the step that comes next.

        Returns after a tenth of a second at the latest (or one step that takes longer), since Python hears of Ctrl-C
        only in between. Default: one step.
        """
        step = self.steps[first]
        handles = [self.handles[place] for place in step.buffers]
        if step.program is None:
            self.backend.synchronize()
            self.backend.allocator.copy(handles[0], handles[1], step.nbytes)
        else:
            x, y, z = (size_of(size, self.values) for size in step.grid)
            step.program.launch(handles, [self.values[name] for name in step.variables], (x, y, z))
        return first + 1


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

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """A captured list of launches as something that runs it again. Default: launch by launch from Python."""
        return GraphExecutor(self, steps)

    def synchronize(self) -> None:
        """Wait until everything that was launched has finished. Default: launches already wait."""

    def copy_from(self, target: Handle, peer: Backend, source: Handle, nbytes: int) -> None:
        """Bytes from a buffer of another backend (peer) to one of this, waiting for the kernels that write them.

        Default: through the host. A plugin whose devices see each other's memory overrides it, asks what peer is, and
        leaves all others to this.
        """
        peer.synchronize()
        view = peer.allocator.as_host(source)
        if view is None:
            view = memoryview(bytearray(nbytes))
            peer.allocator.copy_out(view, source)
        self.allocator.copy_in(target, view)

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
