"""Where a reader sees which rules were applied: DEBUG=5, explain, and the page of VIZ."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from tinygraft import Tensor, events
from tinygraft.config import Context
from tinygraft.dtype import dtypes
from tinygraft.engine import compile, plan, record
from tinygraft.engine.applied import counted_rules
from tinygraft.engine.explanation import explain
from tinygraft.engine.record import Recorder, ScheduleRecord
from tinygraft.rules.fold import fold
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

THREE, ONE = UOp.const(dtypes.int, 3), UOp.const(dtypes.int, 1)


def compute() -> None:
    """A value whose kernel folds a product by 1 and decomposes a maximum, on a device of few ops."""
    a, b = (Tensor([1.0, 2.0, 3.0], device="NULL").realize() for _ in range(2))
    (a * 1).maximum(b).reciprocal().realize()


@pytest.fixture(scope="module")
def schedule() -> ScheduleRecord:
    """What a Recorder keeps of compute's last request."""
    recorder = Recorder()
    stop = events.observe(recorder, *record.OBSERVED)
    try:
        compute()
    finally:
        stop()
        recorder.finish()
    return recorder.schedules[-1]


def test_a_stage_has_the_rules_that_led_to_it(schedule: ScheduleRecord) -> None:
    """What folds belongs to a pass of the schedule, what decomposes to that pass of the kernel."""
    assert [stage.name for stage in schedule.stages if "mul_one" in stage.rules] == ["schedule pass: fuse"]
    passes = {stage.name: stage.rules for stage in schedule.kernels[0].stages}
    assert passes["kernel"] == ""
    assert passes["pass: decompose"] == "maximum_of_floats, reciprocal"


def test_explain_prints_them(schedule: ScheduleRecord) -> None:
    """explain has a line of rules below the pass."""
    assert any("rules: " in line and "mul_one" in line for line in explain(schedule))
    assert any("rules: " in line and "mul_one" in line for line in explain(schedule, passes=True))


def test_debug_5_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    """DEBUG=5 prints the rules of the schedule and of each kernel that is made."""
    plan.clear()
    compile.clear()
    with Context(DEBUG=5):
        compute()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("rules of the schedule: ") and "mul_one" in line for line in lines)
    assert any(line.startswith("rules: maximum_of_floats, reciprocal") for line in lines)


def test_less_than_debug_5_counts_nothing() -> None:
    """With DEBUG=4 no observer is installed."""
    with Context(DEBUG=4), counted_rules() as applied:
        assert not events.on_rule
        fold(Ops.MUL, dtypes.int, (THREE, ONE))
    assert applied == Counter()


def test_each_thread_counts_its_own() -> None:
    """What another thread folds meanwhile is not counted here."""
    with Context(DEBUG=5), counted_rules() as applied:
        other = threading.Thread(target=fold, args=(Ops.MUL, dtypes.int, (THREE, ONE)))
        other.start()
        other.join()
        fold(Ops.SUB, dtypes.int, (THREE, UOp.const(dtypes.int, 0)))
    assert applied == Counter(["sub_zero"])
