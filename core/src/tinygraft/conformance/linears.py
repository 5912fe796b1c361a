"""Small kernels in the linear form, built by hand: each tests what the scheduler's kernels have in longer ones only.

KERNELS maps a name to a function that makes a Linear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.target import Target
from tinygraft.uop.linear import scratch_of
from tinygraft.uop.ops import AxisKind, LocalArg, Ops, ParamArg, ReduceArg, RegArg, StoreHint
from tinygraft.uop.stages import Linear, Param, Signature
from tinygraft.uop.uop import UOp, postorder

index: DType = dtypes.index


class Build:
    """A Linear under construction: each method appends instructions, after those of their sources that are not in yet.

    `params` are the dtype and size of each buffer by slot, `written` the slots that the kernel stores to.
    """

    def __init__(self, name: str, *params: tuple[DType, int], written: tuple[int, ...] = (0,)) -> None:
        self.name = name
        self.uops: list[UOp] = []
        self.params: tuple[Param, ...] = tuple(
            Param(dtype, size, i in written) for i, (dtype, size) in enumerate(params)
        )
        self.memory: list[UOp] = [
            UOp(Ops.PARAM, dtype, (), ParamArg(i, size)) for i, (dtype, size) in enumerate(params)
        ]
        self.axes: int = 0

    def add(self, node: UOp) -> UOp:
        """Append a node, after its sources. Returns it."""
        known = set(self.uops)
        self.uops += [u for u in postorder(node) if u not in known]
        return node

    def range(self, size: int | UOp, kind: AxisKind = AxisKind.LOOP, dim: int = 0) -> UOp:
        """Append the begin of a new range of `size` iterations. Returns it."""
        self.axes += 1
        return self.add(UOp.range(size, self.axes - 1, kind, dim))

    def end(self, *ranges: UOp) -> None:
        """Append the ends of loops, which are given innermost first."""
        for r in ranges:
            self.add(UOp(Ops.END, dtypes.void, (r,)))

    def load(self, memory: int | UOp, *index_and_gate: UOp) -> UOp:
        """Append a LOAD from a slot, or from other memory. Returns it."""
        source = self.memory[memory] if isinstance(memory, int) else memory
        return self.add(UOp(Ops.LOAD, source.dtype, (source, *index_and_gate)))

    def store(self, memory: int | UOp, *index_value_gate: UOp) -> UOp:
        """Append a STORE to a slot, or to other memory. Returns it."""
        target = self.memory[memory] if isinstance(memory, int) else memory
        return self.add(UOp(Ops.STORE, dtypes.void, (target, *index_value_gate)))

    def reg(self, number: int, first: UOp, *ranges: UOp) -> UOp:
        """Append a register that begins as `first`, with a copy for each value of `ranges`. Returns it."""
        return self.add(UOp(Ops.REG, first.dtype, (first, *ranges), RegArg(number)))

    def accum(self, reg: UOp, value: UOp, op: Ops = Ops.ADD) -> UOp:
        """Append the instruction that combines a register with a value. Returns it."""
        return self.add(UOp(Ops.ACCUM, reg.dtype, (reg, value), op))

    def get(self, reg: UOp) -> UOp:
        """Append a read of a register. Returns its value."""
        return self.add(UOp(Ops.GET, reg.dtype, (reg,)))

    def lanes(self, vector: UOp, span: UOp, op: Ops = Ops.ADD) -> UOp:
        """Append the instruction that combines the lanes of a vector over the range `span`. Returns its value."""
        return self.add(UOp(Ops.LANES, vector.dtype, (vector, span), ReduceArg(op)))

    def done(self, variables: tuple[str, ...] = (), actions: tuple[str, ...] = (), **signature: Any) -> Linear:
        """Return the finished kernel. `actions` are the transforms that it lists; `signature` are other fields."""
        made = Signature(self.params, variables, scratch=scratch_of(self.uops)[1], **signature)
        return Linear(self.name, tuple(self.uops), made, Target(), actions)


def number(value: int) -> UOp:
    """Return an index constant."""
    return UOp.const(index, value)


def elementwise(size: int = 37, width: int = 8) -> Linear:
    """Compute max(x + 3, x * x) of `size` elements in vectors, the last of them gated."""
    b = Build("elementwise", (dtypes.float32, size), (dtypes.float32, size))
    r, v = b.range(-(-size // width)), b.range(width, AxisKind.VECTOR)
    at = r * width + v
    gate = at < number(size)
    x = b.load(1, at, gate)
    b.store(0, at, (x + 3.0).maximum(x * x), gate)
    b.end(r)
    return b.done(actions=(f"vectorise {width}",))


def plain(size: int = 5) -> Linear:
    """Compute x + 3 of `size` elements in a plain loop."""
    b = Build("plain", (dtypes.float32, size), (dtypes.float32, size))
    r = b.range(size)
    b.store(0, r, b.load(1, r) + 3.0)
    b.end(r)
    return b.done()


def streamed(size: int = 64, width: int = 8) -> Linear:
    """Compute x + 3 of `size` elements, a multiple of `width`, in vectors, with stores that bypass the caches."""
    b = Build("streamed", (dtypes.float32, size), (dtypes.float32, size))
    r, v = b.range(size // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v
    value = b.load(1, at) + 3.0
    b.add(UOp(Ops.STORE, dtypes.void, (b.memory[0], at, value), StoreHint.STREAM))
    b.end(r)
    return b.done(actions=(f"vectorise {width}", "stream"))


def row_sums(rows: int = 3, columns: int = 64, width: int = 8, copies: int = 2) -> Linear:
    """Compute the sum of each row: a register of vectors, with a copy for each unrolled value, is folded by another.

    `columns` are a multiple of `width * copies`.
    """
    b = Build("row_sums", (dtypes.float32, rows), (dtypes.float32, rows * columns))
    row = b.range(rows)
    u, v = b.range(copies, AxisKind.UNROLL), b.range(width, AxisKind.VECTOR)
    acc = b.reg(0, UOp.const(dtypes.float32, 0.0), u, v)
    k = b.range(columns // (width * copies))
    b.accum(acc, b.load(1, row * columns + (k * copies + u) * width + v))
    b.end(k)
    total = b.reg(1, UOp.const(dtypes.float32, 0.0))
    b.accum(total, b.lanes(b.get(acc), v))
    b.store(0, row, b.get(total))
    b.end(row)
    return b.done(actions=(f"unroll {copies}", f"vectorise {width}"))


def matmul(n: int = 6, m: int = 16, depth: int = 5, tile: int = 3, width: int = 8) -> Linear:
    """Compute (n, depth) @ (depth, m) in register tiles of `tile` rows and `width` columns; n and m are multiples."""
    b = Build("matmul", (dtypes.float32, n * m), (dtypes.float32, n * depth), (dtypes.float32, depth * m))
    i, j = b.range(n // tile, AxisKind.PARALLEL), b.range(m // width)
    u, v = b.range(tile, AxisKind.UNROLL), b.range(width, AxisKind.VECTOR)
    acc = b.reg(0, UOp.const(dtypes.float32, 0.0), u, v)
    row, column = i * tile + u, b.add(j * width + v)
    left, out = b.add(row * depth), b.add(row * m + column)
    k = b.range(depth)
    b.accum(acc, b.load(1, left + k) * b.load(2, k * m + column))
    b.end(k)
    b.store(0, out, b.get(acc))
    b.end(j, i)
    return b.done(actions=(f"unroll {tile}", f"vectorise {width}"), chunked=True)


def gather(rows: int = 7, size: int = 11, width: int = 4) -> Linear:
    """Compute table[index], or 0 where the index is out of bounds: a gated load at computed indices.

    The table has `size` elements, the indices are `rows` vectors of `width`.
    """
    count = rows * width
    b = Build("gather", (dtypes.float32, count), (dtypes.int32, count), (dtypes.float32, size))
    r, v = b.range(rows), b.range(width, AxisKind.VECTOR)
    at = r * width + v
    where = b.load(1, at).cast(index)
    inside = ~(where < number(0)) & (where < number(size))
    b.store(0, at, b.load(2, where, inside))
    b.end(r)
    return b.done()


def strided(size: int = 24, width: int = 4) -> Linear:
    """Copy every second of `size` elements, from the first on, in reverse order, by vectors of `width` lanes.

    `size // 2` results are a multiple of `width`.
    """
    b = Build("strided", (dtypes.int32, size // 2), (dtypes.int32, size))
    r, v = b.range(size // 2 // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v
    b.store(0, number(size // 2 - 1) + at * -1, b.load(1, at * 2))
    b.end(r)
    return b.done()


def scratch(rows: int = 2, columns: int = 12) -> Linear:
    """Compute each row minus its greatest element, through scratch memory, for n rows: a variable, at most `rows`."""
    n = UOp.variable("n", 1, rows)
    b = Build("scratch", (dtypes.float32, rows * columns), (dtypes.float32, rows * columns))
    row = b.range(n)
    local = b.add(UOp(Ops.LOCAL, dtypes.float32, (), LocalArg(0, columns, False)))
    start = b.add(row * columns)
    best = b.reg(0, UOp.const(dtypes.float32, float("-inf")))
    i = b.range(columns)
    x = b.load(1, start + i)
    stored = b.store(local, i, x)
    b.accum(best, x, Ops.MAX)
    b.end(i)
    top, j = b.get(best), b.range(columns)
    after = b.add(UOp(Ops.AFTER, dtypes.float32, (local, stored)))
    b.store(0, start + j, b.load(after, j) - top)
    b.end(j, row)
    return b.done(("n",))


def running_sum(size: int = 9) -> Linear:
    """Compute 2 * s + x, where s is the exclusive running sum of x: a register is read, then changed."""
    b = Build("running_sum", (dtypes.int32, size), (dtypes.int32, size))
    acc = b.reg(0, UOp.const(dtypes.int32, 0))
    r = b.range(size)
    before = b.get(acc)
    x = b.load(1, r)
    b.accum(acc, x)
    b.store(0, r, before * 2 + x)
    b.end(r)
    return b.done()


def group_sum(groups: int = 3, threads: int = 8) -> Linear:
    """Compute the sum of each of `groups` rows of `threads` elements by a thread block each, through shared memory."""
    b = Build("group_sum", (dtypes.float32, groups), (dtypes.float32, groups * threads))
    block, thread = b.range(groups, AxisKind.GRID, 1), b.range(threads, AxisKind.THREAD)
    shared = b.add(UOp(Ops.LOCAL, dtypes.float32, (), LocalArg(0, threads, True)))
    stored = b.store(shared, thread, b.load(1, block * threads + thread))
    after = b.add(UOp(Ops.AFTER, dtypes.float32, (shared, UOp(Ops.BARRIER, dtypes.void, (stored,)))))
    acc = b.reg(0, UOp.const(dtypes.float32, 0.0))
    i = b.range(threads)
    b.accum(acc, b.load(after, i))
    b.end(i)
    b.store(0, block, b.get(acc), b.add(thread.eq(number(0))))
    return b.done(grid=(1, groups, 1), block_threads=threads)


KERNELS: dict[str, Callable[[], Linear]] = {
    f.__name__: f
    for f in (plain, elementwise, row_sums, matmul, gather, strided, scratch, running_sum, streamed)
}  # fmt: skip
