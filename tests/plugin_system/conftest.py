"""Runs of the conformance kit on devices that are installed for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit_run import KitRun, add_plugin
from tinygraft.conformance import DeviceConformance
from tinygraft.device.registry import Device


@pytest.fixture
def install(fakes: Any) -> Iterator[Any]:
    """Install a device, and let the registry see it until the test is over."""
    before = set(Device.opened())

    def add(device: str, **parts: str) -> None:
        add_plugin(fakes, device, **parts)
        Device.refresh()

    yield add
    for name in set(Device.opened()) - before:
        Device._opened.pop(name).close()
    Device.refresh()


@pytest.fixture
def kit(install: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> KitRun:
    """Runs of the kit that see the installed devices."""
    assert DeviceConformance.device == ""  # imports it all, so that a run within this process imports nothing anew
    return KitRun(tmp_path, capsys)
