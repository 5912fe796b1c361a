"""One record, one step at a time: import its spec, check it, run its probe, find its backend class.

Whatever a plugin's code does (raise, exit, return nonsense) ends as a status of its record; only KeyboardInterrupt
and the like pass through. Nothing here depends on any other plugin.
"""

from __future__ import annotations

import time

from tinygraft.config import SETTINGS
from tinygraft.device.device_spec import PLUGIN_API, UNCOUNTED, ApiRange, DeviceSpec, Probe
from tinygraft.device.interfaces import Allocator, Backend, Compiler
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.errors import DeviceError, SettingError
from tinygraft.installed.entries import CORE
from tinygraft.installed.records import CHANGE_SETTING, Status, blame, describe, how_to_mend, is_from_index, resolve
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target

STARTED = (Status.DECLARED, Status.LOADED, Status.COMPATIBLE, Status.AVAILABLE, Status.OPEN)


def load(record: PluginRecord) -> bool:
    """Import the spec of a declared record and check it. Returns whether it was loaded and is compatible."""
    if record.status is Status.DECLARED:
        start = time.perf_counter()
        try:
            spec = record.entry.load()
            if callable(spec) and not isinstance(spec, DeviceSpec):
                spec = spec()
        except (Exception, SystemExit) as error:
            blame(record, error)
        else:
            if (fault := _fault_or_error(record.name, spec)) is not None:
                record.move(Status.INVALID, fault, f"tell the authors of {record.provided_by}")
            else:
                record.spec, record.priority = spec, spec.priority
                record.move(Status.LOADED, spec.summary)
                _check_api(record, spec)
        record.milliseconds["load"] = (time.perf_counter() - start) * 1e3
    return record.spec is not None and record.status in STARTED


def probe(record: PluginRecord) -> bool:
    """Load a record and run its probe. Returns whether the device is available."""
    if not load(record):
        return False
    assert record.spec is not None
    if record.status is Status.COMPATIBLE:
        start = time.perf_counter()
        try:
            found = resolve(record.spec.probe)()
        except (Exception, SystemExit) as error:
            blame(record, error, "its probe failed: ", record.spec.probe)
        else:
            note_probe(record, found)
        record.milliseconds["probe"] = (time.perf_counter() - start) * 1e3
    return record.status in (Status.AVAILABLE, Status.OPEN)


def note_probe(record: PluginRecord, found: object) -> None:
    """Set the status of `record`, with a reason, by what its probe returned; store a sound Probe in `record.probe`.

    It is available or unavailable by `found.ok`. It is invalid, and not stored, where `found` is no Probe or has a bad
    field: a text that is no str, a count that is no number of devices, or a count of 0 though one is available.
    """
    if not isinstance(found, Probe) or (fault := _fault_of_probe(found)):
        what = f"gave a {type(found).__name__}, not a Probe" if not isinstance(found, Probe) else fault
        path = record.spec.probe if record.spec is not None else ""
        record.move(Status.INVALID, f"its probe {path} {what}", f"tell the authors of {record.provided_by}")
        return
    record.probe = found
    if found.ok:
        record.move(Status.AVAILABLE, found.detail)
    else:
        hint = found.hint or (record.spec.install_hint if record.spec else "")
        record.move(Status.UNAVAILABLE, found.detail, hint)


def _fault_of_probe(found: Probe) -> str:
    """Return what is wrong with the fields of a Probe; empty when nothing is."""
    if not isinstance(found.detail, str) or not isinstance(found.hint, str):
        return f"gave words that are no text: {found!r}"
    if found.count in (None, UNCOUNTED):
        return ""
    if not isinstance(found.count, int) or found.count < found.ok:
        return f"gave {found.count!r} as the number of devices"
    return ""


def fault_of_backend(backend: Backend) -> str:
    """Which part of a backend that was just made is missing or is something else; empty when none is."""
    parts = {"target": Target, "renderer": Renderer, "allocator": Allocator, "compiler": Compiler}
    for name, kind in parts.items():
        found = getattr(backend, name, None)
        if not isinstance(found, kind):
            return f"its backend has {'no' if found is None else f'a {type(found).__name__} as'} {name}"
    return ""


