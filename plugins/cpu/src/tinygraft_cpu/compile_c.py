"""The system's C compiler: from C to the bytes of a shared library, and from those bytes to an address.

The compiler is CC with its options, else the first of cc, gcc and clang. It reads the source from a pipe.
"""

from __future__ import annotations

import _ctypes
import ctypes
import functools
import hashlib
import re
import shlex
import subprocess

from tinygraft.plugin import DEBUG, Binary, CompileError, Compiler, DeviceError, Source
from tinygraft_cpu import machine, scratch

# Floats are not contracted, integers wrap, pointers of all types may alias; no kernel reads errno or handles a trap.
MEANING = ("-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math")
TIMEOUT = 120  # seconds that one compilation may take
_OTHER = "set CC to a compiler that works, or CPU_COMPILER=llvm"


@functools.cache
def version(command: tuple[str, ...]) -> str:
    """Return the first line of a compiler's --version, which is part of its key."""
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown version"
    return (answer.stdout or "unknown version").splitlines()[0]


def options() -> list[str]:
    """Return the options of every compilation on this machine."""
    tuned = ["-march=native", f"-mprefer-vector-width={machine.vector_bytes() * 8}"] if machine.is_x86() else []
    return ["-x", "c", "-std=gnu11", "-O2", "-w", *tuned, *MEANING, "-fPIC", "-shared"]


class CCompiler(Compiler):
    """Compiles C to a shared library. The constructor raises CompileError when no compiler is available."""

    def __init__(self) -> None:
        command = machine.find_cc()
        if command is None:
            raise CompileError(f"no C compiler: {machine.why_no_cc()}; install gcc or clang, or set CC to one")
        self.command = command
        described = " ".join((*command, version(tuple(command)), *options(), machine.arch()))
        self.key = f"c-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
        self.threads = machine.thread_limit()

    def compile(self, source: Source) -> Binary:
        """Return the shared library of a kernel; `detail` is its assembly when DEBUG is at least 7.

        Raises CompileError with the compiler's output, also where it takes too long or cannot be run.
        """
        detail = self._run(source, ["-S"]).decode(errors="replace") if DEBUG.value >= 7 else ""
        return Binary(source.name, self._run(source, []), source.signature, detail)

    def _run(self, source: Source, more: list[str]) -> bytes:
        """Run the compiler on a source with `more` options. Returns the file that it writes. Raises CompileError."""
        with scratch.folder() as folder:
            result = folder / "kernel"
            command = [*self.command, *options(), *more, "-o", str(result), "-", "-lm"]
            try:
                done = subprocess.run(
                    command, input=source.text.encode(), capture_output=True, timeout=TIMEOUT, check=False
                )
            except subprocess.TimeoutExpired as error:
                raise CompileError(
                    f"the C compiler took more than {TIMEOUT} s for kernel {source.name}: {shlex.join(command)}",
                    source.text,
                ) from error
            except OSError as error:
                raise CompileError(
                    f"the C compiler {self.command[0]} cannot be run ({error}); set CC to one that can, or install gcc",
                    source.text,
                ) from error
            log = done.stderr.decode(errors="replace")
            if done.returncode:
                raise CompileError(_refusal("refused", source, command, log), source.text, log)
            if not result.exists() or not (data := result.read_bytes()):
                raise CompileError(_refusal("ended without an error and wrote nothing for", source, command, log),
                                   source.text, log)  # fmt: skip
            return data


def _refusal(what: str, source: Source, command: list[str], log: str) -> str:
    """Return the message of a failed compilation: `what` the compiler did, its command, the line, and its output."""
    lines = [f"the C compiler {what} kernel {source.name}: {shlex.join(command)}"]
    line = re.search(r"<stdin>:(\d+):", log)
    if line and 1 <= int(line[1]) <= len(source.text.splitlines()):
        lines.append(f"line {line[1]} of the source: {source.text.splitlines()[int(line[1]) - 1].strip()}")
    return "\n".join([*lines, log.strip() or "it said nothing"])


class SharedLibrary:
    """A kernel's shared library, loaded into this process and unloaded with this object; `address` is the kernel's.

    Its file is removed at once. The constructor raises DeviceError for what is no library, or one without the kernel.
    """

    def __init__(self, binary: Binary) -> None:
        with scratch.folder() as folder:
            path = folder / "kernel.so"
            path.write_bytes(binary.data)
            try:
                self.library = ctypes.CDLL(str(path))
            except OSError as error:
                raise DeviceError(
                    f"what the C compiler made of kernel {binary.name} cannot be loaded: {error}; {_OTHER}"
                ) from error
        try:
            function = getattr(self.library, binary.name)
        except AttributeError as error:
            raise DeviceError(
                f"the library that the C compiler made of kernel {binary.name} has no function of that name; {_OTHER}"
            ) from error
        self.address: int = ctypes.cast(function, ctypes.c_void_p).value or 0

    def __del__(self) -> None:
        close = getattr(_ctypes, "dlclose", None)  # ctypes itself never unloads a library
        library = getattr(self, "library", None)
        if close is not None and library is not None:
            close(library._handle)
