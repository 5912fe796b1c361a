"""How the tests choose a driver: PoCL, or Intel's runtime where that is installed and PoCL is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import opencl_driver
from tinygraft_opencl import pocl


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Intel's library where it would be installed, on a machine whose processor PoCL does not know."""
    library = tmp_path / "libintelocl.so"
    library.touch()
    monkeypatch.setattr(pocl, "INTEL", library)
    monkeypatch.setenv(opencl_driver.VARIABLE, "")
    monkeypatch.delenv(opencl_driver.VARIABLE)
    monkeypatch.setattr(opencl_driver, "ask", lambda: "PoCL cannot compile for it")
    monkeypatch.setattr(opencl_driver, "_refusals", {})
    return library


def test_intels_runtime_where_pocl_is_refused(refused: Path) -> None:
    """The variable names its library, for this process and those that it starts."""
    opencl_driver.choose()
    assert os.environ[opencl_driver.VARIABLE] == str(refused)


@pytest.mark.usefixtures("refused")
def test_pocl_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set."""
    monkeypatch.setattr(opencl_driver, "ask", lambda: "")
    opencl_driver.choose()
    assert opencl_driver.VARIABLE not in os.environ


def test_nothing_without_intels_runtime(refused: Path) -> None:
    """Tests that need OpenCL are then skipped, or fail where it is required, with the refusal."""
    refused.unlink()
    opencl_driver.choose()
    assert opencl_driver.VARIABLE not in os.environ
    assert opencl_driver.refusal() == "PoCL cannot compile for it"


def test_what_the_user_has_set_stays(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that was chosen is the one that is tested."""
    monkeypatch.setenv(opencl_driver.VARIABLE, "/etc/OpenCL/vendors")
    opencl_driver.choose()
    assert os.environ[opencl_driver.VARIABLE] == "/etc/OpenCL/vendors"
