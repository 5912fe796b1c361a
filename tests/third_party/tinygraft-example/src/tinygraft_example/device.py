"""EXAMPLE: each kernel becomes C, the C a shared library, and this process calls that.

TARGET is what the device can do, DIALECT the words of its language; the rest is its memory, compiler and programs.
"""

import _ctypes
import ctypes
import hashlib
import os
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from tinygraft.plugin import (
    Allocator,
    Backend,
    Binary,
    CompileError,
    Compiler,
    CStyleRenderer,
    DeviceMemoryError,
    DeviceUnavailable,
    Dialect,
    Handle,
    Program,
    Source,
    Target,
)

from tinygraft_example.probe import find_compiler

TARGET = Target(arch=os.uname().machine)
DIALECT = Dialect()
# Floats are computed as they are written, integers wrap, and memory may be read as another type.
OPTIONS = "-x c -std=gnu11 -O2 -w -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno -fPIC -shared".split()


class ExampleAllocator(Allocator):
    """Memory of this process. A handle is a memoryview of bytes."""

    def alloc(self, nbytes: int) -> memoryview:
        """Fresh memory. Raises DeviceMemoryError when the process has no room."""
        try:
            return memoryview(bytearray(nbytes))
        except (MemoryError, OverflowError):
            raise DeviceMemoryError(f"EXAMPLE has no room for {nbytes} bytes") from None

    def copy_in(self, target: memoryview, source: memoryview) -> None:
        """Host bytes to the device."""
        target[: source.nbytes] = source.tobytes()

    def copy_out(self, target: memoryview, source: memoryview) -> None:
        """Device bytes to the host."""
        if target.nbytes:
            target.cast("B")[:] = source[: target.nbytes]

    def view(self, handle: memoryview, offset: int, nbytes: int) -> memoryview:
        """A part of a buffer, which keeps the whole alive."""
        return handle[offset : offset + nbytes]

    def as_host(self, handle: memoryview) -> memoryview:
        """The buffer itself: it is host memory."""
        return handle


class ExampleCompiler(Compiler):
    """The system's C compiler: from a kernel in C to the bytes of a shared library."""

    def __init__(self, command: list[str]) -> None:
        version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
        self.command = [*command, *OPTIONS]
        self.key = hashlib.sha256(f"{self.command} {version} {TARGET.arch}".encode()).hexdigest()
        self.threads = os.cpu_count() or 1

    def compile(self, source: Source) -> Binary:
        """Raises CompileError with the compiler's words."""
        with tempfile.TemporaryDirectory() as folder:
            command = [*self.command, "-o", f"{folder}/kernel.so", "-", "-lm"]
            done = subprocess.run(command, input=source.text, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(f"{command[0]} refused {source.name}: {done.stderr}", source.text, done.stderr)
            return Binary(source.name, Path(folder, "kernel.so").read_bytes(), source.signature)


class ExampleProgram(Program):
    """A kernel `void f(void **buffers, const long long *variables)` of a shared library, unloaded with this."""

    def __init__(self, binary: Binary) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "kernel.so").write_bytes(binary.data)
            library = ctypes.CDLL(f"{folder}/kernel.so")
        weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
        self.function, self.scratch = library[binary.name], binary.signature.scratch
        self.function.restype = None

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run the kernel: the first of one part, with scratch memory of its own. It has finished on return."""
        room = ctypes.create_string_buffer(self.scratch + 64)
        numbers = [*variables, 0, 1, ctypes.addressof(room) + -ctypes.addressof(room) % 64]
        addresses = [ctypes.addressof(ctypes.c_char.from_buffer(b)) if b else None for b in buffers]
        self.function((ctypes.c_void_p * len(buffers))(*addresses), (ctypes.c_longlong * len(numbers))(*numbers))


class ExampleBackend(Backend):
    """One ordinal of EXAMPLE; all of them share the processor and the memory of the host."""

    survives_fork = True  # host memory does; threads of a pool would not

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        if (command := find_compiler()) is None:
            raise DeviceUnavailable(f"{name} needs a C compiler, and none is on the PATH; install gcc or clang")
        self.target, self.renderer = TARGET, CStyleRenderer(DIALECT)
        self.allocator, self.compiler = ExampleAllocator(), ExampleCompiler(command)

    def load(self, binary: Binary) -> Program:
        """The shared library in this process, ready to be called."""
        return ExampleProgram(binary)
