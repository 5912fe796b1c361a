"""LLVM IR, memory: LOAD and STORE, by the stride of their indices from lane to lane.

Stride 1 is one access. Of a small stride s, lanes are shuffled from s accesses of whole rows. Lanes of a large stride
whose unrolled copies are contiguous, a block of a matrix read or written across its rows, are accesses along the rows
and a transposition in registers. Lanes at computed addresses are one gather where the machine has that for elements of
their size. All others are one access for each lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tinygraft.render.branches import RareOperands, behind_gates, rare_operands
from tinygraft.render.dialect import MatrixWords
from tinygraft.render.late_terms import late_terms
from tinygraft.render.llvm_block import TYPES, BasicBlocks, stored_type, suffix, type_of, type_word, zero
from tinygraft.render.text import Writer, memory, streamed
from tinygraft.uop.linear import Lane
from tinygraft.uop.ops import Ops, StoreHint
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp

MOST_APART = 4  # elements from lane to lane up to which whole rows are loaded


class MemoryWriter(Writer, BasicBlocks):
    """The part of a kernel's text that loads and stores."""

    def __init__(
        self, linear: Linear, converts_half: bool, matrix: Mapping[str, MatrixWords], gathers: tuple[int, ...]
    ) -> None:
        Writer.__init__(self, linear, matrix)
        BasicBlocks.__init__(self, linear.name, converts_half)
        self.gathers = gathers
        self.behind = behind_gates(linear.uops) if not self.walk.unrolled and not self.walk.vectors else {}
        self.rare = rare_operands(linear.uops)
        self.late: set[UOp] = {u for nodes in self.behind.values() for u in nodes}
        self.late |= {u for rare in self.rare.values() for u in rare.nodes}
        self.terms = late_terms(linear.uops, self.walk.unrolled) if not self.late else {}
        self.late |= {u for nodes in self.terms.values() for u in nodes}
        self.slots: list[str] = []  # stack slots, at the function's entry

    def local(self, u: UOp) -> None:
        """Declare a pointer into the thread's scratch memory."""
        name = f"%local{u.arg.number}"
        self.slots.append(f"  {name} = getelementptr inbounds i8, ptr %scratch, i64 {self.scratch[u]}")

    def load(self, u: UOp) -> None:
        """Write all copies of a LOAD; one that is behind a gate is written with its store."""
        if u not in self.walk.whole or u in self.late:
            return
        across = self.walk.accesses[u].across
        if across is not None and self._reads_blocks(u, across):
            for lane in self._blocks(u, across):
                self._load_block(u, lane, across)
            return
        for lane in self.walk.lanes(u):
            self.names[u, self.walk.copy(u, lane)] = self._load(u, lane)

    def elementwise(self, u: UOp) -> None:
        """Write each copy of an elementwise op, unless it is written later: behind a branch, or beside a sum."""
        if u in self.late:
            return
        if (rare := self.rare.get(u)) is not None:
            for lane in self.walk.lanes(u):
                self._rare(rare, lane)
        super().elementwise(u)

    def before_sum(self, u: UOp, lane: Lane) -> None:
        """Write one copy of what only the sum `u` needs (late_terms.py)."""
        for node in self.terms.get(u, ()):
            self.one_copy(node, lane)

    def _rare(self, rare: RareOperands, lane: Lane) -> None:
        """Write one copy of what is computed only where the condition holds in some lane, behind a branch."""
        condition, width = rare.condition, self.walk.width(rare.condition)
        some = self.operand(condition, lane, width)
        if width > 1:
            bits = self.let(f"bitcast {type_word('i1', width)} {some} to i{width}", "bits")
            some = self.let(f"icmp ne i{width} {bits}, 0", "some")
        self.counter += 1
        then, done, before = f"rare{self.counter}", f"usual{self.counter}", self.block
        self.do(f"br i1 {some}, label %{then}, label %{done}")
        self.label(then)
        self.splats.append({})
        for node in rare.nodes:
            self.one_copy(node, lane)
        self.splats.pop()
        then = self.block
        self.do(f"br label %{done}")
        self.label(done)
        for node in rare.operands:
            copy, width = self.walk.copy(node, lane), self.walk.width(node)
            type_ = type_of(node.dtype, width)
            ways = f"[ {self.names[node, copy]}, %{then} ], [ {self.zeros(node.dtype, width)}, %{before} ]"
            self.names[node, copy] = self.let(f"phi {type_} {ways}", "chosen")

    def _reads_blocks(self, u: UOp, across: UOp) -> bool:
        """Return whether a LOAD can read whole rows along the range `across`.

        With a gate, it has to be open for all of a row or none of it, and the buffer has to have a row's elements to
        read instead where it is closed.
        """
        if len(u.src) == 2:
            return True
        whole = memory(u.src[0]).arg.size >= int(across.src[0].arg)
        return whole and not u.src[2].ranges >> across.arg.axis & 1

    def store(self, u: UOp) -> None:
        """Write all copies of a STORE, in order.

        There is none to memory of no elements. Blocks whose rows follow each other are interleaved, others transposed
        unless a gate differs between lanes.
        """
        if not memory(u.src[0]).arg.size:
            return
        across = self.walk.accesses[u].across
        if across is not None and self.walk.accesses[u].stride == int(across.src[0].arg):
            for lane in self._blocks(u, across):
                self._store_interleaved(u, lane, across)
            return
        if across is not None and (len(u.src) == 3 or self.walk.vector(u.src[3]) is None):
            for lane in self._blocks(u, across):
                self._store_block(u, lane, across)
            return
        for lane in self.walk.lanes(u):
            if self.walk.accesses[u].is_row:
                self._store_row(u, lane)
            else:
                self._store_lanes(u, lane)

    def _blocks(self, u: UOp, across: UOp) -> Iterator[Lane]:
        """Return the copies of `u` that are the first along the range `across`."""
        return (lane for lane in self.walk.lanes(u) if lane[across.arg.axis] == 0)

    def pointer(self, place: UOp, index: UOp, lane: Lane) -> str:
        """Return the address of an element."""
        return self._address(place, self.scalar(index, lane))

    def _address(self, place: UOp, index: str, inside: bool = True) -> str:
        """Return the address of an element; `inside` guarantees that it is in its buffer."""
        mem = memory(place)
        base = f"%data{mem.arg.slot}" if mem.op is Ops.PARAM else f"%local{mem.arg.number}"
        word = "getelementptr inbounds" if inside else "getelementptr"
        return self.let(f"{word} {stored_type(mem.dtype)}, ptr {base}, i64 {index}", "p")

    def _lane_index(self, u: UOp, lane: Lane, k: int) -> str:
        """Return the index of lane `k` of a LOAD or STORE."""
        access, index = self.walk.accesses[u], u.src[1]
        if access.stride is None:
            return self.lane(self.names[index, self.walk.copy(index, lane)], f"<{access.width} x i64>", k)
        base = self.scalar(index, lane)
        step = k * access.stride
        return base if step == 0 else self.let(f"add nsw i64 {base}, {step}", "at")

    def _lane_of(self, u: UOp, lane: Lane, k: int) -> str:
        """Return lane `k` of a value; the value itself when it is a scalar."""
        name = self.names[u, self.walk.copy(u, lane)]
        width = self.walk.width(u)
        return name if width == 1 else self.lane(name, type_of(u.dtype, width), k)

    def _load(self, u: UOp, lane: Lane) -> str:
        """Write one copy of a LOAD, and return the name of its value.

        A row is one access, lanes a few elements apart are picked from a few, lanes at computed addresses are one
        gather where the machine has it, others are loaded one by one.
        """
        access, gate = self.walk.accesses[u], u.src[2] if len(u.src) > 2 else None
        if memory(u.src[0]).arg.size == 0:  # there is no memory: the gate is never open
            return self.zeros(u.dtype, access.width)
        if access.is_row:
            return self._load_row(u, lane, gate)
        if access.width > 1 and access.stride is not None and (access.stride == -1 or 2 <= access.stride <= MOST_APART):
            if gate is not None and self._is_behind_one(u, gate):
                return self._load_behind_one(u, lane, gate)
            return self._load_apart(u, lane, gate, self.scalar(u.src[1], lane))
        if access.width > 1 and access.stride is None and u.dtype.itemsize in self.gathers:
            return self._gather(u, lane, gate)
        values = [self._load_one(u, lane, gate, k) for k in range(access.width)]
        if access.width == 1:
            return values[0]
        element, result = TYPES[u.dtype], "poison"
        for k, value in enumerate(values):
            vector = type_word(element, access.width)
            result = self.let(f"insertelement {vector} {result}, {element} {value}, i64 {k}", "set")
        return result

    def _load_one(self, u: UOp, lane: Lane, gate: UOp | None, k: int) -> str:
        """Load lane `k` of a LOAD. With a closed gate it reads element 0, which always exists, and returns 0."""
        index = self._lane_index(u, lane, k)
        is_open = "" if gate is None else self._lane_of(gate, lane, k)
        if is_open:
            index = self.let(f"select i1 {is_open}, i64 {index}, i64 0", "safe")
        pointer = self._address(u.src[0], index)
        value = self.let(f"load {stored_type(u.dtype)}, ptr {pointer}, align {u.dtype.itemsize}", "load")
        value = self.from_memory(value, u.dtype, 1)
        if not is_open:
            return value
        element = TYPES[u.dtype]
        return self.let(f"select i1 {is_open}, {element} {value}, {element} {zero(u.dtype)}", "load")

    def _gather(self, u: UOp, lane: Lane, gate: UOp | None) -> str:
        """Return the vector that a LOAD of lanes at computed addresses yields; 0 in lanes where `gate` is closed."""
        width, place = self.walk.accesses[u].width, memory(u.src[0])
        stored = stored_type(u.dtype)
        vector, pointers = type_word(stored, width), type_word("ptr", width)
        base = f"%data{place.arg.slot}" if place.op is Ops.PARAM else f"%local{place.arg.number}"
        indices = self.operand(u.src[1], lane, width)
        at = self.let(f"getelementptr {stored}, ptr {base}, {type_word('i64', width)} {indices}", "p")
        mask = f"<{', '.join(['i1 true'] * width)}>" if gate is None else self.operand(gate, lane, width)
        found = self.call(
            f"llvm.masked.gather.v{width}{suffix(stored)}.v{width}p0", vector, (pointers, at),
            ("i32", str(u.dtype.itemsize)), (type_word("i1", width), mask), (vector, "zeroinitializer"),
        )  # fmt: skip
        return self.from_memory(found, u.dtype, width)

    def _is_behind_one(self, u: UOp, gate: UOp) -> bool:
        """Return whether a gate is open for all lanes of a LOAD or for none, and there is other memory to read then."""
        access = self.walk.accesses[u]
        span = (access.width - 1) * abs(access.stride or 0) + 1
        return self.walk.width(gate) == 1 and memory(u.src[0]).arg.size >= span

    def _load_behind_one(self, u: UOp, lane: Lane, gate: UOp) -> str:
        """Return a vector of lanes a few elements apart, or 0 where `gate`, one condition for all lanes, is closed.

        The start of the memory is read then: a mask for each row takes longer than an access of all lanes.
        """
        access = self.walk.accesses[u]
        is_open, first = self.operand(gate, lane, 1), 0 if (access.stride or 0) > 0 else access.width - 1
        index = self.let(f"select i1 {is_open}, i64 {self.scalar(u.src[1], lane)}, i64 {first}", "safe")
        value = self._load_apart(u, lane, None, index)
        type_ = type_of(u.dtype, access.width)
        return self.let(f"select i1 {is_open}, {type_} {value}, {type_} zeroinitializer", "load")

    def _load_row(self, u: UOp, lane: Lane, gate: UOp | None) -> str:
        """Return the vector that a LOAD of several adjacent elements yields; 0 where `gate` is closed."""
        width = self.walk.accesses[u].width
        mask = "" if gate is None else self.operand(gate, lane, width)
        return self.from_memory(self._row(u, self.scalar(u.src[1], lane), width, mask), u.dtype, width)

    def _row(self, u: UOp, index: str, width: int, mask: str) -> str:
        """Load `width` elements from `index` on, of the type in memory; 0 where `mask`, if not empty, is closed."""
        stored, align = type_word(stored_type(u.dtype), width), u.dtype.itemsize
        pointer = self._address(u.src[0], self._seen(index, mask, width), not mask)
        if not mask:
            return self.let(f"load {stored}, ptr {pointer}, align {align}", "load")
        name = f"llvm.masked.load.v{width}{suffix(stored_type(u.dtype))}.p0"
        return self.call(name, stored, ("ptr", pointer), ("i32", str(align)), (type_word("i1", width), mask),
                         (stored, "zeroinitializer"))  # fmt: skip

    def _seen(self, index: str, mask: str, width: int) -> str:
        """Return the index of a row, or 0 where all of `mask`, if not empty, is closed.

        A processor reads nothing there, but takes hundreds of cycles to find that out for memory that it may not read.
        """
        if not mask:
            return index
        bits = self.let(f"bitcast {type_word('i1', width)} {mask} to i{width}", "bits")
        some = self.let(f"icmp ne i{width} {bits}, 0", "some")
        return self.let(f"select i1 {some}, i64 {index}, i64 0", "seen")

    def _put_row(self, u: UOp, index: str, width: int, data: str, mask: str) -> None:
        """Store `width` elements from `index` on, where `mask`, if not empty, is open."""
        stored, align = type_word(stored_type(u.src[2].dtype), width), u.src[2].dtype.itemsize
        pointer = self._address(u.src[0], self._seen(index, mask, width), not mask)
        if not mask:
            self.do(f"store {stored} {data}, ptr {pointer}, align {align}")
            return
        name = f"llvm.masked.store.v{width}{suffix(stored_type(u.src[2].dtype))}.p0"
        self.call(name, "void", (stored, data), ("ptr", pointer), ("i32", str(align)), (type_word("i1", width), mask))

    def _load_apart(self, u: UOp, lane: Lane, gate: UOp | None, base: str) -> str:
        """Load lanes of a small stride, or of stride -1, by a shuffle of whole rows.

        `base` is the index of the first lane, `gate` the condition, if any.
        """
        width, stride = self.walk.accesses[u].width, self.walk.accesses[u].stride or 1
        mask = "" if gate is None else self.operand(gate, lane, width)
        elements = [k * stride if stride > 0 else width - 1 - k for k in range(width)]
        offset = 0 if stride > 0 else 1 - width  # of the first row
        # the last row ends with the last lane: elements past it may be past the end of the buffer
        starts = [min(j * width, max(elements) + 1 - width) for j in range(max(stride, 1))]
        row_of = [next(j for j, start in enumerate(starts) if 0 <= at - start < width) for at in elements]
        result = ""
        for j, start in enumerate(starts):
            lanes = {at - start: k for k, at in enumerate(elements) if row_of[k] == j}
            picked = "" if not mask else self._pick(mask, "zeroinitializer", "i1", width,
                                                     [lanes.get(e, width) for e in range(width)])  # fmt: skip
            step = offset + start
            row = self._row(u, base if step == 0 else self.let(f"add nsw i64 {base}, {step}", "at"), width, picked)
            picks = [at - start + (width if result else 0) if row_of[k] == j else k for k, at in enumerate(elements)]
            result = self._pick(result or row, row, stored_type(u.dtype), width, picks)
        return self.from_memory(result, u.dtype, width)

    def _pick(self, a: str, b: str, element: str, width: int, lanes: Sequence[int]) -> str:
        """Shuffle: return a vector of lanes of `a`, and of `b`, whose numbers come after those of `a`."""
        type_ = type_word(element, width)
        picked = ", ".join(f"i32 {k}" for k in lanes)
        return self.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(lanes)} x i32> <{picked}>", "pick")

    def _load_block(self, u: UOp, lane: Lane, across: UOp) -> None:
        """Load all copies along `across`, whose lanes are columns of a block: rows are loaded and transposed."""
        count, access = int(across.src[0].arg), self.walk.accesses[u]
        base, width = self.scalar(u.src[1], lane), access.width
        mask = self.operand(u.src[2], lane, width) if len(u.src) > 2 else ""
        rows = []
        for k in range(width):
            index = base if k == 0 else self.let(f"add nsw i64 {base}, {k * (access.stride or 0)}", "at")
            if mask:
                is_open = self.lane(mask, type_word("i1", width), k)
                index = self.let(f"select i1 {is_open}, i64 {index}, i64 0", "safe")
            rows.append(self._row(u, index, count, ""))
        for i, column in enumerate(self._transposed(rows, stored_type(u.dtype), count)[:count]):
            value = self.from_memory(column, u.dtype, width)
            if mask:
                type_ = type_of(u.dtype, width)
                value = self.let(
                    f"select {type_word('i1', width)} {mask}, {type_} {value}, {type_} zeroinitializer", "load"
                )
            self.names[u, self.walk.copy(u, lane | {across.arg.axis: i})] = value

    def _store_block(self, u: UOp, lane: Lane, across: UOp) -> None:
        """Store all copies along `across`, whose lanes are columns of a block: they are transposed to rows."""
        count, access, value = int(across.src[0].arg), self.walk.accesses[u], u.src[2]
        base, mask = self.scalar(u.src[1], lane), ""
        copies = [lane | {across.arg.axis: i} for i in range(count)]
        if len(u.src) > 3:
            mask = "poison"
            for i, copy in enumerate(copies):
                gate = self.operand(u.src[3], copy, 1)
                mask = self.let(f"insertelement {type_word('i1', count)} {mask}, i1 {gate}, i64 {i}", "set")
        columns = [
            self.to_memory(self.operand(value, copy, access.width), value.dtype, access.width) for copy in copies
        ]
        for k, row in enumerate(self._transposed(columns, stored_type(value.dtype), access.width)):
            index = base if k == 0 else self.let(f"add nsw i64 {base}, {k * (access.stride or 0)}", "at")
            self._put_row(u, index, count, row, mask)

    def _store_interleaved(self, u: UOp, lane: Lane, across: UOp) -> None:
        """Store all copies along `across`, whose lanes follow each other: element by element of each in turn."""
        count, width, dtype = int(across.src[0].arg), self.walk.accesses[u].width, u.src[2].dtype
        copies = [lane | {across.arg.axis: i} for i in range(count)]
        base = self.scalar(u.src[1], lane)
        data = [self.to_memory(self.operand(u.src[2], copy, width), dtype, width) for copy in copies]
        masks = [self.operand(u.src[3], copy, width) for copy in copies] if len(u.src) > 3 else []
        for part in range(count):
            index = base if part == 0 else self.let(f"add nsw i64 {base}, {part * width}", "at")
            row = self._interleaved(data, stored_type(dtype), width, part)
            self._put_row(u, index, width, row, self._interleaved(masks, "i1", width, part) if masks else "")

    def _interleaved(self, vectors: list[str], element: str, width: int, part: int) -> str:
        """Return elements `part` * `width` and following of `vectors` of `width` lanes with their lanes in turn."""
        count, result = len(vectors), vectors[0]
        wanted = [(at % count, at // count) for at in range(part * width, (part + 1) * width)]
        for number in range(1, count):  # each pick adds the lanes of one more vector to what has those before
            lanes = []
            for k, (vector, at) in enumerate(wanted):
                before = k if number > 1 else at
                lanes.append(width + at if vector == number else before)
            result = self._pick(result, vectors[number], element, width, lanes)
        return result

    def _transposed(self, rows: list[str], element: str, length: int) -> list[str]:
        """Return the columns of a block from its rows, and some more where the length of a row is no power of two.

        Each step interleaves row i with row i + half: after log2(rows) steps each column is contiguous (the perfect
        shuffle). Vectors that are shorter than a column grow on the way; longer ones are split at the end.
        """
        whole, count = 1 << (length - 1).bit_length(), len(rows)
        if whole > length:
            rows = [self._pick(row, row, element, length, [min(k, length - 1) for k in range(whole)]) for row in rows]
        rows = rows + rows[-1:] * ((1 << (count - 1).bit_length()) - count)
        height, length = len(rows), whole
        for _ in range(height.bit_length() - 1):
            half, mixed = len(rows) // 2, []
            zipped = [k + side for k in range(length) for side in (0, length)]
            for a, b in zip(rows[:half], rows[half:], strict=True):
                if length < height:
                    mixed.append(self._pick(a, b, element, length, zipped))
                else:
                    mixed += [self._pick(a, b, element, length, zipped[:length]),
                              self._pick(a, b, element, length, zipped[length:])]  # fmt: skip
            rows, length = mixed, length * 2 if length < height else length
        if length == count:
            return rows
        parts = range(0, length, height)
        return [self._pick(row, row, element, length, range(at, at + count)) for row in rows for at in parts]

    def _store_row(self, u: UOp, lane: Lane) -> None:
        """Write a STORE of neighbouring elements; nontemporal where so hinted, which a gated store never is."""
        width, dtype, gate = self.walk.accesses[u].width, u.src[2].dtype, u.src[3] if len(u.src) > 3 else None
        data = self.to_memory(self.operand(u.src[2], lane, width), dtype, width)
        index = self.scalar(u.src[1], lane)
        if u.arg is StoreHint.STREAM:
            stored, pointer = type_word(stored_type(dtype), width), self._address(u.src[0], index)
            self.do(f"store {stored} {data}, ptr {pointer}, align {streamed(u, width)}, !nontemporal !0")
            return
        self._put_row(u, index, width, data, "" if gate is None else self.operand(gate, lane, width))

    def _store_lanes(self, u: UOp, lane: Lane) -> None:
        """Write a STORE lane by lane, each behind a branch of its own where it is gated."""
        dtype, gate = u.src[2].dtype, u.src[3] if len(u.src) > 3 else None
        for k in range(self.walk.accesses[u].width):
            data = "" if u in self.behind else self.to_memory(self._lane_of(u.src[2], lane, k), dtype, 1)
            index, done = self._lane_index(u, lane, k), ""
            if gate is not None:
                is_open = self._lane_of(gate, lane, k)
                self.counter += 1
                then, done = f"store{self.counter}", f"stored{self.counter}"
                self.do(f"br i1 {is_open}, label %{then}, label %{done}")
                self.label(then)
            for node in self.behind.get(u, ()):
                if node.op is Ops.LOAD:
                    self.names[node, ()] = self._load_one(node, lane, None, 0)
                else:
                    super().elementwise(node)
            data = data or self.to_memory(self._lane_of(u.src[2], lane, k), dtype, 1)
            self.do(f"store {stored_type(dtype)} {data}, ptr {self._address(u.src[0], index)}, align {dtype.itemsize}")
            if done:
                self.do(f"br label %{done}")
                self.label(done)
