"""Variables of the environment that nothing reads: which of them are answered, and how often."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from tinygraft.config import Context
from tinygraft.device.environment import check_environment, faults, is_one_letter_off
from tinygraft.errors import SettingError, SettingWarning

NAMES = frozenset({"CPU", "PYTHON", "NULL"})


def said(**environment: str) -> list[str]:
    """The sentences about an environment."""
    return list(faults(NAMES, environment))


def test_misspelt_settings_are_named() -> None:
    """A setting that is one letter off, with a value that it could have."""
    assert said(BEM="1") == ["BEM=1 changes nothing: there is no such setting; did you mean BEAM?"]
    assert said(TINYGRAFT_DEBUG="1") == [
        "TINYGRAFT_DEBUG=1 changes nothing: there is no such setting, `python -m tinygraft settings` prints all; "
        "did you mean DEBUG?"
    ]
    assert said(DEBG="2") == ["DEBG=2 changes nothing: there is no such setting; did you mean DEBUG?"]
    assert said(DEVV="CPU:1") == ["DEVV=CPU:1 changes nothing: there is no such setting; did you mean DEV?"]
    assert said(CUDDA="1", PYTHN="1") == [
        "CUDDA=1 changes nothing: no plugin provides a device CUDDA; did you mean CUDA?",
        "PYTHN=1 changes nothing: no plugin provides a device PYTHN; did you mean PYTHON?",
    ]
    assert said(TINYGRAFT_CAHCE="/tmp") == [
        "TINYGRAFT_CAHCE=/tmp changes nothing: there is no such setting, `python -m tinygraft settings` prints all; "
        "did you mean TINYGRAFT_CACHE?"
    ]


def test_devices_that_are_not_installed_are_named() -> None:
    """NAME=1 of a device that no plugin provides says how to get it, or what it is called here."""
    (text,) = said(CUDA="1")
    assert text.startswith("CUDA=1 changes nothing: CUDA is not installed; pip install tinygraft-cuda")
    (text,) = said(METAL="1")
    assert text.startswith("METAL=1 changes nothing: METAL is not installed; pip install tinygraft-metal")
    assert said(GPU="1") == ["GPU=1 changes nothing: no plugin provides a device GPU; did you mean CUDA or OPENCL?"]


def test_settings_of_tinygrad_say_what_to_do() -> None:
    """Those that no other program has; a number only."""
    assert said(JIT="0") == [
        "JIT=0 changes nothing: there is no such setting here; leave TinyJit out to run without it"
    ]
    assert said(WINO="1")[0].startswith("WINO=1 changes nothing: there is no such setting here; leave it out")


def test_variables_of_other_programs_are_left_alone() -> None:
    """A usual environment, and that of a build server, has no fault; nor have ours that are right."""
    usual = {
        "PATH": "/bin", "HOME": "/root", "LANG": "C", "TERM": "xterm", "SHLVL": "1", "USER": "me", "EDITOR": "vi",
        "CI": "1", "ENV": "test", "IMAGE": "python:3.12", "PARALLEL": "8", "JOBS": "2", "VIM": "1", "SPEED": "1",
        "DEBUG": "1", "CPU": "1", "NULL": "0", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "2", "DEB": "x",
        "CUDA": "/usr/local/cuda", "JIT": "on", "BEAMS": "wide", "DEVICE": "1", "_": "/bin/python", "debg": "1",
        "TINYGRAFT_REQUIRE": "cc", "GPU": "0", "TINYGRAFT_CACHE": "/tmp", "DEV": "CPU", "NV": "/opt", "PWD": "/",
    }  # fmt: skip
    assert said(**usual) == []
    assert said(VIZZ="1") != []


def test_strict_makes_them_errors() -> None:
    """TINYGRAFT_STRICT=1; without it a warning at the user's line."""
    with Context(TINYGRAFT_STRICT=1), pytest.raises(SettingError, match="STRICT=1 does not allow this: BEM=1 changes"):
        check_environment(NAMES, {"BEM": "1"})
    with pytest.warns(SettingWarning, match=r"did you mean BEAM\? \(TINYGRAFT_STRICT=1 makes this an error\)") as found:
        check_environment(NAMES, {"BEM": "1"})
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_environment(NAMES, {"BEAM": "1"})


@pytest.mark.parametrize("strict", ["0", "1"])
def test_a_process_warns_once_before_its_first_device(strict: str) -> None:
    """Two tensors, two devices: one warning, at the line that opens the first; with strict an error, each time."""
    script = (
        "from tinygraft import Tensor\n"
        "for device in ('PYTHON', 'PYTHON', 'PYTHON:1'):\n"
        "    try:\n"
        "        print(Tensor([1], device=device).realize().tolist())\n"
        "    except ValueError as error:\n"
        "        print(type(error).__name__)\n"
    )
    environment = {**os.environ, "BEM": "1", "TINYGRAFT_STRICT": strict}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    if strict == "1":
        assert (done.stdout.split(), done.stderr) == (["SettingError"] * 3, "")
    else:
        assert done.stdout.splitlines() == ["[1]"] * 3
        assert done.stderr.count("SettingWarning: BEM=1 changes nothing") == 1
        assert done.stderr.startswith("<string>:4: ")


def test_one_letter() -> None:
    """Missing, too much, wrong, swapped; not two, not the same, and not the empty word."""
    assert all(is_one_letter_off(name, "BEAM") for name in ("BEM", "BEAMM", "BEAN", "BAEM", "EAM", "XBEAM", "BEMA"))
    assert not any(is_one_letter_off(name, "BEAM") for name in ("BEAM", "BE", "BEAMXX", "MAEB", "", "BXAX"))
