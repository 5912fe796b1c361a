"""Level spec of the kit: each fault of a declaration is caught by the test that is named after it, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import Distribution
from typing import Any

import pytest

from tinygraft.conformance.levels import spec as level
from tinygraft.conformance.levels.spec import SpecLevel
from tinygraft.conformance.opened import Opened, open_device

Installer = Callable[..., None]
KIT = SpecLevel()


@pytest.fixture
def found(install: Installer) -> Callable[..., Opened]:
    """Install a device and find it as the kit does."""

    def find(**parts: str) -> Opened:
        install("MINI", **parts)
        return open_device("MINI")

    return find


def caught(check: Callable[..., None], *arguments: Any) -> str:
    """What a test of the kit says when it fails."""
    with pytest.raises(AssertionError) as error:
        check(*arguments)
    return str(error.value)


def test_a_range_that_copies_cores_number_is_caught(found: Callable[..., Opened]) -> None:
    """It would accept every core there will ever be: shown by a core that calls its API 999.0."""
    top = "from tinygraft.plugin import PLUGIN_API"
    device = found(top=top, api="ApiRange(PLUGIN_API, (PLUGIN_API[0], PLUGIN_API[1] + 1))")
    said = caught(KIT.test_the_api_range_is_literal, device.record, device.record.spec)
    assert "the range follows core's PLUGIN_API: write numbers" in said


def test_a_range_without_an_end_is_caught(found: Callable[..., Opened]) -> None:
    """Numbers so large that they say nothing."""
    device = found(api="ApiRange((0, 1), (10000, 0))")
    assert "the range has no end: it accepts (999, 0)" in caught(
        KIT.test_the_api_range_is_literal, device.record, device.record.spec
    )


@pytest.mark.parametrize("library", ["numpy", "cffi"])
def test_a_heavy_spec_is_caught(found: Callable[..., Opened], library: str) -> None:
    """A library that the spec imports is named; so is where to import it instead."""
    device = found(top=f"import {library}")
    said = caught(KIT.test_the_spec_imports_nothing_heavy, device.record)
    assert f"the spec imports {library}" in said.replace("_cffi_backend, ", "")
    assert "import that in the backend's module, or in functions" in said


def test_a_light_spec_passes(found: Callable[..., Opened]) -> None:
    """Python's own modules may be imported; and so the whole level passes on a device as it should be."""
    device = found(top="import ctypes, json, sqlite3")
    assert device.record is not None and device.record.spec is not None
    KIT.test_the_spec_imports_nothing_heavy(device.record)
    KIT.test_the_probe_is_quick(device.record)
    KIT.test_the_probe_starts_nothing(device.record)
    KIT.test_only_the_plugin_surface_is_imported(device.record)
    KIT.test_the_distribution_requires_this_core(device.record)


@pytest.mark.parametrize(("old", "new", "why"), [
    ("{module}_device:Backend", "no_such_module:Backend", "there is no module no_such_module"),
    ("{module}_device:Backend", "tinygraft_mini_device:Bakcend", "tinygraft_mini_device has no Bakcend"),
    ("{module}:probe", "tinygraft_mini:__name__", "tinygraft_mini:__name__ cannot be called"),
])  # fmt: skip
def test_a_name_that_resolves_to_nothing_is_caught(found: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch,
                                                   old: str, new: str, why: str) -> None:  # fmt: skip
    """Found without opening the device, so also where there is none."""
    import kit_run

    monkeypatch.setattr(kit_run, "MODULE", kit_run.MODULE.replace(old, new))
    device = found(probe="return Probe(ok=False, detail='none here')")
    assert device.record is not None
    assert why in caught(KIT.test_the_strings_resolve, device.record.spec)


@pytest.mark.parametrize(("code", "name"), [
    ("import tinygraft.uop.ops", "tinygraft.uop.ops"),
    ("from tinygraft.device.registry import Device", "tinygraft.device.registry"),
    ("from tinygraft import Tensor", "tinygraft.Tensor"),
    ("def late():\n    from tinygraft.engine import realize", "tinygraft.engine"),
    ("from tinygraft.plugin.inner import x", "tinygraft.plugin.inner"),
])  # fmt: skip
def test_a_private_import_is_caught(found: Callable[..., Opened], code: str, name: str) -> None:
    """Anywhere in the plugin's files, by their text: it need not run."""
    top = code if code.startswith("def") else f"def never():\n    {code}"
    device = found(top=top)
    said = caught(KIT.test_only_the_plugin_surface_is_imported, device.record)
    assert "import it from tinygraft.plugin: tinygraft_mini.py:" in said
    assert said.splitlines()[0].endswith(f"imports {name}")


def test_what_a_plugin_may_import_passes() -> None:
    """The surface, its own modules, Python and libraries; a distribution of the like name too."""
    allowed = ("tinygraft.plugin", "tinygraft_mini.device", "os.path", "numpy", "tinygraftish")
    assert [level.is_allowed(name) for name in allowed] == [True] * 5


