"""What has to hold of symbolic sizes: checked where they are used, and again for each replay.

A kernel serves every value of a variable, so no later stage can see that a slice leaves its axis, or that a shape has
another number of elements than the tensor that is reshaped to it. `require(claim)` checks it with the values that are
bound now; while a TinyJit captures (`noting`), it also records the claims that another value could make false, for
`claim.check(values)` before a replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tinygraft.dtype import DType
from tinygraft.errors import AxisError, IndexOutOfRange, NumberOutOfRange, ShapeError
from tinygraft.tensor.primitives import number_range, size_math
from tinygraft.tensor.primitives.listeners import Listening
from tinygraft.uop.index import bounds_of, with_values
from tinygraft.uop.shape import no_reshape
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, high, low, sint


class Claim(Protocol):
    """A condition on symbolic sizes that has to hold."""

    def certain(self) -> bool:
        """Return whether it holds for all values of its variables, so that no replay has to check it."""

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError or NumberOutOfRange where it does not, for these values or else those bound.

        Where a variable has neither it passes.
        """


@dataclass(frozen=True, slots=True)
class AxisBounds:
    """A slice from start to end stays inside one axis of a shape. made is the line that made the tensor."""

    shape: Shape
    axis: int
    start: sint
    end: sint
    made: str

    def certain(self) -> bool:
        """Return whether the slice stays in its axis for all values of its variables."""
        ordered = low(self.start) >= 0 and low(size_math.sub(self.end, self.start)) >= 0
        return ordered and low(size_math.sub(self.shape[self.axis], self.end)) >= 0

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where the slice leaves its axis, for these values of variables or else those bound.

        Where a variable has neither it passes.
        """
        start, end, size = (size_math.now(n, values) for n in (self.start, self.end, self.shape[self.axis]))
        if start is not None and end is not None and size is not None and not 0 <= start <= end <= size:
            shape = tuple(size_math.now(n, values) for n in self.shape)
            raise ShapeError(
                f"cannot shrink axis {self.axis} of {shape} to ({start}, {end}), "
                f"{with_values((*self.shape, self.start, self.end), values)}\n"
                f"  made at {self.made}"
            )


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """An index is inside one axis of a shape. front is counted from the front, written is as the user wrote it."""

    shape: Shape
    axis: int
    front: sint
    written: sint
    made: str

    def certain(self) -> bool:
        """Return whether the index is inside its axis for all values of its variables."""
        return low(self.front) >= 0 and low(size_math.sub(self.shape[self.axis], self.front)) > 0

    def check(self, values: Mapping[str, int]) -> None:
        """Raise IndexOutOfRange where the index is outside, for these values of variables or else those bound.

        Where a variable has neither it passes, unless no value can be inside.
        """
        front, size = (size_math.now(n, values) for n in (self.front, self.shape[self.axis]))
        never = high(self.front) < 0 or high(size_math.sub(self.shape[self.axis], self.front)) <= 0
        if front is None or size is None:
            if never:
                raise IndexOutOfRange(
                    f"index {show_arg(self.written)} is out of range for axis {self.axis} of shape "
                    f"{show_arg(self.shape)}, where {bounds_of((*self.shape, self.written))}\n  made at {self.made}"
                )
        elif not 0 <= front < size:
            shape = tuple(size_math.now(n, values) for n in self.shape)
            raise IndexOutOfRange(
                f"index {size_math.now(self.written, values)} is out of range for axis {self.axis} of shape {shape}: "
                f"it has {size} elements, {with_values((*self.shape, self.written), values)}\n  made at {self.made}"
            )


@dataclass(frozen=True, slots=True)
class Filled:
    """Some axes of a shape have elements. what is the operation that chooses one of them, for the message."""

    shape: Shape
    axes: tuple[int, ...]
    what: str
    made: str

    def certain(self) -> bool:
        """Return whether all of the axes have elements for all values of their variables."""
        return all(low(self.shape[axis]) > 0 for axis in self.axes)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise AxisError where one of the axes has no elements, for these values of variables or else those bound.

        Where a variable has neither it passes.
        """
        if self.certain() or not any(size_math.now(self.shape[axis], values) == 0 for axis in self.axes):
            return
        shape = tuple(size_math.now(n, values) for n in self.shape)
        bound = "" if shape == self.shape else f", {with_values(self.shape, values)}"
        raise AxisError(f"{self.what} of shape {shape} has no elements to choose from{bound}\n  made at {self.made}")


