"""What a rank does that waits for others: it lets them know, so that an error in the end names who did not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygraft.collectives.headers import RankHeader
from tinygraft.collectives.transport import Transport, wait_until
from tinygraft.config import COLLECTIVE_LIMIT
from tinygraft.errors import CollectiveError

SILENT = 1.0  # assumed: seconds that a rank waits before it lets the others know, which costs each a message
MANY = 64  # assumed: more ranks than this let each other know after a quarter of the limit
LATE = 1.5  # assumed: seconds after the limit in which those that wait, too, are heard of: more than SILENT


def wait_for_others(
    transport: Transport, ready: Callable[[], bool], header: RankHeader, peers: Sequence[int] = ()
) -> None:
    """Wait until `ready`, for `peers` or all others. Raises CollectiveError after COLLECTIVE_LIMIT seconds, which says
    for what, and which ranks are not there."""
    limit = COLLECTIVE_LIMIT.value
    silent = min(SILENT, limit / 4) if transport.size <= MANY else limit / 4
    if wait_until(ready, silent):  # for ever where there is no limit
        return
    transport.announce(header.pack())
    if not wait_until(ready, limit - silent) and not wait_until(ready, LATE):
        raise CollectiveError(f"{_waited(transport, header, limit)}{_missing(transport, header, peers)}")
    transport.announce(b"")


def _waited(transport: Transport, header: RankHeader, limit: int) -> str:
    """Return who waited for what, in words."""
    others = f"rank {header.root}" if header.kind == "receive" else "the other ranks"
    number = f", collective number {header.number}" if header.number else ""
    return f"rank {transport.rank} waited {limit} s for {others}: it {header.text()}{number}, and "


def _missing(transport: Transport, header: RankHeader, peers: Sequence[int]) -> str:
    """Return which ranks did not come, and what they wait for instead."""
    told = transport.announced()
    ends = "; COLLECTIVE_LIMIT sets how long"
    if told is None:
        return f"at least one of {transport.size} ranks does not come{ends}"
    waiting = {rank: RankHeader.unpack(data) for rank, data in told.items() if data}
    others = peers or [rank for rank in range(transport.size) if rank != transport.rank]
    gone = [
        rank for rank in others
        if rank not in waiting or not header.number or waiting[rank].number != header.number
    ]  # fmt: skip
    if not gone:
        return f"all ranks have come, but it is not complete{ends}"
    numbers = ", ".join(map(str, gone))
    text = f"rank {numbers} does not come" if len(gone) == 1 else f"ranks {numbers} do not come"
    elsewhere = [f"; rank {rank} waits, too: it {waiting[rank].text()}" for rank in gone if rank in waiting]
    return text + "".join(elsewhere[:4]) + ends
