"""The search: in child processes that may crash, hang or be wrong; and what it has found is taken without them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tinygraft.codegen import variants
from tinygraft.codegen.action import parse, show
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.config import Context
from tinygraft.conformance.kernels import load, pack, param, run_kernel, run_linear, store, unpack
from tinygraft.dtype import dtypes
from tinygraft.engine import database, search, trial
from tinygraft.engine.database import SearchResult
from tinygraft.errors import ActionError, DeviceMemoryError
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

pytestmark = pytest.mark.slow

F = dtypes.float32
ROWS, COLUMNS, TERMS = 11, 37, 13
BACKEND = PythonBackend("PYTHON", 0)
RICH = Target(vector_bytes=32, local_memory=8 << 10, chunks=2)


def place(i: UOp, j: UOp, columns: int) -> UOp:
    """The place of an element in memory of rows."""
    return ix.add(ix.mul(i, columns), j)


def matmul() -> UOp:
    """A product of matrices."""
    i, j, k = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1), UOp.range(TERMS, 2)
    value = load(param(1, F, ROWS * TERMS), place(i, k, TERMS)) * load(
        param(2, F, TERMS * COLUMNS), place(k, j, COLUMNS)
    )
    total = UOp(Ops.REDUCE, F, (value, k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), place(i, j, COLUMNS), total),))


def transposed() -> UOp:
    """out[i, j] = x[j, i] * 2."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    value = load(param(1, F, ROWS * COLUMNS), place(j, i, ROWS)) * 2.0
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), place(i, j, COLUMNS), value),))


def softmax() -> UOp:
    """Rows less their maximum over their sum."""
    i, j, k, m = UOp.range(ROWS, 0), *(UOp.range(COLUMNS, axis) for axis in (3, 1, 2))
    x = param(1, F, ROWS * COLUMNS)
    most = UOp(Ops.REDUCE, F, (load(x, place(i, k, COLUMNS)), k), ReduceArg(Ops.MAX))
    total = UOp(Ops.REDUCE, F, (load(x, place(i, m, COLUMNS)) - most, m), ReduceArg(Ops.ADD))
    value = (load(x, place(i, j, COLUMNS)) - most) / total
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), place(i, j, COLUMNS), value),))


# What is tried


@pytest.mark.parametrize("kernel", [matmul, transposed, softmax])
@pytest.mark.parametrize("target", [Target(), RICH, Target(grid_dims=3, block_threads=8, shared_memory=16 << 10)])
def test_no_version_changes_a_value(kernel, target: Target) -> None:
    """Whatever a search may try that the kernel allows, at prime sizes: the first lists, and what is beside one."""
    backend = PythonBackend("PYTHON", 0, target)
    data = [bytes(4 * ROWS * COLUMNS)]
    data += [pack([float((i * 7) % 17 - 8) for i in range(size)], F) for size in (ROWS * COLUMNS, TERMS * COLUMNS)]
    data = data if kernel is matmul else data[:2]
    data[1] = data[1][: 4 * ROWS * TERMS] if kernel is matmul else data[1]
    expected = unpack(run_kernel(BACKEND, kernel(), data, noopt=True)[0], F)
    sink = collapse(kernel())
    lists = list(variants.firsts(sink, target))
    assert len(set(lists)) == len(lists)
    few = [*lists[:: max(1, len(lists) // 6)], *variants.neighbours(lists[0], sink, target)][:40]
    allowed = 0
    for actions in few:
        assert parse(show(actions)) == actions
        try:
            linear = to_linear(Kernel(kernel()), target, Options(actions=actions))
        except ActionError:
            continue
        x, y, z = (int(n) for n in linear.signature.grid)
        found = unpack(run_linear(backend, linear, data, (), (x, y, z))[0], F)
        assert found == pytest.approx(expected, rel=1e-5), show(actions)
        allowed += 1
    assert allowed >= min(3, len(few))


def test_what_is_chosen_comes_first() -> None:
    """The list that a search has to be better than is the one that is taken without it."""
    chosen = to_linear(Kernel(matmul()), RICH).actions
    first = next(variants.firsts(collapse(matmul()), RICH))
    assert tuple(map(str, first)) == chosen
    large = Target(vector_bytes=32, stream_bytes=64, l3_bytes=0, alignment=64)
    i = UOp.range(64, 0)
    copied = UOp(Ops.SINK, src=(store(param(0, F, 64), i, load(param(1, F, 64), i)),))
    assert show(next(variants.firsts(copied, large))) == "vectorise(0, 8), stream"
    assert to_linear(Kernel(copied), large).actions == ("vectorise(0, 8)", "stream")
    assert "vectorise(0, 8)" in map(show, variants.firsts(copied, large))
    assert to_linear(Kernel(copied), large, Options(actions=parse("vectorise(0, 8)"))).actions == ("vectorise(0, 8)",)


# The trial


def test_a_version_that_computes_something_else_is_found() -> None:
    """The kernel that is tried is not the one that was asked for: every version of it is wrong."""
    asked = trial.Trial(BACKEND, Kernel(matmul()))
    assert asked.attempt("unroll(0, 2)")["seconds"] > 0
    i, j, k = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1), UOp.range(TERMS - 1, 2)
    value = load(param(1, F, ROWS * TERMS), place(i, k, TERMS)) * load(
        param(2, F, TERMS * COLUMNS), place(k, j, COLUMNS)
    )
    total = UOp(Ops.REDUCE, F, (value, k), ReduceArg(Ops.ADD))
    asked.kernel = Kernel(UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), place(i, j, COLUMNS), total),)))
    assert asked.attempt("unroll(0, 4)")["error"].startswith("wrong: element 0 is ")


