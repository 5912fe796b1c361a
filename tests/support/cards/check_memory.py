"""Memory of a card: pinned memory, parts, pressure, peers, and what is given back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from card import DEVICE
from tinygraft import Device, Tensor
from tinygraft.errors import DeviceMemoryError
from tinygraft.plugin.driver import DriverBackend


def test_memory_is_freed_with_the_pool(backend: DriverBackend) -> None:
    """What tensors that are gone had goes back to the driver when that is asked for."""
    before = Device.memory(DEVICE)
    x = Tensor.zeros(1 << 20, device=DEVICE).contiguous().realize()
    assert Device.memory(DEVICE).allocated >= before.allocated + (4 << 20)
    free, total = backend.context.room()
    assert 0 < free < total
    del x
    gc.collect()
    assert Device.empty_cache(DEVICE) >= 4 << 20
    assert Device.memory(DEVICE).kept == 0


def test_pinned_memory_is_a_view_that_owns_itself(backend: DriverBackend) -> None:
    """It lives as long as a part of it is held, and its address is pinned."""
    part = backend.allocator.alloc_host(10_000)[100:200]
    gc.collect()
    part[:] = bytes(range(100))
    handle = backend.allocator.alloc(100)
    backend.queue.copy_in(handle, part).wait()
    out = bytearray(100)
    backend.allocator.copy_out(memoryview(out), handle)
    assert bytes(out) == bytes(range(100))
    backend.allocator.free(handle, 100)


def test_too_much_is_refused_and_the_drivers_pool_is_trimmed_first(
    backend: DriverBackend, done: Callable[..., Any]
) -> None:
    """More than there is: the driver's pool gives what it keeps, it is asked once more, and the message has numbers."""
    with done() as counts, pytest.raises(DeviceMemoryError, match=r"\d+ of the \d+ bytes of .* are free"):
        backend.allocator.alloc(1 << 46)
    assert counts("trim") in ((1, None) if backend.context.binding == "cffi" else (0, None))


def test_a_part_of_a_part(backend: DriverBackend) -> None:
    """Parts are addresses; they keep the whole."""
    whole = backend.allocator.alloc(4096)
    part = backend.allocator.view(backend.allocator.view(whole, 1024, 2048), 512, 256)
    assert part.value == whole.value + 1536
    assert int(part) == part.value
    assert part.whole is not None
    backend.allocator.free(whole, 4096)


def test_copies_between_cards(pair: list[DriverBackend], done: Callable[..., Any]) -> None:
    """A tensor goes to the other card without the host, and back."""
    data = np.random.RandomState(1).rand(1000).astype(np.float32)
    x = Tensor(data, device=DEVICE).realize()
    with done() as counts:
        y = (x.to(f"{DEVICE}:1") * 2).realize()
    assert counts("peer copy") in (1, None)
    np.testing.assert_array_equal((y.to(DEVICE) + 1).numpy(), data * 2 + 1)


def test_large_copies_both_ways(backend: DriverBackend) -> None:
    """Larger than pinned memory serves, and of a size that nothing divides."""
    data = np.random.RandomState(2).randint(0, 255, (17 << 20) + 13).astype(np.uint8)
    x = Tensor(data, device=DEVICE).realize()
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal((x ^ 255).numpy(), data ^ 255)


def test_subnormals_and_nan_are_kept() -> None:
    """Nothing is flushed to zero: a subnormal number times one, and half of the least normal one."""
    tiny = np.array([1e-45, -1e-45, 1.1754944e-38, np.nan, -0.0], np.float32)
    x = Tensor(tiny, device=DEVICE)
    np.testing.assert_array_equal((x * 1).numpy(), tiny)
    np.testing.assert_array_equal((x / 2).numpy(), tiny / 2)
    np.testing.assert_array_equal((x + x).numpy().view(np.int32)[:3], (tiny + tiny).view(np.int32)[:3])


def test_the_card_that_was_current_is_so_again(pair: list[DriverBackend]) -> None:
    """What is done on one card changes nothing for a program that works on another one by itself."""
    first, second = pair
    with second.context.current():
        before = second.context.enter()
        assert (Tensor([1.0], device=DEVICE) + 1).tolist() == [2.0]
        first.context.synchronize()
        assert second.context.enter() is None  # it is current
        second.context.restore(before)


def test_memory_lies_on_its_own_card(pair: list[DriverBackend]) -> None:
    """What each backend allocates, streams included, is its own card's, whichever was current."""
    for backend in (*pair, pair[0]):
        handle = backend.allocator.alloc(64)
        assert backend.context.owner_of(handle.value) == backend.device.number
        assert backend.allocator.at_address(handle.value, 64).value == handle.value
        backend.allocator.free(handle, 64)
