"""Core's side of the contract of queues and events, on devices that do everything as late as they may (late_queues)."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from installed import installed
from late_queues import LateBackend, LateProgram
from tinygraft import Context, Device, Tensor, TinyJit, events
from tinygraft.device.buffer import Borrowed, Buffer
from tinygraft.device.interfaces import Program
from tinygraft.device.pool import Allocation, Pool, pool_of
from tinygraft.device.timeline import Timeline, Uses
from tinygraft.dtype import dtypes
from tinygraft.engine import compile, plan
from tinygraft.errors import DeviceError, DeviceLostError, DeviceMemoryError, DTypeError, UnsupportedError
from tinygraft.events import LaunchEvent
from tinygraft.uop.stages import Binary


@pytest.fixture(params=["LATE", "SEEING"])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A late device, and one that reads the memory of its peers itself."""
    with installed(tmp_path, "late", LATE="late_queues:LATE", SEEING="late_queues:SEEING"):
        yield request.param
        gc.collect()
        for name in [name for name in Device.opened() if name.partition(":")[0] == request.param]:
            Device._opened.pop(name)


def backend_of(device: str) -> LateBackend:
    """The backend."""
    backend = Device[device]
    assert isinstance(backend, LateBackend)
    return backend


def floats(*shape: int) -> np.ndarray[Any, Any]:
    """Whole numbers as floats."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_nothing_is_waited_for_but_values(device: str) -> None:
    """Twenty launches wait, after copies from the host, on memory that is freed and reused."""
    queue, data = backend_of(device).queue, np.arange(7, dtype=np.int32)
    x, want = Tensor(data, device=device).realize(), data
    for i in range(20):
        x, want = (x * 2 - i).realize(), want * 2 - i
    others = [Tensor(np.full(7, i, np.int32), device=device).realize() for i in range(5)]
    assert len(queue.tasks) >= 25
    assert x.tolist() == want.tolist()
    assert [t.tolist() for t in others] == [[i] * 7 for i in range(5)]


def test_two_queues_need_no_help(device: str) -> None:
    """A value that was made on one queue is right on another, there and back, whichever is read first."""
    first = backend_of(device).new_queue()
    x, want = Tensor(floats(11), device=device).realize(), floats(11)
    for i in range(8):
        if i % 2:
            x = (x + i).realize()
        else:
            with first:
                x = (x + i).realize()
        want = want + i
    with first:
        y = (x * 3).realize()
    assert (y.tolist(), x.tolist()) == ((want * 3).tolist(), want.tolist())


def test_what_is_overwritten_was_read(device: str) -> None:
    """A queue that assigns to memory waits for another one that still reads it."""
    queue = backend_of(device).new_queue()
    state = Tensor(floats(9), device=device).realize()
    sums = []
    for i in range(4):
        sums.append((state.sum() + i).realize())
        with queue:
            state.assign(state + 1).realize()
    with queue:
        assert state.tolist() == (floats(9) + 4).tolist()
    assert [s.item() for s in sums] == [36 + 9 * i + i for i in range(4)]


def test_freed_memory_is_free_on_its_queue_only(device: str) -> None:
    """A block that one queue still uses is reused by another one, which waits for it."""
    queue, size = backend_of(device).new_queue(), (64 << 10) // 4 + 1
    kept = []
    for i in range(5):
        x = Tensor(np.full(size, i, np.float32), device=device).realize()
        Device[device].synchronize()
        kept.append((x.sum() / size).realize())
        del x
        with queue:
            y = Tensor(np.full(size, 100, np.float32), device=device).realize()
            z = (y + 1).realize()
            del y
    with queue:
        assert z.numpy()[-1] == 101
    assert [t.item() for t in kept] == [0, 1, 2, 3, 4]


def test_a_block_of_this_queue_is_taken_first(device: str) -> None:
    """Of two blocks of a size that were freed, each queue gets the one that it used itself, and does not wait."""
    backend, nbytes = backend_of(device), 100_000
    queue = backend.new_queue()

    def made() -> Buffer:
        return Buffer(device, nbytes, dtypes.uint8).copy_in(memoryview(bytes(nbytes)))

    mine = made()
    with queue:
        other = made()
    assert mine.block is not None and other.block is not None
    handles = [mine.block.handle, other.block.handle]  # type: ignore[union-attr]
    del mine, other
    with queue:
        assert made().handle is handles[1]
    assert made().handle is handles[0]


def test_memory_goes_back_when_its_last_use_has_passed(device: str) -> None:
    """What is not cached for reuse is freed later, and all of it by empty_cache, which waits."""
    backend, size = backend_of(device), (64 << 10) + 1
    with Context(KEEP_MB=0):
        x = Tensor(np.arange(size, dtype=np.uint8), device=device).realize()
        for i in range(4):
            x = (x * 2 - i).realize()
        assert backend.allocator.freed == 0
        want = np.arange(size, dtype=np.uint8)
        for i in range(4):
            want = want * 2 - np.uint8(i)
        np.testing.assert_array_equal(x.numpy(), want)
        Device.empty_cache(device)
    assert backend.allocator.freed >= 4


def test_a_full_device_waits_for_memory_that_is_on_its_way(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Core waits for blocks that were freed and may still be used before it raises DeviceMemoryError."""
    allocator, size = backend_of(device).allocator, 1 << 20
    original, room = type(allocator).alloc, 2

    def alloc(self: Any, nbytes: int) -> Any:
        nonlocal room
        if nbytes >= size:
            if room + self.freed <= 0:
                raise DeviceMemoryError("full")
            room -= 1
        return original(self, nbytes)

    monkeypatch.setattr(type(allocator), "alloc", alloc)
    with Context(KEEP_MB=0):
        a = Buffer(device, size, dtypes.uint8).copy_in(memoryview(bytes([1]) * size))
        b = Buffer(device, size, dtypes.uint8).copy_from(a)
        del a
        c = Buffer(device, size, dtypes.uint8).copy_from(b)
        assert bytes(c.copy_out(memoryview(bytearray(size)))) == bytes([1]) * size
        assert allocator.freed == 1


