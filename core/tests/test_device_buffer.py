"""Buffers: allocated late, counted, kept for reuse, and given back."""

import gc
import threading

import pytest

from tinygraft.device import buffer as buffers
from tinygraft.device.buffer import Buffer, bind, buffer_of, realized
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.pool import Pool, pool_of
from tinygraft.dtype import dtypes
from tinygraft.errors import DeviceMemoryError
from tinygraft.reference.null import NullAllocator, NullBackend
from tinygraft.uop.uop import UOp


class HostAllocator(NullAllocator):
    """Bytearrays, of which there are at most room bytes."""

    def __init__(self, room=1 << 20):
        self.room, self.allocated, self.freed = room, 0, 0

    def alloc(self, nbytes):
        """A bytearray, or DeviceMemoryError."""
        if self.allocated - self.freed + nbytes > self.room:
            raise DeviceMemoryError("full")
        self.allocated += nbytes
        return bytearray(nbytes)

    def free(self, handle, nbytes):
        """Count it."""
        self.freed += nbytes

    def copy_in(self, target, source):
        """Copy the bytes."""
        target[:] = source.cast("B")

    def copy_out(self, target, source):
        """Copy the bytes."""
        target.cast("B")[:] = source

    def as_host(self, handle):
        """The bytes themselves."""
        return memoryview(handle)


class Devices:
    """A registry of one backend in host memory."""

    def __init__(self):
        self.backend = NullBackend("TOY", 0)
        self.backend.allocator = HostAllocator()

    def canonicalize(self, name):
        """The name as it is."""
        return name

    def __getitem__(self, name):
        return self.backend


@pytest.fixture
def allocator(monkeypatch):
    """The allocator that buffers get their memory from."""
    devices = Devices()
    monkeypatch.setattr(buffers, "Device", devices)
    return devices.backend.allocator


def test_repr_is_that_of_the_introduction(allocator):
    """A buffer prints as in the introduction, with the memory it has or has not."""
    buffer = Buffer("TOY", 100, dtypes.float32)
    assert repr(buffer) == "<buf real:False device:TOY size:100 dtype:dtypes.float offset:0>"
    assert repr(buffer.allocate()) == "<buf real:True device:TOY size:100 dtype:dtypes.float offset:0>"


def test_memory_is_taken_when_it_is_needed(allocator):
    """Making a buffer allocates nothing; asking for its handle does, once."""
    buffer = Buffer("TOY", 100, dtypes.float32)
    assert (allocator.allocated, buffer.is_allocated()) == (0, False)
    assert buffer.handle is buffer.handle
    assert (allocator.allocated, buffer.is_allocated()) == (400, True)


def test_mem_used_counts_live_buffers(allocator):
    """mem_used rises by allocation, falls when the last reference goes, and reset keeps it."""
    before = GlobalCounters.mem_used
    first, second = (Buffer("TOY", n, dtypes.float64).allocate() for n in (10, 5))
    assert GlobalCounters.mem_used - before == 120
    GlobalCounters.reset()
    assert GlobalCounters.mem_used - before == 120
    del first
    assert GlobalCounters.mem_used - before == 40
    second.deallocate()
    second.deallocate()
    assert GlobalCounters.mem_used == before


def test_freed_memory_is_used_again(allocator):
    """A freed block serves the next buffer of its size, without asking the device."""
    handle = Buffer("TOY", 100, dtypes.float32).handle
    gc.collect()
    again = Buffer("TOY", 50, dtypes.float64)
    assert again.handle is handle
    assert (allocator.allocated, allocator.freed) == (400, 0)


def test_the_cap_on_kept_memory():
    """Blocks above the cap go back to the device at once; empty() gives the rest back."""
    backend = NullBackend("TOY", 0)
    backend.allocator = allocator = HostAllocator()
    pool = Pool(backend, cap=100)
    handles = [pool.take(60), pool.take(60)]
    for handle in handles:
        pool.give(handle, 60)
    assert (pool.kept, allocator.freed) == (60, 60)
    assert pool.empty() == 60
    assert (pool.kept, allocator.freed) == (0, 120)


def test_no_more_is_kept_than_was_in_use(monkeypatch):
    """Buffers of ever new sizes do not pile up: what is kept stays below the most that was ever in use."""
    monkeypatch.setattr("tinygraft.device.pool.FLOOR", 0)
    backend = NullBackend("TOY", 0)
    backend.allocator = HostAllocator()
    pool = Pool(backend)
    for nbytes in range(100, 200):
        pool.give(pool.take(nbytes), nbytes)
        assert pool.kept <= pool.peak == nbytes


