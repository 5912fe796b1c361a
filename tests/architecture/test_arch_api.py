"""The plugin API is what api_snapshot.json says: signatures, fields and abstract methods of all that plugins import.

After a change that is meant: raise PLUGIN_API in device/device_spec.py (its second number for what only adds, with a
default; its first for anything else), widen the ranges of the plugins here that still work, and run
`pytest --update-golden`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import tinygraft.plugin
from tinygraft.device.device_spec import PLUGIN_API
from tinygraft.uop.ops import Ops

FILE = Path(__file__).with_name("api_snapshot.json")
GROW = {"Context", "DType", "UOp", "dtypes"}  # users' classes too: what is added there is no promise to plugins
HOW = __doc__.split("\n\n", 1)[1].strip()


def described(thing: Any) -> Any:
    """What of a public thing others rely on, as JSON."""
    if thing is Ops:  # those that a plugin meets: the ops of the tensor graph are core's own affair
        return {"members": sorted(op.name for op in Ops if op >= Ops.PARAM)}
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return {"members": sorted(thing.__members__)}
    if isinstance(thing, type):
        return described_class(thing)
    if callable(thing):
        return signature(thing)
    return type(thing).__name__


def described_class(cls: type) -> dict[str, Any]:
    """Bases, abstract methods, fields with their defaults, and the signatures of public methods."""
    found: dict[str, Any] = {"bases": [base.__name__ for base in cls.__bases__ if base is not object]}
    if abstract := sorted(getattr(cls, "__abstractmethods__", ())):
        found["abstract"] = abstract
    if dataclasses.is_dataclass(cls):
        found["fields"] = [f"{f.name}: {f.type}{'' if is_required(f) else ' = ...'}" for f in dataclasses.fields(cls)]
    methods = {}
    for name, member in vars(cls).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property):
            methods[name] = "property"
        elif isinstance(member, staticmethod | classmethod):
            methods[name] = f"{type(member).__name__} {signature(member.__func__)}"
        elif inspect.isfunction(member) and not (name == "__init__" and dataclasses.is_dataclass(cls)):
            methods[name] = signature(member)
    return found | ({"methods": dict(sorted(methods.items()))} if methods else {})


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def signature(function: Any) -> str:
    """Parameters and result as they are written, each default as three dots: its value is no promise."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "callable"
    parts = [
        p.replace(default=inspect.Parameter.empty if p.default is inspect.Parameter.empty else Dots())
        for p in found.parameters.values()
    ]
    return str(found.replace(parameters=parts))


class Dots:
    """Prints as three dots."""

    def __repr__(self) -> str:
        return "..."


def snapshot() -> dict[str, Any]:
    """The whole API as JSON."""
    names = tinygraft.plugin.__all__
    return {
        "api": list(PLUGIN_API),
        "names": {name: described(getattr(tinygraft.plugin, name)) for name in sorted(names)},
    }


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The names that came, went, or are not what they were."""
    found = []
    for name in sorted({*old, *new}):
        if name not in new:
            found.append(f"{name} is gone")
        elif name not in old:
            found.append(f"{name} is new")
        elif old[name] != new[name] and not (name in GROW and has_grown(old[name], new[name])):
            found.append(f"{name} was {json.dumps(old[name])} and is {json.dumps(new[name])}")
    return found


def has_grown(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a class has all that it had, and more."""
    fields, methods = old.get("fields", []), old.get("methods", {})
    same_methods = all(takes_more(text, new.get("methods", {}).get(name, "")) for name, text in methods.items())
    return same_methods and new.get("fields", [])[: len(fields)] == fields


def takes_more(old: str, new: str) -> bool:
    """Whether a method takes what it took, and perhaps a last parameter more that has a default."""
    taken, gives, result = old.partition(") -> ")
    more = new.removeprefix(taken).removesuffix(gives + result)
    return new == old or (new.startswith(taken) and new.endswith(gives + result) and bool(OPTIONAL.fullmatch(more)))


