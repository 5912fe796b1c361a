"""Words that went out of code, docstrings and comments stay out: docs/glossary.md says what they have become."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = ["codegen", "schedule", "uop", "render"]  # folders of core
EVERYDAY = r"in (its |their )?turns?\b|turns? (it|its|into|out|on)\b|decide.py turns|pass turns"
# a word that is gone -> what says it now, where it is gone, and the phrases in which it is the everyday word
GONE = {r"\bturns?\b": ("iteration, trip count", COMPILER, EVERYDAY)}


def found(pattern: str, phrases: str, text: str) -> list[str]:
    """The lines of a text in which a word stands that went out."""
    return [line.strip() for line in text.splitlines() if re.search(pattern, re.sub(phrases, "", line))]


@pytest.mark.parametrize("pattern", GONE)
def test_words_that_went_out_stay_out(pattern: str) -> None:
    """In the folders that have been gone through."""
    becomes, folders, phrases = GONE[pattern]
    files = [file for folder in folders for file in (ROOT / "core/src/tinygraft" / folder).rglob("*.py")]
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
