"""The backends that tests of devices run on, by name: GPUSIM, CPU-llvm, CPU-c; they are compared with PYTHON."""

import pytest

from gpusim import GpuSimBackend
from tinygraft.config import Context
from tinygraft.device.interfaces import Backend
from tinygraft.reference.python import PythonBackend
from tinygraft_cpu.device import CpuBackend

DEVICES = ["GPUSIM", "CPU-llvm", pytest.param("CPU-c", marks=pytest.mark.needs("cc"))]
ALL_DEVICES = ["PYTHON", *DEVICES]


def backend_of(name: str) -> Backend:
    """A backend of its own; one of CPU really uses the compiler of its name."""
    if name == "PYTHON":
        return PythonBackend("PYTHON", 0)
    if name == "GPUSIM":
        return GpuSimBackend()
    compiler = name.removeprefix("CPU-")
    with Context(CPU_COMPILER=compiler):
        backend = CpuBackend("CPU", 0)
    assert backend.compiler_name == compiler
    return backend
