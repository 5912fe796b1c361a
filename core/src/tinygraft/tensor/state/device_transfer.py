"""Device transfer: a tensor's values on another device, or on several at once.

On several devices a tensor is replicated, so that each device has all of it, or sharded along an axis, so that each
has one shard. It is used like any other tensor; docs/multi-device.md says what is computed where and what is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceError, ShapeError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.uop.ops import ShardArg
from tinygraft.uop.sharding import even
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import Place

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


@either_spelling
def to(self: Tensor, device: str | Sequence[str] | None) -> Tensor:
    """Return the values on a device (None is the default one), or this tensor itself where they are on it already.

    Several names give a tensor that is replicated on those devices; a tensor that is on just these devices stays as it
    is, also where it is sharded. The shards of a tensor are joined on one device. A gradient that this tensor has is
    moved with it; gradients of the result come back to this tensor's device.

    >>> from tinygraft import Tensor
    >>> Tensor(1, device="CUDA").to(device="PYTHON").device
    'PYTHON'
    """
    name = Device.canonicalize(device)
    return self if name == self.device else _laid(self, name, None)


def to_(self: Tensor, device: str | Sequence[str] | None) -> Tensor:
    """Move this tensor, and its gradient, to a device, or to several; return it.

    None is the default device. Raises as `to`.
    """
    return self._become(self.to(device))


@either_spelling
def shard(self: Tensor, devices: Sequence[str], axis: int | None = None, splits: Sequence[int] | None = None) -> Tensor:
    """The values on several devices: sharded along axis, or replicated on each when axis is None.

    splits says how many elements along axis each device gets; without it the shards have equal sizes, and the last
    ones are smaller or empty where the size of the axis does not divide. A device may be named twice. Raises
    ShapeError for an axis that does not exist or splits that do not add up, DeviceError for names of no device.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[1, 2], [3, 4], [5, 6]]).shard(("PYTHON", "PYTHON:1"), axis=0)
    >>> t.device, t.sharding, (t * 2).sum().tolist()
    (('PYTHON', 'PYTHON:1'), (0, (2, 1)), 42)
    """
    if isinstance(devices, str) or not isinstance(devices, Sequence):
        raise DeviceError(f"shard needs the names of several devices as a tuple, got {devices!r}")
    name = Device.canonicalize(tuple(devices))
    if axis is None:
        if splits is not None:
            raise ShapeError(
                f"shard got splits={tuple(splits)} and no axis to cut: say which, as in axis=0\n"
                f"  made at {self._where()}"
            )
        moved = _laid(self, name, None)
    else:
        layout = _layout(self, axis, splits, name if isinstance(name, tuple) else (name,))
        moved = _laid(self, name, layout if isinstance(name, tuple) else None)
    return self._again() if moved is self else moved  # a new tensor in any case, as shard_ is the one that changes self


@either_spelling
def shard_(
    self: Tensor, devices: Sequence[str], axis: int | None = None, splits: Sequence[int] | None = None
) -> Tensor:
    """Put this tensor, and its gradient, on several devices as `shard` does, which says what raises; return it."""
    return self._become(self.shard(devices, axis, splits))


def shard_like(self: Tensor, y: TensorBase) -> Tensor:
    """The values on the devices of another tensor, sharded as that one is. Raises ShapeError where that cannot be.

    >>> from tinygraft import Tensor
    >>> a = Tensor.ones(4, device="PYTHON").shard(("PYTHON", "PYTHON:1"), axis=0)
    >>> Tensor([1.0, 2.0, 3.0, 4.0], device="PYTHON").shard_like(a).sharding
    (0, (2, 2))
    """
    if (layout := y.uop.sharding) is None:
        return self.to(y.device)
    return self.shard(y.device, layout.axis, layout.sizes)


def sharding(self: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """The axis along which this tensor is sharded and the size of each shard; None where each device has all of it."""
    layout = self.uop.sharding
    return None if layout is None else (layout.axis, layout.sizes)


def _laid(self: Tensor, device: Place, layout: ShardArg | None) -> Tensor:
    """Return this tensor on a device or several, or itself where it is there already; its .grad is copied with it."""
    node = laid(self.uop, device, layout)
    if node is self.uop:
        return self
    new = self._wrap(node)
    if self.grad is not None:
        new.grad = self.grad._wrap(laid(self.grad.uop, device, layout))
    return new


def _become(self: Tensor, moved: TensorBase) -> Tensor:
    """Give `self` the value and gradient of `moved`; returns `self`, which is no view of its old memory any more."""
    # a tensor that stays where it is keeps its views
    if moved is not self:
        if self._storage is not None:
            self._storage.leave(self)
        self.uop, self.grad = moved.uop, moved.grad
    return self


def _layout(self: Tensor, axis: int, splits: Sequence[int] | None, names: tuple[str, ...]) -> ShardArg:
    """Return the layout in which the devices `names` have this tensor sharded along `axis`, with `splits` if given.

    Raises ShapeError for an axis that cannot be cut, and for splits that are not one for each device and add up.
    """
    counted = self._axis(axis)
    if not self.ndim or not is_concrete((self.shape[counted],)):
        why = "it has no axes" if not self.ndim else f"its length {show_arg(self.shape[counted])} is symbolic"
        raise ShapeError(
            f"shard cannot cut axis {axis} of shape {show_arg(self.shape)}: {why}\n  made at {self._where()}"
        )
    length: int = self.shape[counted]
    sizes: tuple[Any, ...] = even(length, len(names)) if splits is None else tuple(splits)
    if len(sizes) != len(names):
        raise ShapeError(
            f"shard needs one split for each of {len(names)} devices, got {sizes}\n  made at {self._where()}"
        )
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != length:
        raise ShapeError(
            f"shard cannot cut axis {axis} of {self.shape}, which has {length} elements, into splits {sizes}: they "
            f"have to be sizes that add up to {length}\n  made at {self._where()}"
        )
    return ShardArg(counted, sizes)