@pytest.mark.parametrize(("requires", "why"), [
    ("", "does not require tinygraft"),
    ("numpy", "does not require tinygraft"),
    ("tinygraft", "requires tinygraft without a lower bound"),
    ("tinygraft<0.2", "requires tinygraft<0.2 without a lower bound"),
    ("tinygraft>=0.1", "requires tinygraft>=0.1 without an upper bound"),
    ("tinygraft!=0.1.5,<0.2", "without a lower bound"),
    ("tinygraft>=7,<8", "requires tinygraft>=7,<8, and this is tinygraft 0.1.0"),
])  # fmt: skip
def test_a_requirement_that_says_too_little_is_caught(found: Callable[..., Opened], requires: str, why: str) -> None:
    """With what to write."""
    device = found(requires=requires)
    said = caught(KIT.test_the_distribution_requires_this_core, device.record)
    assert f"tinygraft-mini 1.0 {why}" in said or why in said
    assert "write dependencies = ['tinygraft>=a.b,<c.d']" in said


@pytest.mark.parametrize(
    "requires", ["tinygraft>=0.1,<0.2", "tinygraft~=0.1.0", "tinygraft==0.1.0", "tinygraft==0.1.*"]
)
def test_a_requirement_with_two_ends_passes(requires: str) -> None:
    """However it is written."""

    class Has(Distribution):
        requires_text = requires

        def read_text(self, filename: str) -> str | None:
            text = f"Metadata-Version: 2.1\nName: x\nVersion: 1\nRequires-Dist: {self.requires_text}\n"
            return text if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            raise NotImplementedError

    assert level.fault_of_requirement(Has()) == ""


@pytest.mark.parametrize(("probe", "why"), [
    ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); {ok}", "1 threads"),
    ("global file; file = open('/dev/zero'); {ok}", "the open file /dev/zero"),
    ("import os; os.environ['MINI_HOME'] = 'x'; {ok}", "the variable MINI_HOME"),
])  # fmt: skip
def test_a_probe_that_leaves_something_is_caught(found: Callable[..., Opened], probe: str, why: str) -> None:
    """A thread, an open file, a changed variable: what a driver that was started leaves."""
    device = found(probe=probe.format(ok="return Probe(ok=True, detail='found')"))
    said = caught(KIT.test_the_probe_starts_nothing, device.record)
    assert f"the probe leaves {why}: look for files and libraries, start no driver" in said


def test_a_slow_probe_is_caught(found: Callable[..., Opened]) -> None:
    """With the seconds that it took at best."""
    device = found(probe="import time; time.sleep(0.25); return Probe(ok=True, detail='found')")
    assert "the probe takes 0.2" in caught(KIT.test_the_probe_is_quick, device.record)


def test_a_probe_of_another_type_is_caught(found: Callable[..., Opened]) -> None:
    """The registry refuses it, the kit says what it gave."""
    device = found(probe="return True")
    assert "the probe returned a bool" in caught(KIT.test_the_probe_is_quick, device.record)
    assert "the probe returned a bool" in caught(KIT.test_the_probe_survives_an_empty_path, device.record)


def test_a_probe_that_needs_a_path_is_caught(found: Callable[..., Opened]) -> None:
    """Its traceback is quoted."""
    probe = "import os; os.environ['PATH'][0]; return Probe(ok=True, detail='found')"
    device = found(probe=probe)
    said = caught(KIT.test_the_probe_survives_an_empty_path, device.record)
    assert "loading and probing it in a fresh process failed" in said
    assert "IndexError: string index out of range" in said


@pytest.mark.parametrize("change", ['summary=""', 'summary="two\\nlines"', 'kind="Two words"', "priority=-1",
                                    'settings={"MINI_X": ""}', "settings={1: 'x'}"])  # fmt: skip
def test_a_field_that_says_nothing_is_caught(found: Callable[..., Opened], change: str) -> None:
    """An empty summary, a kind of two words, a negative priority, a setting without a sentence."""
    from dataclasses import replace

    device = found()
    assert device.record is not None and device.record.spec is not None
    KIT.test_the_fields_are_filled(device.record.spec)
    broken = replace(device.record.spec, **eval(f"dict({change})"))
    assert caught(KIT.test_the_fields_are_filled, broken)


def test_names_that_disagree_are_caught(found: Callable[..., Opened]) -> None:
    """The entry point and the spec; the backend and the class that the spec names."""
    from dataclasses import replace

    device = found()
    assert device.record is not None and device.record.spec is not None
    KIT.test_the_names_agree(device.record, device.record.spec)
    KIT.test_the_backend_is_a_backend(device.record.spec, device.backend)
    assert caught(KIT.test_the_names_agree, device.record, replace(device.record.spec, name="Mini"))
    other = replace(device.record.spec, backend="tinygraft.reference.null:NullBackend")
    assert caught(KIT.test_the_backend_is_a_backend, other, device.backend)