@pytest.mark.parametrize("nbytes", [12, 4097, 17 << 20])
def test_the_source_is_the_callers(device: str, nbytes: int) -> None:
    """Bytes that were copied in may be written over at once, small ones and those that are too large to be staged."""
    backend_of(device).new_queue()
    source = bytearray(range(256)) * (nbytes // 256 + 1)
    source = source[:nbytes]
    want = bytes(source)
    buffers = []
    for _ in range(3):
        buffers.append(Buffer(device, nbytes, dtypes.uint8).copy_in(memoryview(source)))
    source[:] = bytes(nbytes)
    for buffer in buffers:
        assert bytes(buffer.copy_out(memoryview(bytearray(nbytes)))) == want


def test_pinned_memory_is_used_again_when_its_copy_has_passed(device: str) -> None:
    """A hundred copies wait with a piece each; afterwards one piece is enough."""
    backend = backend_of(device)
    pieces: list[int] = []
    alloc_host = backend.allocator.alloc_host
    backend.allocator.alloc_host = lambda n: (pieces.append(n), alloc_host(n))[1]  # type: ignore[method-assign]
    tensors = [Tensor(np.full(5, i, np.int32), device=device).realize() for i in range(100)]
    assert len(pieces) == 100
    assert [t.tolist() for t in tensors] == [[i] * 5 for i in range(100)]
    for i in range(100):
        assert Tensor([i, i], device=device).realize().tolist() == [i, i]
    assert len(pieces) == 100


def test_peers_are_in_order_without_a_wait(device: str) -> None:
    """Values go to another device and back, their sources are dropped and overwritten; a wait comes at the end only."""
    other = f"{device}:1"
    a, b = backend_of(device).queue, backend_of(other).queue
    x, want, seen = Tensor(floats(33), device=device).realize(), floats(33), []
    for i in range(4):
        there = x.to(other).realize()
        x.assign(x * 0 - 1).realize()
        seen.append((there + i).realize())
        x = there.to(device).realize()
        del there
        Tensor(np.full(33, 9, np.float32), device=other).realize()
    assert len(a.times) == len(b.times) == 1
    assert [t.tolist() for t in seen] == [(want + i).tolist() for i in range(4)]
    assert x.tolist() == want.tolist()


def test_peers_without_queues(device: str) -> None:
    """From and to a device that waits for everything."""
    x = (Tensor(floats(5), device=device) + 1).realize()
    there = (x.to("PYTHON") * 2).realize()
    assert there.tolist() == ((floats(5) + 1) * 2).tolist()
    assert (there.to(device) + x).tolist() == ((floats(5) + 1) * 3).tolist()


def test_shards(device: str) -> None:
    """A sum over two devices."""
    devices = (device, f"{device}:1")
    x = Tensor(floats(6, 4)).shard(devices, axis=0)
    assert (x + 1).sum().item() == floats(6, 4).sum() + 24
    assert (x @ Tensor(floats(4, 3)).shard(devices)).numpy().tolist() == (floats(6, 4) @ floats(4, 3)).tolist()


class Owner:
    """An array in an object that can be weakly referred to, to see whether it is retained."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)


def test_memory_of_others_is_done_with_when_a_realisation_returns(device: str) -> None:
    """Its owner reads what was assigned to it, and may write over what was read, at once."""
    array = floats(6)
    t = Tensor.from_dlpack(array, device=device)
    y = (t + 1).realize()
    array[:] = 50
    assert y.tolist() == (floats(6) + 1).tolist()
    t.assign(t + 1).realize()
    assert array.tolist() == [51] * 6
    twice = TinyJit(lambda x: (x * 2).realize())
    for i in range(4):
        array[:] = i
        result = twice(t)
        array[:] = 99
        assert result.tolist() == [2 * i] * 6


def test_memory_that_is_lent_is_written_when_a_realisation_returns(device: str) -> None:
    """Lent memory of a tensor shows what is assigned to it at once, as long as it is lent and no longer."""
    backend = backend_of(device)
    t = (Tensor(floats(6), device=device) + 1).realize()
    view = memoryview(t.data())
    t.assign(t * 2).realize()
    assert view.tolist() == ((floats(6) + 1) * (1 if device == "LATE" else 2)).tolist()
    del view
    t.assign(t * 2).realize()
    assert backend.queue.tasks


def test_an_owner_is_kept_until_the_last_use(device: str) -> None:
    """Of memory that work is still to be done on, the owner goes when that has passed, and no earlier."""

    class Held:
        pass

    backend, array = backend_of(device), floats(8)
    owner = Held()
    gone = weakref.ref(owner)
    lent = Buffer(device, 8, dtypes.float32)
    lent.borrow(backend.allocator.at_address(array.ctypes.data, 32), owner)
    copy = Buffer(device, 8, dtypes.float32).copy_from(lent)
    del lent, owner
    assert gone() is not None
    assert copy.copy_out(memoryview(bytearray(32))).cast("f").tolist() == floats(8).tolist()
    backend.synchronize()
    (Tensor([1.0], device=device) + 1).realize()
    gc.collect()
    assert gone() is None


def test_a_program_is_kept_until_its_launch_has_passed(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that core forgets while a launch of it waits is freed after that, and not before."""
    programs: list[weakref.ref[Program]] = []
    load = LateBackend.load

    def noted(self: LateBackend, binary: Binary) -> Program:
        program = load(self, binary)
        programs.append(weakref.ref(program))
        return program

    monkeypatch.setattr(LateBackend, "load", noted)
    x = Tensor(floats(13), device=device).realize()
    y = (x * 7 - 3).realize()
    compile.clear()
    plan.clear()
    gc.collect()
    (program,) = programs
    assert program() is not None
    assert y.tolist() == (floats(13) * 7 - 3).tolist()
    (x + 1).realize()  # what has passed is let go of at the end of a realisation
    gc.collect()
    assert program() is None


def test_replays_on_queues(device: str) -> None:
    """A captured function with state and values in between, replayed on two queues by turns."""
    queue = backend_of(device).new_queue()
    state = Tensor(np.zeros(6, np.float32), device=device).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x.sum(0)).realize()
        return ((x * state).realize().sum(1) + 1).realize()

    want, found = np.zeros(6, np.float32), []
    for i in range(8):
        x = floats(2, 6) + i
        if i % 2:
            with queue:
                got = step(Tensor(x, device=device).realize())
        else:
            got = step(Tensor(x, device=device).realize())
        want = want + x.sum(0)
        found.append((got, (x * want).sum(1) + 1))
    for got, right in reversed(found):
        np.testing.assert_array_equal(got.numpy(), right)
    np.testing.assert_array_equal(state.numpy(), want)


