"""Sharing: memory used by a tensor and by other code at once, without a copy.

A tensor's memory as a memoryview or through DLPack, and tensors over borrowed memory. Memory that is shared
with other code is not reused, also not after its tensor is gone. Writes of one side are visible to the other, also in
an expression that is not computed yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.registry import Device
from tinygraft.downloads import fetch
from tinygraft.dtype import DType, DTypeLike, dtypes, to_dtype
from tinygraft.engine.capture import note_read
from tinygraft.engine.exclusive import import_late
from tinygraft.errors import DTypeError, ShapeError, UnsupportedError
from tinygraft.tensor.data.from_python import bytes_node
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.state.strides import StridedLayout, layout_of, row_major
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def data(self: Tensor) -> memoryview:
    """The values as a read-only memoryview of this shape (flat where it has no elements).

    Where the host can see the memory, this is the memory: no copy is made, an assignment to the tensor is visible,
    and the memory stays as long as the view. Of a view of another tensor it is the base's memory, with strides.
    Raises DTypeError for dtypes that memoryview has no format for, BufferError for a view that no strides describe.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[1, 2], [3, 4]])
    >>> view = t.data()
    >>> t.assign(t * 10).realize().shape, view.tolist()
    ((2, 2), [[10, 20], [30, 40]])
    """
    fmt: Any = self.dtype.fmt
    if fmt is None or fmt == "e":
        raise DTypeError(f"memoryview has no format for {self.dtype}; cast first, as in t.float().data()")
    view, layout = lent_memory(self)
    if not view.nbytes or 0 in layout.shape:
        return memoryview(b"").cast(fmt)
    if layout.is_row_major():
        start, count = layout.offset * self.dtype.itemsize, prod(layout.shape) * self.dtype.itemsize
        flat = view[start : start + count]
        return flat.cast(fmt, layout.shape).toreadonly()
    import numpy as np

    strides = [stride * self.dtype.itemsize for stride in layout.strides]
    array: Any = np.ndarray(layout.shape, np.dtype(fmt), view, layout.offset * self.dtype.itemsize, strides)
    return memoryview(array).toreadonly()


def lent_memory(self: Tensor) -> tuple[memoryview, StridedLayout]:
    """The bytes of the memory, and where in it the elements are; of a copy where the host cannot see the memory.

    Of a view it is the base's memory. Raises BufferError for a view that no strides describe.
    """
    shared = self._memory()
    view = None if shared is None else shared.share()
    if view is None:
        buffer, shape = self._stored(), size_math.as_ints(self.shape, "data")
        view = buffer.share()
        if view is None:
            view = buffer.copy_out(memoryview(bytearray(buffer.nbytes)))
        return view, StridedLayout(0, shape, row_major(shape))
    assert self._storage is not None
    layout = layout_of(size_math.as_ints(self._storage.uop.shape, "data"), self._chain)
    if layout is None:
        raise BufferError(
            f"no strides say where the elements of this view are, of shape {self.shape}: it was reshaped where its "
            f"elements are not one after another in the memory that it shares\n  made at {self._where()}\n"
            "  hint: share a copy of them, as in t = t.clone()"
        )
    return view, layout


def _memory(self: Tensor) -> Buffer | None:
    """Return the memory of this tensor's storage, pending writes done; None for a value, or on several devices."""
    if self._storage is None:
        return None
    if not is_concrete(self.shape):
        self._stored()  # raises
    self.realize()
    storage = self._storage
    if storage is None or not storage.is_shared(self):
        return None
    storage.settle()  # also drops the elements that views have cached, since other code may write them now
    node = memory_base(storage.uop)
    note_read()
    return buffer_of(node) if node.op is Ops.BUFFER else None


