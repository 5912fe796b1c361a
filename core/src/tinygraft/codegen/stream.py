"""Mark non-temporal stores, which bypass the caches: those of large outputs that the kernel does not read.

An ordinary store first loads the cache line that it overwrites, and evicts lines that are read again. For an output
larger than the caches both are wasted; a smaller one is stored normally, since the next kernel reads it from there. So
is a larger one of a kernel that reads little: nothing is evicted, and caches take stores faster than memory does.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.codegen.loops import often, size
from tinygraft.target import Target
from tinygraft.uop.linear import starts_aligned
from tinygraft.uop.ops import AxisKind, Ops, StoreHint
from tinygraft.uop.terms import terms_of
from tinygraft.uop.uop import UOp, postorder

# given: a cache line, and the shortest non-temporal store of a vector, of x86
LINE = 64  # bytes of a line: a shorter row is streamed only where the next one completes its line
SHORTEST = 16  # bytes of a row for which machines have a non-temporal store
# assumed: more of a last cache than that is used by other processors, which share it
OWN = 16 << 20  # bytes of the last cache, for each thread
# measured: copies through a last cache of 32 MB took 0.4, 0.5, 0.8 and 1.1 of the time past it where they read 12, 16,
# 24 and 40 MB, sums of two arrays 0.7, 1.2 and 1.5 where they read 20, 32 and 40 (2026-11-29, two threads of a Zen 5,
# benchmarks/NOTES.md); of kernels one after another, which keep less, it was not
FULL = 0.75  # of the last cache: from where on what a kernel reads has no room beside what it stores
# measured, as above: filling memory through the caches took 0.16, 0.6, 0.8 and 0.94 of the time past them at 0.5, 1.9,
# 3.4 and 6 times the last cache
ALONE = 4  # of that: an output of more is past the caches, however little its kernel reads


def stream(sink: UOp, target: Target) -> tuple[UOp, int]:
    """Return `sink` with StoreHint.STREAM on the stores to be streamed, and how many those are.

    Those are streamed whose output the kernel does not read and for which `_streams` holds; none where
    `target.stream_bytes` is 0, or the kernel reads so little that the last cache has room for it and its outputs.
    """
    large = max((_bytes(store.src[0]) for store in sink.src), default=0)
    if not target.stream_bytes or large <= target.stream_bytes:
        return sink, 0
    nodes = postorder(sink)
    room = FULL * min(target.l3_bytes, OWN * target.chunks)
    if large <= ALONE * room and _bytes_read(nodes) <= room:
        return sink, 0
    vectors = {n.arg.axis: n for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.VECTOR}
    read = {n.src[0] for n in nodes if n.op is Ops.LOAD}
    stores = [
        s.replace(arg=StoreHint.STREAM) if s.src[0] not in read and _streams(s, target, vectors) else s
        for s in sink.src
    ]
    return sink.replace(src=tuple(stores)), sum(s.arg is StoreHint.STREAM for s in stores)


def _streams(store: UOp, target: Target, vectors: dict[int, UOp]) -> bool:
    """Return whether the values of a vectorised store can bypass the caches (non-temporal stores).

    They can where the output is larger than `target.stream_bytes`, and whole cache lines are written from aligned
    addresses: by the row of elements that one iteration stores, or by several rows that an outer loop puts next to
    each other. A store that is gated, or depends on other than one VECTOR range, is never streamed. `vectors` has the
    VECTOR ranges by axis.
    """
    memory, index = store.src[0], store.src[1]
    lanes = [r for axis, r in vectors.items() if index.ranges >> axis & 1]
    if len(store.src) > 3 or len(lanes) != 1 or _bytes(memory) <= target.stream_bytes:
        return False
    width = int(lanes[0].src[0].arg)
    row = width * memory.dtype.itemsize
    adjacent = any(step == width and (term.hi + 1) * row >= LINE for term, step in terms_of(index)[0].items())
    whole_lines = row % LINE == 0 or (row >= SHORTEST and adjacent)
    return whole_lines and target.alignment % min(row, LINE) == 0 and starts_aligned(index, lanes[0])


def _bytes(memory: UOp) -> int:
    """Return the size of an output in bytes; 0 for what is no argument of the kernel, such as scratch memory."""
    return memory.arg.size * memory.dtype.itemsize if memory.op is Ops.PARAM else 0


def _bytes_read(nodes: Sequence[UOp]) -> float:
    """Return how many bytes of its arguments a kernel reads: by how often loads run, and no more than there are."""
    sizes = {n.arg.axis: size(n) for n in nodes if n.op is Ops.RANGE}
    read: dict[UOp, float] = {}
    for load in nodes:
        if load.op is Ops.LOAD and load.src[0].op is Ops.PARAM:
            memory = load.src[0]
            read[memory] = read.get(memory, 0) + often(load.ranges, sizes) * memory.dtype.itemsize
    return sum(min(count, _bytes(memory)) for memory, count in read.items())
