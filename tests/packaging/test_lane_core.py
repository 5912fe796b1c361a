"""Lane core: core's wheel alone. It computes where it is asked to, and says what to install where it is not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from packages import run

pytestmark = [pytest.mark.slow, pytest.mark.needs("index")]
SUM = "from tinygraft import Tensor; print(Tensor([1, 2, 3]).sum().item())"


@pytest.mark.parametrize(("device", "result"), [("PYTHON", "6"), ("NULL", "0")])
def test_core_alone_computes(core_alone: Path, tmp_path: Path, device: str, result: str) -> None:
    """From another folder, DEV=PYTHON adds numbers, and DEV=NULL does everything but that."""
    assert run(core_alone, "-c", SUM, cwd=tmp_path, DEV=device).strip() == result


def test_core_alone_says_what_to_install(core_alone: Path, tmp_path: Path) -> None:
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
        "  fix: pip install tinygraft-cpu",
        "  or set DEV=PYTHON to use the interpreter: right, and slow",
        "DeviceUnavailable CPU is not installed (installed: NULL, PYTHON); pip install tinygraft-cpu",
    ]


def test_the_commands_of_core_alone(core_alone: Path, tmp_path: Path) -> None:
    """The console script and python -m tinygraft are one thing, and list core's own devices."""
    script = core_alone.parent / ("tinygraft.exe" if os.name == "nt" else "tinygraft")
    listed = run(core_alone, "-m", "tinygraft", "devices", "--no-probe", cwd=tmp_path)
    assert run(script, "devices", "--no-probe", cwd=tmp_path) == listed
    assert re.findall(r"^ +(\w+) +declared", listed, re.MULTILINE) == ["NULL", "PYTHON"]
    assert run(script, "--version", cwd=tmp_path) == "tinygraft 0.1.0\n"


def test_core_alone_writes_a_plugin(core_alone: Path, tmp_path: Path) -> None:
    """The templates of new-plugin are in the wheel."""
    run(core_alone, "-m", "tinygraft", "new-plugin", "acme", cwd=tmp_path)
    assert (tmp_path / "tinygraft-acme" / "src" / "tinygraft_acme" / "device.py").exists()


def test_the_kit_says_what_it_needs(core_alone: Path, tmp_path: Path) -> None:
    """pytest is no dependency of core: without it the conformance command ends with the extra to install."""
    said = run(core_alone, "-m", "tinygraft", "conformance", "--device", "PYTHON", cwd=tmp_path, code=2)
    assert "pip install 'pytest>=8.2'" in said
