"""Which card an ordinal is, of those that a setting allows: by the driver's number, a UUID, or a part of a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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


C = TypeVar("C", bound=DriverCard)


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
    """Return whether a word in lower case is a card's number, the beginning of its UUID or a part of its name."""
    if word.isdecimal():
        return int(word) == card.number
    return card.uuid.lower().startswith(word) or word in card.name.lower()


def named(cards: Sequence[DriverCard]) -> str:
    """Return cards for a message, with their numbers."""
    return "; ".join(f"{number}: {card}" for number, card in enumerate(cards)) or "none"