def test_no_elements_no_memory(allocator):
    """A buffer of no elements is always there and never allocates; its bytes are none."""
    buffer = Buffer("TOY", 0, dtypes.float32).allocate()
    assert buffer.is_allocated()
    assert (buffer.handle, allocator.allocated) == (None, 0)
    assert bytes(buffer._buf) == b""
    buffer.copy_in(memoryview(b""))
    assert bytes(buffer.copy_out(memoryview(bytearray()))) == b""


def test_bytes_in_and_out(allocator):
    """What is copied in comes out, and the introduction's look at the memory works."""
    buffer = Buffer("TOY", 2, dtypes.float32).copy_in(memoryview(bytes.fromhex("0000404000008040")))
    assert buffer.copy_out(memoryview(bytearray(8))).hex() == "0000404000008040"
    assert memoryview(buffer._buf)[:4].hex() == "00004040"


def test_bytes_must_fit(allocator):
    """Host memory of another size is refused with both sizes."""
    with pytest.raises(
        ValueError, match="size:2 dtype:dtypes.float offset:0> has 8 bytes, the host memory given has 9"
    ):
        Buffer("TOY", 2, dtypes.float32).copy_in(memoryview(bytes(9)))


def test_out_of_memory(allocator):
    """When the device is full, kept blocks go back first; the error says what was asked and what is in use."""
    allocator.room = 1000
    live = Buffer("TOY", 100, dtypes.float32).allocate()
    Buffer("TOY", 100, dtypes.float32 if live.nbytes else None).allocate().deallocate()
    assert Buffer("TOY", 150, dtypes.float32).allocate().is_allocated()  # 600 bytes fit once the kept 400 are gone
    with pytest.raises(DeviceMemoryError) as caught:
        Buffer("TOY", 200, dtypes.float32).allocate()
    assert isinstance(caught.value, MemoryError)
    assert str(caught.value) == (
        "TOY has no room for a buffer of 800 bytes: 400 bytes are in use by live buffers, none are kept for reuse; "
        "drop tensors that are no longer needed, or use a smaller batch"
    )


def test_a_failed_allocation_counts_nothing(allocator):
    """After an error for want of memory the counts are what they were."""
    allocator.room, before = 10, GlobalCounters.mem_used
    with pytest.raises(DeviceMemoryError):
        Buffer("TOY", 100, dtypes.float32).allocate()
    assert (GlobalCounters.mem_used, pool_of(buffers.Device["TOY"]).used) == (before, 0)


def test_the_buffer_of_a_node(allocator):
    """A BUFFER node has one buffer as long as it lives, made on demand; no other node has one."""
    node = UOp.buffer("TOY", 10, dtypes.int32)
    assert realized(node) is None
    buffer = buffer_of(node)
    assert buffer is buffer_of(node)
    assert (buffer.device, buffer.size, buffer.dtype) == ("TOY", 10, dtypes.int32)
    assert realized(node) is None
    buffer.allocate()
    assert realized(node) is buffer
    assert realized(UOp.const(dtypes.int32, 1)) is None
    with pytest.raises(ValueError, match="only a BUFFER node has memory, this is Ops.CONST"):
        buffer_of(UOp.const(dtypes.int32, 1))


def test_memory_goes_with_the_node(allocator):
    """When a node dies its memory is free for the next buffer."""
    before, node = GlobalCounters.mem_used, UOp.buffer("TOY", 10, dtypes.int32)
    buffer_of(node).allocate()
    assert GlobalCounters.mem_used - before == 40
    del node
    assert GlobalCounters.mem_used == before


def test_binding_a_buffer(allocator):
    """bind gives a node the memory of a buffer that fits, and refuses another."""
    node, buffer = UOp.buffer("TOY", 10, dtypes.int32), Buffer("TOY", 10, dtypes.int32).allocate()
    bind(node, buffer)
    assert realized(node) is buffer
    with pytest.raises(ValueError, match="does not fit a node of 10 dtypes.int on TOY"):
        bind(node, Buffer("TOY", 10, dtypes.float32))


def test_many_threads_count_right(allocator):
    """Eight threads that allocate and free leave the counts at what they were."""
    before = GlobalCounters.mem_used

    def work():
        for n in range(200):
            Buffer("TOY", n % 7 + 1, dtypes.int64).allocate()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (GlobalCounters.mem_used, pool_of(buffers.Device["TOY"]).used) == (before, 0)
    assert allocator.allocated <= 8 * 8 * sum(range(1, 8))
