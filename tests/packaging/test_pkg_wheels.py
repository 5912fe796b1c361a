"""What is in the packages: sdists that a build can start from, wheels with every file that is needed and no test."""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import packages
from packages import PACKAGES, Built, build, environment, metadata, run

pytestmark = pytest.mark.slow
COMPILED = (".c", ".h")  # sources of an extension: in the sdist, and not needed beside it


@pytest.fixture(scope="module")
def built() -> dict[str, Built]:
    """The sdist and the wheel of each package."""
    return {name: build(folder) for name, folder in PACKAGES.items()}


def in_wheel(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_sdist(sdist: Path) -> set[str]:
    """The files of an sdist, below its folder."""
    with tarfile.open(sdist) as archive:
        return {path.partition("/")[2] for path in archive.getnames()}


def test_two_processes_may_build_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is done later takes what the other has put there; the wheel is there for both."""
    monkeypatch.setattr(packages, "WHEELHOUSE", tmp_path / "wheels")

    def write(folder: Path) -> None:
        folder.mkdir()
        for name in ("one.tar.gz", "one.whl"):
            (folder / name).write_text("")

    def both(*command: object, **environment: str) -> None:
        write(Path(str(command[-2])))
        write(packages.WHEELHOUSE / f"core-{packages.digest(PACKAGES['tinygraft'])}")

    monkeypatch.setattr(packages, "run", both)
    assert build(PACKAGES["tinygraft"]).wheel.exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_wheel_holds_every_file(built: dict[str, Built], name: str) -> None:
    """Each file of the package is in its wheel, py.typed and the licence too, and no test of the package is."""
    source = PACKAGES[name] / "src"
    expected = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file()
        and not {"__pycache__"} & set(file.parts)
        and not [part for part in file.parts if part.endswith(".egg-info")]
        and not file.name.startswith(".")
        and file.suffix not in (".so", ".pyd")
    }
    names = in_wheel(built[name].wheel)
    assert {file for file in expected if not file.endswith(COMPILED)} <= names
    assert f"{name.replace('-', '_')}/py.typed" in names
    assert [file for file in names if file.endswith("licenses/LICENSE")]
    assert [file for file in names if "tests" in Path(file).parts] == []


def test_the_wheel_of_core_is_pure_and_has_its_data(built: dict[str, Built]) -> None:
    """Core's wheel fits every platform, and holds what is no Python: the page of VIZ, the templates, and the kit."""
    wheel = built["tinygraft"].wheel
    assert wheel.name.endswith("-py3-none-any.whl")
    names = in_wheel(wheel)
    assert {
        "tinygraft/engine/viewer/page/frame.html",
        "tinygraft/engine/viewer/page/dagre.min.js",
        "tinygraft/engine/viewer/page/dagre.LICENSE.txt",
        "tinygraft/cli/templates/pyproject.toml.template",
        "tinygraft/cli/templates/c/device.py.template",
        "tinygraft/conformance/plugin.py",
        "tinygraft/conformance/test_device.py",
    } <= names


@pytest.mark.parametrize("name", PACKAGES)
def test_an_sdist_holds_what_a_build_needs(built: dict[str, Built], name: str) -> None:
    """Each sdist has its metadata, licence, readme and sources; with C code also that and its build script."""
    folder, names = PACKAGES[name], in_sdist(built[name].sdist)
    assert {"pyproject.toml", "LICENSE", "README.md", "PKG-INFO"} <= names
    kept = [*folder.glob("*.py"), *(f for f in folder.glob("src/**/*") if f.suffix in (".py", ".c", ".h", ".typed"))]
    assert {file.relative_to(folder).as_posix() for file in kept} <= names
    assert [file for file in names if file.startswith("tests/")] == []


@pytest.mark.needs("cc")
def test_the_wheel_of_the_cpu_holds_the_extension(built: dict[str, Built]) -> None:
    """With a C compiler the wheel holds the extension and is tagged for this platform."""
    wheel = built["tinygraft-cpu"].wheel
    assert not wheel.name.endswith("-any.whl")
    assert [name for name in in_wheel(wheel) if name.startswith("tinygraft_cpu/_native.")]


def test_the_cpu_builds_without_a_compiler(tmp_path: Path) -> None:
    """With CC=/bin/false the build succeeds all the same, and the wheel fits every platform."""
    wheel = build(PACKAGES["tinygraft-cpu"], tmp_path / "dist", CC="/bin/false").wheel
    assert wheel.name.endswith("-none-any.whl")
    assert [name for name in in_wheel(wheel) if "_native" in name] == []


@pytest.mark.parametrize(("compiler", "code"), [("/bin/false", 1), ("no-such-compiler", 0)])
def test_an_editable_build_ends_with_the_error_of_the_compiler(tmp_path: Path, compiler: str, code: int) -> None:
    """An older extension would stay in the folder otherwise, and be what is tried. Without a compiler there is none."""
    source = shutil.copytree(PACKAGES["tinygraft-cpu"], tmp_path / "source", ignore=packages.LEFT_BEHIND)
    command = ("-c", f"import setuptools.build_meta as b; b.build_editable({str(tmp_path)!r})")
    said = run(sys.executable, *command, cwd=source, code=code, CC=compiler)
    assert not code or f"error: Command '['{compiler}'" in said
    assert not [*source.rglob("*.so")]
    assert len([*tmp_path.glob("*.whl")]) == 1 - code


@pytest.mark.parametrize("name", PACKAGES)
def test_the_metadata_is_that_of_the_tree(built: dict[str, Built], name: str) -> None:
    """A wheel says its name, version, licence and summary, and shows the README of its folder as Markdown."""
    (path,) = [file for file in in_wheel(built[name].wheel) if file.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(built[name].wheel) as archive:
        found = message_from_bytes(archive.read(path))
    project = metadata(PACKAGES[name])
    assert (found["Name"], found["Version"]) == (name, project["version"])
    assert (found["Summary"], found["License-Expression"]) == (project["description"], "MIT")
    assert found["Description-Content-Type"] == "text/markdown"
    readme = (PACKAGES[name] / "README.md").read_text()
    assert readme.strip() in found.get_payload(decode=True).decode()


@pytest.mark.needs("index")
def test_an_index_would_take_them(built: dict[str, Built], tmp_path: Path) -> None:
    """twine, which uploads packages, finds nothing to complain about, their rendered READMEs included."""
    python = environment(tmp_path / "venv", "twine")
    said = run(python, "-m", "twine", "check", "--strict", *(file for files in built.values() for file in files))
    assert said.count("PASSED") == 2 * len(PACKAGES)
