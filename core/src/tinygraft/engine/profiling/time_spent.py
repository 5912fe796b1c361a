"""Where the time of a thread went: pieces of work that are nested, each with its time without those inside of it.

In: spans and launches of one thread, on one clock. Out: seconds by kind, whose sum is the time of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tinygraft.engine.profiling.profile_run import Profile

KINDS = {  # the name of a span -> what is printed
    "realize": "Python: preparing and launching",
    "schedule": "scheduling",
    "lower": "writing kernels",
    "compile": "compiling",
    "kernel": "kernels",
    "copy": "copies between devices",
    "wait": "waiting for a device",
}
REST = "Python: the program itself"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work of a thread."""

    kind: str
    start: float
    end: float


def own_times(pieces: Iterable[Piece], begun: float, ended: float) -> dict[str, float]:
    """Return seconds by kind between `begun` and `ended`, where each moment counts for the innermost piece alone.

    "" has the time outside of all pieces.

    >>> own_times([Piece("realize", 1, 6), Piece("kernel", 2, 4)], 0, 10)
    {'': 5.0, 'realize': 3.0, 'kernel': 2.0}
    """
    spent = {"": 0.0}
    open_: list[Piece] = []
    now = float(begun)

    def advance(to: float) -> None:
        """Count the time up to `to` for the innermost open piece."""
        nonlocal now
        to = min(max(to, now), ended)
        kind = open_[-1].kind if open_ else ""
        spent[kind] = spent.get(kind, 0.0) + to - now
        now = to

    for piece in sorted(pieces, key=lambda piece: (piece.start, -piece.end)):
        while open_ and open_[-1].end <= piece.start:
            advance(open_[-1].end)
            open_.pop()
        advance(piece.start)
        open_.append(piece)
    while open_:
        advance(open_[-1].end)
        open_.pop()
    advance(ended)
    return spent


def pieces_of(profile: Profile) -> list[Piece]:
    """Return the work of the thread that began a profile: its spans, and the launches that it waited for."""
    mine = profile.thread
    found = [Piece(s.name, s.start, s.start + s.seconds) for thread, s in profile.spans if thread == mine]
    for thread, one in profile.launches:
        if thread == mine and one.waited:
            kind = "copy" if one.name.startswith("copy ") else "kernel"
            found.append(Piece(kind, one.start, one.start + one.seconds))
    return found


def by_stage(profile: Profile) -> dict[str, float]:
    """Return the seconds of a profile by what is printed, those of the program itself first; they add up to all."""
    spent = own_times(pieces_of(profile), profile.begun, profile.ended)
    named = {REST: spent.pop("")}
    for kind, text in KINDS.items():
        if kind in spent:
            named[text] = spent.pop(kind)
    return named | spent
