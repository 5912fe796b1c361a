"""Which steps of a captured list have to wait for which: those that write or read the same memory.

The regions of memory that each step reads and writes in; for each step, the numbers of the earlier ones that it has to
follow, out. A device that can do several things at once runs the others at the same time (`Step.after`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes from `start` to `stop` of the memory named `memory`, which a step writes or only reads."""

    memory: Hashable
    start: int
    stop: int
    written: bool

    def conflicts(self, earlier: Access) -> bool:
        """Return whether this access has to come after an `earlier` one of the same memory."""
        return (self.written or earlier.written) and self.start < earlier.stop and earlier.start < self.stop

    def covers(self, earlier: Access) -> bool:
        """Return whether whatever conflicts with an `earlier` access, of the same memory, conflicts with this one."""
        return self.written and self.start <= earlier.start and earlier.stop <= self.stop


def steps_before(steps: Sequence[Iterable[Access]]) -> list[tuple[int, ...]]:
    """Return, for each step, the numbers of the earlier ones that it has to run after, in ascending order.

    A step that another one of them has to follow is left out.

    >>> a, b = Access("a", 0, 8, True), Access("b", 0, 8, True)
    >>> reads_both = [Access("a", 0, 8, False), Access("b", 0, 8, False), Access("c", 0, 8, True)]
    >>> steps_before([[a], [b], reads_both])
    [(), (), (0, 1)]
    """
    accessed: dict[Hashable, list[tuple[Access, int]]] = {}  # the accesses that a later one may conflict with
    followed: list[int] = []  # for each step a bit set of all steps that it comes after
    found = []
    for number, accesses in enumerate(steps):
        mine = list(accesses)
        wanted = {n for a in mine for earlier, n in accessed.get(a.memory, ()) if n != number and a.conflicts(earlier)}
        before, reached = [], 0
        for step in sorted(wanted, reverse=True):  # the latest first: it may come after the others already
            if not reached >> step & 1:
                before.append(step)
                reached |= followed[step] | 1 << step
        followed.append(reached)
        found.append(tuple(reversed(before)))
        for access in mine:
            others = accessed.setdefault(access.memory, [])
            others[:] = [(earlier, n) for earlier, n in others if n == number or not access.covers(earlier)]
            others.append((access, number))
    return found
