"""Pages that are read and done step by step: their blocks, and doing each of them in a folder and a Python of its own.

A ```python block that begins with a file's name is that file; a ```diff block changes the file it names; an ```output
block is a part of what the commands before it print, numbers included; how many spaces there are may differ.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFUSED = "exit code 1"  # behind a command that is meant to fail


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Return the blocks of a page of docs/, each as (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)


def own_python(folder: Path) -> Path:
    """Return a new Python below a folder, that sees what is installed here, and installs what is new elsewhere."""
    venv.create(folder / "venv", with_pip=False, symlinks=os.name != "nt")
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    found = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = (folder / "venv").glob("**/site-packages")
    lines = [f"import site; site.addsitedir({folder!r})" for folder in sorted(here)]
    (site / "outer.pth").write_text("\n".join(lines))
    return found


def plain(text: str) -> str:
    """A text in which one space stands for several."""
    return re.sub(r"\s+", " ", text).strip()


def do(line: str, python: Path, folder: Path, more_settings: Mapping[str, str]) -> str:
    """Run a line of a page in folder; what it prints. pip builds with what is here, and asks no index."""
    command, _, remark = line.partition("  # ")
    words = shlex.split(command)
    settings = dict(word.split("=", 1) for word in words if "=" in word.partition("-")[0])
    words = [word for word in words if "=" not in word.partition("-")[0]]
    start = {"python": [str(python)], "pip": [sys.executable, "-m", "pip", "--python", str(python)]}[words[0]]
    more = ["--quiet", "--no-deps", "--no-build-isolation"] if words[0] == "pip" else []
    kept = {k: v for k, v in os.environ.items() if k not in ("DEBUG", "VIZ", "DEV", "NOOPT", "SPEC")}
    done = subprocess.run(
        [*start, *words[1:], *more],
        cwd=folder,
        env={**kept, **more_settings, **settings},
        capture_output=True,
        text=True,
        timeout=300,
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


def follow(blocks: Sequence[tuple[str, str]], folder: Path, **settings: str) -> None:
    """Do the steps of a page in order, in a folder; `settings` are variables of the commands' environment."""
    python, printed = own_python(folder), ""
    for language, text in blocks:
        if language == "python":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "sh":
            printed = "".join(do(line, python, folder, settings) for line in text.splitlines())
        elif language == "diff":
            change(text, folder)
        else:
            assert language == "output"
            assert plain(text) in plain(printed), f"{text!r} is not in what was printed:\n{printed}"
