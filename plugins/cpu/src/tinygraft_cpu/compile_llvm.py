"""LLVM in this process through llvmlite: from IR to an object file, and from an object file to an address.

Two passes are enough, because the IR already has its vectors, unrolled copies and loops tested at their end: one makes
stack slots values, one simplifies branches. instruction_combine made some kernels slower (it merges the selects
of a softmax into one long chain), new_gvn has an assertion that fails on some and ends the process (LLVM 22.1).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from tinygraft.plugin import DEBUG, Binary, CompileError, Compiler, DeviceError, Source
from tinygraft_cpu.machine import thread_limit

PASSES = ("sroa", "simplify_cfg")
OBJECTS = 64  # a new linker takes 1.6 ms (measured 2026-11-22), 0.03 ms for each of its objects


class Machine:
    """LLVM for this processor. The first use (`machine()`) imports llvmlite and makes the target.

    llvmlite's lock lets one thread at a time into the library. Writing objects is nine tenths of a compilation and
    accesses only its own module and target machine, so that function is called through ctypes, without the lock.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.llvm = llvm
        self.cpu, self.features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        self.version: str = ".".join(map(str, llvm.llvm_version_info))
        self.lock = threading.Lock()
        self.idle: list[tuple[Any, Any]] = []  # target machines and passes that no thread uses now
        self.loaded = 0  # object files that were linked so far
        self.jit: Any = None  # the linker of the objects that were loaded last
        locked = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory
        self.emit = ctypes.CDLL(llvm.ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
        self.emit.argtypes, self.emit.restype = locked.argtypes, locked.restype

    def target_machine(self) -> Any:
        """Return a new target machine, with the features of this processor listed one by one."""
        return self.llvm.Target.from_default_triple().create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small", jit=True
        )

    def tools(self) -> tuple[Any, Any]:
        """Return a new target machine with the passes for it; both can be used for many modules."""
        passes = self.llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        return self.target_machine(), passes

    def optimize(self, module: Any, target: Any, passes: Any) -> None:
        """Run the passes over a module, with a new pass builder.

        llvmlite's run leaves callbacks in the builder that refer to the stack of this run, and the next run with the
        same builder calls them, which may crash. So none is used twice, though 1.7 kB of each are never freed.
        """
        options = self.llvm.create_pipeline_tuning_options(speed_level=1)
        passes.run(module, self.llvm.create_pass_builder(target, options))

    def link(self, binary: Binary) -> tuple[Any, Any]:
        """Link an object file into memory. Returns its code and the linker, which has to live as long as the code.

        A linker keeps 9 kB for each name that it has ever had, so each has OBJECTS of them and is freed with the last
        one. Raises RuntimeError with LLVM's message.
        It is JITLink, which puts the sections of an object into one piece of memory. LLVM's older linker takes them
        one by one, and where they came to lie more than 2 GB apart, an assertion of it ended the process.
        """
        with self.lock:
            if self.loaded % OBJECTS == 0:
                self.jit = self.llvm.create_lljit_compiler(self.target_machine(), use_jit_link=True)
            self.loaded += 1
            builder = self.llvm.JITLibraryBuilder().add_object_img(binary.data).export_symbol(binary.name)
            return builder.link(self.jit, f"{binary.name}.{self.loaded}"), self.jit

    def compiled(self, text: str, assembly: bool) -> tuple[bytes, str]:
        """Return the object file of a module, and its assembly where `assembly` is set, else an empty text.

        Raises RuntimeError with LLVM's message.
        """
        try:
            tools = self.idle.pop()
        except IndexError:
            tools = self.tools()
        target, passes = tools
        try:  # the module is freed before its context, whatever happens: the other order ends the process
            with self.llvm.create_context() as context, self.llvm.parse_assembly(text, context) as module:
                module.verify()
                self.optimize(module, target, passes)
                detail = target.emit_assembly(module) if assembly else ""
                return self._object(module, target), detail
        finally:
            self.idle.append(tools)

    def _object(self, module: Any, target: Any) -> bytes:
        """Return the object file that LLVM writes of a module for a target machine.

        Raises RuntimeError where it cannot.
        """
        ffi = self.llvm.ffi
        with ffi.OutputString() as error:
            written = self.emit(target, module, 1, error)
            if not written:
                raise RuntimeError(str(error))
        try:
            return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(written), ffi.lib.LLVMPY_GetBufferSize(written))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(written)


_machine: Machine | None = None
_lock = threading.Lock()


def machine() -> Machine:
    """Return the one Machine of this process, made by the first call."""
    global _machine
    with _lock:
        if _machine is None:
            _machine = Machine()
        return _machine


def _after_fork() -> None:
    """Make new locks in a forked child: a thread of the parent may have held the old ones, and does not exist here."""
    global _lock
    _lock = threading.Lock()
    if _machine is not None:
        _machine.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class LLVMCompiler(Compiler):
    """Compiles LLVM IR to the bytes of an object file."""

    def __init__(self) -> None:
        host = machine()
        described = "\n".join((host.cpu, host.features, *PASSES))
        self.key = f"llvm-{host.version}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
        self.threads = thread_limit()

    def compile(self, source: Source) -> Binary:
        """Return the object file of a kernel; `detail` is its assembly for DEBUG from 7 on. Raises CompileError."""
        host = machine()
        try:
            data, detail = host.compiled(source.text, DEBUG.value >= 7)
        except RuntimeError as error:
            raise CompileError(
                f"LLVM {host.version} refused kernel {source.name}: {error}", source.text, str(error)
            ) from error
        return Binary(source.name, data, source.signature, detail)


class LoadedObject:
    """Machine code of one kernel in memory, freed with this object; `address` is the kernel's.

    The constructor raises DeviceError for bytes that are no object file with that kernel.
    """

    def __init__(self, binary: Binary) -> None:
        try:
            self.code, self.linker = machine().link(binary)
            self.address: int = int(self.code[binary.name])
        except (RuntimeError, KeyError) as error:
            raise DeviceError(f"LLVM cannot load the object file of kernel {binary.name}: {error}") from error

    def close(self) -> None:
        """Free the memory now."""
        self.code.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "code") and not is_finalizing():  # at exit llvmlite's module may be empty already
            self.code.close()  # before its linker is freed
