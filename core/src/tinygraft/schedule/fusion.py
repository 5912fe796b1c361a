"""Fusion: which stored nodes one kernel computes.

A stored node joins the kernel of a node that it reads, or of one that reads the same buffer, when both have the same
loops (or the shorter loops are the outer ones of the longer) and no third kernel has to run between them. Then what
it reads at its own index needs no load, and common subexpressions are computed once. An ASSIGN may also join one that
has the same loops and reads other memory: parameters in two groups of an optimizer are updated in one kernel. So may
the parts of a long reduction (regroup.py): the norms of many large tensors are few kernels.

A model repeats its layers, so most kernels are equal to an earlier one. A Book caches the result of each step by the
form of its nodes: a kernel equal to an earlier one is not lowered again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tinygraft.schedule.again import StoreMore
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.effort import spend
from tinygraft.schedule.kernel_body import numel, output_loops
from tinygraft.schedule.regroup import FEW, PARTS
from tinygraft.schedule.sections import sections_of
from tinygraft.schedule.weighing import LONGEST, MIN_ROWS, MUCH, OWN_PARAMS, is_product
from tinygraft.target import Target
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, high, sint
from tinygraft.uop.stages import Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder

# assumed: the factor itself. What it keeps out was measured: an update of Adam at the end of a product of
# 768x3072x512 takes 12.9 ms in one kernel, 10.2 + 1.2 in two (benchmarks/NOTES.md, 2026-11-20)
FEWER = 8  # times fewer elements than it has results that a node joining a product may read from other buffers
# assumed: never measured
TINY = 16  # elements up to which kernels are joined only because there are fewer then
# measured: 24 updates of SGD with momentum, 2 threads of an EPYC, 2026-11-24: of 262,144 elements each 2.7 ms in
# kernels of one, 2.9 of two, 3.1 of four, 4.1 of eight (24 streams of memory); of 65,536 0.66, 0.63, 0.75 and 0.89; of
# up to 4,096 eight are fastest. On 2026-11-28, Adam of 24: of 16,384 elements 0.69 ms in 8 kernels and 0.74 in 2, of
# 32,768 0.87 and 0.94; SGD, and a GPT of eight layers with tensors of 64 to 16,384, take as long either way
STREAMS = 16  # buffers up to which a processor's kernel gets nodes that share nothing large with it
STREAMED = 1 << 14  # elements above which that holds; below it launches cost more
# measured: products of 3 rows with 384x64 weights compile in 0.6 s in a kernel of 8, 1.1 s of 12, 2.9 s of 16 and
# 7.7 s of 36 (2 cores, 2026-11-28)
REDUCTIONS = 8  # reductions that a kernel has at most where their results have more than TINY elements
LATEST = 8  # of the kernels that read the same memory only the latest so many are candidates for a node
NAMED = frozenset({Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE, Ops.BIND})  # equal ones are the same object


@dataclass(frozen=True, slots=True)
class FusionState:
    """A kernel without the names of its buffers.

    `number` is equal for kernels that were put together by equal steps.
    """

    number: int
    ops: int = 0  # instructions, those of composite ops counted
    buffers: int = 0  # that it reads or writes
    reductions: int = 0
    product: bool = False  # one of the reductions reads its operands many times over


class Book:
    """A cache of kernel states, by the steps in which kernels were put together. There is one for each schedule."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, Any] = {}

    def number(self, key: Hashable) -> int:
        """Return a number for a key, the same for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def once(self, key: Hashable, work: Callable[[], Any]) -> Any:
        """Return the result of `work`, which has to depend on nothing but `key`, from the cache where it is known.

        A StoreMore is not cached, since it names nodes of one graph.
        """
        if key not in self._known:
            spend()
            found = work()
            if isinstance(found, StoreMore):
                return found
            self._known[key] = found
        return self._known[key]


@dataclass(frozen=True, slots=True)
class KernelPart:
    """A stored node as a part of a kernel.

    `form` is equal for nodes that compute the same from other memory; `leaves` is that memory, in the order in which
    the form numbers it. `loops` is what the loops are over: the shape of the node, or of a section of it.
    """

    node: UOp
    form: int
    leaves: tuple[UOp, ...]
    loops: Shape


class Group:
    """A kernel to which nodes are added: the stored nodes that it computes, and the memory that they need.

    Its state is looked up in `book` by the steps that made it, so of equal kernels only the first is lowered.
    `number` is its index among the kernels of the schedule.
    """

    number: int
    device: str
    memory: Mapping[UOp, UOp]
    book: Book
    state: FusionState

    def __init__(self, number: int, device: str, memory: Mapping[UOp, UOp], book: Book) -> None:
        self.number, self.device, self.memory, self.book = number, device, memory, book
        self.nodes: list[UOp] = []
        self.needs: set[UOp] = set()
        self.sizes: list[sint] = []
        self.numbers: dict[UOp, int] = {}  # buffer -> its number in this kernel, in the order in which parts name them
        self.state = FusionState(-1)
        self._draft: Draft | None = None

    def join(self, part: KernelPart, needs: set[UOp]) -> bool | StoreMore:
        """Compute and store the node of `part` here, from the memory `needs`; return whether it fits.

        Returns StoreMore where a loop would repeat a reduction. The group is unchanged unless it fits.
        """
        entry, buffers = self._entry(part)
        state = self.book.once((self.state.number, entry), lambda: self._extended(part, needs, entry))
        if state is None:
            return False
        if isinstance(state, StoreMore):
            self._draft = None  # it has the node
            return state
        if self._draft is not None and len(self._draft.lowering.members) == len(self.nodes):
            self._draft = None  # the state came from the book: this draft has one node fewer
        self.nodes.append(part.node)
        self.needs |= needs
        self.numbers, self.state = buffers, state
        sizes = output_loops(part.loops)
        self.sizes = sizes if len(sizes) > len(self.sizes) else self.sizes
        return True

    def _entry(self, part: KernelPart) -> tuple[Hashable, dict[UOp, int]]:
        """Return a key of how `part` is connected to this kernel, and the numbers of all buffers if it joins.

        The key has the form of the part and, for each buffer of it, its number here, its size and which node of this
        kernel computes its value, -1 for none.
        """
        buffers = dict(self.numbers)
        labels = []
        for leaf in (*part.leaves, part.node):
            buffer = self.memory.get(leaf, leaf)
            here = self.nodes.index(leaf) if leaf in self.nodes else -1
            labels.append((buffers.setdefault(buffer, len(buffers)), buffer.arg.size, here))
        return (part.form, tuple(labels)), buffers

    def _extended(self, part: KernelPart, needs: set[UOp], entry: Hashable) -> FusionState | StoreMore | None:
        """Return the state with `part` added, by lowering it; None where it does not fit. `entry` is its key.

        Returns StoreMore for reductions that the kernel would repeat. The draft then has the node, and `join` adds it
        to the other fields; where it does not fit the draft stays without it.
        """
        node = part.node
        if self.state.product and (
            not any(leaf in self.nodes for leaf in part.leaves)
            or any(
                self.memory.get(leaf, leaf) not in self.numbers and numel(leaf.shape) * FEWER > numel(node.shape)
                for leaf in part.leaves
            )
        ):
            return None  # the epilogue of a product may read little: each tile would wait for that memory
        draft = self.draft()
        before = set(draft.lowering.reduces)
        if not draft.add(node, needs):
            return None
        reduces = draft.lowering.reduces
        new = [r for r in reduces if r not in before]
        product = any(_is_matrix_product(r) for r in new)
        if before and new and (product or self.state.product):
            self._draft = None  # a product of matrices shares its loops with no other reduction
            return None
        if again := draft.repeated():
            return StoreMore(frozenset(again))
        if before and new and len(reduces) > REDUCTIONS and numel(node.shape) > TINY:
            self._draft = None  # each is unrolled, and a compiler's time grows faster than what it is given
            return None
        number, lowering = self.book.number((self.state.number, entry)), draft.lowering
        ops = len(lowering.values) + lowering.length
        return FusionState(number, ops, len(lowering.slots), len(reduces), product or self.state.product)

    def draft(self) -> Draft:
        """Return the lowered kernel; lowered now where its nodes joined by looked-up states."""
        if self._draft is None:
            self._draft = Draft(self.device, self.memory)
            for node in self.nodes:
                self._draft.add(node, self.needs)
        return self._draft

    def may_join(self, part: KernelPart, target: Target) -> bool:
        """Return whether to try `join` with `part`: a cheap check, after which `join` may still refuse.

        Requires that no node here writes the same buffer, that the loops of `part` fit these (`fits`), and that the
        kernel is well below the limits of `target`. An ASSIGN of other loops is refused, unless it is tiny.
        """
        memory, node = self.memory, part.node
        if any(memory[n] is memory[node] for n in self.nodes):
            return False
        known = all(memory.get(leaf, leaf) in self.numbers for leaf in (*part.leaves, node))
        key = ("may join", self.state.number, node.shape, part.loops, node.op is Ops.ASSIGN, known)
        return bool(self.book.once(key, lambda: self._has_room(node, part.loops, known, target)))

    def _has_room(self, node: UOp, loops: Shape, known: bool, target: Target) -> bool:
        """Return whether `node`, with `loops`, fits those of this kernel, and it is well below the Target's limits.

        What `node` adds is known only when it is lowered. It is at most half of the operations that a Target allows,
        for stored.py cuts longer chains, so half has to be free; and no buffers where all of its are `known` here. An
        assignment outside of the innermost loop is refused unless it is tiny.
        """
        if self.is_beside(node) and numel(node.shape) > TINY:
            return False  # the assignment waits for all readers of the old value, and this kernel would wait with it
        room = known or self.state.buffers < target.max_params - OWN_PARAMS
        return room and self.state.ops < target.max_ops / LONGEST and self.fits(loops)

    def has_streams(self, part: KernelPart, target: Target) -> bool:
        """Return whether a part that shares no large memory with this kernel may join: a processor follows STREAMS."""
        if target.grid_dims or (numel(part.node.shape) <= STREAMED and not _is_of_parts(part.node)):
            return True
        return len(self._entry(part)[1]) <= STREAMS

    def is_beside(self, node: UOp) -> bool:
        """Return whether `node` is an ASSIGN with more or fewer loops than the kernel's outputs with the most loops."""
        return node.op is Ops.ASSIGN and len(output_loops(node.shape)) != len(self.sizes)

    def fits(self, shape: Shape) -> bool:
        """Return whether an output with loops over `shape` can share those of this kernel.

        The loops of one have to be the outer loops of the other. Where one has fewer, the shared loops need MIN_ROWS
        iterations to be parallelised, unless the whole is small.
        """
        sizes = output_loops(shape)
        shorter, longer = sorted((self.sizes, sizes), key=len)
        if any(a is not b and not (isinstance(a, int) and a == b) for a, b in zip(shorter, longer, strict=False)):
            return False
        if len(shorter) == len(longer):
            return True
        rows, total = 1, 1
        for i, size in enumerate(longer):
            rows *= high(size) if i < len(shorter) else 1
            total *= high(size)
        return rows >= MIN_ROWS or total <= MUCH

    @property
    def elements(self) -> int:
        """Return how many elements the largest output has."""
        return max(numel(n.shape) for n in self.nodes)

    def overwritten(self) -> set[UOp]:
        """Return the ASSIGNs here whose old value is read at another index than the new one is written."""
        if not any(node.op is Ops.ASSIGN for node in self.nodes):
            return set()
        found = self.book.once(("overwritten", self.state.number), self._overwritten)
        return {self.nodes[i] for i in found}

    def _overwritten(self) -> list[int]:
        """Return the indices in `nodes` of `overwritten`: the book caches numbers, as nodes differ between graphs."""
        return [self.nodes.index(node) for node in self.draft().overwritten()]

    def call(self) -> KernelCall:
        """Return the call of this kernel on its buffers; of equal kernels the Kernel is one object, from the book."""
        kernel, params, written = self.book.once(("call", self.state.number), self._call)
        buffers = list(self.numbers)
        return KernelCall(kernel, self.device, tuple(buffers[number] for number in params), written)

    def _call(self) -> tuple[Kernel, tuple[int, ...], tuple[int, ...]]:
        """Return the kernel, the number here of the buffer of each slot, and the slots that it writes."""
        call = self.draft().call()
        return call.kernel, tuple(self.numbers[buffer] for buffer in call.buffers), call.written


