"""Lanes of one plugin each, with the oldest core that the plugin's own bounds allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from packages import PLUGINS, bounds, numbers, run, wheel_of_core

# of one plugin here, of all in make long
LANES = [pytest.param(name, marks=[] if name == "tinygraft-cpu" else pytest.mark.long) for name in PLUGINS]
pytestmark = [pytest.mark.slow, pytest.mark.needs("index", "cc"), pytest.mark.parametrize("plugin", LANES)]


def test_it_works_with_the_oldest_core(
    with_plugin: Callable[[str, Path], Path], conform: Callable[[str, Path], None], tmp_path: Path, plugin: str
) -> None:
    """The core of the lower bound is what gets installed, and its conformance kit finds no failure."""
    lowest, _ = bounds(plugin)
    core = wheel_of_core(lowest, tmp_path)
    code = "from importlib.metadata import version; print(version('tinygraft'))"
    assert numbers(run(with_plugin(plugin, core), "-c", code, cwd=tmp_path).strip()) == numbers(lowest)
    conform(plugin, core)
