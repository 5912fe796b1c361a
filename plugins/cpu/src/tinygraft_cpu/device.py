"""The CPU backend: this machine as a Target, with the compiler that CPU_COMPILER names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from tinygraft.plugin import (
    BASIC_OPS,
    Backend,
    Binary,
    Compiler,
    DeviceUnavailable,
    GraphExecutor,
    Ops,
    Program,
    Renderer,
    Routine,
    SettingError,
    Step,
    Target,
)
from tinygraft_cpu import extension, machine, units
from tinygraft_cpu.allocator import ALIGNMENT, ProcessAllocator
from tinygraft_cpu.program import CpuProgram, NativeGraph
from tinygraft_cpu.routine_sources import about, declared
from tinygraft_cpu.spec import CPU_COMPILER, CPU_THREADS

# Both renderers divide and shift as the machine does, so rules.decompose makes operands safe; their casts saturate.
PLAIN_OPS = {Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}
NATIVE_OPS = BASIC_OPS - PLAIN_OPS | {Ops.MAX, Ops.MIN, Ops.SQRT, Ops.TRUNC, Ops.FMA, Ops.RECIPROCAL}


def _warn_of_other_names() -> None:
    """Warn of the number of threads under a name that other libraries have for it, which nothing reads."""
    for name in ("CPU_COUNT", "NUM_CPU_THREADS"):
        value = os.environ.get(name, "").strip()
        if value.isdigit() and "CPU_THREADS" not in os.environ:
            warnings.warn(
                f"{name}={value} changes nothing: there is no such setting; did you mean CPU_THREADS?", stacklevel=2
            )


class CpuBackend(Backend):
    """The host's processor. `compiler_name` is the route in use, llvm or c; `threads` how many a kernel may use."""

    survives_fork = True

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler_name: str = choose_compiler()
        _warn_of_other_names()
        self.threads: int = CPU_THREADS.value if CPU_THREADS.value > 0 else machine.thread_limit()
        threads = self.threads if extension.library() is not None else 1  # without the pool a launch is one thread
        self.target = host_target(threads, self.compiler_name)
        self.allocator = ProcessAllocator(name, threads)
        self.renderer, self.compiler = _route(self.compiler_name, self.target)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return an executor of a captured list of launches: by one native call, where the native runtime was built."""
        return super().graph(steps) if extension.library() is None else NativeGraph(self, steps, self.threads)

    def about(self) -> str:
        """Return where routines come from."""
        return about()

    def routine(self, routine: Routine) -> Program:
        """Return the Program of a routine that the Target declares. Raises UnsupportedError for another one."""
        from tinygraft_cpu.routines import program

        return program(routine, self.threads)

    def load(self, binary: Binary) -> Program:
        """Load machine code into memory. Returns it as a Program. Raises DeviceError."""
        if self.compiler_name == "llvm":
            from tinygraft_cpu.compile_llvm import LoadedObject

            return CpuProgram(LoadedObject(binary), binary.signature, self.threads)
        from tinygraft_cpu.compile_c import SharedLibrary

        return CpuProgram(SharedLibrary(binary), binary.signature, self.threads)


def choose_compiler() -> str:
    """Return llvm or c, by CPU_COMPILER and by what is installed. Raises SettingError and DeviceUnavailable."""
    wanted, found = CPU_COMPILER.value.lower(), machine.compilers()
    if wanted not in ("", "llvm", "c"):
        raise SettingError(f"CPU_COMPILER must be llvm or c, got {wanted!r}")
    if wanted == "llvm" and "llvm" not in found:
        raise DeviceUnavailable("CPU_COMPILER=llvm needs llvmlite, which is not installed; pip install llvmlite")
    if wanted == "c" and "c" not in found:
        why = machine.why_no_cc()
        raise DeviceUnavailable(f"CPU_COMPILER=c needs a C compiler, and {why}; install gcc or clang, or set CC to one")
    if not found:
        raise DeviceUnavailable(
            "the CPU device needs a compiler: llvmlite is not installed and no C compiler is on the PATH; "
            "pip install llvmlite, or install gcc or clang"
        )
    return wanted or next(iter(found))


def host_target(threads: int, compiler: str) -> Target:
    """Return this machine as a Target, for kernels on up to `threads` threads that a route, llvm or c, compiles."""
    return Target(
        arch=f"{compiler} {machine.arch()}",
        native_ops=NATIVE_OPS,
        vector_bytes=machine.vector_bytes(),
        gathers=machine.gathers() if compiler == "llvm" else (),  # C has no word for them
        branches=compiler == "llvm",
        registers=machine.registers(),
        multipliers=machine.multipliers(),
        matrix=units.units(compiler),
        chunks=threads,
        local_memory=768 << 10,
        l2_bytes=machine.cache_bytes(2),
        l3_bytes=machine.cache_bytes(3),
        stream_bytes=4 * machine.cache_bytes(2) * threads if machine.is_x86() else 0,
        fused_sums=machine.has_fma(),
        alignment=ALIGNMENT,
        routines=declared(),
    )


def _route(name: str, target: Target) -> tuple[Renderer, Compiler]:
    """Return the renderer and the compiler of a route, llvm or c. Only that one's modules are imported."""
    if name == "llvm":
        from tinygraft_cpu.compile_llvm import LLVMCompiler
        from tinygraft_cpu.dialect import llvm_renderer

        return llvm_renderer(target), LLVMCompiler()
    from tinygraft_cpu.compile_c import CCompiler, version
    from tinygraft_cpu.dialect import c_renderer

    compiler = CCompiler()
    return c_renderer(target, version(tuple(compiler.command))), compiler
