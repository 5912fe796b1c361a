"""Memory for the values in between: parts of one block for each device, or of results that are not written yet.

give_places is called before a schedule runs and give_back after it, with what give_places gave.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.pool import pool_of
from tinygraft.dtype import dtypes
from tinygraft.schedule.memory import ARENA, HasBuffers, Life, lifetimes, place
from tinygraft.schedule.proof import BufferUse, ByteRange, check_places
from tinygraft.uop.uop import UOp

# assumed: never measured
SPARE = 64 << 10  # bytes of a result that is worth looking at


class Writes(HasBuffers, Protocol):
    """A call that says which of its buffers it writes."""

    @property
    def written(self) -> Collection[int]:
        """Their slots."""


def give_places(calls: Sequence[Writes], kept: Collection[UOp]) -> list[Buffer]:
    """Let the buffers of calls that are not kept share memory, until give_back; those buffers."""
    if len(calls) < 2:
        return []
    temporary: dict[UOp, Buffer] = {}
    lives: list[Life] = []
    results: dict[UOp, Buffer] = {}
    spare: list[Life] = []
    for node, life in lifetimes(calls).items():
        buffer = buffer_of(node)
        if not buffer.is_allocated():
            if node not in kept:
                temporary[node] = buffer
                lives.append(life)
            elif life.nbytes >= SPARE:
                results[node] = buffer
                spare.append(life)
    lent = list(results.values())
    try:
        where = share_memory(list(temporary.values()), lives, lent, spare, briefly=True)
    except BaseException:
        give_back([*temporary.values(), *lent])
        raise
    names = dict(zip(map(id, (*temporary.values(), *lent)), (*temporary, *results), strict=True))
    check_places([BufferUse(c.buffers, c.written) for c in calls], _named(where, names), results)
    return list(temporary.values())


def _named(places: Iterable[tuple[Buffer, ByteRange]], names: Mapping[int, Hashable]) -> dict[Hashable, ByteRange]:
    """Where buffers lie, by the names that calls have for them."""
    return {names[id(buffer)]: where for buffer, where in places}


def give_back(placed: Sequence[Buffer]) -> None:
    """Give the memory of what give_places gave back to the pools."""
    for buffer in placed:
        buffer.deallocate()


def share_memory(buffers: Sequence[Buffer], lives: Sequence[Life], results: Sequence[Buffer] = (),
                 spare: Sequence[Life] = (), briefly: bool = False) -> list[tuple[Buffer, ByteRange]]:  # fmt: skip
    """Let buffers that have no memory lie where schedule/memory.py says: on each device in one block of its pool.

    lives are theirs, in their order. results may hold some of them before the first call of their own life (spare).
    briefly says that all of it is soon given back. On a device whose memory cannot be parted, buffers of the same size
    take turns. Gives where each of buffers and results lies, for schedule/proof.py to check.
    """
    found: list[tuple[Buffer, ByteRange]] = []
    for device in dict.fromkeys(buffer.device for buffer in buffers):
        mine = [i for i, buffer in enumerate(buffers) if buffer.device == device]
        lent = [i for i, buffer in enumerate(results) if buffer.device == device]
        backend = buffers[mine[0]].backend
        if not pool_of(backend).has_views:
            found += _take_turns([buffers[i] for i in mine], [lives[i] for i in mine])
            continue
        known = tuple([lives[i] for i in mine])
        places = place(known, tuple([spare[i] for i in lent]), backend.target.alignment)
        arena = Buffer(device, places.size, dtypes.uint8).allocate(briefly)
        for i, home, offset in zip(mine, places.homes, places.offsets, strict=True):
            block = arena if home == ARENA else results[lent[home]]
            buffers[i].suballocate(block, offset)
            found.append((buffers[i], ByteRange((device, id(block)), offset, offset + lives[i].nbytes)))
        found += [(results[i], ByteRange((device, id(results[i])), 0, spare[i].nbytes)) for i in lent]
    return found


def _take_turns(buffers: Sequence[Buffer], lives: Sequence[Life]) -> list[tuple[Buffer, ByteRange]]:
    """Let each buffer have the whole memory of an earlier one of its size that is over, where there is one."""
    found: list[tuple[Buffer, ByteRange]] = []
    over: dict[
        int, list[tuple[int, Buffer, int]]
    ] = {}  # by size: the last call of whoever has a block, that, its block
    for buffer, life in sorted(zip(buffers, lives, strict=True), key=lambda pair: pair[1].first):
        blocks = over.setdefault(life.nbytes, [])
        number = next((number for number, (last, *_) in enumerate(blocks) if last < life.first), None)
        block = id(buffer)
        if number is None:
            buffer.allocate()
        else:
            _, before, block = blocks.pop(number)
            buffer.suballocate(before, 0)
        blocks.append((life.last, buffer, block))
        found.append((buffer, ByteRange(block, 0, life.nbytes)))
    return found