def from_url(cls: type[Tensor], url: str, gunzip: bool = False, **kwargs: Any) -> Tensor:
    """The bytes of what is at a url, downloaded once and read from there when they are needed, as of a path.

    gunzip unpacks it. Keywords are those of Tensor: device, dtype, requires_grad. Raises FetchError.
    """
    return cls(fetch(url, gunzip=gunzip), **kwargs)


def from_blob(
    cls: type[Tensor], ptr: int, shape: int | Sequence[int], dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """A tensor over the memory at an address, row-major, without a copy. Its owner has to keep it.

    The memory is written where the tensor is assigned to. Raises ValueError for an address that is none or badly
    aligned, and on a device that cannot use the memory of others; DTypeError for an address that is no integer,
    ShapeError for a size below 0.

    >>> from tinygraft import Tensor
    >>> from array import array
    >>> numbers = array("f", [1, 2, 3, 4])
    >>> t = Tensor.from_blob(numbers.buffer_info()[0], (2, 2))
    >>> t.assign(t + 1).tolist(), numbers.tolist()
    ([[2.0, 3.0], [4.0, 5.0]], [2.0, 3.0, 4.0, 5.0])
    """
    if not isinstance(ptr, int):
        raise DTypeError(f"from_blob needs an address, which is an integer, got {ptr!r} for shape {shape}")
    of = to_dtype(dtype) if dtype is not None else dtypes.default_float
    sizes = size_math.as_ints(size_math.as_sizes((shape,), "a shape"), "from_blob")
    if min(sizes, default=0) < 0:
        raise ShapeError(f"a shape is made of sizes that are not negative, got {sizes}")
    name = Device.canonicalize(device)
    if reason := _unusable(ptr, sizes, of, name):
        raise ValueError(f"from_blob cannot use the memory at {ptr:#x}: {reason}")
    return _over(cls, ptr, sizes, of, name, None)


def _over(cls: type[Tensor], address: int, shape: tuple[int, ...], dtype: DType, device: str, owner: object,
          is_there: bool = False) -> Tensor:  # fmt: skip
    """Return a tensor over memory that `owner` keeps alive: an array of another library on the device if `is_there`."""
    node = UOp.buffer(device, size_math.as_int(size_math.product(shape), "memory"), dtype)
    buffer = buffer_of(node)
    if buffer.nbytes:
        buffer.borrow(buffer.backend.allocator.at_address(address, buffer.nbytes), owner)
        if is_there:
            from tinygraft.tensor.data import on_device

            on_device.follow_owner(buffer, owner)
    buffer.filled = True
    new = object.__new__(cls)
    new._set(UOp(Ops.RESHAPE, dtype, (node,), shape), None)
    return new


# DLPack


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """The functions of the Python array API standard. Raises ValueError for a version that they do not follow.

    >>> from tinygraft import Tensor
    >>> xp = Tensor([1.0]).__array_namespace__()
    >>> xp.concat([xp.zeros(1), xp.ones(1)]).tolist()
    [0.0, 1.0]
    """
    array_api = import_late("tinygraft.array_api")  # above this module: it is made of the methods of Tensor

    if api_version not in (None, *array_api.VERSIONS):
        known = ", ".join(array_api.VERSIONS)
        raise ValueError(f"the array API standard is implemented in the versions {known}, got {api_version!r}")
    return array_api


def to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """`to`, as the array API standard names it. Raises ValueError unless `stream` is None."""
    if stream is not None:
        raise ValueError(f"a copy between devices takes no stream, got {stream!r}")
    return self.to(device)


def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """The kind of memory and its number: (1, 0) is host memory. Raises BufferError where DLPack has no name for it."""
    buffer = self._memory() or self._stored()
    if buffer.share() is not None:
        return 1, 0
    if (found := buffer.backend.dlpack_device) is not None:
        return found
    raise BufferError(
        f"the memory of {self.device} is not the host's, and DLPack has no name for it: move the tensor\n"
        f"  made at {self._where()}"
    )


def __dlpack__(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """The memory as a DLPack capsule, writable by both sides. numpy.from_dlpack and torch.from_dlpack call this.

    stream is that of a consumer on a device, which then waits for what was launched here. A view of another tensor is
    its base's memory, with strides. copy=True always copies, as dl_device=(1, 0) does of memory that the host does not
    see. Raises BufferError for a view that no strides describe or that runs backwards (flip), for another dl_device,
    and when copy=False forbids a copy that is needed: of a tensor over several devices, or for the host.
    """
    from tinygraft.tensor.data import dlpack, on_device

    here = on_device.asked_for(self, self.__dlpack_device__(), dl_device, copy)
    on_device.check_stream(stream)
    if copy is False and self.uop.sharding is not None:
        raise BufferError(
            f"this tensor is in the memory of several devices, {self.device}: it has to be copied, which "
            f"copy=False forbids\n  made at {self._where()}"
        )
    given = self.clone() if copy else self
    view, layout = on_device.lent(given, stream) if here[0] != dlpack.HOST else lent_memory(given)
    if min(layout.strides, default=0) < 0:  # PyTorch 2.13 aborts the process for negative strides
        raise BufferError(
            f"this view runs backwards through the memory that it shares, with strides {layout.strides} for shape "
            f"{self.shape}, which not all libraries with DLPack support\n  made at {self._where()}\n"
            "  hint: share a copy of it, as in t = t.clone(), or read t.data()"
        )
    versioned = (max_version or (0, 0))[0] >= 1
    if isinstance(view, memoryview):
        return dlpack.make(view, self.dtype, layout, versioned)
    return dlpack.make_on(here, view, self.dtype, layout, versioned)


def from_dlpack(cls: type[Tensor], x: Any, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array (or of a capsule), without a copy where that can be.

    Memory of an accelerator becomes a tensor there, which is moved if device names another one. An array without
    DLPack may have an interface of its device's own. It is copied where it is read-only, not row-major, badly aligned,
    or not usable by device; copy=True always copies, copy=False raises BufferError instead. Raises BufferError for
    memory that no device here has.

    >>> from tinygraft import Tensor
    >>> import numpy as np
    >>> array = np.arange(3, dtype=np.float32)
    >>> t = Tensor.from_dlpack(array)
    >>> array[0] = 5
    >>> t.tolist()
    [5.0, 1.0, 2.0]
    """
    wanted = Device.canonicalize(device)
    found, home = _found_on(x, wanted)
    name = home or wanted
    is_moved = device is not None and name != wanted
    if copy is False and is_moved:
        raise BufferError(f"this array is in the memory of {name}, and copy=False forbids to move it to {wanted}")
    reason = "it may not be written" if found.read_only else ""
    if found.is_complex:
        reason = "its real and imaginary parts have to be separated"
    if 0 not in found.shape and _strided(found):
        reason = f"it is not row-major, with strides {found.strides} for shape {found.shape}"
    reason = reason or _unusable(found.address, found.shape, found.dtype, name)
    if copy is False and reason:
        raise BufferError(f"this array cannot be shared without a copy, which copy=False forbids: {reason}")
    shared = not (copy or reason)
    where = found.address, found.shape, found.dtype, name, found
    made = _over(cls, *where, is_there=bool(home)) if shared else _copied(cls, found, name, home)
    made = made.view_as_complex() if found.is_complex else made
    return made.to(wanted) if is_moved else made


def _found_on(x: Any, name: str) -> tuple[Any, str]:
    """Return an array of another library and the device that it is on, "" for host memory. Raises BufferError."""
    from tinygraft.tensor.data import dlpack, on_device

    if not hasattr(x, "__dlpack__") and (given := on_device.interface_of(x, name)) is not None:
        backend, facts = given
        array = on_device.described(x, facts)
        return array, on_device.owner_among(array.address, prod(array.shape) * array.dtype.itemsize, backend)
    kind = tuple(x.__dlpack_device__()) if hasattr(x, "__dlpack_device__") else (dlpack.HOST, 0)
    home = None if kind[0] == dlpack.HOST else on_device.device_of(kind, name)
    found = dlpack.take(_capsule_of(x, None if home is None else Device[home].stream_number()))
    if found.device_type == dlpack.HOST:
        return found, ""
    home = home or on_device.device_of((found.device_type, found.device_id), name)
    if home is None:
        raise BufferError(
            f"this memory is of DLPack device type {found.device_type}, number {found.device_id}, and of no device "
            "that is open here; name it, as in Tensor.from_dlpack(x, device=...), or move the array to the host first"
        )
    return found, home


def _copied(cls: type[Tensor], found: Any, device: str, home: str) -> Tensor:
    """Return a tensor with the values of a foreign array, which is on `home` or the host, in memory of its own."""
    from ctypes import c_ubyte

    itemsize = found.dtype.itemsize
    spans = [(size - 1) * stride for size, stride in zip(found.shape, found.strides, strict=True)]
    before = -sum(span for span in spans if span < 0)
    count = 0 if 0 in found.shape else before + sum(span for span in spans if span > 0) + 1
    start = found.address - before * itemsize
    if home and count:
        flat = _over(cls, start, (count,), found.dtype, device, found, is_there=True).clone().realize()
    else:
        memory = (c_ubyte * (count * itemsize)).from_address(start) if count else b""
        flat = object.__new__(cls)
        flat._set(bytes_node(memoryview(memory).cast("B"), (count,), device, found.dtype), None)
    if not count or not _strided(found):
        return flat.reshape(found.shape)
    index: Any = before
    for axis, (size, stride) in enumerate(zip(found.shape, found.strides, strict=True)):
        steps = cls.arange(size, dtype=dtypes.int64, device=device) * stride
        index = steps.reshape((1,) * axis + (size,) + (1,) * (len(found.shape) - axis - 1)) + index
    copied: Tensor = flat[index].contiguous().realize()
    return copied


def _strided(found: Any) -> bool:
    """Return whether the elements are not row-major; the stride of an axis of one element does not matter."""
    wanted = row_major(found.shape)
    return any(size > 1 and a != b for size, a, b in zip(found.shape, found.strides, wanted, strict=True))


def _unusable(address: int, shape: tuple[int, ...], dtype: DType, device: str) -> str:
    """Return why a device cannot use borrowed memory at an address; "" when it can. Opens the device."""
    nbytes = size_math.as_int(size_math.product(shape), "memory") * dtype.itemsize
    if not nbytes:
        return ""
    if address <= 0:
        return f"{address:#x} is no address"
    if address % dtype.itemsize:
        return f"it is not aligned to the {dtype.itemsize} bytes of a {dtype.name}"
    target = Device[device].target
    if target.stream_bytes and nbytes > target.stream_bytes and address % target.alignment:
        return (f"{device} needs memory of more than {target.stream_bytes} bytes aligned to {target.alignment}, it is "
                f"{address % target.alignment} bytes past that")  # fmt: skip
    try:
        Device[device].allocator.at_address(address, nbytes)
    except UnsupportedError as error:
        return str(error)
    return ""


def _capsule_of(x: Any, stream: int | None = None) -> Any:
    """Return the capsule of an array, of the newest version that it supports; `x` itself where it is a capsule.

    `stream` is where its memory will be used. Raises DTypeError for anything else.
    """
    if not hasattr(x, "__dlpack__"):
        if type(x).__name__ == "PyCapsule":
            return x
        raise DTypeError(
            "from_dlpack takes an array of another library, which has a method __dlpack__, or its capsule, got "
            f"{type(x).__name__}\n  hint: Tensor(data) takes numbers and lists"
        )
    on: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        return x.__dlpack__(max_version=(1, 0), **on)
    except TypeError:  # an older library
        return x.__dlpack__(**on)
