"""Indices outside of an axis: an error where their values are known, and with CHECK_INDEX=1 always.

A tensor, an index tensor and an axis in; IndexOutOfRange where an index is outside. Integers in memory of the host are
looked at (`known`). Those still to be computed are not without CHECK_INDEX=1: a read outside gives 0 and a write is
dropped. With it each index tensor is read when it is used, so that the error comes from the line that uses it. Inside
vmap an index tensor has no value yet: it is recorded (`waiting`) and read afterwards. A TinyJit then runs its function
in every call, since the function reads values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tinygraft.config import CHECK_INDEX
from tinygraft.device.buffer import buffer_of
from tinygraft.engine.capture import open_captures
from tinygraft.errors import DTypeError, IndexOutOfRange
from tinygraft.tensor.data.from_python import array_of
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.listeners import Listening
from tinygraft.tensor.state.recording import again, impure
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import toposort


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The use of an index on one axis of a shape. `origin` is the last line of a message: where both were made."""

    shape: Shape
    axis: int
    origin: str
    from_end: bool = True  # a negative index counts from the end

    def check(self, indices: Any) -> None:
        """Raise IndexOutOfRange for the first of `indices` (an int, or a numpy array of integers) that is outside."""
        size = _length(self.shape, self.axis)
        if size is None:
            return
        least = -size if self.from_end else 0
        if isinstance(indices, int):
            if not least <= indices < size:
                raise IndexOutOfRange(self._message(indices, "", size))
            return
        wrong = (indices < least) | (indices >= size)
        if wrong.any():
            at = tuple(int(of_axis[0]) for of_axis in wrong.nonzero()) if indices.ndim else ()
            where = f", at {at} of an index of shape {indices.shape}," if at else ""
            raise IndexOutOfRange(self._message(int(indices[at]), where, size))

    def _message(self, index: int, where: str, size: int) -> str:
        """Return the message for an index that is outside of the `size` elements of this axis; `where` is its place."""
        return (
            f"index {index}{where} is out of range for axis {self.axis} of shape {self.shape}: it has {size} elements"
            f"{'' if self.from_end or index >= 0 else ', and none is counted from the end'}\n  {self.origin}"
        )


def _length(shape: Shape, axis: int) -> int | None:
    """Return how many elements an axis has, as far as it is known; a number counts as one."""
    return size_math.now(shape[axis] if shape else 1)


def use(tensor: Any, axis: int, index: Any = None, from_end: bool = True) -> IndexUse:
    """Return the use of an index on `axis` of `tensor`; `index` is a tensor, or None where the user wrote no tensor.

    Made only for a message or a delayed check: looking up the lines takes time.
    """
    if index is None:
        return IndexUse(tensor.shape, axis, f"made at {tensor._where()}", from_end)
    origin = f"index made at {index._where()}      tensor made at {tensor._where()}"
    return IndexUse(tensor.shape, axis, origin, from_end)


_listening = Listening[tuple[Any, IndexUse]]()


def waiting() -> AbstractContextManager[list[tuple[Any, IndexUse]]]:
    """Return a context whose list gets (index, use) for each index without a value that its block uses here."""
    return _listening.block()


def check(tensor: Any, index: Any, axis: int, from_end: bool = True) -> None:
    """Raise IndexOutOfRange where an index tensor leaves an axis: by its bounds, or by its values where it is `known`.

    With CHECK_INDEX=1 its values are read in any case. Unless `from_end`, a known negative index is outside, too.
    """
    if not index.size:
        return
    size, node = _length(tensor.shape, axis), index.uop
    if size == 0:
        raise IndexOutOfRange(
            f"an index of shape {index.shape} cannot index axis {axis} of shape {tensor.shape}, which has no "
            f"elements\n  {use(tensor, axis, index).origin}"
        )
    least = -(size or 0) if from_end else 0
    # bounds of the values decide without reading them: as for arange, argmax, or x % n
    if size is not None and least <= node.lo and node.hi < size:
        return
    if again(check, (tensor, index), axis, from_end):
        return
    if CHECK_INDEX.value:
        impure()
        read(index, use(tensor, axis, index, from_end))
    elif size is None:
        return
    elif node.lo >= size or node.hi < least:
        use(tensor, axis, index, from_end).check(int(node.lo if node.lo >= size else node.hi))
    elif (values := known(index)) is not None and outside(values, least, size):
        use(tensor, axis, index, from_end).check(_array(values, index))


