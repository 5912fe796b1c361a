"""Memory of the CPU device: its alignment, its huge pages, views of it, and outputs that go past the caches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Device, GlobalCounters, Tensor
from tinygraft.errors import DeviceMemoryError
from tinygraft_cpu.allocator import ProcessAllocator

HUGE, SMALL = 2 << 20, 64 << 10  # bytes of a huge page, and below which memory is a bytearray
ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.parametrize("nbytes", [1, 63, SMALL - 1, SMALL, HUGE - 1])
def test_memory_starts_at_a_multiple_of_a_cache_line(nbytes: int) -> None:
    """Whatever it comes from."""
    handle = ProcessAllocator("CPU").alloc(nbytes)
    assert (handle.address % 64, handle.nbytes, handle.view.nbytes) == (0, nbytes, nbytes)


@pytest.mark.parametrize("nbytes", [HUGE, HUGE + 1, 5 * HUGE])
def test_large_memory_starts_at_a_huge_page(nbytes: int) -> None:
    """From 2 MiB up."""
    assert ProcessAllocator("CPU").alloc(nbytes).address % HUGE == 0


def huge_bytes(address: int) -> int:
    """Return the bytes in huge pages of the mapping that has an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= address < int(span[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    return 0


def test_large_memory_is_made_of_huge_pages() -> None:
    """The system uses huge pages where it has them: a page fault for every 2 MiB and not for every 4 KiB."""
    if not ENABLED.exists() or "[never]" in ENABLED.read_text():
        pytest.skip("this system has no transparent huge pages")
    handle = ProcessAllocator("CPU").alloc(8 * HUGE)
    np.frombuffer(handle.view, np.uint8)[:] = 1
    if not huge_bytes(handle.address):
        pytest.skip("this system has no free huge page now")
    assert huge_bytes(handle.address) >= HUGE


def test_too_much_memory_is_refused() -> None:
    """With the size; core adds what to do."""
    message = r"CPU could not allocate \d+ bytes of host memory: "
    with pytest.raises(DeviceMemoryError, match=message):
        ProcessAllocator("CPU").alloc(1 << 60)


@pytest.fixture
def limit() -> Iterator[int]:
    """The floats above which an output of the CPU is streamed whose kernel reads as many."""
    target = Device["CPU"].target
    nbytes = max(target.stream_bytes, target.l3_bytes * 3 // 4)
    if not target.stream_bytes:
        pytest.skip("this processor's stores are not streamed")
    yield nbytes // 4
    Device.empty_cache("CPU")


@pytest.mark.parametrize("more", [0, 1, 3, 16, 37])
def test_large_outputs_of_every_size_are_right(limit: int, more: int) -> None:
    """Just at the limit and above it, also where vectors do not fill the last one."""
    source = np.random.default_rng(more).standard_normal(limit + more).astype(np.float32)
    result = (Tensor(source, device="CPU") * 2 + 1).numpy()
    assert np.array_equal(result, source * np.float32(2) + np.float32(1))


@pytest.mark.parametrize("columns", [997, 1024, 1040, 1031])
def test_large_rows_of_every_length_are_right(limit: int, columns: int) -> None:
    """Rows that start in the middle of a vector are stored as ever."""
    rows = limit // columns + 3
    source = np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)
    result = (Tensor(source, device="CPU") - Tensor(source, device="CPU").max(axis=1, keepdim=True)).numpy()
    assert np.array_equal(result, source - source.max(axis=1, keepdims=True))


def test_a_value_is_there_for_the_kernel_after_a_streamed_one(limit: int) -> None:
    """Two threads stream their shares; the next kernel reads across them, again and again."""
    values = np.arange(limit + 16) % 4096  # floats of which all sums are exact, however large the last cache is
    x = Tensor(values.astype(np.float32), device="CPU").realize()
    want = float(values.sum() + limit + 16)
    used = GlobalCounters.mem_used
    for _ in range(10):
        y = (x + 1).contiguous()
        got = y.flip(0).contiguous().cast("float64").sum().item()
        assert got == want
    del y
    assert GlobalCounters.mem_used == used
