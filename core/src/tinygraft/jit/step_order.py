"""Which steps of a captured list have to wait for which: those that write or read the same memory.

The regions of memory that each step reads and writes in; for each step, the numbers of the earlier ones that it has to
follow, out. A device that can do several things at once runs the others at the same time (`Step.after`).
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes from `start` to `stop` of the memory named `memory`, which a step writes or only reads."""

    memory: Hashable
    start: int
    stop: int
    written: bool


class _Memory:
    """Who has accessed each byte of one memory: parts from a start to a stop, each with its last writer and those who
    have read it since.

    Whatever comes after a writer comes after those before it. A step looks at the parts that it touches alone, as a
    memory of temporaries is shared by thousands of accesses.
    """

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.parts: list[tuple[int, int, list[int]]] = []  # (stop, the last writer or -1, readers), in order of starts

    def earlier(self, access: Access) -> Iterator[int]:
        """Yield the steps that an access has to come after: writers, and readers where it writes."""
        for number in self._touched(access):
            _, writer, readers = self.parts[number]
            if writer >= 0:
                yield writer
            if access.written:
                yield from readers

    def note(self, access: Access, step: int) -> None:
        """Note an access by a step."""
        if access.start >= access.stop:
            return
        self._split(access.start)
        self._split(access.stop)
        at, new = access.start, []  # parts that were not accessed yet are made
        for number in self._touched(access):
            start, (stop, _, readers) = self.starts[number], self.parts[number]
            if at < start:
                new.append((at, start))
            if access.written:
                self.parts[number] = stop, step, []
            else:
                readers.append(step)
            at = stop
        if at < access.stop:
            new.append((at, access.stop))
        for start, stop in new:
            place = bisect(self.starts, start)
            self.starts.insert(place, start)
            self.parts.insert(place, (stop, step, []) if access.written else (stop, -1, [step]))

    def _touched(self, access: Access) -> range:
        """Return the numbers of the parts that have bytes of an access."""
        if access.start >= access.stop:
            return range(0)
        first = bisect(self.starts, access.start) - 1
        if first < 0 or self.parts[first][0] <= access.start:
            first += 1
        return range(first, bisect_left(self.starts, access.stop))

    def _split(self, at: int) -> None:
        """Divide the part that has the byte before `at` and that at it, if there is one."""
        number = bisect_left(self.starts, at) - 1
        if number >= 0 and self.parts[number][0] > at:
            stop, writer, readers = self.parts[number]
            self.parts[number] = at, writer, readers
            self.starts.insert(number + 1, at)
            self.parts.insert(number + 1, (stop, writer, list(readers)))


def steps_before(steps: Sequence[Iterable[Access]]) -> list[tuple[int, ...]]:
    """Return, for each step, the numbers of the earlier ones that it has to run after, in ascending order.

    A step that another one of them has to follow is left out.

    >>> a, b = Access("a", 0, 8, True), Access("b", 0, 8, True)
    >>> reads_both = [Access("a", 0, 8, False), Access("b", 0, 8, False), Access("c", 0, 8, True)]
    >>> steps_before([[a], [b], reads_both])
    [(), (), (0, 1)]
    """
    accessed: defaultdict[Hashable, _Memory] = defaultdict(_Memory)
    followed: list[int] = []  # for each step a bit set of all steps that it comes after
    found = []
    for number, accesses in enumerate(steps):
        mine = list(accesses)
        wanted = {step for access in mine for step in accessed[access.memory].earlier(access)}
        before, reached = [], 0
        for step in sorted(wanted, reverse=True):  # the latest first: it may come after the others already
            if not reached >> step & 1:
                before.append(step)
                reached |= followed[step] | 1 << step
        followed.append(reached)
        found.append(tuple(reversed(before)))
        for access in mine:
            accessed[access.memory].note(access, number)
    return found
