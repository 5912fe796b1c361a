"""Hints for names of other libraries that a tensor does not have: what to use instead."""

from __future__ import annotations

from tinygraft.device.known import NAMES
from tinygraft.device.registry import Device

_INSTEAD = {
    "zero_": "assign(0) writes zeros into this tensor",
    **dict.fromkeys(("fill_", "copy_"), "assign(value) writes a value into this tensor"),
    **dict.fromkeys(("type", "astype"), "cast(dtype) gives another dtype, and dtype is this one"),
}


def hint(name: str, owner: type) -> str:
    """A line to add to the error about a name that owner does not have; empty where there is nothing to say."""
    if name.startswith("_"):
        return ""
    found = _INSTEAD.get(name, "")
    if not found and name.endswith("_") and name[:-1] in dir(owner):
        found = f"assign(t.{name[:-1]}(...)) writes the result into this tensor"
    if not found and (name.upper() in NAMES or any(record.name == name.upper() for record in Device.records())):
        found = "to(NAME) moves it; python -m tinygraft devices lists the names"
    return f"\n  hint: {found}" if found else ""
