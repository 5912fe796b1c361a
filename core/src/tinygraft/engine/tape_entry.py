"""TapeEntry, how one version of some memory was computed; and a graph as rows, where nothing has asked a gradient.

    rows = rows_of(inside, behind, pin)
    rows.node(leaf)          # the graph again, leaf(TapedMemory) giving the node of each memory

A row is an op, its dtype, its sources (numbers of rows, or whole graphs that read no memory), its arg and its tag. Of
memory it keeps a weak reference, what it is like, and its entry on the tape; memory of up to PINNED bytes it holds, so
that an index or a scalar that nobody else holds is still there.
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
    """Whether memory may be held for the sake of a gradient that nobody has asked for."""
    return memory.op is Ops.BUFFER and memory.arg.size * memory.dtype.itemsize <= PINNED


class TapedMemory:
    """Memory that a graph reads: a BUFFER, or a MULTI over several. It may be gone; then it is only known what it was.

    parts has the device, the number of elements and the shape of each BUFFER, at when it was last written then.
    """

    __slots__ = ("arg", "at", "dtype", "entry", "is_multi", "parts", "pin", "ref")

    def __init__(self, node: UOp, entry: TapeEntry | None, pin: bool, at: tuple[int, ...]) -> None:
        buffers = buffers_of(node)
        self.at = at
        self.ref, self.entry, self.dtype, self.arg = weakref.ref(node), entry, node.dtype, node.arg
        self.is_multi = node.op is Ops.MULTI
        shapes = [part.shape for part in node.src] if self.is_multi else [node.shape]
        self.parts: tuple[tuple[str, int, Shape], ...] = tuple(
            [(buffer.src[0].arg, buffer.arg.size, shape) for buffer, shape in zip(buffers, shapes, strict=True)]
        )
        self.pin = node if pin and is_small(node) else None

    def unknown(self) -> UOp:
        """A node like the memory, over new BUFFERs that never get a value."""
        made = []
        for device, size, shape in self.parts:
            buffer = UOp.buffer(device, size, self.dtype)
            made.append(buffer if shape == buffer.shape else UOp(Ops.RESHAPE, self.dtype, (buffer,), shape))
        return UOp(Ops.MULTI, self.dtype, tuple(made), self.arg) if self.is_multi else made[0]


class Rows:
    """A graph whose last row is its result."""

    __slots__ = ("_rows", "memories")

    def __init__(self, rows: list[NodeRow | TapedMemory]) -> None:
        self._rows = rows
        self.memories = [row for row in rows if isinstance(row, TapedMemory)]

    def node(self, leaf: Callable[[TapedMemory], UOp]) -> UOp:
        """The graph, with what leaf gives in the place of memory."""
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
        """The entries of the memory that it reads."""
        return [memory.entry for memory in self.memories if memory.entry is not None]

    def buffers(self) -> set[UOp]:
        """The BUFFERs that it reads and that are still there."""
        return {b for memory in self.memories if (node := memory.ref()) is not None for b in buffers_of(node)}


def rows_of(inside: Sequence[UOp], behind: Mapping[UOp, TapeEntry], pin: bool, versions: Mapping[UOp, tuple[UOp, int]],
            new: Mapping[UOp, UOp]) -> Rows:  # fmt: skip
    """The graph whose nodes down to its memory are inside, sources before users. pin: whether small memory is held.

    versions says which BUFFER has the value of one in the graph, and when it was written; new are those that only stand
    for others.
    """
    numbers: dict[UOp, int] = {}
    rows: list[NodeRow | TapedMemory] = []
    for node in inside:
        if node.op in HELD:
            at = tuple([versions.get(buffer, (buffer, 0))[1] for buffer in buffers_of(node)])
            memory = rebuild((node,), dict(new))[node] if new else node
            rows.append(TapedMemory(memory, behind.get(node), pin, at))
        else:
            sources = tuple([numbers.get(source, source) for source in node.src])
            if node is not inside[-1] and not any(type(source) is int for source in sources):
                continue  # it reads no memory: it is kept as it is
            rows.append((node.op, node.dtype, sources, node.arg, node.tag))
        numbers[node] = len(rows) - 1
    return Rows(rows)


class TapeEntry:
    """How one version of some memory was computed.

    node is the graph (asks: something in it has requires_grad=True), rows is the graph where nothing asks, and lost is
    the sentence of the error where neither was kept. behind has the entry of each memory that the graph reads, if that
    was computed itself. versions has, for BUFFERs in node that had been written over, or that stand for what the same
    run wrote into another one: the BUFFER that has the value, and when it was last written then. depends are the
    memories at the ends of a lost graph. known is the graph over the BUFFERs in versions, which keeps the nodes by
    which tensors were known before they were written to. home is the memory, where that is still there, at when the
    value was there, length the number of entries behind one another, and used says that a backward has gone through.
    """

    __slots__ = (
        "__weakref__", "asks", "at", "behind", "depends", "home", "known", "length", "lost", "node", "rows", "used",
        "versions",
    )  # fmt: skip

    def __init__(self, asks: bool) -> None:
        self.asks, self.used = asks, False
        self.at, self.length = 0, 1
        self.home: weakref.ref[UOp] | None = None
        self.node: UOp | None = None
        self.known: UOp | None = None
        self.rows: Rows | None = None
        self.lost = ""
        self.behind: Mapping[UOp, TapeEntry] = _NONE
        self.versions: Mapping[UOp, MemoryVersion] = _NONE
        self.depends: Collection[weakref.ref[UOp]] = ()

    def entries_behind(self) -> Collection[TapeEntry]:
        """The entries of what its graph reads."""
        return self.rows.entries() if self.rows is not None else self.behind.values()
