"""Host memory, and what the plugin finds out about the machine."""

import os
import warnings
from pathlib import Path

import pytest

from tinygraft.config import Context
from tinygraft.errors import DeviceMemoryError
from tinygraft.uop.ops import Ops
from tinygraft_cpu import machine
from tinygraft_cpu.allocator import ProcessAllocator
from tinygraft_cpu.device import CpuBackend

MEMORY = ProcessAllocator("CPU")
HUGE = 2 << 20  # bytes of a huge page


@pytest.mark.parametrize("nbytes", [1, 63, 4096, 100_000, HUGE - 1])
def test_memory_is_aligned_for_vectors(nbytes: int) -> None:
    """Every buffer starts at a multiple of 64 bytes and has exactly the bytes requested."""
    handle = MEMORY.alloc(nbytes)
    assert handle.address % 64 == 0
    assert handle.view.nbytes == handle.nbytes == nbytes


def test_large_memory_starts_at_a_huge_page() -> None:
    """From 2 MiB up a buffer starts where a huge page can."""
    assert MEMORY.alloc(HUGE + 8).address % HUGE == 0


def test_bytes_go_in_and_out() -> None:
    """What was copied in comes out, also from host memory of another shape."""
    handle = MEMORY.alloc(8)
    MEMORY.copy_in(handle, memoryview(bytearray(range(8))).cast("B", (2, 4)))
    out = bytearray(8)
    MEMORY.copy_out(memoryview(out), handle)
    assert out == bytes(range(8))
    assert bytes(MEMORY.as_host(handle)) == bytes(range(8))


def test_gaps_are_closed_on_the_way_in_and_refused_on_the_way_out() -> None:
    """Every second byte can be copied in; a target with gaps is an error, not a copy that is lost."""
    handle = MEMORY.alloc(4)
    MEMORY.copy_in(handle, memoryview(bytes(range(8)))[::2])
    assert bytes(handle.view) == bytes([0, 2, 4, 6])
    with pytest.raises(TypeError, match="C-contiguous"):
        MEMORY.copy_out(memoryview(bytearray(8))[::2], handle)


def test_a_view_shares_and_keeps_the_whole_alive() -> None:
    """A view of a buffer has its bytes, also when the buffer itself is dropped."""
    whole = MEMORY.alloc(200_000)
    part = MEMORY.view(whole, 64, 16)
    assert part.address == whole.address + 64
    part.view[:] = b"x" * 16
    assert bytes(whole.view[60:84]) == bytes(4) + b"x" * 16 + bytes(4)
    del whole
    assert bytes(part.view) == b"x" * 16


@pytest.mark.parametrize("nbytes", [1 << 60, 1 << 70])
def test_memory_that_is_not_there(nbytes: int) -> None:
    """Running out is a DeviceMemoryError, which is a MemoryError, with the size."""
    message = f"CPU could not allocate {nbytes} bytes of host memory: "
    with pytest.raises(DeviceMemoryError, match=message) as error:
        MEMORY.alloc(nbytes)
    assert isinstance(error.value, MemoryError)


def test_the_target_describes_this_machine() -> None:
    """Vectors, registers, caches and threads are what was found; ops that decompose would write are not listed."""
    with Context(CPU_THREADS=0):
        target = CpuBackend("CPU", 0).target
    assert target.vector_bytes in (16, 32, 64)
    assert target.registers in (16, 32)
    assert target.chunks == machine.thread_limit() >= 1
    assert 8 << 10 <= machine.cache_bytes(1) < target.l2_bytes
    assert Ops.SQRT in target.native_ops
    assert Ops.EXP2 not in target.native_ops


def test_threads_can_be_limited() -> None:
    """CPU_THREADS is the number of chunks of a kernel."""
    with Context(CPU_THREADS=3):
        assert CpuBackend("CPU", 0).target.chunks == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_affinity_limits_threads() -> None:
    """A process that may run on one processor uses one thread."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert machine.thread_limit() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/cpu.max": "150000 100000\n"}, 2),
        ({"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/cpu.max": "max 100000\n"}, 64),
        ({"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/cpu.max": "100000 100000\n"}, 1),
        (
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n",
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        ({}, 64),
    ],
    ids=["v2", "v2 without limit", "v2 of a parent", "v1", "none"],
)
def test_control_groups_limit_threads(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], threads: int) -> None:
    """The tightest quota on the way to the root counts, rounded up."""
    monkeypatch.setattr(machine, "_read", lambda path: files.get(str(path), ""))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert machine.thread_limit() == threads


def test_an_unreadable_system_has_modest_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be read, vectors are those every processor has and caches are small."""
    monkeypatch.setattr(machine, "_read", lambda path: "")
    machine.features.cache_clear()
    machine.cache_bytes.cache_clear()
    try:
        assert machine.vector_bytes() == 16
        assert machine.cache_bytes(1) == 32 << 10
        assert machine.cache_bytes(2) == 1 << 20
    finally:
        machine.features.cache_clear()
        machine.cache_bytes.cache_clear()


@pytest.mark.parametrize(
    ("flags", "vendor", "family", "model", "wanted"),
    [
        ("avx512f avx512dq avx512bw avx512vl avx2 fma", "GenuineIntel", 6, 143, 2),
        ("avx512f avx512dq avx512bw avx512vl avx2 fma", "AuthenticAMD", 25, 17, 1),
        ("avx2 fma", "AuthenticAMD", 25, 1, 2),
        ("avx2 fma", "AuthenticAMD", 23, 49, 2),
        ("avx2 fma", "AuthenticAMD", 23, 1, 1),
        ("avx2 fma", "HygonGenuine", 24, 1, 1),
        ("avx2 fma", "GenuineIntel", 6, 79, 2),
        ("avx2", "GenuineIntel", 6, 79, 0),
        ("avx", "GenuineIntel", 6, 42, 0),
        ("", "GenuineIntel", 6, 42, 0),
    ],
)
def test_multipliers(
    monkeypatch: pytest.MonkeyPatch, flags: str, vendor: str, family: int, model: int, wanted: int
) -> None:
    """How many whole vectors a core multiplies in a cycle, by what /proc/cpuinfo says."""
    text = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nflags\t\t: {flags}\n"
    monkeypatch.setattr(machine, "_read", lambda path: text if path == "/proc/cpuinfo" else "")
    monkeypatch.setattr(machine, "is_x86", lambda: True)
    machine.features.cache_clear()
    try:
        assert machine.multipliers() == wanted
    finally:
        machine.features.cache_clear()


def test_cc_may_carry_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CC is a command with its options; quotes are understood."""
    tool = tmp_path / "my cc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("CC", f"'{tool}' -m64")
    assert machine.find_cc() == [str(tool), "-m64"]


@pytest.mark.parametrize("name", ["CPU_COUNT", "NUM_CPU_THREADS"])
def test_the_number_of_threads_by_another_name_is_answered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reads it; beside the setting, and where it is no number, it is that of another program."""
    monkeypatch.delenv("CPU_THREADS", raising=False)
    monkeypatch.setenv(name, "3")
    with pytest.warns(UserWarning, match=f"^{name}=3 changes nothing: .* did you mean CPU_THREADS.$"):
        CpuBackend("CPU", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setenv("CPU_THREADS", "2")
        CpuBackend("CPU", 0)
        monkeypatch.delenv("CPU_THREADS")
        monkeypatch.setenv(name, "many")
        CpuBackend("CPU", 0)
