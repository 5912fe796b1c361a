"""Levels ops, optional and program of the kit: devices with one fault each are caught by name, those without pass.

A conformance suite that has never seen a broken device may not see one at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from installed import installed
from mutants import BACKENDS, MUTANTS
from sound import SOUND
from tinygraft.conformance import DeviceConformance
from tinygraft.conformance.suite import Suite

pytestmark = [pytest.mark.needs("cc"), pytest.mark.slow]


def asked_of(name: str) -> tuple[str, ...]:
    """The tests that a device is asked: a sound one all that the mutants made from it are."""
    if name in MUTANTS:
        return (*MUTANTS[name].caught, *MUTANTS[name].spared)
    ours = [mutant for mutant in MUTANTS.values() if nearest(mutant.backend) is SOUND[name]]
    return tuple(dict.fromkeys(test for mutant in ours for test in (*mutant.caught, *mutant.spared)))


def nearest(backend: type) -> type:
    """The sound device that a backend is made from."""
    kinds = sorted(SOUND.values(), key=lambda kind: -len(kind.__mro__))
    return next(kind for kind in kinds if issubclass(backend, kind))


DEVICES = {name: tests for name in BACKENDS if (tests := asked_of(name))}
PARTS = [
    base
    for base in DeviceConformance.__mro__
    if "_" in (module := base.__module__.rpartition(".")[2]) or module == "render"
]  # of the levels


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, Any]]]:
    """What the kit prints, and reports of each device, run once on all of them in a child process."""
    folder = tmp_path_factory.mktemp("mutants")
    lines, asked = [f"from {Suite.__module__} import Suite"], []
    for name, tests in DEVICES.items():
        parts = [part for part in PARTS if any(test.partition("[")[0] in vars(part) for test in tests)]
        lines += [f"from {part.__module__} import {part.__name__}" for part in parts]
        lines += [f"class Test{name}({', '.join(part.__name__ for part in parts)}, Suite):", f"    device = {name!r}"]
        asked += [f"test_all.py::Test{name}::{test}" for test in tests]
    (folder / "test_all.py").write_text("\n".join(lines))
    with installed(folder, "mutants", **{name: f"mutants:{name}" for name in DEVICES}):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "tinygraft.conformance.plugin", "-p", "no:cacheprovider",
             "-c", os.devnull, "--rootdir=.", "--noconftest", "--tb=short", "--tinygraft-json=found.json", *asked],
            cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout, {one["name"]: one for one in json.loads((folder / "found.json").read_text())["devices"]}


@pytest.fixture(scope="module")
def found(run: tuple[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What the kit reports of each device."""
    return run[1]


def counts(report: dict[str, Any]) -> dict[str, int]:
    """How many tests ended how, in all levels."""
    total: dict[str, int] = {}
    for level in report["levels"].values():
        for kind, number in level.items():
            total[kind] = total.get(kind, 0) + number
    return total


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_name(found: dict[str, dict[str, Any]], name: str) -> None:
    """The tests that are about its fault fail, and others pass."""
    mutant = MUTANTS[name]
    assert sorted(found[name]["tests"].get("failed", ())) == sorted(mutant.caught)
    assert counts(found[name]) == {"failed": len(mutant.caught), "passed": len(mutant.spared)}


@pytest.mark.parametrize("name", SOUND)
def test_a_device_without_a_fault_passes(found: dict[str, dict[str, Any]], name: str) -> None:
    """All that its mutants are asked: so it is the fault that is caught."""
    assert found[name]["tests"] == {}
    assert counts(found[name]) == {"passed": len(DEVICES[name])}


SENTENCES = (
    "IDIV int (-33, 2): got -16, expected -17",  # op, dtype, operands, and both results
    "constant -128: IDIV char (1,): got 0, expected -1",
    "from dtypes.int\nE     CAST char (-2147483648,): got -128, expected 0",
    "NEG float (0.0,): got 0.0, expected -0.0",
    "EXP2 float (",
    "units away where 1.3 are allowed",
    "kernel E_33 wrote past the end of data0: byte ",
    "a bool has the byte 255: it was not written, or not as 0 or 1",
    "kernel E_59: what is a sine?",
    "n = 5",
    "the Target says chunks=4, and the whole loop was run as one chunk: launch a kernel whose signature is chunked",
    "compile() returned a binary of 0 bytes, and load() raised OSError: kernel.so: file too short",
    "two texts that are no programs, for other reasons, have one message:",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_failure_says_what_is_wrong(run: tuple[str, dict[str, dict[str, Any]]], sentence: str) -> None:
    """The op, the dtype, the operands, what came and what should have come."""
    assert sentence in run[0]