def part_of(node: UOp, memory: Mapping[UOp, UOp], book: Book) -> KernelPart:
    """Return the stored node `node` as a part of a kernel: its graph, with other stored nodes and BUFFERs as leaves.

    Of an ASSIGN it is the graph of the new value. `memory` maps each stored node to its BUFFER, `book` gives equal
    forms one number. The form has the shapes and dtypes of the leaves and not which memory they are.
    """
    root = node.src[1] if node.op is Ops.ASSIGN else node
    key: list[Hashable] = [(node.op is Ops.ASSIGN, node.dtype, node.shape)]
    numbers: dict[UOp, int] = {}
    leaves: list[UOp] = []
    stack = [root]
    while stack:
        current = stack[-1]
        if current in numbers:
            stack.pop()
            continue
        if current.op is Ops.BUFFER or (current in memory and current is not node):
            leaves.append(current)
            key.append((current.shape, current.dtype))
        elif current.op in NAMED:
            key.append(current)
        else:
            missing = [source for source in reversed(current.src) if source not in numbers]
            if missing:
                stack += missing
                continue
            key.append((current.op, current.dtype, current.arg, *[numbers[source] for source in current.src]))
        numbers[current] = len(numbers)
        stack.pop()
    sections = sections_of(node, memory)
    loops = node.shape if sections is None else sections.loops(node.shape)
    return KernelPart(node, book.number(tuple(key)), tuple(leaves), loops)