OPTIONAL = re.compile(r", \w+: '[^']*' = \.\.\.")


def refusal(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What is said of an API that is not the recorded one; empty where it is."""
    found = changes(old["names"], new["names"])
    if not found and old["api"] == new["api"]:
        return ""
    raised = "" if old["api"] != new["api"] else " without another PLUGIN_API"
    return "\n".join([f"the plugin API has changed{raised}:", *[f"  {line}" for line in found], HOW])


def test_the_api_is_what_was_recorded(request: pytest.FixtureRequest) -> None:
    """A change of what plugins import comes with another PLUGIN_API and is recorded; the message says how."""
    new = json.loads(json.dumps(snapshot()))
    old = json.loads(FILE.read_text()) if FILE.exists() else {"api": None, "names": {}}
    if request.config.getoption("--update-golden") and (
        old["api"] != new["api"] or not changes(old["names"], new["names"])
    ):
        FILE.write_text(json.dumps(new, indent=1) + "\n")
        return
    assert not refusal(old, new), refusal(old, new)


def test_a_change_without_a_version_is_refused() -> None:
    """The message names what changed and what to do; another PLUGIN_API asks for the record alone."""
    new = json.loads(json.dumps(snapshot()))
    old = json.loads(json.dumps(new))
    assert refusal(old, new) == ""
    old["names"]["Probe"]["fields"].pop()
    old["names"]["Teleporter"] = "type"
    del old["names"]["Backend"]
    text = refusal(old, new)
    assert text.startswith("the plugin API has changed without another PLUGIN_API:\n  Backend is new\n  Probe was {")
    assert "\n  Teleporter is gone\n" in text
    assert "raise PLUGIN_API in device/device_spec.py" in text
    assert "pytest --update-golden" in text
    old["api"] = [0, 0]
    assert refusal(old, new).startswith("the plugin API has changed:\n")


def test_what_users_have_too_may_grow() -> None:
    """A method of UOp more, or a parameter that can be left out, is no change of the API; one that is gone, or asks for
    something else, is.
    """
    old = snapshot()
    new = json.loads(json.dumps(old))
    new["names"]["UOp"]["methods"]["teleport"] = "(self) -> None"
    assert refusal(old, new) == ""
    bind = old["names"]["UOp"]["methods"]["bind"]
    for more, grown in (
        (", place: 'str' = ...", True),
        (", place: 'str'", False),
        (", a: 'int' = ..., b: 'int'", False),
    ):
        new["names"]["UOp"]["methods"]["bind"] = bind.replace(") ->", f"{more}) ->")
        assert (refusal(old, new) == "") is grown
    new["names"]["UOp"]["methods"]["bind"] = bind
    new["names"]["UOp"]["methods"]["replace"] = "(self) -> None"
    assert "UOp was" in refusal(old, new)
    del new["names"]["UOp"]["methods"]["replace"]
    assert "UOp was" in refusal(old, new)


def test_what_is_required_is_recorded() -> None:
    """The record has the abstract methods and the fields without a default: what an old plugin would lack."""
    names = snapshot()["names"]
    assert names["Allocator"]["abstract"] == ["alloc", "copy_in", "copy_out"]
    assert names["Program"]["abstract"] == ["launch"]
    assert names["Backend"]["abstract"] == ["load"]
    required = [field.split(":")[0] for field in names["DeviceSpec"]["fields"] if not field.endswith("= ...")]
    assert required == ["name", "summary", "api", "kind", "priority", "probe", "backend"]


def test_every_plugin_here_accepts_this_api() -> None:
    """Core's own devices and the plugins of this repository are made for the API that is here."""
    from tinygraft.device.registry import Device

    for record in Device.records():
        if record.distribution.startswith("tinygraft"):
            spec = Device.probe(record.name).spec
            assert spec is not None
            assert spec.api.accepts(PLUGIN_API), record.name
