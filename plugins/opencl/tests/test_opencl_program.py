"""Programs: launches that do not wait, their time, prepared lists, binaries on disk, and several ordinals."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit
from tinygraft.conformance.linears import KERNELS, group_sum
from tinygraft.device.interfaces import Step
from tinygraft.errors import CompileError, DeviceError
from tinygraft.uop.stages import Binary, Signature, Source
from tinygraft_opencl.device import OpenCLBackend
from tinygraft_opencl.program import ClGraph

pytestmark = pytest.mark.needs("opencl")


def program_of(backend: OpenCLBackend, name: str) -> Any:
    """A loaded hand-written kernel."""
    linear = KERNELS[name]()
    return backend.load(backend.compiler.compile(backend.renderer.render(linear)))


def floats(backend: OpenCLBackend, *values: float) -> Any:
    """A buffer of floats."""
    handle = backend.allocator.alloc(4 * len(values))
    backend.allocator.copy_in(handle, memoryview(np.array(values, np.float32)))
    return handle


def read(backend: OpenCLBackend, handle: Any) -> list[float]:
    """The floats of a buffer."""
    result = np.empty(handle.nbytes // 4, np.float32)
    backend.allocator.copy_out(memoryview(result), handle)
    return result.tolist()  # type: ignore[no-any-return]


def test_launches_run_in_order_and_reading_waits(loops: OpenCLBackend) -> None:
    """Each of many launches sees what the one before it wrote, with no wait in between."""
    program = program_of(loops, "plain")  # data0[i] = data1[i] + 3
    a, b = floats(loops, 0, 1, 2, 3, 4), floats(loops, *[0] * 5)
    for _ in range(100):
        program.launch([b, a], [], (1, 1, 1))
        program.launch([a, b], [], (1, 1, 1))
    assert read(loops, a) == [600, 601, 602, 603, 604]


def test_groups_share_memory_and_wait_for_each_other(groups: OpenCLBackend, run: Any) -> None:
    """A work-group computes a sum through local memory and barriers, in a grid of work-groups."""
    linear = group_sum(3, 8)
    values = np.arange(24, dtype=np.float32)
    sizes = [p.size for p in linear.signature.params]
    got = run(groups, linear, np.zeros(sizes[0], np.float32), values[: sizes[1]], grid=linear.signature.grid)
    assert got.tolist() == values.reshape(3, 8).sum(1).tolist()


def test_the_time_of_a_launch_is_that_of_the_device(backend: OpenCLBackend) -> None:
    """More than nothing and less than the host waited."""
    import time

    name = "plain" if not backend.work_groups else "running_sum"
    program = program_of(backend, name)
    handles = [floats(backend, *[1] * 16) for _ in program.signature.params]
    start = time.perf_counter()
    seconds = backend.timed_launch(program, handles, [], (1, 1, 1))
    assert 0 < seconds < time.perf_counter() - start
    nothing = [backend.timed_launch(program, handles, [], (0, 1, 1)) for _ in range(20)]
    assert 0 <= min(nothing) < 1e-3  # the least of several: the host's threads may be kept waiting


def test_a_prepared_list_is_told_only_what_changes(loops: OpenCLBackend) -> None:
    """Launches and copies in order; then another buffer and another value of a variable, the rest as it was."""
    plain, scaled = program_of(loops, "plain"), program_of(loops, "scratch")
    steps = [Step(plain, (0, 1)), Step(plain, (2, 0)), Step(None, (3, 2), nbytes=20), Step(scaled, (4, 5), ("n",))]
    graph = loops.graph(steps)
    assert isinstance(graph, ClGraph)
    rows = [floats(loops, *range(24)), floats(loops, *[0] * 24)]
    buffers = [floats(loops, *[0] * 5), floats(loops, 1, 2, 3, 4, 5), floats(loops, *[0] * 5), floats(loops, *[0] * 5),
               rows[1], rows[0]]  # fmt: skip
    for place, handle in enumerate(buffers):
        graph.set_buffer(place, handle)
    graph.set_values({"n": 1})
    assert graph.run(0) == len(steps)
    assert read(loops, buffers[3]) == [7, 8, 9, 10, 11]
    once = read(loops, rows[1])
    graph.set_buffer(1, floats(loops, 10, 10, 10, 10, 10))
    graph.set_values({"n": 2})
    assert graph.run(0) == len(steps)
    assert read(loops, buffers[3]) == [16] * 5
    assert read(loops, rows[1])[:12] == once[:12]
    assert read(loops, rows[1])[12:] != once[12:]


def test_a_replayed_function_gives_what_it_gives(loops: OpenCLBackend) -> None:
    """A TinyJit on the device replays its list with new arguments."""
    step = TinyJit(lambda x: ((x + 1) * 2).sum(0).realize())
    for k in range(5):
        x = np.full((4, 7), k, np.float32)
        assert step(Tensor(x, device="OPENCL").realize()).tolist() == [8.0 * (k + 1)] * 7


def test_a_refused_kernel_shows_the_log_and_the_source(loops: OpenCLBackend) -> None:
    """The driver's message and the kernel's name are in the error, and its source is an attribute."""
    source = Source("broken", "__kernel void broken(__global float *x) { x[0] = nonsense; }", "opencl", Signature(()))
    with pytest.raises(CompileError, match=r"refused kernel broken:[\s\S]*nonsense") as caught:
        loops.compiler.compile(source)
    assert "nonsense" in caught.value.log
    assert caught.value.source == source.text


def test_bytes_that_are_no_binary_are_refused(loops: OpenCLBackend) -> None:
    """The error names the kernel."""
    with pytest.raises(DeviceError, match="cannot load its own binary of kernel plain"):
        loops.load(Binary("plain", b"no binary", Signature(())))


def test_a_kernel_that_cannot_be_launched_is_an_error_of_the_device(loops: OpenCLBackend) -> None:
    """An argument that is missing is found by the driver."""
    program = program_of(loops, "plain")
    with pytest.raises(DeviceError, match="kernel plain could not be launched"):
        program.launch([floats(loops, 1)], [], (1, 1, 1))


def test_the_key_of_binaries_tells_devices_and_options_apart(loops: OpenCLBackend) -> None:
    """Another driver, or division by another method, has another key."""
    from tinygraft_opencl.compiler import ClCompiler

    class Newer:
        driver_version = "another"

        def __getattr__(self, name: str) -> Any:
            return getattr(loops.device, name)

    keys = {ClCompiler(loops.context, d, exact).key for d in (loops.device, Newer()) for exact in (True, False)}
    assert len(keys) == 4
    assert loops.compiler.key in keys


def test_the_next_process_compiles_nothing(tmp_path: Any) -> None:
    """Binaries are cached on disk: a second process launches the same kernels and compiles none."""
    script = (
        "from tinygraft import Tensor, GlobalCounters\n"
        "print((Tensor.arange(100, device='OPENCL').float() * 3).sum().item(), GlobalCounters.kernels_compiled)"
    )
    settings = os.environ | {"TINYGRAFT_CACHE": str(tmp_path), "CACHELEVEL": "2"}
    found = [
        subprocess.run([sys.executable, "-c", script], env=settings, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert [float(text.split()[0]) for text in found] == [14850, 14850]
    assert int(found[0].split()[1]) > 0
    assert int(found[1].split()[1]) == 0


def test_ordinals_of_a_processor_are_devices_of_their_own() -> None:
    """OPENCL and OPENCL:1 have contexts and buffers of their own; a value moves between them through the host."""
    x = Tensor(np.arange(6, dtype=np.float32), device="OPENCL").realize()
    y = (x.to("OPENCL:1") * 2).realize()
    assert y.device == "OPENCL:1"
    assert (y.to("OPENCL") + x).tolist() == [0, 3, 6, 9, 12, 15]
