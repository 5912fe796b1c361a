"""Builds the native runtime as a cffi extension where there is a C compiler; without one the package installs as it is.

A wheel gets a platform tag only when it has the extension. One that fails to compile is left out of a wheel, and
`tinygraft doctor` says so; an editable installation, which is for who changes the sources, ends with the error.
"""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cffi import FFI
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
SOURCES = "src/tinygraft_cpu"
FILES = ("depthwise", "transposed", "winograd", "direct", "ordering", "matrices", "weights", "attention", "fourier",
         "scans", "routines", "replay", "pool")  # fmt: skip  # what takes longest to compile comes first
HEADERS = ("pool", "processor_level", "routines", "radix", "distinct", "fourier", "fourier_long", "fourier_steps",
           "attention", "attention_tiles", "epilogue",
           "attention_levels", "attention_end", "winograd_tiles", "bands", "transposed_tiles", "direct_tiles",
           "tile_levels", "interleave", "filter_tiles", "depthwise", "depthwise_tiles", "depthwise_slopes",
           "depthwise_rows", "weights_tiles", "little", "little_matrices", "householder", "of_matrices",
           "exponential", "least_squares", "symmetric", "running")  # fmt: skip

ffi = FFI()
header = (HERE / SOURCES / "pool.h").read_text()
ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.MULTILINE))  # what pool.h declares, without the preprocessor's lines
ffi.set_source(
    "tinygraft_cpu._native",
    '#include "pool.h"',
    sources=[f"{SOURCES}/{name}.c" for name in FILES],
    include_dirs=[str(HERE / SOURCES)],
    depends=[f"{SOURCES}/{name}.h" for name in HEADERS],
    extra_compile_args=["-O3", "-fno-trapping-math", "-std=gnu11", "-pthread", "-fvisibility=hidden"],
    extra_link_args=["-pthread", "-lm"],
)


class Build(build_ext):
    """Sources are compiled side by side, one on each core: setuptools does so with extensions only, and this is one."""

    def build_extensions(self) -> None:
        """Build all; where there is a compiler, an editable installation raises for one that fails to compile."""
        if self.editable_mode and shutil.which(self.compiler.compiler_so[0]):
            for ext in self.extensions:
                ext.optional = False  # else the extension of before stays, and is what is tried and measured
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Build with a compiler that is given one source at a time."""
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **how: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                return [name for (name,) in threads.map(lambda source: compile_all([source], **how), sources)]

        self.compiler.compile = compile_each
        super().build_extension(ext)


class Wheel(bdist_wheel):
    """A wheel of this platform with the extension, or one for any platform without."""

    def run(self) -> None:
        """Build the extension first, and drop it from the distribution when that failed."""
        self.run_command("build_ext")
        built = [Path(path) for path in self.get_finalized_command("build_ext").get_outputs()]
        if not all(path.exists() for path in built):
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


extension = ffi.distutils_extension("build/native")
extension.optional = True
setup(ext_modules=[extension], cmdclass={"bdist_wheel": Wheel, "build_ext": Build})
