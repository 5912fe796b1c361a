"""What a profile says first: sentences that name the line, what it takes, and what to do; from slow scripts, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinygraft.config import Context
from tinygraft.engine.profiling.line_times import COMPILING, GRAPHS, IMPORTS, KERNELS, PREPARING, PROGRAM, LineRow
from tinygraft.engine.profiling.worth_a_look import place_of, worth_a_look

HIDDEN_ITEM = """
from tinygraft import Tensor, nn

class Net:
    def __init__(self):
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 4)

    def __call__(self, x):
        return self.b(self.a(x).relu())

def norm(params):
    return sum((p.grad * p.grad).sum().item() for p in params) ** 0.5  # here

net = Net()
params = nn.state.get_parameters(net)
opt = nn.optim.SGD(params, lr=0.1)
x = Tensor.randn(8, 16).realize()
with Tensor.train():
    for _ in range(60):
        opt.zero_grad()
        net(x).square().mean().backward()
        norm(params)
        opt.step()
"""
CHANGING_SHAPES = """
from tinygraft import Tensor, nn

layer = nn.Linear(8, 8)
for length in range(3, 25):
    x = Tensor.ones(length, 8).contiguous().realize()
    layer(x).softmax().sum(0).numpy()  # here
"""
LOADER = """
import time
from tinygraft import Tensor, nn

def load():
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until:  # here
        pass
    return Tensor.ones(8, 8).contiguous()

layer = nn.Linear(8, 8)
for _ in range(40):
    layer(load()).realize()
"""


def row(function: str, requests: int = 0, compiled: int = 0, why: str = "", **seconds: float) -> LineRow:
    """A row of line 3 of a file of the name of its function."""
    return LineRow(f"{function}.py", 3, function, dict(seconds), requests, 0, compiled, why, samples=9)


def test_a_line_that_compiles_again_and_again() -> None:
    """It is named with the reason and the hint."""
    rows = [row("f", 20, 18, "for 8 shapes\n  hint: keep one shape", **{COMPILING: 5.0})]
    assert worth_a_look(rows, 6.0, {}) == [
        "f.py:3 in f: 5.00 s (83 %) to compile in 18 of 20 requests: the same operations, for 8 shapes; keep one shape"
    ]


def test_many_requests_without_a_tinyjit() -> None:
    """They are named where preparing them takes a tenth; a few, or cheap ones, are not."""
    rows = [row("f", 50, **{PREPARING: 2.0}), row("g", 5, **{PREPARING: 2.0}), row("h", 50, **{PREPARING: 0.1})]
    assert worth_a_look(rows, 5.0, {}) == [
        "f.py:3 in f: 2.00 s (40 %) for Python to prepare 50 requests for values: ask for several at once "
        "(Tensor.realize(a, b)), less often, or within a TinyJit"
    ]


def test_values_that_a_layer_asks_for() -> None:
    """They are named also where they take little, as they keep the whole step from a TinyJit.

    What is compiled there once is in no share, which would be above 100 % else.
    """
    inner = LineRow("n.py", 7, "Net.__call__", {PREPARING: 0.1, COMPILING: 3.0}, 60, compiled=4)
    assert worth_a_look([inner, row("f", 50, **{PREPARING: 2.0})], 8.0, {})[:2] == [
        "n.py:7 in Net.__call__: 100.00 ms (2 %) in 60 requests for values within a layer, which no TinyJit can "
        "capture: compute with tensors in it, and read none",
        "f.py:3 in f: 2.00 s (40 %) for Python to prepare 50 requests for values: ask for several at once "
        "(Tensor.realize(a, b)), less often, or within a TinyJit, once the above is mended",
    ]


def test_a_function_that_is_run_in_every_call_comes_first() -> None:
    """With its reason, which names the read; a function that was run a few times is not named."""
    why = "it reads a value (item, numpy, a mask) at x.py:3\n  hint: read later"
    told = worth_a_look([row("f", 50, **{PREPARING: 2.0})], 5.0, {}, {}, {("step", why): 28, ("once", "so"): 2})
    assert (
        told[0] == f"step, under TinyJit, was run in 28 calls and not replayed: {why.partition(chr(10))[0]}; read later"
    )
    assert told[1].endswith("or within a TinyJit, once the above is mended")
    assert len(told) == 2


def test_graphs_at_a_line_that_asks_are_told_with_its_requests() -> None:
    """One sentence and not two, with the sum."""
    assert worth_a_look([row("f", 50, **{PREPARING: 2.0, GRAPHS: 1.0})], 5.0, {}) == [
        "f.py:3 in f: 3.00 s (60 %) for Python to prepare 50 requests for values and make graphs: ask for several at "
        "once (Tensor.realize(a, b)), less often, or within a TinyJit"
    ]


def test_graphs_that_are_made_once_need_no_tinyjit() -> None:
    """A model's weights are made before the first request, in one turn: no sentence sends their line to a TinyJit."""
    assert worth_a_look([row("Net.__init__", **{GRAPHS: 4.0})], 8.0, {}) == []


