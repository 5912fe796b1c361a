"""The checked-in table of what is not there and what is not right, with a reason each: reasons.toml.

Verdicts in, complaints out: about what went wrong without a reason, and about reasons for what is right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judge import Verdict

PATH = Path(__file__).parent / "reasons.toml"


@dataclass(frozen=True)
class Entry:
    """Why operators whose names match a pattern are missing, or wrong in these kinds of samples."""

    pattern: str
    reason: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reasons:
    """The table."""

    missing: tuple[Entry, ...]
    wrong: tuple[Entry, ...]
    other: tuple[Entry, ...] = ()


def read(path: Path = PATH) -> Reasons:
    """The table of a file: in [missing] and [other] an operator has a reason, in [wrong] the wrong kinds before it."""
    table = tomllib.loads(path.read_text())
    missing = [Entry(pattern, reason) for pattern, reason in table["missing"].items()]
    wrong = [Entry(pattern, row[-1], tuple(row[:-1])) for pattern, row in table["wrong"].items()]
    other = [Entry(name, reason) for name, reason in table["other"].items()]
    return Reasons(tuple(missing), tuple(wrong), tuple(other))


def entry_for(op: str, entries: Iterable[Entry]) -> Entry | None:
    """The first entry whose pattern an operator matches; its own name goes before patterns."""
    exact = [e for e in entries if e.pattern == op]
    return next(iter(exact), None) or next((e for e in entries if fnmatchcase(op, e.pattern)), None)


def unexplained(verdicts: Iterable[Verdict], table: Reasons) -> list[str]:
    """What is missing or wrong and has no reason."""
    found = []
    for verdict in verdicts:
        entry = entry_for(verdict.op, table.wrong if verdict.found else (*table.other, *table.missing))
        if verdict.found is None and entry is None:
            found.append(f"{verdict.op}: not found, and there is no reason for it in [missing]")
        for kind in verdict.failing:
            if entry is None or kind not in entry.kinds:
                first = next(f"sample {number}: {problem}" for k, number, problem in verdict.wrong if k == kind)
                found.append(f"{verdict.op}: {kind} is wrong, {first}")
    return found


def outdated(verdicts: Iterable[Verdict], table: Reasons) -> list[str]:
    """Reasons for what is there or right. The verdicts are those of all operators and all samples."""
    every = list(verdicts)
    used: set[tuple[str, str]] = set()
    for verdict in every:
        entry = entry_for(verdict.op, table.wrong if verdict.found else (*table.other, *table.missing))
        if entry is not None:
            used |= {(entry.pattern, kind) for kind in ("missing",) * (verdict.found is None) + (*verdict.failing,)}
    complaints = [
        f"[missing] {e.pattern!r}: nothing is missing" for e in table.missing if (e.pattern, "missing") not in used
    ]
    complaints += [
        f"[other] {e.pattern!r}: nothing has that name" for e in table.other if (e.pattern, "missing") not in used
    ]
    for entry in table.wrong:
        right = [kind for kind in entry.kinds if (entry.pattern, kind) not in used]
        complaints += [f"[wrong] {entry.pattern!r}: {kind} is right everywhere" for kind in right]
    return complaints
