"""Temporaries share one block while a schedule runs: bytes, values, and who else may have the memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Call
from typing import Any

import numpy as np
import pytest

from convnet import Convnet
from tinygraft import Context, Device, GlobalCounters, Tensor, nn
from tinygraft.device.buffer import Buffer
from tinygraft.device.pool import pool_of
from tinygraft.dtype import dtypes
from tinygraft.engine import arena, plan, run
from tinygraft.schedule.memory import Life, lifetimes, most_at_once, place
from tinygraft.schedule.proof import ByteRange
from tinygraft.uop.uop import UOp

BATCH = 128
LARGE = 1 << 16  # bytes of a result whose memory temporaries may use


@pytest.fixture
def null() -> Iterator[None]:
    """Nothing is computed."""
    with Context(DEV="NULL"):
        yield


def test_the_memory_of_a_training_step(null: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporaries of an MNIST step at batch 128 take hardly more than what is alive at once, and less than all."""
    seen: list[tuple[int, int, int]] = []
    original = arena.place_temporaries

    def measured(calls: Any, kept: Any, *more: Any) -> Any:
        lives = tuple(lifetimes(calls, kept).values())
        if len(lives) > 20:
            seen.append((place(lives).size, most_at_once(lives), sum(life.nbytes for life in lives)))
        return original(calls, kept, *more)

    monkeypatch.setattr(run, "place_temporaries", measured)
    images, labels = Tensor.empty(BATCH, 1, 28, 28).realize(), Tensor.empty(BATCH, dtype=dtypes.int32).realize()
    net = Convnet()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net))
    held = 0
    with Tensor.train():
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(images).sparse_categorical_crossentropy(labels).backward()
            loss.realize(*optimizer.schedule_step())
            held, before = GlobalCounters.mem_used, held
    taken, least, total = seen[-1]
    print(f"arena {taken / 1e6:.1f} MB, at most alive {least / 1e6:.1f} MB, in all {total / 1e6:.1f} MB")
    assert taken <= 0.8 * total
    assert taken <= 1.1 * least
    assert held == before, "a step leaves as much memory in use as the one before it"


def forward(x: Tensor, w: Tensor) -> list[Tensor]:
    """Several results over values in between of several sizes."""
    a = (x @ w).relu().contiguous()
    b = (a * 2 + a.sum(axis=1, keepdim=True)).contiguous()
    c = b.softmax(axis=0).contiguous().transpose(0, 1).contiguous()
    return [c.sum(axis=0), (b - a).max(axis=1), (c @ a).contiguous()]


def test_results_do_not_depend_on_where_temporaries_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit-equal with and without shared memory."""
    draw = np.random.default_rng(0)
    x, w = (Tensor(draw.standard_normal(shape).astype(np.float32)).realize() for shape in ((33, 40), (40, 51)))
    found = forward(x, w)
    found[0].realize(*found[1:])
    shared = [t.numpy() for t in found]
    monkeypatch.setattr(run, "place_temporaries", lambda calls, kept: [])
    found = forward(x, w)
    found[0].realize(*found[1:])
    for one, other in zip(shared, found, strict=True):
        assert one.tobytes() == other.numpy().tobytes()


def test_a_repeated_schedule_asks_the_allocator_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block of the temporaries and that of the result come from the pool again."""
    x = Tensor(np.ones((64, 64), np.float32)).realize()

    def compute() -> None:
        ((x + 1).contiguous().sum(axis=0) * (x * 3).contiguous()).contiguous().flip(0).contiguous().realize()

    compute()
    allocator = Device[Device.DEFAULT].allocator
    asked: list[int] = []
    original = allocator.alloc
    monkeypatch.setattr(allocator, "alloc", lambda nbytes: asked.append(nbytes) or original(nbytes))
    compute()
    assert asked == []


