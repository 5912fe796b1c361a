"""Kernels for threads, by hand: groups where what one stores another one reads, and loops that several parts share.

Threads of a group read what the farthest of them has stored, and each group and iteration has its own values, so that
memory that is read too early, or written too early, shows. Parts of a shared loop count on their own.
"""

from __future__ import annotations

from tinygraft.conformance.linears import Build, number
from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import AxisKind, LocalArg, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp


def exchange(groups: int, threads: int, room: int = 0, dtype: DType = dtypes.float32) -> Linear:
    """Each group turns its row around through shared memory, which has room for more if that is asked for."""
    b = Build("exchange", (dtype, groups * threads), (dtype, groups * threads))
    group, thread = b.range(groups, AxisKind.GRID), b.range(threads, AxisKind.THREAD)
    size = max(room, threads)
    shared = b.add(UOp(Ops.LOCAL, dtype, (), LocalArg(0, size, True)))
    place, start = thread + number(size - threads), group * threads
    filled = UOp(Ops.BARRIER, src=(b.store(shared, b.add(place), b.load(1, start + thread)),))
    after = b.add(UOp(Ops.AFTER, dtype, (shared, filled)))
    b.store(0, start + thread, b.load(after, number(size - 1) - thread))
    return b.done(grid=(groups, 1, 1), block_threads=threads)


def relay(iterations: int, threads: int) -> Linear:
    """out[t] = the sum over k of (k + 1) * x[k, last - t]: one row of shared memory, filled anew in every iteration."""
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


def positions(sizes: tuple[int, ...], threads: int) -> Linear:
    """out = the number of the thread, and of its group along each dimension, all in one number."""
    count = threads
    for size in sizes:
        count *= size
    b = Build("positions", (dtypes.int32, count))
    thread = b.range(threads, AxisKind.THREAD)
    place, weight = thread, threads
    for dim, size in enumerate(sizes):
        place = place + b.range(size, AxisKind.GRID, dim) * weight
        weight *= size
    b.store(0, b.add(place), place.cast(dtypes.int32) * 3 + 1)
    grid = (*sizes, 1, 1, 1)[:3]
    return b.done(grid=grid, block_threads=threads)


def turned(size: int) -> Linear:
    """out = x turned around, by way of scratch memory of the thread."""
    b = Build("turned", (dtypes.float32, size), (dtypes.float32, size))
    local = b.add(UOp(Ops.LOCAL, dtypes.float32, (), LocalArg(0, size, False)))
    i = b.range(size)
    stored = b.store(local, i, b.load(1, i))
    b.end(i)
    after, j = b.add(UOp(Ops.AFTER, dtypes.float32, (local, stored))), b.range(size)
    b.store(0, j, b.load(after, number(size - 1) - j))
    b.end(j)
    return b.done()


def counted(most: int) -> Linear:
    """out[i] = x[i] * a for i below n; a and n are variables."""
    a, n = UOp.variable("a", 0, 99), UOp.variable("n", 0, most)
    b = Build("counted", (dtypes.int32, most), (dtypes.int32, most))
    r = b.range(n)
    b.store(0, r, b.load(1, r) * a.cast(dtypes.int32))
    b.end(r)
    return b.done(("a", "n"))


def far(size: int) -> Linear:
    """out[i] = (v + i * 2**33) // 1000 % 1009, by numbers that 32 bits cannot hold; v is a variable."""
    v = UOp.variable("v", 0, 1 << 40)
    b = Build("far", (dtypes.int32, size))
    r = b.range(size)
    b.store(0, r, ((v + r * (1 << 33)) // 1000 % 1009).cast(dtypes.int32))
    b.end(r)
    return b.done(("v",))


def parted(size: int, by: int) -> Linear:
    """out[i] = 1 + how many elements its part wrote before, plus v * by: a loop that parts share; v is a variable."""
    v = UOp.variable("v", 0, 99)
    b = Build("parted", (dtypes.int32, size))
    count = b.reg(0, UOp.const(dtypes.int32, 0))
    r = b.range(size, AxisKind.PARALLEL)
    b.accum(count, UOp.const(dtypes.int32, 1))
    b.store(0, r, b.get(count) + v.cast(dtypes.int32) * by)
    b.end(r)
    return b.done(("v",), chunked=True)


def counted_by(parts: int, size: int) -> list[int]:
    """What `parted` leaves of v = 0 where so many parts share its loop."""
    return [i - size * part // parts + 1 for part in range(parts)
            for i in range(size * part // parts, size * (part + 1) // parts)]  # fmt: skip


def once(size: int) -> Linear:
    """x[i] = x[i] * 2 + 1, in place, in a loop that parts share."""
    b = Build("once", (dtypes.int32, size))
    r = b.range(size, AxisKind.PARALLEL)
    b.store(0, r, b.load(0, r) * 2 + 1)
    b.end(r)
    return b.done(chunked=True)
