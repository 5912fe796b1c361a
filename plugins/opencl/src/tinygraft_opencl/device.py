"""The OpenCL backend: one device as a Target, with its context, its queue and the driver's compiler."""

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
from tinygraft_opencl.dialect import GPU_TARGET, NATIVE_OPS, opencl_renderer
from tinygraft_opencl.platforms import binding, choose
from tinygraft_opencl.program import ClGraph, ClProgram
from tinygraft_opencl.queues import ClQueue
from tinygraft_opencl.spec import OPENCL_GROUPS

# assumed, never measured: more threads are seldom faster, and every GPU has room for these
MOST_THREADS = 256  # of a work-group (thread block)
MOST_GROUPS = 65535  # work-groups along the second and third dimension


class OpenCLBackend(Backend):
    """An OpenCL device. `device` is pyopencl's; `work_groups` says that kernels run in work-groups (thread blocks)."""

    allocator: ClAllocator
    queue: ClQueue

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        cl = binding()
        self.device = device = choose(ordinal)
        self.work_groups: bool = runs_work_groups(device)
        self.context = cl.Context([device])
        self.queue = ClQueue(self)
        self.target = target_of(device, self.work_groups)
        exact = divides_exactly(device)
        on_host = bool(device.type & cl.device_type.CPU) and bool(device.host_unified_memory)
        self.allocator = ClAllocator(name, self.context, self.queue, self.target.alignment, on_host)
        self.renderer = opencl_renderer(self.target, exact)
        self.compiler = ClCompiler(self.context, device, exact)

    def load(self, binary: Binary) -> Program:
        """Load a binary by the driver. Returns it as a Program. Raises DeviceError."""
        program = load_program(self.context, self.device, binary)
        return ClProgram(binary.name, program, self.queue.queue, binary.signature, self.target.chunks)

    def make_queue(self) -> ClQueue:
        """Return a new command queue of the same context."""
        return ClQueue(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return an executor of a captured list of launches, which sets only the arguments that change."""
        return ClGraph(self, steps)

    def close(self) -> None:
        """Wait for what still runs."""
        self.synchronize()


def runs_work_groups(device: Any) -> bool:
    """Return whether kernels run in work-groups (thread blocks): by OPENCL_GROUPS, else if local memory is separate.

    Raises SettingError.
    """
    wanted = OPENCL_GROUPS.value
    if wanted not in ("", "0", "1"):
        raise SettingError(f"OPENCL_GROUPS must be 0, 1 or empty, got {wanted!r}")
    return wanted == "1" if wanted else bool(device.local_mem_type == binding().device_local_mem_type.LOCAL)


def divides_exactly(device: Any) -> bool:
    """Return whether a device can round / and sqrt of floats correctly (by the option EXACT_DIVISION)."""
    return bool(device.single_fp_config & binding().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)


def target_of(device: Any, work_groups: bool) -> Target:
    """Return a device as a Target, from the properties that its driver reports.

    With `work_groups` kernels run in a grid of thread blocks, without it as loops in chunks, with vectors.
    """
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
    if work_groups and pocl.is_pocl(device.platform.name):
        native.discard(Ops.TRUNC)  # PoCL's trunc of a constant NaN is 0; loops use the compiler's builtin
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
    if work_groups:
        threads = min(MOST_THREADS, device.max_work_group_size, device.max_work_item_sizes[0])
        return Target(
            **common,
            registers=GPU_TARGET.registers,
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
    )
