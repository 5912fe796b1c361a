"""Operators of ONNX: sequences of tensors, which are lists, and values that may be absent, which are None then."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import IndexOutOfRange
from tinygraft.onnx.operator_table import NodeCall, OnnxValue, number, operator, unrolled
from tinygraft.tensor.tensor import Tensor


def _place(position: Any, count: int, last: int) -> int:
    """Return a position counted from the front. Raises IndexOutOfRange for one below 0 or above `last`."""
    place = number(position)
    found = place + count if place < 0 else place
    if not 0 <= found <= last:
        raise IndexOutOfRange(f"a sequence of {count} has no position {place}")
    return int(found)


@operator("SequenceConstruct")
def sequence_construct(*values: Tensor) -> list[Tensor]:
    """Tensors as a sequence."""
    return list(values)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Tensor]:
    """A sequence of nothing."""
    return []


@operator("SequenceLength")
def sequence_length(sequence: list[Tensor]) -> Tensor:
    """How many tensors there are."""
    return Tensor(len(sequence), dtype=dtypes.int64)


@operator("SequenceAt", steers="position")
def sequence_at(sequence: list[Tensor], position: Any) -> Tensor:
    """The tensor at a position."""
    return sequence[_place(position, len(sequence), len(sequence) - 1)]


@operator("SequenceInsert", steers="position")
def sequence_insert(sequence: list[Tensor], tensor: Tensor, position: Any = None) -> list[Tensor]:
    """A sequence with one more tensor, at its end or before a position."""
    place = len(sequence) if position is None else _place(position, len(sequence), len(sequence))
    return [*sequence[:place], tensor, *sequence[place:]]


@operator("SequenceErase", steers="position")
def sequence_erase(sequence: list[Tensor], position: Any = None) -> list[Tensor]:
    """A sequence without the tensor at a position, or the last."""
    place = _place(-1 if position is None else position, len(sequence), len(sequence) - 1)
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: list[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    """The tensors of a sequence one after another, along an axis that they have or a new one."""
    first, *rest = sequence
    return first.stack(*rest, dim=axis) if new_axis else first.cat(*rest, dim=axis)


@operator("SplitToSequence", steers="split")
def split_to_sequence(x: Tensor, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[Tensor]:
    """x in parts along an axis: of given sizes, of one size, or of size 1, whose axis may be left out."""
    count = x.shape[axis] if not isinstance(split, int) else -(-int(x.shape[axis]) // max(split, 1))
    if not isinstance(split, list):
        unrolled(count, "a part of SplitToSequence")
    if split is None:
        parts = x.split(1, dim=axis)
        return [part if keepdims else part.squeeze(axis) for part in parts]
    return list(x.split(split, dim=axis))


@operator("SequenceMap")
def sequence_map(sequence: list[Tensor], *others: OnnxValue, body: Any, node: NodeCall) -> tuple[list[OnnxValue], ...]:
    """A subgraph on each tensor of a sequence, beside those of other sequences and tensors that stay the same."""
    rows = [
        node.run(body, [item, *(each[place] if isinstance(each, list) else each for each in others)])
        for place, item in enumerate(sequence)
    ]
    return tuple([row[i] for row in rows] for i in range(node.count))


@operator("Optional")
def optional(x: OnnxValue = None, *, type: Any = None) -> OnnxValue:
    """A value that may be absent."""
    return x


@operator("OptionalGetElement")
def optional_get_element(x: OnnxValue) -> OnnxValue:
    """Return the value. Raises IndexOutOfRange where it is absent."""
    if x is None:
        raise IndexOutOfRange("OptionalGetElement of an optional that has no value")
    return x


@operator("OptionalHasElement")
def optional_has_element(x: OnnxValue = None) -> Tensor:
    """Whether there is a value."""
    return Tensor(x is not None, dtype=dtypes.bool)
