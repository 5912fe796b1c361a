"""What errors, commands and READMEs tell people to install or to run is there: distributions, extras, commands of ours.

A hint is text in a source that begins with `pip install`, `apt-get install` or `python -m tinygraft`. Parts of it that
are known only when it is printed are not looked at.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from packages import PACKAGES, PLUGINS, ROOT, metadata
from tinygraft.device.known import KNOWN

# What the sources of core and plugins name and what others keep, with what each is for; looked up on the index as well.
ON_THE_INDEX = {
    "llvmlite": "LLVM in this process, for the CPU",
    "pyopencl": "the binding of OpenCL",
    "pocl-binary-distribution": "OpenCL on the processor; 3.0 is the last one there",
    "intel-opencl-rt": "Intel's OpenCL for processors",
    "intel-cmplr-lib-rt": "libraries that it loads and does not require",
    "nvidia-cuda-nvrtc-cu12": "NVRTC for drivers of CUDA 12",
    "nvtx": "names for NVIDIA's profilers",
    "pyobjc-framework-Metal": "the binding of Metal; it has wheels for macOS alone",
    "nvidia-cuda-nvdisasm": "machine code as text",
    "pytest": "the conformance kit",
}
# What benchmarks, documents and the template of a plugin's README name beside those.
ELSEWHERE_NAMED = {"numpy", "torch", "jax", "tinygrad", "onnxruntime", "onnx", "matplotlib", "scikit-learn", "tqdm",
                   "build", "twine", "ziglang"}  # fmt: skip
EXAMPLES = {"tinygraft-acme"}  # what a reader of docs/writing-a-plugin.md has made
BY_PATH = {"tinygraft-warp"}  # and of docs/gpu-in-a-day.md, which is installed from its folder
IN_DEBIAN = {"binutils", "clang-19", "g++", "libjemalloc2"}  # seen in the lists of Debian 12, 2026-11-22
COMMANDS = "pip install|apt-get install|python -m tinygraft"
COMMAND = re.compile(rf"({COMMANDS})\s+((?:(?!{COMMANDS})[^\n;#`])*)")  # and the words after it, up to another one
VALUED = {"--extra-index-url", "--find-links", "--group", "-r"}  # options with a value
EXTRA = re.compile(r"(tinygraft(?:-[a-z]+)?)\[([a-z,]+)\]")
PRODUCTS = [file for folder in ("core", "plugins") for file in sorted((ROOT / folder).glob("**/src/**/*.py"))]
OTHERS = [*sorted((ROOT / "benchmarks").glob("*.py")), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"),
          *ROOT.glob("core/*.md"), *ROOT.glob("plugins/*/*.md"), *ROOT.glob("core/src/**/*.template")]  # fmt: skip


@cache
def texts(file: Path) -> list[str]:
    """The texts of a file: each string of Python, or the whole of another file."""
    return [*strings(file.read_text())] if file.suffix == ".py" else [file.read_text()]


def strings(source: str) -> Iterator[str]:
    """The strings of a Python source, those of several lines as one, {} for what is put in when it runs."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def named(text: str) -> Iterator[tuple[str, str]]:
    """The pairs (command, name) of a text: what its hints install, or which command of ours they run.

    >>> list(named("install gcc, or pip install -U 'x[y]>=1', or apt-get install gcc; python -m tinygraft explain f"))
    [('pip', 'x'), ('apt-get', 'gcc'), ('python', 'explain')]
    """
    for command, rest in COMMAND.findall(text):
        words = iter(rest.split())
        for word in words:
            name = word.lstrip("'\"").rstrip("'\"),.")
            if word in VALUED:
                next(words, None)
            elif word.startswith("("):
                break
            elif name and not re.match(r"-|\$|\.|/|.*\{\}|.*:", name):
                yield command.partition(" ")[0], Requirement(name).name if command == "pip install" else name
            if command == "python -m tinygraft" or word.endswith((",", ")", '"""')):
                break


def hints(files: list[Path], command: str) -> dict[str, str]:
    """The names that hints of files give to a command, each with a file that has it."""
    return {
        name: str(file.relative_to(ROOT))
        for file in files
        for text in texts(file)
        for by, name in named(text)
        if by == command
    }


def test_hints_of_the_packages_name_what_exists() -> None:
    """Core and plugins name distributions of this tree and those of the table, and every row is named."""
    found = hints(PRODUCTS, "pip")
    assert {name: file for name, file in found.items() if name not in {*PACKAGES, *ON_THE_INDEX}} == {}
    assert set(ON_THE_INDEX) <= set(found)
    assert {distribution for distribution, _ in KNOWN.values()} == set(PLUGINS)  # put in as they run


def test_hints_beside_the_packages_name_what_exists() -> None:
    """Benchmarks, READMEs and documents too."""
    known = {*PACKAGES, *ON_THE_INDEX, *ELSEWHERE_NAMED, *EXAMPLES}
    found = hints(OTHERS, "pip")
    assert {name: file for name, file in found.items() if name not in known} == {}
    assert {*ELSEWHERE_NAMED, *EXAMPLES} <= set(found)


def test_hints_name_packages_of_debian() -> None:
    """Each name is one that was looked up, and no other is kept."""
    assert set(hints([*PRODUCTS, *OTHERS], "apt-get")) == IN_DEBIAN


def test_hints_name_commands_of_ours() -> None:
    """Where an error says `python -m tinygraft X`, X is a command."""
    listed = subprocess.run(
        [sys.executable, "-m", "tinygraft", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    commands = set(re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE))
    found = hints([*PRODUCTS, *OTHERS], "python")
    assert {"doctor", "devices", "new-plugin"} <= set(found) <= commands, found


def test_hints_name_extras_that_are_declared() -> None:
    """tinygraft-opencl[pocl] and its like are in the metadata of that distribution."""
    found = {pair for file in [*PRODUCTS, *OTHERS] for text in texts(file) for pair in EXTRA.findall(text)}
    assert ("tinygraft-opencl", "pocl") in found
    for distribution, extras in found:
        if distribution in EXAMPLES | BY_PATH:
            continue
        assert set(extras.split(",")) <= set(metadata(PACKAGES[distribution])["optional-dependencies"]), distribution


def test_the_search_sees_what_does_not_exist() -> None:
    """A name in a hint that is in no table is found, also in a formatted string over several lines."""
    source = 'raise OSError(f"{x}; no card: pip install tinygraft-metal "\n    "nonesuch, or try again")'
    (text,) = strings(source)
    assert list(named(text)) == [("pip", "tinygraft-metal"), ("pip", "nonesuch")]


@pytest.mark.needs("index")
@pytest.mark.parametrize("name", ON_THE_INDEX)
def test_the_index_has_it(name: str) -> None:
    """pip finds a version for this machine."""
    ask = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", name]
    done = subprocess.run(ask, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"{name} (" in done.stdout
