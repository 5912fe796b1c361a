"""Core's side of the contract in device/interfaces.py, on a device that does everything as late as that allows.

`Late` makes PYTHON an asynchronous device: launches and copies to it wait in one queue, which is run when the host
waits. Memory is full of 0xFF when it is new and again when it is freed, in the order of the queue. `Meeting`
counts the threads that are in a call at the same time.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, Tensor, TinyJit
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.interfaces import GraphExecutor
from tinygraft.dtype import dtypes
from tinygraft.reference.pytext import PythonRenderer
from tinygraft.reference.python import HostAllocator, PythonBackend, PythonCompiler, PythonProgram

DEVICE = "PYTHON"
DIRT = 0xFF


class Late:
    """A queue of work that PYTHON does when the host waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.queue: list[Callable[[], Any]] = []
        self.longest = 0  # how many pieces of work have waited at once
        self.hasty: list[str] = []  # an entry for each access of memory while work was waiting
        self.views: list[Any] = []  # all of them: none may be freed
        self.freed = 0
        self.launch, self.alloc, self.view = PythonProgram.launch, HostAllocator.alloc, HostAllocator.view
        self.copy_in, self.copy_out = HostAllocator.copy_in, HostAllocator.copy_out
        monkeypatch.setattr(PythonProgram, "launch", lambda *a: self.later(self.launch, *a))
        monkeypatch.setattr(PythonBackend, "synchronize", lambda _: self.wait())
        monkeypatch.setattr(HostAllocator, "alloc", lambda *a: self.new(*a))
        monkeypatch.setattr(HostAllocator, "view", lambda *a: self.part(*a))
        monkeypatch.setattr(HostAllocator, "free", lambda _, handle, nbytes: self.free(handle))
        monkeypatch.setattr(HostAllocator, "as_host", lambda _, handle: self.seen(handle))
        monkeypatch.setattr(HostAllocator, "copy_out", lambda *a: (self.wait(), self.copy_out(*a))[1])
        monkeypatch.setattr(
            HostAllocator, "copy_in", lambda a, to, source: self.later(self.copy_in, a, to, memoryview(bytes(source)))
        )

    def later(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Append work to the queue."""
        copies = [list(a) if isinstance(a, list) else a for a in arguments]  # a sequence is the caller's
        self.queue.append(lambda: work(*copies))
        self.longest = max(self.longest, len(self.queue))

    def wait(self) -> None:
        """Do all that waits."""
        while self.queue:
            self.queue.pop(0)()

    def new(self, allocator: HostAllocator, nbytes: int) -> Any:
        """Memory full of dirt."""
        handle = self.alloc(allocator, nbytes)
        handle[:] = bytes([DIRT]) * nbytes
        return handle

    def part(self, allocator: HostAllocator, handle: Any, offset: int, nbytes: int) -> Any:
        """A view."""
        self.views.append(self.view(allocator, handle, offset, nbytes))
        return self.views[-1]

    def free(self, handle: Any) -> None:
        """Fill memory with dirt once all that was called for before is done."""
        assert all(handle is not view for view in self.views), "a view was freed"
        self.freed += 1
        self.later(handle.__setitem__, slice(None), bytes([DIRT]) * handle.nbytes)

    def seen(self, handle: Any) -> Any:
        """Return memory as the host sees it, and record how much work waits where some does."""
        if self.queue:
            self.hasty.append(f"{len(self.queue)} pieces of work wait")
        return handle


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Late]:
    """PYTHON as a late device, with an empty cache of memory."""
    Device[DEVICE]
    gc.collect()
    Device.empty_cache(DEVICE)
    found = Late(monkeypatch)
    yield found
    found.wait()
    gc.collect()
    Device.empty_cache(DEVICE)
    found.wait()


def chain(x: Any, turns: int) -> Any:
    """A chain of values, each of which is dropped when the next one is there."""
    for i in range(turns):
        x = (x * 2 - i).realize() if isinstance(x, Tensor) else x * 2 - i
    return x


def test_nothing_is_waited_for_but_values(late: Late) -> None:
    """Twenty launches wait, on memory that is freed and used again, until a value is read; then it is right."""
    data = np.arange(7, dtype=np.int32)
    found = chain(Tensor(data, device=DEVICE).realize(), 20)
    others = [Tensor(np.full(7, i, np.int32), device=DEVICE) for i in range(5)]
    assert late.longest >= 20
    assert found.tolist() == chain(data, 20).tolist()
    assert [t.tolist() for t in others] == [[i] * 7 for i in range(5)]
    assert not late.queue


def test_freed_memory_comes_back_in_order(late: Late) -> None:
    """Where nothing is cached, memory is freed on the device only when work that uses it has run."""
    data = np.arange((64 << 10) + 1, dtype=np.uint8)
    with Context(KEEP_MB=0):
        found = chain(Tensor(data, device=DEVICE).realize(), 4)
        assert late.freed >= 3
        np.testing.assert_array_equal(found.numpy(), chain(data, 4))


def test_a_host_looks_at_memory_when_it_is_done(late: Late) -> None:
    """data(), numpy and DLPack, which return memory itself, wait first."""
    x = Tensor(np.arange(5, dtype=np.float32), device=DEVICE).realize()
    found = [memoryview((x + 1).realize().data()), np.from_dlpack((x + 2).realize()), (x + 3).realize().numpy()]
    assert [list(map(float, one)) for one in found] == [[i + k for i in range(5)] for k in (1, 2, 3)]
    assert late.hasty == []


def test_state_and_replays_are_in_order(late: Late) -> None:
    """A TinyJit with state, copies of what it overwrites, and reads in between."""
    state = Tensor(np.zeros(6, np.float32), device=DEVICE).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x.sum(0)).realize()
        return (x * state).sum(1).realize()

    want = np.zeros(6, np.float32)
    for i in range(6):
        x = np.arange(12, dtype=np.float32).reshape(2, 6) + i
        got = step(Tensor(x, device=DEVICE).realize())
        want = want + x.sum(0)
        np.testing.assert_array_equal(got.numpy(), (x * want).sum(1))
    np.testing.assert_array_equal(state.numpy(), want)
    assert late.hasty == []


def test_a_file_is_read_when_its_memory_is_free(late: Late, tmp_path: Path) -> None:
    """Bytes of a file are not written over by a kernel that used their memory before."""
    (tmp_path / "bytes").write_bytes(bytes(range(64)))
    data = np.arange(64, dtype=np.uint8)
    x = Tensor(data, device=DEVICE).realize()
    y = (x + 1).realize()
    z = (y + 1).realize()
    del y
    file = Tensor(tmp_path / "bytes", device=DEVICE).realize()
    assert file.tolist() == list(range(64))
    assert z.tolist() == (data + 2).tolist()


class Meeting:
    """Counts the threads that are in calls of some kinds at the same time; each call sleeps a moment."""

    def __init__(self) -> None:
        self.inside: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.threads: dict[str, set[int]] = {}
        self.lock = threading.Lock()

    def watch(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, kind: str) -> None:
        """Count a method as a call of a kind."""
        original = getattr(owner, method)

        def counted(*arguments: Any) -> Any:
            with self.lock:
                self.inside[kind] = self.inside.get(kind, 0) + 1
                self.most[kind] = max(self.most.get(kind, 0), self.inside[kind])
                self.threads.setdefault(kind, set()).add(threading.get_ident())
            try:
                time.sleep(0.001)
                return original(*arguments)
            finally:
                with self.lock:
                    self.inside[kind] -= 1

        monkeypatch.setattr(owner, method, counted)


def test_which_calls_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads that make, compute, replay and read: launches and loads never meet, though all threads launch; no
    more kernels are compiled at once than the Compiler says."""
    meeting, wrong = Meeting(), []
    monkeypatch.setattr(PythonCompiler, "threads", 3)
    for owner, method, kind in (
        (PythonProgram, "launch", "launch"), (GraphExecutor, "run", "run"), (PythonBackend, "load", "load"),
        (PythonRenderer, "render", "render"), (PythonCompiler, "compile", "compile"),
        (HostAllocator, "alloc", "alloc"),
    ):  # fmt: skip
        meeting.watch(monkeypatch, owner, method, kind)
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        double = TinyJit(lambda x: ((x + seed).realize() * 2).realize())
        start.wait()
        for i in range(5):
            data = np.arange(211 + seed, dtype=np.int32) * i
            x = Tensor(data, device=DEVICE)
            found = (double(x.realize()).tolist(), ((x - seed).contiguous() + (x.sum() * 3)).tolist())
            want = (((data + seed) * 2).tolist(), (data - seed + data.sum() * 3).tolist())
            if found != want:
                wrong.append((seed, i, found, want))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert meeting.most["launch"] == 1
    assert max(meeting.most.get(kind, 0) for kind in ("run", "load", "render", "alloc")) <= 1
    assert len(meeting.threads["launch"]) == 4
    assert 1 <= meeting.most["compile"] <= 3


def test_copies_meet_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread is in a launch, another makes a tensor and reads one that is in memory."""
    ready = Tensor([1, 2, 3], device=DEVICE).realize()
    launched, copied, launch = threading.Event(), threading.Event(), PythonProgram.launch

    def slow(*arguments: Any) -> None:
        launched.set()
        assert copied.wait(30), "copies wait for a launch in another thread"
        launch(*arguments)

    monkeypatch.setattr(PythonProgram, "launch", slow)
    found: list[list[int]] = []
    thread = threading.Thread(target=lambda: found.append((ready + 1).tolist()))
    thread.start()
    assert launched.wait(30)
    data = buffer_of(ready.uop.base).copy_out(memoryview(bytearray(12)))
    Buffer(DEVICE, 3, dtypes.int32).copy_in(data)
    copied.set()
    thread.join()
    assert (list(data.cast("i")), found) == ([1, 2, 3], [[2, 3, 4]])
