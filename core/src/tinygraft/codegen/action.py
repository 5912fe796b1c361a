"""An Action: a transform of a kernel as data, which can be compared, printed and parsed.

    action("vectorise", 1, 8)  <->  "vectorise(1, 8)"

A loop is named by its number among the loops of the kernel before the first action; `split` and `reorder` number the
loops anew. codegen/apply.py applies actions, and documents each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tinygraft.errors import ActionError

WORD = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")


@dataclass(frozen=True, slots=True)
class Action:
    """A transform (name), the loops it is applied to, and amounts: groups of numbers, as rows by columns of a tile.

    >>> str(Action("stage", (1, 2), ((1, 6), (64,), (16,))))
    'stage(1+2, 1x6, 64, 16)'
    """

    name: str
    loops: tuple[int, ...] = ()
    amounts: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        """Return the action as text, which `parse` reads."""
        if not self.loops and not self.amounts:
            return self.name
        groups = ["+".join(map(str, self.loops)), *("x".join(map(str, amount)) for amount in self.amounts)]
        return f"{self.name}({', '.join(groups)})"


def action(name: str, loop: int, *amounts: int) -> Action:
    """Return an action on one loop, with plain numbers as its amounts, each of `amounts` in a group of its own.

    >>> print(action("unroll", 0, 4))
    unroll(0, 4)
    """
    return Action(name, (loop,), tuple((amount,) for amount in amounts))


def plain_numbers(one: Action, count: int) -> tuple[int, ...]:
    """Return the amounts of an action as plain numbers. Raises ActionError unless they are `count`, each at least 0.

    Each has to be a group of its own.

    >>> plain_numbers(action("dot", 2, 0, 1), 2)
    (0, 1)
    """
    flat = tuple(n for amount in one.amounts for n in amount)
    if len(flat) != count or len(one.amounts) != count or min(flat, default=0) < 0:
        raise ActionError(f"{one}: {one.name} takes {count} plain number{'s' * (count != 1)} after its loop")
    return flat


def show(actions: Iterable[Action]) -> str:
    """Return actions as one line of text, separated by commas, which `parse` reads; "" for none."""
    return ", ".join(map(str, actions))


def parse(text: str) -> tuple[Action, ...]:
    """Return the actions of a text, as DEBUG=3 prints them; none for "". Raises ActionError for text that is no action.

    Only the form is checked: whether there is an action of that name, and loops of these numbers, `apply_actions` does.

    >>> parse("vectorise(1, 8), parallel")[0]
    Action(name='vectorise', loops=(1,), amounts=((8,),))
    """
    found: list[Action] = []
    offset = 0
    while offset < len(text):
        match = WORD.match(text, offset)
        if match is None:
            raise ActionError(
                f"cannot read {text[offset:]!r} as an action; actions look like 'vectorise(1, 8), parallel'"
            )
        offset = match.end()
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
