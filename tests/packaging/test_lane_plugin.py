"""Lanes of one plugin each: core's wheel and the plugin's, with what they ask for, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import PLUGINS, device_of, driver_of, run, wheel

pytestmark = [pytest.mark.slow, pytest.mark.needs("index", "cc"), pytest.mark.parametrize("plugin", PLUGINS)]
With = Callable[[str, Path], Path]
SUM = "from tinygraft import Tensor; t = Tensor([1, 2, 3]); print(t.device, (t * 2).tolist())"


def test_it_computes_alone(with_plugin: With, tmp_path: Path, plugin: str) -> None:
    """What the plugin asks for is all that it needs: its device is there, is the default, and computes."""
    python, device = with_plugin(plugin, wheel("tinygraft")), device_of(plugin)
    driver = driver_of(plugin)
    found = json.loads(run(python, "-m", "tinygraft", "devices", "--json", cwd=tmp_path, **driver))
    assert {record["name"] for record in found} == {device, "NULL", "PYTHON"}
    assert [record["name"] for record in found if record["default"]] == [device]
    assert run(python, "-c", SUM, cwd=tmp_path, **driver) == f"{device} [2, 4, 6]\n"
    assert "[FAIL]" not in run(python, "-m", "tinygraft", "doctor", device, cwd=tmp_path, **driver)


def test_it_passes_the_kit(conform: Callable[[str, Path], None], plugin: str) -> None:
    """The conformance kit of core's wheel finds no failure."""
    conform(plugin, wheel("tinygraft"))
