"""Memory that a tensor and somebody else use at once: what is shared, what is copied, who keeps it alive."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from array import array
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, Variable
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError
from tinygraft.tensor.data import dlpack
from tinygraft.tensor.state.strides import StridedLayout

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request: pytest.FixtureRequest) -> Any:
    """Both devices in host memory."""
    with Context(DEV=request.param):
        yield request.param


def aligned(values: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """A numpy array that starts at a multiple of 64 bytes."""
    found = np.asarray(values, dtype)
    room = np.empty(found.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    out = room[start : start + found.nbytes].view(dtype).reshape(found.shape)
    out[...] = found
    return out


def given() -> int:
    """How much of our memory others hold."""
    gc.collect()
    return sum(type(found) is dlpack._Owner for found in gc.get_objects())


# data


def test_data_is_the_memory_itself() -> None:
    """No copy: an assignment is visible in a view made before; the view may not be written."""
    t = Tensor([[1, 2], [3, 4]]).realize()
    view = t.data()
    assert (view.shape, view.format, view.readonly) == ((2, 2), "i", True)
    t.assign(t + 10).realize()
    assert view.tolist() == t.tolist() == [[11, 12], [13, 14]]


def test_data_stays_when_its_tensor_is_gone() -> None:
    """The memory is not used again while the view is held, and is afterwards."""
    before = GlobalCounters.mem_used
    t = Tensor([float(i) for i in range(1000)]).realize()
    view = t.data()
    del t
    assert GlobalCounters.mem_used - before == 4000
    others = [Tensor([0.0] * 1000).realize() for _ in range(4)]
    assert view[999] == 999.0
    del view
    assert GlobalCounters.mem_used - before == len(others) * 4000


def test_data_of_what_has_no_memory_is_computed_first() -> None:
    """A constant, an expression of another one, a number."""
    assert Tensor.ones(2, 2).data().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert (Tensor([[1, 2], [3, 4]]) * 2).data().tolist() == [[2, 4], [6, 8]]
    assert (Tensor(3).data().shape, Tensor(3).data().tolist()) == ((), 3)


# from_blob


def test_from_blob_reads_and_writes_what_is_there() -> None:
    """The other side's writes are seen, and an assignment is seen there."""
    numbers = array("f", [1, 2, 3, 4])
    t = Tensor.from_blob(numbers.buffer_info()[0], (2, 2), dtype=dtypes.float32)
    numbers[0] = 7
    assert t.tolist() == [[7, 2], [3, 4]]
    t.assign(t * 2).realize()
    assert numbers.tolist() == [14, 4, 6, 8]
    t[0] = Tensor([5.0, 6.0])
    t.realize()
    assert numbers.tolist() == [5, 6, 6, 8]


def test_from_blob_takes_one_length_and_no_elements() -> None:
    """A shape may be an int; no elements need no address."""
    numbers = array("i", [1, 2, 3])
    assert Tensor.from_blob(numbers.buffer_info()[0], 3, dtype="int32").tolist() == [1, 2, 3]
    assert Tensor.from_blob(0, (0, 4)).tolist() == []


@pytest.mark.parametrize(
    ("address", "message"),
    [(0, "from_blob cannot use the memory at 0x0: 0x0 is no address"),
     (4098, "the memory at 0x1002: it is not aligned to the 4 bytes of a float")],
)  # fmt: skip
def test_from_blob_refuses_what_is_no_memory(address: int, message: str) -> None:
    """With a sentence that says why."""
    with pytest.raises(ValueError, match=message):
        Tensor.from_blob(address, (2,))


