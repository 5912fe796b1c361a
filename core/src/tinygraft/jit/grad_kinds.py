"""Kinds of calls by the grads that they find: a backward pass is another one where there are some that it adds to.

    key, is_new = kinds.key_of(key)     before a call: the key of its arguments, with a GradKind for all kinds but one
    kinds.note(key, states, records)    after one that was recorded: what it has found

So of several passes that accumulate gradients the first one and the later ones are captured each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tinygraft.jit.filled import GradStates

CallKey = tuple[Any, ...]

# assumed: one that finds no grads, and one for each pass that adds to them in memory of its own
MOST = 8  # kinds of calls with equal arguments; more replace the second one
# assumed: a bound on memory that no usual program meets
SPARE = 64  # kinds of arguments beyond those with records, before what is known of them is forgotten


class GradKind(int):
    """The last part of the key of a call that finds other grads on tensors from outside than the first kind did."""


def arguments_of(key: CallKey) -> CallKey:
    """Return the part of a key that the arguments of a call give."""
    return key[:-1] if key and type(key[-1]) is GradKind else key


def _kind_of(key: CallKey, number: int) -> CallKey:
    """Return the key of calls with arguments of `key` that find the grads of this kind."""
    return (*key, GradKind(number)) if number else key


class GradKinds:
    """The grads that calls have found, by the keys of their arguments."""

    def __init__(self) -> None:
        self._found: dict[CallKey, list[GradStates]] = {}

    def key_of(self, key: CallKey) -> tuple[CallKey, bool]:
        """Return the key of a call with arguments of `key`, and whether no recorded call has found what it finds.

        A new kind is in place of one that cannot come again, if there is such a one: it is compared with its calls.
        """
        found = self._found.get(key)
        if found is None:
            return key, False
        for number, states in enumerate(found):
            if states.hold():
                return _kind_of(key, number), False
        number = next((i for i, states in enumerate(found) if states.is_expired()), len(found))
        return _kind_of(key, 1 if number == MOST else number), True

    def keys(self, key: CallKey) -> Iterator[CallKey]:
        """Yield the keys of all kinds with the arguments of `key`."""
        mine = arguments_of(key)
        for number in range(len(self._found.get(mine, ()))):
            yield _kind_of(mine, number)

    def note(self, key: CallKey, states: GradStates, records: Collection[CallKey]) -> None:
        """Record the grads that a call of the kind `key` has found. `records` are the keys of all recorded calls."""
        mine = arguments_of(key)
        if not states.watches and mine not in self._found:
            return
        found = self._found.setdefault(mine, [])
        number = int(key[-1]) if mine is not key else 0
        if number <= len(found):  # else a call of the function in itself has reset what was known
            found[number : number + 1] = [states]
        if len(self._found) > len(records) + SPARE:  # a record is for what its call has found
            known = {*map(arguments_of, records), mine}
            self._found = {other: all_ for other, all_ in self._found.items() if other in known}
