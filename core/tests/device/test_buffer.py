"""Buffers: allocated late, counted, kept for reuse, and given back."""

import gc
import sys
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygraft.config import Context
from tinygraft.device import buffer as buffers
from tinygraft.device.buffer import Buffer, bind, buffer_of, realized
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Allocator
from tinygraft.device.pool import Pool, pool_of
from tinygraft.dtype import dtypes
from tinygraft.errors import DeviceMemoryError
from tinygraft.reference.null import NullAllocator, NullBackend
from tinygraft.uop.uop import UOp


class HostAllocator(NullAllocator):
    """Bytearrays, of which there are at most room bytes."""

    def __init__(self, room=1 << 20):
        self.room, self.allocated, self.freed, self.before = room, 0, 0, lambda: None

    def alloc(self, nbytes):
        """A bytearray, or DeviceMemoryError."""
        self.before()
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

    def view(self, handle, offset, nbytes):
        """A part of the bytes."""
        return memoryview(handle)[offset : offset + nbytes]

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


def pool_of_toys(**settings):
    """A pool over host memory, with its allocator."""
    backend = NullBackend("TOY", 0)
    backend.allocator = HostAllocator(**settings)
    return Pool(backend), backend.allocator


def test_the_cap_on_kept_memory():
    """Blocks above KEEP_MB go back to the device at once; empty() gives the rest back."""
    pool, allocator = pool_of_toys(room=4 << 20)
    with Context(KEEP_MB=1):
        first, second = pool.take(600 << 10), pool.take(500 << 10)
        del first, second
        assert (pool.kept, allocator.freed) == (600 << 10, 500 << 10)
    assert pool.empty() == 600 << 10
    assert (pool.kept, pool.used, allocator.freed) == (0, 0, 1100 << 10)


def test_used_and_kept_are_no_more_than_was_ever_used():
    """Buffers of ever new sizes do not pile up: before the pool grows, what was freed longest ago goes."""
    pool, allocator = pool_of_toys()
    first, second = pool.take(1000), pool.take(3000)
    del first, second
    held = pool.take(500)  # 4,000 bytes were in use at once, so the younger of the two blocks may stay
    assert (pool.used, pool.kept, pool.peak) == (held.size, 3000, 4000)
    for nbytes in range(1000, 1100):
        pool.take(nbytes)
        assert pool.used + pool.kept <= pool.peak == 4000
    assert allocator.allocated - allocator.freed == pool.used + pool.kept


def test_sizes_that_nobody_asks_for_go_back(monkeypatch):
    """What a program needed at its start is not kept for ever; what it uses in every turn is."""
    monkeypatch.setattr("tinygraft.device.pool.FLOOR", 1000)
    monkeypatch.setattr("tinygraft.device.pool.AGE", 50)
    monkeypatch.setattr("tinygraft.device.pool.SMALL", 0)
    pool, allocator = pool_of_toys()
    first, second = pool.take(9000), pool.take(2000)
    del first, second
    for _ in range(47):
        pool.take(2000)
    assert (pool.kept, allocator.freed) == (11000, 0)
    for _ in range(60):
        pool.take(2000)
    assert (pool.kept, allocator.freed, allocator.allocated) == (2000, 9000, 11000)


def test_the_block_that_was_returned_last_is_taken_again_without_a_guard(monkeypatch):
    """A loop whose results are large pays neither for signals nor for the table of cached blocks."""
    pool, allocator = pool_of_toys(room=1 << 30)
    large = 6 << 20
    handle = pool.take(large).handle
    monkeypatch.setattr("tinygraft.device.pool.guarded", None)
    for _ in range(5):
        block = pool.take(large)
        assert (block.handle, block.nbytes, block.size) == (handle, large, large)
        del block
    monkeypatch.undo()
    assert (pool.used, pool.kept, pool.peak, allocator.allocated) == (0, large, large, large)


