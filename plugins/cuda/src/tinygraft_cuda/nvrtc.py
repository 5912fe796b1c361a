"""NVRTC by cffi: where its library is, and the few functions of it that make machine code of a source.

The library is looked for in this order: CUDA_NVRTC, the wheels nvidia-cuda-nvrtc (13) and nvidia-cuda-nvrtc-cu12 (12),
what the loader finds, and the toolkit in CUDA_PATH, CUDA_HOME or /usr/local/cuda. A driver takes code of toolkits up to
its own major version, so newer ones are passed over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import RuntimeCompiler
from tinygraft_cuda.probe import dotted
from tinygraft_cuda.spec import CUDA_NVRTC

PACKAGES = {13: ("nvidia.cu13", "nvidia-cuda-nvrtc==13.0.*"), 12: ("nvidia.cuda_nvrtc", "nvidia-cuda-nvrtc-cu12")}
HEADERS = {13: ("nvidia.cu13",), 12: ("nvidia.cuda_runtime", "nvidia.cuda_nvcc")}
GET_HEADERS = "pip install 'tinygraft-cuda[headers]', or set CUDA_PATH to a toolkit"

DECLARATIONS = """
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
"""


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """A loaded NVRTC. version is the toolkit's, as the driver counts it (13000); archs are numbers as in sm_90."""

    path: str
    version: int
    archs: frozenset[int]
    compiler: RuntimeCompiler
    parts: tuple[Any, ...]

    def cubin(self, text: str, name: str, options: Sequence[str]) -> bytes:
        """Return the machine code of a source. Raises SourceRefused."""
        return self.compiler.compile(text, name, options)


@cache
def load(path: str) -> Nvrtc:
    """Return the NVRTC of a file, or of a name that the loader knows. Raises OSError where that is none."""
    import cffi

    # NVRTC opens this one by its bare name, which only a library that is loaded already has wherever it lies
    parts = tuple(cffi.FFI().dlopen(str(part)) for part in sorted(Path(path).parent.glob(BUILTINS)) if os.sep in path)
    compiler = RuntimeCompiler.load(path, "nvrtc", "CUBIN", DECLARATIONS)
    major, minor = compiler.version()
    count = compiler.ffi.new("int *")
    if compiler.lib.nvrtcGetNumSupportedArchs(count):
        raise OSError(f"{path} does not tell what it makes code for")
    archs = compiler.ffi.new("int[]", count[0])
    compiler.lib.nvrtcGetSupportedArchs(archs)
    return Nvrtc(path, major * 1000 + minor * 10, frozenset(archs[i] for i in range(count[0])), compiler, parts)


def find(driver: int) -> Nvrtc:
    """Return the newest NVRTC whose code a driver of that CUDA version takes.

    Raises DeviceUnavailable, which says what was found and what to install.
    """
    newest = driver // 1000
    passed = []
    for path in candidates():
        try:
            found = load(path)
        except OSError as error:
            if path == CUDA_NVRTC.value:
                raise DeviceUnavailable(
                    f"the NVRTC that CUDA_NVRTC names cannot be loaded: {error}; name the file of libnvrtc, or unset it"
                ) from error
            continue
        if found.version // 1000 <= newest:
            return found
        passed.append(f"NVRTC {dotted(found.version)} in {found.path}")
    if passed:
        wheel = PACKAGES[newest][1] if newest in PACKAGES else f"an NVRTC of CUDA {newest}"
        raise DeviceUnavailable(
            f"the driver is for CUDA {dotted(driver)} and takes no code of a newer toolkit, and there is only "
            f"{'; '.join(passed)}; install a newer driver (580 or later for CUDA 13), or pip install '{wheel}'"
        )
    wheel = PACKAGES[min(newest, 13)][1] if newest >= 12 else PACKAGES[13][1]
    raise DeviceUnavailable(
        f"NVRTC, the compiler of kernels, is not installed; pip install '{wheel}', or set CUDA_NVRTC to its file"
    )


def candidates() -> Iterator[str]:
    """Yield the files and names under which an NVRTC may be, the preferred ones first."""
    if CUDA_NVRTC.value:
        yield CUDA_NVRTC.value
        return
    for major, (package, _) in PACKAGES.items():
        for folder in folders_of(package):
            yield from map(str, sorted((folder / LIBRARIES).glob(PATTERN.format(major=major))))
    for major in PACKAGES:
        yield NAME.format(major=major)
    for toolkit in toolkits():
        yield from map(str, sorted((toolkit / TOOLKIT_LIBRARIES).glob(PATTERN.format(major="*")), reverse=True))


WINDOWS = sys.platform == "win32"
LIBRARIES = "bin" if WINDOWS else "lib"
TOOLKIT_LIBRARIES = "bin" if WINDOWS else "lib64"
NAME = "nvrtc64_{major}0_0.dll" if WINDOWS else "libnvrtc.so.{major}"
BUILTINS = "nvrtc-builtins64_*.dll" if WINDOWS else "libnvrtc-builtins.so.*"
PATTERN = "**/nvrtc64_{major}0_0.dll" if WINDOWS else "libnvrtc.so.{major}"


def folders_of(package: str) -> list[Path]:
    """Return where a package of the wheels lies; it need not have Python code. None where it is not installed."""
    try:
        found = find_spec(package)
    except ModuleNotFoundError:
        return []
    return [] if found is None else [Path(folder) for folder in found.submodule_search_locations or ()]


def toolkits() -> list[Path]:
    """Return the folders in which a CUDA toolkit may be."""
    named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    return [Path(folder) for folder in [*named, "/usr/local/cuda"] if folder]


def header_folders() -> list[str]:
    """Return the folders with CUDA's own headers, for kernels that include some; those of the wheels come first."""
    found = [folder / "include" for packages in HEADERS.values() for p in packages for folder in folders_of(p)]
    found += [toolkit / "include" for toolkit in toolkits()]
    return [str(folder) for folder in dict.fromkeys(found) if (folder / "cuda_fp16.h").is_file()][:1]
