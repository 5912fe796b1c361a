"""Places that lie outside an axis: raised where they are known, and with CHECK_INDEX=1 always.

A tensor, an index tensor and an axis in; IndexOutOfRange where a place is outside. What is not known, the default lets
pass: a read gives 0 and a write is dropped. With CHECK_INDEX=1 each index tensor is read when it is used, so that the
error comes from the line that uses it. Inside vmap it has no value yet: it is kept (`waiting`) and read afterwards.
A TinyJit runs its function in every call then, since the function reads values.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tinygraft.config import CHECK_INDEX
from tinygraft.errors import DTypeError, IndexOutOfRange
from tinygraft.tensor import lengths
from tinygraft.tensor.base import TensorBase
from tinygraft.tensor.listening import Listening
from tinygraft.uop.ops import Ops
from tinygraft.uop.shape import Shape
from tinygraft.uop.uop import toposort


@dataclass(frozen=True, slots=True)
class Use:
    """An index along one axis of a shape. origin is the last line of a message about it: where both were made."""

    shape: Shape
    axis: int
    origin: str

    def check(self, places: Any) -> None:
        """Raise IndexOutOfRange for the first of places (an int, or a numpy array of integers) that lies outside."""
        size = _length(self.shape, self.axis)
        if size is None:
            return
        if isinstance(places, int):
            if not -size <= places < size:
                raise IndexOutOfRange(self._message(f"{places}", size))
            return
        outside = (places < -size) | (places >= size)
        if outside.any():
            at = tuple(int(part[0]) for part in outside.nonzero()) if places.ndim else ()
            place = f", at {at} of an index of shape {places.shape}," if at else ""
            raise IndexOutOfRange(self._message(f"{places[at]}{place}", size))

    def _message(self, what: str, size: int) -> str:
        return (
            f"index {what} is out of range for axis {self.axis} of shape {self.shape}: it has {size} elements\n"
            f"  {self.origin}"
        )


def _length(shape: Shape, axis: int) -> int | None:
    """How many elements an axis has, as far as it is known; a number counts as one."""
    return lengths.now(shape[axis] if shape else 1)


def use(tensor: Any, axis: int, index: Any = None) -> Use:
    """The use of an index (a tensor where it has a line of its own) along an axis. Looking up lines takes time."""
    if index is None:
        return Use(tensor.shape, axis, f"made at {tensor._where()}")
    return Use(tensor.shape, axis, f"index made at {index._where()}      tensor made at {tensor._where()}")


_listening = Listening[tuple[Any, Use]]()


def waiting() -> AbstractContextManager[list[tuple[Any, Use]]]:
    """The index tensors that the block uses, in this thread, and that have no value yet; each with its use."""
    return _listening.block()


def check(tensor: Any, index: Any, axis: int) -> None:
    """Raise IndexOutOfRange where an index tensor leaves an axis, if that is known or CHECK_INDEX=1 asks for it."""
    if not index.size:
        return
    size, node = _length(tensor.shape, axis), index.uop
    if size == 0:
        raise IndexOutOfRange(
            f"an index of shape {index.shape} cannot name places of axis {axis} of shape {tensor.shape}, which has no "
            f"elements\n  {use(tensor, axis, index).origin}"
        )
    if size is not None and -size <= node.lo and node.hi < size:
        return
    if CHECK_INDEX.value:
        read(index, use(tensor, axis, index))
    elif size is not None and (node.lo >= size or node.hi < -size):
        use(tensor, axis, index).check(int(node.lo if node.lo >= size else node.hi))


def labels(predictions: Any, given: Any, axis: int, ignored: int | None) -> None:
    """With CHECK_INDEX=1, raise IndexOutOfRange where a label is no class of an axis, nor the one that is ignored."""
    size = _length(predictions.shape, axis)
    if not CHECK_INDEX.value or size is None or any(source.op is Ops.PLACEHOLDER for source in toposort(given.uop)):
        return
    values = given.numpy()
    outside = (values < 0) | (values >= size)
    if ignored is not None:
        outside &= values != ignored
    if outside.any():
        at = tuple(int(part[0]) for part in outside.nonzero()) if values.ndim else ()
        raise IndexOutOfRange(
            f"label {values[at]}, at {at} of labels of shape {values.shape}, is no class: axis {axis} of the "
            f"predictions, shape {predictions.shape}, has {size}\n"
            f"  labels made at {given._where()}      predictions made at {predictions._where()}"
        )


def given(tensor: Any, index: Any, axis: int, what: str) -> Any:
    """An index of any number of axes as a tensor of integers. A list or an array is known, and so checked at once."""
    if isinstance(index, TensorBase):
        if index.dtype.kind not in ("int", "uint"):
            raise DTypeError(f"{what} needs an index of integers, got {index.dtype}\n  made at {index._where()}")
        check(tensor, index, axis)
        return index
    import numpy as np

    places = np.asarray(index)
    if places.dtype.kind not in "iu" and places.size:
        raise DTypeError(
            f"{what} needs an index of integers, got {places.dtype} for a tensor of shape {tensor.shape}\n"
            f"  made at {tensor._where()}"
        )
    if places.size:
        use(tensor, axis).check(places)
    return type(tensor)(places.astype(np.int64), device=tensor.device)


def read(index: Any, use: Use) -> None:
    """Check the values of an index tensor; one that has none yet is kept for who waits for it."""
    if not any(source.op is Ops.PLACEHOLDER for source in toposort(index.uop)):
        use.check(index.numpy())
    elif _listening.lists:
        _listening.lists[-1].append((index, use))
