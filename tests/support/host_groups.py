"""Thread blocks on the host: the source that a GPU would get, in C, with a host thread for each thread of a block.

The C compiler makes a library of it; blocks run one after another, each with its shared memory as static variables and
its barrier that of pthreads. So a barrier that is missing in source is missing here, and what a renderer writes is run.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpusim import PLAIN as TARGET
from tinygraft.device.interfaces import Compiler, Handle, Program
from tinygraft.reference.python import PythonBackend
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Binary, Source

HEADER = """#include <pthread.h>
#include <stdlib.h>
static __thread long long group_x, group_y, group_z, thread_x;
static pthread_barrier_t everybody;
"""
LAUNCH = """
struct part { void **buffers; const long long *variables, *grid; long long thread; };
static void *run(void *of) {
    struct part *p = of;
    thread_x = p->thread;
    for (group_z = 0; group_z < p->grid[2]; group_z++)
        for (group_y = 0; group_y < p->grid[1]; group_y++)
            for (group_x = 0; group_x < p->grid[0]; group_x++) {
                NAME(p->buffers, p->variables);
                pthread_barrier_wait(&everybody);
            }
    return 0;
}
void launch(void **buffers, const long long *variables, const long long *grid, long long threads) {
    pthread_t *all = malloc(threads * sizeof(*all));
    struct part *parts = malloc(threads * sizeof(*parts));
    pthread_barrier_init(&everybody, 0, threads);
    for (long long i = 0; i < threads; i++) {
        parts[i] = (struct part){buffers, variables, grid, i};
        if (pthread_create(&all[i], 0, run, &parts[i])) abort();
    }
    for (long long i = 0; i < threads; i++) pthread_join(all[i], 0);
    pthread_barrier_destroy(&everybody);
    free(all);
    free(parts);
}
"""
DIALECT = Dialect(
    header=HEADER, kernel="static void", group="group_{axis}", thread="thread_x", shared="static ",
    barrier="pthread_barrier_wait(&everybody);", calls={Ops.SQRT: "__builtin_sqrt{f}"},
)  # fmt: skip


class HostCompiler(Compiler):
    """The system's C compiler; the binary is a shared library."""

    def compile(self, source: Source) -> Binary:
        """Raises CalledProcessError where the source is no C."""
        compiler = next(c for c in ("cc", "gcc", "clang") if shutil.which(c))
        with tempfile.TemporaryDirectory() as folder:
            text, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
            text.write_text(source.text + LAUNCH.replace("NAME", source.name))
            flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-ffp-contract=off", "-Wno-psabi"]
            subprocess.run([compiler, *flags, "-o", library, text, "-lm"], check=True)
            return Binary(source.name, library.read_bytes(), source.signature)


class HostProgram(Program):
    """A kernel whose thread blocks are threads of this process."""

    def __init__(self, binary: Binary) -> None:
        self.name, self.signature = binary.name, binary.signature
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary.data)
            file.flush()
            self.entry = ctypes.CDLL(file.name).launch

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run all thread blocks, one after another."""
        views = [(ctypes.c_char * max(len(b), 1)).from_buffer(b) for b in buffers]
        pointers = (ctypes.c_void_p * len(views))(*map(ctypes.addressof, views))
        numbers = (ctypes.c_longlong * max(len(variables), 1))(*variables)
        self.entry(pointers, numbers, (ctypes.c_longlong * 3)(*grid), ctypes.c_longlong(self.signature.block_threads))


class HostGroups(PythonBackend):
    """The simulated GPU's Target, run by threads of the host."""

    def __init__(self, target: Target = TARGET) -> None:
        super().__init__("HOSTGROUPS", 0, target)
        self.renderer: CStyleRenderer = CStyleRenderer(DIALECT)  # type: ignore[assignment]
        self.compiler: HostCompiler = HostCompiler()  # type: ignore[assignment]

    def load(self, binary: Binary) -> Program:
        """The program of a binary."""
        return HostProgram(binary)
