"""DeviceSpec: what a plugin declares about its device, without importing anything heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# given: the version of tinygraft.plugin, raised when it changes
PLUGIN_API = (0, 1)


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The plugin APIs that a plugin works with: from min, below below. Write literal numbers, never PLUGIN_API.

    >>> ApiRange((0, 1), (0, 2)).accepts((0, 1))
    True
    """

    min: tuple[int, int]
    below: tuple[int, int]

    def accepts(self, api: tuple[int, int]) -> bool:
        """Whether api lies in the range."""
        return self.min <= api < self.below


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a device can be used here: ok, what was found, what to do about it, how many ordinals there are.

    count is None where any number of ordinals can be opened, as of a device that lives in host memory.
    """

    ok: bool
    detail: str
    hint: str = ""
    count: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device as its plugin declares it. probe and backend are "module:name", imported when they are needed.

    probe() -> Probe must be quick and must not start a driver. backend is a Backend class, called with the
    device's name (CPU:1) and ordinal. kind is one of cpu, gpu, accelerator, interpreter. Devices of priority 0
    are never chosen automatically. settings are the plugin's own, by name: each is made with Setting where the spec is,
    and begins with the device's name and an underscore, or TINYGRAFT_ before that. computes is False for a device that
    runs nothing. offline, another "module:name", is a function that gives the Target and the renderer of a usual device
    where there is none: kernels can then be rendered, and held to rules, on any machine. It needs no driver.
    """

    name: str
    summary: str
    api: ApiRange
    kind: str
    priority: int
    probe: str
    backend: str
    install_hint: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    computes: bool = True
    offline: str = ""
