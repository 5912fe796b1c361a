"""Which card an ordinal is, of those that a setting allows."""

from __future__ import annotations

import pytest

from tinygraft.device.driver.driver_cards import DriverCard, allowed, chosen, named, of_ordinal
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
