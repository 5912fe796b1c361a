"""Queues and events: when events pass, how work is ordered within a queue and between two, and what core may reuse."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.compare import same
from tinygraft.conformance.gate import needs
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, mapped, spinning
from tinygraft.device.interfaces import Backend, Handle, Program
from tinygraft.device.queues import Event, Queue
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.stages import Kernel

SPINS, TIMES = 50_000, 6  # iterations of a slow kernel, and how often it is launched
PATIENCE = 0.2  # seconds for which a test polls an event that it does not wait for
CLOCKS = 1e-3  # seconds by which two clocks may differ


def spun(first: int) -> int:
    """Return what `spinning` of SPINS iterations computes of `first`."""
    value = 1
    for i in range(SPINS):
        value ^= first + i
    return value


class TwoQueues:
    """Kernels and buffers on two queues of a backend: the first one, and another beside it."""

    backend: Backend
    memory: BackendMemory
    first: Queue
    second: Queue
    slow: Program
    add: Program

    def __init__(self, backend: Backend) -> None:
        self.backend, self.memory = backend, BackendMemory(backend)
        self.first, self.second = backend.queue, backend.make_queue()
        linear = to_linear(Kernel(mapped(lambda x: x + 1, 1)), backend.target)
        self.slow, self.add = programs(backend, [spinning(SPINS), linear])
        x, y, z = (int(n) for n in linear.signature.grid)
        self.grid: tuple[int, int, int] = x, y, z
        one, out = self.memory.make([1]), self.memory.make([0])
        # a first launch may take so long that a queue which never waits is right
        for queue in (self.first, self.second):
            queue.launch(self.slow, [out, one], [], (1, 1, 1))
            self.plus_one(queue, out, one)
            queue.finish()

    def spin(self, queue: Queue, out: Handle, x: Handle) -> None:
        """Launch slow work on a queue, which stores spun(x) to `out`."""
        for _ in range(TIMES):
            queue.launch(self.slow, [out, x], [], (1, 1, 1))

    def plus_one(self, queue: Queue, out: Handle, x: Handle) -> None:
        """Launch a quick kernel on a queue, which stores x + 1 to `out`."""
        queue.launch(self.add, [out, x], [], self.grid)

    def now(self, handle: Handle) -> int:
        """Return the first number of a buffer, read on the second queue, which waits for no other queue."""
        found = bytearray(4)
        self.second.copy_out(memoryview(found), handle).wait()
        return int.from_bytes(found, "little", signed=True)


def number(value: int) -> memoryview:
    """Return a number as bytes."""
    return memoryview(bytearray(value.to_bytes(4, "little", signed=True)))


class Queues:
    """A device with queues guarantees what core requires: order within a queue, and events between queues."""

    @pytest.fixture
    @staticmethod
    def work(backend: Backend) -> Iterator[TwoQueues]:
        """Yield kernels and buffers on two queues, and wait for all their work in the end."""
        made = TwoQueues(backend)
        yield made
        made.first.finish()
        made.second.finish()

    @needs("queues")
    def test_event_waits(self, work: TwoQueues) -> None:
        """When the host has waited for an event, what was launched before it has run."""
        x, out = work.memory.make([7]), work.memory.make([0])
        work.spin(work.first, out, x)
        event = work.first.record()
        event.wait()
        assert event.done(), "an event that was waited for is not done()"
        assert work.now(out) == spun(7), "wait() of an event returned before the kernel that was launched before it ran"

    @needs("queues")
    def test_done_event(self, work: TwoQueues) -> None:
        """Where done() of an event is true, all work before it has run."""
        x, out = work.memory.make([8]), work.memory.make([0])
        work.spin(work.first, out, x)
        event, end = work.first.record(), time.perf_counter() + PATIENCE
        work.first.submit()
        while not event.done() and time.perf_counter() < end:
            pass
        if event.done():
            assert work.now(out) == spun(8), "an event said done() before the kernel that was launched before it ran"
        event.wait()
        assert event.done()

    @needs("queues")
    def test_finish_waits(self, work: TwoQueues) -> None:
        """After finish() of a queue all that it was given has run."""
        x, out = work.memory.make([9]), work.memory.make([0])
        work.spin(work.first, out, x)
        work.first.finish()
        assert work.now(out) == spun(9)

    @needs("queues")
    def test_queue_waits_for_event(self, work: TwoQueues) -> None:
        """A kernel on one queue that waits for an event of another one reads what was written there before it."""
        x, out, more = work.memory.make([3]), work.memory.make([0]), work.memory.make([0])
        work.spin(work.first, out, x)
        after(work.second, work.first)
        work.plus_one(work.second, more, out)
        assert work.now(more) == spun(3) + 1, "a queue ran work after wait(event) before the event had passed"

    @needs("queues")
    def test_overwriting_waits_for_event(self, work: TwoQueues) -> None:
        """Memory that one queue still reads is written by another one after the event that it waits for."""
        x, out = work.memory.make([4]), work.memory.make([0])
        work.spin(work.first, out, x)
        after(work.second, work.first)
        five = number(5)
        work.second.copy_in(x, five).wait()
        assert work.now(x) == 5
        work.first.finish()
        assert work.now(out) == spun(4), "a queue wrote memory after wait(event) before the event had passed"

    @needs("queues")
    def test_copy_in_event(self, work: TwoQueues) -> None:
        """The event of copy_in passes when the bytes have been read, after what was launched before."""
        x, out, other = work.memory.make([5]), work.memory.make([0]), work.memory.make([0])
        source = number(6)
        work.spin(work.first, out, x)
        work.first.copy_in(x, source).wait()
        source[:] = number(-1)
        work.spin(work.first, other, x)
        work.first.finish()
        found = work.now(out), work.now(other)
        assert found == (spun(5), spun(6)), "the event of copy_in passed before the copy: its source was read later"

    @needs("queues")
    def test_copy_out_event(self, work: TwoQueues) -> None:
        """The event of copy_out passes when the bytes are in host memory."""
        x, out, target = work.memory.make([2]), work.memory.make([0]), number(0)
        work.spin(work.first, out, x)
        work.first.copy_out(target, out).wait()
        assert bytes(target) == bytes(number(spun(2))), "the event of copy_out passed before the bytes were copied"

    @needs("queues")
    def test_copy_event(self, work: TwoQueues) -> None:
        """A copy within the device runs after what its queue waits for, and its event passes after the copy."""
        x, out, copied = work.memory.make([1]), work.memory.make([0]), work.memory.make([0])
        work.spin(work.first, out, x)
        after(work.second, work.first)
        work.second.copy(copied, out, 4).wait()
        assert work.now(copied) == spun(1)

    @needs("queues")
    def test_time_between_events(self, work: TwoQueues) -> None:
        """The time between two events is at most that of the host's clock, and longer for more work."""
        x, out = work.memory.make([1]), work.memory.make([0])
        found = []
        for times in (0, 2):
            work.first.finish()
            begun, start = time.perf_counter(), work.first.record()
            for _ in range(times):
                work.spin(work.first, out, x)
            found.append(work.first.record().elapsed(start))
            assert 0 <= found[-1] <= time.perf_counter() - begun + CLOCKS
        assert found[0] < found[1]

    @needs("queues")
    def test_pinned_memory(self, work: TwoQueues) -> None:
        """Pinned host memory has the size that was requested, can be written, and is copied from and to."""
        pinned, handle = work.backend.allocator.alloc_host(4096), work.backend.allocator.alloc(4096)
        assert (pinned.nbytes, pinned.readonly, pinned.format) == (4096, False, "B")
        pinned[:] = data = bytes(range(256)) * 16
        work.first.copy_in(handle, pinned).wait()
        pinned[:] = bytes(4096)
        work.first.copy_out(pinned, handle).wait()
        assert bytes(pinned) == data
        work.backend.allocator.free(handle, 4096)

    @needs("queues")
    def test_uploads_behind_work(self, device: str, work: TwoQueues) -> None:
        """Tensors that are made while kernels run have their own values, though pinned memory is reused."""
        x, out = work.memory.make([1]), work.memory.make([0])
        work.spin(work.first, out, x)
        tensors = [Tensor(np.full(1000, i, np.int32), device=device).realize() for i in range(30)]
        same([int(t.numpy()[999]) for t in tensors], list(range(30)))

    @needs("queues")
    def test_tensors_on_queues(self, backend: Backend, device: str) -> None:
        """Values computed on two queues alternately, in memory that is freed and reused, are right on both."""
        queue, data = backend.new_queue(), np.arange(20_011, dtype=np.int32)
        x, want, sums = Tensor(data, device=device).realize(), data, []
        for i in range(6):
            with queue:
                y = (x * 3 + i).realize()
            sums.append((y.sum() - i).realize())
            x = (y - x).realize()
            del y
            new = want * 3 + i
            want = new - want
            with queue:
                assert int(x.numpy()[-1]) == int(want[-1])
            same([sums[-1].item()], [int(new.sum(dtype=np.int32)) - i])
        np.testing.assert_array_equal(x.numpy(), want)


def after(queue: Queue, other: Queue) -> Event:
    """Let a queue wait for all that another one was given so far. Returns the event that it waits for."""
    event = other.record()
    other.submit()
    queue.wait(event)
    return event