READ_AT_MOST = (
    65_536  # integers of an index: one look took 2 to 26 us beside 0.2 to 1.8 ms of its use (CPU, 2026-11-28)
)
_FEW = 128  # integers of which Python finds the least and the greatest sooner than NumPy


def known(index: Any) -> memoryview | None:
    """Return the numbers of a tensor in row-major order if they are in memory of the host, else None.

    Nothing is computed or waited for: None for numbers that are still to be computed, on a device that works beside
    the host, for more than READ_AT_MOST, for floats that Python has no format for, and while a TinyJit captures.
    """
    base = memory_base(index.uop)
    if base.op in (Ops.BUFFER, Ops.PLACEHOLDER):
        impure()
    if base.op is not Ops.BUFFER or open_captures() or not 0 < base.shape[0] <= READ_AT_MOST or not index.dtype.fmt:
        return None
    buffer = buffer_of(base)
    if buffer.backend.timeline is not None or (host := buffer.backend.allocator.as_host(buffer.handle)) is None:
        return None
    return host.cast("B")[: buffer.nbytes].cast(index.dtype.fmt)


def outside(values: memoryview, least: int, size: int) -> bool:
    """Return whether one of the `known` integers is below `least`, or not below `size`."""
    if len(values) <= _FEW:
        return not (least <= min(values) and max(values) < size)
    import numpy as np

    found = np.asarray(values)
    return bool(found.min() < least or found.max() >= size)


def _array(values: memoryview, index: Any) -> Any:
    """Return the `known` integers of an index as an array of its shape."""
    import numpy as np

    return np.asarray(values).reshape(index.shape)


def known_array(index: Any) -> Any:
    """Return the numbers of a tensor as a numpy array of its shape if they are `known`, else None."""
    values = known(index)
    return None if values is None else _array(values, index)


def labels(
    predictions: Any, given: Any, axis: int, ignored: int | None = None, counted: Any = None,
    counted_of: Callable[[Any], Any] | None = None, may_ignore: bool = False,
) -> Any:  # fmt: skip
    """Return where a label is no class of an axis and is not ignored, as bools in the shape of the labels, or None.

    None says that there is no such label. `counted` masks the labels that are checked; all, unless given. `counted_of`
    makes the same mask, in numpy, of the labels as an array; without it labels that are `known` are not checked under a
    mask. With `may_ignore` the user's method has an ignore_index, which a message may hint at. Raises IndexOutOfRange
    for a label that is known to be no class, and with CHECK_INDEX=1 for any.
    """
    size = _length(predictions.shape, axis)
    if _is_within(given, size):
        return None
    if size is not None:
        _check_labels(predictions, given, axis, ignored, may_ignore, counted, counted_of)
    if ignored is not None:
        counted = given.ne(ignored)
    # not known: the caller makes NaN of the loss there (`nan_where`)
    wrong = (given < 0) | (given >= predictions.shape[axis])
    return wrong if counted is None else wrong & counted


