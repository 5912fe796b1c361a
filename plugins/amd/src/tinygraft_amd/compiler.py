"""From HIP C to the code object of one architecture: by hipRTC, by ROCm's clang, or by that of ziglang.

hipRTC compiles in this process; the clangs are programs, each of whose kernels takes a compilation and a link. Numbers
mean what they mean everywhere: nothing is contracted to a multiply-add that the kernel does not have, division and
square root are rounded correctly, subnormal numbers are kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tinygraft.plugin import DEBUG, Binary, CompileError, Compiler, DeviceUnavailable, SettingError, Source
from tinygraft.plugin.driver import RuntimeCompiler, SourceRefused, build_of
from tinygraft_amd.probe import GET_ROCM, rocm_folders
from tinygraft_amd.spec import AMD_CLANG, AMD_COMPILER, AMD_HIPRTC

NUMBERS = ("-ffp-contract=off",)
OPTIONS = ("-O3", "-std=c++17", *NUMBERS, "-fno-fast-math", "-fno-gpu-flush-denormals-to-zero", "-w")
TRIPLE = "amdgcn-amd-amdhsa"
HIPRTC = ("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so")
GET_ZIG = "pip install 'tinygraft-amd[zig]'"
MOST = 8  # kernels that are compiled at once
PATIENCE = 300  # seconds for a program


class AmdCompiler(Compiler):
    """Sources to code objects for one architecture, such as gfx942."""

    def __init__(self, arch: str, identity: object) -> None:
        self.arch = arch
        made = repr((type(self).__name__, identity, OPTIONS))
        self.key = f"amd-{arch}-{hashlib.sha256(made.encode()).hexdigest()[:16]}"
        self.threads = min(MOST, os.cpu_count() or 1)

    @abstractmethod
    def about(self) -> str:
        """Return what compiles, for `doctor`."""

    @abstractmethod
    def code(self, source: Source) -> bytes:
        """Return the code object of a source. Raises SourceRefused."""

    def compile(self, source: Source) -> Binary:
        """Return the code object of a kernel. Raises CompileError with the compiler's log."""
        try:
            data = self.code(source)
        except SourceRefused as error:
            said = f"{self.about()} refused kernel {source.name} for {self.arch}: {error}"
            raise CompileError(said, source.text, error.log) from error
        return Binary(source.name, data, source.signature, self.listing(source, data) if DEBUG.value >= 7 else "")

    def listing(self, source: Source, data: bytes) -> str:
        """Return the instructions of a kernel as text: those of its code object."""
        from tinygraft_amd.disassembly import assembly  # for those who look

        return assembly(data, self.arch)


class HiprtcCompiler(AmdCompiler):
    """The library that comes with HIP."""

    path: str
    library: RuntimeCompiler

    def __init__(self, path: str, library: RuntimeCompiler, arch: str) -> None:
        self.path, self.library = path, library
        self.version = library.version()
        super().__init__(arch, (self.version, build_of(path)))

    def about(self) -> str:
        """Return its version and its file."""
        return f"hipRTC {self.version[0]}.{self.version[1]} in {self.path}"

    def code(self, source: Source) -> bytes:
        """Return the code object of a source. Raises SourceRefused."""
        options = [f"--offload-arch={self.arch}", *OPTIONS]
        return self.library.compile(source.text, f"{source.name}.hip", options)


