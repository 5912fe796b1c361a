"""What publishes the packages, so far as it can be run here: the build of all wheels, their installation by the extras
of core from a folder, the list of wheels that cibuildwheel would build, and the files that the Dockerfile names.

macOS, Windows and Docker are not on the machines of these tests: wheels.yml and the Dockerfile say so, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from packages import ROOT, environment, run

IDENTIFIERS = {
    "linux": {f"cp3{minor}-manylinux_{arch}" for minor in (11, 12, 13, 14) for arch in ("x86_64", "aarch64")},
    "macos": {f"cp3{minor}-macosx_{arch}" for minor in (11, 12, 13, 14) for arch in ("x86_64", "arm64")},
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.needs("index", "cc")
def test_an_extra_of_core_installs_from_a_folder(tmp_path: Path) -> None:
    """The commands of the workflow: the script builds everything, and core's extra finds the plugin beside it."""
    subprocess.run([sys.executable, ROOT / ".ci" / "build_wheels.py", tmp_path / "dist"], check=True)
    python = environment(tmp_path / "venv", "tinygraft[cpu]", "--find-links", tmp_path / "dist")
    said = run(python, "-m", "tinygraft", "doctor", "CPU", cwd=tmp_path)
    assert "[FAIL]" not in said
    assert "Exit 0: CPU works" in said
    assert run(python, "-m", "tinygraft", "--version", cwd=tmp_path) == "tinygraft 0.1.0\n"


@pytest.mark.parametrize("platform", IDENTIFIERS)
def test_cibuildwheel_builds_for_these(platform: str) -> None:
    """The tool itself reads the table of the CPU plugin."""
    pytest.importorskip("cibuildwheel", reason="cibuildwheel is not installed: it is in the group test")
    command = [sys.executable, "-m", "cibuildwheel", "--platform", platform, "--archs", "all",
               "--print-build-identifiers", str(ROOT / "plugins" / "cpu")]  # fmt: skip
    listed = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert listed >= IDENTIFIERS[platform]
    assert not [each for each in listed if "musllinux" in each or "cp310" in each]


def test_the_dockerfile_copies_what_is_there() -> None:
    """Each path that it copies from the checkout exists, and no .dockerignore line keeps it out."""
    text = (ROOT / "Dockerfile").read_text()
    copied = [line.split()[1] for line in text.splitlines() if re.match(r"COPY (?!--from)", line)]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert copied
    assert [path for path in copied if not (ROOT / path).exists() or path in ignored] == []
    assert "python .ci/build_wheels.py" in text
