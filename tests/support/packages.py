"""The packages of the tree as people install them: sdists, wheels built from those, and clean environments.

A wheel is built once for each state of its package's folder and kept in out/wheelhouse; what else an environment needs
comes through pip and its cache, so a test that makes one is marked `needs("index")`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path
from typing import Any, NamedTuple

import cuda_emulator
import hip_emulator
import metal_emulator

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "core", *sorted(file.parent for file in (ROOT / "plugins").glob("*/pyproject.toml"))]
WHEELHOUSE = ROOT / "out" / "wheelhouse"
BUILT = ("build", "dist", "*.so", "*.egg-info", "__pycache__", ".*")
LEFT_BEHIND = shutil.ignore_patterns(*BUILT)
KEPT = 3600  # seconds that a wheel stays when the sources have changed
OURS = ("TINYGRAFT_", "PYTHON", "PYTEST", "SPEC", "DEV", "DEBUG", "VIZ", "NOOPT", "CPU_")


class Built(NamedTuple):
    """A package as files."""

    sdist: Path
    wheel: Path


def metadata(folder: Path) -> dict[str, Any]:
    """The [project] table of a package's folder."""
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]  # type: ignore[no-any-return]


PACKAGES = {str(metadata(folder)["name"]): folder for folder in FOLDERS}
PLUGINS = [name for name in list(PACKAGES)[1:] if "tinygraft.devices" in metadata(PACKAGES[name])["entry-points"]]
ENGINES = [name for name in list(PACKAGES)[1:] if name not in PLUGINS]  # of collectives
EXTRAS = {"tinygraft-opencl": "[pocl]"}  # what a plugin needs to find a device on a machine that has none


def driver_of(plugin: str) -> dict[str, str]:
    """Return the variables with which a plugin finds a driver on a machine without its hardware: an emulated one."""
    emulator = {"tinygraft-cuda": cuda_emulator.EMULATOR, "tinygraft-amd": hip_emulator.EMULATOR}.get(plugin)
    if plugin == "tinygraft-metal":
        return {"PYTHONPATH": str(metal_emulator.MODULES), **metal_emulator.programs()}
    if emulator is None:
        return {}
    folder = emulator.build()
    return {"LD_LIBRARY_PATH": str(folder), emulator.compiler_setting: str(folder / emulator.kernels)}


def device_of(plugin: str) -> str:
    """The device of a plugin of ours, in capitals."""
    (device,) = metadata(PACKAGES[plugin])["entry-points"]["tinygraft.devices"]
    return str(device).upper()


def bounds(plugin: str) -> tuple[str, str]:
    """Return the bounds of core in a plugin's requirement: the lowest version, and the one that it has to be below."""
    (need,) = [need for need in metadata(PACKAGES[plugin])["dependencies"] if re.match(r"tinygraft\b(?!-)", need)]
    found = re.fullmatch(r"tinygraft>=([\d.]+),<([\d.]+)", need)
    assert found, f"{plugin} depends on {need!r}; write it as tinygraft>=LOWEST,<BELOW"
    return found[1], found[2]


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare with others: three numbers, missing ones being 0."""
    return (*map(int, version.split(".")), 0, 0)[:3]


def run(*command: object, cwd: Path | None = None, code: int = 0, timeout: float = 600, **environment: str) -> str:
    """What a command prints, run with no setting of ours but the cache of the tests.

    One that ends with another exit code than code fails, and shows all that it said. Of a command that is meant to
    end badly this gives what it says about that, on its error output.
    """
    inherited = {name: v for name, v in os.environ.items() if not name.startswith(OURS) or name == "TINYGRAFT_CACHE"}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=inherited | environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == code, f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stderr if code else done.stdout


def digest(folder: Path) -> str:
    """Return a name for the state of a folder, as far as it is built: without its tests, which no package has."""
    found = hashlib.sha256(f"{sys.version} {os.environ.get('CC', '')}".encode())
    with tempfile.TemporaryDirectory() as empty:
        copy = shutil.copytree(folder, Path(empty) / "copy", ignore=shutil.ignore_patterns(*BUILT, "tests"))
        for file in sorted(f for f in copy.rglob("*") if f.is_file()):
            found.update(f"{file.relative_to(copy)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def build(folder: Path, into: Path | None = None, **environment: str) -> Built:
    """The sdist of a package's folder, and the wheel that is built from that sdist; in the wheelhouse, if nowhere else.

    A copy of the sources is built, so that the folder is not changed, with the build tools that are installed.
    """
    target = into or WHEELHOUSE / f"{folder.name}-{digest(folder)}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            source = shutil.copytree(folder, Path(scratch) / "source", ignore=LEFT_BEHIND)
            dist = Path(scratch) / "dist"
            run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source, **environment)
            if into is None:
                for old in target.parent.glob(f"{folder.name}-*"):
                    if old.stat().st_mtime < time.time() - KEPT:  # another run of the tests may use a newer one
                        shutil.rmtree(old, ignore_errors=True)
            try:
                dist.rename(target)
            except OSError:
                if not target.exists():  # where it does, another process has built the same meanwhile
                    raise
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return Built(sdist, wheel)


def wheel(name: str) -> Path:
    """The wheel of a package of ours."""
    return build(PACKAGES[name]).wheel


def wheel_of_core(version: str, folder: Path) -> Path:
    """The wheel of a version of core: the present one is built, an earlier one comes from the index into folder."""
    if numbers(version) == numbers(metadata(FOLDERS[0])["version"]):
        return wheel("tinygraft")
    wanted = f"tinygraft=={version}"
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, wanted
    )
    (found,) = folder.glob("tinygraft-*.whl")
    return found


def environment(folder: Path, *requirements: object) -> Path:
    """The Python of a fresh environment in folder, in which pip has installed requirements and nothing else."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install(python, *requirements)
    return python


def install(python: Path, *requirements: object) -> None:
    """Let pip install requirements for a Python."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *requirements)
