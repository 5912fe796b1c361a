"""TapeEntry, how one version of some memory was computed; and an untracked graph as rows.

    rows = rows_of(inside, inputs, pin, versions, new)
    rows.node(leaf)          # the graph again, where leaf(TapedMemory) returns the node of each memory

A row is an op, its dtype, its sources (numbers of rows, or whole graphs that read no memory), its arg and its tag. Of
memory it has a weak reference, its shape and dtype, and its entry on the tape. Memory of up to PINNED bytes is
retained, so that an index or a scalar that is used nowhere else still exists.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tinygraft.dtype import DType
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import UOp, rebuild

# assumed: never measured
PINNED: Final = 64 << 10  # bytes

MemoryVersion = tuple[UOp, int]  # a BUFFER, and when it was last written
_NONE: Mapping[UOp, Any] = MappingProxyType({})

NodeRow = tuple[Ops, DType, tuple[Any, ...], Any, Any]


def is_small(memory: UOp) -> bool:
    """Return whether memory is small enough to be retained for a gradient that nothing requires yet.

    That is a BUFFER of up to PINNED bytes, and no MULTI.
    """
    return memory.op is Ops.BUFFER and memory.arg.size * memory.dtype.itemsize <= PINNED


class TapedMemory:
    """Memory that a graph reads: a BUFFER, or a MULTI over several, by a weak reference.

    `shards` has the device, the number of elements and the shape of each BUFFER, `at` when each was last written when
    the graph read it. `pin` is the node itself where it is retained.
    """

    entry: TapeEntry | None
    dtype: DType
    ref: weakref.ref[UOp]
    arg: Any

    __slots__ = ("arg", "at", "dtype", "entry", "is_multi", "pin", "ref", "shards")

    def __init__(self, node: UOp, entry: TapeEntry | None, pin: bool, at: tuple[int, ...]) -> None:
        buffers = buffers_of(node)
        self.at: tuple[int, ...] = at
        self.ref, self.entry, self.dtype, self.arg = weakref.ref(node), entry, node.dtype, node.arg
        self.is_multi: bool = node.op is Ops.MULTI
        shapes = [shard.shape for shard in node.src] if self.is_multi else [node.shape]
        self.shards: tuple[tuple[str, int, Shape], ...] = tuple(
            [(buffer.src[0].arg, buffer.arg.size, shape) for buffer, shape in zip(buffers, shapes, strict=True)]
        )
        self.pin: UOp | None = node if pin and is_small(node) else None

    def unknown(self) -> UOp:
        """Return a node of the shape and devices of the memory, over new BUFFERs that never get a value."""
        made = []
        for device, size, shape in self.shards:
            buffer = UOp.buffer(device, size, self.dtype)
            made.append(buffer if shape == buffer.shape else UOp(Ops.RESHAPE, self.dtype, (buffer,), shape))
        return UOp(Ops.MULTI, self.dtype, tuple(made), self.arg) if self.is_multi else made[0]


class Rows:
    """A graph as rows, sources before users; the last row is the result."""

    __slots__ = ("_rows", "memories")

    def __init__(self, rows: list[NodeRow | TapedMemory]) -> None:
        self._rows = rows
        self.memories: list[TapedMemory] = [row for row in rows if isinstance(row, TapedMemory)]

    def node(self, leaf: Callable[[TapedMemory], UOp]) -> UOp:
        """Return the graph as nodes; `leaf` returns the node of each memory.

        Where that is a RESHAPE of the value, and the graph reshapes it back, it is the value itself.
        """
        done: list[UOp] = []
        for row in self._rows:
            if isinstance(row, TapedMemory):
                done.append(leaf(row))
            else:
                op, dtype, sources, arg, tag = row
                src = tuple([done[source] if type(source) is int else source for source in sources])
                value = src[0].src[0] if op is Ops.RESHAPE and tag is None and src[0].op is Ops.RESHAPE else None
                read_back = value is not None and value.shape == arg and isinstance(self._rows[sources[0]], TapedMemory)
                done.append(value if value is not None and read_back else UOp(op, dtype, src, arg, tag))
        return done[-1]

    def entries(self) -> Collection[TapeEntry]:
        """Return the entries of the memory that it reads."""
        return [memory.entry for memory in self.memories if memory.entry is not None]

    def buffers(self) -> set[UOp]:
        """Return the BUFFERs that it reads and that are not freed yet."""
        return {b for memory in self.memories if (node := memory.ref()) is not None for b in buffers_of(node)}


def rows_of(inside: Sequence[UOp], inputs: Mapping[UOp, TapeEntry], pin: bool, versions: Mapping[UOp, tuple[UOp, int]],
            new: Mapping[UOp, UOp]) -> Rows:  # fmt: skip
    """Return the graph `inside`, its nodes down to memory with sources before users, as rows.

    `inputs` has the entries of its memory. `pin` says whether small memory is retained. `versions` has, for BUFFERs in
    the graph, which BUFFER has the value, and when that was written; `new` maps stand-ins in the graph to BUFFERs.
    """
    numbers: dict[UOp, int] = {}
    rows: list[NodeRow | TapedMemory] = []
    for node in inside:
        if node.op in HELD:
            at = tuple([versions.get(buffer, (buffer, 0))[1] for buffer in buffers_of(node)])
            memory = rebuild((node,), dict(new))[node] if new else node
            rows.append(TapedMemory(memory, inputs.get(node), pin, at))
        else:
            sources = tuple([numbers.get(source, source) for source in node.src])
            if node is not inside[-1] and not any(type(source) is int for source in sources):
                continue  # it reads no memory, so that its node is a source of rows as it is
            rows.append((node.op, node.dtype, sources, node.arg, node.tag))
        numbers[node] = len(rows) - 1
    return Rows(rows)


class TapeEntry:
    """How one version of some memory was computed.

    `tracked` says that something upstream has requires_grad=True. The graph is `node`, or `rows` where it is untracked
    and reads large memory; `lost` is the sentence of the error where it was not taped, and `depends` are the BUFFERs at
    the ends of that graph.

    `inputs` has the entry of each memory that the graph reads, if that was computed itself. `versions` has, for BUFFERs
    in `node` that had been overwritten before, or that are stand-ins for what the same run wrote into another one: the
    BUFFER that has the value, and when it was last written then. `known` is the graph over the BUFFERs in `versions`;
    it retains the nodes that graphs have for tensors from before a write to them.

    `memory` refers to the memory, `at` is when it got the value, `length` is the number of entries on the longest chain
    of inputs, and `used` says that a backward has gone through.
    """

    tracked: bool
    used: bool
    at: int
    length: int

    __slots__ = (
        "__weakref__", "at", "depends", "inputs", "known", "length", "lost", "memory", "node", "rows", "tracked",
        "used", "versions",
    )  # fmt: skip

    def __init__(self, tracked: bool) -> None:
        self.tracked, self.used = tracked, False
        self.at, self.length = 0, 1
        self.memory: weakref.ref[UOp] | None = None
        self.node: UOp | None = None
        self.known: UOp | None = None
        self.rows: Rows | None = None
        self.lost: str = ""
        self.inputs: Mapping[UOp, TapeEntry] = _NONE
        self.versions: Mapping[UOp, MemoryVersion] = _NONE
        self.depends: Collection[weakref.ref[UOp]] = ()

    def input_entries(self) -> Collection[TapeEntry]:
        """Return the entries of what its graph reads."""
        return self.rows.entries() if self.rows is not None else self.inputs.values()
