"""What has to hold of symbolic sizes: checked where they are used, and again for each replay.

A kernel serves every value of a variable, so nothing below can tell that a part leaves its axis, or that a shape has
other elements than what is reshaped to it. `take(claim)` checks it with the values that are bound now; while a TinyJit
captures (`noting`), it also notes what another value could make wrong, for `claim.check(values)` before a replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tinygraft.dtype import DType
from tinygraft.errors import AxisError, IndexOutOfRange, NumberOutOfRange, ShapeError
from tinygraft.tensor.primitives import inrange, lengths
from tinygraft.tensor.primitives.listening import Listening
from tinygraft.uop.index import bounds_of, with_values
from tinygraft.uop.shape import no_reshape
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, high, low, sint


class Claim(Protocol):
    """Something about symbolic sizes that has to hold."""

    def certain(self) -> bool:
        """Whether it holds for all values of its variables."""

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError or NumberOutOfRange where it does not, for these values or else those bound.

        Where a variable has neither it passes.
        """


@dataclass(frozen=True, slots=True)
class AxisBounds:
    """start to end along one axis of a shape lie in it. made says where the tensor was made."""

    shape: Shape
    axis: int
    start: sint
    end: sint
    made: str

    def certain(self) -> bool:
        """Whether it stays in its axis for all values of its variables."""
        ordered = low(self.start) >= 0 and low(lengths.sub(self.end, self.start)) >= 0
        return ordered and low(lengths.sub(self.shape[self.axis], self.end)) >= 0

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where it leaves its axis, for these values or else those bound; unbound ones pass."""
        start, end, size = (lengths.now(n, values) for n in (self.start, self.end, self.shape[self.axis]))
        if start is not None and end is not None and size is not None and not 0 <= start <= end <= size:
            shape = tuple(lengths.now(n, values) for n in self.shape)
            raise ShapeError(
                f"cannot shrink axis {self.axis} of {shape} to ({start}, {end}), "
                f"{with_values((*self.shape, self.start, self.end), values)}\n"
                f"  made at {self.made}"
            )


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """A place of one axis of a shape lies in it. front is counted from the front, asked is what was written."""

    shape: Shape
    axis: int
    front: sint
    asked: sint
    made: str

    def certain(self) -> bool:
        """Whether it lies in its axis for all values of its variables."""
        return low(self.front) >= 0 and low(lengths.sub(self.shape[self.axis], self.front)) > 0

    def check(self, values: Mapping[str, int]) -> None:
        """Raise IndexOutOfRange where it does not, for these values or else those bound; or for all that there are."""
        front, size = (lengths.now(n, values) for n in (self.front, self.shape[self.axis]))
        never = high(self.front) < 0 or high(lengths.sub(self.shape[self.axis], self.front)) <= 0
        if front is None or size is None:
            if never:
                raise IndexOutOfRange(
                    f"index {show_arg(self.asked)} is out of range for axis {self.axis} of shape "
                    f"{show_arg(self.shape)}, where {bounds_of((*self.shape, self.asked))}\n  made at {self.made}"
                )
        elif not 0 <= front < size:
            shape = tuple(lengths.now(n, values) for n in self.shape)
            raise IndexOutOfRange(
                f"index {lengths.now(self.asked, values)} is out of range for axis {self.axis} of shape {shape}: it "
                f"has {size} elements, {with_values((*self.shape, self.asked), values)}\n  made at {self.made}"
            )


@dataclass(frozen=True, slots=True)
class Filled:
    """Some axes of a shape have elements. what says what chooses one of them."""

    shape: Shape
    axes: tuple[int, ...]
    what: str
    made: str

    def certain(self) -> bool:
        """Whether they have for all values of their variables."""
        return all(low(self.shape[axis]) > 0 for axis in self.axes)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise AxisError where one has none, for these values or else those bound; unbound ones pass."""
        if self.certain() or not any(lengths.now(self.shape[axis], values) == 0 for axis in self.axes):
            return
        shape = tuple(lengths.now(n, values) for n in self.shape)
        bound = "" if shape == self.shape else f", {with_values(self.shape, values)}"
        raise AxisError(f"{self.what} of shape {shape} has no elements to choose from{bound}\n  made at {self.made}")


@dataclass(frozen=True, slots=True)
class Elements:
    """Two shapes have as many elements."""

    old: Shape
    new: Shape
    made: str

    def certain(self) -> bool:
        """Whether they have for all values of their variables."""
        positive = all(low(size) >= 0 for size in self.new)
        return positive and lengths.same(lengths.product(self.old), lengths.product(self.new))

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where they have not, for these values or else those bound; unbound ones pass."""
        old, new = (tuple([lengths.now(n, values) for n in shape]) for shape in (self.old, self.new))
        known = [tuple([n for n in shape if n is not None]) for shape in (old, new)]
        if known == [old, new] and (why := no_reshape(*known)):
            raise ShapeError(f"{why}, {with_values((*self.old, *self.new), values)}\n  made at {self.made}")


@dataclass(frozen=True, slots=True)
class CheckedSizes:
    """None of some sizes is negative. what says whose they are."""

    sizes: Shape
    what: str
    made: str = ""

    def certain(self) -> bool:
        """Whether none is for all values of their variables."""
        return all(low(size) >= 0 for size in self.sizes)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where one is negative, for these values or else those bound; unbound ones pass."""
        found = tuple([lengths.now(size, values) for size in self.sizes])
        if any(high(size) < 0 for size in self.sizes) or any(n is not None and n < 0 for n in found):
            raise ShapeError(
                f"{self.what} is made of sizes that are not negative, got {found}, {with_values(self.sizes, values)}"
                + (f"\n  made at {self.made}" if self.made else "")
            )


@dataclass(frozen=True, slots=True)
class Fits:
    """An integer dtype holds a symbolic integer that is taken as a value; count is how many times it is."""

    value: sint
    dtype: DType
    made: str = ""
    count: sint = 1

    def certain(self) -> bool:
        """Whether it does for all values of its variables."""
        return self.dtype.kind not in ("int", "uint") or lengths.fits(self.value, self.dtype)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise NumberOutOfRange where it does not, for these values or else those bound; unbound ones pass."""
        found = None if self.certain() else lengths.now(self.value, values)
        if found is None or lengths.now(self.count, values) == 0:
            return
        try:
            inrange.check(found, self.dtype)
        except NumberOutOfRange as error:
            made = f"\n  made at {self.made}" if self.made else ""
            raise NumberOutOfRange(f"{error}, {with_values((self.value, self.count), values)}{made}") from None


_listening = Listening[Claim]()


def noting() -> AbstractContextManager[list[Claim]]:
    """What is claimed in the block, in this thread, that other values of variables could make wrong."""
    return _listening.block()


def take(claim: Claim) -> None:
    """Check a claim with the values bound now, and note it where somebody listens."""
    claim.check({})
    if _listening.lists and not claim.certain():
        note([claim])


def note(claims: Sequence[Claim]) -> None:
    """Add claims to the lists of all that listen; those of a replay inside a capture, too."""
    for found in _listening.lists:
        found.extend(claim for claim in claims if claim not in found)
