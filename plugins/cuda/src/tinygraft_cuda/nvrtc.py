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
from tinygraft_cuda.probe import dotted
from tinygraft_cuda.spec import CUDA_NVRTC

PACKAGES = {13: ("nvidia.cu13", "nvidia-cuda-nvrtc==13.0.*"), 12: ("nvidia.cuda_nvrtc", "nvidia-cuda-nvrtc-cu12")}
HEADERS = {13: ("nvidia.cu13",), 12: ("nvidia.cuda_runtime", "nvidia.cuda_nvcc")}
GET_HEADERS = "pip install 'tinygraft-cuda[headers]', or set CUDA_PATH to a toolkit"

DECLARATIONS = """
typedef struct _nvrtcProgram *nvrtcProgram;
int nvrtcVersion(int *major, int *minor);
const char *nvrtcGetErrorString(int result);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
int nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name, int count, const char *const *headers,
                       const char *const *names);
int nvrtcDestroyProgram(nvrtcProgram *program);
int nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options);
int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size);
int nvrtcGetProgramLog(nvrtcProgram program, char *log);
int nvrtcGetCUBINSize(nvrtcProgram program, size_t *size);
int nvrtcGetCUBIN(nvrtcProgram program, char *cubin);
"""


class NvrtcError(Exception):
    """A source that NVRTC refused: its result in words, and what it wrote about it."""

    def __init__(self, result: str, log: str) -> None:
        super().__init__(f"{result}\n{log}".strip())
        self.log = log


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """A loaded NVRTC. version is the toolkit's, as the driver counts it (13000); archs are numbers as in sm_90."""

    path: str
    version: int
    archs: frozenset[int]
    ffi: Any
    lib: Any
    parts: tuple[Any, ...]

    def cubin(self, text: str, name: str, options: Sequence[str]) -> bytes:
        """Return the machine code of a source. Raises NvrtcError."""
        ffi, lib = self.ffi, self.lib
        holder = ffi.new("nvrtcProgram *")
        self._must(lib.nvrtcCreateProgram(holder, text.encode(), name.encode(), 0, ffi.NULL, ffi.NULL), "")
        try:
            words = [ffi.new("char[]", option.encode()) for option in options]
            result = lib.nvrtcCompileProgram(holder[0], len(words), ffi.new("char *[]", words))
            self._must(result, self._log(holder[0]))
            size = ffi.new("size_t *")
            self._must(lib.nvrtcGetCUBINSize(holder[0], size), "")
            data = ffi.new("char[]", size[0])
            self._must(lib.nvrtcGetCUBIN(holder[0], data), "")
            return bytes(ffi.buffer(data, size[0]))
        finally:
            lib.nvrtcDestroyProgram(holder)

    def _log(self, program: Any) -> str:
        size = self.ffi.new("size_t *")
        if self.lib.nvrtcGetProgramLogSize(program, size) or size[0] < 2:
            return ""
        log = self.ffi.new("char[]", size[0])
        self.lib.nvrtcGetProgramLog(program, log)
        return str(self.ffi.string(log).decode(errors="replace")).strip()

    def _must(self, result: int, log: str) -> None:
        if result:
            raise NvrtcError(self.ffi.string(self.lib.nvrtcGetErrorString(result)).decode(), log)


@cache
def load(path: str) -> Nvrtc:
    """Return the NVRTC of a file, or of a name that the loader knows. Raises OSError where that is none."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    # NVRTC opens this one by its bare name, which only a library that is loaded already has wherever it lies
    parts = tuple(ffi.dlopen(str(part)) for part in sorted(Path(path).parent.glob(BUILTINS)) if os.sep in path)
    lib = ffi.dlopen(path)
    try:
        major, minor, count = ffi.new("int *"), ffi.new("int *"), ffi.new("int *")
        if lib.nvrtcVersion(major, minor) or lib.nvrtcGetNumSupportedArchs(count):
            raise OSError(f"{path} does not tell its version")
        archs = ffi.new("int[]", count[0])
        lib.nvrtcGetSupportedArchs(archs)
    except AttributeError as error:
        raise OSError(f"{path} is no NVRTC: {error}") from error
    return Nvrtc(path, major[0] * 1000 + minor[0] * 10, frozenset(archs[i] for i in range(count[0])), ffi, lib, parts)


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
