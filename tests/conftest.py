"""Fixtures of the tests that need more than one package: fake distributions and a registry that sees only them."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinygraft import config
from tinygraft.device.registry import Device, Registry
from tinygraft.hooks import hookimpl
from tinygraft.hooks.manager import Hooks
from tinygraft.hooks.manager import here as hooks

PLUGIN = """
from tinygraft.plugin import ApiRange, DeviceSpec, Probe
from tinygraft.reference.null import NullBackend

SPEC = DeviceSpec(
    name="{device}", summary="a device of a test", api=ApiRange((0, 1), (0, 2)), kind="accelerator",
    priority={priority}, probe="{module}:probe", backend="{module}:Backend", install_hint="buy a {device}",
)

def probe():
    return Probe(ok=True, detail="found", count={count})

class Backend(NullBackend):
    pass
"""


class FakeDistributions:
    """Writes installed distributions into a folder of sys.path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        device: str,
        code: str = "",
        *,
        distribution: str = "",
        version: str = "1.0",
        module: str = "",
        target: str = "",
        priority: int = 50,
        count: int | None = 1,
        record: bool = True,
        requires: str = "",
        entry: str = "",
    ) -> str:
        """A distribution that provides device. code is added to a plugin that works, or replaces it with code that
        starts with '#!'. Gives the name of its module."""
        distribution = distribution or f"tinygraft-{device.lower()}"
        module = module or distribution.replace("-", "_")
        text = PLUGIN.format(device=device, module=module, priority=priority, count=count)
        code = textwrap.dedent(code)
        entries = f"[tinygraft.devices]\n{entry or device.lower()} = {target or module + ':SPEC'}\n"
        return self._write(distribution, version, module, code if code.startswith("#!") else text + code, entries,
                           requires, record)  # fmt: skip

    def add_hooks(self, code: str, *, name: str = "extra", distribution: str = "", version: str = "1.0") -> str:
        """A distribution that provides hooks: a module with code, which has hookimpl and all of tinygraft.plugin.
        Gives the name of its module."""
        distribution = distribution or f"tinygraft-{name}"
        module = distribution.replace("-", "_")
        head = "from tinygraft.plugin import *\nfrom tinygraft.plugin import hookimpl\n"
        entry = f"[tinygraft.hooks]\n{name} = {module}\n"
        return self._write(distribution, version, module, head + textwrap.dedent(code), entry)

    def _write(
        self, distribution: str, version: str, module: str, text: str, entry: str, requires: str = "",
        record: bool = True,
    ) -> str:  # fmt: skip
        (self.folder / f"{module}.py").write_text(text)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n{needs}")
        (info / "entry_points.txt").write_text(entry)
        if record:
            (info / "RECORD").write_text(f"{module}.py,sha256={hash(text)},\n")
        return module

    def registry(self) -> Registry:
        """A registry that sees the distributions of the folder and nothing else."""
        return Registry([str(self.folder)])


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDistributions]:
    """Fake distributions in a folder of their own, with no setting that chooses a device and an empty disk cache."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    for setting in (config.DEV, config.TINYGRAFT_DEVICE, config.TINYGRAFT_PROVIDER, config.TINYGRAFT_DISABLE_PLUGINS):
        monkeypatch.setattr(setting, "_default", "")
    monkeypatch.setattr(config.TINYGRAFT_PLUGINS, "_default", "*")
    for module in ("devices", "doctor"):  # the engine of ranks of the environment is not theirs
        monkeypatch.setattr(f"tinygraft.cli.{module}.collective_engines", list)
    monkeypatch.setattr(config.CACHEDIR, "_default", str(tmp_path / "cache"))
    yield FakeDistributions(site)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(site)):
            del sys.modules[name]
    Device.refresh()  # who looked for devices within the test has found these


@pytest.fixture
def installed_hooks(fakes: FakeDistributions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    """The process-wide hooks, which see the fake distributions and nothing else."""
    hooks.unload()
    monkeypatch.setattr(hooks, "path", [str(fakes.folder)])
    yield hooks
    hooks.unload()


def plain(function: Callable[..., object]) -> Callable[..., object]:
    """A function that can be marked: a built-in one, such as a list's append, cannot."""
    return function if hasattr(function, "__code__") else lambda event: function(event)


@pytest.fixture
def register(installed_hooks: Hooks) -> Iterator[Callable[..., Callable[[], None]]]:
    """Register plugins that are forgotten at the end of the test."""
    undo: list[Callable[[], None]] = []

    def add(**functions: Callable[..., object]) -> Callable[[], None]:
        marked = {f"tinygraft_{name}": staticmethod(hookimpl(plain(f))) for name, f in functions.items()}
        plugin = type("Plugin", (), marked)()
        undo.append(installed_hooks.register(plugin, "the plugin"))
        return undo[-1]

    yield add
    for one in undo:
        one()


Setter = Callable[[config.Setting, object], None]


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setter:
    """Set a setting as the environment would have done, for the whole process."""

    def change(which: config.Setting, value: object) -> None:
        monkeypatch.setattr(which, "_default", value)

    return change
