"""Communicator: the collectives of a rank, on NumPy arrays; what they mean on every engine.

Each method has two forms: `all_reduce(array)` returns the result, `start_all_reduce(array)` a Started whose `wait()`
returns it. What is started reads its array until then. Collectives have numbers in the order of the program. Before one
moves bytes the ranks exchange headers, which all of them wait for; so all raise CollectiveError where one of them calls
something else, or has ended.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar, cast

from tinygraft.collectives.headers import HEADER_BYTES, OF_ARRAY, RankHeader, calling_line, difference, pieces_of
from tinygraft.collectives.other_names import MEANT
from tinygraft.collectives.pieces import SENDERS, RankMemory
from tinygraft.collectives.rank_arrays import (
    ComparedShape,
    as_array,
    bytes_of,
    compared,
    dtype_of,
    flat,
    raw,
    result_for,
)
from tinygraft.collectives.rank_objects import bytes_of_all, bytes_of_root, pickled, unpickled
from tinygraft.collectives.rank_steps import RankSteps, TransferSteps
from tinygraft.collectives.rank_sums import RANK_OPS, RankArray, check_op
from tinygraft.collectives.rank_waits import wait_for_others
from tinygraft.collectives.transport import FIRST, HEADERS, DeviceBytes, Transfer, Transport
from tinygraft.config import COLLECTIVE_CHECK
from tinygraft.dtype import DType
from tinygraft.errors import CollectiveError, ShapeError, in_place_of

NOTES_READ = 1000  # assumed: collectives after which what others have announced is read


_Method = TypeVar("_Method", bound=Callable[..., Any])


def by_one_thread(method: _Method) -> _Method:
    """Let one thread at a time call a method of a Communicator. Raises CollectiveError where another one is in it."""

    @wraps(method)
    def call(self: Communicator, *args: Any, **kwargs: Any) -> Any:
        if not self._one.acquire(blocking=False):
            raise CollectiveError(
                "a thread called a collective while another one is in a collective: all ranks have one order of them, "
                "so let one thread call them, or wait for each other"
            )
        try:
            return method(self, *args, **kwargs)
        finally:
            self._one.release()

    return cast(_Method, call)


class Started:
    """A collective that was started. `wait` returns its result.

    `steps` yields one Transfer after another and returns the result; the next one begins when the last is complete.
    """

    done: bool

    def __init__(self, communicator: Communicator, header: RankHeader, steps: TransferSteps) -> None:
        self.header = header
        self._communicator, self._steps = communicator, steps
        self._work: Transfer | None = None
        self._result: RankArray = None
        self.done = False
        self._next()

    def _next(self) -> None:
        """Begin the next transfer, or note the result where there is none: `done` is true from then on."""
        try:
            self._work = next(self._steps)
        except StopIteration as end:
            self._result, self.done, self._work = end.value, True, None

    def advance(self) -> bool:
        """Go as far as is possible without waiting. Returns whether the collective is complete."""
        while self._work is not None and self._work.test():
            self._next()
        return self.done

    def wait(self) -> RankArray:
        """Wait until this rank has its result, and return it. Raises CollectiveError after COLLECTIVE_LIMIT seconds.

        Those that were started before are completed first: all ranks do so in one order.
        """
        self._communicator._complete(self)
        return self._result


class Communicator:
    """What a rank and the others do together, over a Transport. One thread uses it at a time.

    `rank` is the number of this rank and `size` how many there are; `local_rank` and `local_size` those on this
    machine. Arrays are NumPy's, of any shape, which all ranks have alike unless it says otherwise. `dtype` is needed
    for dtypes that NumPy lacks: bfloat16 is then an array of uint16, its bits, and a float of 8 bits one of uint8.
    Where ranks differ in a shape all raise; `shape` is what they compare where an array stands for other values.
    """

    closed: bool
    rank: int
    size: int
    local_rank: int
    local_size: int

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.rank, self.size = transport.rank, transport.size
        self.local_rank, self.local_size = transport.local_rank, transport.local_size
        self._number = 0
        self._pending: list[Started] = []
        self._steps = RankSteps(transport)
        self.closed = False
        self._process = os.getpid()
        self._one = threading.RLock()  # of the thread that is in a collective

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}, {self.transport.about()}>"

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError with what is used here in place of a name of another library."""
        meant = "" if name.startswith("_") else in_place_of(name, [n for n in dir(type(self)) if n[0] != "_"], MEANT)
        raise AttributeError(f"a Communicator has no attribute {name!r}{meant}")

    # What moves values

    def all_reduce(self, array: RankArray, op: str = "sum", dtype: Any = None, out: RankArray = None) -> RankArray:
        """Return the elementwise sum (or mean, max, min, prod) of the arrays of all ranks, to every rank.

        Elements are combined in the order of the ranks, so that every rank and every run has the same bits. Floats of
        16 and 8 bits are combined in float32 and rounded once. `out` is an array for the result, perhaps `array`
        itself. Raises ValueError for an unknown op, DTypeError for one that the dtype lacks (mean of integers, sum of
        bool, max of complex), CollectiveError where another rank calls something else.
        """
        return self.start_all_reduce(array, op, dtype, out).wait()

    def start_all_reduce(
        self, array: RankArray, op: str = "sum", dtype: Any = None, out: RankArray = None, shape: ComparedShape = None
    ) -> Started:
        """Start `all_reduce`, which says what raises; the array is read, and `out` written, until `wait` returns."""
        array = as_array(array)
        kind = dtype_of(array, dtype)
        check_op(op, kind)
        source, target = flat(array), result_for(array.shape, array.dtype, out)
        steps = partial(self._steps.reduced, source, op, kind, target)
        return self._start("all_reduce", kind, op, -1, source.size, compared(array, shape), steps)

    def reduce_scatter(self, array: RankArray, op: str = "sum", dtype: Any = None, out: RankArray = None) -> RankArray:
        """Return to rank r row r of the sum (or mean, max, min, prod) of all arrays, (ranks, ...).

        Raises ShapeError where axis 0 is not the number of ranks, and as `all_reduce` does.
        """
        return self.start_reduce_scatter(array, op, dtype, out).wait()

    def start_reduce_scatter(
        self, array: RankArray, op: str = "sum", dtype: Any = None, out: RankArray = None, shape: ComparedShape = None
    ) -> Started:
        """Start `reduce_scatter`; the array is read, and `out` written, until `wait` returns. Raises as that."""
        array = as_array(array)
        kind = dtype_of(array, dtype)
        check_op(op, kind)
        self._check_rows("reduce_scatter", array)
        source, target = flat(array), result_for(array.shape[1:], array.dtype, out)
        steps = partial(self._steps.scattered, source, op, kind, target)
        return self._start("reduce_scatter", kind, op, -1, source.size, compared(array, shape), steps)

    def all_gather(self, array: RankArray, dtype: Any = None, out: RankArray = None) -> RankArray:
        """Return the arrays of all ranks along a new axis 0, (ranks, *array.shape), to every rank.

        Raises CollectiveError where ranks differ, ShapeError for an `out` that does not fit.
        """
        return self.start_all_gather(array, dtype, out).wait()

    def start_all_gather(
        self, array: RankArray, dtype: Any = None, out: RankArray = None, shape: ComparedShape = None
    ) -> Started:
        """Start `all_gather`; the array is read, and `out` written, until `wait` returns. Raises as that."""
        array = as_array(array)
        source, target = flat(array), result_for((self.size, *array.shape), array.dtype, out)

        steps = partial(self._steps.of, "all_gather", "", -1, source, target)
        return self._start("all_gather", dtype_of(array, dtype), "", -1, source.size, compared(array, shape), steps)

    def broadcast(self, array: RankArray, root: int = 0, dtype: Any = None, out: RankArray = None) -> RankArray:
        """Return the array of rank `root` to every rank. Those of others give shape and dtype only.

        Raises ValueError for a rank that there is not, CollectiveError where ranks differ, ShapeError for a wrong
        `out`.
        """
        return self.start_broadcast(array, root, dtype, out).wait()

    def start_broadcast(
        self, array: RankArray, root: int = 0, dtype: Any = None, out: RankArray = None, shape: ComparedShape = None
    ) -> Started:
        """Start `broadcast`; the array is read, and `out` written, until `wait` returns. Raises as that."""
        array = as_array(array)
        self._check_rank(root)
        source, target = flat(array), result_for(array.shape, array.dtype, out)

        steps = partial(self._steps.of, "broadcast", "", root, source, target)
        return self._start("broadcast", dtype_of(array, dtype), "", root, source.size, compared(array, shape), steps)

    def all_to_all(self, array: RankArray, dtype: Any = None, out: RankArray = None) -> RankArray:
        """Send row r of `array`, (ranks, ...), to rank r; return what they sent here, by rank, in the same shape.

        Raises ShapeError where axis 0 is not the number of ranks.
        """
        return self.start_all_to_all(array, dtype, out).wait()

    def start_all_to_all(
        self, array: RankArray, dtype: Any = None, out: RankArray = None, shape: ComparedShape = None
    ) -> Started:
        """Start `all_to_all`; the array is read, and `out` written, until `wait` returns. Raises as that."""
        array = as_array(array)
        self._check_rows("all_to_all", array)
        source, target = flat(array), result_for(array.shape, array.dtype, out)
        steps = partial(self._steps.of, "all_to_all", "", -1, source, target)
        return self._start("all_to_all", dtype_of(array, dtype), "", -1, source.size, compared(array, shape), steps)

    @by_one_thread
    def barrier(self) -> None:
        """Wait until all ranks have called it. Raises CollectiveError where one calls something else, or has ended."""
        self._check_open("barrier")
        self._number += 1
        self._exchange(RankHeader(self._number, "barrier", None, "", -1, 0, calling_line()), always=True)

    @by_one_thread
    def send(self, array: RankArray, target: int, dtype: Any = None) -> None:
        """Send an array to rank `target`, which calls `receive`; returns when `array` may be changed.

        Only these two ranks take part, so it has no number.
        """
        self._check_open("send")
        array = as_array(array)
        self._check_rank(target)
        source = flat(array)
        header = RankHeader(
            0, "send", dtype_of(array, dtype), "", self.rank, source.size, calling_line(), str(array.shape)
        )
        works = [self.transport.send(raw(header.pack()), target), self.transport.send(bytes_of(source), target)]
        for work in works:
            self._wait(work.test, header, [target])

    @by_one_thread
    def receive(self, array: RankArray, source: int, dtype: Any = None) -> RankArray:
        """Fill `array` with what rank `source` sends, and return it.

        Raises CollectiveError where that is another array.
        """
        self._check_open("receive")
        self._check_rank(source)
        if as_array(array) is not array:
            raise TypeError(f"receive fills an array, such as np.empty(3, 'float32'), got {type(array).__name__}")
        if not array.flags.c_contiguous:
            raise ShapeError("receive fills an array that is contiguous; np.ascontiguousarray makes one of another")
        wanted = RankHeader(0, "send", dtype_of(array, dtype), "", source, array.size, calling_line(), str(array.shape))
        data = raw(bytes(HEADER_BYTES)).copy()
        waited = replace(wanted, kind="receive")
        self._wait(self.transport.receive(data, source).test, waited, [source])
        found = RankHeader.unpack(data.tobytes())
        if not found.same(wanted):
            what = wanted.text().removeprefix("calls send of")
            raise CollectiveError(f"rank {source} {found.text()}, and rank {self.rank} receives{what}")
        self._wait(self.transport.receive(bytes_of(array), source).test, waited, [source])
        return array

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, in the order of the ranks, to every rank. They are pickled.

        Raises TypeError for one that cannot be pickled, CollectiveError where another rank calls something else.

        >>> from tinygraft import collectives
        >>> collectives.world().all_gather_object({"right": 3})    # of one rank
        [{'right': 3}]
        """
        return [unpickled(one) for one in bytes_of_all(self, pickled(value, "all_gather_object"))]

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Return the object of rank `root` to every rank. It is pickled; what others pass is not read.

        Raises as `all_gather_object`, ValueError for a rank that there is not.
        """
        self._check_rank(root)
        return unpickled(bytes_of_root(self, pickled(value, "broadcast_object") if self.rank == root else b"", root))

    def close(self) -> None:
        """End: wait until all ranks do, and close the transport.

        Raises CollectiveError where another rank calls something else.
        """
        if self.closed:
            return
        self.closed = True
        self._number += 1
        self._exchange(RankHeader(self._number, "end", None, "", -1, 0, ""), always=True)
        self.transport.close()

    @by_one_thread
    def pass_memory(self, kind: str, dtype: DType, option: int, memory: RankMemory, shape: tuple[int, ...]) -> None:
        """Do a collective of a tensor with its memory, in pieces where a rank wants them: all ranks have the same ones.

        While one piece is on the wire the next is read. `kind` names the collective; `option` is the index of an op in
        RANK_OPS, or the root of a broadcast. Raises as that collective, and CollectiveError where another rank passes
        an array and one of the others wants pieces.
        """
        self._check_open(kind)
        op = RANK_OPS[option] if kind in ("all_reduce", "reduce_scatter") else ""
        if op:
            check_op(op, dtype)
        root = option if kind == "broadcast" else -1
        count = memory.columns * (self.size if kind in SENDERS else 1)
        self._number += 1
        header = RankHeader(self._number, kind, dtype, op, root, count, calling_line(), str(shape), memory.wanted)
        piece = self._piece(header, self._exchange(header)) or memory.columns
        bounds = [(first, min(first + piece, memory.columns)) for first in range(0, memory.columns, max(piece, 1))]
        waiting: list[tuple[Started, int, int]] = []
        try:
            for number, (first, last) in enumerate(bounds):
                if not number:
                    memory.begin(first, last)
                source = memory.operand(first, last)
                if number + 1 < len(bounds):
                    memory.begin(*bounds[number + 1])
                target = memory.room(first, last)
                started = Started(self, header, self._steps.of(kind, op, root, source.reshape(-1), target, dtype))
                self._pending.append(started)
                waiting.append((started, first, last))
                if number:
                    self._put(memory, *waiting.pop(0))
            if waiting:
                self._put(memory, *waiting.pop(0))
        finally:
            memory.end()

    @by_one_thread
    def pass_device(
        self, kind: str, dtype: DType, option: int, source: DeviceBytes, target: DeviceBytes, shape: tuple[int, ...]
    ) -> None:
        """Do an all_gather, broadcast or all_to_all of a tensor by a transport that takes memory of cards.

        A broadcast is of `target`, where rank `option` has its values already. Raises CollectiveError as these do.
        """
        self._check_open(kind)
        self._number += 1
        root = option if kind == "broadcast" else -1
        count, line = source.size // dtype.itemsize, calling_line()
        header = RankHeader(self._number, kind, dtype, "", root, count, line, str(shape), OF_ARRAY)
        self._piece(header, self._exchange(header))
        if kind == "broadcast":
            work = self.transport.broadcast(target, root, FIRST)
        elif kind == "all_gather":
            work = self.transport.all_gather(source, target, [source.size] * self.size, FIRST)
        else:
            counts = [source.size // self.size] * self.size
            work = self.transport.all_to_all(source, counts, target, counts, FIRST)
        self._complete_all()
        self._wait(work.test, header)

    @by_one_thread
    def _complete_all(self) -> None:
        """Complete what was started before: all ranks do so in one order."""
        for started in list(self._pending):
            self._complete(started)

    def _put(self, memory: RankMemory, started: Started, first: int, last: int) -> None:
        """Wait for a piece, and let its result be written."""
        memory.put(first, last, started.wait())

    def _piece(self, header: RankHeader, every: Sequence[int]) -> int:
        """Return how many columns a piece has on all ranks, 0 for all, from what `every` rank wants.

        Raises CollectiveError as `pass_memory`.
        """
        wanted = [piece for piece in every if piece not in (0, OF_ARRAY)]
        if wanted and OF_ARRAY in every:
            raise CollectiveError(
                f"collective number {header.number} is of an array on one rank, and of a tensor in pieces on another"
            )
        return min(wanted, default=0)

    @by_one_thread
    def _start(
        self, kind: str, dtype: DType, op: str, root: int, count: int, shape: str, steps: Callable[[], TransferSteps]
    ) -> Started:
        """Number a collective, exchange its header, and begin it.

        Raises CollectiveError where another rank calls another.
        """
        self._check_open(kind)
        self._number += 1
        header = RankHeader(self._number, kind, dtype, op, root, count, calling_line(), shape, OF_ARRAY)
        self._piece(header, self._exchange(header))
        started = Started(self, header, steps())
        self._pending.append(started)
        return started

    def _exchange(self, header: RankHeader, always: bool = False) -> list[int]:
        """Wait until all ranks are about to do what `header` says. Raises CollectiveError where one is not.

        Returns the `piece` of the headers of all; with COLLECTIVE_CHECK=0 that of this rank.
        """
        if self.size == 1 or not (always or COLLECTIVE_CHECK.value):
            return [header.piece]
        whole = raw(bytes(HEADER_BYTES * self.size)).copy()
        if header.number % NOTES_READ == 0:
            self.transport.announced()  # a rank that never waits would keep all that it was told
        work = self.transport.all_gather(raw(header.pack()), whole, [HEADER_BYTES] * self.size, HEADERS)
        self._wait(work.test, header)
        data = whole.tobytes()
        if (pieces := pieces_of(data, header)) is not None:
            return pieces
        every = [RankHeader.unpack(data[at : at + HEADER_BYTES]) for at in range(0, len(data), HEADER_BYTES)]
        gathers = {(one.kind, one.dtype) for one in every} == {("all_gather", header.dtype)}
        uneven = "\n  hint: mesh.from_local joins parts of any sizes, all_gather_object lists them" if gathers else ""
        raise CollectiveError(
            f"collective number {header.number} differs: {difference(every)}; every rank calls the same collectives in "
            f"the same order{uneven}"
        )

    @by_one_thread
    def _complete(self, started: Started) -> None:
        """Complete the pending collectives up to `started`; raises CollectiveError where a rank has failed."""
        if not started.done:
            self._wait(lambda: started.done or (self._progress() and started.done), started.header)
        self._progress()

    def _progress(self) -> bool:
        """Let pending collectives make progress; a later one begins its second step after all earlier ones ended."""
        while self._pending and self._pending[0].advance():
            self._pending.pop(0)
        return True

    def _wait(self, test: Callable[[], bool], header: RankHeader, peers: Sequence[int] = ()) -> None:
        """Wait for `test`, and let what was started go on meanwhile. Raises CollectiveError after COLLECTIVE_LIMIT.

        Only `peers` are waited for, where there are any.
        """

        def ready() -> bool:
            if test():
                return True
            self._progress()
            return False

        if not ready():
            wait_for_others(self.transport, ready, header, peers)

    def _check_open(self, kind: str) -> None:
        """Raise CollectiveError after the ranks have ended, and in a fork, which is none; `kind` is what was called."""
        if os.getpid() != self._process:
            raise CollectiveError(f"{kind} was called in a child that rank {self.rank} has forked, which is no rank")
        if self.closed:
            raise CollectiveError(f"{kind} was called after the ranks had ended")

    def _check_rank(self, rank: int) -> None:
        """Raise ValueError for a rank that there is not."""
        if not 0 <= rank < self.size:
            raise ValueError(f"there is no rank {rank}: the {self.size} ranks are 0 to {self.size - 1}")

    def _check_rows(self, kind: str, array: RankArray) -> None:
        """Raise ShapeError unless an array has one row for each rank; `kind` is what was called."""
        if not array.shape or array.shape[0] != self.size:
            raise ShapeError(f"{kind} takes an array with one row for each of {self.size} ranks, got {array.shape}")