class Freeing:
    """A trace function that lets go of what is in a list at line `number` of the pool's quick way to a block."""

    def __init__(self, number, held):
        self.number, self.held, self.count = number, held, 0

    def __call__(self, frame, event, arg):
        """What sys.settrace calls."""
        if frame.f_code.co_name != "_retake":
            return None
        self.count += 1
        if self.count == self.number:
            self.held.clear()
        return self


def test_memory_that_a_debugger_frees_between_two_lines_is_nobody_elses():
    """A trace function runs between the lines of the pool, and what it frees must not be mistaken for another block."""
    pool, _ = pool_of_toys()
    held, number = [], 0
    while not held:
        first, number = pool.take(100), number + 1
        held.append(pool.take(200))
        del first
        before = sys.gettrace()
        sys.settrace(Freeing(number, held))
        try:
            block = pool.take(100)
        finally:
            sys.settrace(before)
        blocks = [block, *map(pool.take, (100, 100, 200, 200))]
        assert [len(each.handle) for each in blocks] == [each.nbytes for each in blocks] == [100, 100, 100, 200, 200]
        assert len({id(each.handle) for each in blocks}) == 5, number
        del block, blocks
        assert pool.used == 200 * len(held)
    assert number > 8


def test_large_blocks_wait_while_the_cache_has_room():
    """A few wait to be taken again; one that the cache has no room for goes back to the system at once."""
    pool, allocator = pool_of_toys(room=1 << 30)
    blocks = [pool.take(3 << 20) for _ in range(10)]
    while blocks:
        blocks.pop()
        assert len(pool._returned) <= 4
    assert (pool.used, pool.kept, allocator.freed) == (0, 30 << 20, 0)
    pool.empty()
    block = pool.take(2 << 20)
    with Context(KEEP_MB=1):
        del block
    assert not pool._returned
    assert allocator.freed == allocator.allocated


def test_a_block_serves_what_is_almost_as_large():
    """Within an eighth a kept block is handed out; one who takes it briefly gets any that is large enough."""
    pool, allocator = pool_of_toys()
    first, second = pool.take(1000), pool.take(880)  # so much was in use at once, and may be kept
    del first, second
    assert pool.take(900).size == 1000
    assert pool.take(880).size == 880
    assert pool.take(890).size == 1000
    assert (pool.take(100, briefly=True).size, pool.take(881, briefly=True).size) == (880, 1000)
    assert (allocator.allocated, len(pool.take(900).handle)) == (1880, 900)


def test_without_views_only_the_same_size_is_used_again():
    """A device that cannot hand out a part of a block gets each size for itself."""

    class Whole(HostAllocator):
        """No views."""

        view = Allocator.view

    backend = NullBackend("TOY", 0)
    backend.allocator = Whole()
    pool = Pool(backend)
    pool.take(1000)
    assert (pool.take(990, briefly=True).size, pool.take(1000).size) == (990, 1000)


def test_a_block_that_dies_while_the_pool_is_busy_is_looked_at_afterwards():
    """The garbage collector may run in the middle of take, in the same thread."""
    pool, allocator = pool_of_toys()
    victims = [pool.take(64)]
    allocator.before = victims.clear
    assert pool.take(128).size == 128
    assert (pool.used, pool.kept, victims) == (0, 192, [])


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
        "drop tensors that are no longer needed, or use a smaller batch\n  full"
    )


def test_a_failed_allocation_counts_nothing(allocator):
    """After an error for want of memory the counts are what they were."""
    gc.collect()  # what earlier tests left
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
    gc.collect()  # what earlier tests left in cycles is not counted as freed here
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
    pool = pool_of(buffers.Device["TOY"])
    assert allocator.allocated - allocator.freed == pool.kept <= pool.peak <= 8 * 8 * 7


def test_a_part_of_a_buffer(allocator):
    """A buffer that is a part of another one allocates nothing, prints its offset, and retains the other's memory."""
    before = GlobalCounters.mem_used
    home, part = Buffer("TOY", 100, dtypes.uint8), Buffer("TOY", 4, dtypes.int32)
    part.suballocate(home, 64)
    part.copy_in(memoryview(b"0123456789abcdef"))
    assert bytes(home.as_memoryview())[62:82] == b"\0\0" + b"0123456789abcdef" + b"\0\0"
    assert repr(part) == "<buf real:True device:TOY size:4 dtype:dtypes.int offset:64>"
    assert (GlobalCounters.mem_used - before, allocator.allocated) == (100, 100)
    del home
    assert GlobalCounters.mem_used - before == 100
    part.deallocate()
    assert (GlobalCounters.mem_used - before, part.is_allocated()) == (0, False)


