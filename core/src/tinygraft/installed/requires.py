"""Whether the version of core that is here is one that a distribution says it works with.

Takes the `Requires-Dist` lines of its metadata; pip lets a later install break them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LINE = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")
_BOUND = re.compile(r"\s*(~=|===?|!=|<=|>=|<|>)\s*v?([0-9]+(?:\.[0-9]+)*)(\.\*)?[^,]*$")


def required(name: str, lines: Sequence[str]) -> str | None:
    """What a distribution requires of the distribution name, such as ">=0.1,<0.2"; None when it requires nothing.

    >>> required("tinygraft", ["numpy", "tinygraft[cpu]<0.2,>=0.1"])
    '<0.2,>=0.1'
    """
    for line in lines:
        match = _LINE.match(line)
        if match and re.sub(r"[-_.]+", "-", match[1]).lower() == name and "extra ==" not in (match[3] or ""):
            return match[2].strip()
    return None


def satisfies(version: str, bounds: str) -> bool:
    """Whether a version lies within bounds, by the numbers of its release.

    >>> satisfies("0.1.3", ">=0.1,<0.2"), satisfies("0.2.0", "~=0.1.0"), satisfies("1.4", "==1.*")
    (True, False, True)
    """
    ours = _numbers(re.match(r"v?([0-9.]*)", version)[1])  # type: ignore[index]
    return all(_holds(ours, part) for part in bounds.split(",") if part.strip())


def _holds(ours: tuple[int, ...], bound: str) -> bool:
    match = _BOUND.match(bound)
    if match is None:
        return True  # a form that is not known here is pip's to judge
    operator, text, star = match.groups()
    theirs = _numbers(text)
    width = len(theirs)
    if operator in ("==", "===", "!="):
        same = ours[:width] == theirs if star else _padded(ours, width) == _padded(theirs, len(ours))
        return same == (operator != "!=")
    if operator == "~=":
        return _padded(ours, width) >= theirs and ours[: width - 1] == theirs[: width - 1]
    left, right = _padded(ours, width), _padded(theirs, len(ours))
    return {"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[operator]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part)


def _padded(numbers: tuple[int, ...], width: int) -> tuple[int, ...]:
    return numbers + (0,) * (width - len(numbers))
