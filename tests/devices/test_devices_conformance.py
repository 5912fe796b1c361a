"""The conformance kit on the simulated GPUs: what scheduler and codegen do for a device with thread blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import installed
from kit_run import KitRun, Outcome
from tinygraft.config import Context

pytestmark = pytest.mark.slow

# what make test-slow runs, and of the operations on edge values and on literals what make long runs first
FEW = "not test_elementwise and not test_constants and not test_cast and not test_reduce and not test_accuracy"
SOME = "not test_elementwise and not test_constants and not test_cast or float32 and not int and not uint"
RUN = "class TestIt(DeviceConformance):\n    device, level = {device!r}, {level!r}\n"


@pytest.fixture
def kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[KitRun]:
    """Runs the kit where the simulated GPUs are installed."""
    specs = {"GPUSIM": "gpusim:SPEC", "GPUPLAIN": "gpusim:PLAIN_SPEC", "GPUWEAK": "gpusim:WEAK_SPEC"}
    with installed(tmp_path, "gpusim", **specs):
        yield KitRun(tmp_path, capsys)


def check(outcome: Outcome, device: str, least: int) -> None:
    """All is well, and at least so many tests ran."""
    assert outcome.code == 0, outcome.text
    kinds = [count for counts in outcome.counts(device).values() for count in counts.items()]
    assert sum(number for kind, number in kinds if kind == "passed") >= least


@pytest.mark.parametrize(("chosen", "least"), [
    pytest.param(FEW, 400, id="some operations"),
    pytest.param(SOME, 500, id="some dtypes", marks=pytest.mark.long),
    pytest.param("test", 1000, id="all", marks=pytest.mark.long),
])  # fmt: skip
def test_a_device_with_a_grid_passes(kit: KitRun, chosen: str, least: int) -> None:
    """Every level, with matrix units, thread blocks and shared memory."""
    check(kit(RUN.format(device="GPUSIM", level="1-5"), "-k", chosen), "GPUSIM", least)


def test_a_device_without_matrix_units_passes(kit: KitRun) -> None:
    """The same without tiles, where sums of products go through shared memory."""
    code = RUN.format(device="GPUPLAIN", level="ops,optional,program")
    names = "product or matmul or sum or gradients or address or test_action or training"
    check(kit(code, "-k", names), "GPUPLAIN", 60)


def test_a_device_with_little_passes(kit: KitRun) -> None:
    """Without float64, with few buffers to a kernel and few threads to a block; what it lacks is refused."""
    names = "FMA or POW or SIN or cast or matmul or reduce_length or action or barrier or all_ or positions or training"
    outcome = kit(RUN.format(device="GPUWEAK", level="ops,optional,program"), "-k", names)
    check(outcome, "GPUWEAK", 250)
    assert outcome.device("GPUWEAK")["missing"]["double"] > 20


def test_plain_loops_pass(kit: KitRun) -> None:
    """With NOOPT=1 a kernel of a GPU is plain loops and computes the same."""
    with Context(NOOPT=1):
        outcome = kit(RUN.format(device="GPUSIM", level="ops"), "-k", "product or sum or movement or address")
    check(outcome, "GPUSIM", 50)
