"""Collectives of tensors in pieces, with ranks that are threads: their values, and that pieces overlap."""

import numpy as np
import pytest

from tinygraft.collectives import run_ranks
from tinygraft.collectives.pieces import RECEIVERS, SENDERS, ArrayMemory
from tinygraft.dtype import dtypes
from tinygraft.errors import CollectiveError

KINDS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")


class Noting(ArrayMemory):
    """It notes what is called, and wants pieces of some columns."""

    def __init__(self, source, target, wanted):
        super().__init__(source, target)
        self.wanted, self.calls = wanted, []

    def begin(self, first, last):
        """Note it."""
        self.calls.append(f"begin {first}")

    def operand(self, first, last):
        """Note it."""
        self.calls.append(f"operand {first}")
        return super().operand(first, last)

    def put(self, first, last, result):
        """Note it."""
        self.calls.append(f"put {first}")
        super().put(first, last, result)

    def end(self):
        """Note it."""
        self.calls.append("end")


def memory_of(comm, kind, columns, wanted):
    """Memory with other values on each rank."""
    rows = comm.size if kind in SENDERS else 1
    source = np.random.default_rng(comm.rank).standard_normal((rows, columns)).astype(np.float32)
    target = np.zeros((comm.size if kind in RECEIVERS else 1, columns), np.float32)
    return Noting(source, target, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 7, 20])
def test_pieces_have_the_bits_of_the_whole(kind, columns):
    """The result in pieces is that of one piece, also where the ranks want pieces of other sizes, or none."""

    def run(comm, wanted):
        memory = memory_of(comm, kind, columns, wanted(comm.rank))
        comm.pass_memory(kind, dtypes.float32, 0, memory, (columns,))
        return memory.target.copy()

    whole = run_ranks(3, lambda comm: run(comm, lambda rank: 0))
    for wanted in (lambda rank: 3, lambda rank: (0, 7, 3)[rank]):
        for found, expected in zip(run_ranks(3, lambda comm, w=wanted: run(comm, w)), whole, strict=True):
            assert found.tobytes() == expected.tobytes()


def test_the_next_piece_is_read_while_one_is_on_the_wire():
    """A piece is begun before the one before it is complete, and written back when the next one is on its way."""

    def run(comm):
        memory = memory_of(comm, "all_reduce", 10, 4)
        comm.pass_memory("all_reduce", dtypes.float32, 0, memory, (10,))
        return memory.calls

    assert run_ranks(2, run)[0] == [
        "begin 0", "operand 0", "begin 4", "operand 4", "begin 8", "put 0", "operand 8", "put 4", "put 8", "end",
    ]  # fmt: skip


def test_an_array_does_not_meet_pieces():
    """Where one rank passes an array and the other a tensor in pieces, both raise."""

    def run(comm):
        def tensor():
            comm.pass_memory("all_reduce", dtypes.float32, 0, memory_of(comm, "all_reduce", 10, 4), (10,))

        with pytest.raises(CollectiveError, match="of an array on one rank, and of a tensor in pieces on another"):
            comm.all_reduce(np.zeros(10, np.float32)) if comm.rank else tensor()
        comm.barrier()
        return True

    assert run_ranks(2, run) == [True, True]


def test_memory_is_released_after_an_error():
    """`end` is called also where the ranks differ in what comes later: nothing is copied any more."""

    def run(comm):
        memory = memory_of(comm, "all_reduce", 10, 4)
        memory.room = lambda first, last: 1 / 0
        with pytest.raises(ZeroDivisionError):
            comm.pass_memory("all_reduce", dtypes.float32, 0, memory, (10,))
        return memory.calls[-1]

    assert run_ranks(1, run) == ["end"]
