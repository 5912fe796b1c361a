"""Buffers: views, host memory without a copy, borrowed memory, and what is refused."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tinygraft.conformance.linears import KERNELS
from tinygraft.errors import DeviceMemoryError, UnsupportedError
from tinygraft_opencl.allocator import ClAllocator, ClMemory
from tinygraft_opencl.device import OpenCLBackend

pytestmark = pytest.mark.needs("opencl")


@pytest.fixture(params=["host", "own"])
def allocator(request: pytest.FixtureRequest, loops: OpenCLBackend) -> ClAllocator:
    """An allocator of host memory, and one that treats the device as having memory of its own."""
    on_host = request.param == "host"
    return ClAllocator("OPENCL", loops.context, loops.queue, loops.target.alignment, on_host)


def filled(allocator: ClAllocator, values: np.ndarray[Any, Any]) -> ClMemory:
    """A buffer with values."""
    handle = allocator.alloc(values.nbytes)
    allocator.copy_in(handle, memoryview(values))
    return handle


def content(allocator: ClAllocator, handle: ClMemory) -> np.ndarray[Any, Any]:
    """The bytes of a buffer."""
    result = np.empty(handle.nbytes, np.uint8)
    allocator.copy_out(memoryview(result), handle)
    return result


def test_bytes_come_back(allocator: ClAllocator) -> None:
    """What is copied in is copied out, also from a source with gaps."""
    values = np.arange(1000, dtype=np.uint8)
    assert content(allocator, filled(allocator, values)).tolist() == values.tolist()
    gaps = allocator.alloc(500)
    allocator.copy_in(gaps, memoryview(values)[::2])
    assert content(allocator, gaps).tolist() == values[::2].tolist()


def test_parts_and_their_parts_lie_where_they_should(allocator: ClAllocator) -> None:
    """A view of a view begins at the sum of both offsets, and writing there changes the whole."""
    step = allocator.alignment
    whole = filled(allocator, np.arange(4 * step, dtype=np.uint8))
    part = allocator.view(allocator.view(whole, step, 3 * step), step, step)
    assert (part.offset, part.nbytes) == (2 * step, step)
    allocator.copy_in(part, memoryview(bytes([7] * step)))
    assert content(allocator, whole)[2 * step : 3 * step].tolist() == [7] * step
    assert content(allocator, whole)[2 * step - 1] == (2 * step - 1) % 256


def test_a_part_begins_at_the_base_alignment_of_the_device(allocator: ClAllocator) -> None:
    """An unaligned offset is refused by the plugin, with a sentence, and not by the driver."""
    whole = allocator.alloc(4096)
    with pytest.raises(UnsupportedError, match=r"begins at a multiple of \d+ bytes, and 4 is none"):
        allocator.view(whole, 4, 64)


def test_a_part_keeps_the_whole(allocator: ClAllocator) -> None:
    """The bytes of a view stay when nothing refers to the whole any more."""
    values = np.arange(2 * allocator.alignment, dtype=np.uint8)
    part = allocator.view(filled(allocator, values), allocator.alignment, allocator.alignment)
    assert content(allocator, part).tolist() == values[allocator.alignment :].tolist()


def test_copies_within_the_device(allocator: ClAllocator) -> None:
    """Bytes are copied from one buffer to another after what was launched before."""
    source = filled(allocator, np.arange(256, dtype=np.uint8))
    target = allocator.alloc(256)
    allocator.copy(target, source, 256)
    assert content(allocator, target).tolist() == list(range(256))


def test_host_memory_is_shared_without_a_copy(loops: OpenCLBackend, run: Any) -> None:
    """A processor computes in memory that Python sees, and a device with memory of its own shows none."""
    handle = loops.allocator.alloc(64)
    view = loops.allocator.as_host(handle)
    assert view is not None
    view[:4] = b"abcd"
    assert bytes(content(loops.allocator, handle)[:4]) == b"abcd"
    own = ClAllocator("OPENCL", loops.context, loops.queue, loops.target.alignment, on_host=False)
    assert own.as_host(own.alloc(64)) is None
    with pytest.raises(UnsupportedError, match="cannot use memory that others made"):
        own.at_address(4096, 64)


def test_memory_of_others_is_computed_in(loops: OpenCLBackend) -> None:
    """A kernel over borrowed memory writes it; core waits for that before its owner can look."""
    linear = KERNELS["plain"]()  # data0[i] = data1[i] + 3
    program = loops.load(loops.compiler.compile(loops.renderer.render(linear)))
    target, source = (ctypes.c_float * 5)(), (ctypes.c_float * 5)(1, 2, 3, 4, 5)
    handles = [loops.allocator.at_address(ctypes.addressof(m), 20) for m in (target, source)]
    program.launch(handles, [], (1, 1, 1))
    loops.synchronize()
    assert list(target) == [4, 5, 6, 7, 8]


def test_what_is_too_large_is_said_before_the_driver_is_asked(allocator: ClAllocator) -> None:
    """The error names the largest buffer of the device."""
    largest = allocator.context.devices[0].max_mem_alloc_size
    with pytest.raises(DeviceMemoryError, match=f"its largest buffer has {largest} bytes"):
        allocator.alloc(largest + 1)


def test_a_driver_without_room_is_an_error_of_memory(loops: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver says stands in the error."""
    own = ClAllocator("OPENCL", loops.context, loops.queue, 64, on_host=False)

    class Full:
        mem_flags, Error = own.cl.mem_flags, own.cl.Error

        @staticmethod
        def Buffer(*_: object) -> None:
            raise MemoryError("MEM_OBJECT_ALLOCATION_FAILURE")

    monkeypatch.setattr(own, "cl", Full)
    with pytest.raises(DeviceMemoryError, match="could not allocate 64 bytes: MEM_OBJECT_ALLOCATION_FAILURE"):
        own.alloc(64)
