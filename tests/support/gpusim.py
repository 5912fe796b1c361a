"""GPUSIM: a device with the shape of a GPU, run by the PYTHON interpreter, for tests on machines without one.

Its Target has a grid of three dimensions, groups of 32 threads, shared memory and few native ops, so that scheduler,
codegen and decompositions take the ways they would take for a GPU.
"""

from dataclasses import replace

from tinygraft.device.spec import ApiRange, DeviceSpec, Probe
from tinygraft.dtype import dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import BASIC_OPS, CHECKED_OPS, Target
from tinygraft.uop.units import MatrixUnit

TARGET = Target(
    arch="gpusim",
    native_ops=BASIC_OPS - CHECKED_OPS,
    registers=64,
    grid_dims=3,
    max_grid=(1 << 20, 65535, 65535),
    lanes=32,
    shared_memory=48 << 10,
    local_memory=16 << 10,
    matrix=(
        MatrixUnit("tile", 8, 8, 8, dtypes.float32, dtypes.float32, dtypes.float32, tiles=8),
        MatrixUnit("half_tile", 8, 8, 8, dtypes.float16, dtypes.float16, dtypes.float32, tiles=8),
    ),
)


PLAIN = replace(TARGET, matrix=())  # the same without its tiles


class GpuSimBackend(PythonBackend):
    """PYTHON with another Target."""

    def __init__(self, name: str = "GPUSIM", ordinal: int = 0) -> None:
        super().__init__(name, ordinal, TARGET)


class GpuPlainBackend(PythonBackend):
    """PYTHON with the Target that has no tiles."""

    def __init__(self, name: str = "GPUPLAIN", ordinal: int = 0) -> None:
        super().__init__(name, ordinal, PLAIN)


def probe() -> Probe:
    """There in every test."""
    return Probe(ok=True, detail="simulated")


SPEC = DeviceSpec(
    name="GPUSIM",
    summary="a GPU in Python, for tests",
    api=ApiRange(min=(0, 1), below=(0, 2)),
    kind="gpu",
    priority=0,
    probe="gpusim:probe",
    backend="gpusim:GpuSimBackend",
)
PLAIN_SPEC = replace(SPEC, name="GPUPLAIN", summary="a GPU without tiles", backend="gpusim:GpuPlainBackend")
