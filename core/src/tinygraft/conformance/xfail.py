"""Known defects: conformance.toml names the tests that fail and says why. It is strict in both directions.

    [[xfail]]
    test = "test_cast[float32-int8]"     # the name of the test, as pytest prints it
    reason = "saturates at 126"          # required
    issue = "https://..."                # optional
    device = "MINI"                      # optional: only for this device

A test that is named and passes is a failure; so are a name that no test has and an entry without a reason.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

FILE = "conformance.toml"
KEYS = ("test", "reason", "issue", "device")


class XfailError(ValueError):
    """An error in a conformance.toml."""


@dataclass(frozen=True, slots=True)
class Xfail:
    """One entry of a conformance.toml: a test that is expected to fail, and why."""

    test: str
    reason: str
    issue: str = ""
    device: str = ""

    @property
    def text(self) -> str:
        """Why the test fails, in one line, with the issue."""
        return f"{self.reason} ({self.issue})" if self.issue else self.reason

    def covers(self, test: str, device: str) -> bool:
        """Return whether this entry is about a test of a device; an entry for NAME is about all of its ordinals."""
        return test == self.test and self.device.upper() in ("", device, device.partition(":")[0])


def find(test_file: Path, root: Path) -> Path | None:
    """Return the conformance.toml for the tests of a file: in its folder or the nearest one above, up to `root`.

    A test file outside `root` has the one in `root`. None where there is none.
    """
    folders = [folder for folder in test_file.parents if folder == root or root in folder.parents]
    return next((folder / FILE for folder in [*folders, root] if (folder / FILE).is_file()), None)


def read(file: Path) -> list[Xfail]:
    """Return the entries of a file.

    Raises XfailError for a file that cannot be read, and for an entry without a test or reason.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise XfailError(f"{file} cannot be read: {error}") from error
    entries = table.pop("xfail", [])
    if table or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise XfailError(f"{file} has {', '.join(table) or 'xfail'} where only tables [[xfail]] may be")
    found = []
    for number, entry in enumerate(entries, 1):
        where = f"{file}: [[xfail]] number {number}"
        if unknown := [key for key in entry if key not in KEYS]:
            raise XfailError(f"{where} has {unknown[0]!r}; an entry has {', '.join(KEYS)}")
        if wrong := [key for key, value in entry.items() if not isinstance(value, str)]:
            raise XfailError(f"{where}: {wrong[0]} is {entry[wrong[0]]!r}, not a string")
        if not entry.get("test", "").strip():
            raise XfailError(f'{where} names no test; write test = "test_name[parameters]"')
        if not entry.get("reason", "").strip():
            raise XfailError(f'{where}: {entry["test"]} has no reason; write reason = "..." to say why it fails')
        found.append(Xfail(**entry))
    return found


def check_used(file: Path, entries: Sequence[Xfail], used: set[Xfail], tests: Sequence[str]) -> None:
    """Raise XfailError for an entry that names none of `tests`, with the closest name. `used` are those that do."""
    for entry in entries:
        if entry not in used:
            close = get_close_matches(entry.test, tests, 1)
            meant = f"did you mean {close[0]}?" if close else "take it out"
            of = f" of {entry.device.upper()}" if entry.device else ""
            raise XfailError(f"{file}: no test{of} is called {entry.test}; {meant}")
