"""Which tests of many cases have a part of them in the gate: those that sampled.txt lists. `make long` runs them all.

    leave_out(items)              marks the cases that the gate leaves out as long
    python tests/support/sampling.py out/*.jsonl
                                  writes the list anew from runs with pytest-reportlog's --report-log=out/test.jsonl

A test is listed where all its cases take LEAST seconds or more, but for those of WHOLE. Of its cases, in the order of
the code, the first of each EVERY stay.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

LIST = Path(__file__).parent / "sampled.txt"
EVERY = 6
LEAST = 0.7  # seconds: shorter ones take a fifth of the time of make test
WHOLE = (  # rules that each file is held to, pages, and the kit on the two devices that everybody has
    "tests/architecture/", "tests/docs/", "tests/seeds/", "core/tests/conformance/",
    "plugins/cpu/tests/test_cpu_conformance.py",
)  # fmt: skip


@cache
def listed() -> frozenset[str]:
    """The tests of the list, by their ids without parameters."""
    return frozenset(line for line in LIST.read_text().splitlines() if not line.startswith("#"))


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Mark all but the first of each EVERY cases of listed tests as long. Cases that are long already do not count."""
    seen: Counter[str] = Counter()
    for item in items:
        name, _, case = item.nodeid.partition("[")
        if case and name in listed() and item.get_closest_marker("long") is None:
            if seen[name] % EVERY:
                item.add_marker(pytest.mark.long)
            seen[name] += 1


def long_tests(lines: Iterable[str]) -> list[str]:
    """The tests with cases that take LEAST seconds or more in all, from the lines of report logs."""
    seconds: Counter[str] = Counter()
    cases: dict[str, set[str]] = {}
    for line in lines:
        report = json.loads(line)
        if report.get("$report_type") == "TestReport":
            name, _, case = report["nodeid"].partition("[")
            if name.startswith(WHOLE):
                continue
            seconds[name] += report["duration"]
            cases.setdefault(name, set()).add(case)
    return sorted(name for name, taken in seconds.items() if taken >= LEAST and len(cases[name]) > 1)


if __name__ == "__main__":
    names = long_tests(line for path in sys.argv[1:] for line in Path(path).read_text().splitlines())
    head = "# written by sampling.py: of the cases of these tests one of six is in the gate, and all are in make long"
    LIST.write_text("\n".join([head, *names]) + "\n")
