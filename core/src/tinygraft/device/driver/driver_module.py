"""A kernel that a driver has loaded, with room for the arguments of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.device.driver.driver_calls import BITS, DriverCalls
from tinygraft.device.driver.driver_cards import DriverCard
from tinygraft.errors import DeviceError

DYNAMIC_SHARED = 8  # given: of a function: the most shared memory that a launch may ask for


class DriverModule:
    """A loaded kernel, in a DriverContext.

    One thread at a time fills its arguments, which the driver copies at a launch.
    """

    name: str
    context: Any
    handle: Any
    function: Any

    def __init__(self, context: Any, name: str, image: bytes, shared: int) -> None:
        self.context, self.name = context, name
        self.handle = None
        driver, ffi = context.driver, context.ffi
        module, function = ffi.new("void **"), ffi.new("void **")
        with context.current():
            result = driver.function("module_load")(module, image)
            if result:
                raise refused(driver, result, name, context.device)
            self.handle = context.own("module_free", module[0])
            driver.call("module_function", function, module[0], name.encode())
            self.function = function[0]
            if shared:
                driver.call("function_set", self.function, DYNAMIC_SHARED, shared)
        self._words: Any = None
        self._pointers: Any = None

    def filled(self, words: Sequence[int]) -> Any:
        """Return the arguments of a launch, as pointers to their values: `words` cut to 64 bits."""
        if self._words is None:
            ffi = self.context.ffi
            self._words = ffi.new("unsigned long long[]", max(len(words), 1))
            self._pointers = ffi.new("void *[]", [self._words + i for i in range(max(len(words), 1))])
        for i, word in enumerate(words):
            self._words[i] = word & BITS  # of a negative number those that it has
        return self._pointers

    def __del__(self) -> None:
        if self.handle is not None:
            self.context.leave("module_free", self.handle)


def refused(driver: DriverCalls, result: int, name: str, device: DriverCard) -> DeviceError:
    """Return the error for an image that the driver does not take: of another architecture, or what `result` says."""
    if result not in driver.facts.refused_images:
        return driver.error(result, driver.named("module_load"))
    return DeviceError(
        f"{driver.facts.title} does not take the machine code of kernel {name} for {device}: "
        f"{driver.words(result)}; {driver.facts.refuses_image}"
    )
