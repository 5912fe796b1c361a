"""The conformance kit where pytest-xdist shares tests out over processes: the same counts, and readable mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit_run import HEAD

pytestmark = pytest.mark.slow

CLASSES = """
class TestInterpreter(DeviceConformance):
    device, level = "PYTHON", "memory"

class TestNothing(DeviceConformance):
    device, level = "NULL", "render,memory"

class TestMine(Suite):
    device = "PYTHON"

    def test_only_the_controller_counts(self, request, worker_id):
        alone = worker_id == "master"
        assert request.config.pluginmanager.has_plugin("tinygraft.conformance.report") is alone

    @needs(block_threads=1000)
    def test_large(self): assert False

    def test_wrong(self): assert False
"""


def run(folder: Path, code: str, processes: int) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """How pytest ended on a file with this code, run in so many processes or its own, and what it found by device."""
    (folder / "test_it.py").write_text(HEAD + code)
    report = folder / f"report{processes}.json"
    plugins = ["-p", "tinygraft.conformance.plugin", "-p", "no:cacheprovider", "-n", str(processes)]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", *plugins]
    command += [f"--tinygraft-json={report}", "test_it.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    found = json.loads(report.read_text())["devices"] if report.exists() else []
    return done, {device.pop("name"): device for device in found}


def in_order(device: dict[str, Any]) -> dict[str, Any]:
    """What was found of a device, without the order in which its tests ended."""
    return device | {"tests": {kind: sorted(names) for kind, names in device["tests"].items()}}


@pytest.mark.slow
def test_several_processes_count_what_one_does(tmp_path: Path) -> None:
    """The report is that of one process, but for a device that cannot be asked: there each test says so for itself."""
    (alone, one), (shared, both) = run(tmp_path, CLASSES, 0), run(tmp_path, CLASSES, 2)
    assert (alone.returncode, shared.returncode) == (1, 1), shared.stdout
    assert in_order(both["PYTHON"]) == in_order(one["PYTHON"])
    assert both["PYTHON"]["levels"]["own"] == {"passed": 1, "n/a": 1, "failed": 1}
    assert both["NULL"]["levels"]["render"] == one["NULL"]["levels"]["render"]
    assert one["NULL"]["levels"]["memory"] == {"n/a": 1}
    assert both["NULL"]["levels"]["memory"] == {"n/a": sum(both["PYTHON"]["levels"]["memory"].values())}
    assert shared.stdout.count("conformance of PYTHON") == shared.stdout.count("conformance of NULL") == 1


@pytest.mark.parametrize(("code", "defects", "why"), [
    ("class TestMine(Suite):\n    def test_it(self): pass\n", "",
     'TestMine has no device: write device = "NAME" in it, or give --tinygraft-device NAME'),
    (CLASSES, '[[xfail]]\ntest = "nonsense"\nreason = "so"\n', "no test is called nonsense; take it out"),
])  # fmt: skip
def test_a_mistake_is_said_and_nothing_is_run(tmp_path: Path, code: str, defects: str, why: str) -> None:
    """What ends one process with a sentence ends several so."""
    (tmp_path / "conformance.toml").write_text(defects)
    done, _ = run(tmp_path, code, 2)
    assert done.returncode == 1
    assert why in done.stdout
    assert "1 error in " in done.stdout  # though each worker has said so
    assert "INTERNALERROR" not in done.stdout
    assert "passed" not in done.stdout
