"""`tune SCRIPT`: the script runs once, its kernels are searched, and a later run with BEAM takes what was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinygraft.cli.main import main
from tinygraft.config import Context
from tinygraft.engine import compile, database, plan, search

SCRIPT = """
import sys
from tinygraft import Tensor
print("arguments", sys.argv[1:])
for turn in range(2):
    (Tensor([[1.0, 2.0, 3.0, 4.0]] * 5, device="PYTHON").T * 2).contiguous().realize()
"""
Tune = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tune:
    """Tune a script of some text with some arguments: exit code, output, error output."""

    def call(text: str, *arguments: str) -> tuple[int, str, str]:
        path = tmp_path / "script.py"
        path.write_text(text)
        compile.clear()
        plan.clear()
        code = main(["tune", "--budget", "0.2", *arguments[:2], str(path), *arguments[2:]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_kernels_are_searched_and_kept(tune: Tune, tmp_path: Path) -> None:
    """One line for each kernel, in the file that was named; a run with BEAM and that file starts no search."""
    file = tmp_path / "found.jsonl"
    code, out, _ = tune(SCRIPT, "--out", str(file), "--epochs", "3")
    assert code == 0
    assert "arguments ['--epochs', '3']" in out
    head, row, end = out.splitlines()[1:]
    assert head.split() == ["kernel", "before", "after", "gain", "actions", "(1", "kernel,", "0.2", "s", "each)"]
    assert row.startswith("E_4_5 ")
    assert end == f"kept in {file}; BEAM=1 takes it from there with BEAM_DATABASE={file}"
    (found,) = database.read_file(file).values()
    assert found.name == "E_4_5"
    assert found.after <= found.before


def test_what_was_found_is_used(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel that a run with BEAM compiles has the actions of the file."""
    file = tmp_path / "found.jsonl"
    tune(SCRIPT, "--out", str(file))
    (found,) = database.read_file(file).values()
    database.add(database.SearchResult(*found.key, found.name, "unroll(1, 5)", 2.0, 1.0), file)
    seen: list[str] = []
    lower = compile.to_linear
    monkeypatch.setattr(compile, "to_linear", lambda *a: seen.append(", ".join((made := lower(*a)).actions)) or made)
    monkeypatch.setattr(search, "search", None)
    compile.clear()
    plan.clear()
    with Context(BEAM=1, BEAM_DATABASE=str(file), CACHELEVEL=0):
        exec(compile_script(SCRIPT))
    assert seen == ["unroll(1, 5)"]


def compile_script(text: str) -> object:
    """Python's own compile, whose name is taken here."""
    import builtins

    return builtins.compile(text, "script", "exec")


def test_kernels_that_cannot_be_tried_are_named(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child does not start here: nothing is kept, and the exit code is well all the same."""
    monkeypatch.setattr(search, "COMMAND", ("/nowhere/python",))
    code, out, _ = tune(SCRIPT, "--out", str(tmp_path / "found.jsonl"))
    assert code == 0
    assert "could not be tried: E_4_5" in out.splitlines()
    assert not (tmp_path / "found.jsonl").exists()


def test_a_script_that_fails_is_not_tuned(tune: Tune) -> None:
    """Its traceback and exit code 1; its own exit code where it has one."""
    code, out, error = tune("raise ValueError('no')", "--budget", "0.1")
    assert (code, out) == (1, "")
    assert error.endswith("ValueError: no\n")
    assert tune("raise SystemExit(7)", "--budget", "0.1")[0] == 7


def test_what_cannot_be_is_said(tune: Tune, capsys: pytest.CaptureFixture[str]) -> None:
    """No script, and no place to keep what is found."""
    assert main(["tune", "nowhere.py"]) == 2
    assert capsys.readouterr().err == "tinygraft tune: there is no file 'nowhere.py'\n"
    with Context(CACHELEVEL=0):
        code, out, error = tune("print(1)", "--budget", "0.1")
    assert (code, out) == (2, "")
    assert error == (
        "tinygraft tune: nothing is kept on disk (CACHELEVEL=0 or no folder for it); name a file with --out\n"
    )


def test_a_script_without_kernels_is_said(tune: Tune) -> None:
    """Nothing is searched, and no table is printed."""
    code, out, _ = tune("print('hello')")
    assert code == 0
    assert out.splitlines()[0] == "hello"
    assert out.rstrip().endswith("script.py launched no kernels, so there is nothing to search")


def test_words_that_are_no_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """A budget is a time above 0."""
    for text in ("-3", "0", "soon"):
        with pytest.raises(SystemExit):
            main(["tune", "--budget", text, "script.py"])
        assert f"argument --budget: a time in seconds above 0, got {text!r}" in capsys.readouterr().err
