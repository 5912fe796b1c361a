"""Comparing what a device gave with what it should have given: one sentence about the first difference.

pytest's own comparison of two long lists shows them whole where CI is set, and takes minutes for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHOWN = 100  # characters of an element


def same(got: Sequence[Any], want: Sequence[Any], what: str = "") -> None:
    """Raise AssertionError unless got equals want, both of one type; it says how much differs, and where first.

    >>> same([1, 2, 3], [1, 5, 4], "the sums")
    Traceback (most recent call last):
        ...
    AssertionError: the sums: 2 of 3 values differ, at 1 2 and not 5
    """
    if got == want:
        return
    start = f"{what}: " if what else ""
    if len(got) != len(want):
        raise AssertionError(f"{start}{len(got)} values and not {len(want)}")
    wrong = [place for place, (one, other) in enumerate(zip(got, want, strict=True)) if one != other]
    if not wrong:
        raise AssertionError(f"{start}a {type(got).__name__} and not a {type(want).__name__}, of equal values")
    first = wrong[0]
    found, expected = (repr(values[first])[:SHOWN] for values in (got, want))
    raise AssertionError(f"{start}{len(wrong)} of {len(want)} values differ, at {first} {found} and not {expected}")