def test_large_memory_is_aligned_for_streamed_stores(device: str) -> None:
    """Where a device stores past the caches, which needs aligned memory, other memory is refused or copied."""
    size = Device[device].target.stream_bytes + (1 << 20)
    room = np.zeros(size + 128, np.uint8)
    start = -room.ctypes.data % 64 + 16
    off = room[start : start + size].view(np.float32)
    if not Device[device].target.stream_bytes:
        assert Tensor.from_blob(off.ctypes.data, 4).tolist() == [0.0] * 4
        return
    with pytest.raises(ValueError, match=r"needs memory of more than \d+ bytes aligned to 64, it is 16 bytes past"):
        Tensor.from_blob(off.ctypes.data, off.size)
    copied = Tensor.from_dlpack(off)
    off[0] = 3
    assert copied[0].item() == 0
    with pytest.raises(BufferError, match="cannot be shared without a copy, which copy=False forbids: CPU needs"):
        Tensor.from_dlpack(off, copy=False)
    shared = Tensor.from_dlpack(aligned(off))
    shared.assign(Tensor.full((off.size,), 4.0)).realize()
    assert shared[off.size - 1].item() == 4.0


def test_nobody_else_can_be_given_memory_of_the_host() -> None:
    """A device whose allocator cannot use it says so."""
    with pytest.raises(ValueError, match="NullAllocator cannot use memory that others made"):
        Tensor.from_blob(4096, (2,), device="NULL")


# DLPack, from others


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d not in (dtypes.bfloat16, dtypes.index)])
def test_numpy_arrays_of_every_dtype_are_taken(dtype: DType) -> None:
    """The values and the dtype are those of the array, and what is written there is seen here."""
    source = aligned([0, 1, 1], {"bool": "bool", "half": "float16"}.get(dtype.name) or np.dtype(dtype.fmt))
    t = Tensor.from_dlpack(source)
    assert (t.dtype, t.shape) == (dtype, (3,))
    source[0] = 1
    assert t.tolist() == [1, 1, 1]


def test_torch_tensors_are_taken() -> None:
    """Both ways: torch sees an assignment, we see what torch writes; bfloat16 too."""
    source = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    t = Tensor.from_dlpack(source)
    source[0, 0] = 9
    assert t.tolist() == [[9, 1, 2], [3, 4, 5]]
    t.assign(t + 1).realize()
    assert source.tolist() == [[10, 2, 3], [4, 5, 6]]
    assert Tensor.from_dlpack(torch.ones(3, dtype=torch.bfloat16)).dtype is dtypes.bfloat16


def test_the_source_lives_as_long_as_the_tensor() -> None:
    """The array is given back when nothing here needs it any more, and not before."""
    source = aligned([1, 2, 3])
    gone = weakref.ref(source)
    t = Tensor.from_dlpack(source)
    later = t * 2
    del source, t
    gc.collect()
    assert gone() is not None
    assert later.tolist() == [2, 4, 6]
    del later
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [(np.arange(12.0).reshape(3, 4).T, r"is not row-major, with strides \(1, 4\) for shape \(4, 3\)"),
     (np.arange(12.0)[::-2], "is not row-major"), (np.arange(24).reshape(2, 3, 4)[:, ::2, 1:3], "not row-major"),
     (np.broadcast_to(np.arange(3.0), (2, 3)).copy()[:, :2], "not row-major")],
)  # fmt: skip
def test_what_does_not_lie_in_order_is_copied(source: Any, reason: str) -> None:
    """Any strides, also negative ones; copy=False refuses with the reason."""
    t = Tensor.from_dlpack(source)
    assert t.tolist() == source.tolist()
    with pytest.raises(BufferError, match=reason):
        Tensor.from_dlpack(source, copy=False)


def test_what_may_not_be_written_is_copied() -> None:
    """A tensor can be assigned to, so read-only memory is not shared."""
    source = aligned([1, 2, 3])
    source.flags.writeable = False
    t = Tensor.from_dlpack(source)
    t.assign(t + 1).realize()
    assert (t.tolist(), source.tolist()) == ([2, 3, 4], [1, 2, 3])
    with pytest.raises(BufferError, match="copy=False forbids: it may not be written"):
        Tensor.from_dlpack(source, copy=False)


def test_a_copy_of_theirs_can_be_asked_for() -> None:
    """copy=True is independent of the source."""
    source = aligned([1, 2, 3])
    t = Tensor.from_dlpack(source, copy=True)
    source[0] = 9
    assert t.tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1, 3, 1)])
