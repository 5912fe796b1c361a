"""What a third party starts from is installed as one would install it, and passes the conformance kit as it is.

tinygraft-example is what `new-plugin example` writes, checked in so that a change of it is seen; nobody edits it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from packages import ROOT, build, environment, install, run, wheel
from tinygraft.cli.main import main

FOLDER = Path(__file__).parent / "tinygraft-example"
QUICK = "spec,render,memory"  # levels of the kit that take seconds


def files_of(folder: Path) -> dict[str, str]:
    """The files below a folder, by their paths, but for those that tools leave there."""
    ours = (f for f in folder.rglob("*") if f.is_file() and not {"__pycache__", "dist"} & set(f.parts))
    return {file.relative_to(folder).as_posix(): file.read_text() for file in ours if "_cache" not in str(file)}


def passed(python: Path, folder: Path, device: str, levels: str = "") -> dict[str, int]:
    """Run the kit in folder: how many tests of each level passed. None may fail, nor be expected to."""
    report = folder / f"{device}.json"
    chosen = ["--level", levels] if levels else []
    command = ["conformance", "--device", device, "--require-device", "--json", report, *chosen]
    said = run(python, "-m", "tinygraft", *command, cwd=folder)
    (found,) = json.loads(report.read_text())["devices"]
    assert {kind for counts in found["levels"].values() for kind in counts} <= {"passed", "n/a"}, said
    return {level: counts["passed"] for level, counts in found["levels"].items()}


def test_the_example_is_what_the_generator_writes(tmp_path: Path) -> None:
    """The checked-in project is the generator's output of today, file by file."""
    assert main(["new-plugin", "example", "--dest", str(tmp_path)]) == 0
    again = f"python -m tinygraft new-plugin example --dest {FOLDER.parent.relative_to(ROOT)}"
    assert files_of(FOLDER) == files_of(tmp_path / FOLDER.name), f"remove {FOLDER.name} and write it anew: {again}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with core's wheel, that of the example, and what its tests need."""
    folder = tmp_path_factory.mktemp("third")
    example = build(FOLDER, folder / "dist").wheel
    return environment(folder / "venv", f"{wheel('tinygraft')}[conformance]", example)


@pytest.mark.slow
@pytest.mark.needs("index", "cc")
def test_it_is_found_and_is_not_chosen(installed: Path, tmp_path: Path) -> None:
    """`devices` and `doctor` know it; as it asks for no priority, it is used only where it is named."""
    listed = json.loads(run(installed, "-m", "tinygraft", "devices", "--json", cwd=tmp_path))
    (record,) = [record for record in listed if record["name"] == "EXAMPLE"]
    assert (record["status"], record["distribution"], record["default"]) == ("available", "tinygraft-example", False)
    assert "[1, 2, 3] * 2 == [2, 4, 6]" in run(installed, "-m", "tinygraft", "doctor", "EXAMPLE", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.needs("index", "cc")
@pytest.mark.parametrize(("levels", "least"), [
    ("spec,render,memory", 80), pytest.param("spec,render,memory,optional,program", 150, marks=pytest.mark.long),
    pytest.param("spec,render,memory,ops,optional,program", 1000, marks=pytest.mark.long),
])  # fmt: skip
def test_its_wheel_passes_the_kit(installed: Path, tmp_path: Path, levels: str, least: int) -> None:
    """From another folder, with no source of ours in sight, every level of the kit passes on EXAMPLE."""
    counts = passed(installed, tmp_path, "EXAMPLE", levels)
    assert list(counts) == levels.split(",")
    assert sum(counts.values()) > least


@pytest.mark.slow
@pytest.mark.needs("index", "cc")
def test_its_own_tests_pass(installed: Path, tmp_path: Path) -> None:
    """`pytest` in the project runs the kit's class, as its CI does; here its quick levels."""
    project = shutil.copytree(FOLDER, tmp_path / "project")
    said = run(installed, "-m", "pytest", "-p", "no:cacheprovider", "--tinygraft-level", QUICK, cwd=project)
    assert "conformance of EXAMPLE" in said


@pytest.mark.slow
@pytest.mark.needs("index")
def test_the_other_style_passes_too(installed: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A project whose device is interpreted installs beside it and passes too, with --whole on every level."""
    names = ["new-plugin", "simulated", "--style", "interpreter", "--dest", tmp_path]
    run(installed, "-m", "tinygraft", *names, cwd=tmp_path)
    install(installed, build(tmp_path / "tinygraft-simulated", tmp_path / "dist").wheel)
    levels = "" if request.config.getoption("--whole") else QUICK
    assert set(passed(installed, tmp_path, "SIMULATED", levels)) >= set(QUICK.split(","))
