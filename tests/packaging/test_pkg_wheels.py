"""The packages as people install them: built as sdist and wheel, installed alone, run from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"tinygraft": ROOT / "core", "tinygraft-cpu": ROOT / "plugins" / "cpu"}
LEFT_BEHIND = shutil.ignore_patterns("build", "dist", "*.so", "*.egg-info", "__pycache__", "tests")


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """What a command prints; a failure shows all of it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TINYGRAFT_", "PYTHONPATH", "SPEC", "DEV"))}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(name: str, folder: Path, **environment: str) -> tuple[Path, Path]:
    """The sdist of a package, and the wheel built from that sdist, from a copy of its folder."""
    source = folder / "source" / name
    shutil.copytree(PACKAGES[name], source, ignore=LEFT_BEHIND)
    out = folder / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, **environment)
    stem = name.replace("-", "_")
    (sdist,) = out.glob(f"{stem}-[0-9]*.tar.gz")
    (wheel,) = out.glob(f"{stem}-[0-9]*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """The sdist and wheel of each package."""
    folder = tmp_path_factory.mktemp("built")
    return {name: build(name, folder) for name in PACKAGES}


@pytest.fixture(scope="session")
def core_alone(built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a clean environment with core's wheel and what that asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", built["tinygraft"][1])
    return python


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_core(built):
    """Core's wheel is pure, holds each source file, the page of VIZ and py.typed, and no test."""
    wheel = built["tinygraft"][1]
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    source = PACKAGES["tinygraft"] / "src"
    expected = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")
    }
    assert expected <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test" in Path(name).parts]


@pytest.mark.slow
def test_the_sdist_holds_what_a_build_needs(built):
    """Each sdist has its metadata, licence, readme and sources; that of the cpu the C code and its build script."""
    for name, (sdist, _) in built.items():
        with tarfile.open(sdist) as archive:
            names = {path.partition("/")[2] for path in archive.getnames()}
        assert {"pyproject.toml", "LICENSE", "README.md", "PKG-INFO"} <= names
        if name == "tinygraft-cpu":
            assert {"setup.py", "src/tinygraft_cpu/spec.py", "src/tinygraft_cpu/py.typed"} <= names
            assert [n for n in names if n.endswith(".c")]


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_the_wheel_of_the_cpu_holds_the_extension(built):
    """With a C compiler the wheel holds the extension and is tagged for this platform."""
    wheel = built["tinygraft-cpu"][1]
    assert not wheel.name.endswith("-any.whl")
    assert [n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("tinygraft_cpu/_native.")]


@pytest.mark.slow
def test_the_cpu_builds_without_a_compiler(tmp_path):
    """With CC=/bin/false the build succeeds all the same, and the wheel fits every platform."""
    _, wheel = build("tinygraft-cpu", tmp_path, CC="/bin/false")
    assert wheel.name.endswith("-none-any.whl")
    assert not [n for n in zipfile.ZipFile(wheel).namelist() if "_native" in n]


@pytest.mark.slow
def test_core_alone_computes(core_alone, tmp_path):
    """In a clean environment, from another folder, DEV=PYTHON adds numbers."""
    code = "from tinygraft import Tensor; print(Tensor([1, 2, 3]).sum().item())"
    assert run(core_alone, "-c", code, cwd=tmp_path, DEV="PYTHON").strip() == "6"


@pytest.mark.slow
def test_core_alone_says_what_to_install(core_alone, tmp_path):
    """With core alone there is no default device; the error says how to get one."""
    code = (
        "from tinygraft import Tensor, Device\n"
        "for ask in (lambda: Tensor([1, 2, 3]).sum().item(), lambda: Device['CPU']):\n"
        "    try: ask()\n"
        "    except RuntimeError as error: print(type(error).__name__, error)\n"
    )
    assert run(core_alone, "-c", code, cwd=tmp_path).splitlines() == [
        "DeviceUnavailable no device to run on: nothing but core's own interpreter is installed, "
        "which is never chosen by itself",
        "  fix: pip install tinygraft-cpu (or, from a checkout: pip install ./plugins/cpu)",
        "  or set DEV=PYTHON to use the interpreter: right, and slow",
        "DeviceUnavailable CPU is not installed (installed: NULL, PYTHON); "
        "pip install tinygraft-cpu (or, from a checkout: pip install ./plugins/cpu)",
    ]


@pytest.mark.slow
def test_the_commands_of_core_alone(core_alone, tmp_path):
    """The console script and python -m tinygraft are one thing, and list core's own devices."""
    script = core_alone.parent / ("tinygraft.exe" if os.name == "nt" else "tinygraft")
    listed = run(core_alone, "-m", "tinygraft", "devices", "--no-probe", cwd=tmp_path)
    assert run(script, "devices", "--no-probe", cwd=tmp_path) == listed
    assert re.findall(r"^ +(\w+) +declared", listed, re.MULTILINE) == ["NULL", "PYTHON"]
    assert run(script, "--version", cwd=tmp_path) == "tinygraft 0.1.0\n"


def metadata(name: str) -> dict:
    """The [project] table of a package."""
    return tomllib.loads((PACKAGES[name] / "pyproject.toml").read_text())["project"]


def test_plugins_bound_the_core_they_need():
    """A plugin depends on the core of this tree with a bound above, so that pip sees skew."""
    version = tuple(int(part) for part in metadata("tinygraft")["version"].split("."))
    (need,) = [d for d in metadata("tinygraft-cpu")["dependencies"] if re.match(r"tinygraft\b(?!-)", d)]
    low, below = re.fullmatch(r"tinygraft>=([\d.]+),<([\d.]+)", need).groups()
    assert tuple(map(int, low.split("."))) <= version < tuple(map(int, below.split(".")))


def test_versions_agree():
    """The version of the metadata is the one that the package gives."""
    import tinygraft

    assert metadata("tinygraft")["version"] == tinygraft.__version__


def test_entry_points_name_their_device():
    """An entry point's name is its device's name in small letters, and core depends on nothing but numpy and pluggy."""
    assert set(metadata("tinygraft")["entry-points"]["tinygraft.devices"]) == {"python", "null"}
    assert set(metadata("tinygraft-cpu")["entry-points"]["tinygraft.devices"]) == {"cpu"}
    assert [re.match(r"\w+", d)[0] for d in metadata("tinygraft")["dependencies"]] == ["numpy", "pluggy"]


def test_the_workspace_lists_its_members():
    """Every folder with a package is a member of the workspace, and the root is not a package."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert root["tool"]["uv"]["package"] is False
    assert set(root["tool"]["uv"]["sources"]) == {metadata(name)["name"] for name in PACKAGES}
    assert {p.parent.name for p in (ROOT / "plugins").glob("*/pyproject.toml")} == {"cpu"}


def test_every_package_has_the_licence():
    """The licence file of each package is that of the tree."""
    for folder in PACKAGES.values():
        assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
