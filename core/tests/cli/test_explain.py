"""`explain SCRIPT`: the script runs as it would by itself, and what it computes is printed between its own lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinygraft import events
from tinygraft.cli.main import main

Explain = Callable[..., tuple[int, str, str]]

COMPUTE = """
import sys
from tinygraft import events
from tinygraft.dtype import dtypes
from tinygraft.events import LaunchEvent
from tinygraft.uop.uop import UOp

print("arguments", sys.argv[1:])
graph = UOp.buffer("DEV", 4, dtypes.float) + 2.0
events.stage("tensor graph", graph)
events.stage("schedule", [])
events.notify(LaunchEvent(name="E_4", device="DEV", seconds=1e-6))
print("the end")
"""


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Explain a script of some text with some arguments: exit code, output, error output."""

    def call(text: str, *arguments: str) -> tuple[int, str, str]:
        path = tmp_path / "script.py"
        path.write_text(text)
        code = main(["explain", str(path), *arguments])
        captured = capsys.readouterr()
        assert not events.active, "the observer must be gone when the script has ended"
        return code, captured.out, captured.err

    return call


def test_a_script_gets_its_arguments_and_its_stages_are_printed(explain: Explain) -> None:
    """Options after the script's name are the script's; its graph and its launch are printed, exit code 0."""
    code, out, _ = explain(COMPUTE, "--epochs", "3")
    assert code == 0
    assert "arguments ['--epochs', '3']" in out
    assert "---- tensor graph: 6 nodes" in out
    assert "---- time line: 1 launched" in out
    assert "requested at" in out
    assert "script.py:" in out


def test_a_script_that_computes_nothing_is_told_so(explain: Explain) -> None:
    """A script without a request for values says that nothing was computed."""
    code, out, _ = explain("print('hello')\n")
    assert (code, out.splitlines()[0]) == (0, "hello")
    assert out.splitlines()[1].endswith("script.py requested no value, so nothing was computed")


@pytest.mark.parametrize(("ending", "code"), [("0", 0), ("3", 3), ("None", 0), ("'no data'", 1)])
def test_the_exit_code_is_the_scripts(explain: Explain, ending: str, code: int) -> None:
    """sys.exit(n) of the script is the exit code; a text goes to the error output and gives 1."""
    found, _, err = explain(f"import sys\nsys.exit({ending})\n")
    assert found == code
    assert ("no data" in err) == (ending == "'no data'")


def test_an_error_shows_the_scripts_lines_only(explain: Explain) -> None:
    """A script that raises exits with 1; the traceback begins in the script, after what it had computed."""
    code, out, err = explain(COMPUTE + "1 / 0\n")
    assert code == 1
    assert "---- tensor graph" in out
    assert "ZeroDivisionError" in err
    assert "runpy" not in err
    assert err.count('File "') == 1


def test_a_missing_script_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is no file is named, exit code 2."""
    assert main(["explain", str(tmp_path / "nowhere.py")]) == 2
    assert f"tinygraft explain: there is no file '{tmp_path / 'nowhere.py'}'" in capsys.readouterr().err


def test_the_interpreter_is_as_before_afterwards(explain: Explain) -> None:
    """sys.argv and sys.path are restored, and a module beside the script can be imported by it."""
    argv, path = list(sys.argv), list(sys.path)
    explain("import sys\nassert sys.path[0] == __file__.rpartition('/')[0]\n")
    assert (sys.argv, sys.path) == (argv, path)
