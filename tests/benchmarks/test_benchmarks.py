"""The benchmarks measure what they say: results are compared first, no fallback is silent, reports are complete."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import __main__ as command_line
from benchmarks import fresh, measure, once, picture, report
from benchmarks.case import Case
from benchmarks.items import ITEMS, Item, few, find, short
from benchmarks.measure import Pace, Result, Row, relative_distance
from benchmarks.peers import OURS, Peer, PeerError, Process, named

ROOT = Path(__file__).parents[2]
GOOD = {"compiler": "llvm", "extension": "present", "threads": 2}


class FakeProcess:
    """Answers as a worker does, with these values, seconds and counts."""

    threads, child = 2, object()

    def __init__(self, name: str, values: Any, seconds: float, counts: Any = None, facts: Any = GOOD) -> None:
        self.peer, self.facts = Peer(name, name), facts
        self.values, self.seconds, self.counts = np.array(values, np.float32), seconds, counts or {}
        self.asked: list[str] = []

    def ask(self, command: dict[str, Any], patience: float) -> dict[str, Any]:
        """An answer; a fake library lacks the items of kind "other"."""
        self.asked.append(command["do"])
        if command["do"] == "set up":
            if command["kind"] == "other":
                return {"missing": True}
            np.save(command["values"], self.values)
            return {"warm": [1.0], **self.counts}
        if command["do"] == "time" and self.seconds < 0:
            raise PeerError("it broke")
        return {"seconds": [self.seconds, 2 * self.seconds]} if command["do"] == "time" else {}


def lines(item: Item, *processes: FakeProcess) -> list[report.Line]:
    """What is reported of an item that fake processes have run."""
    row = measure.in_turns(item, processes, Pace(rounds=3, seconds=0))  # type: ignore[arg-type]
    return report.lines([[row]])


def test_the_ratio_is_that_of_the_minima_and_is_held_against_the_bar() -> None:
    """Their minimum over ours passes at the bar and fails below it."""
    ours, theirs = FakeProcess("tinygraft", [1], 0.002), FakeProcess("torch", [1], 0.003)
    for bar, verdict in ((1.5, "pass"), (1.6, "fail")):
        (line,) = lines(Item("matmul", bars={"torch": bar}), ours, theirs)
        assert (line.ours, line.theirs, line.ratio, line.verdict) == (2.0, 3.0, pytest.approx(1.5), verdict)
    assert ours.asked == ["set up", "time", "time", "time", "drop"] * 2


def test_other_values_are_wrong_however_fast() -> None:
    """A peer whose result is further from ours than the tolerance makes the row wrong, and both numbers are said."""
    (line,) = lines(Item("matmul"), FakeProcess("tinygraft", [1, 2], 1), FakeProcess("torch", [1, 2.1], 9))
    assert line.verdict == "wrong"
    assert line.note == "its values are 0.027 from ours, more than 0.0001"


@pytest.mark.parametrize(
    ("facts", "counts", "said"),
    [
        ({"compiler": "c"}, {}, "the compiler is c, not llvm"),
        ({"extension": "the extension was not built"}, {}, "the extension was not built"),
        ({"threads": 1}, {}, "1 threads, not 2"),
        ({}, {"kernels": 3}, "3 kernels, not at most 2"),
        ({}, {"kernels": 2, "compiled": 1}, "a run after the warm-up compiled 1 kernels"),
    ],
)
def test_a_silent_fallback_is_wrong(facts: Any, counts: Any, said: str) -> None:
    """Ours counts only with the compiler, the extension, the threads and the kernels that it should have."""
    ours = FakeProcess("tinygraft", [1], 1, counts, GOOD | facts)
    (line,) = lines(Item("matmul", kernels=2), ours, FakeProcess("torch", [1], 9))
    assert (line.verdict, line.note) == ("wrong", said)


def test_a_peer_that_breaks_or_lacks_an_item_harms_nobody() -> None:
    """A failure is a note in that peer's line; a library without the item has no line."""
    ours, broken = FakeProcess("tinygraft", [1], 1), FakeProcess("torch", [1], -1)
    found = lines(Item("matmul"), ours, broken, FakeProcess("jax", [1], 2))
    assert [(line.against, line.verdict, line.note) for line in found] == [("torch", "", "it broke"), ("jax", "", "")]
    (line,) = lines(Item("matmul"), FakeProcess("tinygraft", [1], -1), FakeProcess("jax", [1], 2))
    assert (line.verdict, line.note) == ("wrong", "it broke")
    with_limit = Item("other", limit=1)
    assert [line.against for line in lines(with_limit, ours, broken)] == ["limit"]


