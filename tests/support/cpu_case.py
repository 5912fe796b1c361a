"""One kernel on the CPU whose elements threads share, with its buffers and what it should leave."""

from __future__ import annotations

import numpy as np

from tinygraft.config import Context
from tinygraft.conformance.linears import Build
from tinygraft.dtype import dtypes
from tinygraft.uop.ops import AxisKind
from tinygraft.uop.stages import Linear
from tinygraft_cpu.device import CpuBackend

SIZE = 4096


def shared_out(size: int = SIZE) -> Linear:
    """x * x + 1 with every element in a loop that threads share."""
    b = Build("shared_out", (dtypes.float32, size), (dtypes.float32, size))
    r = b.range(size, AxisKind.PARALLEL)
    x = b.load(1, r)
    b.store(0, r, x * x + 1.0)
    b.end(r)
    return b.done(chunked=True)


class Case:
    """A loaded kernel with its buffers and what it should leave."""

    def __init__(self, threads: int, size: int = SIZE) -> None:
        with Context(CPU_COMPILER="llvm", CPU_THREADS=threads):
            self.backend = CpuBackend("CPU", 0)
        self.program = self.backend.load(self.backend.compiler.compile(self.backend.renderer.render(shared_out(size))))
        self.x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
        self.source = self.backend.allocator.alloc(4 * size)
        self.backend.allocator.copy_in(self.source, memoryview(self.x))
        self.target = self.backend.allocator.alloc(4 * size)

    def check(self) -> None:
        """Launch into a target of its own and compare."""
        target = self.backend.allocator.alloc(self.target.nbytes)
        self.program.launch([target, self.source], [], (1, 1, 1))
        assert (np.frombuffer(target.view, np.float32) == self.x * self.x + 1).all()
