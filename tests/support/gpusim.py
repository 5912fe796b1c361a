"""GPUSIM: a device with the shape of a GPU, run by the PYTHON interpreter, for tests on machines without one.

Its Target has a grid of three dimensions, thread blocks of 32 threads, shared memory and few native ops, so that
scheduler, codegen and decompositions work as for a GPU.
"""

from dataclasses import replace

from tinygraft.device.device_spec import ApiRange, DeviceSpec, Probe
from tinygraft.dtype import dtypes
from tinygraft.reference.pytext import PythonRenderer
from tinygraft.reference.python import PythonBackend
from tinygraft.target import BASIC_OPS, CHECKED_OPS, Target
from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.units import MatrixUnit

TARGET = Target(
    arch="gpusim",
    native_ops=BASIC_OPS - CHECKED_OPS,
    registers=64,
    grid_dims=3,
    max_grid=(1 << 20, 65535, 65535),
    block_threads=32,
    shared_memory=48 << 10,
    local_memory=16 << 10,
    matrix=(
        MatrixUnit("tile", 8, 8, 8, dtypes.float32, dtypes.float32, dtypes.float32, tiles=8),
        MatrixUnit("half_tile", 8, 8, 8, dtypes.float16, dtypes.float16, dtypes.float32, tiles=8),
    ),
)


PLAIN = replace(TARGET, matrix=())  # the same without its tiles
WEAK = replace(  # without float64, as many GPUs are, and with little of everything
    PLAIN, dtypes=TARGET.dtypes - {dtypes.float64}, compute_dtypes=TARGET.compute_dtypes - {dtypes.float64},
    max_params=8, grid_dims=1, block_threads=4, shared_memory=64, local_memory=0,
)  # fmt: skip
MOVED = frozenset({Ops.WHERE, Ops.BITCAST, Ops.CAST})  # ops on halves that are only stored


class GpuSimBackend(PythonBackend):
    """PYTHON with another Target."""

    def __init__(self, name: str = "GPUSIM", ordinal: int = 0) -> None:
        super().__init__(name, ordinal, TARGET)


class GpuPlainBackend(PythonBackend):
    """PYTHON with the Target that has no tiles."""

    def __init__(self, name: str = "GPUPLAIN", ordinal: int = 0) -> None:
        super().__init__(name, ordinal, PLAIN)


class GpuWeakBackend(PythonBackend):
    """PYTHON with the Target that has little, and a renderer that refuses what such a Target does not compute."""

    def __init__(self, name: str = "GPUWEAK", ordinal: int = 0) -> None:
        super().__init__(name, ordinal, WEAK)
        self.renderer = StrictRenderer()


class StrictRenderer(PythonRenderer):
    """Writes only ops and dtypes that the Target computes."""

    def render(self, linear: Linear) -> Source:
        """Raises AssertionError for others."""
        halves = {dtypes.float16, dtypes.bfloat16} & linear.target.dtypes
        for u in linear.uops:
            if u.op in ELEMENTWISE:
                assert u.op in linear.target.native_ops | BASIC_OPS, u.op
                known = linear.target.compute_dtypes | {dtypes.index} | (halves if u.op in MOVED else set())
                assert {u.dtype, *(s.dtype for s in u.src)} <= known, (u.op, u.dtype, [s.dtype for s in u.src])
        return super().render(linear)


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
WEAK_SPEC = replace(SPEC, name="GPUWEAK", summary="a GPU that can do little", backend="gpusim:GpuWeakBackend")
