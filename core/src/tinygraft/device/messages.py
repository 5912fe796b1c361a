"""The sentences about devices that cannot be used: one text for each of not installed, disabled, ambiguous, broken,
invalid, incompatible, unavailable and failed to open. Each quotes the record, so that an error names the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tinygraft.device.known import ALSO_CALLED, FIRST_CHOICE, INTERPRETER, NAMES, how_to_install
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.dtype import BY_NAME, MEANT, to_dtype
from tinygraft.errors import DTypeError, closest
from tinygraft.installed.records import Status

_METHODS = {
    "float16": "half",
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long",
    "int16": "short",
}
_METHOD_NAMES = {*_METHODS.values(), "bfloat16", "bool"}  # methods of Tensor
SENTENCES = {
    Status.DISABLED: "is installed ({by}) but switched off",
    Status.AMBIGUOUS: "is ambiguous",
    Status.BROKEN: "is installed ({by}) but could not be loaded",
    Status.INVALID: "is installed ({by}) but is not a proper plugin",
    Status.INCOMPATIBLE: "is installed ({by}) but does not fit this version of tinygraft",
    Status.UNAVAILABLE: "is installed ({by}) but there is none here",
    Status.FAILED: "is installed ({by}) but could not be opened",
}


def why(record: PluginRecord) -> str:
    """Return why the device of a record cannot be used, in one line."""
    return f"{record.name} {SENTENCES[record.status].format(by=record.provided_by)}: {record.detail}"


def unusable(name: str, record: PluginRecord, installed: Iterable[str]) -> str:
    """Return the whole message for a device that was requested and cannot be used."""
    lines = [f"{name} {SENTENCES[record.status].format(by=record.provided_by)}:", f"  {record.detail}"]
    if record.hint:
        lines.append(f"  fix: {record.hint}")
    base = name.partition(":")[0]
    verbose = "-v " if record.traceback and record.hint else ""
    lines.append(f"  installed: {_listed(installed)}      details: python -m tinygraft doctor {verbose}{base}")
    return "\n".join(lines)


def not_installed(name: str, installed: Iterable[str]) -> str:
    """Return the message for a device that no distribution provides, with the closest name or how to install it."""
    if name in NAMES:
        return f"{name} is not installed (installed: {_listed(installed)}); {how_to_install(name)}"
    names = sorted({*installed, *NAMES})
    meant = ALSO_CALLED.get(name, "") or closest(name, names)
    hint = f" Did you mean {meant}?"
    if not meant:
        command = f"python -m tinygraft new-plugin {_base(name)}"
        hint = f"\n  hint: a device is a package that pip installs; {command} writes one"
    return f"no plugin provides a device {name} (installed: {_listed(installed)}).{hint}"


def is_a_file(name: str) -> str:
    """Return the hint for the device of a file, "disk:/path" or "disk:path" as tinygrad writes it; "" for another.

    >>> is_a_file("disk:/tmp/f16").splitlines()[1].strip()
    "hint: a file is no device: nn.state.safe_save writes one, Tensor(Path('/tmp/f16')) reads it"
    """
    base, colon, path = name.strip().partition(":")
    if base.lower() != "disk" or not colon:
        return ""
    return f"\n  hint: a file is no device: nn.state.safe_save writes one, Tensor(Path({path!r})) reads it"


def is_a_dtype(name: str) -> str:
    """Return the message for a dtype where a device is asked for, as to() of PyTorch takes both; "" for another name.

    >>> is_a_dtype("float16").splitlines()[1].strip()
    "hint: cast('float16'), or half(), gives another dtype"
    """
    written = name.strip().lower()
    written = MEANT.get(written, written)
    if written not in BY_NAME:
        return ""
    method = _METHODS.get(written, written)
    also = f", or {method}()," if method in _METHOD_NAMES else ""
    return f"a device is named here, and {name!r} is a dtype\n  hint: cast({written!r}){also} gives another dtype"


def not_a_name(device: object) -> str:
    """Return a hint about something else than a name where a device is asked for; "" where nothing is known of it."""
    if type(device).__name__ == "device":  # PyTorch's
        return f"\n  hint: to({str(device)!r})"
    if isinstance(device, int):
        return ""
    try:
        return f"\n  hint: cast({to_dtype(device)!r}) gives another dtype"  # type: ignore[arg-type]
    except DTypeError:
        return ""


def _base(name: str) -> str:
    """Return the name that a project for device `name` would have: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.partition(":")[0].lower()).strip("-") or "NAME"


def no_such_ordinal(name: str, base: str, count: int) -> str:
    """Return the message for `name`, whose ordinal is past the last of the `count` of device `base`."""
    there = f"there is only {base}" if count == 1 else f"there are {base} and {base}:1 to {base}:{count - 1}"
    return f"{name} does not exist: {there}"


def nothing_to_run_on(problems: Sequence[PluginRecord], unasked: Sequence[str]) -> str:
    """Return the message where the automatic choice found no device. `unasked` are available and have priority 0."""
    if problems:
        why_none = f"none of those {'that are chosen by themselves' if unasked else 'installed'} can be used"
    elif unasked:
        why_none = "nothing that works here is chosen by itself"
    else:
        why_none = "nothing but core's own interpreter is installed, which is never chosen by itself"
    lines = [f"no device to run on: {why_none}", *(f"  {reason}" for reason in _reasons(problems))]
    fixes = [f"set DEV={name}, which works here and has priority 0" for name in unasked[:1]]
    if all(record.name != FIRST_CHOICE for record in problems):
        fixes.append(how_to_install(FIRST_CHOICE))
    fixes.append(f"set DEV={INTERPRETER} to use the interpreter: right, and slow")
    if len(fixes) > 1:
        lines.append(f"  fix: {fixes.pop(0)}")
    return "\n".join([*lines, *(f"  or {fix}" for fix in fixes)])


def passed_over(chosen: str, problems: Sequence[PluginRecord]) -> str:
    """Return the warning of an automatic choice of `chosen` while other plugins have `problems`."""
    names = ",".join(dict.fromkeys(record.name for record in problems))
    return (
        f"using {chosen}; passed over: {'; '.join(_reasons(problems))}. To silence this, set "
        f"DEV={chosen} or TINYGRAFT_DISABLE_PLUGINS={names}; details: python -m tinygraft doctor"
    )


def _reasons(problems: Sequence[PluginRecord]) -> list[str]:
    """Return why each cannot be used, without repetitions: several records of an ambiguous name have one reason."""
    return list(dict.fromkeys(why(record) for record in problems))


def _listed(names: Iterable[str]) -> str:
    """Return names in order with commas; "none" for none."""
    return ", ".join(sorted(names)) or "none"
