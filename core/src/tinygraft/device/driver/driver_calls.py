"""A driver's library: each of its functions as one that raises our error, and what its words and numbers mean.

The functions are known here by what they do ("event_record"); DriverFacts has the name that each has in a driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tinygraft.errors import DeviceError, DeviceLostError, DeviceMemoryError, DeviceUnavailable, names_fields

BITS = (1 << 64) - 1  # of an argument of a kernel


@names_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """What a driver calls its functions, which numbers its results have, and what its users are told.

    - `functions`: the name of each function, by what it does.
    - `title`: what the driver is called in a message, such as "the driver, for version 13.0,".
    - `get`: what to do where a function is missing.
    - `find_kernel`: what to do to find the kernel that failed.
    - `shows_use`: the sentence on what shows which programs use a device's memory.
    - `refuses_image`: the sentence on what to do where machine code is not taken.
    - `no_room`, `peer_enabled`: the results that say so.
    - `faults`: results after which a device answers nothing else, as what was computed is lost.
    - `passed`: results of a query of an event that say that the work is over, or never will be.
    - `refused_images`: results that say that machine code is not taken.
    """

    functions: Mapping[str, str]
    title: str
    get: str
    find_kernel: str
    shows_use: str
    refuses_image: str
    faults: frozenset[int]
    passed: frozenset[int]
    refused_images: frozenset[int]
    no_room: int = 2
    peer_enabled: int = 704


class DriverCalls:
    """The functions of a driver. `call(what, ...)` raises our error where one fails."""

    facts: DriverFacts
    ffi: Any
    lib: Any

    def __init__(self, ffi: Any, lib: Any, facts: DriverFacts) -> None:
        self.ffi, self.lib, self.facts = ffi, lib, facts
        self.process: int = os.getpid()  # a driver works in the process that started it

    def named(self, what: str) -> str:
        """Return the driver's name of a function."""
        return self.facts.functions.get(what, what)

    def function(self, what: str) -> Callable[..., int]:
        """Return a function that gives its result as a number. Raises DeviceUnavailable where the driver lacks it."""
        name = self.named(what)
        try:
            found: Callable[..., int] = getattr(self.lib, name)
        except AttributeError as error:
            raise DeviceUnavailable(f"{self.facts.title} has no function {name}; {self.facts.get}") from error
        return found

    def call(self, what: str, *arguments: Any) -> None:
        """Call a function. Raises DeviceMemoryError, DeviceLostError or DeviceError where it fails."""
        if result := self.function(what)(*arguments):
            raise self.error(result, self.named(what))

    def error(self, result: int, what: str) -> DeviceError:
        """Return the error for a result of the function `what` that is not 0.

        It is a DeviceMemoryError, DeviceLostError or DeviceError.
        """
        said = f"{what}: {self.words(result)}"
        if result == self.facts.no_room:
            return DeviceMemoryError(f"the card has no room: {said}")
        if result in self.facts.faults:
            found = f"{self.words(result)}, which {what} found"
            return DeviceLostError(f"work that was launched before failed: {found}; {self.facts.find_kernel}")
        return DeviceError(said)

    def words(self, result: int) -> str:
        """Return the name and the driver's sentence of a result."""
        holder, found = self.ffi.new("const char **"), []
        for what in ("error_name", "error_text"):
            if not self.function(what)(result, holder) and holder[0] != self.ffi.NULL:
                found.append(self.ffi.string(holder[0]).decode())
        return f"{found[0]} ({found[1]})" if len(found) == 2 else f"result {result}, which this driver does not explain"

    def number(self, what: str, *arguments: Any) -> int:
        """Return the int that a function writes to its first argument; `arguments` are the others. Raises as `call`."""
        holder = self.ffi.new("int *")
        self.call(what, holder, *arguments)
        return int(holder[0])
