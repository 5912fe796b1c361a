"""Words that went out of code, docstrings and comments stay out: docs/glossary.md says what they have become."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core/src/tinygraft"
COMPILER = [CORE / folder for folder in ("codegen", "schedule", "uop", "render")]
ALL = [CORE, *sorted((ROOT / "plugins").glob("*/src"))]
EVERYDAY = r"in (its |their )?turns?\b|turns? (it|its|into|out|on)\b|decide.py turns|pass turns"
NONE = r"(?!)"
# words that are gone -> what says it now, where they are gone, and the phrases in which they are the everyday words
GONE = {
    r"\bturns?\b": ("iteration, trip count", COMPILER, EVERYDAY),
    r"\b(given?|gives|giving) back\b|give_back": ("freed, returned", ALL, NONE),
    r"\b(taken?|takes|taking) apart\b|take_apart|taken_apart|told_apart": ("unpacked, split, separate", ALL, NONE),
    r"\b(every|some)(one|body)\b|\bnobody\b|\bwhoever\b": ("caller, user, reader; unused", ALL, "everyone's"),
    r"\bhistory\b|\bremembere?d?s?\b": ("tape, taped; cached", ALL, NONE),
    r"\broads?\b": ("pipeline", ALL, NONE),
    r"\b(shared out|left over|parted)\b": ("parallelised, remainder, split", ALL, NONE),
    r"\boffers?\b": ("candidate", ALL, NONE),
    r"\b(asks?|asked|asking) for a gradient\b|is_asked|note_asked|\.asks\b": ("requires grad, tracked", ALL, NONE),
    r"\bmet\b|\bMet\b": ("recorded, conflicts", ALL, NONE),
    r"\bpatches\b|\bspellings\b|\binrange\b|\bquiet\b": ("im2col, aliases, range, no_grad", [CORE / "tensor"], NONE),
    r"\blie_in\b|home_of": ("suballocate, base_of", ALL, NONE),
}


def found(pattern: str, phrases: str, text: str) -> list[str]:
    """The lines of a text in which a word stands that went out."""
    return [line.strip() for line in text.splitlines() if re.search(pattern, re.sub(phrases, "", line))]


@pytest.mark.parametrize("pattern", GONE)
def test_words_that_went_out_stay_out(pattern: str) -> None:
    """In the folders that have been gone through."""
    becomes, folders, phrases = GONE[pattern]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 50
    lines = {file.name: lines for file in files if (lines := found(pattern, phrases, file.read_text()))}
    assert lines == {}, f"say {becomes}"


def test_a_word_is_found() -> None:
    """In code and prose, and not where it is the everyday word."""
    pattern, (_, _, phrases) = next(iter(GONE.items()))
    assert found(pattern, phrases, "x\n  # each turn of the loop\nturns = 3\n") == [
        "# each turn of the loop",
        "turns = 3",
    ]
    assert found(pattern, phrases, "it runs them in turns, and turns it around") == []
