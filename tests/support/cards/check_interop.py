"""Memory shared with other libraries on the card: DLPack, the array interface, streams of others."""

from __future__ import annotations

import ctypes
import gc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from card import DEVICE, DLPACK, LIBRARY, Array, named
from tinygraft import Tensor, TinyJit, dtypes
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, spinning
from tinygraft.errors import DTypeError
from tinygraft.plugin.driver import DriverBackend, DriverMemory, DriverQueue

SHAPE = (3, 4)


def slowly(memory: BackendMemory, queue: DriverQueue, out: DriverMemory, turns: int = 5_000_000) -> None:
    """Give a queue some kernels, of which each reads what the one before it wrote, and the last one writes `out`."""
    backend = queue.backend
    (slow,) = programs(backend, [spinning(turns)])
    places = [memory.make([1]), *(memory.make([0]) for _ in range(4)), out]
    backend.synchronize()
    for source, target in pairwise(places):
        queue.launch(slow, [target, source], [], (1, 1, 1))


def test_dlpack_shares_without_a_copy(backend: DriverBackend) -> None:
    """A tensor through a capsule is the same memory, on the device by its number in DLPack, and writes are seen."""
    x = (Tensor.arange(12, device=DEVICE).reshape(SHAPE).float() * 2).realize()
    assert x.__dlpack_device__() == (DLPACK, backend.device.number)
    y = Tensor.from_dlpack(x)
    assert y.device == DEVICE
    y.assign(y + 1).realize()
    np.testing.assert_array_equal(x.numpy(), np.arange(12, dtype=np.float32).reshape(SHAPE) * 2 + 1)
    assert y.uop.base.realized._buf.value == x.uop.base.realized._buf.value


def test_a_capsule_of_another_card_stays_there(pair: list[DriverBackend]) -> None:
    """The number in the capsule is the card's."""
    x = Tensor([1.0, 2.0], device=f"{DEVICE}:1").realize()
    assert x.__dlpack_device__() == (DLPACK, pair[1].device.number)
    assert Tensor.from_dlpack(x).device == f"{DEVICE}:1"
    assert Tensor.from_dlpack(x, device="CPU").tolist() == [1, 2]