class ClangCompiler(AmdCompiler):
    """A clang with lld, as two commands: `clang` and `linker`, each with its first arguments."""

    clang: list[str]
    linker: list[str]

    def __init__(self, clang: list[str], linker: list[str], arch: str) -> None:
        self.clang, self.linker = clang, linker
        self.version: str = _version(tuple(clang))
        super().__init__(arch, self.version)

    def about(self) -> str:
        """Return its version and its command."""
        return f"{self.version} ({' '.join(self.clang)})"

    def code(self, source: Source) -> bytes:
        """Return the code object of a source. Raises SourceRefused."""
        with tempfile.TemporaryDirectory(prefix="tinygraft-amd-") as folder:
            relocatable, image = Path(folder, "kernel.o"), Path(folder, "kernel.co")
            self._compile(source, "-emit-obj", relocatable)
            self._run([*self.linker, "-shared", "-o", str(image), str(relocatable)])
            return image.read_bytes()

    def listing(self, source: Source, data: bytes) -> str:
        """Return the instructions of a kernel as text, as this clang writes them, with what it says of registers."""
        with tempfile.TemporaryDirectory(prefix="tinygraft-amd-") as folder:
            written = Path(folder, "kernel.s")
            self._compile(source, "-S", written)
            return written.read_text()

    def _compile(self, source: Source, kind: str, made: Path) -> None:
        """Write a source beside `made`, and compile it to what `kind` says (-emit-obj or -S). Raises SourceRefused."""
        text = made.with_name(f"{source.name}.hip")
        text.write_text(source.text)
        options = [*(word for word in OPTIONS if word not in DRIVER_ONLY), *frontend(self.arch)]
        self._run([*self.clang, "-cc1", *options, kind, "-o", str(made), str(text)])

    def _run(self, command: list[str]) -> None:
        """Run a command. Raises SourceRefused, with what it wrote, where it fails."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            log = (done.stdout + done.stderr).strip()
            raise SourceRefused(f"it ended with {done.returncode}", log)


# The part of clang that compiles is called itself: zig's driver starts no linker for this processor.
DRIVER_ONLY = ("-fno-fast-math", "-fno-gpu-flush-denormals-to-zero")  # both are what -cc1 does when nothing is said


def frontend(arch: str) -> list[str]:
    """Return the arguments by which clang compiles HIP for an architecture, without headers and libraries."""
    return ["-triple", TRIPLE, "-x", "hip", "-fcuda-is-device", "-target-cpu", arch, "-fvisibility=hidden",
            "-fapply-global-visibility-to-externs", "-mcode-object-version=5"]  # fmt: skip


@cache
def _version(clang: tuple[str, ...]) -> str:
    """Return the first line that a clang says of its version."""
    done = subprocess.run([*clang, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return (done.stdout.splitlines() or ["an unknown clang"])[0]


def choose(arch: str) -> AmdCompiler:
    """Return the compiler for a card. Raises DeviceUnavailable where there is none, SettingError for an unknown one."""
    wanted = AMD_COMPILER.value
    if wanted and wanted not in WAYS:
        raise SettingError(f"AMD_COMPILER must be {', '.join(WAYS)} or empty, got {wanted!r}")
    missing = []
    for name in [wanted] if wanted else WAYS:
        found = WAYS[name](arch)
        if isinstance(found, AmdCompiler):
            return found
        missing.append(found)
    asked = f"AMD_COMPILER={wanted}: " if wanted else ""
    raise DeviceUnavailable(f"{asked}no compiler of kernels is here: {'; '.join(missing)}; {GET_ROCM}, or {GET_ZIG}")


def hiprtc(arch: str) -> AmdCompiler | str:
    """Return hipRTC for an architecture, or why there is none. Raises DeviceUnavailable where a wrong one is named."""
    named = AMD_HIPRTC.value
    paths = [str(folder / "lib" / name) for folder in rocm_folders() for name in reversed(HIPRTC)]
    for path in [named] if named else [*HIPRTC, *(path for path in paths if Path(path).exists())]:
        try:
            return HiprtcCompiler(path, RuntimeCompiler.load(path, "hiprtc", "Code"), arch)
        except OSError as error:
            if named:
                raise DeviceUnavailable(
                    f"the hipRTC that AMD_HIPRTC names cannot be loaded: {error}; name the file of "
                    "libhiprtc, or unset it"
                ) from error
    return f"{HIPRTC[-1]} cannot be loaded"


def rocm_clang(arch: str) -> AmdCompiler | str:
    """Return ROCm's clang for an architecture, or the one that AMD_CLANG names; else why there is none.

    Raises DeviceUnavailable where AMD_CLANG names none that can be used.
    """
    named = [Path(AMD_CLANG.value)] if AMD_CLANG.value else []
    for clang in named or [folder / "lib" / "llvm" / "bin" / "clang" for folder in rocm_folders()]:
        linker = shutil.which("ld.lld", path=os.pathsep.join([str(clang.parent), os.environ.get("PATH", "")]))
        if clang.is_file() and linker:
            return ClangCompiler([str(clang)], [linker], arch)
        if named:
            what = "is no file" if not clang.is_file() else "has no ld.lld beside it"
            raise DeviceUnavailable(f"AMD_CLANG={clang} {what}; name a clang for amdgcn with its lld, or unset it")
    return "ROCm has no clang here"


def zig(arch: str) -> AmdCompiler | str:
    """Return the clang of ziglang for an architecture, or why there is none."""
    if find_spec("ziglang") is None:
        return "ziglang is not installed"
    command = [sys.executable, "-m", "ziglang"]
    return ClangCompiler([*command, "clang"], [*command, "ld.lld"], arch)


WAYS: dict[str, Callable[[str], AmdCompiler | str]] = {"hiprtc": hiprtc, "clang": rocm_clang, "zig": zig}
