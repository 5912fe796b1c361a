"""Versions, bounds, extras and entry points of the packages fit together; all of it read, nothing built."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import tinygraft
from packages import PACKAGES, PLUGINS, ROOT, bounds, device_of, metadata, numbers
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.device.known import KNOWN

CORE = metadata(PACKAGES["tinygraft"])
EXTRAS = CORE["optional-dependencies"]


def test_versions_agree() -> None:
    """The version of core's metadata is the one that it gives."""
    assert CORE["version"] == tinygraft.__version__


def test_core_asks_for_little() -> None:
    """Core brings its own two devices, and depends on four small libraries, each for a reason given there."""
    assert set(CORE["entry-points"]["tinygraft.devices"]) == {"python", "null"}
    assert [re.match(r"\w+", need)[0] for need in CORE["dependencies"]] == ["numpy", "pluggy", "packaging", "tqdm"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugins_bound_the_core_they_need(plugin: str) -> None:
    """A plugin's bounds hold the core of this tree, with an end, so that pip sees skew."""
    low, below = bounds(plugin)
    assert numbers(low) <= numbers(CORE["version"]) < numbers(below)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugins_declare_this_api_in_numbers(plugin: str) -> None:
    """The ApiRange in a spec's source is made of literal numbers, and holds the plugin API of this tree."""
    (source,) = PACKAGES[plugin].glob("src/*/spec.py")
    (call,) = [
        node
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ApiRange"
    ]
    low, below = (ast.literal_eval(a) for a in [*call.args, *(keyword.value for keyword in call.keywords)])
    assert low <= PLUGIN_API < below


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_is_found_where_core_says(plugin: str) -> None:
    """The folder, the distribution, the entry point and core's table of what to install name one device."""
    device = device_of(plugin)
    assert KNOWN[device] == (plugin, PACKAGES[plugin].relative_to(ROOT).as_posix())
    module = plugin.replace("-", "_")
    assert metadata(PACKAGES[plugin])["entry-points"]["tinygraft.devices"] == {device.lower(): f"{module}.spec:SPEC"}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_core_has_an_extra_for_each_plugin(plugin: str) -> None:
    """`pip install tinygraft[cpu]` asks for the plugin, within bounds that hold the one of this tree; [all] for all."""
    extra = device_of(plugin).lower()
    found = re.fullmatch(rf"{plugin}>=([\d.]+),<([\d.]+)", EXTRAS[extra][0])
    assert found
    assert numbers(found[1]) <= numbers(metadata(PACKAGES[plugin])["version"]) < numbers(found[2])
    assert extra in EXTRAS["all"][0].removeprefix("tinygraft[").removesuffix("]").split(",")


def test_every_extra_has_a_meaning() -> None:
    """An extra is a device of the table, all, the engine of ranks, what the kit or a command needs, or a library."""
    devices = set(EXTRAS) - {"all", "conformance", "onnx", "gguf", "einops", "completion", "mpi"}
    assert {device.upper() for device in devices} == set(KNOWN)
    assert EXTRAS["all"] == [f"tinygraft[{','.join(sorted(devices))}]"]
    assert EXTRAS["conformance"] == ["pytest>=8.2"]


def test_the_workspace_lists_its_members() -> None:
    """Every folder with a package is a source of the workspace, and the root is not a package."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert root["tool"]["uv"]["package"] is False
    assert set(root["tool"]["uv"]["sources"]) == set(PACKAGES)


@pytest.mark.parametrize("folder", PACKAGES.values(), ids=lambda folder: folder.name)
def test_every_package_has_the_licence(folder: Path) -> None:
    """The licence file of each package is that of the tree."""
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