def test_pythons_own_time() -> None:
    """Lines of a function count together, its longest is named; making graphs is told apart; few samples are chance."""
    other = LineRow("f.py", 9, "f", {PROGRAM: 2.0})
    made = LineRow("g.py", 3, "g", {GRAPHS: 4.0}, samples=9, turns=3)
    chance = LineRow("h.py", 9, "h", {PROGRAM: 3.0}, samples=4)
    assert worth_a_look([row("f", **{PROGRAM: 1.0}), other, made, chance], 8.0, {}) == [
        "g.py:3 in g: 4.00 s (50 %) to make graphs in Python, each time anew: a TinyJit does it once",
        "f.py:9 in f: 3.00 s (38 %) in Python itself, where no tensor is computed",
    ]


def test_what_happens_once_is_not_in_the_shares() -> None:
    """Imports and first compiles hide nothing of a short run; the disk cache is named as it is set."""
    rows = [row("f", 1, 1, **{COMPILING: 8.0, IMPORTS: 1.0}), row("g", **{PROGRAM: 0.5, KERNELS: 0.5})]
    first = "g.py:3 in g: 500.00 ms (50 %) in Python itself, where no tensor is computed"
    once = "once, not in these shares: 8.00 s to make each kernel at its first use; "
    assert worth_a_look(rows, 10.0, {}) == [first, once + "without a profile a second run has them from the disk cache"]
    with Context(CACHELEVEL=0):
        assert worth_a_look(rows, 10.0, {})[1] == once + "the disk cache is off (CACHELEVEL=0)"


def test_the_layer_whose_kernels_took_longest_to_write_is_named() -> None:
    """An unrolled loop is compiled once, and that may be the most that a short run sees of it."""
    rows = [row("f", 1, 1, **{COMPILING: 8.0})]
    told = "once, not in these shares: 8.00 s to make each kernel at its first use, 60 % of it for Net.loop; "
    made = {"Net.loop": 3.0, "Net.loop.cell": 1.5, "Net.a": 2.0, "": 1.0}
    assert worth_a_look(rows, 8.0, {}, made)[-1].startswith(told)
    assert "for Net" not in worth_a_look(rows, 8.0, {}, made | {"": 9.0})[-1]


def test_modules_by_their_kernels() -> None:
    """The first one is always named, with its line; others where they have a quarter, and a twentieth of all."""
    modules = {"Net.a": {"x.py:1": 0.2, "x.py:2 backward": 0.4}, "Net.b": {"x.py:7": 0.3}, "Net.c": {"x.py:8": 0.1}}
    assert len(worth_a_look([], 10.0, modules)) == 1
    assert worth_a_look([], 2.0, modules) == [
        "Net.a: 600.00 ms (30 %) in its kernels, forward and backward, which is 60 % of all kernels; most at "
        "x.py:2 backward",
        "Net.b: 300.00 ms (15 %) in its kernels, forward and backward, which is 30 % of all kernels; most at x.py:7",
    ]
    assert worth_a_look([], 1.0, {}) == []


def test_a_place_is_relative_below_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file elsewhere keeps its path; a line outside functions has no name."""
    monkeypatch.chdir(tmp_path)
    assert place_of(LineRow(str(tmp_path / "a.py"), 2, "f")) == "a.py:2 in f"
    assert place_of(LineRow(str(tmp_path.parent / "a.py"), 2, "")) == f"{tmp_path.parent / 'a.py'}:2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "says"),
    [(HIDDEN_ITEM, "240 requests of item()"), (CHANGING_SHAPES, "the same operations, for 8 shapes"),
     (LOADER, "in Python itself")],
    ids=["item", "shapes", "loader"],
)  # fmt: skip
def test_a_slow_script_has_its_line_in_the_first_sentences(tmp_path: Path, script: str, says: str) -> None:
    """A hidden .item(), shapes that change and a loader in Python are found by `python -m tinygraft profile`."""
    path = tmp_path / "slow.py"
    path.write_text(script)
    line = next(number for number, text in enumerate(script.splitlines(), 1) if "# here" in text)
    done = subprocess.run(
        [sys.executable, "-m", "tinygraft", "profile", "slow.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    sentences = done.stderr.partition("worth a look\n")[2].partition("\n\n")[0].splitlines()
    found = [one for one in sentences[:3] if f"slow.py:{line} " in one or f"slow.py:{line}:" in one]
    assert found, done.stderr
    assert says in found[0]