def test_shapes_of_every_kind_come_and_go(shape: tuple[int, ...]) -> None:
    """No axes, no elements, axes of one."""
    source = np.ones(shape, np.float32)
    t = Tensor.from_dlpack(source)
    assert t.shape == shape
    assert np.from_dlpack(t).shape == shape
    assert np.array_equal(np.from_dlpack(t + 1), source + 1)


def test_what_cannot_be_taken_is_named() -> None:
    """A dtype that there is not, memory of an accelerator, a capsule that was used, something else."""
    with pytest.raises(DTypeError, match="no dtype here is DLPack's type 3 of 64 bits in 1 lanes"):
        dlpack._dtype(dlpack.DLTensor(code=3, bits=64, lanes=1))
    with pytest.raises(BufferError, match="device type 13, number 0, and of no device that is open here; name it"):
        Tensor.from_dlpack(_Elsewhere())
    capsule = np.ones(3, np.float32).__dlpack__()
    assert Tensor.from_dlpack(capsule).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="no DLPack capsule that can be used: it was used before"):
        Tensor.from_dlpack(capsule)
    with pytest.raises(DTypeError, match="from_dlpack takes an array of another library, .* got list"):
        Tensor.from_dlpack([1, 2])


class _Elsewhere:
    """An array on another kind of device, of which only the capsule is real."""

    def __dlpack__(self) -> Any:
        """A capsule whose device type was changed."""
        view = memoryview(bytearray(8))
        capsule = dlpack.make(view, dtypes.float32, StridedLayout(0, (2,), (1,)), versioned=False)
        dlpack.Managed.from_address(dlpack._pointer(capsule, dlpack.OLD)).tensor.device_type = 13
        return capsule


# DLPack, to others


@pytest.mark.parametrize(
    "how", [np.from_dlpack, torch.from_dlpack, lambda t: t.__dlpack__()], ids=["numpy", "torch", ""]
)
def test_an_exception_on_its_way_is_not_harmed(how: Any) -> None:
    """What was shared is let go of while an exception is set: it arrives, and the memory is free again."""

    def fails() -> None:
        raise ValueError("mine")

    count = given()
    with pytest.raises(ValueError, match="mine") as caught:
        print(how(Tensor([1.0, 2.0]).realize()), fails())
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert given() == count


