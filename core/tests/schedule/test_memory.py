"""Places for temporaries: no two that live at once share a byte, little is wasted, the same in every process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tinygraft.dtype import dtypes
from tinygraft.schedule.memory import ARENA, Life, lifetimes, most_at_once, place
from tinygraft.uop.uop import UOp


def life(calls: int = 12) -> st.SearchStrategy[Life]:
    """A life of up to 500 bytes within some calls."""
    ends = st.tuples(st.integers(0, calls), st.integers(0, calls)).map(sorted)
    return st.builds(lambda nbytes, ends: Life(nbytes, ends[0], ends[1]), st.integers(1, 500), ends)


LIVES = st.lists(life(), max_size=25).map(tuple)


@settings(max_examples=300, deadline=None)
@given(LIVES, st.lists(life(), max_size=4).map(tuple), st.sampled_from([1, 16, 64]))
def test_two_that_live_at_once_never_overlap(lives: tuple[Life, ...], spare: tuple[Life, ...], alignment: int) -> None:
    """Each lies in its home, aligned, before that is needed for itself, and apart from whatever lives with it."""
    places = place(lives, spare, alignment)
    for i, mine in enumerate(lives):
        home, offset = places.homes[i], places.offsets[i]
        assert offset % alignment == 0
        assert offset + mine.nbytes <= (places.size if home == ARENA else spare[home].nbytes)
        assert home == ARENA or mine.last < spare[home].first
        for k, other in enumerate(lives[:i]):
            if places.homes[k] == home and mine.first <= other.last and other.first <= mine.last:
                start = places.offsets[k]
                assert offset + mine.nbytes <= start or start + other.nbytes <= offset


@settings(max_examples=100, deadline=None)
@given(LIVES)
def test_an_arena_lies_between_the_most_at_once_and_the_sum(lives: tuple[Life, ...]) -> None:
    """No plan can need less than what lives at one call, and none needs more than everything beside each other."""
    size = place(lives).size
    assert most_at_once(lives) <= size <= sum(-(-one.nbytes // 64) * 64 for one in lives)


def test_values_one_after_another_take_turns() -> None:
    """In a chain of equal steps two places are enough, however long it is."""
    chain = tuple(Life(1000, i, i + 1) for i in range(50))
    assert place(chain).size == 2 * 1024


def test_a_small_value_fills_a_gap() -> None:
    """What fits where something else has ended does not make the arena larger."""
    lives = (Life(64, 0, 3), Life(256, 0, 1), Life(192, 2, 3), Life(64, 2, 3))
    assert place(lives).size == most_at_once(lives) == 320


def test_a_result_lends_its_memory_until_it_is_written() -> None:
    """What has ended before the call that writes a result may lie there; what lives on may not."""
    spare = (Life(256, 2, 9),)
    assert place((Life(256, 0, 1),), spare).size == 0
    assert place((Life(256, 0, 2),), spare).size == 256
    assert place((Life(257, 0, 1),), spare).size == 320


def test_the_places_are_the_same_in_every_process() -> None:
    """Nothing depends on hashes or addresses: the plan could be kept on disk."""
    code = (
        "from tinygraft.schedule.memory import Life, place;"
        "lives = tuple(Life((i * 7919) % 991 + 1, i % 17, i % 17 + i % 5) for i in range(80));"
        "print(place(lives, (Life(2000, 9, 20),)))"
    )
    answers = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(answers) == 1
    assert "Offsets(homes=(" in answers.pop()


@dataclass
class Call:
    """Something on buffers."""

    buffers: tuple[UOp, ...]


def test_lifetimes_go_from_the_first_call_to_the_last() -> None:
    """By the BUFFERs that calls name; what is kept and what has no elements is left out."""
    a, b, c = (UOp.buffer("NULL", n, dtypes.float32) for n in (4, 5, 0))
    calls = [Call((a, c)), Call((b, a)), Call((b,)), Call((a, a))]
    assert lifetimes(calls) == {a: Life(16, 0, 3), b: Life(20, 1, 2)}
    assert lifetimes(calls, {a}) == {b: Life(20, 1, 2)}


def test_little_is_wasted() -> None:
    """Four hundred values of seven sizes, four alive at a time: within a third of the least that could do."""
    lives = tuple(Life(64 * (i % 7 + 1), i, i + 3) for i in range(400))
    assert place(lives).size <= 1.33 * most_at_once(lives)