def backend_class(record: PluginRecord) -> type[Backend] | None:
    """Import the Backend class of a record, and return it; None, with the reason in the record, where it has none."""
    assert record.spec is not None
    try:
        found = resolve(record.spec.backend)
    except (Exception, SystemExit) as error:
        blame(record, error, "", record.spec.backend)
        return None
    if isinstance(found, type) and issubclass(found, Backend):
        return found
    record.move(Status.INVALID, f"its backend {record.spec.backend} is no Backend class",
                f"tell the authors of {record.provided_by}")  # fmt: skip
    return None


def why_not_opened(record: PluginRecord, error: BaseException) -> tuple[str, str]:
    """Return (reason, hint) for an exception of a Backend's constructor; a DeviceError says itself what to do."""
    if isinstance(error, DeviceError):
        return " ".join(str(error).split()), ""
    if isinstance(error, SettingError):
        return describe(error), CHANGE_SETTING
    return describe(error), how_to_mend(record, error, *([record.spec.backend] if record.spec is not None else []))


def owns_setting(device: str, setting: str) -> bool:
    """Return whether a setting belongs to a device, by its name.

    >>> owns_setting("TOY", "TOY_SIZE"), owns_setting("TOY", "TINYGRAFT_TOY_SIZE"), owns_setting("TOY", "TOYS_SIZE")
    (True, True, False)
    """
    return setting.removeprefix("TINYGRAFT_").startswith(device + "_")


def _fault_or_error(name: str, spec: object) -> str | None:
    """Return `fault_of_spec`, also where reading an attribute of the spec raises."""
    try:
        return fault_of_spec(name, spec)
    except Exception as error:
        return f"its spec cannot be read: {describe(error)}"


def fault_of_spec(name: str, spec: object) -> str | None:
    """Return what is wrong with the object of an entry point; None when it is a DeviceSpec for `name`."""
    if not isinstance(spec, DeviceSpec):
        return f"its entry point gives a {type(spec).__name__}, not a DeviceSpec"
    if not isinstance(spec.name, str) or spec.name != name:
        return f"its entry point is called {name.lower()}, its spec is for {spec.name!r}"
    if not isinstance(spec.api, ApiRange):
        return f"its api is {spec.api!r}, not an ApiRange"
    for numbers in (spec.api.min, spec.api.below):
        if not isinstance(numbers, tuple) or [type(number) for number in numbers] != [int, int]:
            return f"its api has {numbers!r} where two numbers should be, such as (0, 1)"
    if not isinstance(spec.priority, int):
        return f"its priority is {spec.priority!r}, not an integer"
    for setting in spec.settings:
        if not owns_setting(name, setting):
            return f"its setting {setting} does not begin with {name}_"
        if setting not in SETTINGS:
            return f"its setting {setting} is not made with tinygraft.plugin.Setting"
    for part in ("probe", "backend"):
        path = getattr(spec, part)
        if not isinstance(path, str) or not all(path.partition(":")):
            return f'its {part} is {path!r}, not "module:name"'
    return None


def _check_api(record: PluginRecord, spec: DeviceSpec) -> None:
    """Set the status of a loaded record to compatible, or to incompatible with a hint which side to update."""
    if spec.api.accepts(PLUGIN_API):
        record.move(Status.COMPATIBLE, spec.summary)
        return
    low, below, ours = (".".join(map(str, v)) for v in (spec.api.min, spec.api.below, PLUGIN_API))
    old = CORE if spec.api.min > PLUGIN_API else record.distribution
    detail = f"it works with plugin API >={low},<{below}, and this {CORE} provides {ours}"
    update = f"pip install -U {old}"
    is_known = old == CORE or is_from_index(record)
    record.move(Status.INCOMPATIBLE, detail, update if is_known else "change the api of its spec, and test it anew")
