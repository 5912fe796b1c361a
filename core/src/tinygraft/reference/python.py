"""The PYTHON device: runs the linear form of any Target in Python, slowly and exactly.

It is the oracle of the other devices and a sanitizer: every access outside a buffer, every read of scratch memory
before it is written, every barrier that not all threads reach, and every element that one thread writes and another
uses without a barrier between raises an error that names the kernel. Numbers are Python numbers, rounded once to their
dtype after each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any

from tinygraft.device.interfaces import Allocator, Backend, Compiler, Handle, Program
from tinygraft.dtype import dtypes
from tinygraft.errors import CompileError, DeviceMemoryError, GraphError
from tinygraft.reference import matrices
from tinygraft.reference.numbers import VIEW, namespace
from tinygraft.reference.pytext import PythonRenderer
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE
from tinygraft.uop.stages import Binary, Signature, Source

TARGET = Target(
    arch="python",
    compute_dtypes=frozenset(dtypes.all),
    native_ops=ELEMENTWISE,
    vector_bytes=0,
    chunks=1,
)


class HostAllocator(Allocator):
    """Memory of the process, as flat memoryviews of bytes."""

    def alloc(self, nbytes: int) -> Handle:
        """Return a memoryview of zeros. Raises DeviceMemoryError when the process has no memory left."""
        try:
            return memoryview(bytearray(nbytes))
        except MemoryError:
            raise DeviceMemoryError(f"the process has no room for a buffer of {nbytes} bytes") from None

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Copy host bytes to the start of a buffer."""
        target[: source.nbytes] = source.cast("B") if source.nbytes else source

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Copy the start of a buffer to host bytes."""
        if target.nbytes:
            target.cast("B")[:] = source[: target.nbytes]

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Return the same memory from `offset` on."""
        return handle[offset : offset + nbytes]

    def as_host(self, handle: Handle) -> memoryview | None:
        """Return the memory itself."""
        return handle  # type: ignore[no-any-return]

    def at_address(self, address: int, nbytes: int) -> Handle:
        """Return the memory at an address, without owning it."""
        from ctypes import c_ubyte

        return memoryview((c_ubyte * nbytes).from_address(address)).cast("B")


class PythonCompiler(Compiler):
    """Checks the syntax by Python's own `compile`; the binary is the text."""

    def compile(self, source: Source) -> Binary:
        """Return the text as a binary. Raises CompileError with Python's message."""
        _code(source.name, source.text)
        return Binary(source.name, source.text.encode(), source.signature)


def _code(name: str, text: str) -> CodeType:
    """Compile the text of a kernel. Raises CompileError with that text."""
    try:
        return compile(text, f"<kernel {name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise CompileError(f"Python refused kernel {name}: {error}", text, str(error)) from error


class PythonProgram(Program):
    """A kernel as Python functions, run thread block by thread block and chunk by chunk."""

    name: str
    signature: Signature
    parts: int
    group: Any

    def __init__(self, name: str, text: str, signature: Signature) -> None:
        names = namespace(name) | matrices.namespace()
        exec(_code(name, text), names)
        self.name, self.signature = name, signature
        self.group, self.parts = names["group"], int(names["parts"])
        self.touched: list[Callable[[], Any]] = [partial(names["Touched"], buffer) for buffer in names["watched"]]

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run every chunk of every thread block. Raises GraphError for a buffer that is smaller than its parameter."""
        arguments = [*self._views(buffers), *(touched() for touched in self.touched), *variables]
        try:
            for g2 in range(grid[2]):
                for g1 in range(grid[1]):
                    for g0 in range(grid[0]):
                        for part in range(self.parts):
                            self.group(*arguments, part, self.parts, g0, g1, g2)
        except Exception as error:  # the kernel may have stored elements before: its outputs are not to be trusted
            error.stored = True  # type: ignore[attr-defined]
            raise

    def _views(self, buffers: Sequence[Handle]) -> list[Any]:
        """Return each buffer as a memoryview of its parameter's dtype. Raises GraphError for a wrong number or size."""
        params = self.signature.params
        if len(buffers) != len(params):
            raise GraphError(f"kernel {self.name} takes {len(params)} buffers, got {len(buffers)}")
        views: list[Any] = []
        for slot, (param, buffer) in enumerate(zip(params, buffers, strict=True)):
            nbytes = param.size * param.dtype.itemsize
            if nbytes and buffer.nbytes < nbytes:  # an empty buffer has no memory
                raise GraphError(
                    f"kernel {self.name} takes {nbytes} bytes as data{slot}, the buffer has {buffer.nbytes}"
                )
            views.append(buffer[:nbytes].cast(VIEW[param.dtype]) if nbytes else [])
        return views


class PythonBackend(Backend):
    """One ordinal of PYTHON; all ordinals are the same process."""

    survives_fork = True

    def __init__(self, name: str, ordinal: int, target: Target = TARGET) -> None:
        super().__init__(name, ordinal)
        self.target = target
        self.renderer: Renderer = PythonRenderer()
        self.allocator: Allocator = HostAllocator()
        self.compiler: Compiler = PythonCompiler()

    def load(self, binary: Binary) -> Program:
        """Return the program of a binary."""
        return PythonProgram(binary.name, binary.data.decode(), binary.signature)
