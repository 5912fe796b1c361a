"""The levels of the kit, one mixin each. Each can be run alone; the first two need no hardware."""

from __future__ import annotations

LEVELS = ("spec", "render", "memory", "ops", "optional", "program")
NUMBERS = tuple(str(number) for number in range(len(LEVELS)))
OWN = "own"  # tests that a plugin adds to the class that it inherits


def parse_levels(text: str) -> tuple[str, ...]:
    """Return the levels of a text of names, numbers and spans of numbers, in their order; all for an empty one.

    Raises ValueError for what is no level.

    >>> parse_levels("0-1,memory")
    ('spec', 'render', 'memory')
    """
    every = (*LEVELS, OWN)
    found: set[str] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if part in every:
            found.add(part)
        elif first in NUMBERS and (last in NUMBERS and first <= last if dash else not last):
            found.update(LEVELS[int(first) : int(last or first) + 1])
        else:
            known = ", ".join(f"{number} {name}" for number, name in enumerate(LEVELS))
            raise ValueError(f"{part!r} is no level of the kit; they are {known}, and {OWN} for tests of your own")
    return tuple(level for level in every if level in found or not found)


def level_of(suite: type, test: str) -> str:
    """Return the level of a test of a class: that of the class which first defines it, also where it is overridden."""
    for base in reversed(suite.__mro__):
        if test in vars(base):
            package, _, module = base.__module__.rpartition(".")
            level = module.partition("_")[0]  # a level may have several files, such as ops.py and ops_values.py
            return level if package == __name__ and level in LEVELS else OWN
    return OWN