def test_apart_is_a_share_of_the_value_and_the_mean() -> None:
    """|a - b| / (|b| + rms(b)), 0 for equal NaN and infinities, infinite where shapes or NaN differ."""
    assert relative_distance(np.array([3.0, 4.0]), np.array([3.0, 4.0])) == 0
    assert relative_distance(np.array([1.0, 1.2]), np.array([1.0, 1.0])) == pytest.approx(0.1)
    assert relative_distance(np.array([np.nan, np.inf]), np.array([np.nan, np.inf])) == 0
    assert relative_distance(np.array([np.nan, 1.0]), np.array([1.0, 1.0])) == np.inf
    assert relative_distance(np.ones((2, 1)), np.ones(2)) == np.inf


def test_items_have_names_of_their_own_and_odd_ones_lower_bars() -> None:
    """Every name finds its one item, and what is odd is asked 0.8 of what an even one of its kind is."""
    assert all(find(item.name) == [item] for item in ITEMS)
    for odd in (item for item in ITEMS if item.odd):
        even = [item.bars for item in ITEMS if item.kind == odd.kind and not item.odd and item.bars]
        assert {peer: round(bar / 0.8, 3) for peer, bar in odd.bars.items()} in even
    with pytest.raises(ValueError, match="there is no item 'matmull'; the kinds are matmul, matmul_bf16"):
        find("chain,matmull")
    with pytest.raises(ValueError, match="no item 'matmul:300'; of that kind there are matmul:256, matmul:512"):
        find("matmul:300")


def test_pytorch_is_measured_twice() -> None:
    """As installed and with jemalloc; a peer may have a Python of its own."""
    assert [(peer.name, peer.python) for peer in named("torch=/usr/bin/python3")] == [
        ("torch", "/usr/bin/python3"),
        ("torch+jemalloc", "/usr/bin/python3"),
    ]
    assert named("none") == []
    (compiled,) = named("torch+compile")
    assert (compiled.library, compiled.environment) == ("torch", {"BENCHMARK_COMPILE": "1"})
    with pytest.raises(ValueError, match="there is no peer 'torhc'; the peers are numpy, torch, .*, torch\\+compile$"):
        named("torhc")


def test_pytorch_takes_the_quicker_way() -> None:
    """Of two cases that of the least time is measured, whichever comes first."""
    pytest.importorskip("torch")
    from benchmarks.with_torch import ops

    slow, quick = (Case(lambda seconds=seconds: time.sleep(seconds), lambda result: result) for seconds in (0.02, 0))
    assert ops.quicker(slow, quick) is quick
    assert ops.quicker(quick, slow) is quick


def test_an_absent_peer_is_said_to_be_absent(tmp_path: Path) -> None:
    """A Python that does not start, and one without the library, are no error; the second says what to install."""
    process = Process(named("numpy=/no/such/python")[0], 1)
    assert process.absent == "/no/such/python does not start: No such file or directory"
    (tmp_path / "jax.py").write_text("raise ImportError('no jax here')\n")
    process = Process(Peer("jax", "jax", environment={"PYTHONPATH": f"{tmp_path}:{ROOT}"}), 1)
    assert process.absent == "no jax here (pip install jax)"
    process.close()


