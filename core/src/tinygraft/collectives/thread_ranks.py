"""Ranks that are threads of one process: the collectives of a program tried without an engine.

    run_ranks(4, lambda comm: comm.all_reduce(np.arange(3)))     # the four results

Arrays only: the tensors of a process have one lock, which a rank would hold while it waits for the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

from tinygraft.collectives.communicator import Communicator
from tinygraft.collectives.transport import Bytes, Done, Transfer, Transport
from tinygraft.errors import CollectiveError

T = TypeVar("T")
_MESSAGES = -1  # given: the channel of `send` and `receive`, beside those of Transport


class ThreadWorld:
    """What the ranks of one program have in common: parts on their way, by (source, target, channel), in order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()
        self.parts: defaultdict[tuple[int, int, int], deque[Bytes]] = defaultdict(deque)
        self.notes: dict[int, bytes] = {}  # what ranks wait for
        self.failed: str = ""  # the text of the first error of a rank

    def put(self, source: int, target: int, channel: int, part: Bytes) -> None:
        """Let a copy of `part` be on its way from rank `source` to `target`, behind earlier ones of the channel."""
        with self.lock:
            self.parts[source, target, channel].append(part.copy())

    def take(self, source: int, target: int, channel: int) -> Bytes | None:
        """Return the next part; None where it has not come. Raises CollectiveError after a rank has failed."""
        with self.lock:
            if self.failed:
                raise CollectiveError(f"another rank has failed: {self.failed}")
            parts = self.parts[source, target, channel]
            return parts.popleft() if parts else None


class Arrivals(Transfer):
    """Parts that are to come, each with its source and where to put it."""

    transport: ThreadTransport
    channel: int

    def __init__(self, transport: ThreadTransport, channel: int, expected: Sequence[tuple[int, Bytes]]) -> None:
        self.transport, self.channel = transport, channel
        self.expected: deque[tuple[int, Bytes]] = deque(expected)

    def test(self) -> bool:
        """Put down what has come, of earlier transfers of the channel first. Returns whether all has come."""
        waiting = self.transport.arriving[self.channel]
        while waiting and waiting[0].collect():
            waiting.popleft()
        return not self.expected if self.channel != _MESSAGES else self.collect()

    def collect(self) -> bool:
        """Put down the parts that have come, without those of others. Returns whether all have."""
        here = self.transport
        while self.expected:
            source, place = self.expected[0]
            part = here.world.take(source, here.rank, self.channel)
            if part is None:
                return False
            place[:] = part
            self.expected.popleft()
        return True


class ThreadTransport(Transport):
    """The connection of one thread, rank `rank`, to the others of its ThreadWorld."""

    world: ThreadWorld

    name = "threads"
    holds_tensors = False

    def __init__(self, world: ThreadWorld, rank: int) -> None:
        self.world: ThreadWorld = world
        self.rank: int = rank
        self.size: int = world.size
        self.local_rank: int = rank
        self.local_size: int = world.size
        self.arriving: defaultdict[int, deque[Arrivals]] = defaultdict(deque)

    def all_to_all(
        self, send: Bytes, send_counts: Sequence[int], receive: Bytes, receive_counts: Sequence[int], channel: int
    ) -> Transfer:
        """Put a part down for each rank, and collect theirs; for itself none where none is wanted."""
        wanted = [rank for rank in range(self.size) if rank != self.rank or receive_counts[rank]]
        parts, places = _split(send, send_counts), _split(receive, receive_counts)
        for target in wanted:
            self.world.put(self.rank, target, channel, parts[target])
        return self._arrivals(channel, [(source, places[source]) for source in wanted])

    def all_gather(self, part: Bytes, whole: Bytes, counts: Sequence[int], channel: int) -> Transfer:
        """Put `part` down for each rank, and return what collects theirs into `whole`; counts are in bytes."""
        for target in range(self.size):
            self.world.put(self.rank, target, channel, part)
        return self._arrivals(channel, list(enumerate(_split(whole, counts))))

    def broadcast(self, data: Bytes, root: int, channel: int) -> Transfer:
        """Put the data down for each rank, on rank `root`; return what collects it."""
        if self.rank == root:
            for target in range(self.size):
                self.world.put(root, target, channel, data)
        return self._arrivals(channel, [(root, data)])

    def send(self, data: Bytes, target: int) -> Transfer:
        """Put the data down for one rank; return a transfer that is complete."""
        self.world.put(self.rank, target, _MESSAGES, data)
        return Done()

    def receive(self, data: Bytes, source: int) -> Transfer:
        """Return what collects the next data that rank `source` puts down for this one."""
        return Arrivals(self, _MESSAGES, [(source, data)])

    def announce(self, note: bytes) -> None:
        """Put it down for all."""
        with self.world.lock:
            self.world.notes[self.rank] = note

    def announced(self) -> dict[int, bytes]:
        """Return what the others have put down."""
        with self.world.lock:
            return {rank: note for rank, note in self.world.notes.items() if rank != self.rank}

    def _arrivals(self, channel: int, expected: list[tuple[int, Bytes]]) -> Arrivals:
        """Return the Transfer of parts that are to come, and list it behind earlier ones of its channel."""
        work = Arrivals(self, channel, expected)
        self.arriving[channel].append(work)
        return work


def _split(data: Bytes, counts: Sequence[int]) -> list[Bytes]:
    """Return consecutive parts of `data`, of these sizes."""
    ends = [sum(counts[: rank + 1]) for rank in range(len(counts))]
    return [data[end - count : end] for end, count in zip(ends, counts, strict=True)]


def run_ranks(
    size: int,
    function: Callable[[Communicator], T],
    transport: Callable[[ThreadWorld, int], Transport] = ThreadTransport,
) -> list[T]:
    """Call `function` with the Communicator of each of `size` ranks, in a thread each. Returns the results, by rank.

    Raises what the first rank raised that failed; the others then end, too. Ranks have the settings of the
    caller. `transport` makes that of a rank.

    >>> import numpy as np
    >>> run_ranks(2, lambda comm: comm.all_reduce(np.array([comm.rank + 1])).tolist())
    [[3], [3]]
    """
    world = ThreadWorld(size)
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            communicator = Communicator(transport(world, rank))
            results[rank] = function(communicator)
            communicator.close()
        except BaseException as error:
            with world.lock:
                errors.append(error)
                world.failed = world.failed or f"{type(error).__name__}: {error}"

    # each with the settings of this thread, which are in its context
    threads = [threading.Thread(target=copy_context().run, args=(run, rank), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
