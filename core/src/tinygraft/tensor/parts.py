"""Parts of an axis whose ends are variables: checked where they are taken, and again for each replay.

A kernel serves every value of a variable, so nothing below can tell that a part leaves its axis. `take(part)` checks
it with the values that are bound now; while a TinyJit captures (`noting`), it also notes the parts that another value
could take past the end, for `part.check(values)` before a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tinygraft.errors import ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.listening import Listening
from tinygraft.uop.shape import Shape, high, low, sint


@dataclass(frozen=True, slots=True)
class Part:
    """start to end along one axis of a shape. made says where the tensor was made."""

    shape: Shape
    axis: int
    start: sint
    end: sint
    made: str

    def certain(self) -> bool:
        """Whether it stays in its axis for all values of its variables."""
        ordered = low(self.start) >= 0 and low(lengths.sub(self.end, self.start)) >= 0
        return ordered and high(self.end) <= low(self.shape[self.axis])

    def check(self, values: Mapping[str, int]) -> None:
        """Raise ShapeError where it leaves its axis, for these values or else those bound; unbound ones pass."""
        start, end, size = (lengths.now(n, values) for n in (self.start, self.end, self.shape[self.axis]))
        if start is not None and end is not None and size is not None and not 0 <= start <= end <= size:
            shape = tuple(lengths.now(n, values) for n in self.shape)
            raise ShapeError(
                f"cannot shrink axis {self.axis} of {shape} to ({start}, {end}), as its variables are bound\n"
                f"  made at {self.made}"
            )


_listening = Listening[Part]()


def noting() -> AbstractContextManager[list[Part]]:
    """The parts taken in the block, in this thread, that other values of their variables could take past the end."""
    return _listening.block()


def take(part: Part) -> None:
    """Check a part with the values bound now, and note it where somebody listens."""
    part.check({})
    if _listening.lists and not part.certain():
        note([part])


def note(parts: list[Part]) -> None:
    """Add parts to the lists of all that listen; those of a replay inside a capture, too."""
    for found in _listening.lists:
        found.extend(part for part in parts if part not in found)
