"""The OpenCL device under the conformance kit: as it opens here, in work-groups, and on Intel's runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tinygraft.conformance import DeviceConformance
from tinygraft_opencl import pocl

pytestmark = pytest.mark.slow


@pytest.mark.needs("opencl")
class TestOpenCL(DeviceConformance):
    """As it is opened here."""

    device = "OPENCL"


def run_kit(folder: Path, level: str, **settings: str) -> Counter[str]:
    """How many tests of some levels passed or failed in a process of their own."""
    file = folder / "counts.json"
    done = subprocess.run(
        [sys.executable, "-m", "tinygraft", "conformance", "--device", "OPENCL", "--level", level, "--json", str(file)],
        env={**os.environ, "SPEC": "0", **settings}, capture_output=True, text=True, timeout=900, check=False,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (found,) = json.loads(file.read_text())["devices"]
    return sum((Counter(level) for level in found["levels"].values()), Counter())


@pytest.mark.needs("opencl")
@pytest.mark.parametrize(("level", "least"), [
    ("optional", 30), pytest.param("render,optional", 50, marks=pytest.mark.long),
    pytest.param("render,optional,program", 80, marks=pytest.mark.long),
])  # fmt: skip
def test_groups_of_threads_pass(tmp_path: Path, level: str, least: int) -> None:
    """Grids, threads, shared memory and barriers: the levels about source and optional features, and whole programs."""
    counts = run_kit(tmp_path, level, OPENCL_GROUPS="1")
    assert counts["passed"] > least
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.skipif(not pocl.INTEL.exists(), reason="Intel's OpenCL runtime (intel-opencl-rt) is not installed")
def test_intels_runtime_is_found_where_the_hint_says() -> None:
    """What is installed for a processor that PoCL does not know is opened by the variable that the hint names."""
    code = (
        "from tinygraft import Device, Tensor\n"
        "print((Tensor([1.0, 2.0], device='OPENCL') + 1).tolist(), Device['OPENCL'].device.platform.name)"
    )
    assert f"set OCL_ICD_VENDORS={pocl.INTEL}" in pocl.GET_OTHER
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "OCL_ICD_VENDORS": str(pocl.INTEL)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == "[2.0, 3.0] Intel(R) OpenCL\n", done.stderr


@pytest.mark.long
@pytest.mark.skipif(not pocl.INTEL.exists(), reason="Intel's OpenCL runtime (intel-opencl-rt) is not installed")
def test_intels_runtime_passes(tmp_path: Path) -> None:
    """A second implementation, with halves: all levels."""
    counts = run_kit(tmp_path, "0-5", OCL_ICD_VENDORS=str(pocl.INTEL))
    assert counts["passed"] > 1000
    assert set(counts) <= {"passed", "n/a"}