def group_nodes(stored: Sequence[UOp], alone: Set[UOp], memory: Mapping[UOp, UOp], needs: Mapping[UOp, set[UOp]],
                target: Target, book: Book) -> list[Group] | StoreMore:  # fmt: skip
    """Return the kernels that compute the stored nodes, without those of `alone`, which have kernels of their own.

    `stored` has sources before users; `memory` maps a node to its BUFFER, and `needs` to the memory that it is computed
    from or waits for. A node joins the first of its candidates that it fits. Returns StoreMore where reductions would
    be repeated in loops that they do not depend on: all of them, since every request repeats this for the
    whole graph. `book` caches the states of kernels.
    """
    groups: list[Group] = []
    repeated: set[UOp] = set()
    home: dict[UOp, Group] = {}
    reading, waits = _Reading(), _KernelWaits(needs, home)
    readers: dict[UOp, list[UOp]] = {}
    for node in stored:
        for need in needs[node]:
            readers.setdefault(need, []).append(node)
    for number, node in enumerate(stored):
        if node in alone:
            waits.note(node, number)
            continue
        device = node.device or ""
        part = part_of(node, memory, book)
        joined: bool | StoreMore = False
        for group, related in _candidates(part, needs[node], home, memory, reading):
            if not related and not group.has_streams(part, target):
                continue
            if group.device == device and group.may_join(part, target) and not waits.between(node, group):
                if node.op is Ops.ASSIGN and not _can_be_last(node, group, readers, waits):
                    continue
                if joined := group.join(part, needs[node]):
                    break
        else:
            group = Group(len(groups), device, memory, book)
            groups.append(group)
            joined = group.join(part, needs[node])
        if isinstance(joined, StoreMore):
            repeated |= joined.nodes
        else:
            home[node] = group
            reading.note(group, part, needs[node])
        waits.note(node, number)
    return StoreMore(frozenset(repeated)) if repeated else groups