def test_a_failed_run_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a kernel raises, the temporaries lose their places."""
    x = Tensor(np.ones(100, np.float32)).realize()
    before, launched = GlobalCounters.mem_used, 0
    launch = run.Launch.run

    def failing(self: run.Launch, values: Any) -> None:
        nonlocal launched
        launched += 1
        if launched == 2:
            raise RuntimeError("stop")
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", failing)
    y = x.flip(0).contiguous().flip(0).contiguous() + 1
    with pytest.raises(RuntimeError, match="stop"):
        y.realize()
    assert GlobalCounters.mem_used - before <= 400
    monkeypatch.undo()
    assert y.tolist() == [2.0] * 100


def test_the_memory_of_a_result_is_used_before_it_is_written() -> None:
    """A value in between that has ended lies in the result, and takes nothing more."""
    home, part = Buffer("PYTHON", 100, dtypes.float32), Buffer("PYTHON", 100, dtypes.float32)
    late = Buffer("PYTHON", 100, dtypes.float32)
    before = GlobalCounters.mem_used
    arena.share_memory([part, late], [Life(400, 0, 1), Life(400, 1, 2)], [home], [Life(400, 2, 3)])
    assert (part.handle.obj is home.handle.obj, late.handle.obj is home.handle.obj) == (True, False)
    assert GlobalCounters.mem_used - before == 800


def test_a_file_that_is_not_read_yet_lends_no_memory(tmp_path: Path) -> None:
    """Values of files that are copied in one schedule are theirs: no temporary is put into what a later call reads.

    The files are large enough for their memory to be considered. Until November 2026 the second was that of the first.
    """
    values = [np.arange(LARGE).astype(np.uint8) + np.uint8(number) for number in range(3)]
    for number, value in enumerate(values):
        (tmp_path / str(number)).write_bytes(value.tobytes())
    for keeps in (True, False):
        files = [Tensor(tmp_path / str(number)) for number in range(3)]
        copies = [Tensor.empty(LARGE, dtype=dtypes.uint8).assign(0).realize() for _ in files]
        for copy, file in zip(copies, files, strict=True):
            copy.assign(file.clone())
        if not keeps:
            del file
            files.clear()
        copies[0].realize(*copies[1:])
        for copy, value in zip(copies, values, strict=True):
            np.testing.assert_array_equal(copy.numpy(), value)


def test_buffers_take_turns_where_memory_cannot_be_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device without views those of one size have the same block, one after another."""
    monkeypatch.setattr(pool_of(Device["PYTHON"]), "has_views", False)
    names = "abcde"
    a, b, _, d, e = buffers = [Buffer("PYTHON", 100 if n != "e" else 50, dtypes.float32) for n in names]
    before = GlobalCounters.mem_used
    arena.share_memory(buffers, [Life(400, 0, 1), Life(400, 1, 2), Life(400, 2, 3), Life(400, 3, 3), Life(200, 3, 3)])
    assert [n for n, x in zip(names, buffers, strict=True) if x.handle is a.handle] == ["a", "c"]
    assert b.handle is d.handle
    assert e.handle.nbytes == 200
    assert GlobalCounters.mem_used - before == 1000
    x = Tensor([1.0, 2.0, 3.0, 4.0], device="PYTHON").realize()
    y = x
    for _ in range(5):
        y = y.flip(0).contiguous() + 1.0
    assert y.tolist() == [9.0, 8.0, 7.0, 6.0]


def test_devices_have_an_arena_each() -> None:
    """What is copied from one device to another lies on either in memory of that device."""
    gc.collect()  # what other tests have left
    Device.empty_cache()  # a kept block that is a little larger than what is asked for counts whole
    x = Tensor([1.0, 2.0, 3.0], device="PYTHON").realize()
    used = {name: pool_of(Device[name]).used for name in ("PYTHON", "PYTHON:1")}
    y = ((x + 1).contiguous().to("PYTHON:1") * 2).contiguous().flip(0).contiguous().to("PYTHON") + 1
    assert y.tolist() == [9.0, 7.0, 5.0]
    assert pool_of(Device["PYTHON:1"]).used == used["PYTHON:1"]
    assert pool_of(Device["PYTHON"]).used == used["PYTHON"] + 12


def test_kept_memory_can_be_given_back() -> None:
    """Device.empty_cache gives back what one device keeps, or all of them; what is in use stays."""
    x = Tensor([float(i) for i in range(1000)], device="PYTHON").realize()
    Tensor([0.0] * 2000, device="PYTHON").realize()
    pool = pool_of(Device["PYTHON"])
    used = pool.used
    assert pool.kept >= 8000
    assert Device.empty_cache("NULL:3") == 0
    assert Device.empty_cache("python") >= 8000
    assert (pool.kept, pool.used, Device.empty_cache("PYTHON")) == (0, used, 0)
    Device.empty_cache()
    assert all(pool_of(Device[name]).kept == 0 for name in Device.opened())
    assert x.tolist()[999] == 999.0


def test_a_placement_is_found_once_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next graph of a form has its temporaries where the first had them; values stay, and nothing is held."""
    asked: list[int] = []
    original = arena.place_temporaries

    def counted(calls: Any, *more: Any) -> Any:
        asked.append(len(calls))
        return original(calls, *more)

    monkeypatch.setattr(run, "place_temporaries", counted)
    w = Tensor(np.eye(48, dtype=np.float32) * 0.5).realize()
    with Context(DEV="PYTHON"):
        plan.clear()
        w = Tensor(np.eye(48, dtype=np.float32) * 0.5).realize()
        held = []
        for number in range(1, 4):
            x = Tensor(np.full((4, 48), number, np.float32)).realize()
            asked.clear()
            y = x
            for _ in range(4):
                y = (y @ w).softmax(axis=0).contiguous()
            np.testing.assert_allclose(y.numpy(), np.full((4, 48), 0.25), rtol=1e-6)
            assert bool(asked) == (number == 1)
            del x, y
            held.append(GlobalCounters.mem_used)
    assert held[0] == held[1] == held[2]


def test_a_placement_names_spots_and_not_nodes() -> None:
    """Temporaries in an arena and in the memory of a result that is written later; none where memory has no views."""
    a, b, result = (UOp.buffer("PYTHON", 8, dtypes.float) for _ in range(3))
    calls = [
        Call(buffers=(a,), written=(0,)),
        Call(buffers=(b, a), written=(0,)),
        Call(buffers=(result, b), written=(0,)),
    ]
    places = {
        a: ByteRange(("PYTHON", 1), 0, 32), b: ByteRange(("PYTHON", 2), 0, 32), result: ByteRange(("PYTHON", 2), 0, 64),
    }  # fmt: skip
    (found,) = arena._placement(calls, [a, b], {result: Buffer("PYTHON", 16, dtypes.float)}, places)
    assert found.arenas == [("PYTHON", 32)]
    assert found.spots == [((1, 1), 0, 0), ((2, 1), (2, 0), 0)]
    assert arena._placement(calls, [a], {}, {a: ByteRange(7, 0, 32)}) == []