@pytest.mark.needs("ext")
@pytest.mark.slow
def test_a_run_leaves_a_table_json_and_a_picture(tmp_path: Path) -> None:
    """Small items beside numpy, one of them in fresh processes: every report has every comparison."""
    pytest.importorskip("llvmlite")
    pytest.importorskip("matplotlib")
    out, drawn = tmp_path / "new" / "out.json", tmp_path / "new" / "out.png"
    command = [sys.executable, "-m", "benchmarks", "--only", "tiny,matmul:256,import", "--peers", "numpy", "--quick"]
    command += ["--threads", "1", "--profile", "--json", str(out), "--picture", str(drawn)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    compared = [(line["item"], line["against"]) for line in found["lines"]]
    assert compared == [
        ("tiny", "limit"), ("tiny", "numpy"), ("matmul:256", "numpy"), ("import", "limit"), ("import", "numpy")
    ]  # fmt: skip
    assert all(line["ratio"] > 0 for line in found["lines"])
    assert found["libraries"]["tinygraft"]["extension"] == "present"
    assert all(f"{item:<24}" in done.stdout and against in done.stdout for item, against in compared)
    assert "in all, each launch timed by itself" in done.stdout
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_first_calls_are_those_of_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cold runs get new folders for caches; warm ones share one, and the run that fills it is not counted."""
    caches: list[str] = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> Any:
        caches.append(env["TINYGRAFT_CACHE"])
        np.save(command[-2], np.ones(3))
        return subprocess.CompletedProcess(command, 0, json.dumps({"amount": 0.1 * len(caches)}), "")

    monkeypatch.setattr(subprocess, "run", run)
    process: Any = FakeProcess("tinygraft", [1], 1)
    cold = fresh.measure(Item("first", how="first", of="gpt2"), [process], Pace(rounds=3)).results["tinygraft"]
    assert (cold.minimum, cold.calls, len(set(caches))) == (pytest.approx(100), 3, 3)
    caches.clear()
    warm = fresh.measure(Item("first", how="first", of="gpt2", cache="warm"), [process], Pace(rounds=3))
    assert (warm.results["tinygraft"].minimum, len(caches), len(set(caches))) == (pytest.approx(200), 4, 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_peak_memory_is_that_of_the_process_alone() -> None:
    """What the process that starts a measurement has in memory does not count."""
    held = bytearray(300 << 20)
    held[::4096] = b"1" * len(held[::4096])
    code = "from benchmarks.once import peak_megabytes; print(peak_megabytes())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert 1 < float(result.stdout) < 200


def a_line(item: str, against: str, ours: float | None, theirs: float | None = None, **more: Any) -> report.Line:
    """A comparison with the fields that a table and a picture show."""
    ratio = theirs / ours if ours and theirs else None
    return report.Line(item, against, ours, ours, theirs, theirs, ratio, None, more.pop("verdict", ""), **more)


def test_without_peers_the_table_has_ours_alone() -> None:
    """Times with units, limits, rates and what is wrong; nothing of libraries that were not measured."""
    found = [a_line("tiny", "limit", 0.07, 0.06, verdict="fail"), a_line("matmul:256", "", 1.5, rate="22.4 GFLOPS"),
             a_line("memory_mnist", "", 448.0, unit="MB"), a_line("gpt2", "", None, note="late")]  # fmt: skip
    head, *rows = report.text(found).splitlines()
    assert head.split() == ["item", "best", "median", "limit", "rate"]
    assert [row.split() for row in rows] == [
        ["tiny", "0.07", "ms", "0.07", "ms", "0.06", "over", "the", "limit"],
        ["matmul:256", "1.5", "ms", "1.5", "ms", "22.4", "GFLOPS"],
        ["memory_mnist", "448", "MB", "448", "MB"],
        ["gpt2", "late"],
    ]


def test_bars_are_named_with_their_times() -> None:
    """Ours once for each item, each peer with how many times ours it takes; what has no time has no bar."""
    found = [a_line("matmul:256", "torch", 2.0, 3.0), a_line("matmul:256", "jax", 2.0, None), a_line("gone", "", None),
             a_line("tiny", "limit", 0.05, 0.06), a_line("odd", "torch", 1.0, 2.0, verdict="wrong")]  # fmt: skip
    assert picture.bars(found) == [
        ("matmul:256", "tinygraft", 2.0, "2 ms"),
        ("matmul:256", "torch", 3.0, "3 ms, 1.5 x ours"),
        ("tiny", "tinygraft", 0.05, "0.05 ms, limit 0.06"),
        ("odd", "tinygraft", 1.0, "1 ms (wrong)"),
        ("odd", "torch", 2.0, "2 ms, 2 x ours (wrong)"),
    ]


def test_the_items_of_a_minute_are_one_of_each_sort() -> None:
    """--quick has even sizes that exist; --short has those first and no odd size."""
    quick, five = few(), short()
    assert len({item.kind for item in quick}) == len(quick)
    assert five[: len(quick)] == quick
    assert {item.name for item in five} == {item.name for item in ITEMS if not item.odd}


def test_ours_that_is_late_is_not_wrong() -> None:
    """No answer in time says nothing of values: the run ends with 0, and the line says why it has no time."""
    late = Row(find("tiny")[0], {OURS: Result(failed="no answer in 20 s", late=True)})
    (line,) = report.lines([[late]])
    assert (line.verdict, line.note, line.ours) == ("", "no answer in 20 s", None)
    broken = Row(find("tiny")[0], {OURS: Result(failed="the process ended: Killed")})
    assert report.lines([[broken]])[0].verdict == "wrong"


def test_no_item_is_begun_after_the_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one is measured, the others are named; the exit code is 0."""

    def measured(item: Any, present: Any, pace: Any, profile: bool) -> Row:
        return Row(item, {OURS: Result(1.0, 1.0, 1)})

    monkeypatch.setattr(command_line, "_measured", measured)
    monkeypatch.setattr(command_line, "Process", NoProcess)
    assert command_line.main(["--peers", "none", "--only", "tiny,matmul:256,import", "--time", "0"]) == 0
    printed = capsys.readouterr().out
    assert "not measured, as 0 s were over: matmul:256, import" in printed
    assert "1 items in 0 s" in printed


class NoProcess:
    """A process that is not started."""

    absent, facts = "", {}

    def __init__(self, peer: Peer, threads: int) -> None:
        self.peer = peer

    def close(self) -> None:
        """End nothing."""


def test_the_time_in_python_is_not_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of another clock, or two of one time, count for at most what has passed."""
    from tinygraft import events

    def run() -> float:
        for _ in range(2):
            events.notify(events.LaunchEvent(name="k", device="CPU", seconds=50.0, bytes=0, flops=0))
        return 0.0

    made = type("Made", (), {"run": staticmethod(run)})()
    assert 0 <= once.in_python(lambda: made)[1] < 1


def test_the_time_in_python_is_without_compilers() -> None:
    """Also where a stage is reported between a compilation and its event."""
    from tinygraft import events

    def run() -> float:
        time.sleep(0.6)
        events.stage("binary", "", "k")
        events.notify(events.CompileEvent(name="k", device="CPU", seconds=0.6, bytes=1, cached=False))
        return 0.0

    made = type("Made", (), {"run": staticmethod(run)})()
    assert 0 <= once.in_python(lambda: made)[1] < 0.5


def test_what_is_not_stored_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--stored reports what --json wrote, measures nothing, and says in one line which file it cannot read."""
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert command_line.main(["--stored", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"--stored {path}: no results that --json has written (KeyError")
    stored = ROOT / "docs" / "benchmarks.json"
    assert command_line.main(["--stored", str(stored)]) == 0
    assert "matmul:1024" in capsys.readouterr().out


def test_each_script_has_a_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases are those of examples_twins.py and cart-pole, which is the script's own loop."""
    pytest.importorskip("torch", reason="twins are written in PyTorch")
    from benchmarks.examples_beside_torch import NAMES
    from benchmarks.examples_twins import TWINS

    assert set(NAMES) == {*TWINS, "cart_pole"}
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    for name in ("vae", "char_lstm", "generation"):
        step = TWINS[name]()
        assert math.isfinite(step() + step())


def test_the_clock_notes_each_step() -> None:
    """As a progress bar that is a loop, and as one that is told; steps before the warm ones are not counted."""
    from benchmarks.examples_beside_torch import STEPS, Clock, measured

    def train(name: str) -> None:
        with Clock(total=3) as progress:
            progress.update()
        for _ in Clock(STEPS, unit="step"):
            pass

    found = measured("vae", train)
    assert len(Clock.marks) == STEPS + 1
    assert 0 <= found["least"] <= found["median"] and found["first"] >= 0


def test_a_sweep_measures_an_operator_in_both_libraries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every expression is one; results that differ are said; what cannot be measured is said and passed over."""
    torch = pytest.importorskip("torch", reason="the sweep is beside PyTorch")
    from benchmarks import operators

    expressions = operators.expressions()
    assert len(expressions) == len(set(expressions)) > 250
    for one in expressions:
        compile(one, one, "eval")
    monkeypatch.setattr(operators, "SECONDS", 0.001)
    monkeypatch.setattr(operators, "expressions", lambda: ["v.exp()", "v.nothing()"])
    for more in ([], ["--replay"], ["--backward"]):
        monkeypatch.setattr("sys.argv", ["operators", "--small", *more])
        operators.main()
        said = capsys.readouterr().out
        assert said.count("  v.exp()\n") == 2 and "differ" not in said
        assert "v.nothing()   (AttributeError: " in said
    one, two = torch.tensor([1.0]), torch.tensor([1.0, 1.0])
    assert operators.difference([one], [one + 1e-4]) == ""
    assert operators.difference([one], [one + 0.5]) == "values"
    assert operators.difference([one], [two]) == "shape (1,), not (2,)"
    assert operators.difference([one], []) == "1 results, not 0"
