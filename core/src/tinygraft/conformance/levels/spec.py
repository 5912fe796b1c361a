"""Level 0: what a plugin declares. Needs no hardware.

A spec is imported whenever a device is chosen automatically, so the kit requires that it imports nothing heavy, that
its range of plugin APIs is not copied from core, and that its probe is quick and starts nothing.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import Distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from tinygraft.conformance import spec_child
from tinygraft.conformance.gate import needs
from tinygraft.device.device_spec import DeviceSpec
from tinygraft.device.interfaces import Backend
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import resolve
from tinygraft.installed.requires import required, satisfies
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target

ENVIRONMENT = dict(os.environ)  # as it is before a probe runs here, which may change it
FUTURE = (999, 0)  # a plugin API that no plugin can have been made for
QUICK = 0.2  # seconds that importing and calling a probe may take
TRIES = 3  # the shortest of so many times counts, since a machine may be busy
PATIENCE = 120.0  # seconds after which a child process is taken to hang
SURFACE = "tinygraft.plugin"  # all that a plugin may import of core, with what belongs to it
OF_SURFACE = (SURFACE, f"{SURFACE}.driver")


class SpecLevel:
    """Tests of the entry point, the DeviceSpec, the plugin's files and its probe."""

    def test_the_names_agree(self, record: PluginRecord, spec: DeviceSpec) -> None:
        """The spec and its entry point have one name, in capitals in the spec."""
        assert spec.name == record.entry.name.upper()

    def test_the_fields_are_filled(self, spec: DeviceSpec) -> None:
        """The summary is one line, the kind one word, the priority at least 0, and each setting has a text."""
        assert spec.summary.strip() and "\n" not in spec.summary
        assert spec.kind.isalpha() and spec.kind.islower()
        assert spec.priority >= 0
        assert all(isinstance(text, str) and text for pair in spec.settings.items() for text in pair)

    def test_the_api_range_is_literal(self, record: PluginRecord, spec: DeviceSpec) -> None:
        """The range does not change with core's own PLUGIN_API, and ends somewhere: the spec does not copy it."""
        found = child(record, api=FUTURE)["range"]
        assert found == [list(spec.api.min), list(spec.api.below)], "the range follows core's PLUGIN_API: write numbers"
        assert not spec.api.accepts(FUTURE), f"the range has no end: it accepts {FUTURE}"

    def test_the_spec_imports_nothing_heavy(self, record: PluginRecord) -> None:
        """Loading the spec imports modules of the plugin, of core and of Python, and no library."""
        own = record.entry.module.partition(".")[0]
        tops = {name.partition(".")[0] for name in child(record)["modules"]}
        heavy = sorted(tops - sys.stdlib_module_names - {own, CORE})
        assert not heavy, f"the spec imports {', '.join(heavy)}: import that in the backend's module, or in functions"

    def test_the_strings_resolve(self, spec: DeviceSpec) -> None:
        """probe, offline and backend name what they should.

        The backend's module is searched, not imported, since it may import a library that is absent here.
        """
        assert callable(resolve(spec.probe)), f"{spec.probe} cannot be called"
        if spec.offline:
            kinds = tuple(map(type, resolve(spec.offline)()))
            assert len(kinds) == 2 and issubclass(kinds[0], Target) and issubclass(kinds[1], Renderer), (
                f"{spec.offline} returned {', '.join(kind.__name__ for kind in kinds)} and not a Target and a Renderer"
            )
        module, _, name = spec.backend.partition(":")
        found = find_spec(module)
        assert found is not None and found.origin is not None, f"there is no module {module}"
        assert name in top_level_names(Path(found.origin)), f"{module} has no {name}"

    def test_the_backend_is_a_backend(self, spec: DeviceSpec, backend: Backend) -> None:
        """The opened backend is of the class that the spec names."""
        assert isinstance(backend, Backend)
        assert isinstance(backend, resolve(spec.backend))

    @needs("own_distribution")
    def test_only_the_plugin_surface_is_imported(self, record: PluginRecord) -> None:
        """No file of the plugin imports anything of core but tinygraft.plugin, which alone is stable."""
        package = record.entry.module.partition(".")[0]
        found = ((file.name, *one) for file in files_of(package) for one in imports(file))
        wrong = [f"{file}:{line} imports {name}" for file, line, name in found if not is_allowed(name)]
        assert not wrong, f"import it from {SURFACE}: " + "; ".join(wrong)

    @needs("own_distribution")
    def test_the_distribution_requires_this_core(self, record: PluginRecord) -> None:
        """Its metadata bounds core's version on both sides, around the installed one, so that pip reports a misfit."""
        fault = fault_of_requirement(record.entry.dist)
        assert not fault, f"{record.provided_by} {fault}: write dependencies = ['tinygraft>=a.b,<c.d']"

    def test_the_probe_is_quick(self, record: PluginRecord) -> None:
        """In a fresh process, importing and calling it takes at most QUICK seconds, and returns a Probe."""
        seconds: list[float] = []
        while not seconds or (seconds[-1] > QUICK and len(seconds) < TRIES):
            found = child(record, number=len(seconds))
            assert found["is_probe"], f"the probe returned a {found['gave']}"
            seconds.append(found["seconds"])
        assert min(seconds) <= QUICK, f"the probe takes {min(seconds):.2f} s"

    def test_the_probe_starts_nothing(self, record: PluginRecord) -> None:
        """It leaves no thread, no open file and no changed variable: a driver that was started survives no fork."""
        left = child(record)["left"]
        assert not left, f"the probe leaves {', '.join(left)}: look for files and libraries, start no driver"

    def test_the_probe_survives_an_empty_path(self, record: PluginRecord) -> None:
        """Where PATH is empty it returns a Probe, and does not raise."""
        found = child(record, environment=(("PATH", ""),))
        assert found["is_probe"], f"the probe returned a {found['gave']}"


