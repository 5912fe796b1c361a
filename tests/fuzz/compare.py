"""What tinygraft gave, held to what it should have given: exactly, or within the bound of the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bounded import Value


@dataclass(frozen=True)
class Difference:
    """A read that is wrong, or an error that was raised: `kind` says which, `text` what."""

    kind: str
    text: str
    line: str = ""


def difference(number: int, expected: Value | None, found: Any) -> Difference | None:
    """What is wrong with the read of this number; None where it is right."""
    if expected is None or found is None:
        if found is None and (expected is None or expected.optional):
            return None
        wanted = "None" if expected is None else str(expected.data.tolist())
        return Difference("wrong", f"read {number} is {np.asarray(found).tolist()}, not {wanted}")
    array = np.asarray(found)
    if array.shape != expected.shape:
        return Difference("wrong", f"read {number} has the shape {array.shape}, not {expected.shape}")
    # bool and ints exactly, whatever their width: the dtypes of results have tests of their own
    off = np.abs(array.astype(np.float64) - expected.data) if expected.is_float else array != expected.data
    wrong = ~(off <= expected.error) if expected.is_float else off
    if not np.any(wrong):
        return None
    most = f", off by {np.nanmax(off):.3g} where {np.max(expected.error):.3g} is allowed" if expected.is_float else ""
    return Difference("wrong", f"read {number} is {array.tolist()}, not {expected.data.tolist()}{most}")


def first_difference(expected: list[Value | None], found: list[Any]) -> Difference | None:
    """The first read that is wrong."""
    for number, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if (wrong := difference(number, wanted, got)) is not None:
            return wrong
    return None