@dataclass(frozen=True, slots=True)
class Elements:
    """Two shapes have equally many elements."""

    old: Shape
    new: Shape
    made: str

    def certain(self) -> bool:
        """Return whether both shapes have equally many elements for all values of their variables."""
        positive = all(low(size) >= 0 for size in self.new)
        return positive and size_math.same(size_math.product(self.old), size_math.product(self.new))

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where the numbers of elements differ, for these values of variables or else those bound.

        Where a variable has neither it passes.
        """
        old, new = (tuple([size_math.now(n, values) for n in shape]) for shape in (self.old, self.new))
        known = [tuple([n for n in shape if n is not None]) for shape in (old, new)]
        if known == [old, new] and (why := no_reshape(*known)):
            raise ShapeError(f"{why}, {with_values((*self.old, *self.new), values)}\n  made at {self.made}")


@dataclass(frozen=True, slots=True)
class CheckedSizes:
    """None of some sizes is negative. what names the argument that they are of, for the message."""

    sizes: Shape
    what: str
    made: str = ""

    def certain(self) -> bool:
        """Return whether no size is negative for all values of their variables."""
        return all(low(size) >= 0 for size in self.sizes)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where a size is negative, for these values of variables or else those bound.

        Where a variable has neither it passes, unless all values are negative.
        """
        found = tuple([size_math.now(size, values) for size in self.sizes])
        if any(high(size) < 0 for size in self.sizes) or any(n is not None and n < 0 for n in found):
            raise ShapeError(
                f"{self.what} is made of sizes that are not negative, got {found}, {with_values(self.sizes, values)}"
                + (f"\n  made at {self.made}" if self.made else "")
            )


@dataclass(frozen=True, slots=True)
class Fits:
    """A symbolic integer used as a value is in the range of an integer dtype. count: elements that have the value."""

    value: sint
    dtype: DType
    made: str = ""
    count: sint = 1

    def certain(self) -> bool:
        """Return whether the integer is in the range of the dtype for all values of its variables; True for floats."""
        return self.dtype.kind not in ("int", "uint") or size_math.fits(self.value, self.dtype)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise NumberOutOfRange where the integer is not in the range of the dtype, for these values or else those
        bound.

        Where a variable has neither it passes, and so does one that no element has.
        """
        found = None if self.certain() else size_math.now(self.value, values)
        if found is None or size_math.now(self.count, values) == 0:  # a range of no elements has no value out of range
            return
        try:
            number_range.check(found, self.dtype)
        except NumberOutOfRange as error:
            made = f"\n  made at {self.made}" if self.made else ""
            raise NumberOutOfRange(f"{error}, {with_values((self.value, self.count), values)}{made}") from None


_listening = Listening[Claim]()


def noting() -> AbstractContextManager[list[Claim]]:
    """The claims of the block, in this thread, that other values of variables could make false."""
    return _listening.block()


def require(claim: Claim) -> None:
    """Check a claim with the values bound now, and record it where a list is open (`noting`)."""
    claim.check({})
    if _listening.lists and not claim.certain():
        note([claim])


def note(claims: Sequence[Claim]) -> None:
    """Add claims to all open lists: a replay inside a capture has to hold for the outer replay, too."""
    for found in _listening.lists:
        found.extend(claim for claim in claims if claim not in found)