def test_what_a_consumer_wants_is_checked() -> None:
    """A device where the memory is not, and a stream that is no number."""
    t = Tensor([1.0]).realize()
    with pytest.raises(BufferError, match=r"shares its memory as DLPack device \(1, 0\), got \(2, 0\)"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(DTypeError, match="DLPack numbers streams, or passes None, got 'x'"):
        t.__dlpack__(stream="x")


def test_numpy_and_torch_see_the_memory_itself() -> None:
    """What they write is in the tensor, what is assigned is in their arrays."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    assert t.__dlpack_device__() == (1, 0)
    a, b = np.from_dlpack(t), torch.from_dlpack(t)
    b[0, 0] = 7
    assert (t.tolist(), a.tolist()) == ([[7, 2], [3, 4]], [[7, 2], [3, 4]])
    t.assign(t * 10).realize()
    assert (a.tolist(), b.tolist()) == ([[70, 20], [30, 40]], [[70, 20], [30, 40]])
    assert a.flags.writeable


def test_memory_that_others_hold_is_not_used_again() -> None:
    """The tensor may go; its block goes back to the pool when the last array is gone."""
    count, before = given(), GlobalCounters.mem_used
    t = Tensor([1.0] * 100).realize()
    a, b = np.from_dlpack(t), torch.from_dlpack(t)
    del t
    others = [Tensor([0.0] * 100).realize() for _ in range(4)]
    assert (a.sum(), b.sum().item(), given() - count) == (100, 100, 2)
    del a
    assert (b.sum().item(), given() - count) == (100, 1)
    del b
    assert (given() - count, GlobalCounters.mem_used - before) == (0, len(others) * 400)


def test_a_capsule_that_nobody_takes_gives_its_memory_back() -> None:
    """Versioned or not."""
    count = given()
    t = Tensor([1.0, 2.0]).realize()
    capsules = [t.__dlpack__(), t.__dlpack__(max_version=(1, 1))]
    assert given() - count == 2
    capsules.clear()
    assert given() == count


def test_a_copy_can_be_asked_for_and_forbidden() -> None:
    """copy=True gives memory of its own, copy=False refuses what is in the memory of several devices."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    own = np.from_dlpack(t, copy=True)
    own[0, 0] = 9
    assert t.tolist() == [[1, 2], [3, 4]]
    cut = t.shard((t.device, f"{t.device}:1"), 0)
    assert np.from_dlpack(cut).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(BufferError, match=r"has to be copied, which copy=False forbids\n  made at .*test_sharing"):
        cut.__dlpack__(copy=False)
    with pytest.raises(BufferError, match=r"shares its memory as DLPack device \(1, 0\), got \(2, 0\)"):
        t.__dlpack__(dl_device=(2, 0))


def test_a_device_that_the_host_cannot_see_shares_nothing() -> None:
    """The error says so, and where the tensor was made."""
    t = Tensor([1.0, 2.0], device="NULL") + 1
    with pytest.raises(BufferError, match=r"the memory of NULL is not the host's.*: move the tensor\n  made at"):
        t.__dlpack_device__()


def test_our_own_tensors_can_be_taken() -> None:
    """From one tensor to another, over the same memory."""
    t = Tensor([1.0, 2.0]).realize()
    other = Tensor.from_dlpack(t)
    t.assign(t + 1).realize()
    assert other.tolist() == [2, 3]


# With the rest


def test_a_replay_does_not_write_over_what_is_held_outside() -> None:
    """Results of a TinyJit that others hold stay what they were, also when their tensors are gone."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return ((x * 2).contiguous() + 1).realize()

    held = []
    for i in range(6):
        result = step(Tensor([float(i), i + 1.0]).realize())
        held.append((np.from_dlpack(result), result.data()))
        del result
    assert step.captured == 1
    for i, (a, view) in enumerate(held):
        assert a.tolist() == view.tolist() == [2.0 * i + 1, 2.0 * i + 3]


def test_a_value_that_is_shared_within_a_captured_call_is_not_written_over() -> None:
    """What the function gave away in the calls that were captured is not memory for the replays."""
    held = []

    @TinyJit
    def step(x: Tensor) -> Tensor:
        middle = (x * 2).realize()
        held.append(np.from_dlpack(middle))
        after = (middle + 1).realize()
        return (after * 3).realize()

    for i in range(6):
        assert step(Tensor([float(i), i + 1.0]).realize()).tolist() == [6.0 * i + 3, 6.0 * i + 9]
    for i, a in enumerate(held[:2]):
        assert a.tolist() == [2.0 * i, 2.0 * i + 2]


def test_shared_memory_is_given_back_at_exit() -> None:
    """A process that still holds arrays of ours, and tensors over theirs, ends without a word."""
    code = (
        "import numpy as np, torch, tinygraft; from tinygraft import Tensor;"
        "t = Tensor([1.0, 2.0]).realize(); a = np.from_dlpack(t); b = torch.from_dlpack(t); c = t.__dlpack__();"
        "d = Tensor.from_dlpack(torch.ones(4)); e = t.data(); print(a.sum() + d.sum().item())"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7.0\n", "")


def test_the_structs_are_those_of_dlpack() -> None:
    """Their sizes on a 64-bit machine, as dlpack.h lays them out."""
    assert [ctypes.sizeof(s) for s in (dlpack.DLTensor, dlpack.Managed, dlpack.ManagedVersioned)] == [48, 64, 80]


def test_a_view_that_begins_at_a_variable_is_shared_where_it_is_now() -> None:
    """data() and DLPack of x[i : i + 2], which has a size that is known, are that part of the memory."""
    x = Tensor([0.0, 1.0, 2.0, 3.0]).realize()
    view = x[(i := Variable("i", 0, 2).bind(1)) : i + 2]
    assert view.data().tolist() == [1.0, 2.0]
    shared = np.from_dlpack(view)  # type: ignore[arg-type]
    x.assign(x + 10).realize()
    assert shared.tolist() == [11.0, 12.0]
