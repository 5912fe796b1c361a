"""Profiles of programs: what is printed, the trace, and that a second look finds what the first one did."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygraft import Tensor, TinyJit, events
from tinygraft.engine import origins
from tinygraft.engine.origins import MemoryChange, UserLine
from tinygraft.engine.profiling import perfetto
from tinygraft.engine.profiling.perfetto import trace_events, write_trace
from tinygraft.engine.profiling.profile_report import memory_at_peak, report_lines
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.engine.profiling.time_spent import REST, by_stage

SLOW = """
from tinygraft import Tensor, nn

class Net:
    def __init__(self):
        self.small, self.large = nn.Linear(4, 60), nn.Linear(60, 60)

    def __call__(self, x):
        return self.large(self.small(x).relu())

net = Net()
for i in range(2):
    x = Tensor.ones(20, 4).contiguous().realize()
    print(round(net(x).sum().item() * 0))
"""


def profiled() -> Profile:
    """A small program, profiled."""
    profile = Profile("small").start()
    try:
        for _ in range(3):
            (Tensor([1.0, 2.0, 3.0]) * 2).realize()
    finally:
        profile.stop()
        events.origins = None
    return profile


def test_the_times_add_up() -> None:
    """The stages are all of the time, and the launches that were waited for are among them."""
    profile = profiled()
    stages = by_stage(profile)
    assert sum(stages.values()) == pytest.approx(profile.ended - profile.begun, rel=1e-9)
    assert {REST, "kernels", "scheduling", "writing kernels", "compiling"} <= stages.keys()
    assert stages["kernels"] == pytest.approx(sum(one.seconds for _, one in profile.launches), rel=1e-6)


def test_the_times_are_those_of_a_clock() -> None:
    """What the program itself did, as sleeping, counts for it alone; all stages together are the time of a clock."""
    start = time.perf_counter()
    profile = Profile("sleeps").start()
    try:
        for _ in range(3):
            (Tensor([1.0, 2.0, 3.0]) * 2).realize()
            time.sleep(0.05)
    finally:
        profile.stop()
        events.origins = None
    passed = time.perf_counter() - start
    stages = by_stage(profile)
    assert 0.15 <= stages[REST] <= passed
    assert sum(stages.values()) == pytest.approx(passed, abs=0.05)


def test_a_stopped_profile_takes_nothing_more() -> None:
    """After stop() no event is added, and stopping again changes nothing."""
    profile = profiled()
    count, ended = len(profile.launches), profile.ended
    (Tensor([1.0, 2.0, 3.0]) * 5).realize()
    assert (len(profile.launches), profile.stop().ended) == (count, ended) == (3, ended)


def test_the_trace_has_every_launch(tmp_path: Path) -> None:
    """Chrome's format: complete events with times in order, a name for every track, the module and lines of kernels."""
    profile = profiled()
    write_trace(profile, tmp_path / "run.trace.json")
    found = json.loads((tmp_path / "run.trace.json").read_text())["traceEvents"]
    assert found == json.loads(json.dumps(list(trace_events(profile))))
    named = {(e["pid"], e["tid"]) for e in found if e["ph"] == "M"}
    kernels = [e for e in found if e.get("cat") == "kernel"]
    assert len(kernels) == 3
    for event in found:
        assert event["ph"] in ("X", "M", "C")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert event["ph"] == "C" or isinstance(event["tid"], int)
        assert isinstance(event.get("args", {}), dict)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
            assert event["ts"] >= 0
            assert event["ts"] + event["dur"] <= (profile.ended - profile.begun) * 1e6 + 1
    assert {e["args"]["lines"][0].rpartition(":")[0].rpartition("/")[2] for e in kernels} == {Path(__file__).name}
    memory = [e["args"]["bytes"] for e in found if e["ph"] == "C"]
    assert memory
    assert min(memory) >= 0


