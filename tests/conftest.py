"""Fixtures of the tests that need more than one package: fake distributions and a registry that sees only them."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinygraft import config
from tinygraft.device.registry import Registry

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
    ) -> str:
        """A distribution that provides device. code is added to a plugin that works, or replaces it with code that
        starts with '#!'. Gives the name of its module."""
        distribution = distribution or f"tinygraft-{device.lower()}"
        module = module or distribution.replace("-", "_")
        text = PLUGIN.format(device=device, module=module, priority=priority, count=count)
        code = textwrap.dedent(code)
        (self.folder / f"{module}.py").write_text(code if code.startswith("#!") else text + code)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(
            f"[tinygraft.devices]\n{device.lower()} = {target or module + ':SPEC'}\n"
        )
        if record:
            (info / "RECORD").write_text(f"{module}.py,sha256={hash(code)},\n")
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
    monkeypatch.setattr(config.CACHEDIR, "_default", str(tmp_path / "cache"))
    yield FakeDistributions(site)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(site)):
            del sys.modules[name]


Setter = Callable[[config.Setting, object], None]


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setter:
    """Set a setting as the environment would have done, for the whole process."""

    def change(which: config.Setting, value: object) -> None:
        monkeypatch.setattr(which, "_default", value)

    return change