class _Reading:
    """An index of kernels by the memory that they read, and by their loops, to find candidates for a node."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Group, None]] = {}

    def note(self, group: Group, part: KernelPart, needs: set[UOp]) -> None:
        """Record that `part`, which reads `needs`, was put into `group`."""
        loops = tuple(output_loops(part.loops))
        beside = [(part.node.op, loops)] if _has_others_beside(part.node) else []
        for key in (*needs, loops, *beside, *([TINY] if numel(part.node.shape) <= TINY else ())):
            known = self._known.setdefault(key, {})
            known.pop(group, None)  # a dict keeps the order of insertion: the latest goes to the end
            known[group] = None

    def sharers(self, part: KernelPart, needs: Iterable[UOp]) -> set[Group]:
        """Return, for each of `needs`, the LATEST kernels that read it too; without `needs` those of the part's loops.

        For a node of at most TINY elements also the LATEST kernels as small, whatever they read: then launches are what
        costs. The kernels that compute `needs` are not among them unless they read some of it.
        """
        keys: list[Hashable] = [*needs] if needs else [tuple(output_loops(part.loops))]
        found = {group for key in keys for group in list(self._known.get(key, ()))[-LATEST:]}
        if numel(part.node.shape) <= TINY:
            found |= {group for group in list(self._known.get(TINY, ()))[-LATEST:] if group.elements <= TINY}
        return found

    def beside(self, part: KernelPart) -> set[Group]:
        """Return the LATEST kernels with a node of this kind over the same loops, whatever they read.

        For an ASSIGN and for parts of a long reduction; of other kinds there are none.
        """
        if not _has_others_beside(part.node):
            return set()
        return set(list(self._known.get((part.node.op, tuple(output_loops(part.loops))), ()))[-LATEST:])


def _has_others_beside(node: UOp) -> bool:
    """Return whether nodes like this one are computed beside each other although they share no memory."""
    return node.op is Ops.ASSIGN or _is_of_parts(node)


def _is_of_parts(node: UOp) -> bool:
    """Return whether a node is the stored results of the parts of a reduction to few results, as regroup.py cuts it."""
    return node.op is Ops.CONTIGUOUS and node.src[0].op is Ops.REDUCE_AXIS and numel(node.shape) <= FEW * PARTS


def _candidates(
    part: KernelPart, needs: set[UOp], home: Mapping[UOp, Group], memory: Mapping[UOp, UOp], reading: _Reading
) -> list[tuple[Group, bool]]:
    """Return the kernels that a part may join, each with whether it has large memory in common with the part.

    First those that it reads from, then those that read as large memory, then other `sharers`, then those `beside`;
    the latest is the first of each.
    """
    producers = {home[n] for n in needs if n in home}
    elements = numel(part.node.shape)
    large = [n for n in needs if memory.get(n, n).arg.size * FEWER >= elements]
    close = (reading.sharers(part, large) if large else set()) - producers
    sharers = reading.sharers(part, needs) - producers - close
    beside = reading.beside(part) - producers - close - sharers
    kinds = ((producers, True), (close, True), (sharers, False), (beside, False))
    return [(group, related) for found, related in kinds for group in sorted(found, key=lambda g: -g.number)]


class _KernelWaits:
    """Which kernels have to wait for which. `home` has the kernel of a node; a node without is a kernel of its own.

    Nodes are noted in topological order, and numbered in it. `latest` has, for each kernel, the number of the last
    node in it and in all kernels that it waits for. Where that is less than the first number in another kernel, the
    one does not wait for the other: so a search goes no further back than the kernel that it looks for.
    """

    def __init__(self, needs: Mapping[UOp, set[UOp]], home: Mapping[UOp, Group]) -> None:
        self.needs, self.home = needs, home
        self.latest: dict[Group | UOp, int] = {}
        self.first: dict[Group | UOp, int] = {}
        self._users: dict[Group | UOp, set[Group | UOp]] = {}
        self._waited: dict[Group | UOp, set[Group | UOp]] = {}  # kernel -> those that it waits for itself

    def note(self, node: UOp, number: int) -> None:
        """Record that node `number` was put into its kernel, and update `latest` of all kernels that wait for that."""
        kernel = self.home.get(node, node)
        self.first.setdefault(kernel, number)
        waited = self._kernels_of(node) - {kernel}
        self._waited.setdefault(kernel, set()).update(waited)
        for other in waited:
            self._users.setdefault(other, set()).add(kernel)
        stack = [(kernel, max([number, *(self.latest.get(other, -1) for other in waited)]))]
        while stack:
            other, last = stack.pop()
            if self.latest.get(other, -1) < last:
                self.latest[other] = last
                stack += [(user, last) for user in self._users.get(other, ())]

    def between(self, node: UOp, group: Group) -> bool:
        """Return whether a kernel that `node` needs, other than `group`, waits for `group`.

        It would then have to run between `group` and `node`, which can not be one kernel.
        """
        first, latest = self.first[group], self.latest
        seen: set[Group | UOp] = set()
        stack = list(self._kernels_of(node) - {group})
        while stack:
            kernel = stack.pop()
            if kernel is group:
                return True
            if kernel not in seen and latest.get(kernel, first + 1) > first:  # a kernel without number comes later
                seen.add(kernel)
                waited = self._waited.get(kernel)
                stack.extend(self._kernels_of(kernel) if waited is None else waited)
        return False

    def _kernels_of(self, node: Any) -> set[Group | UOp]:
        """Return the kernels that write what a node needs. Memory that existed before has none."""
        return {self.home.get(need, need) for need in self.needs[node] if need in self.needs}


def _can_be_last(node: UOp, group: Group, readers: Mapping[UOp, list[UOp]], waits: _KernelWaits) -> bool:
    """Return whether the ASSIGN `node` can be in `group`, which then runs after all other readers of the old value.

    It cannot where such a reader has to wait for `group`. `readers` has the nodes that need a value, `waits` says which
    kernels wait for which.
    """
    old, home = memory_base(node.src[0]), waits.home
    return not any(
        any(home.get(n) is group for n in waits.needs[reader]) or waits.between(reader, group)
        for reader in readers.get(old, ())
        if reader is not node and home.get(reader) is not group
    )


def _is_matrix_product(reduce: UOp) -> bool:
    """Return whether a REDUCE reads each element of its operands many times, as a product of matrices does."""
    inside = reduce.src[0]
    body = postorder(inside)
    sizes = {n.arg.axis: high(n.src[0].hi) for n in body if n.op is Ops.RANGE}

    def iterations(mask: int) -> int:
        """Return how many iterations the loops of a mask of axes have together."""
        return math.prod(size for axis, size in sizes.items() if mask >> axis & 1)

    loads = [n for n in body if n.op is Ops.LOAD]
    return is_product(iterations(inside.ranges), [min(n.src[0].arg.size, iterations(n.src[1].ranges)) for n in loads])
