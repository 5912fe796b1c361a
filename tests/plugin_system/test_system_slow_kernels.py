"""The example of a hook plugin: it says which kernels are slow, in any program, once it is installed."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1] / "third_party" / "tinygraft-slow-kernels"
PROGRAM = (
    "from tinygraft import Tensor\n"
    "for n in range(3): (Tensor([n, 2.0, 3.0], device='PYTHON') * 2).realize()\n"
    "(Tensor([1.0, 2.0], device='PYTHON') + 1).realize()\n"
)


@pytest.fixture
def run(fakes):
    """Run a program in an environment in which the example is installed: its output and what it says on stderr."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    info = fakes.folder / "tinygraft_slow_kernels-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["tinygraft.hooks"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[tinygraft.hooks]", *lines, ""]))
    (info / "RECORD").write_text((PROJECT / "src" / "tinygraft_slow_kernels" / "__init__.py").read_text())
    path = os.pathsep.join([str(fakes.folder), str(PROJECT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])

    def start(*arguments, **settings):
        environment = os.environ | {"PYTHONPATH": path, "TINYGRAFT_CACHE": str(fakes.folder / "cache")} | settings
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=60
        )

    return start


def test_slow_kernels_are_printed(run):
    """Each launch that takes the limit or longer is a line; the program's end tells where the time went."""
    said = run("-c", PROGRAM, SLOW_KERNELS_MS="0").stderr.splitlines()
    slow = [line for line in said if line.startswith("slow: ")]
    assert len(slow) == 4
    assert all(re.fullmatch(r"slow: E_\d on PYTHON: [\d.]+ ms, [\d.]+ GFLOPS, [\d.]+ GB/s", line) for line in slow)
    assert sorted(re.sub(r"[\d.]+ ms", "T ms", line) for line in said if line.startswith("slowest: ")) == [
        "slowest: E_2 on PYTHON: T ms in 1 launches",
        "slowest: E_3 on PYTHON: T ms in 3 launches",
    ]


def test_quick_kernels_are_not(run):
    """Above the limit nothing is printed but the summary."""
    said = run("-c", PROGRAM, SLOW_KERNELS_MS="60000").stderr
    assert "slow: " not in said
    assert said.count("slowest: ") == 2


def test_it_can_be_switched_off(run):
    """A name on the deny list is not imported, and nothing is said."""
    assert run("-c", PROGRAM, TINYGRAFT_DISABLE_PLUGINS="slow-kernels").stderr == ""


def test_the_commands_know_it(run):
    """`devices` lists it with its hooks, `doctor` runs its check."""
    assert (
        "hooks: tinygraft-slow-kernels 0.1.0 slow-kernels (doctor_checks, on_launch)"
        in run("-m", "tinygraft", "devices").stdout.splitlines()
    )
    assert run("-m", "tinygraft", "doctor", "slow-kernels", SLOW_KERNELS_MS="5").stdout.splitlines()[2:] == [
        "hooks slow-kernels  tinygraft-slow-kernels 0.1.0",
        "  [ok]   tinygraft_slow_kernels has doctor_checks, on_launch",
        "  [ok]   slow kernels: from 5 ms on (SLOW_KERNELS_MS)",
        "Exit 0: slow-kernels works",
    ]


def test_it_is_short():
    """The example is about 50 lines, and imports tinygraft.plugin and nothing else of tinygraft."""
    text = (PROJECT / "src" / "tinygraft_slow_kernels" / "__init__.py").read_text()
    assert len(text.splitlines()) <= 55
    assert set(re.findall(r"^(?:from|import) (tinygraft[.\w]*)", text, re.M)) == {"tinygraft.plugin"}
