"""From CUDA C to the machine code of one kind of card, by NVRTC in this process.

Numbers mean what they mean everywhere: nothing is contracted to a multiply-add that the kernel does not have, division
and square root are rounded correctly, subnormal numbers are kept.
"""

from __future__ import annotations

import hashlib
import os
import re

from tinygraft.plugin import DEBUG, Binary, CompileError, Compiler, DeviceUnavailable, Source
from tinygraft.plugin.driver import SourceRefused, build_of
from tinygraft_cuda import nvrtc
from tinygraft_cuda.dialect import ARCHITECTURES, Capability, architecture
from tinygraft_cuda.probe import dotted

NUMBERS = ("-fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false")
OPTIONS = (*NUMBERS, "-std=c++17", "-default-device", "-w")
MOST = 8  # kernels that are compiled at once
MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')


class NvrtcCompiler(Compiler):
    """Sources to machine code (a cubin) for one architecture, such as sm_90a."""

    arch: str

    def __init__(self, library: nvrtc.Nvrtc, arch: str) -> None:
        self.library, self.arch = library, arch
        self.options = [f"--gpu-architecture={arch}", *OPTIONS]
        made = repr((library.version, build_of(library.path), self.options))
        self.key = f"cuda-{arch}-{hashlib.sha256(made.encode()).hexdigest()[:16]}"
        self.threads = min(MOST, os.cpu_count() or 1)

    def compile(self, source: Source) -> Binary:
        """Return the machine code of a kernel. Raises CompileError with NVRTC's log."""
        options = list(self.options)
        if "#include" in source.text:  # of those that are generated none does
            options += [f"-I{folder}" for folder in nvrtc.header_folders()]
        try:
            data = self.library.cubin(source.text, f"{source.name}.cu", options)
        except SourceRefused as error:
            raise CompileError(self._refusal(source, error), source.text, error.log) from error
        return Binary(source.name, data, source.signature, self._assembly(data) if DEBUG.value >= 7 else "")

    def _refusal(self, source: Source, error: SourceRefused) -> str:
        """Return the sentence on a source that NVRTC refused; with what to install where a header is missing."""
        said = f"NVRTC {dotted(self.library.version)} refused kernel {source.name} for {self.arch}: {error}"
        if missing := MISSING.search(error.log):
            return f"{said}\nCUDA's header {missing[1]} is not here; {nvrtc.GET_HEADERS}"
        return said

    def _assembly(self, data: bytes) -> str:
        """Return machine code as text, for DEBUG=7."""
        from tinygraft_cuda.disassembly import sass  # for those who look

        return sass(data)


def choose(driver: int, capability: Capability) -> NvrtcCompiler:
    """Return the compiler for a card. Raises DeviceUnavailable where there is none that knows it."""
    library = nvrtc.find(driver)
    number, arch = capability[0] * 10 + capability[1], architecture(capability)
    if number not in library.archs:
        known = sorted(library.archs)
        ways = (
            "it is too old for this NVRTC, and CUDA 12's knows it: pip uninstall nvidia-cuda-nvrtc, then pip install "
            "nvidia-cuda-nvrtc-cu12"
            if number < known[0]
            else "install a newer NVRTC, and name its file in CUDA_NVRTC"
        )
        raise DeviceUnavailable(
            f"this card is of architecture sm_{number}, and NVRTC {dotted(library.version)} makes code for "
            f"{', '.join(f'sm_{arch}' for arch in known)}; {ways}"
        )
    if capability >= ARCHITECTURES and library.version < 12000:
        arch = arch.removesuffix("a")
    return NvrtcCompiler(library, arch)
