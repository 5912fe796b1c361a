"""DeviceSpec: what a plugin declares about its device, without importing anything heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinygraft.errors import names_fields

# given: the version of tinygraft.plugin, raised when it changes
PLUGIN_API = (0, 1)


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The plugin APIs that a plugin works with: from `min` on, before `below`. Write numbers, not PLUGIN_API.

    >>> ApiRange((0, 1), (0, 2)).accepts((0, 1))
    True
    """

    min: tuple[int, int]
    below: tuple[int, int]

    def accepts(self, api: tuple[int, int]) -> bool:
        """Return whether `api` is in the range."""
        return self.min <= api < self.below


UNCOUNTED = -1  # given: no count; a driver knows how many there are, and a probe does not start it


@names_fields
@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe found: whether a device can be used (`ok`), what was found (`detail`), what to do about it (`hint`).

    `count` is how many ordinals exist; None where any number can be opened, as of one that computes in host memory;
    UNCOUNTED where that is known only once one is opened. `warns` is for hardware that is there and cannot be used:
    where another device is then chosen, a warning quotes the detail.
    """

    ok: bool
    detail: str
    hint: str = ""
    count: int | None = 1
    warns: bool = False


@names_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device as its plugin declares it. `probe` and `backend` are "module:name", imported when they are needed.

    `probe` is a function that returns a Probe; it must be quick and must not start a driver. `backend` is a Backend
    class, called with the device's name (CPU:1) and ordinal. `kind` is one of cpu, gpu, accelerator, interpreter.
    Devices of `priority` 0 are never chosen automatically. `settings` are the plugin's own, by name: each is made with
    Setting in the module of the spec, and begins with the device's name and an underscore, or TINYGRAFT_ before that.
    `computes` is False for a device that runs nothing. `offline`, another "module:name", is a function that returns the
    Target and the renderer of a usual device without a driver: kernels can then be rendered and checked on any machine.
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
