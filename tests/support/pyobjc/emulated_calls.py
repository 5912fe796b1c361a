"""The form of PyObjC's calls: each method of the emulated Metal has the name, arguments and results that PyObjC's has.

signatures.json has them as pyobjc-framework-Metal 12.2.2 declares them in its metadata. A method that is not there, an
argument of another type, or a result without the error beside it, is an error of the test or of the plugin.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import objc

FACTS = json.loads(Path(__file__).with_name("signatures.json").read_text())
METHODS: dict[str, dict[str, Any]] = FACTS["methods"]
NUMBERS: dict[str, int] = FACTS["numbers"]
# given: what these return is autoreleased
MAKES = ("commandBuffer", "computeCommandEncoder", "blitCommandEncoder", "indirectComputeCommandAtIndex_")
counts: Counter[str] = Counter()  # how often a method was called, by its selector, and other things were done
leaked: list[Any] = []  # what PyObjC retains once more than it releases: it stays until the process ends
refused: dict[str, list[int]] = {}  # by selector: how many calls are let through, and how many are refused then


class EmulatedCallError(AssertionError):
    """A call that PyObjC or Metal would not take: it would end the process, or do nothing."""


class Called:
    """An object of Metal: its methods are checked. Classes whose setters PyObjC needs no metadata for say so."""

    needs_metadata = True

    def __init_subclass__(cls, needs_metadata: bool = True) -> None:
        for name, method in list(vars(cls).items()):
            if callable(method) and not name.startswith("_") and name != "alloc":
                setattr(cls, name, checked(name, method, needs_metadata))


def checked(name: str, method: Callable[..., Any], needs_metadata: bool) -> Callable[..., Any]:
    """A method whose calls are compared with PyObjC's metadata, counted, and refused where a test wants that."""
    selector = name.replace("_", ":")
    facts = METHODS.get(selector)
    if facts is None and needs_metadata:
        raise EmulatedCallError(f"PyObjC's metadata has no method {selector}")

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        check_arguments(selector, facts, arguments)
        if name in MAKES and not objc.depth():
            raise EmulatedCallError(f"{selector} outside of an autorelease pool: what it returns is never released")
        counts[selector] += 1
        outs = sum(form.endswith(":o") for form in facts["arguments"]) if facts else 0
        if (left := refused.get(selector)) is not None:
            if left[0] == 0 and left[1]:
                left[1] -= 1
                return refusal(facts, outs)
            left[0] = max(0, left[0] - 1)
        found = method(self, *arguments[: len(arguments) - outs])
        if outs and not (isinstance(found, tuple) and len(found) == 1 + outs):
            raise EmulatedCallError(f"{selector} returns its result and its error")
        if name.startswith("new") and not is_owned(selector, facts):
            leaked.append(found[0] if outs else found)
        return found

    return call


def is_owned(selector: str, facts: dict[str, Any] | None) -> bool:
    """Whether PyObjC was told that a result is the caller's, as before 12.2.3 it does not know by itself.

    What it is told replaces what it knew, so the types of the arguments have to be there, too.
    """
    said = objc.registered.get(selector)
    if said is None or facts is None:
        return False
    given = [said["arguments"][number + 2] for number in range(len(facts["arguments"]))]
    types = [one["type"] + (b":" + one["type_modifier"] if "type_modifier" in one else b"") for one in given]
    if types != [form.encode() for form in facts["arguments"]]:
        raise EmulatedCallError(f"{selector} is registered with arguments {types}, and has {facts['arguments']}")
    return bool(said["retval"].get("already_retained"))


def refusal(facts: dict[str, Any] | None, outs: int) -> Any:
    """What a method returns that refuses: nil or NO, and an error where it has one."""
    from Foundation import NSError

    nothing = False if facts and facts["result"] == "Z" else None
    return (nothing, NSError("the test refuses this")) if outs else nothing


def check_arguments(selector: str, facts: dict[str, Any] | None, arguments: tuple[Any, ...]) -> None:
    """Raise where PyObjC would raise, or pass on something else than what was meant."""
    if selector.count(":") != len(arguments):
        raise EmulatedCallError(f"{selector} has {selector.count(':')} arguments, got {len(arguments)}")
    if facts is None:
        return
    for form, given in zip(facts["arguments"], arguments, strict=True):
        if not FORMS[form](given):
            raise EmulatedCallError(f"{selector} takes {form}, got {given!r}")


def is_count(given: object) -> bool:
    """Whether that is an unsigned number."""
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 64


def is_object(given: object) -> bool:
    """Whether that is an object of Objective-C, or nil."""
    return given is None or isinstance(given, (Called, str, list)) or type(given).__module__ == "Foundation"


def is_size(given: object) -> bool:
    """Whether that is an MTLSize."""
    return isinstance(given, tuple) and len(given) == 3 and all(map(is_count, given))


FORMS: dict[str, Callable[[Any], bool]] = {
    "Q": is_count,
    "q": lambda given: (
        isinstance(given, int) or is_size(given)
    ),  # of MTLIndirectComputeCommand it stands for a size too
    "@": is_object,
    "Z": lambda given: isinstance(given, bool),
    "^@": lambda given: given is None,
    "^@:o": lambda given: given is None,
    "^v:n": lambda given: isinstance(given, (bytes, bytearray, memoryview)),
    "{MTLSize=QQQ}": is_size,
    "{_NSRange=QQ}": lambda given: isinstance(given, tuple) and len(given) == 2 and all(map(is_count, given)),
}
