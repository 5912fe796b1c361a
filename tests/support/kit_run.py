"""Runs of the conformance kit inside a test: a file of tests in a folder of its own, and what pytest made of it."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HEAD = """import pytest
from tinygraft.conformance import DeviceConformance, needs, since
from tinygraft.conformance.suite import Suite
"""


@dataclass(frozen=True)
class Outcome:
    """The exit code of pytest, what it printed, and what the kit wrote as JSON."""

    code: int
    text: str
    report: dict[str, Any]

    def device(self, name: str) -> dict[str, Any]:
        """What the report says of a device."""
        return next(found for found in self.report["devices"] if found["name"] == name)

    def counts(self, name: str) -> dict[str, dict[str, int]]:
        """The counts of a device by level."""
        counts: dict[str, dict[str, int]] = self.device(name)["levels"]
        return counts


class KitRun:
    """Runs pytest on code in a folder, in this process, with no plugin but the kit's."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.runs = folder, capsys, 0

    def __call__(self, code: str, *options: str, only: str = "", plugins: Sequence[object] = ()) -> Outcome:
        """Run a file with this code; only is the name of one test, as on a command line; plugins are of pytest."""
        self.runs += 1
        file = self.folder / f"test_run_{self.folder.name}_{self.runs}.py"
        file.write_text(HEAD + textwrap.dedent(code))
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        self.capsys.readouterr()
        what = f"{file}::{only}" if only else str(file)
        code_of_pytest = pytest.main([
            what, "-c", os.devnull, f"--rootdir={self.folder}", "--noconftest", "-s",
            "-p", "tinygraft.conformance.plugin", "-p", "no:cacheprovider", "--import-mode=importlib", "--tb=short",
            "-p", "no:unraisableexception",  # which collects garbage of the whole process, five times
            f"--tinygraft-json={report}", *options,
        ], plugins)  # fmt: skip
        text = "".join(self.capsys.readouterr())
        return Outcome(int(code_of_pytest), text, json.loads(report.read_text()) if report.exists() else {})


# A whole plugin over core's interpreter; {change} is code of its backend's class body, {spec} more of its spec.
MODULE = """#!
from tinygraft.plugin import ApiRange, DeviceSpec, Probe
{top}
SPEC = DeviceSpec(
    name="{device}", summary="a device of a test", api={api}, kind="accelerator", priority=50,
    probe="{module}:probe", backend="{module}_device:Backend", install_hint="buy a {device}", offline="{offline}",
)

def probe():
    {probe}
"""
BACKEND = """
from dataclasses import replace
from tinygraft.plugin import *
from tinygraft.plugin import PythonBackend

class Backend(PythonBackend):
    def __init__(self, name, ordinal):
        super().__init__(name, ordinal)
        {init}
"""


def add_plugin(fakes: Any, device: str, *, api: str = "ApiRange((0, 1), (0, 2))", top: str = "", init: str = "pass",
               probe: str = 'return Probe(ok=True, detail="found")', code: str = "", offline: str = "",
               requires: str = "tinygraft>=0.1,<0.2") -> None:  # fmt: skip
    """Install a device over core's interpreter: init are statements of its backend, code what its file begins with."""
    module = f"tinygraft_{device.lower()}"
    fakes.add(device, MODULE.format(device=device, module=module, api=api, top=top, probe=probe, offline=offline))
    body = textwrap.indent(textwrap.dedent(init).strip(), " " * 8).strip()
    (fakes.folder / f"{module}_device.py").write_text(textwrap.dedent(code) + BACKEND.format(init=body))
    if requires:
        metadata = fakes.folder / f"{module}-1.0.dist-info" / "METADATA"
        metadata.write_text(metadata.read_text() + f"Requires-Dist: {requires}\n")
