"""What a driver's results become, without a driver: errors by what they mean, names by what functions do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tinygraft.device.driver.driver_calls import DriverCalls, DriverFacts
from tinygraft.device.driver.driver_cards import DriverCard
from tinygraft.device.driver.driver_module import refused
from tinygraft.errors import DeviceError, DeviceLostError, DeviceMemoryError, DeviceUnavailable

WORDS = {
    1: ("bad value", "that is no value"),
    2: ("no room", "it is full"),
    7: ("fault", "it is gone"),
    9: ("image", "no"),
}
FACTS = DriverFacts(
    functions={"error_name": "xName", "error_text": "xText", "event_record": "xRecord", "module_load": "xLoad"},
    title="the driver X,", get="install X", find_kernel="look there", shows_use="xtop shows it",
    refuses_image="make it anew", faults=frozenset({7}), passed=frozenset({0, 7}), refused_images=frozenset({9}),
)  # fmt: skip


class Ffi:
    """What is used of cffi's: a holder is a list."""

    NULL = None

    @staticmethod
    def new(_: str) -> list[Any]:
        """Return a place for one value."""
        return [None]

    @staticmethod
    def string(text: str) -> bytes:
        """Return the bytes of a text of C."""
        return text.encode()


def driver() -> DriverCalls:
    """A driver whose function xRecord gives the result that it is called with, and writes that as a number."""

    def say(which: int) -> Any:
        def function(result: int, holder: list[Any]) -> int:
            holder[0] = WORDS[result][which] if result in WORDS else None
            return 0

        return function

    def record(first: Any, *rest: Any) -> int:
        if isinstance(first, list):
            first[0], first = rest[0], 0
        return int(first)

    return DriverCalls(Ffi, SimpleNamespace(xName=say(0), xText=say(1), xRecord=record), FACTS)


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (1, DeviceError, "xRecord: bad value (that is no value)"),
        (2, DeviceMemoryError, "the card has no room: xRecord: no room (it is full)"),
        (
            7,
            DeviceLostError,
            "work that was launched before failed: fault (it is gone), which xRecord found; look there",
        ),
        (5, DeviceError, "xRecord: result 5, which this driver does not explain"),
    ],
)
def test_a_result_is_the_error_that_it_means(result: int, kind: type[Exception], said: str) -> None:
    """No room, a fault, a refusal, and a result that has no words; 0 is none."""
    with pytest.raises(DeviceError) as caught:
        driver().call("event_record", result)
    assert type(caught.value) is kind
    assert str(caught.value) == said
    driver().call("event_record", 0)


def test_functions_are_known_by_what_they_do() -> None:
    """And by a driver's own names; one that is missing is said with what to do."""
    assert driver().number("event_record", 42) == 42
    assert driver().number("xRecord", 43) == 43
    with pytest.raises(DeviceUnavailable, match="the driver X, has no function xLoad; install X"):
        driver().call("module_load")


def test_machine_code_that_is_not_taken_is_named() -> None:
    """The kernel, the card and what to do; another result is its own error."""
    card = DriverCard(0, "Fast 100", "GPU-aa", None)
    assert str(refused(driver(), 9, "E_4", card)) == (
        "the driver X, does not take the machine code of kernel E_4 for Fast 100 (GPU-aa): image (no); make it anew"
    )
    assert isinstance(refused(driver(), 2, "E_4", card), DeviceMemoryError)
