"""Which card an ordinal is, of those that a setting allows: by the driver's number, a UUID, or a part of a name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tinygraft.config import Setting
from tinygraft.errors import DeviceUnavailable


@dataclass(frozen=True, slots=True)
class DriverCard:
    """A card as the driver numbers it, with a UUID as the driver's tools show it, and in numbers that kernels use."""

    number: int
    name: str
    uuid: str
    card: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid})"


class ShowsCards(Protocol):
    """A started driver: the process that started it, and all cards that it shows that process."""

    process: int

    def devices(self) -> list[DriverCard]:
        """Return all cards."""


C = TypeVar("C", bound=DriverCard)
D = TypeVar("D", bound=ShowsCards)


@dataclass(frozen=True, slots=True)
class CardChoice(Generic[D]):
    """The cards of a driver that a setting allows, by ordinal.

    `device` is what tinygraft calls them ("CUDA"), `driver` what starts is called at the begin of a sentence ("the CUDA
    driver"), `setting` the plugin's own, `variable` the one of the environment by which the driver itself hides cards.
    `start` starts the driver, in the first process that calls it.
    """

    device: str
    driver: str
    setting: Setting[str]
    variable: str
    start: Callable[[], D]

    def started(self) -> D:
        """Return the driver, started. Raises DeviceUnavailable where there is none, or in a forked child."""
        driver = self.start()
        check_process(driver.process, self.driver, self.device)
        return driver

    def every(self) -> list[DriverCard]:
        """Return the cards by ordinal. Raises DeviceUnavailable, which says which there are, where none is left."""
        return allowed(self.started().devices(), self.setting.name, self.setting.value, self._hidden())

    def choose(self, ordinal: int) -> DriverCard:
        """Return the card of an ordinal. Raises DeviceUnavailable, which says which there are."""
        return of_ordinal(self.every(), ordinal, self._hidden())

    def about(self, card: DriverCard) -> str:
        """Return a card for `doctor`, with all of them where there are several, and a comma and a blank after it."""
        every = self.every()
        return f"{card}, " + (f"of the cards {named(every)}, " if len(every) > 1 else "")

    def _hidden(self) -> str:
        """Return the end of a sentence on what may hide cards; "" where the variable is not set."""
        visible = os.environ.get(self.variable)
        return "" if visible is None else f" ({self.variable}={visible!r} may hide others)"


def check_process(process: int, driver: str, device: str) -> None:
    """Raise DeviceUnavailable where `process` started a driver and this is a fork of it, in which no driver works.

    `driver` begins the sentence ("HIP"), `device` is what tinygraft calls its cards ("AMD").
    """
    if process != os.getpid():
        raise DeviceUnavailable(
            f"{driver} was started before this process was forked, and does not work in the child; start worker "
            f"processes with the spawn method, or use {device} in the child only"
        )


def allowed(cards: Sequence[C], setting: str, wanted: str, hidden: str) -> list[C]:
    """Return the cards by ordinal. Raises DeviceUnavailable, which says which there are, where none is left.

    `hidden` is the end of that sentence, on what hides cards.
    """
    found = chosen(cards, wanted)
    if not found:
        raise DeviceUnavailable(f"no card is called {setting}={wanted!r}; there are: {named(cards)}{hidden}")
    return found


def of_ordinal(found: Sequence[C], ordinal: int, hidden: str) -> C:
    """Return the card of an ordinal. Raises DeviceUnavailable, which says which there are."""
    if ordinal >= len(found):
        raise DeviceUnavailable(
            f"there is no card {ordinal}; {'this is the only one' if len(found) == 1 else 'these are all'}: "
            f"{named(found)}{hidden}"
        )
    return found[ordinal]


def chosen(cards: Sequence[C], wanted: str) -> list[C]:
    """Return the cards that a list of numbers, UUIDs or names allows, in its order; all of them for an empty one.

    >>> cards = [DriverCard(0, "Fast 100", "GPU-aa", None), DriverCard(1, "Slow 10", "GPU-bb", None)]
    >>> [card.number for card in chosen(cards, "slow, 0")], [card.number for card in chosen(cards, "gpu-a")]
    ([1, 0], [0])
    """
    words = [word.strip().lower() for word in wanted.split(",") if word.strip()]
    if not words:
        return list(cards)
    return list(dict.fromkeys(card for word in words for card in cards if is_called(card, word)))


def is_called(card: DriverCard, word: str) -> bool:
    """Return whether a word in lower case is a card's number, the beginning of its UUID or a part of its name.

    A word of digits is compared with the number alone.
    """
    if word.isdecimal():
        return int(word) == card.number
    return card.uuid.lower().startswith(word) or word in card.name.lower()


def named(cards: Sequence[DriverCard]) -> str:
    """Return cards for a message, with their numbers."""
    return "; ".join(f"{number}: {card}" for number, card in enumerate(cards)) or "none"
