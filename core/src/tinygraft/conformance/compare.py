"""Comparing the values of a device with the expected ones: one sentence about the first difference.

pytest's own comparison of two long lists shows them whole where CI is set, and takes minutes for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygraft.engine.arithmetic import Array

SHOWN = 100  # characters of an element


def same(got: Sequence[Any], want: Sequence[Any], what: str = "") -> None:
    """Raise AssertionError unless `got` equals `want`, both of one type; it says how much differs, and where first.

    `what` begins the message.

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
    wrong = [index for index, (one, other) in enumerate(zip(got, want, strict=True)) if one != other]
    if not wrong:
        raise AssertionError(f"{start}a {type(got).__name__} and not a {type(want).__name__}, of equal values")
    first = wrong[0]
    found, expected = (repr(values[first])[:SHOWN] for values in (got, want))
    raise AssertionError(f"{start}{len(wrong)} of {len(want)} values differ, at {first} {found} and not {expected}")


def close(got: Array, want: Array, rtol: float = 0.0) -> None:
    """Raise AssertionError unless `got` equals `want` up to `rtol`, a fraction of each value; NaNs are alike.

    >>> close(np.array([1.0, 2.5]), np.array([1.0, 2.0]), 1e-3)
    Traceback (most recent call last):
        ...
    AssertionError: 1 of 2 values differ by more than 0.001 of them, most at (1,): got 2.5, expected 2.0
    """
    wrong = ~(
        np.isclose(got, want, rtol, 0, equal_nan=True) if rtol else (got == want) | ((got != got) & (want != want))
    )
    if not wrong.any():
        return
    with np.errstate(all="ignore"):
        far = np.where(wrong, np.nan_to_num(np.abs(got - want) / np.abs(want), nan=np.inf) if rtol else 1, -1)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), wrong.shape))
    by, which = (f" by more than {rtol} of them", "most") if rtol else ("", "first")
    count, found, expected = int(wrong.sum()), got[index].item(), want[index].item()
    raise AssertionError(
        f"{count} of {wrong.size} values differ{by}, {which} at {index}: got {found!r}, expected {expected!r}"
    )
