"""Memory that the host does not see, shared with libraries on its device by DLPack and an array interface."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from installed import installed
from late_queues import LendingBackend
from tinygraft import Device, Tensor
from tinygraft.device.pool import Pool
from tinygraft.errors import UnsupportedError

NAME = "LENDING"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LendingBackend]:
    """The device, opened."""
    with installed(tmp_path, "lending", LENDING="late_queues:LENDING"):
        found = Device[NAME]
        assert isinstance(found, LendingBackend)
        yield found
        gc.collect()
        Device._opened.pop(NAME)


class Theirs:
    """An array of another library on the device: the numbers from `first` on, of which every step-th is an element."""

    def __init__(self, first: int = 0, step: int = 1, stream: int | None = 7, read_only: bool = False) -> None:
        self.memory = (ctypes.c_float * 12)(*range(first, first + 12))
        self.__late_array_interface__ = {
            "shape": (12 // step,), "typestr": "<f4", "data": (ctypes.addressof(self.memory), read_only), "version": 3,
            "strides": (4 * step,) if step > 1 else None, "stream": stream,
        }  # fmt: skip


def test_a_capsule_is_of_the_device(backend: LendingBackend) -> None:
    """DLPack's type and number are the device's, and who takes it has the same memory."""
    x = (Tensor([1.0, 2.0, 3.0], device=NAME) * 2).realize()
    assert x.__dlpack_device__() == (12, 0)
    y = Tensor.from_dlpack(x, device=NAME)
    assert ("lend", 100) in backend.waits
    assert y.device == NAME
    y.assign(y + 1).realize()
    assert x.tolist() == [3, 5, 7]


def test_without_a_device_it_stays_where_it_is(backend: LendingBackend) -> None:
    """An array on a device that is open becomes a tensor there; one that is asked for elsewhere is moved."""
    x = Tensor([1.0, 2.0], device=NAME).realize()
    assert Tensor.from_dlpack(x).device == NAME
    assert Tensor.from_dlpack(x, device="PYTHON").tolist() == [1, 2]
    with pytest.raises(BufferError, match="in the memory of LENDING, and copy=False forbids to move it to PYTHON"):
        Tensor.from_dlpack(x, device="PYTHON", copy=False)


def test_views_have_strides_and_copies_memory_of_their_own(backend: LendingBackend) -> None:
    """A transposed view shares; copy=True does not."""
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=NAME).realize()
    assert Tensor.from_dlpack(x.T).tolist() == [[0, 3], [1, 4], [2, 5]]
    y = Tensor.from_dlpack(x, copy=True)
    x.assign(x * 0).realize()
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_array_interface_is_the_devices(backend: LendingBackend) -> None:
    """The tensor has the attribute that arrays on its device have, with address, strides and stream, and no other."""
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=NAME).realize()
    facts: Any = x.T.__late_array_interface__
    assert (facts["shape"], facts["typestr"], facts["strides"], facts["stream"]) == ((2, 2), "<f4", (4, 8), 100)
    backend.synchronize()
    assert list((ctypes.c_float * 4).from_address(facts["data"][0])) == [1, 2, 3, 4]
    assert not hasattr(x, "__other_array_interface__")
    assert not hasattr(Tensor([1.0], device="PYTHON"), "__late_array_interface__")
    assert Tensor([True], device=NAME).__late_array_interface__["typestr"] == "|b1"
    assert not hasattr(Tensor([1.0], device=NAME).bfloat16(), "__late_array_interface__")


def test_lent_memory_is_not_used_again(backend: LendingBackend) -> None:
    """While somebody holds a capsule, the memory of a tensor that is gone stays as it is."""
    x = (Tensor([1.0, 2.0, 3.0], device=NAME) + 1).realize()
    y = Tensor.from_dlpack(x)
    del x
    others = [(Tensor([float(i)] * 3, device=NAME) * 2).realize() for i in range(8)]
    assert y.tolist() == [2, 3, 4]
    assert others[7].tolist() == [14, 14, 14]


@pytest.mark.parametrize("count", [3, 50_000])
def test_memory_that_was_lent_is_reused_when_the_whole_device_is_idle(
    backend: LendingBackend, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A consumer gives it back before its own kernel has read it; one wait serves all such blocks."""
    work: list[tuple[list[float], Any]] = []  # of the consumer
    waits = 0

    def run() -> None:
        nonlocal waits
        waits += 1
        backend.synchronize()
        while work:
            read, values = work.pop(0)
            read.extend(values[:3])

    monkeypatch.setattr(backend, "synchronize_all", run)
    gone, found = [], []
    tensors = [(Tensor(np.full(count, i, np.float32), device=NAME) + 1).realize() for i in range(2)]
    backend.synchronize()
    while tensors:
        x = tensors.pop()
        capsule = x.__dlpack__(stream=5)
        gone.append(backend.allocator.address(x.uop.base.realized.handle))
        found.append([])
        work.append((found[-1], (ctypes.c_float * count).from_address(gone[-1])))
        del x, capsule
    gc.collect()
    assert waits == 0
    others = [Tensor(np.full(count, 9, np.float32), device=NAME).realize() for i in range(8)]
    assert [x.tolist()[0] for x in others] == [9] * 8
    assert found == [[2, 2, 2], [1, 1, 1]]
    assert waits == 1
    assert {backend.allocator.address(x.uop.base.realized.handle) for x in others} >= set(gone)
    x = others.pop()
    capsule = x.__dlpack__(stream=5)
    del x, capsule
    before = Device.memory(NAME)
    assert before.kept >= 4 * count
    assert Device.empty_cache(NAME) == before.kept
    assert waits == 2


