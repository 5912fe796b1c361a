"""The emulated driver refuses what cuda.h says that a driver refuses: handles that are gone, and calls in a capture."""

from __future__ import annotations

import pytest

import cuda_emulator

pytestmark = pytest.mark.needs("cc")

START = """
import ctypes as c
from ctypes import byref, c_void_p as P
from pathlib import Path
import cuda_emulator
d = c.CDLL("libcuda.so.1")
context, stream, event, graph, made, module, address = (P() for _ in range(7))
assert d.cuInit(0) == 0 and d.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and d.cuCtxSetCurrent(context) == 0
assert d.cuStreamCreate(byref(stream), 1) == 0 and d.cuEventCreate(byref(event), 0) == 0
size = c.c_size_t(64)
"""
FUNCTION = """
from tinygraft import Device
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import spinning
backend = Device["CUDA"]
(program,) = programs(backend, [spinning(10)])
function, kernel = P(int(backend.context.ffi.cast("uintptr_t", program.module.function))), program.module
module = P(int(backend.context.ffi.cast("uintptr_t", kernel.handle)))
words = (c.c_ulonglong * 8)()
arguments = (P * 8)(*(c.addressof(words) + 8 * i for i in range(8)))
launch = lambda: d.cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, stream, arguments, None)
"""


def results(code: str) -> list[int]:
    """Return the numbers that a program prints on the emulated driver."""
    done = cuda_emulator.python(START + code, CUDA_BINDING="cffi")
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(word) for word in done.stdout.split()]


def test_a_stream_that_is_gone_is_refused() -> None:
    """Waiting for it, recording in it, copying on it and freeing memory on it: each with the driver's error."""
    assert results("""
assert d.cuMemAllocAsync(byref(address), size, stream) == 0
assert d.cuEventRecord(event, stream) == 0
print(d.cuStreamDestroy_v2(stream), d.cuEventSynchronize(event))
print(d.cuStreamSynchronize(stream), d.cuEventRecord(event, stream), d.cuStreamWaitEvent(stream, event, 0))
print(d.cuMemcpyDtoDAsync_v2(address, address, size, stream), d.cuMemFreeAsync(address, stream))
print(d.cuStreamDestroy_v2(stream))
""") == [0, 0, *[400] * 6]  # fmt: skip


def test_a_wait_is_for_the_event_as_it_is_recorded_now() -> None:
    """That the event is recorded again, earlier in time, does not let those pass that wait for the first record.

    The event stands behind a slow stream first, and behind an idle one later.
    """
    assert results("""
idle, other = P(), P()
assert d.cuStreamCreate(byref(idle), 1) == 0 and d.cuStreamCreate(byref(other), 1) == 0
def copies(stream, count):
    for _ in range(count):
        assert d.cuMemcpyDtoDAsync_v2(address, P(address.value + (1 << 24)), c.c_size_t(1 << 24), stream) == 0
assert d.cuMemAlloc_v2(byref(address), c.c_size_t(1 << 25)) == 0
copies(stream, 200)
assert d.cuEventRecord(event, stream) == 0 and d.cuStreamWaitEvent(other, event, 0) == 0
assert d.cuEventRecord(event, idle) == 0 and d.cuEventSynchronize(event) == 0
print(d.cuStreamQuery(stream), d.cuStreamQuery(other))
print(d.cuStreamSynchronize(other), d.cuStreamQuery(stream))
""") == [600, 600, 0, 0]


def test_an_event_that_is_gone_is_refused() -> None:
    """A stream that was made to wait for it before still does."""
    assert results("""
assert d.cuEventRecord(event, stream) == 0
print(d.cuEventDestroy_v2(event), d.cuStreamSynchronize(stream))
print(d.cuEventQuery(event), d.cuEventSynchronize(event), d.cuEventRecord(event, stream))
print(d.cuStreamWaitEvent(stream, event, 0), d.cuEventDestroy_v2(event))
""") == [0, 0, *[400] * 5]  # fmt: skip


def test_a_module_and_a_graph_that_are_gone_are_refused() -> None:
    """A function has its module's life, and nodes that of their graph."""
    assert results(FUNCTION + """
assert d.cuGraphCreate(byref(graph), 0) == 0 and d.cuGraphInstantiateWithFlags(byref(made), graph, c.c_ulonglong()) == 0
print(launch() != 400, d.cuGraphLaunch(made, stream))
print(d.cuGraphExecDestroy(made), d.cuGraphDestroy(graph), d.cuModuleUnload(module))
print(launch(), d.cuModuleGetFunction(byref(function), module, b"spinning"), d.cuModuleUnload(module))
print(d.cuGraphLaunch(made, stream), d.cuGraphInstantiateWithFlags(byref(made), graph, c.c_ulonglong()))
print(d.cuGraphDestroy(graph), d.cuGraphExecDestroy(made))
kernel.handle = None
""".replace("launch() != 400", "int(launch() != 400)")) == [1, 0, 0, 0, 0, *[400] * 7]  # fmt: skip


def test_what_lived_in_a_context_is_gone_with_it() -> None:
    """Made anew it has none of the old streams and events, and no memory; in between nothing can be called."""
    assert results("""
assert d.cuMemAlloc_v2(byref(address), size) == 0
kind = c.c_uint()
print(d.cuPointerGetAttribute(byref(kind), 2, address), d.cuDevicePrimaryCtxRelease_v2(0))
print(d.cuStreamSynchronize(stream), d.cuEventCreate(byref(P()), 0))
print(d.cuDevicePrimaryCtxRetain(byref(context), 0), d.cuStreamSynchronize(stream), d.cuEventQuery(event))
print(d.cuPointerGetAttribute(byref(kind), 2, address))
""") == [0, 0, 201, 201, 0, 400, 400, 1]  # fmt: skip


def test_handles_of_another_context_are_refused() -> None:
    """An event of one context in a stream of another one."""
    assert results("""
other, theirs = P(), P()
assert d.cuCtxCreate_v2(byref(other), 0, 0) == 0 and d.cuStreamCreate(byref(theirs), 1) == 0
print(int(other.value != context.value), d.cuEventRecord(event, theirs), d.cuStreamWaitEvent(theirs, event, 0))
print(d.cuCtxDestroy_v2(other), d.cuStreamSynchronize(theirs), d.cuStreamSynchronize(stream))
""") == [1, 400, 0, 0, 400, 0]  # fmt: skip


def test_a_capture_forbids_unsafe_calls() -> None:
    """While a library captures a stream nothing is allocated or asked for, and what was tried has ended the capture."""
    assert results("""
assert d.cuEventRecord(event, stream) == 0 and d.cuEventSynchronize(event) == 0
print(d.cuStreamBeginCapture_v2(stream, 0), d.cuStreamEndCapture(stream, byref(graph)))
print(d.cuStreamBeginCapture_v2(stream, 0), d.cuEventQuery(event), d.cuMemAlloc_v2(byref(address), size))
print(d.cuStreamSynchronize(stream), d.cuCtxSynchronize(), d.cuStreamEndCapture(stream, byref(graph)))
print(d.cuEventQuery(event), d.cuMemAlloc_v2(byref(address), size))
""") == [0, 0, 0, 900, 900, 900, 900, 901, 0, 0]  # fmt: skip
