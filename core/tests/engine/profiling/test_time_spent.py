"""Where the time went: nested pieces add up to the whole, whatever they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tinygraft.engine.profiling.time_spent import Piece, own_times


def test_the_innermost_counts() -> None:
    """A kernel inside of a realisation is no time of the realisation; what is cut off at the end is not counted."""
    pieces = [Piece("realize", 0, 5), Piece("compile", 1, 3), Piece("lower", 1, 2), Piece("kernel", 4, 5),
              Piece("kernel", 8, 12)]  # fmt: skip
    assert own_times(pieces, 0, 10) == {"": 3, "realize": 2, "compile": 1, "lower": 1, "kernel": 3}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 20), st.integers(0, 9))))
def test_they_add_up(given_: list[tuple[str, int, int]]) -> None:
    """The sum is the time of the run, also of pieces that overlap or lie outside; no time is negative."""
    spent = own_times([Piece(kind, start, start + length) for kind, start, length in given_], 0, 15)
    assert sum(spent.values()) == 15
    assert min(spent.values()) >= 0
