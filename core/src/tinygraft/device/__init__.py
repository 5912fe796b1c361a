"""Devices: the interfaces that plugins implement, the registry that finds and opens them, and their memory.

`Buffer` and `Device` can be imported from here, where scripts look for them; both load when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinygraft.device.buffer import Buffer as Buffer
    from tinygraft.device.registry import Device as Device


def __getattr__(name: str) -> Any:
    if name == "Buffer":
        from tinygraft.device.buffer import Buffer

        return Buffer
    if name == "Device":
        from tinygraft.device.registry import Device

        return Device
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
