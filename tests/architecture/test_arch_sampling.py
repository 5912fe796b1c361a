"""The list of tests of which the gate has some cases: what it names exists, and what is left out is in make long."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sampling

ROOT = Path(__file__).parent.parent.parent


def test_every_listed_test_is_there() -> None:
    """By its file and the name of its function, or of a class of the kit that the file names."""
    missing = []
    for name in sampling.listed():
        file, *inside = name.split("::")
        text = (ROOT / file).read_text() if (ROOT / file).exists() else ""
        defined = rf"def {inside[-1]}\(" if len(inside) == 1 else rf"class {inside[0]}\("
        if not re.search(defined, text):
            missing.append(name)
    assert missing == []
    assert len(sampling.listed()) > 400


def test_files_that_are_whole_are_not_listed() -> None:
    """Rules for each file, pages, and the kit on the CPU."""
    assert [name for name in sampling.listed() if name.startswith(sampling.WHOLE)] == []


class Case:
    """What `leave_out` asks of a test that was collected."""

    def __init__(self, nodeid: str, is_long: bool = False) -> None:
        self.nodeid, self.is_long = nodeid, is_long

    def get_closest_marker(self, name: str) -> object:
        """Return a mark where it has that one."""
        return True if name == "long" and self.is_long else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        """Note the mark."""
        assert mark.name == "long"
        self.is_long = True


def test_one_case_of_six_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a listed test; another test has all, and a case that is long already does not count."""
    monkeypatch.setattr(sampling, "listed", lambda: {"a.py::test_listed", "a.py::test_one"})
    items = [Case("a.py::test_listed[long]", is_long=True), Case("a.py::test_one")]
    items += [Case(f"a.py::{name}[{case}]") for name in ("test_listed", "test_other") for case in range(13)]
    sampling.leave_out(items)  # type: ignore[arg-type]
    stay = [item.nodeid.partition("::")[2] for item in items if not item.is_long]
    assert stay == [
        "test_one",
        *[f"test_listed[{case}]" for case in (0, 6, 12)],
        *[f"test_other[{i}]" for i in range(13)],
    ]


def test_the_list_has_tests_with_long_cases() -> None:
    """By the sum of their cases, of setup, call and teardown; one case is no sample."""
    reports = [
        ("a.py::test_x[1]", 0.4), ("a.py::test_x[2]", 0.4), ("a.py::test_y[1]", 0.3), ("a.py::test_y[2]", 0.3),
        ("a.py::test_z[1]", 9.0), ("a.py::test_w", 9.0), ("tests/docs/test_a.py::test_v[1]", 9.0),
        ("tests/docs/test_a.py::test_v[2]", 9.0),
    ]  # fmt: skip
    lines = [json.dumps({"$report_type": "TestReport", "nodeid": name, "duration": s}) for name, s in reports]
    assert sampling.long_tests([json.dumps({"$report_type": "SessionStart"}), *lines]) == ["a.py::test_x"]
