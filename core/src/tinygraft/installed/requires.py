"""Whether the installed version of core is one that a distribution requires.

Reads the `Requires-Dist` lines of its metadata; pip lets a later install break them. `packaging` reads them as pip
does; it is imported where they are checked, because every command of the command line imports this module.
"""

from __future__ import annotations

from collections.abc import Sequence


def required(name: str, lines: Sequence[str]) -> str | None:
    """Return what a distribution requires of the distribution `name`, lower bounds first; None for nothing.

    Lines that are for an extra, or for another Python or system than this, do not count. A URL bounds no version.

    >>> required("tinygraft", ["numpy", "tinygraft[cpu]<0.2,>=0.1"])
    '>=0.1,<0.2'
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for line in lines:
        try:
            need = Requirement(line)
        except InvalidRequirement:
            continue  # pip refuses to install what has such a line
        applies = need.marker is None or need.marker.evaluate({"extra": ""})
        if canonicalize_name(need.name) == name and applies:
            return ",".join(sorted(map(str, need.specifier), reverse=True))  # by operator: ~= >= > == <= < !=
    return None


def satisfies(version: str, bounds: str) -> bool:
    """Return whether a version is within bounds, as pip decides it; a pre-release is a version like any other.

    >>> satisfies("0.1.3", ">=0.1,<0.2"), satisfies("0.2.0", "~=0.1.0"), satisfies("1.4", "==1.*")
    (True, False, True)
    """
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(bounds).contains(version, prereleases=True)
