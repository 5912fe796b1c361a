"""Memory for the temporaries of a schedule: slices of one arena for each device, or of results not yet written.

`place_temporaries` is called before a schedule runs, and `free_temporaries` after it with the buffers it returned. What
it found for a plan is a Placement, by which `place_again` does the same for the next graph of that form.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.pool import pool_of
from tinygraft.dtype import dtypes
from tinygraft.schedule.memory import ARENA, HasBuffers, Life, lifetimes, place
from tinygraft.schedule.proof import BufferUse, ByteRange, check_offsets
from tinygraft.uop.uop import UOp

# assumed: never measured
SPARE = 64 << 10  # bytes from which the memory of a result is considered for temporaries


class Writes(HasBuffers, Protocol):
    """A call that has the slots of the buffers that it writes."""

    @property
    def written(self) -> Collection[int]:
        """Return the slots of these buffers."""


Spot = tuple[int, int]  # a buffer, as a call and a slot of it


@dataclass(slots=True)
class Placement:
    """Where the temporaries of a plan lie: what `place_temporaries` found, for graphs that differ in their BUFFERs.

    `arenas` are devices with the bytes of an arena, `spots` have for each temporary the arena, by index, or the result
    whose memory it is in, and the offset there.
    """

    arenas: list[tuple[str, int]]
    spots: list[tuple[Spot, int | Spot, int]]


def place_again(placement: Placement, buffers: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """Give temporaries the memory that `placement` says, until `free_temporaries`. Returns their buffers.

    `buffers` are those of each call. Where allocating fails, that is raised, and all of it is freed.
    """
    placed: list[Buffer] = []
    lent: list[Buffer] = []
    try:
        arenas = [Buffer(device, nbytes, dtypes.uint8).allocate(briefly=True) for device, nbytes in placement.arenas]
        for (call, slot), home, offset in placement.spots:
            buffer = buffers[call][slot]
            if isinstance(home, int):
                block = arenas[home]
            else:
                block = buffers[home[0]][home[1]]
                lent.append(block)
            buffer.suballocate(block, offset)
            placed.append(buffer)
    except BaseException:
        free_temporaries([*placed, *lent])
        raise
    return placed


def place_temporaries(calls: Sequence[Writes], results: Collection[UOp], existing: Collection[UOp] | None = None,
                      found: list[Placement] | None = None) -> list[Buffer]:  # fmt: skip
    """Give the temporaries of `calls` memory that they share, until `free_temporaries`. Returns their buffers.

    Temporaries are the BUFFERs of `calls` that are not in `results`, have no memory yet and are not read from a file
    later. They may also be put into the memory of a large result until its first write, which is allocated for that.
    The placement is checked against the lifetimes (schedule/proof.py). Does nothing for a single call, which can have
    none. Where allocating fails, that is raised, and all of it is freed. Where the placement holds for every graph of
    this form, which has other BUFFERs than those of `existing` that it names, it is put into `found`.
    """
    if len(calls) < 2:
        return []
    temporary: dict[UOp, Buffer] = {}
    lives: list[Life] = []
    unwritten: dict[UOp, Buffer] = {}  # results whose memory temporaries may use until its first write
    spare: list[Life] = []
    for node, life in lifetimes(calls).items():
        buffer = buffer_of(node)
        if not buffer.is_allocated() and buffer.unread is None:  # what a file has is read as memory is allocated
            if node not in results:
                temporary[node] = buffer
                lives.append(life)
            elif life.nbytes >= SPARE:
                unwritten[node] = buffer
                spare.append(life)
    lent = list(unwritten.values())
    try:
        where = share_memory(list(temporary.values()), lives, lent, spare, briefly=True)
    except BaseException:
        free_temporaries([*temporary.values(), *lent])
        raise
    names = dict(zip(map(id, (*temporary.values(), *lent)), (*temporary, *unwritten), strict=True))
    placed = _named(where, names)
    check_offsets([BufferUse(c.buffers, c.written) for c in calls], placed, unwritten)
    if found is not None and existing is not None and unwritten.keys().isdisjoint(existing):
        found += _placement(calls, list(temporary), unwritten, placed)
    return list(temporary.values())


def _placement(calls: Sequence[Writes], temporary: Sequence[UOp], lent: Mapping[UOp, Buffer],
               placed: Mapping[Hashable, ByteRange]) -> list[Placement]:  # fmt: skip
    """Return where `temporary` nodes were `placed`, in arenas or in the memory of `lent` ones, without naming nodes.

    None in the list on a device whose memory has no views: what is reused there are whole buffers.
    """
    spot = {node: (number, slot) for number, call in enumerate(calls) for slot, node in enumerate(call.buffers)}
    homes: dict[Hashable, int | Spot] = {placed[node].block: spot[node] for node in lent if node in placed}
    arenas: list[tuple[str, int]] = []
    spots: list[tuple[Spot, int | Spot, int]] = []
    for node in temporary:
        where = placed[node]
        if type(where.block) is not tuple:
            return []
        home = homes.setdefault(where.block, len(arenas))
        if home == len(arenas):
            arenas.append((where.block[0], 0))
        if isinstance(home, int):
            arenas[home] = arenas[home][0], max(arenas[home][1], where.end)
        spots.append((spot[node], home, where.start))
    return [Placement(arenas, spots)]


def _named(places: Iterable[tuple[Buffer, ByteRange]], names: Mapping[int, Hashable]) -> dict[Hashable, ByteRange]:
    """Return the byte ranges of buffers by their nodes; `names` has the node of a buffer by the buffer's `id()`."""
    return {names[id(buffer)]: where for buffer, where in places}