def test_work_is_submitted_at_the_end_of_a_realisation(device: str) -> None:
    """Once for all of it, and once for a replay."""
    queue = backend_of(device).queue
    x = Tensor(floats(4), device=device).realize()
    double = TinyJit(lambda x: ((x + 1).realize() * 2).realize())
    for _ in range(3):
        double(x)
    before = queue.submitted
    double(x)
    assert queue.submitted == before + 1


def test_queues_are_bounded(device: str) -> None:
    """Beyond the most queues, earlier ones are returned again."""
    backend = backend_of(device)
    assert len({id(backend.new_queue()) for _ in range(100)}) == 16


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the launch of that number fail, when it is run."""
    seen = 0
    original = LateProgram.__init__

    class Failing:
        def __init__(self, program: Any) -> None:
            self.program = program

        def launch(self, *arguments: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                raise RuntimeError("illegal address")
            self.program.launch(*arguments)

    monkeypatch.setattr(
        LateProgram, "__init__", lambda self, backend, program: original(self, backend, Failing(program))
    )


def test_an_error_that_comes_late_says_what_was_launched(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first wait raises an error that names all launches since the last wait; then the device's memory is lost."""
    failing(monkeypatch, 2)
    x = Tensor(floats(3, 5), device=device).realize()
    Device[device].synchronize()
    y = ((x + 1).realize() * 2).realize().sum(0).realize()
    with pytest.raises(DeviceLostError) as caught:
        y.tolist()
    assert str(caught.value) == (
        f"{device} failed while it computed: illegal address\n"
        f"  launched on {device} since the last wait: E_3_5, E_3_5, r_5_3, copy of 20 bytes to the host\n"
        "  hint: LAUNCH_BLOCKING=1 waits for each launch, and names the one that fails"
    )
    with pytest.raises(
        DeviceLostError, match="stopped answering, and the values in its memory are lost: .* illegal address"
    ):
        x.tolist()