def test_memory_that_was_lent_waits_for_nothing_where_launches_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a synchronous device the next buffer of that size has it."""
    backend = Device["PYTHON"]
    pool = Pool(backend)
    monkeypatch.setattr(type(backend), "synchronize_all", lambda _: pytest.fail("it was waited for"))
    for count in (3, 100_000):
        block = pool.take(count)
        block.was_lent, handle = True, block.handle
        del block
        assert pool.take(count).handle is handle


def test_their_arrays_are_tensors(backend: LendingBackend) -> None:
    """Without DLPack by the interface: shared, behind what their stream has; with strides or read-only copied."""
    theirs = Theirs(5)
    x = Tensor.from_dlpack(theirs, device=NAME)
    assert backend.waits == [("follow", 7)]
    x.assign(x * 2).realize()
    assert list(theirs.memory)[:3] == [10, 12, 14], "what uses their memory has ended when realize returns"
    assert Tensor.from_dlpack(Theirs(0, step=5), device=NAME).tolist() == [0, 5]
    fixed = Theirs(1, read_only=True, stream=None)
    y = Tensor.from_dlpack(fixed, device=NAME)
    y.assign(y * 0).realize()
    assert list(fixed.memory)[:2] == [1, 2]
    assert len(backend.waits) == 2


def test_every_queue_comes_after_what_their_stream_has(
    backend: LendingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first queue waits for it, and another one, which has followed that before, for the first one."""
    queue, x = backend.new_queue(), (Tensor([1.0], device=NAME) + 1).realize()
    with queue:
        assert (x + 0).tolist() == [2]
    assert backend.timeline is not None
    backend.timeline.queues.reverse()  # so that a wait for all begins with the other one
    theirs = Theirs()
    monkeypatch.setattr(backend, "follow", lambda _: backend.queue.later(theirs.memory.__setitem__, 0, 77.0))
    y = Tensor.from_dlpack(theirs, device=NAME)
    with queue:
        assert (y + 0).tolist()[:2] == [77, 1]


def test_memory_that_is_refused_is_not_taken_for_the_hosts(
    backend: LendingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device of the host takes every address; the array is on another one, whose reason the error has."""
    assert Tensor([1.0], device="PYTHON").tolist() == [1.0]

    def refuse(address: int, nbytes: int) -> None:
        raise UnsupportedError("of another context")

    monkeypatch.setattr(backend.allocator, "at_address", refuse)
    with pytest.raises(BufferError, match="no open device can use the memory at 0x[0-9a-f]+: of another context"):
        Tensor.from_dlpack(Theirs(), device=NAME)
    assert backend.waits == []


def test_memory_of_no_open_device_says_so(backend: LendingBackend) -> None:
    """A type or number that no device has."""
    x = Tensor([1.0], device=NAME).realize()
    backend.dlpack_device = (12, 5)
    capsule = x.__dlpack__()
    backend.dlpack_device = (12, 0)
    with pytest.raises(BufferError, match="of DLPack device type 12, number 5, and of no device that is open here"):
        Tensor.from_dlpack(capsule, device="PYTHON")