def child(record: PluginRecord, api: tuple[int, ...] = (), environment: tuple[tuple[str, str], ...] = (),
          number: int = 0) -> dict[str, Any]:  # fmt: skip
    """Load a spec and run its probe in a fresh process (conformance/spec_child.py). Returns the answer.

    `api` replaces core's PLUGIN_API there, and leaves the probe out; `environment` replaces variables. Equal calls
    share one process; another `number` starts a new one.
    """
    return _child(record.entry.name, record.entry.value, api, environment, number, tuple(sys.path))


@lru_cache(maxsize=16)
def _child(name: str, value: str, api: tuple[int, ...], environment: tuple[tuple[str, str], ...], number: int,
           path: tuple[str, ...]) -> dict[str, Any]:  # fmt: skip
    """Run `child` with hashable arguments, by which its answers are cached."""
    job = json.dumps({"path": path, "name": name, "value": value, "api": api, "probe": not api})
    done = subprocess.run(
        [sys.executable, "-P", str(Path(spec_child.__file__)), job], capture_output=True, text=True,
        env={**ENVIRONMENT, **dict(environment)}, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"loading and probing it in a fresh process failed:\n{done.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    return found


def top_level_names(file: Path) -> set[str]:
    """Return the names that a module defines or imports, read from its text."""
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def files_of(package: str) -> list[Path]:
    """Return the Python files of an installed package or module."""
    found = find_spec(package)
    assert found is not None, f"there is no package {package}"
    folders = [Path(folder) for folder in found.submodule_search_locations or ()]
    return sorted(file for folder in folders for file in folder.rglob("*.py")) or [Path(str(found.origin))]


def is_allowed(module: str) -> bool:
    """Return whether a plugin may import a module: any but core's own, save tinygraft.plugin."""
    return module.partition(".")[0] != CORE or module in OF_SURFACE


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of each import of a file, also in functions.

    For `from tinygraft import x` the module is tinygraft.x.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == CORE:
            yield from ((node.lineno, f"{CORE}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, str(node.module)


def fault_of_requirement(distribution: Distribution | None) -> str:
    """Return what is wrong with a distribution's requirement of core; empty when nothing is."""
    bounds = required(CORE, distribution.requires or ()) if distribution is not None else None
    if bounds is None:
        return f"does not require {CORE}"
    operators = {bound.operator for bound in SpecifierSet(bounds)}
    if operators.isdisjoint({">", ">=", "==", "===", "~="}):
        return f"requires {CORE}{bounds} without a lower bound"
    if operators.isdisjoint({"<", "<=", "==", "===", "~="}):
        return f"requires {CORE}{bounds} without an upper bound"
    here = version(CORE)
    return "" if satisfies(here, bounds) else f"requires {CORE}{bounds}, and this is {CORE} {here}"
