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
def kit(fakes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[KitRun]:
    """Runs of the kit that see the fake distributions."""
    assert DeviceConformance.device == ""  # imports it all, so that a run within this process imports nothing anew
    before = set(Device.opened())
    yield KitRun(tmp_path, capsys)
    for name in set(Device.opened()) - before:
        Device._opened.pop(name).close()
    Device.refresh()


@pytest.fixture
def install(fakes: Any) -> Any:
    """Install a device, and let the registry see it."""

    def add(device: str, **parts: str) -> None:
        add_plugin(fakes, device, **parts)
        Device.refresh()

    return add
