"""The small functions that scripts import: times, progress, lists, and the counters per device."""

from __future__ import annotations

import gc
import importlib
import io
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tqdm as library

import tinygraft
from tinygraft import Device, GlobalCounters, Tensor, Variable, functions, helpers
from tinygraft.config import NOOPT
from tinygraft.helpers import (
    Context,
    Profiling,
    Timing,
    all_int,
    all_same,
    colored,
    disable_gc,
    getenv,
    partition,
    temp,
    tqdm,
    trange,
)


def test_names_that_scripts_import_are_there() -> None:
    """The helpers of the documents are here, and `function` is the decorator, also once its module is loaded."""
    for name in ("getenv", "fetch", "Timing", "trange", "tqdm", "Context", "prod", "dedup", "flatten", "colored"):
        assert hasattr(helpers, name)
    importlib.import_module("tinygraft.functions")
    if "tinygraft.function" not in sys.modules:  # that module has the name in the package once it is imported
        assert tinygraft.function is functions.function
    double = tinygraft.function(lambda x: x * 2)
    assert type(double) is type(functions.function(lambda x: x * 2)) and double(Tensor([3.0])).tolist() == [6.0]
    assert tinygraft.Function is functions.Function


def test_getenv_reads_and_context_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """getenv gives a variable as the type of its default, Context a setting for a block."""
    monkeypatch.setenv("SOME_NUMBER", "7")
    assert (getenv("SOME_NUMBER", 0), getenv("NOT_SET", 3)) == (7, 3)
    with Context(NOOPT=1):
        assert helpers.getenv("NOT_SET", "text") == "text"


def test_a_context_decorates_a_function() -> None:
    """Each call of the function, also one inside another, has the setting, which is as it was afterwards."""

    @Context(NOOPT=1)
    def levels(depth: int) -> list[int]:
        return [NOOPT.value, *(levels(depth - 1) if depth else [])]

    assert NOOPT.value == 0
    assert levels(2) == [1, 1, 1]
    assert NOOPT.value == 0


def test_devices_and_variables_by_their_other_names() -> None:
    """Device.default is the opened default device, the available ones can be opened, and unbind undoes bind."""
    assert Device.default is Device[Device.DEFAULT]
    available = Device.get_available_devices()
    assert {"PYTHON", "NULL", Device.DEFAULT} <= set(available)
    n = Variable("n", 1, 5)
    assert n.bind(3).unbind() == (n, 3)
    with pytest.raises(ValueError, match="only a bound variable can be unbound"):
        n.unbind()


def test_timing_prints_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    """prefix, the time and what on_exit makes of it; nothing when it is not enabled; also as a decorator."""
    with Timing("work: ", on_exit=lambda ns: f" {ns > 0}") as timing:
        sum(range(100))
    assert re.fullmatch(r"work: +\d+\.\d\d ms True\n", capsys.readouterr().out)
    assert timing.et > 0

    @Timing("call: ", enabled=False)
    def call() -> int:
        return 3

    assert call() == 3
    assert capsys.readouterr().out == ""


def test_profiling_prints_functions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The functions that took time are listed, and the raw profile is written; nothing when it is not enabled."""
    with Profiling(sort="tottime", frac=1.0, fn=str(tmp_path / "profile")):
        sorted([3, 1, 2])
    assert "built-in method builtins.sorted" in capsys.readouterr().out
    assert (tmp_path / "profile").stat().st_size > 0
    with Profiling(enabled=False):
        pass
    assert capsys.readouterr().out == ""


def test_bars_are_those_of_tqdm() -> None:
    """helpers gives the library's own: no second bar to learn, and all bars of a process keep to one lock."""
    assert tqdm is library.tqdm
    assert trange is library.trange


def test_a_bar_counts_to_its_end() -> None:
    """trange and tqdm give the items, and write lines that end with all of them done."""
    out = io.StringIO()
    assert list(trange(3, desc="steps", file=out)) == [0, 1, 2]
    last = out.getvalue().rstrip("\n").split("\r")[-1]
    assert re.match(r"steps: 100%\|.+\| 3/3 \[00:00<00:00, ", last)


