"""Sharing memory that the host does not see, with other libraries that work on the same device.

    lent(tensor, stream)             our memory for them, by DLPack
    array_interface(tensor, name)    the same by the attribute that arrays on a device are known by there
    array_of(x, name)                their memory for us, by either

Their streams are numbers. What they put on one comes after what was launched here, and what is launched here after
what they put there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import Buffer, Lent
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.capture import note_read
from tinygraft.errors import DTypeError, UnsupportedError
from tinygraft.tensor.data.dlpack import HOST
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.state.strides import StridedLayout, layout_of, row_major
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.sizes import is_concrete

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

UNORDERED = -1  # the stream of a consumer that waits for nothing
KINDS = {"float": "f", "int": "i", "uint": "u", "bool": "b"}  # of an array interface, which bfloat16 is missing in


@dataclass(slots=True)
class DeviceArray:
    """An array of another library in the memory of a device; owner keeps it alive. strides count elements.

    What it has on `stream` writes the memory; None where that has ended, or nothing is said of it.
    """

    owner: object
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int
    read_only: bool
    stream: int | None = None
    is_complex: bool = False


# Ours


def asked_for(self: Tensor, here: tuple[int, int], wanted: Any, copy: bool | None) -> tuple[int, int]:
    """The DLPack device for a consumer that wants one: where the memory is, or the host, for a copy.

    Raises BufferError for any other, and for the host where copy is False.
    """
    if wanted is None or tuple(wanted) == here:
        return here
    if tuple(wanted) != (HOST, 0):
        raise BufferError(
            f"{self.device} shares its memory as DLPack device {here}, got {wanted}\n"
            "  hint: move the tensor there first, as in t.to(device)"
        )
    if copy is False:
        raise BufferError(f"the host does not see the memory of {self.device}, and copy=False forbids to copy it there")
    return HOST, 0


def check_stream(stream: Any) -> None:
    """Raise DTypeError for a stream of a consumer that is no number."""
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
        raise DTypeError(f"DLPack numbers streams, or passes None, got {stream!r}")


def lent(self: Tensor, stream: int | None) -> tuple[Lent, StridedLayout]:
    """The memory, which its consumer uses on a stream, and where in it the elements are.

    Of a view it is the base's memory; a copy where no strides describe it.
    """
    shared = self._memory()
    layout = None
    if shared is not None and self._storage is not None:
        layout = layout_of(size_math.as_ints(self._storage.uop.shape, "data"), self._chain)
    if shared is None or layout is None:
        shape = size_math.as_ints(self.shape, "data")
        shared, layout = self._stored(), StridedLayout(0, shape, row_major(shape))
    found = shared.lend()
    if stream is None:
        shared.backend.synchronize()
    elif stream != UNORDERED:
        shared.backend.lend(stream)
    return found, layout


def array_interface(self: Tensor, name: str) -> dict[str, Any] | None:
    """What the attribute `name` of a tensor holds for consumers on its device; None where it has no such attribute.

    The memory is not used again as long as the tensor has it. Raises AttributeError with the reason where the
    device has one and this tensor does not.
    """
    device: Any = self.device
    here = (device,) if isinstance(device, str) else local_devices(device)
    if any(Device[one].array_interface != name for one in here):
        return None
    if reason := _has_no_interface(self):
        raise AttributeError(f"this tensor has no {name}: {reason}")
    kind, backend = KINDS[self.dtype.kind], Device[device]
    note_read()
    buffer = self._memory()
    layout = None
    if buffer is not None and self._storage is not None:
        layout = layout_of(size_math.as_ints(self._storage.uop.shape, "data"), self._chain)
    if layout is None:
        shape = size_math.as_ints(self.shape, "data")
        buffer, layout = self._stored(), StridedLayout(0, shape, row_major(shape))
    assert buffer is not None
    size = self.dtype.itemsize
    address = buffer.lend(for_good=True).address + layout.offset * size if buffer.nbytes else 0
    stream = backend.stream_number()
    if stream is None:
        backend.synchronize()
    elif backend.timeline is not None and buffer.block is not None:
        backend.timeline.follow_writer(buffer.block)  # who waits for that stream waits for the value
    strides = None if layout.is_row_major() else tuple(stride * size for stride in layout.strides)
    typestr = f"|{kind}1" if size == 1 else f"<{kind}{size}"
    return {"shape": tuple(layout.shape), "typestr": typestr, "data": (address, False), "version": 3,
            "strides": strides, "stream": stream}  # fmt: skip


def _has_no_interface(self: Tensor) -> str:
    """Return why an array interface cannot describe a tensor; "" where it can."""
    if not isinstance(self.device, str):
        return f"it is in the memory of several devices, {self.device}; t.to(one of them) is in one"
    if not is_concrete(self.shape):
        return f"its shape {self.shape} has sizes without a value"
    if self.dtype.kind not in KINDS or self.dtype is dtypes.bfloat16 or self.dtype in dtypes.fp8s:
        way = "share t.view_as_real()" if self.dtype.kind == "complex" else "share it by DLPack, or as t.bitcast(...)"
        return f"that has no type for {self.dtype}; {way}"
    return ""


# Theirs


def device_of(kind: tuple[int, int], name: str) -> str | None:
    """Return the device whose memory has a type and number in DLPack: `name`, another of its ordinals, or an open one.

    None where there is none. It opens `name`.
    """
    base = name.partition(":")[0]
    for device in (name, *Device.opened()):
        if Device[device].dlpack_device == kind:
            return device
    backend = Device[name].dlpack_device
    if backend is not None and backend[0] == kind[0]:
        other = Device.canonicalize(f"{base}:{kind[1]}")
        if Device[other].dlpack_device == kind:
            return str(other)
    return None


def interface_of(x: Any, name: str) -> tuple[Backend, dict[str, Any]] | None:
    """The array interface of an array in the memory of `name` or of an open device; None where it has none."""
    for device in (name, *Device.opened()):
        backend = Device[device]
        if backend.array_interface and (found := getattr(x, backend.array_interface, None)) is not None:
            return backend, found
    return None


def described(x: object, found: dict[str, Any]) -> DeviceArray:
    """Return an array `x` by its interface `found`. Raises DTypeError for a dtype, BufferError for one with a mask."""
    if found.get("mask") is not None:
        raise BufferError("an array with a mask cannot be shared\n  hint: fill its masked elements first")
    dtype = _dtype(found["typestr"])
    shape, (address, read_only) = tuple(found["shape"]), found["data"]
    given = found.get("strides")
    strides = row_major(shape) if given is None else tuple(stride // dtype.itemsize for stride in given)
    return DeviceArray(x, dtype, shape, strides, address or 0, read_only, found.get("stream"))


def owner_among(address: int, nbytes: int, backend: Backend) -> str:
    """The ordinal in whose memory an address is: that of a backend, or another open one of its kind.

    Raises BufferError.
    """
    if not nbytes:
        return backend.name
    reasons = []
    alike = [device for device in Device.opened() if Device[device].array_interface == backend.array_interface]
    for device in dict.fromkeys((backend.name, *alike)):  # any other device takes the address for one of the host
        try:
            Device[device].allocator.at_address(address, nbytes)
        except UnsupportedError as error:
            reasons.append(str(error))
            continue
        return device
    raise BufferError(
        f"no open device can use the memory at {address:#x}: {reasons[0]}\n"
        "  hint: where this array is on another device, open that one first"
    )


def follow_owner(buffer: Buffer, array: Any) -> None:
    """Let what is launched on borrowed memory come after what the library that owns it has launched on it.

    The first queue waits for that; by DLPack the other library has seen to it (`stream_number`). It counts as work of
    that queue which wrote the memory, so that other queues and devices follow it.
    """
    block, backend = buffer.block, buffer.backend
    if isinstance(array, DeviceArray):
        if array.stream is None:
            return
        backend.follow(array.stream)
    if block is not None and backend.timeline is not None:
        backend.timeline.wrote(backend.queue, block, f"import of {buffer.nbytes} bytes")


def _dtype(typestr: str) -> DType:
    """Return our dtype of a type of NumPy such as "<f4". Raises DTypeError where there is none."""
    for dtype in dtypes.all:
        kind = KINDS.get(dtype.kind)
        if dtype is not dtypes.bfloat16 and typestr in (f"<{kind}{dtype.itemsize}", f"|{kind}{dtype.itemsize}"):
            return dtype
    raise DTypeError(f"no dtype here is the type {typestr!r} of this array")
