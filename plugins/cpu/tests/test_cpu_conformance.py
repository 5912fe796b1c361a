"""The CPU device under the conformance kit: through LLVM in this process, through the C compiler in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygraft.conformance import DeviceConformance

pytestmark = pytest.mark.slow


class TestCpu(DeviceConformance):
    """As it is opened here."""

    device = "CPU"


# parts of names: uint8 and bfloat16 too; routines are the extension's, and the accuracy of this compiler's kernels is
# tested by tests/devices/test_devices_accuracy.py
OTHERS = ("int8", "int16", "int32", "int64", "uint", "float64", "float16", "fp8", "bool", "routine", "accuracy")


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.parametrize(("chosen", "least"), [
    pytest.param("test_sum or test_product or test_matmul or test_training or test_shape", 60, id="some"),
    pytest.param(" and ".join(f"not {name}" for name in OTHERS), 300, id="float32", marks=pytest.mark.long),
    pytest.param("test", 1100, id="all", marks=pytest.mark.long),
])  # fmt: skip
def test_the_kit_passes_through_the_c_compiler(tmp_path: Path, chosen: str, least: int) -> None:
    """A device is opened once in a process, so the other compiler is tested in another process."""
    file = tmp_path / "counts.json"
    done = subprocess.run(
        [sys.executable, "-m", "tinygraft", "conformance", "--device", "CPU", "--json", str(file), "-k", chosen],
        env={**os.environ, "CPU_COMPILER": "c", "SPEC": "0"}, capture_output=True, text=True, timeout=600, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    (found,) = json.loads(file.read_text())["devices"]
    assert sum(level.get("passed", 0) for level in found["levels"].values()) > least
    assert not {kind for level in found["levels"].values() for kind in level} - {"passed", "n/a"}
