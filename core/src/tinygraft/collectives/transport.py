"""Transport: how bytes get from rank to rank, which an engine implements; and Alone, that of a single process.

An engine knows neither dtypes nor sums: both are core's (communicator.py), so that ranks give the same bits on every
engine. Buffers are flat, contiguous NumPy arrays of uint8. They belong to the transfer until its Transfer is complete.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from tinygraft.errors import CollectiveError

Bytes = Any  # a flat, contiguous numpy array of uint8


class DeviceBytes:
    """Memory of a card, by its address: `size` bytes, which a transport that takes such memory passes itself.

    >>> DeviceBytes(4096, 10)[2:5].address
    4098
    """

    def __init__(self, address: int, size: int) -> None:
        self.address: int = address
        self.size: int = size

    def __getitem__(self, part: slice) -> DeviceBytes:
        first, last, _ = part.indices(self.size)
        return DeviceBytes(self.address + first, max(last - first, 0))


CHANNELS = 3  # given: headers, and the two steps that a collective has at most
HEADERS, FIRST, SECOND = range(CHANNELS)


# measured: on 2026-11-24 with MPICH on 2 cores a transfer of 4 MB took 1 ms where tests were separated by sched_yield,
# and 18 ms where they were by sleep(0), which the kernel's timers make 50 us long. assumed: who waits longer than this
# sleeps
YIELDING = 0.1  # seconds
_give_way = getattr(os, "sched_yield", partial(time.sleep, 0))


class Transfer(ABC):
    """A transfer that was started."""

    @abstractmethod
    def test(self) -> bool:
        """Return whether it is complete on this rank, and let it make progress; does not wait.

        After True, what it received can be read and what it sent may be changed. Raises what the engine raises.
        """

    def wait(self, limit: float = 0.0) -> bool:
        """Wait until it is complete, at most `limit` seconds (0: for ever). Returns whether it is."""
        return wait_until(self.test, limit)


class Done(Transfer):
    """A transfer that was complete when it was started."""

    def test(self) -> bool:
        """Return True."""
        return True


def wait_until(condition: Any, limit: float) -> bool:
    """Call `condition` until it returns True, or for `limit` seconds (0: for ever). Returns whether it did.

    The processor is given to others between two calls, and after a while for longer: ranks may share one.
    """
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        if limit and waited > limit:
            return False
        if waited < YIELDING:
            _give_way()
        else:
            time.sleep(min(waited / 100, 0.01))
    return True


class Transport(ABC):
    """The connection of one rank to the others. Every method starts something and returns its Transfer.

    `all_to_all`, `all_gather` and `broadcast` are called by all ranks, in the same order on each channel (0 to
    CHANNELS - 1); transfers of different channels do not wait for each other. `name` is for errors, `local_rank` and
    `local_size` are the number of this rank among those on this machine, and how many those are. `holds_tensors` is
    False where ranks are threads of one process, whose tensors have one lock. `device_memory` is
    the array interface of cards whose memory it takes itself, as a Backend names it: then all methods take DeviceBytes
    for Bytes, too, which have been computed when they are called.
    """

    name: str = ""
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    holds_tensors: bool = True
    device_memory: str = ""

    @abstractmethod
    def all_to_all(
        self, send: Bytes, send_counts: Sequence[int], receive: Bytes, receive_counts: Sequence[int], channel: int
    ) -> Transfer:
        """Send to rank r its part of `send`, and put what rank r sent into its part of `receive`.

        Parts follow each other in the order of the ranks; the counts are their sizes in bytes, and may be 0. Where the
        own one of `receive_counts` is 0 what this rank has for itself stays where it is, whatever its size.
        """

    @abstractmethod
    def all_gather(self, part: Bytes, whole: Bytes, counts: Sequence[int], channel: int) -> Transfer:
        """Put the `part` of every rank into `whole`, in the order of the ranks; `counts` are their sizes in bytes.

        `part` may be where it belongs in `whole`.
        """

    @abstractmethod
    def broadcast(self, data: Bytes, root: int, channel: int) -> Transfer:
        """Fill `data` on every rank with that of rank `root`."""

    @abstractmethod
    def send(self, data: Bytes, target: int) -> Transfer:
        """Send bytes to one rank. Those between two ranks arrive in the order in which they were sent."""

    @abstractmethod
    def receive(self, data: Bytes, source: int) -> Transfer:
        """Fill `data` with what rank `source` sends next, which has its size."""

    def announce(self, note: bytes) -> None:
        """Let all other ranks know what this one waits for, "" for nothing, without waiting. Default: nothing."""

    def announced(self) -> dict[int, bytes] | None:
        """Return what other ranks announced last, by their numbers; None, the default, where they do not."""
        return None

    def abort(self, message: str) -> None:
        """End all ranks at once, after `message` was printed. Default: end this process."""
        raise SystemExit(message)

    def close(self) -> None:
        """End the connection; all ranks call it. Default: nothing."""

    def about(self) -> str:
        """Return in a few words what this is, for `doctor`."""
        return self.name


class ChildOfRank(Transport):
    """The transport of a process that a rank has started, such as a worker: it has that rank's numbers and is none."""

    name = "a process that a rank started"

    def __init__(self, rank: int, size: int, local_rank: int, local_size: int) -> None:
        self.rank: int = rank
        self.size: int = size
        self.local_rank: int = local_rank
        self.local_size: int = local_size

    def _refuse(self) -> Transfer:
        """Raise CollectiveError: only the ranks call collectives."""
        raise CollectiveError(
            f"this process was started by rank {self.rank}, and is no rank itself: collectives are called by "
            "ranks, and not by their workers"
        )

    def all_to_all(
        self, send: Bytes, send_counts: Sequence[int], receive: Bytes, receive_counts: Sequence[int], channel: int
    ) -> Transfer:
        """Raise CollectiveError."""
        return self._refuse()

    def all_gather(self, part: Bytes, whole: Bytes, counts: Sequence[int], channel: int) -> Transfer:
        """Raise CollectiveError."""
        return self._refuse()

    def broadcast(self, data: Bytes, root: int, channel: int) -> Transfer:
        """Raise CollectiveError."""
        return self._refuse()

    def send(self, data: Bytes, target: int) -> Transfer:
        """Raise CollectiveError."""
        return self._refuse()

    def receive(self, data: Bytes, source: int) -> Transfer:
        """Raise CollectiveError."""
        return self._refuse()


