"""The documents run: Python blocks in order and their output, every shell line, every path and link.

A document's ```python blocks share one interpreter; an ```output block holds what the block before it prints. A block
with the title of another library runs where that is installed, and prints what ours beside it prints. Each line of an
```sh block is run, or checked as COMMANDS says; a line that no entry knows fails.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path.relative_to(ROOT).as_posix()
    for path in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("core/*.md"), *ROOT.glob("plugins/*/*.md")]
    )
]
# whose commands need what those before them made: test_docs_tutorial.py, test_docs_gpu_day.py
IN_ORDER = {"docs/writing-a-plugin.md", "docs/gpu-in-a-day.md"}
SCRIPT = "from tinygraft import Tensor\nprint(((Tensor([1.0, 2.0, 3.0, 4.0]) + 1) * 2).sum().item())\n"
LIBRARIES = {"PyTorch": "torch", "NumPy": "numpy", "JAX": "jax", "tinygrad": "tinygrad"}  # title of a block -> module
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', re.M | re.S)
Block = tuple[str, str]


def blocks(document: str) -> list[Block]:
    """The fenced blocks of a document: language and text. That of another library's block is the library's module."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [(LIBRARIES.get(title, language), block) for language, title, block in BLOCK.findall(text)]


def shell_lines(document: str) -> list[str]:
    """The commands of a document's sh blocks."""
    lines = [line for language, text in blocks(document) if language == "sh" for line in text.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def test_there_are_documents() -> None:
    """The documents that a newcomer opens first are among those that run."""
    assert {"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/looking.md"} <= set(DOCUMENTS)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d != "docs/gpu-in-a-day.md"  # its blocks are files
                                      and any(language == "python" for language, _ in blocks(d))])  # fmt: skip
def test_python_blocks_print_what_is_shown(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every python block of a document runs, and the output block after it holds exactly what it prints."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": document}
    found = blocks(document)
    for number, (language, text) in enumerate(found):
        if language != "python":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, f"{document}, block {number + 1}", "exec"), names)
        if number + 1 < len(found) and found[number + 1][0] == "output":
            assert printed.getvalue() == found[number + 1][1]


@pytest.mark.parametrize(("document", "library"), sorted({(d, language) for d in DOCUMENTS for language, _ in blocks(d)
                                                          if language in LIBRARIES.values()}))  # fmt: skip
def test_the_other_side_prints_the_same(
    document: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another library's block prints is the output below ours, so that the two sides mean the same."""
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: the blocks of that library run where it is")
    monkeypatch.chdir(tmp_path)
    if library == "tinygrad" and which("clang") is None and (clang := which("clang-19")) is not None:
        monkeypatch.setenv("CC", clang)  # by which tinygrad finds a device
    names: dict[str, Any] = {"__name__": document}
    found = blocks(document)
    for number, (language, text) in enumerate(found):
        if language != library:
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, f"{document}, block {number + 1}", "exec"), names)
        ours, output = found[number + 1], found[number + 2]
        assert (ours[0], output[0]) == ("python", "output"), f"block {number + 1} has no block of ours beside it"
        assert printed.getvalue() == output[1]


def run(line: str, folder: Path) -> None:
    """A line of a document runs in a folder with script.py in it; NAME=value words before the command are set."""
    words = shlex.split(line)
    settings = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    (folder / "script.py").write_text(SCRIPT)
    if words[0] == "python":
        words[0] = sys.executable
    elif words[0] == ".venv/bin/pytest":  # what make test made
        words[:1] = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        folder = ROOT
    left_out = ("DEBUG", "VIZ", "DEV", "TINYGRAFT_DEVICE", "NOOPT", "CPU")
    env = {k: v for k, v in os.environ.items() if k not in left_out} | settings
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    if "script.py" in words:
        assert "28.0" in done.stdout.splitlines()


def has_make_target(line: str, folder: Path) -> None:
    """A make target exists: make can say what it would do."""
    done = subprocess.run([*shlex.split(line), "-n"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def has_paths(line: str, folder: Path) -> None:
    """The paths of a line that installs or starts something exist in the tree."""
    for word in shlex.split(line):
        if word.startswith("./") or (word.endswith(".py") and "/" in word):
            assert (ROOT / word).exists(), word


def has_group(line: str, folder: Path) -> None:
    """A dependency group that uv is asked for is in the workspace's pyproject.toml."""
    group = line.rpartition(" ")[2]
    assert re.search(rf"^{group} = \[", (ROOT / "pyproject.toml").read_text(), re.M)


def has_marker(line: str, folder: Path) -> None:
    """A marker that pytest is asked for is declared."""
    marker = line.split()[-1].strip('"')
    assert f'"{marker}:' in (ROOT / "pyproject.toml").read_text()


def has_item(line: str, folder: Path) -> None:
    """The items that a line of the benchmarks names, and all its options, exist."""
    settings = (word for word in shlex.split(line) if "=" not in word)
    words = [*list(settings)[1:], "--help" if ".alone" in line else "--list"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def has_lane(line: str, folder: Path) -> None:
    """A lane of packaging exists, and has tests."""
    environment = os.environ | {"PYTHON": sys.executable}
    command = [*shlex.split(line), "--collect-only"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# A line and what is done about it, first match first. Installing and training are what make and CI do.
COMMANDS: list[tuple[str, Callable[[str, Path], None]]] = [
    (r"make [\w-]+$", has_make_target),
    (r"python3 -m venv|pip install|python examples/|uv run", has_paths),
    (r"uv sync --group", has_group),
    (r"\.venv/bin/pytest -m ", has_marker),
    (r"\.venv/bin/pytest core/tests/uop/test_index.py", run),
    (r"\.ci/lane \w+$", has_lane),
    (r"([A-Z_]+=\w+ )*python (script.py|-c )", run),
    (r"([A-Z]+=\w+ )*python -m benchmarks", has_item),
    (
        r"([A-Z]+=\w+ )*python -m tinygraft (devices|doctor|conformance|settings|explain|tune|profile|viz|new-plugin)",
        run,
    ),
    (r"python docs/write_\w+\.py", has_paths),
]


@pytest.mark.parametrize("line", sorted({line for d in DOCUMENTS if d not in IN_ORDER for line in shell_lines(d)}))
def test_shell_lines_work(line: str, tmp_path: Path) -> None:
    """Every shell line of the documents is known here, and runs or names what exists."""
    check = next((check for pattern, check in COMMANDS if re.match(pattern, line)), None)
    assert check is not None, f"a document has a line that no test covers: {line}"
    check(line, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_paths_exist(document: str) -> None:
    """Every relative link, and every path in backquotes that begins at the root, exists."""
    text = (ROOT / document).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in link]
    missing = [link for link in links if not ((ROOT / document).parent / link).exists()]
    paths = re.findall(r"`((?:core|plugins|tests|docs|examples|benchmarks)/[\w./-]*)`", text)
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_the_readme_leads_to_every_page() -> None:
    """A page that nobody is sent to is not read."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))
             if page.parent.name != "reference"]  # fmt: skip
    assert [page for page in pages if f"({page})" not in text] == []


def test_the_first_screen_has_the_two_commands() -> None:
    """make train and make test stand within the first forty lines of the README."""
    first = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    assert "make train" in first
    assert "make test" in first


def test_core_readme_is_not_the_root_readme() -> None:
    """Each distribution has a README of its own: what PyPI shows is about that package."""
    texts = {path: (ROOT / path).read_text() for path in ("README.md", "core/README.md", "plugins/cpu/README.md")}
    assert len(set(texts.values())) == 3
