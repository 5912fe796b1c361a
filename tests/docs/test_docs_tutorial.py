"""The tutorial runs as it is read: each command in order, each change of a file, and what is shown is what is printed.

A ```python block that begins with a file's name is that file; a ```diff block changes the file it names; an ```output
block is a part of what the commands before it print, but for numbers and spaces, which may differ.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tinygraft.plugin import Dialect, Target

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "writing-a-plugin.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
REFUSED = "exit code 1"  # behind a command that is meant to fail


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python that sees what is installed here, and installs what is new elsewhere."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=os.name != "nt")
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = (tmp_path / "venv").glob("**/site-packages")
    lines = [f"import site; site.addsitedir({folder!r})" for folder in sorted(here)]
    (site / "outer.pth").write_text("\n".join(lines))
    return found


def plain(text: str) -> str:
    """A text in which numbers and the digest of a device are alike, and one space stands for several."""
    return re.sub(r"\s+", " ", re.sub(r"-?\d+(\.\d+)?", "#", text)).strip()


def do(line: str, python: Path, folder: Path) -> str:
    """Run a line of the page in folder; what it prints. pip builds with what is here, and asks no index."""
    command, _, remark = line.partition("  # ")
    words = shlex.split(command)
    settings = dict(word.split("=", 1) for word in words if "=" in word.partition("-")[0])
    words = [word for word in words if "=" not in word.partition("-")[0]]
    start = {"python": [str(python)], "pip": [sys.executable, "-m", "pip", "--python", str(python)]}[words[0]]
    more = ["--quiet", "--no-deps", "--no-build-isolation"] if words[0] == "pip" else []
    kept = {k: v for k, v in os.environ.items() if k not in ("DEBUG", "VIZ", "DEV", "NOOPT", "SPEC")}
    done = subprocess.run(
        [*start, *words[1:], *more], cwd=folder, env=kept | settings, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == int(remark == REFUSED), done.stdout + done.stderr
    return done.stdout


def change(text: str, folder: Path) -> None:
    """Apply a diff whose first line names its file; each of its hunks fits in one place."""
    head, *lines = text.splitlines()
    file = folder / head.removeprefix("--- ")
    source = file.read_text()
    for hunk in "\n".join(lines).split("\n@@\n"):
        rows = hunk.splitlines()
        old = "\n".join(row[1:] for row in rows if row[0] in " -")
        new = "\n".join(row[1:] for row in rows if row[0] in " +")
        assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {file.name}"
        source = source.replace(old, new)
    file.write_text(source)


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_the_tutorial(python: Path, tmp_path: Path) -> None:
    """From the generated project to one with words and vectors of its own, which passes the whole kit."""
    printed = ""
    for language, text in BLOCKS:
        if language == "python":
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "sh":
            printed = "".join(do(line, python, tmp_path) for line in text.splitlines())
        elif language == "diff":
            change(text, tmp_path)
        else:
            assert language == "output"
            assert plain(text) in plain(printed), printed


def test_the_page_shows_every_kind_of_step() -> None:
    """The page makes a project, installs it, changes it, runs the kit after each change, and shows what comes out."""
    kinds = [language for language, _ in BLOCKS]
    assert kinds.count("diff") == 4
    assert kinds.count("output") == kinds.count("sh")
    kit = [text for language, text in BLOCKS if language == "sh" and re.search("conformance|pytest", text)]
    assert len(kit) == 5


def test_the_fields_it_names_exist() -> None:
    """What the page calls a field, of Target or of Dialect, is one."""
    (paragraph,) = re.findall(r"^\[Other fields\].*?\n\n", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    named = set(re.findall(r"`([a-z_]+)`", paragraph)) - {"launch"}
    fields = {field.name for cls in (Target, Dialect) for field in dataclasses.fields(cls)}
    assert len(named) > 4
    assert named <= fields
