"""Extra: the tests that hook plugins add to the kit for a device, and the counts of the last run, for `doctor`."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from tinygraft.conformance.levels import LEVELS
from tinygraft.conformance.suite import Suite
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceError
from tinygraft.helpers import cache_folder, write_atomic
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.entries import place_of


def suites(device: str) -> dict[str, type]:
    """Return the test classes that hook plugins contribute for a device, by names that pytest collects.

    Empty without such a plugin, and for a device whose spec cannot be loaded. Raises HookError.
    """
    hooks.load()
    if "conformance_suites" not in hooks.names():
        return {}
    try:
        spec = Device.probe(device).spec
    except DeviceError:
        return {}
    found = hooks.conformance_suites(spec) if spec is not None else []
    return {f"Test{one.__name__}": type(f"Test{one.__name__}", (one, Suite), {"__doc__": one.__doc__}) for one in found}


def store_run(device: str, about: dict[str, Any], counts: dict[str, Counter[str]]) -> None:
    """Store the counts of a run of all levels in the cache folder; do nothing for fewer levels, or without a folder.

    `about` is `Opened.about()`, `counts` are those of the report by level.
    """
    folder = cache_folder()
    if folder is None or not set(LEVELS) <= set(counts):
        return
    distribution, _, version = about["provided_by"].partition(" ")
    name = device.partition(":")[0]
    note = {
        "place": next((place_of(record.entry) for record in Device.records() if record.name == name), ""),
        "distribution": distribution,
        "version": version,
        "api": ".".join(map(str, PLUGIN_API)),
        "when": time.time(),
        "counts": dict(sum(counts.values(), Counter())),
    }
    write_atomic(folder / f"conformance-{name}.json", json.dumps(note).encode())
