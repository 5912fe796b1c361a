"""An Action: one thing that is done to a kernel, as data that can be compared, written down and read again.

    action("vectorise", 1, 8)  <->  "vectorise(1, 8)"

A loop goes by its number: its place among the loops of the kernel when actions begin, where `split` and `reorder` count
anew. codegen/take.py takes actions; what each of them means stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tinygraft.errors import ActionError

WORD = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Action:
    """What is done (name), to which loops, and how much: groups of numbers, such as rows by columns of a tile.

    >>> str(Action("stage", (1, 2), ((1, 6), (64,), (16,))))
    'stage(1+2, 1x6, 64, 16)'
    """

    name: str
    loops: tuple[int, ...] = ()
    amounts: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        if not self.loops and not self.amounts:
            return self.name
        groups = ["+".join(map(str, self.loops)), *("x".join(map(str, amount)) for amount in self.amounts)]
        return f"{self.name}({', '.join(groups)})"


def action(name: str, loop: int, *amounts: int) -> Action:
    """An action on one loop, with plain numbers.

    >>> print(action("unroll", 0, 4))
    unroll(0, 4)
    """
    return Action(name, (loop,), tuple((amount,) for amount in amounts))


def show(actions: Iterable[Action]) -> str:
    """Actions as one line of text, which `parse` reads."""
    return ", ".join(map(str, actions))


def parse(text: str) -> tuple[Action, ...]:
    """The actions of a text, as DEBUG=3 prints them. Raises ActionError for what is none.

    >>> parse("vectorise(1, 8), parallel")[0]
    Action(name='vectorise', loops=(1,), amounts=((8,),))
    """
    found: list[Action] = []
    place = 0
    while place < len(text):
        match = WORD.match(text, place)
        if match is None:
            raise ActionError(
                f"cannot read {text[place:]!r} as an action; actions look like 'vectorise(1, 8), parallel'"
            )
        place = match.end()
        name, inside = match[1], match[2]
        if inside is None:
            found.append(Action(name))
            continue
        try:
            first, *others = inside.split(",")
            loops = tuple(map(int, first.split("+")))
            found.append(Action(name, loops, tuple(tuple(map(int, part.split("x"))) for part in others)))
        except ValueError:
            raise ActionError(
                f"cannot read {match[0].strip(' ,')!r} as an action; in brackets stand loops, such as 0 or 0+2, "
                "and amounts, such as 8 or 4x2"
            ) from None
    return tuple(found)