def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is no silent loss."""
    monkeypatch.setattr(perfetto, "write_atomic", lambda path, data: False)
    with pytest.raises(OSError, match="could not be written"):
        write_trace(profiled(), tmp_path / "x.json")


def test_the_peak_of_memory() -> None:
    """The most that was in use at once, by line."""
    a, b = UserLine("/there/a.py", 3, "Net.conv"), UserLine("/there/b.py", 4)
    changes = [
        MemoryChange(1.0, "X", 100, 0, a), MemoryChange(2.0, "X", 70, 1, b), MemoryChange(3.0, "X", -70, 1, None),
        MemoryChange(4.0, "X", 30, 2, a), MemoryChange(5.0, "Y", 60, 3, b), MemoryChange(6.0, "X", -100, 0, None),
    ]  # fmt: skip
    assert memory_at_peak(changes) == (190, 5.0, {"/there/a.py:3  Net.conv": 130, "/there/b.py:4": 60})
    assert memory_at_peak([]) == (0, 0.0, {})


def test_a_replay_is_preparing_and_launching() -> None:
    """What a TinyJit does around its launches is no time of the program itself."""
    step = TinyJit(lambda x: (x * 2).realize())
    x = Tensor([1.0, 2.0]).realize()
    for _ in range(3):
        step(x)
    profile = Profile("replays").start()
    try:
        for _ in range(5):
            step(x)
    finally:
        profile.stop()
        events.origins = None
    assert [span.detail for _, span in profile.spans if span.name == "realize"] == ["a replay"] * 5
    assert by_stage(profile)["Python: preparing and launching"] > 0


def test_a_second_profile_counts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one allocated, and did not note past the bound, is none of the second one's."""
    first = Profile("first").start()
    monkeypatch.setattr(origins, "MOST_CHANGES", 0)
    (Tensor([1.0, 2.0]) * 2).realize()
    monkeypatch.undo()
    held = Tensor.ones(100, 100).contiguous().realize()
    first.stop()
    second = Profile("second").start()
    try:
        del held
        gc.collect()
        kept = Tensor.ones(50, 50).contiguous().realize()
        second.stop()
    finally:
        events.origins = None
    assert first.omitted > 0 == second.omitted
    assert memory_at_peak(second.memory)[0] >= kept.nbytes()
    assert min(one.nbytes for one in second.memory) > -40_000
    assert all(one["args"]["bytes"] >= 0 for one in trace_events(second) if one["ph"] == "C")


def test_an_empty_profile_prints() -> None:
    """A program that asked for no value has a report too."""
    profile = Profile("nothing").start().stop()
    events.origins = None
    lines = list(report_lines(profile))
    assert lines[1].startswith("profile of nothing: ")
    assert [line for line in lines if "kernels by" in line] == []


def run(arguments: list[str], folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the device of core."""
    environment = {**os.environ, "DEV": "PYTHON", "TMPDIR": str(folder), **settings}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=120)  # fmt: skip


def test_profile_finds_the_slow_layer(tmp_path: Path) -> None:
    """PROFILE=1: the first module of the report is the slow one, with its line; the output of the script is as ever."""
    (tmp_path / "slow.py").write_text(SLOW)
    done = run(["slow.py"], tmp_path, PROFILE="1")
    assert (done.returncode, done.stdout) == (0, "0\n" * 2)
    lines = done.stderr.splitlines()
    first = lines[[line.startswith("kernels by module") for line in lines].index(True) + 1]
    assert first.split()[0] == "Net.large"
    assert "slow.py:9 " in lines[[line.startswith("kernels by line") for line in lines].index(True) + 1]
    (trace,) = tmp_path.glob("tinygraft-*.trace.json")
    assert str(trace) in lines[-1]
    assert json.loads(trace.read_text())["traceEvents"]


def test_the_command_is_the_same(tmp_path: Path) -> None:
    """`tinygraft profile` writes its trace beside, gives arguments to the script and returns its exit code."""
    (tmp_path / "ends.py").write_text("import sys; from tinygraft import Tensor\n"
                                      "print(Tensor([2.0]).exp2().item(), *sys.argv[1:]); sys.exit(3)\n")  # fmt: skip
    done = run(["-m", "tinygraft", "profile", "ends.py", "--fast"], tmp_path)
    assert (done.returncode, done.stdout) == (3, "4.0 --fast\n")
    assert "profile of ends.py --fast: " in done.stderr
    assert (tmp_path / "ends.trace.json").exists()
    assert run(["-m", "tinygraft", "profile", "none.py"], tmp_path).returncode == 2
    refused = run(["-m", "tinygraft", "profile", "--out", "no/where.json", "ends.py"], tmp_path)
    assert refused.returncode == 2
    assert "'no/where.json' cannot be written; give another file by --out" in refused.stderr
