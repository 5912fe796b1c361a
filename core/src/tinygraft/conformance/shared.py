"""Kernels for threads, built by hand: thread blocks with shared memory and barriers, and parallel loops in chunks.

Threads of a block read what the farthest of them has stored, and each block and iteration has its own values, so that
memory that is read too early, or written too early, shows. Chunks of a parallel loop count on their own.
"""

from __future__ import annotations

from tinygraft.conformance.linears import Build, number
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp


def exchange(blocks: int, threads: int, room: int = 0, dtype: DType = dtypes.float32) -> Linear:
    """Reverse each row of `threads` elements by a thread block, through shared memory.

    Where `room` is more elements than threads, shared memory has that size, and its last elements are used.
    """
    b = Build("exchange", (dtype, blocks * threads), (dtype, blocks * threads))
    block, thread = b.range(blocks, AxisKind.GRID), b.range(threads, AxisKind.THREAD)
    size = max(room, threads)
    shared = b.add(UOp(Ops.LOCAL, dtype, (), LocalArg(0, size, True)))
    index, start = thread + number(size - threads), block * threads
    filled = UOp(Ops.BARRIER, src=(b.store(shared, b.add(index), b.load(1, start + thread)),))
    after = b.add(UOp(Ops.AFTER, dtype, (shared, filled)))
    b.store(0, start + thread, b.load(after, number(size - 1) - thread))
    return b.done(grid=(blocks, 1, 1), block_threads=threads)


def relay(iterations: int, threads: int) -> Linear:
    """Compute out[t] = sum over k of (k + 1) * x[k, last - t]: shared memory is filled anew in every iteration."""
    kind = dtypes.int32
    b = Build("relay", (kind, threads), (kind, iterations * threads))
    thread = b.range(threads, AxisKind.THREAD)
    shared = b.add(UOp(Ops.LOCAL, kind, (), LocalArg(0, threads, True)))
    total = b.reg(0, UOp.const(kind, 0))
    k = b.range(iterations)
    filled = UOp(Ops.BARRIER, src=(b.store(shared, thread, b.load(1, k * threads + thread)),))
    after = b.add(UOp(Ops.AFTER, kind, (shared, filled)))
    b.accum(total, b.load(after, number(threads - 1) - thread) * (k + 1).cast(kind))
    b.add(UOp(Ops.BARRIER, src=(filled,)))
    b.end(k)
    b.store(0, thread, b.get(total))
    return b.done(block_threads=threads)


def grid_indices(sizes: tuple[int, ...], threads: int) -> Linear:
    """Compute out[i] = 3 * i + 1, where i combines the thread index and the grid index along each dimension."""
    count = threads
    for size in sizes:
        count *= size
    b = Build("grid_indices", (dtypes.int32, count))
    thread = b.range(threads, AxisKind.THREAD)
    index, weight = thread, threads
    for dim, size in enumerate(sizes):
        index = index + b.range(size, AxisKind.GRID, dim) * weight
        weight *= size
    b.store(0, b.add(index), index.cast(dtypes.int32) * 3 + 1)
    grid = (*sizes, 1, 1, 1)[:3]
    return b.done(grid=grid, block_threads=threads)


def reversed_in_scratch(size: int) -> Linear:
    """Reverse x through scratch memory of one thread."""
    b = Build("reversed_in_scratch", (dtypes.float32, size), (dtypes.float32, size))
    local = b.add(UOp(Ops.LOCAL, dtypes.float32, (), LocalArg(0, size, False)))
    i = b.range(size)
    stored = b.store(local, i, b.load(1, i))
    b.end(i)
    after, j = b.add(UOp(Ops.AFTER, dtypes.float32, (local, stored))), b.range(size)
    b.store(0, j, b.load(after, number(size - 1) - j))
    b.end(j)
    return b.done()


def counted(most: int) -> Linear:
    """Compute out[i] = x[i] * a for i below n; a and n are variables."""
    a, n = UOp.variable("a", 0, 99), UOp.variable("n", 0, most)
    b = Build("counted", (dtypes.int32, most), (dtypes.int32, most))
    r = b.range(n)
    b.store(0, r, b.load(1, r) * a.cast(dtypes.int32))
    b.end(r)
    return b.done(("a", "n"))


def far(size: int) -> Linear:
    """Compute out[i] = (v + i * 2**33) // 1000 % 1009, with values beyond 32 bits; v is a variable."""
    v = UOp.variable("v", 0, 1 << 40)
    b = Build("far", (dtypes.int32, size))
    r = b.range(size)
    b.store(0, r, ((v + r * (1 << 33)) // 1000 % 1009).cast(dtypes.int32))
    b.end(r)
    return b.done(("v",))


def chunked(size: int, by: int) -> Linear:
    """Compute out[i] = v * by + 1 + how many elements its chunk has stored before: a parallel loop; v is a variable."""
    v = UOp.variable("v", 0, 99)
    b = Build("chunked", (dtypes.int32, size))
    count = b.reg(0, UOp.const(dtypes.int32, 0))
    r = b.range(size, AxisKind.PARALLEL)
    b.accum(count, UOp.const(dtypes.int32, 1))
    b.store(0, r, b.get(count) + v.cast(dtypes.int32) * by)
    b.end(r)
    return b.done(("v",), chunked=True)


def expected_chunked(chunks: int, size: int) -> list[int]:
    """Return the result of `chunked` for v = 0 where its loop has so many chunks."""
    return [i - size * chunk // chunks + 1 for chunk in range(chunks)
            for i in range(size * chunk // chunks, size * (chunk + 1) // chunks)]  # fmt: skip


def in_place(size: int) -> Linear:
    """Compute x[i] = x[i] * 2 + 1, in place, in a parallel loop."""
    b = Build("in_place", (dtypes.int32, size))
    r = b.range(size, AxisKind.PARALLEL)
    b.store(0, r, b.load(0, r) * 2 + 1)
    b.end(r)
    return b.done(chunked=True)
