"""Which card an ordinal is, of those that a setting allows."""

from __future__ import annotations

import os

import pytest

from tinygraft.config import Setting
from tinygraft.device.driver.driver_cards import (
    CardChoice,
    DriverCard,
    allowed,
    check_process,
    chosen,
    named,
    of_ordinal,
)
from tinygraft.errors import DeviceUnavailable

CARDS = [DriverCard(0, "Fast 100", "GPU-aa11", None), DriverCard(1, "Slow 10", "GPU-ab22", None)]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [("", [0, 1]), ("1", [1]), ("1, 0", [1, 0]), ("gpu-a", [0, 1]), ("GPU-AB", [1]), ("slow,slow", [1]), ("2", [])],
)
def test_cards_are_called_by_number_uuid_or_name(wanted: str, numbers: list[int]) -> None:
    """In the order of the setting, each once; a number is never a part of a name."""
    assert [card.number for card in chosen(CARDS, wanted)] == numbers


def test_what_there_is_not_says_what_there_is() -> None:
    """A name that no card has, and an ordinal beyond the last card."""
    with pytest.raises(
        DeviceUnavailable, match=r"no card is called X_DEVICE='odd'; there are: 0: Fast 100 \(GPU-aa11\)"
    ):
        allowed(CARDS, "X_DEVICE", "odd", "")
    with pytest.raises(
        DeviceUnavailable, match="there is no card 2; these are all: 0: Fast 100 .*; 1: Slow 10 .* hidden"
    ):
        of_ordinal(CARDS, 2, " hidden")
    with pytest.raises(DeviceUnavailable, match="there is no card 1; this is the only one: 0: Fast 100"):
        of_ordinal(CARDS[:1], 1, "")
    assert of_ordinal(CARDS, 1, "") is CARDS[1]
    assert named([]) == "none"


class Shows:
    """A started driver with the cards above."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def devices(self) -> list[DriverCard]:
        """All cards."""
        return CARDS


class Named(Setting[str]):
    """A setting that stands for itself alone, in no list."""

    def __init__(self, value: str) -> None:
        self.name, self.text = "X_DEVICE", value

    @property
    def value(self) -> str:
        """What the test says."""
        return self.text


def test_a_choice_has_the_cards_of_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """By ordinal, with what hides others, and named beside each other where there are several."""
    monkeypatch.delenv("X_VISIBLE", raising=False)
    one, both = (CardChoice("X", "the X driver", Named(text), "X_VISIBLE", Shows) for text in ("slow", ""))
    assert one.choose(0) is CARDS[1]
    assert one.about(CARDS[1]) == "Slow 10 (GPU-ab22), "
    assert both.about(CARDS[0]) == ("Fast 100 (GPU-aa11), of the cards 0: Fast 100 (GPU-aa11); 1: Slow 10 (GPU-ab22), ")
    with pytest.raises(DeviceUnavailable, match=r"this is the only one: 0: Slow 10 \(GPU-ab22\)$"):
        one.choose(1)
    monkeypatch.setenv("X_VISIBLE", "1")
    with pytest.raises(DeviceUnavailable, match=r"these are all: .* \(X_VISIBLE='1' may hide others\)$"):
        both.choose(2)


def test_a_driver_works_in_the_process_that_started_it() -> None:
    """In another one the sentence says which driver, and what to do."""
    check_process(os.getpid(), "HIP", "AMD")
    with pytest.raises(DeviceUnavailable) as error:
        check_process(os.getpid() + 1, "HIP", "AMD")
    assert str(error.value) == (
        "HIP was started before this process was forked, and does not work in the child; start worker processes with "
        "the spawn method, or use AMD in the child only"
    )