def test_the_host_gets_a_copy(backend: DriverBackend) -> None:
    """A consumer that asks for host memory has the values; NumPy alone refuses, and its error arrives."""
    x = Tensor([1.0, 2.0], device=DEVICE).realize()
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert np.from_dlpack(x, device="cpu").tolist() == [1, 2]
    assert Tensor.from_dlpack(x.__dlpack__(dl_device=(1, 0)), device="CPU").tolist() == [1, 2]
    with pytest.raises(BufferError, match=f"the host does not see the memory of {DEVICE}, and copy=False forbids"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(x)


def test_an_array_interface_that_cannot_be_says_why(backend: DriverBackend) -> None:
    """A dtype that it has no type for, and several devices; the constructor names from_dlpack."""
    x = Tensor([1.0, 2.0], device=DEVICE).realize()
    with pytest.raises(AttributeError, match="__cuda_array_interface__: that has no type for dtypes.bfloat16; share"):
        _ = x.bfloat16().__cuda_array_interface__
    with pytest.raises(AttributeError, match="it is in the memory of several devices"):
        _ = x.shard((DEVICE, DEVICE), 0).__cuda_array_interface__
    with pytest.raises(DTypeError, match=r"got Array\n  hint: Tensor.from_dlpack\(x\) takes an array"):
        Tensor(Array(1, (1,)))


def test_the_array_interface_has_the_stream_and_strides(backend: DriverBackend) -> None:
    """A consumer waits on the stream that the interface names; of a view the strides are those of its base."""
    x = (Tensor.arange(12, device=DEVICE).reshape(SHAPE) * 3).realize()
    facts = x.T.__cuda_array_interface__
    assert (facts["shape"], facts["typestr"], facts["strides"], facts["version"]) == ((4, 3), "<i4", (4, 16), 3)
    assert facts["stream"] == backend.stream_number() > 2
    assert not hasattr(Tensor([1.0], device="CPU"), "__cuda_array_interface__")
    copy = Tensor.from_dlpack(Array(facts["data"][0], (12,), "<i4", stream=facts["stream"]), device=DEVICE)
    assert copy.tolist() == [3 * i for i in range(12)]


def test_what_others_compute_is_waited_for(backend: DriverBackend) -> None:
    """A kernel of another library on its own stream has run before what reads its array here."""
    other, memory = backend.make_queue(), BackendMemory(backend)
    out, plain = memory.make([0]), Array(memory.make([5]).value, (1,), "<i4")
    assert (Tensor.from_dlpack(plain, device=DEVICE) + 0).tolist() == [5]  # from now on nothing has to be compiled
    slowly(memory, other, out)
    theirs = Array(out.value, (1,), "<i4", stream=backend.context.number_of(other.stream))
    found = (Tensor.from_dlpack(theirs, device=DEVICE) + 0).tolist()
    other.finish()
    assert found == memory.read(out, 1) != [0]


class Capsules:
    """An array of another library that gives capsules, and lets their consumer's stream wait for its own."""

    def __init__(self, made: Tensor, queue: DriverQueue) -> None:
        self.made, self.queue = made, queue

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.made.__dlpack_device__()

    def __dlpack__(self, stream: int, max_version: tuple[int, int] = (0, 0)) -> object:
        context, capsule = self.queue.context, self.made.__dlpack__(stream=-1, max_version=max_version)
        context.order(self.queue.stream, context.stream_at(stream))
        return capsule


@pytest.mark.parametrize("way", ["array interface", "capsule"])
def test_every_queue_waits_for_what_others_compute(backend: DriverBackend, way: str) -> None:
    """An array that comes behind another library's stream is used on a queue beside the first one."""
    mine, other, memory = backend.new_queue(), backend.make_queue(), BackendMemory(backend)
    out = memory.make([0])
    plain = Tensor.from_dlpack(Array(out.value, (1,), "<i4"), device=DEVICE)
    for _ in range(3):  # from now on nothing has to be compiled, and the queue has followed the first one
        plain = (plain + 0).realize()
        with mine:
            assert (plain + 0).tolist() == [0]
    theirs: Any = Array(out.value, (1,), "<i4", stream=backend.context.number_of(other.stream))
    if way == "capsule":
        theirs = Capsules(Tensor.from_dlpack(Array(out.value, (1,), "<i4"), device=DEVICE), other)
    slowly(memory, other, out)
    x = Tensor.from_dlpack(theirs, device=DEVICE)
    with mine:
        found = (x + 0).tolist()
    other.finish()
    assert found == memory.read(out, 1) != [0]


def test_the_stream_that_is_named_has_waited_for_other_queues(backend: DriverBackend) -> None:
    """A consumer that synchronises it, as the protocol says, reads the value that another queue computes."""
    mine, other, context = backend.new_queue(), backend.make_queue(), backend.context
    a = Tensor(np.ones((128, 128), np.float32), device=DEVICE).realize()
    for k in range(1, 5):
        with mine:
            z = ((a @ a * k).realize() @ a).realize()
        named: dict[str, Any] = z.__cuda_array_interface__
        with context.current():
            context.driver.call("stream_wait", context.stream_at(named["stream"]))
        found = np.zeros((128, 128), np.float32)
        other.copy_out(memoryview(found).cast("B"), DriverMemory(named["data"][0], found.nbytes)).wait()
        assert (found == 16384 * k).all()


def test_an_array_with_a_mask_is_refused() -> None:
    """Its elements are not all values."""
    array = Array(0, (0,), "<i4")
    array.__cuda_array_interface__["mask"] = object()
    with pytest.raises(BufferError, match="an array with a mask cannot be shared"):
        Tensor.from_dlpack(array, device=DEVICE)


def test_others_wait_for_what_is_computed_here(backend: DriverBackend) -> None:
    """Work on a consumer's stream comes after what was launched before the capsule was made."""
    other, memory = backend.make_queue(), BackendMemory(backend)
    out, taken = memory.make([0]), memory.make([0])
    shared = Tensor.from_dlpack(Array(out.value, (1,), "<i4"), device=DEVICE)
    slowly(memory, backend.queue, out)
    capsule = shared.__dlpack__(stream=backend.context.number_of(other.stream))
    other.copy(taken, out, 4).wait()
    assert memory.read(taken, 1) == memory.read(out, 1) != [0]
    del capsule


def test_the_default_stream_is_in_one_order_with_ours(backend: DriverBackend) -> None:
    """A library that says nothing of streams, and works on the default one, sees what was launched here before."""
    memory = BackendMemory(backend)
    out = memory.make([0])
    slowly(memory, backend.queue, out)
    found = (ctypes.c_int * 1)()
    driver = ctypes.CDLL(LIBRARY)
    with backend.context.current():
        assert driver[named("copy_out_now")](found, ctypes.c_uint64(out.value), ctypes.c_size_t(4)) == 0
    assert list(found) == memory.read(out, 1) != [0]


def test_lent_memory_is_kept(backend: DriverBackend) -> None:
    """While somebody has the capsule, the memory of a tensor that is gone is not given to others."""
    x = (Tensor.arange(1000, device=DEVICE) + 1).realize()
    kept = Tensor.from_dlpack(x)
    del x
    gc.collect()
    others = [(Tensor.arange(1000, device=DEVICE) * i).realize() for i in range(6)]
    assert kept.sum().item() == 500500
    assert others[5][2].item() == 10


@pytest.mark.parametrize("count", [1, 100_000])
def test_memory_that_was_lent_is_kept_until_their_kernels_have_run(backend: DriverBackend, count: int) -> None:
    """A consumer calls the deleter when it has launched what reads the memory, on a stream that nobody here knows."""
    other, memory = backend.make_queue(), BackendMemory(backend)
    taken, out = backend.allocator.alloc(4 * count), memory.make([0])
    x = (Tensor.arange(count, device=DEVICE) + 7).realize()
    _ = (Tensor.arange(count, device=DEVICE) * 0 - 1).tolist()  # from now on nothing has to be compiled
    address = x.uop.base.realized.handle
    slowly(memory, other, out, 50_000_000)
    capsule = x.__dlpack__(stream=backend.context.number_of(other.stream))
    other.copy(taken, address, 4 * count)
    del x, capsule
    others = [(Tensor.arange(count, device=DEVICE) * 0 - 1).realize() for _ in range(16)]
    assert address.value in [x.uop.base.realized.handle.value for x in others]
    assert {x[0].item() for x in others} == {-1}
    other.finish()
    assert memory.read(taken, 1) == [7]
    backend.allocator.free(taken, 4 * count)


def test_memory_of_the_host_is_copied_or_refused() -> None:
    """An array of NumPy becomes a copy on the card; without a copy, and by its address, it is refused."""
    array = np.arange(4, dtype=np.float32)
    x = Tensor.from_dlpack(array, device=DEVICE)
    array[0] = 9
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.raises(
        BufferError, match=f"{DEVICE} uses memory of its own card only, and what lies at 0x[0-9a-f]+ is no"
    ):
        Tensor.from_dlpack(array, device=DEVICE, copy=False)
    with pytest.raises(
        ValueError, match=f"from_blob cannot use the memory at .*: {DEVICE} uses memory of its own card only"
    ):
        Tensor.from_blob(array.ctypes.data, (4,), device=DEVICE)


def test_memory_of_the_primary_context_is_shared(backend: DriverBackend) -> None:
    """What others allocated there, in the driver's pool, which names no context, or beside it."""
    driver, address = ctypes.CDLL(LIBRARY), ctypes.c_ulonglong()
    with backend.context.current():
        for allocate, free in (("alloc", "free"), ("alloc_async", "free_async")):
            stream = () if allocate == "alloc" else (ctypes.c_void_p(backend.context.number_of(backend.queue.stream)),)
            assert driver[named(allocate)](ctypes.byref(address), ctypes.c_size_t(64), *stream) == 0
            assert driver[named("copy_in_now")](address, b"\1\0\0\0" * 16, ctypes.c_size_t(64)) == 0
            assert Tensor.from_blob(address.value, (16,), dtypes.int32, device=DEVICE).tolist() == [1] * 16
            assert driver[named(free)](address, *stream) == 0


def test_a_replay_on_lent_memory_sees_their_writes(backend: DriverBackend) -> None:
    """TinyJit reads the memory of others as it is at each call."""
    memory = BackendMemory(backend)
    out = memory.make([1, 2, 3])
    shared = Tensor.from_dlpack(Array(out.value, (3,), "<i4"), device=DEVICE)
    f = TinyJit(lambda x: ((x * 2).contiguous().realize() + 1).realize())
    for i in range(5):
        backend.allocator.copy_in(out, memoryview(bytearray(np.array([i, i, i], np.int32).tobytes())))
        assert f(shared).tolist() == [2 * i + 1] * 3
