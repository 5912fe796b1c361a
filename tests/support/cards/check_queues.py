"""Streams of a card: nothing waits but who asks, and what is used on two streams or cards is in order."""

from __future__ import annotations

import time

import numpy as np
import pytest

from card import DEVICE
from tinygraft import Context, Tensor
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, spinning
from tinygraft.plugin.driver import DriverBackend


def test_a_launch_and_a_copy_do_not_wait(backend: DriverBackend) -> None:
    """Behind a kernel that takes its time, a launch, a copy from the host and an event are called for at once."""
    memory = BackendMemory(backend)
    (slow,) = programs(backend, [spinning(20_000_000)])
    x, out = memory.make([1]), memory.make([0])
    backend.queue.finish()
    pinned = backend.allocator.alloc_host(4)
    start = time.perf_counter()
    backend.queue.launch(slow, [out, x], [], (1, 1, 1))
    copied = backend.queue.copy_in(x, pinned)
    called = time.perf_counter() - start
    assert not copied.done()
    copied.wait()
    assert called < (time.perf_counter() - start) / 2
    assert copied.done()


def test_a_stream_does_not_wait_for_another(backend: DriverBackend) -> None:
    """A copy on a second queue ends while a kernel of the first one runs: copies overlap with kernels."""
    memory, other = BackendMemory(backend), backend.make_queue()
    (slow,) = programs(backend, [spinning(20_000_000)])
    x, out, target = memory.make([1]), memory.make([0]), memory.make([0])
    pinned = backend.allocator.alloc_host(4)
    backend.queue.finish()
    backend.queue.launch(slow, [out, x], [], (1, 1, 1))
    running = backend.queue.record()
    other.copy_in(target, pinned).wait()
    assert not running.done()
    running.wait()


def test_events_have_the_cards_time(backend: DriverBackend) -> None:
    """The time between two events is that of the work between them."""
    memory = BackendMemory(backend)
    (slow,) = programs(backend, [spinning(5_000_000)])
    x, out = memory.make([1]), memory.make([0])
    start = time.perf_counter()
    before = backend.queue.record()
    backend.queue.launch(slow, [out, x], [], (1, 1, 1))
    took = backend.queue.record().elapsed(before)
    assert 0 < took <= time.perf_counter() - start


def test_another_card_waits_for_the_first(pair: list[DriverBackend]) -> None:
    """A copy from a peer's memory waits, on the card, for the kernel there that writes it."""
    here, there = pair
    memory, own = BackendMemory(there), BackendMemory(here)
    (slow,) = programs(there, [spinning(2_000_000)])
    x, out, copied = memory.make([1]), memory.make([0]), own.make([0])
    there.queue.launch(slow, [out, x], [], (1, 1, 1))
    here.queue.wait(there.queue.record())
    assert here.queue.sees(there)
    here.queue.copy_from(copied, there, out, 4)
    assert own.read(copied, 1) == memory.read(out, 1) != [0]


@pytest.mark.usefixtures("pair")
def test_a_sharded_product_is_that_of_one_card() -> None:
    """Rows on two cards, uneven ones too, and gathered again."""
    a, b = (np.random.RandomState(i).randint(-8, 9, (34, 34)).astype(np.float32) for i in range(2))
    devices = (f"{DEVICE}:0", f"{DEVICE}:1")
    for splits in ((17, 17), (30, 4)):
        x = Tensor(a, device=DEVICE).shard(devices, 0, splits)
        y = Tensor(b, device=DEVICE).shard(devices)
        np.testing.assert_array_equal((x @ y).relu().to(DEVICE).numpy(), np.maximum(a @ b, 0))


def test_queues_never_change_a_value(backend: DriverBackend) -> None:
    """Work on two queues in turn, in memory that is freed and taken again, is what NumPy computes."""
    queue, data = backend.new_queue(), np.arange(5000, dtype=np.int32)
    x, want = Tensor(data, device=DEVICE).realize(), data
    for i in range(12):
        with queue:
            y = (x * 3 + i).realize()
        x = (y - x).realize()
        want = (want * 3 + i) - want
        del y
        with queue:
            x = (x % 10007).realize()
        want = want % 10007
    np.testing.assert_array_equal(x.numpy(), want)


def test_launch_blocking_waits_for_each_launch(backend: DriverBackend) -> None:
    """With LAUNCH_BLOCKING=1 what was launched has run when a realisation returns: another queue sees it at once."""
    found, other = bytearray(4), backend.make_queue()
    (Tensor.arange(100_000, device=DEVICE) * 3).contiguous().realize()
    with Context(LAUNCH_BLOCKING=1):
        x = (Tensor.arange(100_000, device=DEVICE) * 3).contiguous().realize()
        other.copy_out(memoryview(found), backend.allocator.view(x.uop.base.realized.handle, 4 * 99_999, 4)).wait()
    assert int.from_bytes(found, "little") == 299_997
