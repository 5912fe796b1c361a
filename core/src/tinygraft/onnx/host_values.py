"""What is known of shapes, axes and counts without computing anything.

A model computes the shape of a Reshape by its own operators: Shape, Gather, Concat. Here each of them works on numbers
of the host (sizes are ints, or nodes where a size is symbolic), beside the tensors, so that nothing is realised to
know a shape and a symbolic batch stays one. `Known` is a shape with its elements, row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.element_types import INT64
from tinygraft.onnx.weights import nested
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


@dataclass(frozen=True)
class Known:
    """Numbers on the host: a shape, and the elements in row-major order."""

    shape: tuple[int, ...]
    items: tuple[Any, ...]

    def nested(self) -> Any:
        """The elements as nested lists; a number where there is no axis."""
        return nested(self.shape, list(self.items))


def known(value: Any) -> Known:
    """Return nested lists of numbers, or a number, as a Known. The lists of a level have one length."""
    shape, items = [], [value]
    while items and isinstance(items[0], list):
        shape.append(len(items[0]))
        items = [part for item in items for part in item]
    if isinstance(value, list) and not items:
        shape = shape or [0]
    return Known(tuple(shape), tuple(items))


def of_sizes(sizes: Sequence[Any]) -> Known:
    """Return the sizes of a shape as a Known of one axis."""
    return Known((len(sizes),), tuple(sizes))


def sizes_tensor(found: Known, device: Place) -> Tensor:
    """Return an int64 tensor of numbers of the host, of which some may be symbolic."""
    if all(isinstance(item, int) for item in found.items):
        return Tensor(list(found.items), dtype=dtypes.int64, device=device).reshape(found.shape)
    parts = [Tensor.full((1,), item, dtype=dtypes.int64, device=device) for item in found.items]
    return (parts[0] if len(parts) == 1 else parts[0].cat(*parts[1:])).reshape(found.shape)


# The operators. Each takes the known inputs, None where an input is absent, and the attributes; None: not known


def _gather(data: Known, indices: Known, *, axis: int = 0) -> Known | None:
    """Return elements of a vector at indices, None where it is no vector or an index is symbolic or outside."""
    places, count = indices.items, len(data.items)
    if len(data.shape) != 1 or not all(isinstance(i, int) and -count <= i < count for i in places):
        return None
    return Known(indices.shape, tuple(data.items[i] for i in indices.items))


def _concat(*parts: Known, axis: int = 1) -> Known | None:
    """Return vectors one after another; None for other shapes."""
    if any(len(part.shape) != 1 for part in parts):
        return None
    items = tuple(item for part in parts for item in part.items)
    return Known((len(items),), items)


def _unsqueeze(data: Known, axes: Any = None) -> Known | None:
    """Return a number as a vector of one; None for anything else."""
    return Known((1,), data.items) if not data.shape else None


def _squeeze(data: Known, axes: Any = None) -> Known | None:
    """Return a vector of one as a number; None for anything else."""
    return Known((), data.items) if data.shape == (1,) else None


def _reshape(data: Known, shape: Known, *, allowzero: int = 0) -> Known | None:
    """Return a vector as a number or as itself; None for any other shape."""
    if shape.items == () and len(data.items) == 1:
        return Known((), data.items)
    return Known((len(data.items),), data.items) if shape.items in ((-1,), (len(data.items),)) else None


def _slice(data: Known, starts: Known, ends: Known, axes: Any = None, steps: Known | None = None) -> Known | None:
    """Return a part of a vector by one start, end and step of ints; None for anything else."""
    bounds = (*starts.items, *ends.items, *(steps.items if steps else ()))
    if len(data.shape) != 1 or len(starts.items) != 1 or not all(isinstance(bound, int) for bound in bounds):
        return None
    step = steps.items[0] if steps else 1
    start, end = starts.items[0], ends.items[0]
    if step < 0:
        start, end = max(start, -len(data.items)), None if end < -len(data.items) else end
    items = data.items[start:end:step]
    return Known((len(items),), items)


def _identity(data: Known) -> Known:
    """Return `data`."""
    return data


def _cast(data: Known, *, to: int, **_: Any) -> Known | None:
    """Return integers cast to int32 or int64, which they stay; None for anything else."""
    return data if to in (6, INT64) and not any(isinstance(item, (bool, float)) for item in data.items) else None


def _by_element(function: Callable[[Any, Any], Any]) -> Callable[..., Known | None]:
    """Return a rule that applies `function` to pairs of elements, of equal shapes or with one number.

    It gives None for bools, floats, other shapes, and where the function gives None.
    """

    def combine(a: Known, b: Known) -> Known | None:
        if a.shape != b.shape and len(a.items) != 1 and len(b.items) != 1:
            return None
        longest = max(a, b, key=lambda one: (len(one.items), len(one.shape)))
        if any(isinstance(item, (bool, float)) for item in a.items + b.items):
            return None
        count = len(longest.items) if a.items and b.items else 0
        left, right = (part.items * (count if len(part.items) == 1 else 1) for part in (a, b))
        items = tuple(function(x, y) for x, y in zip(left, right, strict=False))
        return None if any(item is None for item in items) else Known(longest.shape, items)

    return combine


def _where(condition: Known, x: Known, y: Known) -> Known | None:
    """Element by element, of one shape or of single numbers."""
    longest = max(condition, x, y, key=lambda one: (len(one.items), len(one.shape)))
    count = len(longest.items)
    if any(len(part.items) not in (1, count) for part in (condition, x, y)):
        return None
    choices, left, right = (part.items * (count if len(part.items) == 1 else 1) for part in (condition, x, y))
    return Known(longest.shape, tuple(a if c else b for c, a, b in zip(choices, left, right, strict=True)))


def _equal(a: Any, b: Any) -> bool | None:
    """Whether two sizes are equal; of a symbolic one it is known where its bounds say it."""
    if (isinstance(a, int) and isinstance(b, int)) or a is b:
        return bool(a is b or a == b)
    size, other = (b, a) if isinstance(a, int) else (a, b)
    return False if isinstance(other, int) and not size.lo <= other <= size.hi else None


def _remainder(a: Any, b: Any) -> Any:
    """Return a % b for an int b that is not 0, else None."""
    return a % b if isinstance(b, int) and b else None


def _quotient(a: Any, b: Any) -> Any:
    """The quotient of two ints, cut towards 0; of a symbolic size by an int above 0, where the two are the same."""
    if not isinstance(b, int) or not b:
        return None
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a // b if b > 0 and a.lo >= 0 else None


RULES: dict[str, Callable[..., Known | None]] = {
    "Gather": _gather, "Concat": _concat, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _reshape,
    "Slice": _slice, "Identity": _identity, "Cast": _cast,
    "Add": _by_element(lambda a, b: a + b), "Sub": _by_element(lambda a, b: a - b),
    "Mul": _by_element(lambda a, b: a * b), "Div": _by_element(_quotient),
    "Mod": _by_element(_remainder), "Equal": _by_element(_equal), "Where": _where,
}  # fmt: skip