class Alone(Transport):
    """The transport of a program that was started as one process: every collective is a copy, or nothing.

    >>> import numpy as np
    >>> whole = np.zeros(2, np.uint8)
    >>> Alone().all_gather(np.array([1, 2], np.uint8), whole, [2], 0).test(), whole.tolist()
    (True, [1, 2])
    """

    name = "one process"

    def __init__(self) -> None:
        self._sent: list[Bytes] = []

    def all_to_all(
        self, send: Bytes, send_counts: Sequence[int], receive: Bytes, receive_counts: Sequence[int], channel: int
    ) -> Transfer:
        """Copy `send` to `receive`, unless nothing is wanted of it."""
        receive[:] = send[: receive.size]
        return Done()

    def all_gather(self, part: Bytes, whole: Bytes, counts: Sequence[int], channel: int) -> Transfer:
        """Copy `part` to `whole`."""
        whole[:] = part
        return Done()

    def broadcast(self, data: Bytes, root: int, channel: int) -> Transfer:
        """Do nothing."""
        return Done()

    def send(self, data: Bytes, target: int) -> Transfer:
        """Keep the bytes until they are received."""
        self._sent.append(data.copy())
        return Done()

    def receive(self, data: Bytes, source: int) -> Transfer:
        """Return bytes that were sent before. Raises CollectiveError where there are none."""
        if not self._sent:
            raise CollectiveError("rank 0 receives what it has not sent, which would never come")
        data[:] = self._sent.pop(0)
        return Done()
