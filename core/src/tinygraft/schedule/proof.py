"""Prove that each call of a finished schedule reads the values that it was scheduled to read.

    check_values(steps, existing, wanted, homes)   buffers have several values in sequence: is the right one read?
    check_offsets(uses, ranges, kept)              buffers share bytes: is a value overwritten before it is read?

Both follow the calls from the first to the last and record the value in each buffer, independently of the passes that
chose the order and the offsets (order.py, inplace.py, memory.py): a check that shared their code would share their
faults. Both raise GraphError with the call, the buffer and the two values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from tinygraft.errors import GraphError
from tinygraft.uop.show import brief
from tinygraft.uop.stages import Call, CopyCall, RoutineCall
from tinygraft.uop.uop import UOp

HINT = "  hint: this is a bug of the scheduler; realize the tensors one by one"

_visits = 0


def visits() -> int:
    """Return how many buffers of calls were checked since the process started; approximate while threads run."""
    return _visits


class ProofStep(NamedTuple):
    """A call with the values that it reads and writes: (BUFFER, the node whose value it must have)."""

    call: Call
    reads: Set[tuple[UOp, UOp]]
    writes: Set[tuple[UOp, UOp]]


def check_values(steps: Sequence[ProofStep], existing: Collection[UOp], wanted: Mapping[UOp, UOp],
                 homes: Mapping[UOp, UOp]) -> None:  # fmt: skip
    """Raise GraphError where a call reads another value than it was scheduled to read.

    `existing` are the BUFFERs that have a value before the first call; `wanted` are the values that have to be in
    memory after the last, each with its BUFFER. `homes` maps a BUFFER to the one whose memory it reuses (inplace.py);
    `steps` name the former.
    """
    global _visits
    holds: dict[UOp, set[UOp]] = {buffer: {buffer} for buffer in existing}  # several: a scatter that is assigned
    nothing: set[UOp] = set()
    for number, step in enumerate(steps):
        named = {homes.get(buffer, buffer) for buffer in step.call.buffers}
        written = {homes.get(buffer, buffer) for buffer, _ in step.writes}
        _visits += len(step.reads) + len(step.writes)
        for buffer, value in step.reads:
            home = homes.get(buffer, buffer)
            if value not in holds.get(home, nothing) and 0 not in value.shape:
                raise _misread(number, step.call, home, value, holds.get(home, nothing))
        if {step.call.buffers[slot] for slot in step.call.written} != written or not written <= named:
            raise GraphError(f"{_name(number, step.call)} writes other buffers than its values have\n{HINT}")
        for home in written:
            holds[home] = set()
        for buffer, value in step.writes:
            holds[homes.get(buffer, buffer)].add(value)
    for value, buffer in wanted.items():
        home = homes.get(buffer, buffer)
        if value not in holds.get(home, nothing):
            raise _misread(len(steps), None, home, value, holds.get(home, nothing))


def _name(number: int, call: Call | None) -> str:
    """Return how an error names a call, the `number`-th of its schedule; None is the end of the schedule."""
    kinds = {type(None): "the end", CopyCall: "the copy", RoutineCall: "the routine"}
    kind = kinds.get(type(call), "the kernel")
    return f"{kind} of the schedule" if call is None else f"{kind} that is call {number}"


def _misread(number: int, call: Call | None, buffer: UOp, value: UOp, found: set[UOp]) -> GraphError:
    """Return the error for a `buffer` that does not have the `value` that `call` reads.

    `found` are the values that it has instead. `call` is None at the end of the schedule. `number` is that of the call
    in its schedule.
    """
    return GraphError(
        f"{_name(number, call)} reads b{buffer.arg.uid} for one value and finds another there\n"
        f"  meant: {brief(value)}\n  found: {' and '.join(map(brief, found)) or 'nothing'}\n{HINT}"
    )


# Offsets


class ByteRange(NamedTuple):
    """The bytes of a buffer: the offsets from `start` to before `end` in `block`, the name of a block of memory."""

    block: Hashable
    start: int
    end: int


class BufferUse(NamedTuple):
    """The buffers of a call, by any name, and the slots of those that it writes."""

    buffers: Sequence[Hashable]
    written: Collection[int]


@dataclass(slots=True)
class _LastWriters:
    """The buffer that was last written at each byte of one block of memory.

    The block is cut into intervals: number i reaches from `ends[i - 1]` (from 0, the first one) to `ends[i]`, and
    `buffers[i]` was written there last, or None. Bytes after the last end were never written.
    """

    ends: list[int] = field(default_factory=list)
    buffers: list[Hashable] = field(default_factory=list)

    def find_other(self, start: int, end: int, expected: Hashable) -> Hashable:
        """Return `expected` if it was last written at all bytes from `start` to `end`.

        Else return one of the buffers that were written there instead; None stands for bytes that were never written.
        Both are offsets in bytes.
        """
        first, last = bisect_right(self.ends, start), bisect_left(self.ends, end)
        found = {*self.buffers[first : last + 1]}
        if last >= len(self.ends):
            found.add(None)
        return next((other for other in found if other != expected), expected)

    def write(self, start: int, end: int, buffer: Hashable) -> None:
        """Record that `buffer` is now the last that was written from `start` to `end`.

        Both are offsets in bytes.
        """
        first, last = bisect_right(self.ends, start), bisect_right(self.ends, end)
        before = self.buffers[first] if first < len(self.buffers) else None
        # the interval that `start` is inside of ends there now; one that `end` is inside of begins there by itself
        ends, buffers = ([start], [before]) if start and (first == 0 or self.ends[first - 1] != start) else ([], [])
        self.ends[first:last] = [*ends, end]
        self.buffers[first:last] = [*buffers, buffer]


def check_offsets(
    uses: Iterable[BufferUse], ranges: Mapping[Hashable, ByteRange], kept: Collection[Hashable] = ()
) -> None:
    """Raise GraphError where a call reads bytes of a buffer that another buffer was written over.

    `uses` are the calls in the order in which they run. `ranges` has the bytes of each buffer that shares memory;
    others are not checked. Of these, `kept` are those with a value before the first call, or one that is read after
    the last. A call may write no byte that it also reads as another buffer.
    """
    global _visits
    blocks: dict[Hashable, _LastWriters] = {}
    written: set[Hashable] = set()

    def require_own(buffer: Hashable, number: int) -> None:
        """Raise GraphError where at call `number` bytes of `buffer` were last written as another one, or never.

        Not for one of `kept` before a call has written it.
        """
        if buffer in kept and buffer not in written:
            return  # memory that was never written to, as that of Tensor.empty: anything may be in it
        where = ranges[buffer]
        found = blocks.setdefault(where.block, _LastWriters()).find_other(where.start, where.end, buffer)
        if found != buffer:
            raise GraphError(
                f"call {number} reads buffer {buffer} where "
                f"{'nothing' if found is None else f'buffer {found}'} was written last\n"
                f"  bytes {where.start} to {where.end} of {where.block}\n{HINT}"
            )

    number = -1
    for number, use in enumerate(uses):
        shares = [buffer in ranges for buffer in use.buffers]
        _visits += sum(shares)
        for slot, buffer in enumerate(use.buffers):
            # a buffer that is written for the first time has no value yet that could be read
            if shares[slot] and (slot not in use.written or buffer in written):
                require_own(buffer, number)
        for slot in use.written:
            if shares[slot]:
                where = ranges[use.buffers[slot]]
                blocks.setdefault(where.block, _LastWriters()).write(where.start, where.end, use.buffers[slot])
                written.add(use.buffers[slot])
        if any(shares[slot] for slot in use.written):  # the bytes that it writes may not be bytes that it reads
            _visits += sum(shares)
            for slot, buffer in enumerate(use.buffers):
                if shares[slot]:
                    require_own(buffer, number)
    for buffer in kept:
        if buffer in written:
            require_own(buffer, number + 1)
