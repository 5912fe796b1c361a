"""Memory for the values in between: parts of one block for each device, or of results that are not written yet.

give_places is called before a schedule runs and give_back after it, with what give_places gave.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.pool import pool_of
from tinygraft.dtype import dtypes
from tinygraft.schedule.memory import ARENA, HasBuffers, Life, lifetimes, place
from tinygraft.uop.uop import UOp

SPARE = 64 << 10  # bytes of a result that is worth looking at


def give_places(calls: Sequence[HasBuffers], kept: Collection[UOp]) -> list[Buffer]:
    """Let the buffers of calls that are not kept share memory, until give_back; those buffers."""
    if len(calls) < 2:
        return []
    temporary: list[Buffer] = []
    lives: list[Life] = []
    results: list[Buffer] = []
    spare: list[Life] = []
    for node, life in lifetimes(calls).items():
        buffer = buffer_of(node)
        if not buffer.is_allocated():
            if node not in kept:
                temporary.append(buffer)
                lives.append(life)
            elif life.nbytes >= SPARE:
                results.append(buffer)
                spare.append(life)
    try:
        share_memory(temporary, lives, results, spare, briefly=True)
    except BaseException:
        give_back([*temporary, *results])
        raise
    return temporary


def give_back(placed: Sequence[Buffer]) -> None:
    """Give the memory of what give_places gave back to the pools."""
    for buffer in placed:
        buffer.deallocate()


def share_memory(buffers: Sequence[Buffer], lives: Sequence[Life], results: Sequence[Buffer] = (),
                 spare: Sequence[Life] = (), briefly: bool = False) -> None:  # fmt: skip
    """Let buffers that have no memory lie where schedule/memory.py says: on each device in one block of its pool.

    lives are theirs, in their order. results may hold some of them before the first call of their own life (spare).
    briefly says that all of it is soon given back. On a device whose memory cannot be parted, buffers of the same size
    take turns.
    """
    for device in dict.fromkeys(buffer.device for buffer in buffers):
        mine = [i for i, buffer in enumerate(buffers) if buffer.device == device]
        lent = [i for i, buffer in enumerate(results) if buffer.device == device]
        backend = buffers[mine[0]].backend
        if not pool_of(backend).has_views:
            _take_turns([buffers[i] for i in mine], [lives[i] for i in mine])
            continue
        known = tuple([lives[i] for i in mine])
        places = place(known, tuple([spare[i] for i in lent]), backend.target.alignment)
        arena = Buffer(device, places.size, dtypes.uint8).allocate(briefly)
        for i, home, offset in zip(mine, places.homes, places.offsets, strict=True):
            buffers[i].lie_in(arena if home == ARENA else results[lent[home]], offset)


def _take_turns(buffers: Sequence[Buffer], lives: Sequence[Life]) -> None:
    """Let each buffer have the whole memory of an earlier one of its size that is over, where there is one."""
    over: dict[int, list[tuple[int, Buffer]]] = {}  # by size: the last call of whoever has a block, and that buffer
    for buffer, life in sorted(zip(buffers, lives, strict=True), key=lambda pair: pair[1].first):
        blocks = over.setdefault(life.nbytes, [])
        number = next((number for number, (last, _) in enumerate(blocks) if last < life.first), None)
        if number is None:
            buffer.allocate()
        else:
            buffer.lie_in(blocks.pop(number)[1], 0)
        blocks.append((life.last, buffer))
