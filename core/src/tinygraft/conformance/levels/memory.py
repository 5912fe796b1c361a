"""Level 2: memory. Buffers of every size, views into them, the host's view of them, and running out of memory.

The allocator is tested alone and under core's pool, which reuses freed memory with the values that it has.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.gate import Requirement, computes, needs
from tinygraft.conformance.kernels import map_kernel, programs
from tinygraft.conformance.opened import Opened
from tinygraft.device.buffer import Buffer
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.registry import Device
from tinygraft.dtype import BY_NAME, dtypes
from tinygraft.errors import DeviceMemoryError, DeviceUnavailable, UnsupportedError
from tinygraft.reference.spec import PYTHON
from tinygraft.target import Target
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.stages import Kernel

SIZES = (1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 255, 1000, 4095, 4096, 4097, 65537, (1 << 20) + 3, (16 << 20) + 5)
TOGETHER = (1, 7, 16, 64, 100, 1000, 4096, 4097, 70001)
STEPS = (0, 1, 2, 5, 64, 1023)  # offsets of views, in units of the Target's alignment
ELEMENTS = 37  # of the small kernels
TOO_MUCH = 1 << 60  # bytes that no machine has
DTYPES = [dtype.name for dtype in dtypes.all]  # by name: a parameter that is a DType would be a need (gate.py)
DIRT = 0xFF  # in every byte: NaN as a float, -1 as an integer


class MemoryLevel:
    """Tests of the allocator, alone and under core's pool."""

    @pytest.mark.parametrize("nbytes", SIZES)
    def test_what_is_written_is_read(self, backend: Backend, nbytes: int) -> None:
        """Bytes that were copied in are copied out, for any number of them, and again after others were written."""
        handle = backend.allocator.alloc(nbytes)
        for seed in (1, 2):
            data = noise(nbytes, seed)
            write(backend, handle, data)
            holds(backend, handle, data)
        backend.allocator.free(handle, nbytes)

    def test_buffers_do_not_overlap(self, backend: Backend) -> None:
        """Each of many buffers keeps what was written to it while the others are written."""
        sizes = (*TOGETHER, *reversed(TOGETHER)) * 2
        handles = [backend.allocator.alloc(nbytes) for nbytes in sizes]
        data = [noise(nbytes, seed) for seed, nbytes in enumerate(sizes)]
        for handle, values in zip(handles, data, strict=True):
            write(backend, handle, values)
        for number in (*range(len(sizes)), *reversed(range(len(sizes)))):
            holds(backend, handles[number], data[number], f"buffer {number} of {sizes[number]} bytes")
        free_all(backend, handles, sizes)

    def test_freed_memory_is_nobody_elses(self, backend: Backend) -> None:
        """Where every second buffer is freed and others are allocated, the remaining ones keep their values."""
        sizes = TOGETHER * 4
        handles = [backend.allocator.alloc(nbytes) for nbytes in sizes]
        data = [noise(nbytes, seed) for seed, nbytes in enumerate(sizes)]
        for handle, values in zip(handles, data, strict=True):
            write(backend, handle, values)
        for i in range(0, len(sizes), 2):
            backend.allocator.free(handles[i], sizes[i])
            handles[i], data[i] = backend.allocator.alloc(sizes[i]), noise(sizes[i], 100 + i)
            write(backend, handles[i], data[i])
        for nbytes in sizes:
            handles.append(backend.allocator.alloc(nbytes))
            data.append(noise(nbytes, 200 + len(handles)))
            write(backend, handles[-1], data[-1])
        for handle, values in zip(handles, data, strict=True):
            holds(backend, handle, values, f"a buffer of {len(values)} bytes")
        free_all(backend, handles, [len(values) for values in data])

    def test_host_memory_of_every_kind_is_copied(self, backend: Backend) -> None:
        """Read-only bytes are copied in, and arrays of floats with two axes are copied in and out."""
        rows = np.arange(24, dtype=np.float32).reshape(4, 6)
        handle = backend.allocator.alloc(rows.nbytes)
        backend.allocator.copy_in(handle, memoryview(rows.tobytes()))
        holds(backend, handle, rows.tobytes())
        backend.allocator.copy_in(handle, (rows + 1).data)
        found = np.zeros_like(rows)
        backend.allocator.copy_out(found.data, handle)
        assert np.array_equal(found, rows + 1)
        backend.allocator.free(handle, rows.nbytes)

    @pytest.mark.parametrize("nbytes", [1, 17, 4097, (1 << 20) + 3])
    def test_copies_within_the_device(self, backend: Backend, nbytes: int) -> None:
        """A buffer copied to another is equal to it, and does not change with the copy."""
        source, target = (backend.allocator.alloc(nbytes) for _ in range(2))
        data = noise(nbytes, 3)
        write(backend, source, data)
        write(backend, target, bytes([DIRT]) * nbytes)
        backend.allocator.copy(target, source, nbytes)
        holds(backend, target, data)
        write(backend, target, bytes(nbytes))
        holds(backend, source, data)
        free_all(backend, [source, target], [nbytes] * 2)

    @needs("views")
    @pytest.mark.parametrize("steps", STEPS)
    def test_a_view_is_its_part_of_the_buffer(self, backend: Backend, steps: int) -> None:
        """A view has the bytes of the buffer from its offset on, for reads and writes; so has a view of the view."""
        offset, whole = steps * backend.target.alignment, 1025 * max(backend.target.alignment, 16)
        nbytes = 3 * max(backend.target.alignment, 16)
        handle = backend.allocator.alloc(whole)
        data = bytearray(noise(whole, 5))
        write(backend, handle, data)
        view = backend.allocator.view(handle, offset, min(nbytes, whole - offset))
        nbytes = min(nbytes, whole - offset)
        holds(backend, view, data[offset : offset + nbytes], f"a view from {offset} on")
        data[offset : offset + nbytes] = noise(nbytes, 6)
        write(backend, view, data[offset : offset + nbytes])
        holds(backend, handle, data, f"the buffer after its view from {offset} on was written")
        step = backend.target.alignment
        inner = backend.allocator.view(view, step, nbytes - step)
        holds(backend, inner, data[offset + step : offset + nbytes], "a view of the view")
        backend.allocator.free(handle, whole)

    @needs("views")
    def test_a_view_keeps_the_buffer_alive(self, backend: Backend) -> None:
        """A view keeps its values when nothing refers to the buffer any more and others are allocated."""
        nbytes, step = 4096, backend.target.alignment
        handle = backend.allocator.alloc(nbytes)
        data = noise(nbytes, 7)
        write(backend, handle, data)
        view = backend.allocator.view(handle, step, nbytes - step)
        del handle
        gc.collect()
        others = [backend.allocator.alloc(nbytes) for _ in range(16)]
        for other in others:
            write(backend, other, bytes([DIRT]) * nbytes)
        holds(backend, view, data[step:])
        free_all(backend, others, [nbytes] * 16)

    @needs("views")
    @pytest.mark.parametrize("steps", STEPS)
    def test_kernels_use_views_at_their_offset(self, backend: Backend, steps: int) -> None:
        """A kernel on views reads and writes their bytes, and nothing around them."""
        nbytes, alignment = ELEMENTS * 4, max(backend.target.alignment, 16)
        offset, whole = steps * backend.target.alignment, (1025 + ELEMENTS) * alignment
        source, target = (backend.allocator.alloc(whole) for _ in range(2))
        floats = np.arange(whole // 4, dtype=np.float32)
        write(backend, source, floats.tobytes())
        want = bytearray([DIRT]) * whole
        write(backend, target, want)
        doubled(backend, *(backend.allocator.view(h, offset, nbytes) for h in (target, source)))
        first = offset // 4
        want[offset : offset + nbytes] = (floats[first : first + ELEMENTS] * 2).tobytes()
        holds(backend, target, want, f"views from {offset} on")
        free_all(backend, [source, target], [whole] * 2)

    @needs("views")
    def test_copies_within_the_device_between_views(self, backend: Backend) -> None:
        """A view of one buffer is copied to a view of another, and nothing else is written."""
        step, whole = max(backend.target.alignment, 16), 64 * max(backend.target.alignment, 16)
        source, target = (backend.allocator.alloc(whole) for _ in range(2))
        data, want = noise(whole, 8), bytearray(whole)
        write(backend, source, data)
        write(backend, target, want)
        parts = backend.allocator.view(target, 3 * step, 5 * step), backend.allocator.view(source, 7 * step, 5 * step)
        backend.allocator.copy(*parts, 5 * step)
        want[3 * step : 8 * step] = data[7 * step : 12 * step]
        holds(backend, target, want)
        free_all(backend, [source, target], [whole] * 2)

    @needs("host_view")
    def test_the_host_sees_the_memory_itself(self, backend: Backend) -> None:
        """The device reads what the host writes through `as_host`, and the host sees what a kernel writes."""
        source, target = (backend.allocator.alloc(ELEMENTS * 4) for _ in range(2))
        seen, result = (backend.allocator.as_host(handle) for handle in (source, target))
        assert seen is not None and result is not None, "as_host is overridden and returns None"
        assert (seen.nbytes, result.nbytes) == (ELEMENTS * 4, ELEMENTS * 4)
        floats = np.arange(ELEMENTS, dtype=np.float32)
        seen.cast("B")[:] = floats.tobytes()
        holds(backend, source, floats.tobytes())
        doubled(backend, target, source)
        backend.synchronize()
        assert bytes(result) == (floats * 2).tobytes()
        del seen, result
        free_all(backend, [source, target], [ELEMENTS * 4] * 2)

    @needs("host_view", "views")
    def test_the_host_sees_a_view_at_its_offset(self, backend: Backend) -> None:
        """The host's view of a view has the bytes of the view."""
        step = max(backend.target.alignment, 16)
        handle = backend.allocator.alloc(8 * step)
        data = noise(8 * step, 9)
        write(backend, handle, data)
        seen = backend.allocator.as_host(backend.allocator.view(handle, 3 * step, 2 * step))
        assert seen is not None
        assert bytes(seen) == data[3 * step : 5 * step]
        del seen
        backend.allocator.free(handle, 8 * step)

    @needs("addresses")
    def test_memory_of_the_device_is_used_at_its_address(self, backend: Backend) -> None:
        """A buffer is made once more from its address, a part of it too: kernels read and write the same memory."""
        nbytes, step = ELEMENTS * 4, max(backend.target.alignment, 64)
        source, target = (backend.allocator.alloc(nbytes + step) for _ in range(2))
        values = np.arange(ELEMENTS, dtype=np.float32)
        write(backend, source, bytes(step) + values.tobytes())
        write(backend, target, b"\xff" * (nbytes + step))
        there = [backend.allocator.at_address(backend.allocator.address(h) + step, nbytes) for h in (target, source)]
        doubled(backend, *there)
        assert read(backend, target, nbytes + step) == b"\xff" * step + (values * 2).tobytes()
        for handle in (source, target):
            backend.allocator.free(handle, nbytes + step)

    @needs("at_address", "host_view")
    def test_memory_of_others_is_used_in_place(self, backend: Backend) -> None:
        """A kernel reads borrowed memory, and writes its result to borrowed memory, without a copy."""
        source, target = np.arange(ELEMENTS, dtype=np.float32), np.full(ELEMENTS, -1, np.float32)
        nbytes = ELEMENTS * 4
        doubled(backend, *(backend.allocator.at_address(a.ctypes.data, nbytes) for a in (target, source)))
        backend.synchronize()
        assert np.array_equal(target, source * 2)

    def test_too_much_memory_is_a_memory_error(self, backend: Backend) -> None:
        """An allocation that no machine has room for raises DeviceMemoryError, and the device still works."""
        with pytest.raises(DeviceMemoryError):
            backend.allocator.alloc(TOO_MUCH)
        self.test_what_is_written_is_read(backend, 1000)

    def test_a_tensor_that_does_not_fit_is_a_memory_error(self, device: str) -> None:
        """Under the pool, which first frees what it caches, it is a DeviceMemoryError too; the next tensor is right."""
        with pytest.raises(DeviceMemoryError):
            Buffer(device, TOO_MUCH, dtypes.uint8).allocate()
        assert (Tensor([1, 2, 3], device=device) + 1).tolist() == [2, 3, 4]

    def test_results_do_not_depend_on_what_memory_held(self, device: str) -> None:
        """Zeros, sums, padding, running sums and products are right in memory that is full of NaN before."""
        x = np.arange(36, dtype=np.float32).reshape(6, 6)
        for _ in range(2):
            for nbytes in (4, 24, 36, 144, 256, 288):
                soil(device, nbytes)
            t = Tensor(x, device=device)
            found = [
                Tensor.zeros(6, 6, device=device).contiguous(),
                t.sum(1),
                t.pad(((1, 1), (1, 1))),
                t.cumsum(1),
                t @ t,
            ]
            want = [np.zeros((6, 6)), x.sum(1), np.pad(x, 1), x.cumsum(1), x @ x]
            for got, numbers in zip(found, want, strict=True):
                np.testing.assert_array_equal(got.numpy(), numbers)

    def test_memory_comes_back_when_tensors_go(self, device: str) -> None:
        """The bytes in use are again what they were, what was cached can be freed, and the device still works."""
        gc.collect()
        used = GlobalCounters.mem_used
        tensors = [(Tensor(np.full(1000, i, np.float32), device=device) + 1).realize() for i in range(8)]
        assert GlobalCounters.mem_used >= used + 8 * 4000
        assert [t.numpy()[-1] for t in tensors] == list(range(1, 9))
        del tensors
        gc.collect()
        assert GlobalCounters.mem_used == used
        assert Device.empty_cache(device) >= 8 * 4000
        assert (Tensor([1.5], device=device) * 2).item() == 3.0

    @pytest.mark.parametrize("name", DTYPES)
    def test_buffers_move_to_another_device_and_back(self, device: str, name: str) -> None:
        """Buffers are copied to core's interpreter and back, bit by bit, also of an odd number of elements and none."""
        dtype = BY_NAME[name]
        for count in (0, 1, 13):
            data = noise(count * dtype.itemsize, 10)
            data = bytes(byte & 1 for byte in data) if dtype is dtypes.bool else data
            there = Buffer(device, count, dtype).copy_in(memoryview(bytearray(data)))
            other = Buffer(PYTHON.name, count, dtype).copy_from(there)
            assert bytes(other.copy_out(memoryview(bytearray(len(data))))) == data
            back = Buffer(device, count, dtype).copy_from(other)
            assert bytes(back.copy_out(memoryview(bytearray(len(data))))) == data

    @pytest.mark.parametrize("name", DTYPES)
    def test_a_dtype_is_there_or_refused(self, device: str, target: Target, name: str) -> None:
        """A dtype that is declared is computed with; one that is not raises UnsupportedError and returns no values."""
        dtype = BY_NAME[name]
        values = [True, False, True]
        result = Tensor(values, device=device).cast(dtype).contiguous()
        result = (result | result) if dtype is dtypes.bool else (result + result)
        if computes(target, dtype):
            assert result.tolist() == (values if dtype is dtypes.bool else [2, 0, 2])
        else:
            with pytest.raises(UnsupportedError):
                result.tolist()

    @pytest.mark.parametrize("ability", ["views", "host_view", "at_address"])
    def test_an_ability_is_there_or_refused(self, backend: Backend, opened: Opened, ability: str) -> None:
        """A method that the plugin overrides works on a small buffer; core's default says that the device cannot."""
        handle = backend.allocator.alloc(64)
        others = (ctypes.c_ubyte * 64)()
        uses: dict[str, Callable[[], object]] = {
            "views": lambda: backend.allocator.view(handle, 0, 32),
            "host_view": lambda: backend.allocator.as_host(handle),
            "at_address": lambda: backend.allocator.at_address(ctypes.addressof(others), 64),
        }
        if ability == "at_address" and Requirement("addresses").is_met(opened):  # of the device's own memory
            uses["at_address"] = lambda: backend.allocator.at_address(backend.allocator.address(handle), 64)
        use = uses[ability]
        if Requirement(ability).is_met(opened):
            assert use() is not None
        elif ability == "host_view":
            assert use() is None
        else:
            with pytest.raises(UnsupportedError):
                use()
        backend.allocator.free(handle, 64)

    @needs("counted")
    def test_an_ordinal_past_the_last_is_refused(self, device: str, opened: Opened) -> None:
        """Where the probe counts the ordinals, opening one past the last raises DeviceUnavailable."""
        with pytest.raises(DeviceUnavailable, match="does not exist"):
            Device[f"{device.partition(':')[0]}:{opened.count}"]


def noise(nbytes: int, seed: int) -> bytes:
    """Return random bytes, the same ones for the same seed."""
    return np.random.default_rng(seed).bytes(nbytes)


def write(backend: Backend, handle: Handle, data: bytes | bytearray) -> None:
    """Copy `data` into a buffer of its size."""
    backend.allocator.copy_in(handle, memoryview(bytearray(data)))


def read(backend: Backend, handle: Handle, nbytes: int) -> bytes:
    """Return the bytes of a buffer, copied into memory that is full of other bytes before."""
    found = bytearray([DIRT]) * nbytes
    backend.allocator.copy_out(memoryview(found), handle)
    return bytes(found)


def holds(backend: Backend, handle: Handle, data: bytes | bytearray, what: str = "a buffer") -> None:
    """Raise AssertionError unless a buffer has the bytes `data`; it names the first byte that differs.

    pytest's own comparison of so many bytes takes minutes.
    """
    found = np.frombuffer(read(backend, handle, len(data)), np.uint8)
    wrong = np.flatnonzero(found != np.frombuffer(data, np.uint8))
    if len(wrong):
        first = int(wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {len(data)} bytes differ, at byte {first} {found[first]:#04x} and not "
            f"{data[first]:#04x}"
        )


def free_all(backend: Backend, handles: list[Handle], sizes: list[int] | tuple[int, ...]) -> None:
    """Free buffers of these sizes."""
    for handle, nbytes in zip(handles, sizes, strict=True):
        backend.allocator.free(handle, nbytes)


def doubled(backend: Backend, target: Handle, source: Handle) -> None:
    """Launch a kernel that stores twice the ELEMENTS floats of `source` in `target`."""
    sink, _, _ = map_kernel([lambda x: x + x], [(dtypes.float32, [0.0] * ELEMENTS)])
    linear = to_linear(Kernel(sink), backend.target)
    x, y, z = (int(size) for size in linear.signature.grid)
    (program,) = programs(backend, [linear])
    program.launch([target, source], [], (x, y, z))


def soil(device: str, nbytes: int) -> None:
    """Let the pool of a device cache memory of this size that is full of DIRT: buffers are written and dropped."""
    buffers = [Buffer(device, nbytes, dtypes.uint8) for _ in range(4)]
    for buffer in buffers:
        buffer.copy_in(memoryview(bytearray([DIRT]) * nbytes))