def test_a_bar_without_items_is_updated_by_hand() -> None:
    """update counts, the text changes, large numbers are scaled; without a total there is no share."""
    out = io.StringIO()
    with tqdm(total=4000, unit="B", unit_scale=True, file=out) as bar:
        bar.update(1000)
        bar.set_description("half")
        assert re.match(r"half:  25%\|.+\| 1\.00k/4\.00k \[00:00<00:00, ", str(bar))
    assert out.getvalue().endswith("\n")
    endless = tqdm(iter([1, 2]), file=out)
    assert list(endless) == [1, 2]
    assert str(endless).startswith("2it [00:00, ")


def test_a_bar_is_silent_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written when disabled, or with disable=None when standard error is no terminal."""
    assert list(tqdm([1, 2], disable=True)) == list(tqdm([1, 2], disable=None)) == [1, 2]
    assert capsys.readouterr().err == ""
    tqdm.write("a line")
    assert capsys.readouterr().out == "a line\n"


def test_a_bar_ends_its_line_after_an_error() -> None:
    """An exception in the loop leaves the terminal on a line of its own."""
    out = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        [1 / i for i in tqdm([1, 0], file=out)]
    gc.collect()
    assert out.getvalue().endswith("\n")


def test_a_cell_of_a_notebook_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of a cell is in no file that a person knows: it is called as IPython calls it. Files stay as they are."""
    assert helpers.cell_or_file("/tmp/ipykernel_1/2.py") == "/tmp/ipykernel_1/2.py"
    compiler = SimpleNamespace(format_code_name={"/tmp/ipykernel_1/2.py": ("Cell", "In[7]")}.get)
    for compile_, wanted in ((compiler, "In [7]"), (SimpleNamespace(), "/tmp/ipykernel_1/2.py")):
        shell = SimpleNamespace(compile=compile_)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert helpers.cell_or_file("/tmp/ipykernel_1/2.py") == wanted
        assert helpers.cell_or_file("script.py") == "script.py"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert helpers.cell_or_file("script.py") == "script.py"


def test_functions_on_lists() -> None:
    """partition, all_same and all_int say what their names say."""
    assert partition([1, 2, 3], lambda n: n > 1) == ([2, 3], [1])
    assert (all_same([1, 1]), all_same([1, 2]), all_same([])) == (True, False, True)
    assert (all_int([1, 2]), all_int([1, 2.0])) == (True, False)


def test_colors_and_places() -> None:
    """Capitals are bright, a background is its own code, and temp names a file of the temporary folder."""
    assert colored("x", "RED") == "\x1b[91mx\x1b[0m"
    assert colored("x", "blue", background=True) == "\x1b[44mx\x1b[0m"
    assert os.path.basename(temp("name")) == "name"


def test_disable_gc_is_for_a_block() -> None:
    """The collector is off inside, and as it was after."""
    assert gc.isenabled()
    with disable_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_memory_is_counted_by_device() -> None:
    """mem_used_per_device has what each device holds; their sum is mem_used."""
    device = Tensor.empty(1).device
    gc.collect()
    before = GlobalCounters.mem_used_per_device.get(device, 0)
    t = Tensor([1.0] * 100).realize()
    assert GlobalCounters.mem_used_per_device[device] - before == 400
    assert sum(GlobalCounters.mem_used_per_device.values()) == GlobalCounters.mem_used
    GlobalCounters.reset()
    assert GlobalCounters.mem_used_per_device[device] - before == 400
    del t
    assert GlobalCounters.mem_used_per_device[device] == before


def test_a_path_is_relative_where_it_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors and profiles name files in this way; where the working directory was removed they raised."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    assert helpers.short_path(str(tmp_path / "a" / "b.py")) == str(Path("a", "b.py"))
    assert helpers.short_path("<stdin>") == "<stdin>"
    outside = str(tmp_path.parent / "b.py")
    assert helpers.short_path(outside) == outside
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert helpers.short_path(outside) == outside
    monkeypatch.chdir(tmp_path)
