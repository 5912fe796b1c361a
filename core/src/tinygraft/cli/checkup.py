"""What `doctor` does in a child process: one device, step by step down to a computed sum, or one hook plugin.

Each step is reported when it is done: {"ok": True, False or None (not applicable), "text", "hint", "traceback"}. A step
that ends the process is reported by the parent.
"""

from __future__ import annotations

import sys
import time
import traceback as tracebacks
from typing import Any

from tinygraft.config import Context
from tinygraft.device.default_choice import default_request
from tinygraft.device.device_spec import PLUGIN_API, UNCOUNTED
from tinygraft.device.load import load
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.registry import Device
from tinygraft.dtype import dtypes
from tinygraft.errors import TinygraftError
from tinygraft.hooks.hook_trial import load_alone
from tinygraft.hooks.manager import here as hooks
from tinygraft.hooks.requests import STAGES
from tinygraft.installed.child import Tell
from tinygraft.installed.records import Record, Status, blame, describe, place_of_error
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.cstyle_expr import no_word, without_words
from tinygraft.target import Target

STEPS = ("importing its spec", "checking its API", "its probe", "opening it", "computing with it", "closing it")


def step(tell: Tell, ok: bool | None, text: str, hint: str = "", error: BaseException | str | None = None) -> None:
    """Send one line of the report to the parent; `error` is an exception, or a traceback as text."""
    trace = "".join(tracebacks.format_exception(error)) if isinstance(error, BaseException) else error or ""
    tell({"ok": ok, "text": text, "hint": hint, "traceback": trace})


def device(job: dict[str, Any], tell: Tell) -> None:
    """Import the spec of the device in `job`, probe it, open it, compute and close it; stop at the first failure."""
    Device.path = job["search"]
    hooks.load_none()
    name, base = job["device"], job["device"].partition(":")[0]
    try:
        record = next(r for r in Device.records() if r.name == base and r.status is not Status.DISABLED)
        if _spec(record, tell) and _probe(name, tell):
            _open(name, record, tell)
    except KeyboardInterrupt as error:  # raised by the plugin: Ctrl-C does not reach this process
        step(tell, False, describe(error), error=error)


def _spec(record: PluginRecord, tell: Tell) -> bool:
    """Import the spec of a device, and report that and its plugin API. Returns whether it can be used."""
    before = set(sys.modules)
    try:
        load(record)
    except KeyboardInterrupt as error:
        blame(record, error)
    if record.status.is_problem:
        step(tell, False, f"import {record.entry.value}: {record.detail}", record.hint, record.traceback)
        return False
    spec = record.spec
    assert spec is not None
    heavy = _heavy(set(sys.modules) - before, record.entry.module)
    imported = f"spec {record.entry.value} imported in {record.milliseconds['load']:.1f} ms"
    if heavy:
        step(tell, True, f"{imported}, with {', '.join(heavy)}: a spec should import nothing but tinygraft.plugin")
    else:
        step(tell, True, f"{imported}, and nothing heavy with it")
    low, below, ours = (".".join(map(str, numbers)) for numbers in (spec.api.min, spec.api.below, PLUGIN_API))
    step(tell, True, f"plugin API {low} to below {below}; here is {ours}")
    return True


def _heavy(loaded: set[str], module: str) -> list[str]:
    """Return the packages of modules that belong neither to Python, nor to core, nor to the plugin."""
    own = {module.partition(".")[0], __name__.partition(".")[0]}
    return sorted({name.partition(".")[0] for name in loaded} - own - sys.stdlib_module_names)


def _probe(name: str, tell: Tell) -> bool:
    """Probe a device and report the result. Returns whether it is available."""
    record = Device.probe(name)
    if record.status is Status.UNAVAILABLE:
        step(tell, None, f"none here: {record.detail}", record.hint)
        return False
    if record.status.is_problem:
        step(tell, False, record.detail, record.hint, record.traceback)
        return False
    count = record.probe.count if record.probe is not None else 1
    many = {None: "any number of devices", UNCOUNTED: "opening it counts the devices", 1: "1 device"}.get(
        count, f"{count} devices"
    )
    step(tell, True, f"probe in {record.milliseconds['probe']:.1f} ms: {record.detail}; {many}")
    return True


def _open(name: str, record: PluginRecord, tell: Tell) -> None:
    """Open a device, compute with it unless its spec says that it does not compute, close it; report each step."""
    try:
        backend = Device[name]
    except TinygraftError as error:
        detail, hint = (record.detail, record.hint) if record.status.is_problem else (str(error), "")
        step(tell, False, f"opening {name}: {detail}", hint, record.traceback or error)
        return
    step(tell, True, f"opened {name} in {record.milliseconds['open']:.0f} ms: {_about(backend.target)}")
    if about := backend.about():
        step(tell, True, about)
    if isinstance(backend.renderer, CStyleRenderer):  # before a kernel has such an op
        dialect = backend.renderer.dialect
        for op in without_words(backend.target.native_ops, dialect):
            text, _, hint = no_word(op, dialect).partition("\n  hint: ")
            step(tell, False, text, hint)
    if record.spec is not None and not record.spec.computes:
        step(tell, None, "it computes nothing, as its spec says")
    else:
        _compute(name, record, tell)
    Device.close()
    step(tell, True, f"closed {name}")


