"""The OpenCL backend: one device in numbers, with its context, its queue and the driver's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.plugin import (
    Backend,
    Binary,
    GraphExecutor,
    Ops,
    Program,
    SettingError,
    Step,
    Target,
    dtypes,
)
from tinygraft_opencl import pocl
from tinygraft_opencl.allocator import ClAllocator
from tinygraft_opencl.compiler import ClCompiler, load_program
from tinygraft_opencl.dialect import GROUPS_TARGET, NATIVE_OPS, opencl_renderer
from tinygraft_opencl.platforms import binding, choose
from tinygraft_opencl.program import ClGraph, ClProgram
from tinygraft_opencl.queues import ClQueue
from tinygraft_opencl.spec import OPENCL_GROUPS

MOST_THREADS = 256  # of a group: more seldom pay, and every GPU has room for these
MOST_GROUPS = 65535  # along the second and third dimension


class OpenCLBackend(Backend):
    """An OpenCL device. device is pyopencl's; groups says that kernels run in groups of threads."""

    allocator: ClAllocator
    queue: ClQueue

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        cl = binding()
        self.device = device = choose(ordinal)
        self.groups = runs_groups(device)
        self.context = cl.Context([device])
        self.queue = ClQueue(self)
        self.target = target_of(device, self.groups)
        exact = divides_exactly(device)
        on_host = bool(device.type & cl.device_type.CPU) and bool(device.host_unified_memory)
        self.allocator = ClAllocator(name, self.context, self.queue, self.target.alignment, on_host)
        self.renderer = opencl_renderer(self.target, exact)
        self.compiler = ClCompiler(self.context, device, exact)

    def load(self, binary: Binary) -> Program:
        """The driver's program of a binary."""
        program = load_program(self.context, self.device, binary)
        return ClProgram(binary.name, program, self.queue.queue, binary.signature, self.target.chunks)

    def make_queue(self) -> ClQueue:
        """A command queue of the same context."""
        return ClQueue(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """A captured list of launches whose arguments are set once."""
        return ClGraph(self, steps)

    def close(self) -> None:
        """Wait for what still runs."""
        self.synchronize()


def runs_groups(device: Any) -> bool:
    """Whether kernels run in groups of threads, as where there is memory for groups alone. Raises SettingError."""
    wanted = OPENCL_GROUPS.value
    if wanted not in ("", "0", "1"):
        raise SettingError(f"OPENCL_GROUPS must be 0, 1 or empty, got {wanted!r}")
    return wanted == "1" if wanted else bool(device.local_mem_type == binding().device_local_mem_type.LOCAL)


def divides_exactly(device: Any) -> bool:
    """Whether / and sqrt of floats are rounded correctly, where that is asked for."""
    return bool(device.single_fp_config & binding().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)


def target_of(device: Any, groups: bool) -> Target:
    """A device in numbers, by what it says of itself."""
    cl = binding()
    stored, computed = set(dtypes.all), set(Target().compute_dtypes)
    if not device.double_fp_config:
        stored.discard(dtypes.float64)
        computed.discard(dtypes.float64)
    if "cl_khr_fp16" in device.extensions.split():
        computed.add(dtypes.float16)
    native = set(NATIVE_OPS)
    if not (divides_exactly(device) or device.double_fp_config):
        native.discard(Ops.SQRT)
    if groups and pocl.is_pocl(device.platform.name):
        native.discard(Ops.TRUNC)  # its trunc of a constant NaN is 0; loops have the compiler's own
    common = {
        "arch": " ".join(
            text.strip() for text in (device.platform.name, device.name, device.version, device.driver_version)
        ),
        "dtypes": frozenset(stored),
        "compute_dtypes": frozenset(computed),
        "native_ops": frozenset(native),
        "fused_sums": bool(device.single_fp_config & cl.device_fp_config.FMA),
        "max_params": min(64, device.max_parameter_size // 8),
        "alignment": max(64, device.mem_base_addr_align // 8),
        "l3_bytes": device.global_mem_cache_size or Target().l3_bytes,
    }
    if groups:
        threads = min(MOST_THREADS, device.max_work_group_size, device.max_work_item_sizes[0])
        return Target(
            **common,
            registers=GROUPS_TARGET.registers,
            grid_dims=3,
            max_grid=((2**31 - 1) // threads, MOST_GROUPS, MOST_GROUPS),
            block_threads=threads,
            shared_memory=device.local_mem_size,
        )
    width = device.native_vector_width_float
    return Target(
        **common,
        vector_bytes=4 * width if width > 1 else 0,
        registers=32 if width >= 16 else 16,
        chunks=device.max_compute_units,
        local_memory=device.local_mem_size,
        joins_nests=True,
    )
