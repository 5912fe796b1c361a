"""Objects of Python and bytes of any length from rank to rank, on ranks that are threads."""

import pytest

from tinygraft.collectives import run_ranks
from tinygraft.collectives.rank_objects import bytes_of_all, texts_of_all
from tinygraft.errors import CollectiveError


def test_objects_of_all_ranks():
    """Each rank has the objects of all in order, whatever their sizes, and its own ones as copies."""
    found = run_ranks(3, lambda comm: comm.all_gather_object([comm.rank] * comm.rank))
    assert found == [[[], [1], [2, 2]]] * 3


@pytest.mark.parametrize("root", [0, 2])
def test_an_object_of_one_rank(root):
    """What other ranks pass is not read, nor pickled."""
    found = run_ranks(3, lambda comm: comm.broadcast_object({"of": root} if comm.rank == root else iter(()), root))
    assert found == [{"of": root}] * 3


def test_what_cannot_be_pickled_is_refused():
    """An object that cannot be pickled is an error on its rank, by name, before anything is sent."""
    with pytest.raises(TypeError, match="all_gather_object pickles what it passes, and cannot pickle function: "):
        run_ranks(1, lambda comm: comm.all_gather_object(lambda: 1))
    with pytest.raises(TypeError, match="broadcast_object pickles what it passes, and cannot pickle generator: "):
        run_ranks(2, lambda comm: comm.broadcast_object(one for one in ()))
    with pytest.raises(ValueError, match="there is no rank 2: the 2 ranks are 0 to 1"):
        run_ranks(2, lambda comm: comm.broadcast_object(1, 2))


def test_ranks_that_differ_all_raise():
    """A rank that passes an object where another passes none is an error on both."""

    def run(comm):
        if comm.rank:
            comm.broadcast_object(1)
        else:
            comm.all_gather_object(1)

    with pytest.raises(CollectiveError, match="rank 0 calls all_gather .*, and rank 1 calls broadcast "):
        run_ranks(2, run)


def test_bytes_and_texts():
    """Bytes of no length, and texts with surrogates, go through."""
    assert run_ranks(2, lambda comm: bytes_of_all(comm, b"\0" * comm.rank)) == [[b"", b"\0"]] * 2
    assert run_ranks(2, lambda comm: texts_of_all(comm, "\udc80é" * comm.rank)) == [["", "?é"]] * 2