def _compute(name: str, record: PluginRecord, tell: Tell) -> None:
    """Compute [1, 2, 3] * 2 on a device and report the result; compiled anew, so that its compiler is tried too."""
    from tinygraft.tensor.tensor import Tensor

    start = time.perf_counter()
    try:
        with Context(CACHELEVEL=0):
            found = (Tensor([1, 2, 3], device=name) * 2).tolist()
    except (Exception, SystemExit) as error:
        paths = (record.spec.backend, record.entry.value) if record.spec is not None else ()
        place = place_of_error(error, paths, is_certain=True)
        hint = f"python -m tinygraft conformance --device {name}" + (f"; it was raised in {place}" if place else "")
        step(tell, False, f"[1, 2, 3] * 2: {describe(error)}", hint, error)
        return
    milliseconds = (time.perf_counter() - start) * 1e3
    if found == [2, 4, 6]:
        step(tell, True, f"render, compile, launch: [1, 2, 3] * 2 == {found} in {milliseconds:.0f} ms")
    else:
        hint = f"python -m tinygraft conformance --device {name}"
        step(tell, False, f"[1, 2, 3] * 2 is {found} there, not [2, 4, 6]", hint)


def _about(target: Target) -> str:
    """Return a Target in a few words."""
    floats = sorted((d for d in target.compute_dtypes if dtypes.is_float(d)), key=lambda d: (d.itemsize, d.name))
    facts = ["computes with " + " ".join(d.name for d in floats)]
    facts += [f"vectors of {target.vector_bytes} bytes"] if target.vector_bytes else []
    facts += [f"{target.chunks} threads share a kernel"] if target.chunks > 1 else []
    facts += [f"groups of up to {target.block_threads} threads"] if target.block_threads > 1 else []
    facts += [f"{target.shared_memory >> 10} KiB shared"] if target.shared_memory else []
    facts += ["products by " + " ".join(unit.name for unit in target.matrix)] if target.matrix else []
    return ", ".join([*([target.arch] if target.arch else []), *facts])


def hook_plugin(job: dict[str, Any], tell: Tell) -> None:
    """Load one hook plugin, call those contributors that need no program, run its checks, and report each."""
    record, names, plugin = load_alone(job)
    if record.status is not Status.LOADED:
        step(tell, False, f"import {record.entry.value}: {record.detail}", record.hint, record.traceback)
        return
    step(tell, True, f"{record.entry.value} has {', '.join(names)}")
    _passes(plugin, names, tell)
    if "cli" in names:
        registry, failures = plugin.commands()
        for failure in failures:
            step(tell, False, failure, f"tell the authors of {record.provided_by}")
        if registry.commands:
            step(tell, True, f"adds the commands {', '.join(registry.commands)}")
    _choice(plugin, names, tell)
    _checks(record, plugin, tell)


def _passes(plugin: Any, names: list[str], tell: Tell) -> None:
    """Report which codegen passes a hook plugin has for a plain Target, or why that failed.

    `names` are its hooks; nothing is reported where codegen_passes is not one of them.
    """
    if "codegen_passes" not in names:
        return
    try:
        found = [f"{stage} {one.id}" for stage in STAGES for one in plugin.passes(stage, Target())]
    except TinygraftError as error:
        step(tell, False, str(error), error=error)
    else:
        step(tell, True, f"codegen passes for a plain Target: {', '.join(found) or 'none'}")


def _choice(plugin: Any, names: list[str], tell: Tell) -> None:
    """Report the default device that a hook plugin chooses while none has been probed, or why that is no device."""
    if "choose_default" not in names:
        return
    chosen = ""
    try:
        if (found := plugin.choose_default(default_request(Device.records()))) is None:
            step(tell, True, "chooses no default device among those declared")
            return
        chosen = f"{found[1]} chooses {found[0]}: "
        for name in found[0].split(","):
            Device.canonicalize(name)
    except TinygraftError as error:
        step(tell, False, f"{chosen}{error}", error=error)
    else:
        step(tell, True, f"chooses {found[0]} as the default device")


def _checks(record: Record, plugin: Any, tell: Tell) -> None:
    """Run the `doctor_checks` of a hook plugin and report what each of them returns or raises."""
    try:
        checks = plugin.doctor_checks()
    except TinygraftError as error:
        step(tell, False, str(error), f"tell the authors of {record.provided_by}", error)
        return
    for _, check in checks:
        try:
            result = check.run()
        except (Exception, SystemExit) as error:
            step(tell, False, f"{check.name}: {describe(error)}", check.hint, error)
        else:
            step(tell, True, f"{check.name}: {result}")
