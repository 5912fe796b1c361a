"""The report of a run on a machine with a card: what failed, ran out of time or was left out is named, never hidden."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from card_parts import Card, Part, main

PARTS = {
    "open": Part(["-c", "print('into OUT')"], {}, 10, short=["more"]),
    "bad": Part(["-c", "import nothing_there"], {}, 10),
    "slow": Part(["-c", "import time; print('begun', flush=True); time.sleep(99)"], {}, 2),
    "gone": Part(["-c", "1"], {}, 10),
}


def card(**parts: Part) -> Card:
    """A card of some parts, of which `gone` is not there."""
    return Card("metal", parts, lambda name, path: "not here" if name == "gone" else "", minutes=0.5)


def reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: Card, *options: str
) -> tuple[int, str]:
    """The exit code and the last line of a run."""
    monkeypatch.setattr(sys, "argv", ["on_a_card.py", *options])
    code = main(given, "What it does.")
    return int(code), capsys.readouterr().out.splitlines()[-1]


def test_what_failed_or_was_left_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the last line and in the report, with the end of what each part said; the exit code is 1."""
    code, last = reported(monkeypatch, capsys, card(**PARTS), "--out", str(tmp_path))
    assert (code, last) == (1, "FAILED: bad, slow; PASSED: open; left out: gone (not here)")
    found = json.loads((tmp_path / "card.json").read_text())
    assert found["parts"]["open"]["said"] == f"into {tmp_path}\n"
    assert "nothing_there" in found["parts"]["bad"]["said"]
    assert found["parts"]["slow"]["said"] == "begun\n\nit took longer than its share of the time"
    assert found["about"]["platform"]
    assert not found["about"]["short"]


def test_nothing_runs_where_the_card_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other parts say why they were left out, and the run failed."""
    given = card(open=PARTS["bad"], more=PARTS["open"])
    code, last = reported(monkeypatch, capsys, given, "--out", str(tmp_path))
    assert (code, last) == (1, "FAILED: open; left out: more (the card could not be opened)")
    given = card(open=PARTS["open"])
    assert reported(monkeypatch, capsys, given, "--short", "--out", str(tmp_path)) == (0, "ALL PASSED")


def test_a_part_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt part would otherwise be a run of nothing that passed; --help names them all."""
    with pytest.raises(SystemExit, match="2"):
        reported(monkeypatch, capsys, card(**PARTS), "--only", "open,kit")
    assert capsys.readouterr().err.endswith("error: there is no part kit; the parts are open, bad, slow, gone\n")
    with pytest.raises(SystemExit, match="0"):
        reported(monkeypatch, capsys, card(**PARTS), "--help")
    said = capsys.readouterr().out
    assert "What it does." in said
    assert "parts, in their order: open, bad, slow, gone" in said