def test_versions_with_the_same_code_are_tried_once() -> None:
    """Unrolling by more than there is changes nothing."""
    asked = trial.Trial(BACKEND, Kernel(transposed()))
    assert "seconds" in asked.attempt("")
    assert asked.attempt("unroll(0, 64)") == {"error": "the same code as "}


def test_memory_that_a_kernel_updates_is_as_it_was_before_each_run() -> None:
    """x = x * 3: a hundred runs do not end in infinity, and every version sees the same numbers."""
    i = UOp.range(ROWS, 0)
    x = param(0, F, ROWS)
    asked = trial.Trial(BACKEND, Kernel(UOp(Ops.SINK, src=(store(x, i, load(x, i) * 3.0),))))
    for text in ("", "unroll(0, 2)", "split(0, 4)"):
        assert "seconds" in asked.attempt(text), asked.attempt(text)
    least = asked.race(["", "unroll(0, 2)"], 0.05)
    assert sorted(least) == ["", "unroll(0, 2)"]
    assert unpack(bytes(asked._content(0)), F) == pytest.approx([3 * v for v in unpack(bytes(asked.first[0]), F)])


def test_data_that_caches_do_not_hold_is_never_in_them() -> None:
    """There are as many copies as make it long ago that one was used."""
    small = PythonBackend("PYTHON", 0, Target(l2_bytes=1 << 20))
    tiny = PythonBackend("PYTHON", 0, Target(l2_bytes=1 << 10))
    assert len(trial.Trial(small, Kernel(transposed())).memory) == 1
    assert len(trial.Trial(tiny, Kernel(transposed())).memory) == 8


def test_a_kernel_of_too_much_data_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory would be there twice."""
    monkeypatch.setattr(trial, "LARGEST", 1000)
    with pytest.raises(DeviceMemoryError, match=r"3256 bytes of data are more than a trial allows \(1000\)"):
        trial.Trial(BACKEND, Kernel(transposed()))


def test_a_kernel_with_variables_is_tried_at_its_largest() -> None:
    """Its grid and its arguments too."""
    n = UOp.variable("n", 1, ROWS)
    i = UOp.range(n, 0)
    sink = UOp(Ops.SINK, src=(store(param(0, F, ROWS), i, load(param(1, F, ROWS), i) + 1.0),))
    assert "seconds" in trial.Trial(BACKEND, Kernel(sink)).attempt("unroll(0, 4)")


# The search

BAD = """
import os, sys, time
from tinygraft.engine import trial
plain = trial.Trial.attempt
def attempt(self, text):
    with open(os.environ["TRIED"], "a") as file:
        file.write(text + chr(10))
    if "unroll(0, 2)" in text:
        os.abort()
    if "unroll(0, 4)" in text:
        time.sleep(60)
    if "unroll(1, 2)" in text:
        print("noise on the standard output")
        raise RecursionError("too deep")
    return plain(self, text)
trial.Trial.attempt = attempt
trial.main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty cache folder for this process and its children."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1):
        yield tmp_path


