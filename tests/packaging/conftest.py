"""Environments of the lanes, each made once: core alone, a plugin with core, all of them together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from packages import EXTRAS, PLUGINS, device_of, driver_of, environment, run, wheel

QUICK = "spec,render,memory"  # levels of the kit that take seconds


@pytest.fixture(scope="session")
def core_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with core's wheel and what that asks for, and nothing else."""
    return environment(tmp_path_factory.mktemp("core") / "venv", wheel("tinygraft"))


@pytest.fixture(scope="session")
def with_plugin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], Path]:
    """Of a plugin's name and a wheel of core: the Python of an environment with both, the kit, and nothing else."""

    @cache
    def make(plugin: str, core: Path) -> Path:
        folder = tmp_path_factory.mktemp(plugin)
        return environment(folder / "venv", f"{core}[conformance]", f"{wheel(plugin)}{EXTRAS.get(plugin, '')}")

    return make


@pytest.fixture(scope="session")
def conform(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, with_plugin: Callable[[str, Path], Path]
) -> Callable[[str, Path], None]:
    """Run the conformance kit on a plugin's device with a wheel of core, once, from a folder with no source of ours."""
    levels = [] if request.config.getoption("--whole") else ["--level", QUICK]

    @cache
    def check(plugin: str, core: Path) -> None:
        command = ["conformance", "--device", device_of(plugin), "--require-device", *levels]
        folder = tmp_path_factory.mktemp("kit")
        run(with_plugin(plugin, core), "-m", "tinygraft", *command, cwd=folder, **driver_of(plugin))

    return check


@pytest.fixture(scope="session")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with core and all that its extra asks for, which our wheels are."""
    plugins = [f"{wheel(plugin)}{EXTRAS.get(plugin, '')}" for plugin in PLUGINS]
    index = [word for plugin in PLUGINS for word in ("--find-links", wheel(plugin).parent)]  # the extra looks there
    core = f"{wheel('tinygraft')}[all]"
    return environment(tmp_path_factory.mktemp("together") / "venv", core, *plugins, *index)
