"""Queues: work on several of them at once, events between them and across devices, and pinned memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from tinygraft import Context, Device, Tensor
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, spinning
from tinygraft.errors import DeviceLostError
from tinygraft_opencl.allocator import ClAllocator
from tinygraft_opencl.device import OpenCLBackend

pytestmark = pytest.mark.needs("opencl")


@pytest.fixture
def pair() -> Iterator[list[OpenCLBackend]]:
    """Two devices, each with a context of its own."""
    found = [OpenCLBackend("OPENCL", ordinal) for ordinal in (0, 0)]
    yield found
    for backend in found:
        backend.close()


def test_a_launch_and_a_copy_do_not_wait(loops: OpenCLBackend) -> None:
    """Behind a kernel that takes its time, a launch, a copy from the host and an event are called for at once."""
    memory = BackendMemory(loops)
    (slow,) = programs(loops, [spinning(2_000_000_000)])
    x, out = memory.make([1]), memory.make([0])
    loops.queue.finish()
    start = time.perf_counter()
    loops.queue.launch(slow, [out, x], [], (1, 1, 1))
    source = memoryview(bytearray(4))
    copied = loops.queue.copy_in(x, source)
    loops.queue.submit()
    called = time.perf_counter() - start
    assert not copied.done()
    copied.wait()
    assert called < (time.perf_counter() - start) / 2
    assert copied.done()


def test_one_queue_waits_for_another(loops: OpenCLBackend) -> None:
    """A copy that waits for an event of the other queue has what that queue computed."""
    memory, other = BackendMemory(loops), loops.make_queue()
    (slow,) = programs(loops, [spinning(200_000)])
    x, out, copied = memory.make([1]), memory.make([0]), memory.make([0])
    loops.queue.launch(slow, [out, x], [], (1, 1, 1))
    event = loops.queue.record()
    loops.queue.submit()
    other.wait(event)
    other.copy(copied, out, 4).wait()
    assert event.done()
    assert memory.read(copied, 1) == memory.read(out, 1) != [0]


def test_events_of_another_context(pair: list[OpenCLBackend]) -> None:
    """A copy from a peer's memory waits, on the device, for the kernel there that writes it."""
    here, there = pair
    memory, own = BackendMemory(there), BackendMemory(here)
    (slow,) = programs(there, [spinning(200_000)])
    x, out, copied = memory.make([1]), memory.make([0]), own.make([0])
    there.queue.launch(slow, [out, x], [], (1, 1, 1))
    event = there.queue.record()
    there.queue.submit()
    here.queue.wait(event)
    assert here.queue.sees(there)
    here.queue.copy_from(copied, there, out, 4)
    assert own.read(copied, 1) == memory.read(out, 1) != [0]


def test_pinned_memory_is_the_drivers(loops: OpenCLBackend) -> None:
    """Where the device has memory of its own, host memory is mapped; where it has not, any is as good."""
    own = ClAllocator("OPENCL", loops.context, loops.queue, loops.target.alignment, on_host=False)
    pinned, handle = own.alloc_host(1000), own.alloc(1000)
    assert (pinned.nbytes, pinned.readonly, pinned.format) == (1000, False, "B")
    pinned[:] = bytes(range(250)) * 4
    loops.queue.copy_in(handle, pinned).wait()
    pinned[:] = bytes(1000)
    loops.queue.copy_out(pinned, handle).wait()
    assert bytes(pinned) == bytes(range(250)) * 4
    assert isinstance(loops.allocator.alloc_host(8).obj, bytearray)


def test_tensors_on_two_queues() -> None:
    """Values cross queues and devices without a word about it, in memory that is used again."""
    queue, want = Device["OPENCL"].new_queue(), np.arange(50_000, dtype=np.float32)
    x = Tensor(want, device="OPENCL").realize()
    for i in range(10):
        with queue:
            y = (x * 0.5 + i).realize()
        x = (y.to("OPENCL:1") + 1).to("OPENCL").realize()
        want = want * np.float32(0.5) + np.float32(i) + 1
        with queue:
            x = (x + 0).contiguous().realize()
    np.testing.assert_array_equal(x.numpy(), want)


def test_what_the_driver_says_late_names_the_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the queue names what was launched since the last wait; with LAUNCH_BLOCKING the one that failed."""
    backend = OpenCLBackend("OPENCL", 0)
    error = backend.queue.cl.Error

    class Failing:
        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def finish(self) -> None:
            raise error("clFinish failed: OUT_OF_RESOURCES")

    real = backend.queue.queue
    monkeypatch.setattr(backend.queue, "queue", Failing())
    assert backend.timeline is not None
    backend.timeline.ran(backend.queue, "r_16")
    with pytest.raises(DeviceLostError) as caught:
        backend.synchronize()
    assert str(caught.value).splitlines()[:2] == [
        "OPENCL failed while it computed: clFinish failed: OUT_OF_RESOURCES",
        "  launched on OPENCL since the last wait: r_16",
    ]
    with Context(LAUNCH_BLOCKING=1), pytest.raises(DeviceLostError, match="^E_4 on OPENCL failed: OPENCL failed whi"):
        backend.timeline.ran(backend.queue, "E_4")