def test_a_part_has_to_fit(allocator):
    """Neither past the end, nor when there is memory already."""
    home, part = Buffer("TOY", 100, dtypes.uint8), Buffer("TOY", 4, dtypes.int32)
    with pytest.raises(ValueError, match=r"with 16 bytes cannot be at 96 of 100 in <buf real:False"):
        part.suballocate(home, 96)
    part.allocate()
    with pytest.raises(ValueError, match=r"with 16 bytes cannot be at 0 of 100 in"):
        part.suballocate(home, 0)


def test_shared_memory_outlives_its_buffer(allocator):
    """While somebody holds what share gave, the block is not used again; then it is."""
    buffer = Buffer("TOY", 4, dtypes.int32).copy_in(memoryview(b"0123456789abcdef"))
    view = buffer.share()
    part = view[4:8]
    assert (buffer.is_shared(), buffer.share().obj is view.obj) == (True, True)
    del view
    buffer.deallocate()
    Buffer("TOY", 4, dtypes.int32).copy_in(memoryview(bytes(16)))
    assert (bytes(part), allocator.allocated) == (b"4567", 32)
    del part
    assert not buffer.is_shared()
    again = Buffer("TOY", 4, dtypes.int32).allocate(), Buffer("TOY", 4, dtypes.int32).allocate()
    assert (len(again), allocator.allocated) == (2, 32)


def test_borrowed_memory_is_kept_alive_and_not_counted(allocator):
    """Memory of somebody else is no part of the pool: its owner goes when the buffer gives it up."""

    class Owner:
        """Something that can be watched."""

    before, owner, buffer = GlobalCounters.mem_used, Owner(), Buffer("TOY", 4, dtypes.int32)
    gone = weakref.ref(owner)
    buffer.borrow(bytearray(b"0123456789abcdef"), owner)
    del owner
    assert bytes(buffer.copy_out(memoryview(bytearray(16)))) == b"0123456789abcdef"
    assert (gone() is not None, GlobalCounters.mem_used, allocator.allocated) == (True, before, 0)
    buffer.deallocate()
    assert (gone(), buffer.is_allocated()) == (None, False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["make", "drop", "share", "unshare", "part", "empty"]), st.integers(0, 40))))
def test_mem_used_is_the_sum_of_what_is_alive(steps):
    """Whatever is made, dropped, shared and parted in whatever order: mem_used counts each living block once."""
    before, made, leases = GlobalCounters.mem_used, [], []
    registry = Devices()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "Device", registry)
        pool = pool_of(registry.backend)
        for what, number in steps:
            if what == "make":
                made.append(Buffer("TOY", number * 3, dtypes.uint8).allocate())
            elif what == "empty":
                pool.empty()
            elif made and what == "drop":
                made.pop(number % len(made))
            elif made and what == "share":
                leases.append(made[number % len(made)].share())
            elif leases and what == "unshare":
                leases.pop(number % len(leases))
            elif made and what == "part" and made[0].nbytes:
                part = Buffer("TOY", 1, dtypes.uint8)
                part.suballocate(made[0], number % made[0].nbytes)
                made.append(part)
                del part
            alive = {b._block for b in made if b._block is not None}
            alive |= {view.obj.block for view in leases if view.nbytes}
            assert GlobalCounters.mem_used - before == sum(block.nbytes for block in alive)
            assert pool.used == sum(block.size for block in alive)
            assert registry.backend.allocator.allocated - registry.backend.allocator.freed == pool.used + pool.kept
            del alive
        made.clear()
        leases.clear()
        assert (GlobalCounters.mem_used, pool.used) == (before, 0)
