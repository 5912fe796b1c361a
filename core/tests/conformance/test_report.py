"""The lines that the kit prints while it runs: one for each level, where a person sees them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tinygraft.conformance.report import PROPERTY, Report


class Terminal:
    """What of pytest's terminal the report uses."""

    def __init__(self, isatty: bool, verbosity: int = -1) -> None:
        self.isatty, self.verbosity = isatty, verbosity
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        """Nothing to end."""

    def write_line(self, text: str) -> None:
        """Remember it."""
        self.lines.append(text)


def run(terminal: Terminal) -> list[str]:
    """Report three tests of two levels, of which one fails; return what was printed."""
    report: Any = Report("", "--json")
    report.expect([("CPU", "spec"), ("CPU", "spec"), ("CPU", "memory")], terminal)
    for level, outcome in (("spec", "passed"), ("spec", "failed"), ("memory", "passed")):
        for when in ("setup", "call", "teardown"):
            ended = outcome if when == "call" else "passed"
            properties = [(PROPERTY, {"device": "CPU", "level": level})]
            report.pytest_runtest_logreport(
                SimpleNamespace(user_properties=properties, when=when, passed=ended == "passed", skipped=False,
                                failed=ended == "failed", nodeid="a::b"),
            )  # fmt: skip
    return terminal.lines


@pytest.mark.parametrize(("verbosity", "begin"), [(-1, "\n"), (1, "")])
def test_each_level_prints_its_counts_when_it_ends(verbosity: int, begin: str) -> None:
    """On a terminal, below the dots."""
    told = [line.rpartition(" in ")[0] for line in run(Terminal(True, verbosity))]
    assert told == [f"{begin}CPU level 0 spec: 1 passed, 1 failed", f"{begin}CPU level 2 memory: 1 passed"]


def test_pipes_are_quiet() -> None:
    """A log has the table at the end."""
    assert run(Terminal(False)) == []
