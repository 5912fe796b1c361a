"""Launches that compute again what an earlier realisation of the same call has computed: a replay leaves them out.

    without_repeats(launches, realised, sizes, own, free, results) -> launches

A function that realises its results one by one computes what they share for each of them. A launch is left out where an
earlier one ran the same kernel on the same values, and the memory that has its result then is not written any more: it
is read in place of the own one. What one schedule computes twice is left as it is, since that was decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tinygraft.engine.capture import Recorded


def without_repeats(
    launches: Sequence[Recorded], realised: Sequence[int], sizes: Mapping[int, int], own: AbstractSet[int],
    free: AbstractSet[int], results: AbstractSet[int],
) -> list[Recorded]:  # fmt: skip
    """Return the launches, without those that compute again what another realisation has computed.

    `realised` has the number of the realisation of each launch, `sizes` how many bytes each id has. `own` are the ids
    of the memory that the call made, without data from Python; of these `free` are its temporaries and `results` the
    memory of its result.
    """
    repeats = _Repeats(launches, sizes, own, free, results)
    for launch, number in zip(launches, realised, strict=True):
        repeats.add(launch, number)
    return repeats.needed()


class _Repeats:
    """The launches that are needed so far, and which memory has which value.

    A value is a number for each launch and slot, equal where kernel and operands are. Memory from outside may be one
    under two ids, so a write to some of it counts as one to all of it.
    """

    def __init__(
        self, launches: Sequence[Recorded], sizes: Mapping[int, int], own: AbstractSet[int], free: AbstractSet[int],
        results: AbstractSet[int],
    ) -> None:  # fmt: skip
        self.sizes, self.own, self.free, self.results = sizes, own, free, results
        self.last: dict[int, int] = {uid: at for at, launch in enumerate(launches) for uid in launch.written()}
        self.writes: Counter[int] = Counter(uid for launch in launches for uid in launch.written())
        self.kept: list[tuple[Recorded, bool]] = []  # launches, and whether each is a repeat whose result may be needed
        self.at = self.epoch = 0  # launches seen, and those of them that wrote memory from outside
        self.values: dict[int, int] = {}  # of the memory of the call, by id
        self.numbers: dict[Hashable, int] = {}
        self.first: dict[int, tuple[int, int, int]] = {}  # by value: id of the memory, which launch, its realisation
        self.instead: dict[int, int] = {}  # which memory is read in place of another one

    def add(self, launch: Recorded, realisation: int) -> None:
        """Look at the next launch, and keep it unless all that it writes is in memory that stays."""
        at, self.at = self.at, self.at + 1
        stores = frozenset(launch.written())
        uids = tuple([self.instead.get(uid, uid) for uid in launch.uids])
        unlike = at if launch.kernel is not None and launch.kernel.on_host else None  # ranks wait for each other in it
        key = launch.kernel, launch.device, unlike, tuple([self._value_of(uid, uid in stores) for uid in uids])
        new = {uid: self._number((key, uids.index(uid))) for uid in stores}
        twins = [self.first.get(value) for value in new.values()]
        again = (
            bool(stores) and self.own >= stores and all(twin is not None and twin[2] != realisation for twin in twins)
        )
        if again and all(
            twin is not None and self._replaces(twin, uid, at) for uid, twin in zip(new, twins, strict=True)
        ):
            for uid, twin in zip(new, twins, strict=True):
                assert twin is not None
                self._put(uid, twin, new[uid])
            return
        self.kept.append((replace(launch, uids=uids), again))
        for uid, value in new.items():
            self.values[uid] = value
            before = self.first.get(value)
            if uid in self.own and (before is None or self.last[before[0]] != before[1]):
                self.first[value] = uid, at, realisation
        self.epoch += not stores <= self.own

    def needed(self) -> list[Recorded]:
        """Return the launches, without the repeats whose results nothing reads any more."""
        read: set[int] = set()
        found: list[Recorded] = []
        for launch, again in reversed(self.kept):
            stores = frozenset(launch.written())
            if again and self.free >= stores and read.isdisjoint(stores):
                continue
            read.update(launch.uids)
            found.append(launch)
        return found[::-1]

    def _value_of(self, uid: int, written: bool) -> Hashable:
        """Return the present value of memory; None for memory of the call that this launch is the first to write.

        What no launch has written, as a part of a file, is as memory from outside.
        """
        if uid in self.own and (written or uid in self.values):
            return self.values.get(uid)
        return uid, self.epoch

    def _number(self, key: Hashable) -> int:
        """Return a number for a value, the same for equal keys."""
        return self.numbers.setdefault(key, len(self.numbers))

    def _replaces(self, twin: tuple[int, int, int], uid: int, at: int) -> bool:
        """Return whether the memory of `twin` can be read in place of `uid`, which launch number `at` writes; or the
        other way round, where `uid` is memory of the result.

        Neither is written later, and both are as large.
        """
        other, written, _ = twin
        if self.last[other] != written or self.last[uid] != at or self.sizes[other] != self.sizes[uid]:
            return False
        if uid in self.free:
            return True
        return uid in self.results and other in self.free and self.writes[other] == self.writes[uid] == 1

    def _put(self, uid: int, twin: tuple[int, int, int], value: int) -> None:
        """Read the memory of `twin` in place of `uid`; where `uid` is memory of the result, `twin` wrote it instead."""
        other, written, realisation = twin
        if uid in self.free:
            self.instead[uid] = other
            return
        self.kept = [
            (replace(each, uids=tuple([uid if one == other else one for one in each.uids])), again)
            if other in each.uids
            else (each, again)
            for each, again in self.kept
        ]
        self.instead = {old: uid if new == other else new for old, new in self.instead.items()} | {other: uid}
        self.values[uid] = value
        self.first[value] = uid, written, realisation
        self.last[uid] = written
