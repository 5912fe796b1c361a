"""Build pycuda for this Python and install it: python -m tinygraft_cuda.build_pycuda

pycuda has no wheels on the index, and its own installation looks for a toolkit. This one needs a C++ compiler, Python's
headers and pip: CUDA's headers come from the index where no toolkit has them, and the driver's library is not needed,
since the extension is linked with a stand-in of its name. cuRAND is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tinygraft_cuda.nvrtc import toolkits
from tinygraft_cuda.probe import driver_version

VERSION = "2026.1"
# An extension that is built with the headers of CUDA 13 calls functions that a driver of CUDA 12 lacks, so it is built
# with the headers of the driver's own version.
HEADERS = {
    13: ("nvidia-cuda-runtime==13.0.*", "nvidia-cuda-profiler-api==13.0.*", "nvidia-cuda-crt==13.0.*"),
    12: ("nvidia-cuda-runtime-cu12", "nvidia-cuda-profiler-api-cu12"),
}
NEEDED = ("cuda.h", "cudaProfiler.h")
SETTINGS = """USE_SHIPPED_BOOST = True
CUDA_ENABLE_CURAND = False
CUDA_ENABLE_GL = False
CUDA_TRACE = False
CUDA_ROOT = {root!r}
CUDA_INC_DIR = {includes!r}
CUDADRV_LIB_DIR = [{stand_in!r}]
CUDADRV_LIBNAME = ["cuda"]
CXXFLAGS = ["-w", "-O2", "-g0"]
LDFLAGS = ["-Wl,--no-as-needed", "-L" + {stand_in!r}, "-lcuda", "-Wl,--allow-shlib-undefined", "-s"]
"""


def main(arguments: list[str] | None = None) -> int:
    """Build and install, or with --wheel only build.

    Returns the exit code: 1 where there is no compiler or it failed.
    """
    parser = argparse.ArgumentParser(prog="python -m tinygraft_cuda.build_pycuda", description=__doc__)
    parser.add_argument("--wheel", metavar="FOLDER", default="", help="put the wheel there, and install nothing")
    parser.add_argument("--include", metavar="FOLDER", default="", help="where cuda.h is; else it is looked for")
    given = parser.parse_args(arguments)
    compiler = os.environ.get("CXX") or next((c for c in ("g++", "c++", "clang++") if shutil.which(c)), "")
    if not compiler:
        print("pycuda is C++ and there is no compiler for it: install g++ (apt-get install g++), or set CXX")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheel = build(Path(folder), given.include, compiler)
        except subprocess.CalledProcessError as error:
            print(f"pycuda could not be built: {' '.join(map(str, error.cmd))} ended with {error.returncode}")
            return 1
        if given.wheel:
            Path(given.wheel).mkdir(parents=True, exist_ok=True)
            print(shutil.copy(wheel, given.wheel))
            return 0
        pip("install", str(wheel))
    print("pycuda is installed; python -m tinygraft doctor CUDA says which binding is used")
    return 0


def build(folder: Path, include: str, compiler: str) -> Path:
    """Return a wheel that is built in a folder. Raises CalledProcessError."""
    includes = [include] if include else headers(folder)
    source = unpacked(folder)
    stand_in(folder, compiler)
    root = str(Path(includes[0]).parent)
    settings = SETTINGS.format(root=root, includes=includes, stand_in=str(folder))
    (source / "siteconf.py").write_text(settings)
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
    return next(folder.glob("pycuda-*.whl"))


def headers(folder: Path) -> list[str]:
    """Return the folders with CUDA's headers: of a toolkit that has all of them, else of the index."""
    for toolkit in toolkits():
        if all((toolkit / "include" / name).is_file() for name in NEEDED):
            return [str(toolkit / "include")]
    version, _ = driver_version()
    packages = HEADERS.get(version // 1000, HEADERS[13])
    pip("install", "--no-deps", "--target", str(folder / "headers"), *packages)
    return sorted({str(file.parent) for name in NEEDED for file in folder.glob(f"headers/nvidia/**/include/{name}")})


def unpacked(folder: Path) -> Path:
    """Return the folder of pycuda's sources. pip asks them for their metadata, for which they look for an nvcc."""
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch(mode=0o755)
    pip("download", "--no-deps", "--no-binary", "pycuda", "--dest", str(folder), f"pycuda=={VERSION}",
        path=str(nvcc.parent))  # fmt: skip
    with tarfile.open(next(folder.glob("pycuda-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.glob("pycuda-*") if path.is_dir())


def stand_in(folder: Path, compiler: str) -> None:
    """Make a library that has nothing but the name of the driver's, for the linker."""
    command = [compiler, "-x", "c", "-shared", "-o", str(folder / "libcuda.so"), "-Wl,-soname,libcuda.so.1", os.devnull]
    subprocess.run(command, check=True)


def pip(*arguments: str, path: str = "") -> None:
    """Run pip of this Python, with one more folder to look for programs in. Raises CalledProcessError."""
    paths = os.pathsep.join([folder for folder in (path, os.environ.get("PATH", "")) if folder])
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True, env={**os.environ, "PATH": paths})


if __name__ == "__main__":
    sys.exit(main())