@pytest.mark.slow
def test_what_crashes_or_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is started again, and the search goes on with other versions; this process is never in danger."""
    script = tmp_path / "bad.py"
    script.write_text(BAD)
    monkeypatch.setenv("TRIED", str(tmp_path / "tried"))
    monkeypatch.setattr(search, "COMMAND", (sys.executable, str(script)))
    monkeypatch.setattr(search, "HANGS", 1.0)
    for budget in (6.0, 12.0, 24.0, 48.0):  # seconds: a busy machine starts a child and tries versions more slowly
        (tmp_path / "tried").unlink(missing_ok=True)
        with search.TrialProcess() as child:
            one = search.Search(Kernel(transposed()), BACKEND, child, budget)
            result = one.run(2)
            assert child.is_running()
        assert not child.is_running()
        bad = [t for t in one.tried if any(part in t for part in ("unroll(0, 2)", "unroll(0, 4)", "unroll(1, 2)"))]
        if len(bad) >= 3 and any(seconds is not None for text, seconds in one.tried.items() if text):
            break
    assert result is not None
    assert result[1] > 0
    assert len(bad) >= 3
    assert all(one.tried[text] is None for text in bad)
    assert result[0] not in bad
    assert any(seconds is not None for text, seconds in one.tried.items() if text)
    assert set((tmp_path / "tried").read_text().splitlines()) == set(one.tried)


def test_a_device_that_the_child_does_not_have_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Target than in a new process, or no such device: nothing is found, nothing raised."""
    other = PythonBackend("PYTHON", 0, Target(max_ops=7))
    nowhere = PythonBackend("NOWHERE", 0)
    assert search.search([(Kernel(transposed()), other), (Kernel(transposed()), nowhere)], 1, 0.2) == []
    monkeypatch.setattr(search, "COMMAND", (sys.executable, "-c", "raise SystemExit"))
    assert search.search([(Kernel(transposed()), BACKEND)], 1, 0.2) == []
    assert search.tuned([(Kernel(transposed()), other)], 1) == {}


def no_child(*_: object) -> NoReturn:
    """Nobody should ask for a child."""
    raise AssertionError("a child was asked for")


def test_what_is_known_is_taken_without_a_child(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one's own file, with whatever time; what no longer fits its kernel is searched again, given time."""
    asked = (Kernel(transposed()), BACKEND)
    key = database.key_of(*asked)
    monkeypatch.setattr(search, "search", no_child)
    with Context(BEAM_BUDGET=0):
        assert search.tuned([asked], 1) == {}
    database.add(SearchResult(*key, "E", "unroll(0, 4)", 2.0, 1.0), database.own_file())
    assert search.tuned([asked, asked], 1) == {asked: parse("unroll(0, 4)")}
    database.add(SearchResult(*key, "E", "stage(0, 9, 64, 16)", 2.0, 1.0), database.own_file())
    with pytest.raises(AssertionError, match="a child was asked for"):
        search.tuned([asked], 1)


def test_a_search_is_kept_also_where_it_finds_nothing_better(folder: Path) -> None:
    """A kernel with one version is not searched again."""
    one = Kernel(UOp(Ops.SINK, src=(store(param(0, F, 1), ix.const(0), UOp.const(F, 1.0)),)))
    with Context(BEAM_BUDGET=100):
        assert search.tuned([(one, BACKEND)], 1) == {(one, BACKEND): ()}
    (found,) = database.read().values()
    assert (found.name, found.actions) == ("E_1", "")
    assert found.before == found.after


PROGRAM = """
import sys
from tinygraft import Tensor
t = (Tensor([[1.0, 2.0, 3.0]] * 5).T * 2).contiguous()
print(t.tolist())
print("tinygraft.engine.search" in sys.modules)
"""


def run(folder: Path, **settings: str) -> str:
    """What PROGRAM prints in a process of its own."""
    environment = (
        os.environ | {"TINYGRAFT_CACHE": str(folder), "DEV": "PYTHON", "CACHELEVEL": "1", "DEBUG": "1"} | settings
    )
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_is_searched_once(tmp_path: Path) -> None:
    """The first run with BEAM searches, the second takes what it found; the numbers are the same, also without BEAM."""
    plain, first, second = (run(tmp_path, BEAM=beam, BEAM_BUDGET="300") for beam in ("0", "2", "2"))
    assert "searched E_" in first
    assert "versions" in first
    assert "searched" not in second + plain
    assert plain.splitlines()[-2] == first.splitlines()[-2] == second.splitlines()[-2]
    assert plain.splitlines()[-1] == "False", "a program without BEAM does not even import the search"


def test_a_child_that_is_gone_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to a process that has ended says so, however much of it is still to be written."""
    monkeypatch.setattr(search, "COMMAND", (sys.executable, "-c", ""))
    for length in (1, 1 << 20):
        with search.TrialProcess() as child:
            child._start().wait(20)
            with pytest.raises(search.Lost):
                child.ask({"do": "x" * length}, 20)
            assert not child.is_running()