def free_temporaries(placed: Sequence[Buffer]) -> None:
    """Free the memory of buffers that `place_temporaries` placed, so that their pools can use it for others."""
    for buffer in placed:
        buffer.deallocate()


def share_memory(buffers: Sequence[Buffer], lives: Sequence[Life], results: Sequence[Buffer] = (),
                 spare: Sequence[Life] = (), briefly: bool = False) -> list[tuple[Buffer, ByteRange]]:  # fmt: skip
    """Place `buffers`, which have no memory, as schedule/memory.py decides: on each device in one arena of its pool.

    `lives` are their lifetimes, in the same order. Some may be placed in the memory of one of `results` before the
    first call that uses that, the begin of its lifetime in `spare`. `briefly` tells the pool that the memory is freed
    soon. On a device whose memory has no views, buffers of the same size reuse each other's memory instead. An error of
    the allocator is raised, and what was placed before it stays. Returns the byte range of each of `buffers` and
    `results`, which schedule/proof.py checks.
    """
    found: list[tuple[Buffer, ByteRange]] = []
    for device in dict.fromkeys(buffer.device for buffer in buffers):
        mine = [i for i, buffer in enumerate(buffers) if buffer.device == device]
        lent = [i for i, buffer in enumerate(results) if buffer.device == device]
        backend = buffers[mine[0]].backend
        if not pool_of(backend).has_views:
            found += _reuse_by_size([buffers[i] for i in mine], [lives[i] for i in mine])
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


def _reuse_by_size(buffers: Sequence[Buffer], lives: Sequence[Life]) -> list[tuple[Buffer, ByteRange]]:
    """Give each buffer the whole memory of one of its size whose lifetime is over, or new memory where there is none.

    `lives` are the lifetimes of `buffers`. Returns the byte range of each, with an id of the block that it is in.
    """
    found: list[tuple[Buffer, ByteRange]] = []
    # by size: the last call that uses a block, the buffer that had it last, the id of the block
    over: dict[int, list[tuple[int, Buffer, int]]] = {}
    for buffer, life in sorted(zip(buffers, lives, strict=True), key=lambda pair: pair[1].first):
        blocks = over.setdefault(life.nbytes, [])
        number = next((number for number, (last, *_) in enumerate(blocks) if last < life.first), None)
        block = id(buffer)
        if number is None:
            buffer.allocate()
        else:
            _, earlier, block = blocks.pop(number)
            buffer.suballocate(earlier, 0)
        blocks.append((life.last, buffer, block))
        found.append((buffer, ByteRange(block, 0, life.nbytes)))
    return found
