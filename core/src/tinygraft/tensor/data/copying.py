"""Copying: clones, the copies of `copy` and `deepcopy`, and pickles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from tinygraft.autograd.build import laid
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.tensor.data.from_python import bytes_node
from tinygraft.tensor.state.leaf_nodes import marked, own_memory
from tinygraft.uop.ops import Ops, ShardArg
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.sizes import Shape, is_concrete
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def clone(self: Tensor, device: Place = None) -> Tensor:
    """A copy in memory of its own, on this tensor's device unless another is given.

    It is lazy, and gradients flow through it to this tensor.
    """
    if device is not None and Device.canonicalize(device) != self.device:
        return self._wrap(laid(self.uop, Device.canonicalize(device), None))
    return self._wrap(UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))


def __copy__(self: Tensor) -> Tensor:
    new = self._again()
    for part, copied in zip(self._parts(), new._parts(), strict=True):
        if part.requires_grad and part.dtype.kind == "float":
            copied.uop = marked(part.uop)  # a leaf of its own, over the same memory until one of the two is written
    new._set_flag(self.requires_grad)
    new.grad = self.grad
    return new


def __deepcopy__(self: Tensor, memo: object) -> Tensor:
    new = self.__copy__()
    if self.dtype.kind == "float" and self.requires_grad is not False and is_concrete(self.shape):
        new.uop = own_memory(self.uop)  # a leaf of its own
    new.grad = None if self.grad is None else self.grad.__copy__()
    return new


def __reduce__(self: Tensor) -> tuple[Any, ...]:
    return _pickled(self, _view_of_bytes(self).tobytes())


def __reduce_ex__(self: Tensor, protocol: SupportsIndex) -> tuple[Any, ...]:
    if int(protocol) < 5 or type(self).__reduce__ is not __reduce__:
        return self.__reduce__()
    from pickle import PickleBuffer

    return _pickled(self, PickleBuffer(_view_of_bytes(self)))


def _pickled(self: Tensor, data: Any) -> tuple[Any, ...]:
    """Return what `__reduce__` returns: the function that makes the tensor again from `data`, and its arguments."""
    parts = (data, self.shape, self.dtype, self.device, self.requires_grad, self.grad)
    return _unpickled, (type(self), *parts, self.uop.sharding)


def _view_of_bytes(self: Tensor) -> memoryview:
    """Return the elements in row-major order without a copy, where the host can see the memory."""
    buffer = self._stored()
    view = buffer.share()
    return (buffer.copy_out(memoryview(bytearray(buffer.nbytes))) if view is None else view).toreadonly()


def _unpickled(kind: type[Tensor], data: Any, shape: Shape, dtype: DType, device: Place, requires_grad: bool | None,
               grad: Any, layout: ShardArg | None = None) -> Tensor:  # fmt: skip
    """Rebuild a pickled tensor. data are its bytes, in whatever bytes-like object the pickle protocol gives."""
    new, name = object.__new__(kind), Device.canonicalize(device)
    node = bytes_node(data, shape, local_devices(name)[0] if isinstance(name, tuple) else name, dtype)
    new._set(laid(node, name, layout), requires_grad)
    new.grad = grad
    return new
