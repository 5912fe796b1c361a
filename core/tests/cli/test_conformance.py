"""tinygraft conformance: exit codes and every message. A run here is of level spec alone, which is quick."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tinygraft.cli import conformance
from tinygraft.cli.main import main

pytestmark = pytest.mark.slow

MIND = "the conformance kit needs pytest, which is not installed\n  fix: pip install 'pytest>=8.2'\n"


def test_a_device_that_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 0, a table, and the same numbers as JSON."""
    file = tmp_path / "counts.json"
    assert main(["conformance", "--device", "python", "--level", "0", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "conformance of PYTHON" in out
    assert "own_distribution (2)" in out
    (found,) = json.loads(file.read_text())["devices"]
    assert (found["name"], found["levels"]) == ("PYTHON", {"spec": {"passed": 9, "n/a": 2}})


def test_a_device_that_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1: here a defect is listed that is none."""
    monkeypatch.chdir(tmp_path)
    Path("conformance.toml").write_text('[[xfail]]\ntest = "test_the_names_agree"\nreason = "it was so"\n')
    assert main(["conformance", "--device", "PYTHON", "-k", "names_agree", "-v"]) == 1
    assert "[XPASS(strict)] it was so" in capsys.readouterr().out
    other = tmp_path / "none.toml"
    other.touch()
    assert main(["conformance", "--device", "PYTHON", "-k", "names_agree", "-x", "--xfail", str(other)]) == 0


@pytest.mark.parametrize(("words", "message"), [
    (["--device", "nosuch"], "no plugin provides a device NOSUCH (installed: "),
    (["--device", "a b c"], "'a b c' is not the name of a device"),
    (["--device", "PYTHON", "--level", "7"], "ERROR: --level: '7' is no level of the kit"),
    (["--device", "PYTHON", "--json", "/no/such/file"], "ERROR: --json: /no/such/file cannot be written: it is"),
    (["--device", "PYTHON", "--level", "0", "-k", "zzz"], "no test of the kit has such a name in these levels"),
    (["--device", "PYTHON", "--xfail", "/no/such"], "/no/such cannot be read"),
])  # fmt: skip
def test_what_cannot_be_tested(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """Exit code 2: no such device, level, test or file."""
    assert main(["conformance", *words]) == 2
    assert message in capsys.readouterr().err


def test_no_device_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no default: whoever tests a device says which."""
    with pytest.raises(SystemExit) as ended:
        main(["conformance"])
    assert ended.value.code == 2
    assert "the following arguments are required: --device" in capsys.readouterr().err


def test_pytest_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Core does without it: exit code 2, and how to install it."""
    monkeypatch.setattr(conformance, "find_spec", lambda name: None)
    assert main(["conformance", "--device", "PYTHON"]) == 2
    assert capsys.readouterr().err == MIND


def test_the_package_says_that_pytest_is_missing() -> None:
    """So does an import of the kit."""
    code = "import sys; sys.modules['pytest'] = None; import tinygraft.conformance"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    last = "ImportError: the conformance kit needs pytest: pip install 'pytest>=8.2'"
    assert done.stderr.splitlines()[-1] == last


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_the_kit_runs_from_anywhere(tmp_path: Path, mode: str) -> None:
    """From another folder, without the command, with either way of importing, where a conftest of others lies."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--device')\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance",
         "-q", "--tinygraft-device", "PYTHON", "--tinygraft-level", "0", f"--import-mode={mode}"],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformance of PYTHON" in done.stdout
    assert "9 passed, 2 skipped" in done.stdout


def test_an_assertion_of_the_kit_says_what_it_compared(tmp_path: Path) -> None:
    """Its modules are rewritten by pytest, as test files are."""
    test = (
        "from tinygraft.conformance import DeviceConformance\nclass TestIt(DeviceConformance):\n    device = 'PYTHON'\n"
    )
    (tmp_path / "test_it.py").write_text(
        test + "    device = 'PYTHON'\n    import pytest\n    @pytest.fixture\n    def spec(self):\n"
        "        from dataclasses import replace; from tinygraft.reference.spec import PYTHON\n"
        "        return replace(PYTHON, name='Other')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tinygraft.conformance.plugin", "-q", "-k", "names_agree", "test_it.py"],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "assert 'Other' == 'PYTHON'" in done.stdout


def test_the_plugin_of_pytest_was_forgotten(tmp_path: Path) -> None:
    """A class that inherits the kit where nobody has loaded it says how to."""
    (tmp_path / "test_it.py").write_text(
        "from tinygraft.conformance import DeviceConformance\nclass TestIt(DeviceConformance):\n    device = 'PYTHON'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "names_agree", "test_it.py"],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the conformance kit is not loaded: pytest -p tinygraft.conformance.plugin" in done.stdout