def _check_labels(
    predictions: Any, given: Any, axis: int, ignored: int | None, may_ignore: bool, counted: Any = None,
    counted_of: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Raise IndexOutOfRange as `labels` does; a repeated call does so again, unless `counted` is given."""
    if counted is None and again(_check_labels, (predictions, given), axis, ignored, may_ignore):
        return
    if ignored is not None:
        counted, counted_of = given.ne(ignored), lambda values: values != ignored
    size = _length(predictions.shape, axis)
    assert size is not None, "the classes are counted"

    def message(value: int, where: str) -> str:
        """Return the message for a wrong label; `where` is "", or the label's index, as in ", at (1,),"."""
        return (
            f"label {value}{where and f'{where[:-1]} of labels of shape {given.shape},'} is no class: axis {axis} of "
            f"the predictions, shape {predictions.shape}, has {size}\n"
            f"  labels made at {given._where()}      predictions made at {predictions._where()}"
            + (f"\n  hint: ignore_index={value} leaves these samples out" if may_ignore and value < 0 else "")
        )

    _check_below(given, size, message, counted, counted_of=counted_of)


def classes(given: Any, count: int, values: Any = None) -> None:
    """Raise IndexOutOfRange for a number that is no class below `count`, if that is known or with CHECK_INDEX=1.

    `values` are those of `given` as a numpy array, where the caller has read them.
    """
    if values is None and not _is_within(given, count) and again(classes, (given,), count):
        return

    def message(value: int, where: str) -> str:
        """Return the message for a number that is no class; `where` as in `labels`."""
        return (
            f"label {value}{where and f'{where[:-1]} of labels of shape {given.shape},'} is no class: one_hot has "
            f"{count}\n  labels made at {given._where()}"
        )

    if not _is_within(given, count):
        _check_below(given, count, message, values=values)


def spans(predictions: Any, given: Any, most: int, name: str, values: Any = None) -> Any:
    """Return where the length of a sequence is below 0 or above `most`, as bools; None where there is no such length.

    `values` are the lengths as a numpy array, where they are known. Raises IndexOutOfRange for one that is known to be
    wrong, and with CHECK_INDEX=1 for any.
    """

    def message(value: int, where: str) -> str:
        """Return the message for a wrong length; `where` as in `labels`."""
        return (
            f"ctc_loss needs {name} from 0 to {most}, got {value}{where.rstrip(',')}\n"
            f"  lengths made at {given._where()}      predictions made at {predictions._where()}"
        )

    if _is_within(given, most + 1):
        return None
    _check_below(given, most + 1, message, values=values)
    return (given < 0) | (given > most) if values is None else None


def no_blank(given: Any, blank: int, counted_of: Callable[[Any], Any] | None = None) -> None:
    """Raise ValueError for a label of ctc_loss that is the blank; `counted_of` makes the mask of those that count.

    They are checked where they are `known`, and with CHECK_INDEX=1 in any case.
    """
    if not given.uop.lo <= blank <= given.uop.hi:
        return
    found = known_array(given)
    if found is None and CHECK_INDEX.value and not any(n.op is Ops.PLACEHOLDER for n in toposort(given.uop)):
        found = given.numpy()
    if found is None:
        return
    wrong = found == blank if counted_of is None else (found == blank) & counted_of(found)
    if wrong.any():
        at = tuple(int(part[0]) for part in wrong.nonzero())
        raise ValueError(
            f"ctc_loss needs labels that are not its blank, {blank}: the one at {at} of labels of shape {given.shape} "
            f"is\n  labels made at {given._where()}\n  hint: blank is a class of its own; set blank=, or leave it out "
            "of the labels"
        )


def bag_offsets(numbers: Any, given: Any, most: int) -> None:
    """Raise ValueError for offsets of bags that do not begin with 0, that fall, or that are more than `most`.

    They are checked where they are `known`, and with CHECK_INDEX=1 in any case. `numbers` are what the bags hold.
    """
    found = known_array(given)
    if found is None and CHECK_INDEX.value and not any(n.op is Ops.PLACEHOLDER for n in toposort(given.uop)):
        found = given.numpy()
    if found is None or not found.size:
        return
    falls = found[1:] < found[:-1]
    wrong = f"the first is {found[0]}" if found[0] else ""
    if falls.any():
        at = int(falls.argmax())
        wrong = f"offset {at + 1} is {found[at + 1]}, after {found[at]}"
    elif found[-1] > most:
        at = int((found > most).argmax())
        wrong = f"offset {at} is {found[at]}"
    if wrong:
        raise ValueError(
            f"embedding_bag of {most} numbers needs offsets that begin with 0, do not fall and are at most {most}: "
            f"{wrong}\n  offsets made at {given._where()}      numbers made at {numbers._where()}"
        )


def _is_within(given: Any, size: int | None) -> bool:
    """Return whether integers are known to be from 0 to below a size by their bounds, without reading them."""
    return size is not None and bool(given.uop.lo >= 0 and given.uop.hi < size)


def _check_below(
    given: Any, size: int, message: Callable[[int, str], str], counted: Any = None, values: Any = None,
    counted_of: Callable[[Any], Any] | None = None,
) -> None:  # fmt: skip
    """Raise IndexOutOfRange for the first integer of `given` that counts and is not from 0 to below `size`.

    All count unless `counted`, a mask, is given; `counted_of` makes it of the integers, so that it is not computed for
    those in memory. `values` are those of `given`, where the caller has them. Else `given` is read with CHECK_INDEX=1,
    where it is `known`, and where it is one number everywhere; not inside vmap, where it has no values yet. `message`
    gets the integer and its index, as in ", at (1,)," or "".
    """
    if values is None and (counted is None or counted_of is not None) and (found := known(given)) is not None:
        if not outside(found, 0, size):
            return
        values = _array(found, given)
        counted = None if counted_of is None else counted_of(values)
    if values is None:
        node = given.uop
        is_known = bool(given.size) and bool(node.lo == node.hi and not 0 <= node.lo < size)
        if CHECK_INDEX.value or is_known:
            impure()
        if not (CHECK_INDEX.value or is_known) or any(source.op is Ops.PLACEHOLDER for source in toposort(node)):
            return
        values = given.numpy()
    wrong = (values < 0) | (values >= size)
    if counted is not None:
        wrong = wrong & (counted.numpy() if isinstance(counted, TensorBase) else counted)  # type: ignore[attr-defined]
    if wrong.any():
        at = tuple(int(part[0]) for part in wrong.nonzero()) if values.ndim else ()
        raise IndexOutOfRange(message(int(values[at]), f", at {at}," if at else ""))


def weights(given: Any, least: int) -> None:
    """Raise ValueError for a row of weights that is no distribution, or from which no `least` can be drawn.

    Only weights that are realised are checked, and none while a TinyJit captures: a function that reads values cannot
    be replayed.
    """
    impure()
    is_realised = memory_base(given.uop).op in (*HELD, Ops.CONST) and not open_captures()
    if not (CHECK_INDEX.value or is_realised) or any(n.op is Ops.PLACEHOLDER for n in toposort(given.uop)):
        return
    rows = given.numpy().reshape(-1, given.shape[-1]).astype(float)
    finite, above = (rows >= 0) & (rows < math.inf), (rows > 0).sum(1)
    wrong = ~finite.all(1) | (above < least)
    if wrong.any():
        row = int(wrong.argmax())
        found = f"{above[row]} above 0" if finite[row].all() else f"{rows[row][~finite[row]][0]}"
        raise ValueError(
            f"multinomial needs weights that are finite and not negative, and {least} of them above 0; row {row} of "
            f"shape {given.shape} has {found}\n  made at {given._where()}"
        )


def given(tensor: Any, index: Any, axis: int, what: str) -> Any:
    """Return an index of any number of axes as a tensor of integers, checked as `check` does.

    The values of a list or an array are always checked. Raises IndexOutOfRange, and DTypeError where they are no
    integers.
    """
    if isinstance(index, TensorBase):
        if index.dtype.kind not in ("int", "uint"):
            raise DTypeError(f"{what} needs an index of integers, got {index.dtype}\n  made at {index._where()}")
        check(tensor, index, axis)
        return index
    import numpy as np

    indices = array_of(index)
    if indices.dtype.kind not in "iu" and indices.size:  # an empty list is float64 to NumPy
        raise DTypeError(
            f"{what} needs an index of integers, got {indices.dtype} for a tensor of shape {tensor.shape}\n"
            f"  made at {tensor._where()}"
        )
    if indices.size:
        use(tensor, axis).check(indices)
    return type(tensor)(indices.astype(np.int64), device=tensor.device)


def read(index: Any, use: IndexUse) -> None:
    """Check the values of an index tensor.

    One without values, inside vmap, is recorded for the innermost `waiting`.
    """
    if not any(source.op is Ops.PLACEHOLDER for source in toposort(index.uop)):
        use.check(index.numpy())
    elif _listening.lists:
        _listening.lists[-1].append((index, use))