def test_synchronize_says_it_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a user who waits for the device, or for one of its queues; of many launches the last ones are named."""
    failing(monkeypatch, 1)
    queue = Device[device].new_queue()
    x = Tensor(floats(4), device=device).realize()
    Device[device].synchronize()
    with queue:
        for i in range(12):
            x = (x + i).realize()
    with pytest.raises(DeviceLostError) as caught:
        queue.synchronize()
    assert str(caught.value).splitlines()[1] == (
        f"  launched on {device} on queue 1 since the last wait: 4 more, then {', '.join(['E_4'] * 8)}"
    )


def test_launch_blocking_names_the_kernel(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With LAUNCH_BLOCKING=1 the launch that fails raises, with its name; in a replay too."""
    failing(monkeypatch, 3)
    x = Tensor(floats(3, 5), device=device).realize()
    with Context(LAUNCH_BLOCKING=1), pytest.raises(DeviceLostError) as caught:
        ((x + 1).realize() * 2).realize().sum(0).realize()
    assert str(caught.value) == f"r_5_3 on {device} failed: {device} failed while it computed: illegal address"


def test_launch_blocking_names_the_kernel_of_a_replay(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launches run one by one; without the setting the error names the replay."""
    failing(monkeypatch, 6)
    x = Tensor(floats(3, 5), device=device).realize()
    step = TinyJit(lambda x: ((x + 1).realize().sum(0)).realize())
    for _ in range(2):
        step(x)
    with Context(LAUNCH_BLOCKING=1), pytest.raises(DeviceLostError, match=f"^r_5_3 on {device} failed: "):
        step(x)


def test_a_failed_replay_is_named(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how many launches it has, and the first of them."""
    failing(monkeypatch, 6)
    x = Tensor(floats(3, 5), device=device).realize()
    step = TinyJit(lambda x: ((x + 1).realize().sum(0)).realize())
    for _ in range(2):
        step(x)
    Device[device].synchronize()
    step(x)
    with pytest.raises(DeviceLostError, match=r"since the last wait: a replay of 2 launches \(E_3_5, r_5_3\)\n"):
        Device[device].synchronize()


def test_times_are_collected_later(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Observers are notified of launches in order, with the device's times, at the end of a realisation only."""
    queue = backend_of(device).queue
    reported: list[tuple[LaunchEvent, int]] = []
    x = Tensor(floats(300), device=device).realize()
    stop = events.observe(lambda event: reported.append((event, len(queue.tasks))), LaunchEvent)
    try:
        y = (x + 1).contiguous().sum().contiguous() + x
        y.realize()
    finally:
        stop()
    assert [event.name for event, _ in reported] == ["E_300", "r_300_300"]
    assert all(event.seconds > 0 for event, _ in reported)
    assert y.tolist() == (floats(300) + (floats(300) + 1).sum()).tolist()


def test_users_measure_with_events(device: str) -> None:
    """Two events of a queue measure the work between them; none of it is done before the host waits."""
    queue = Device[device].new_queue()
    with queue:
        x = Tensor(floats(9), device=device).realize()
        start = queue.record()
        y = (x * 2).realize()
        end = queue.record()
    assert not start.done() and not end.done()
    assert end.elapsed(start) > 0
    assert start.done() and end.done()
    assert y.tolist() == (floats(9) * 2).tolist()


def test_a_closed_peer_is_waited_for_no_more(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it used of this device's memory has ended when it is closed; its queues and events are gone then."""
    peer, size = Device[f"{device}:1"], 100_000
    a, b = (Buffer(device, size, dtypes.uint8).copy_in(memoryview(bytes([i]) * size)) for i in range(2))
    read = [Buffer(peer.name, size, dtypes.uint8).copy_from(buffer) for buffer in (a, b)]
    Device[device].synchronize()
    pool_of(peer).close()
    peer.close()
    monkeypatch.setattr(peer.timeline, "mark", lambda *_: pytest.fail("a queue that is closed was asked"))
    a.copy_in(memoryview(bytes([5]) * size))
    del b
    Device.empty_cache(device)
    assert bytes(a.copy_out(memoryview(bytearray(size)))) == bytes([5]) * size
    del read


def freed_at_once(self: Any, handle: Any, size: int, uses: object) -> None:
    """Give a block to the device whatever still uses it."""
    self.allocator.free(handle, size)


def unstaged_at_once(self: Any, block: memoryview, event: object) -> None:
    """Let the next copy have pinned memory."""
    self._unstage(block)


END = Allocation._end


def returned_as_unused(block: Allocation) -> None:
    """`_end`, for memory that no queue has used."""
    block.uses = None
    END(block)


FAULTS: dict[str, tuple[type, str, Any, Callable[..., None]]] = {
    "queues are not ordered": (Timeline, "follow", lambda *_: None, test_two_queues_need_no_help),
    "readers are forgotten": (
        Uses, "readers", property(lambda _: {}, lambda *_: None), test_what_is_overwritten_was_read,
    ),
    "a freed block is anybody's": (
        Allocation, "_end", returned_as_unused, test_freed_memory_is_free_on_its_queue_only,
    ),
    "memory goes back too early": (
        Pool, "_release_to_device", freed_at_once, test_memory_goes_back_when_its_last_use_has_passed,
    ),
    "pinned memory is used again": (
        Timeline, "staged", unstaged_at_once, test_pinned_memory_is_used_again_when_its_copy_has_passed,
    ),
    "owners are let go": (Timeline, "release_later", lambda *_: None, test_an_owner_is_kept_until_the_last_use),
    "owners are not waited for": (
        Borrowed, "is_foreign", False, test_memory_of_others_is_done_with_when_a_realisation_returns,
    ),
    "peers are not ordered": (Timeline, "use", lambda *_: None, test_peers_are_in_order_without_a_wait),
}  # fmt: skip


@pytest.mark.parametrize(
    ("device", "name"),
    [("SEEING" if name.startswith("peers") else "LATE", name) for name in FAULTS],
    indirect=["device"],
)
def test_a_fault_of_core_is_seen(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where core forgets one of these, a test above fails."""
    owner, attribute, instead, test = FAULTS[name]
    monkeypatch.setattr(owner, attribute, instead)
    with pytest.raises(AssertionError):
        test(device)


def test_memory_statistics(device: str) -> None:
    """Bytes in use, bytes cached, both, and the most that was in use at once."""
    Device.empty_cache(device)
    before = Device.memory(device)
    a, b = (Tensor(np.zeros(50_000, np.float32), device=device).realize() for _ in range(2))
    assert Device.memory(device).allocated == before.allocated + 400_000
    del a
    now = Device.memory(device)
    assert (now.allocated, now.kept, now.reserved) == (200_000 + before.allocated, 200_000, 400_000 + before.allocated)
    assert now.peak >= 400_000
    del b
    Device.empty_cache(device)
    assert Device.memory(device).reserved == before.allocated


def test_a_span_measures_a_block(device: str) -> None:
    """By the events of its queue, on a device with queues and on one that waits for everything."""
    for name in (device, "PYTHON"):
        queue = Device[name].queue
        with queue.span() as span:
            x = (Tensor(floats(2000), device=name) * 2).realize()
        with queue.span() as nothing:
            pass
        assert span.seconds() > nothing.seconds() >= 0
        assert x.numpy()[3] == 6


def test_what_a_queue_is_asked_wrongly(device: str) -> None:
    """A span before its end, and what is no event: a sentence each. Queues and events print what they are."""
    for name in (device, "PYTHON"):
        queue = Device[name].queue
        with queue.span() as span, pytest.raises(UnsupportedError, match="measured once its block has ended"):
            span.seconds()
        with pytest.raises(UnsupportedError, match="measured once its block has ended"):
            queue.span().seconds()
        with pytest.raises(DTypeError, match=r"takes an event, as queue.record\(\) returns one, got 3"):
            queue.wait(3)
        with pytest.raises((DTypeError, DeviceError), match="event.* got None"):
            queue.record().elapsed(None)
        event = queue.record()
        event.wait()
        assert repr(event) == f"<{type(event).__name__}, passed>"
        assert repr(queue).startswith(f"<{type(queue).__name__} of {name}, ")
        assert repr(Device[name]) == f"<{type(Device[name]).__name__} {name}>"
    assert f"open: {', '.join(Device.opened())}>" in repr(Device)


def test_threads_on_queues(device: str) -> None:
    """Four threads compute on queues of their own from one tensor, and read each other's results."""
    shared = (Tensor(floats(50), device=device) + 1).realize()
    start, made, wrong = threading.Barrier(4), {}, []

    def work(number: int) -> None:
        queue, x, want = Device[device].new_queue(), shared, floats(50) + 1
        start.wait()
        with queue:
            for i in range(6):
                x, want = (x * 2 + i).realize(), want * 2 + i
                other = made.get((number + 1) % 4)
                made[number] = x, want
                if other is not None and (other[0] + 1).tolist() != (other[1] + 1).tolist():
                    wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all(x.tolist() == want.tolist() for x, want in made.values())
