"""Transports of threads with one fault each, which the conformance kit of collectives has to find."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import numpy as np

from tinygraft.collectives import Transfer
from tinygraft.collectives.thread_ranks import Arrivals, ThreadTransport
from tinygraft.errors import CollectiveError

HEADERS = 0  # the channel on which ranks agree: a fault there is a difference of ranks, and not of values


class WrongOrder(ThreadTransport):
    """The parts of two ranks change places in an all_to_all."""

    def all_to_all(self, send, send_counts, receive, receive_counts, channel):
        """Send what rank 1 is to have to rank 0, where both have the same size."""
        if self.size > 1 and send_counts[0] == send_counts[1] and send_counts[0]:
            n = send_counts[0]
            send = np.concatenate([send[n : 2 * n], send[:n], send[2 * n :]])
        return super().all_to_all(send, send_counts, receive, receive_counts, channel)


class DroppedRank(ThreadTransport):
    """The part of the last rank is not gathered."""

    def all_gather(self, part, whole, counts, channel):
        """Gather zeros in place of the last part."""
        gone = self.rank == self.size - 1 and channel != HEADERS
        return super().all_gather(np.zeros_like(part) if gone else part, whole, counts, channel)


class DroppedBroadcast(ThreadTransport):
    """A broadcast leaves what the last rank had."""

    def broadcast(self, data, root, channel):
        """Receive into other memory on the last rank."""
        gone = self.rank == self.size - 1 != root
        return super().broadcast(data.copy() if gone else data, root, channel)


class LateTransfer(Transfer):
    """A transfer that says that it is complete before it is."""

    def __init__(self, real: Arrivals) -> None:
        def later() -> None:
            time.sleep(0.05)
            with suppress(CollectiveError):  # the ranks have ended meanwhile
                real.wait(5)

        threading.Thread(target=later, daemon=True).start()

    def test(self) -> bool:
        """Return True at once."""
        return True


class LateCompletion(ThreadTransport):
    """Transfers between ranks are reported complete while they are on their way."""

    def all_to_all(self, send, send_counts, receive, receive_counts, channel):
        """Complete too early."""
        return LateTransfer(super().all_to_all(send, send_counts, receive, receive_counts, channel))


class WrongDtype(ThreadTransport):
    """Bytes arrive in the order of another machine, in pairs."""

    def all_gather(self, part, whole, counts, channel):
        """Gather each part with its bytes in swapped pairs."""
        if channel != HEADERS and part.size % 4 == 0:
            part = part.reshape(-1, 2)[:, ::-1].reshape(-1).copy()
        return super().all_gather(part, whole, counts, channel)


class LostMessage(ThreadTransport):
    """Of messages between two ranks the last byte is lost."""

    def send(self, data, target):
        """Send a zero as the last byte of long messages."""
        data = data.copy()
        if data.size > 1000:
            data[-1] ^= 1
        return super().send(data, target)


MUTANTS = (WrongOrder, DroppedRank, DroppedBroadcast, LateCompletion, WrongDtype, LostMessage)
