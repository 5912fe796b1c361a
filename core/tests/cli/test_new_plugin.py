"""`new-plugin`: what is written, that it fits the core that wrote it, and every reason for which nothing is."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tinygraft import __version__ as VERSION
from tinygraft.cli import new_plugin
from tinygraft.cli.main import main
from tinygraft.device.device_spec import PLUGIN_API, DeviceSpec
from tinygraft.plugin import Backend, Target

New = Callable[..., tuple[int, str, str]]
FILES = {
    ".github/workflows/test.yml", "README.md", "conformance.toml", "pyproject.toml", "src/tinygraft_acme/__init__.py",
    "src/tinygraft_acme/device.py", "src/tinygraft_acme/probe.py", "src/tinygraft_acme/py.typed",
    "src/tinygraft_acme/spec.py", "tests/test_acme_conformance.py",
}  # fmt: skip


@pytest.fixture
def new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> New:
    """Call new-plugin with tmp_path as its folder, unless another is named: exit code, output, error output."""

    def call(*arguments: str) -> tuple[int, str, str]:
        where = [] if "--dest" in arguments else ["--dest", str(tmp_path)]
        code = main(["new-plugin", *arguments, *where])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def spec_of(folder: Path, module: str) -> DeviceSpec:
    """The spec of a generated project."""
    names: dict[str, object] = {}
    exec((folder / "src" / module / "spec.py").read_text(), names)
    spec = names["SPEC"]
    assert isinstance(spec, DeviceSpec)
    return spec


@pytest.mark.parametrize("style", new_plugin.STYLES)
def test_the_project_is_whole(new: New, tmp_path: Path, style: str) -> None:
    """Each style writes the same files, and says how to install the project and how to run the kit."""
    code, out, _ = new("acme", "--style", style)
    folder = tmp_path / "tinygraft-acme"
    assert code == 0
    assert {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()} == FILES
    steps = [f'pip install -e "{folder}[test]"', "python -m tinygraft doctor ACME"]
    steps += ["python -m tinygraft conformance --device ACME"]
    assert [line.strip() for line in out.splitlines() if line.startswith("  ")] == steps
    assert "$" not in "".join(f.read_text() for f in folder.rglob("*.py"))


@pytest.mark.parametrize("style", new_plugin.STYLES)
def test_the_device_is_small_and_sees_only_the_contract(new: New, tmp_path: Path, style: str) -> None:
    """device.py has at most 120 lines; the plugin imports tinygraft.plugin and nothing else of tinygraft."""
    new("acme", "--style", style)
    source = tmp_path / "tinygraft-acme" / "src" / "tinygraft_acme"
    assert len((source / "device.py").read_text().splitlines()) <= 120
    for file in source.glob("*.py"):
        tree = ast.parse(file.read_text())
        found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert {name for name in found if name and name.startswith("tinygraft.")} <= {"tinygraft.plugin"}


@pytest.mark.parametrize("style", new_plugin.STYLES)
def test_the_device_loads(new: New, tmp_path: Path, style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """device.py of each style runs with this core: the contract has every name and every field that it uses."""
    new("acme", "--style", style)
    monkeypatch.syspath_prepend(tmp_path / "tinygraft-acme" / "src")
    try:
        module = importlib.import_module("tinygraft_acme.device")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tinygraft_acme"]:
            del sys.modules[name]
    assert isinstance(module.TARGET, Target)
    assert issubclass(module.AcmeBackend, Backend)


def test_the_metadata_fits_this_core(new: New, tmp_path: Path) -> None:
    """The bounds hold this core, the range of APIs is literal and holds this one, the entry point is the spec."""
    new("my-chip", "--device", "chip9")
    folder = tmp_path / "tinygraft-my-chip"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "tinygraft-my-chip"
    assert project["entry-points"]["tinygraft.devices"] == {"chip9": "tinygraft_my_chip.spec:SPEC"}
    assert project["dependencies"] == ["tinygraft" + new_plugin.bounds(VERSION)]
    spec = spec_of(folder, "tinygraft_my_chip")
    assert (spec.name, spec.backend) == ("CHIP9", "tinygraft_my_chip.device:MyChipBackend")
    assert spec.api.accepts(PLUGIN_API)
    assert not spec.api.accepts((PLUGIN_API[0] + 1, 0))
    assert "PLUGIN_API" not in (folder / "src/tinygraft_my_chip/spec.py").read_text()


def test_long_names_keep_lines_short(new: New, tmp_path: Path) -> None:
    """With a name of 30 letters no line of code is longer than the 120 columns that its own linter allows."""
    for style in new_plugin.STYLES:
        new("a-name-of-thirty-letters-it-is", "--style", style, "--dest", str(tmp_path / style))
    files = list(tmp_path.rglob("*.py"))
    assert len(files) == 2 * 5
    assert [line for file in files for line in file.read_text().splitlines() if len(line) > 120] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Acme!"],
         "'Acme!' is no name for a plugin: small letters, digits and single dashes, such as acme or my-chip"),
        (["a--b"], "'a--b' is no name for a plugin: small letters, digits and single dashes, such as acme or my-chip"),
        (["tinygraft-acme"], "tinygraft-acme begins with tinygraft-, which is put before every name; leave it out"),
        (["acme", "--device", "A:1"],
         "'A:1' is no name for a device: letters, digits and _, such as ACME; give one with --device"),
        (["import"], "import is a keyword of Python; choose another name, such as import-device"),
        (["json"], "json is a module of Python's standard library; choose another name, such as json-device"),
        (["debug"], "DEBUG is a setting of tinygraft; choose another name, or another device with --device"),
        (["cpu"], "tinygraft-cpu is one of tinygraft's own packages; choose another name"),
        (["acme", "--device", "cpu"],
         "CPU is the device of tinygraft-cpu; choose another name, or another device with --device"),
        (["python"],
         f"PYTHON is the device of tinygraft {VERSION}; choose another name, or another device with --device"),
    ],
)  # fmt: skip
def test_names_that_cannot_be(new: New, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    """A name that is taken or is no name: exit code 2, one sentence that says what to do, nothing written."""
    assert new(*arguments) == (2, "", f"tinygraft new-plugin: {sentence}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists(new: New, tmp_path: Path) -> None:
    """What is there already is left as it is."""
    (tmp_path / "tinygraft-acme").mkdir()
    said = f"tinygraft new-plugin: {tmp_path / 'tinygraft-acme'} exists already; remove it, or choose another --dest\n"
    assert new("acme") == (2, "", said)
    assert list((tmp_path / "tinygraft-acme").iterdir()) == []


def test_a_destination_that_is_a_file(new: New, tmp_path: Path) -> None:
    """A file cannot hold the project, and neither can what lies below a file."""
    file = tmp_path / "file"
    file.write_text("")
    said = f"tinygraft new-plugin: {file} is a file, and not a folder to put the project into; choose another --dest\n"
    assert new("acme", "--dest", str(file)) == (2, "", said)
    said = f"tinygraft new-plugin: {file / 'below'} cannot be made (Not a directory); choose another --dest\n"
    assert new("acme", "--dest", str(file / "below")) == (2, "", said)


def test_a_destination_that_may_not_be_written(new: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the project's folder may not be made, that is said with the system's reason."""
    make = Path.mkdir

    def refuse(path: Path, *arguments: object, **options: bool) -> None:
        if path.name == "tinygraft-acme":
            raise PermissionError(13, "Permission denied", str(path))
        make(path, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    folder = tmp_path / "tinygraft-acme"
    said = f"tinygraft new-plugin: {folder} cannot be made (Permission denied); choose another --dest\n"
    assert new("acme") == (2, "", said)


def test_half_a_project_is_removed(new: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a file cannot be written, as on a full disk, nothing of the project stays."""
    write = Path.write_text

    def run_out(path: Path, text: str, **options: str) -> int:
        if path.name == "spec.py":
            raise OSError(28, "No space left on device", str(path))
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", run_out)
    code, _, said = new("acme")
    assert code == 2
    assert said.endswith("spec.py cannot be written (No space left on device); choose another --dest\n")
    assert list(tmp_path.iterdir()) == []


def test_no_plugin_is_imported(tmp_path: Path) -> None:
    """With a plugin installed that ends the process when it is imported, the command works, and knows its device."""
    (tmp_path / "boom.py").write_text("import os\nos._exit(13)\n")
    metadata = tmp_path / "boom-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: boom\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tinygraft.devices]\nboom = boom:SPEC\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tinygraft", "new-plugin", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    assert call("acme").returncode == 0
    assert (tmp_path / "tinygraft-acme" / "pyproject.toml").exists()
    taken = call("other", "--device", "boom")
    assert taken.returncode == 2
    assert "BOOM is the device of boom 1.0; choose another name" in taken.stderr
