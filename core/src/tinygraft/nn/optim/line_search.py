"""A step length along a direction that meets the strong Wolfe conditions: less loss, and less slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tinygraft.nn.optim.lbfgs_programs import SeenGradient

LESS, FLATTER = 1e-4, 0.9  # given: the constants of the two conditions, as PyTorch has them, 2026-11-23


@dataclass(frozen=True)
class LinePoint:
    """What is known at a length: the loss, its gradient with the slope along the direction, and that slope."""

    length: float
    value: float
    seen: SeenGradient
    slope: float


def strong_wolfe(
    at: Callable[[float], LinePoint], start: LinePoint, length: float, size: float, tolerance: float, most: int
) -> tuple[LinePoint, int]:
    """Return (the point found, how often `at` was called).

    `start` is at length 0, `length` is tried first, `size` is the greatest number of the direction: a bracket that
    moves none by more than `tolerance` is narrow enough. `most` are the lengths that are tried. The search first
    brackets a length that meets the conditions, then narrows the bracket by cubic interpolation.

    Source: Nocedal & Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6; the order of the tests and the
    safeguards are those of PyTorch's, so that the same lengths are found.
    """
    before, now, calls, tries = start, at(length), 1, 0
    bracket: list[LinePoint] = []
    done = False
    while tries < most:
        if now.value > start.value + LESS * now.length * start.slope or (tries > 1 and now.value >= before.value):
            bracket = [before, now]
            break
        if abs(now.slope) <= -FLATTER * start.slope:
            bracket, done = [now], True
            break
        if now.slope >= 0:
            bracket = [before, now]
            break
        low, high = now.length + 0.01 * (now.length - before.length), now.length * 10
        further = _cubic(before, now, (low, high))
        before, now = now, at(further)
        calls, tries = calls + 1, tries + 1
    if tries == most:
        bracket = [start, now]
    return _narrowed(at, start, bracket, done, size, tolerance, most, calls, tries)


def _narrowed(
    at: Callable[[float], LinePoint], start: LinePoint, bracket: list[LinePoint], done: bool, size: float,
    tolerance: float, most: int, calls: int, tries: int,
) -> tuple[LinePoint, int]:  # fmt: skip
    """Make a bracket narrower until its lower end meets the conditions; return that end and how often `at` was called.

    The arguments are those of `strong_wolfe`. `bracket` has two points, or one where `done`; `calls` and `tries` are
    counted on.
    """
    stuck = False
    low, high = (0, 1) if bracket[0].value <= bracket[-1].value else (1, 0)
    while not done and tries < most:
        if abs(bracket[1].length - bracket[0].length) * size < tolerance:
            break
        length, stuck = _inside(bracket, stuck)
        now = at(length)
        calls, tries = calls + 1, tries + 1
        if now.value > start.value + LESS * length * start.slope or now.value >= bracket[low].value:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].value <= bracket[1].value else (1, 0)
        else:
            if abs(now.slope) <= -FLATTER * start.slope:
                done = True
            elif now.slope * (bracket[high].length - bracket[low].length) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    return bracket[low if len(bracket) > 1 else 0], calls


def _inside(bracket: list[LinePoint], stuck: bool) -> tuple[float, bool]:
    """Return (the next length to try in a bracket, whether it is near an end); not near an end twice in a row."""
    length = _cubic(bracket[0], bracket[1], None)
    least, greatest = sorted(point.length for point in bracket)
    margin = 0.1 * (greatest - least)
    if min(greatest - length, length - least) >= margin:
        return length, False
    if stuck or length >= greatest or length <= least:
        return (greatest - margin if abs(length - greatest) < abs(length - least) else least + margin), False
    return length, True


def _cubic(a: LinePoint, b: LinePoint, bounds: tuple[float, float] | None) -> float:
    """Return where the cubic through two points, with their slopes, is least between `bounds`.

    These are the two points where they are None. Where there is no such length it is the middle.
    """
    low, high = bounds or (min(a.length, b.length), max(a.length, b.length))
    if a.length == b.length:
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0 or math.isinf(square):
        return (low + high) / 2
    d2 = math.sqrt(square)
    first, last = (a, b) if a.length <= b.length else (b, a)
    divisor = last.slope - first.slope + 2 * d2
    if divisor == 0:
        return (low + high) / 2
    found = last.length - (last.length - first.length) * ((last.slope + d2 - d1) / divisor)
    return min(max(found, low), high)
