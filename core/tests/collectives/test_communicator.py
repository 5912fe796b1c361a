"""Communicator: results, what is checked, and what happens where ranks differ or one does not come."""

import threading
import time

import numpy as np
import pytest

from tinygraft.collectives import Alone, Communicator, run_ranks
from tinygraft.config import Context
from tinygraft.errors import CollectiveError, DTypeError, ShapeError


@pytest.fixture
def alone():
    """A communicator of one rank."""
    return Communicator(Alone())


def test_every_rank_has_the_sum():
    """all_reduce gives the sum of all ranks to each of them."""
    found = run_ranks(3, lambda comm: comm.all_reduce(np.full((2, 2), comm.rank + 1.0)).tolist())
    assert found == [[[6.0, 6.0], [6.0, 6.0]]] * 3


def test_sums_have_the_same_bits_in_every_run():
    """Sums of floats are those in the order of the ranks, whichever comes first."""
    values = np.random.default_rng(0).standard_normal((4, 20_000)).astype(np.float32)

    def run(comm):
        time.sleep(0.01 * ((comm.rank * 7) % 4))
        return comm.all_reduce(values[comm.rank]).tobytes()

    ordered = ((values[0] + values[1]) + values[2]) + values[3]
    assert set(run_ranks(4, run)) == {ordered.tobytes()}


@pytest.mark.parametrize("size", [3, 40_000])
def test_a_nan_reaches_all_ranks(size):
    """NaN of one rank goes through sum, max and min."""

    def run(comm):
        x = np.zeros(size, np.float32)
        x[-1] = np.nan if comm.rank == 1 else 1
        return [bool(np.isnan(comm.all_reduce(x, op)[-1])) for op in ("sum", "max", "min", "mean")]

    assert run_ranks(3, run) == [[True] * 4] * 3


def test_arrays_that_are_not_contiguous():
    """A transposed array and a slice with a step have the values that they show."""

    def run(comm):
        x = np.arange(12.0).reshape(3, 4)
        return comm.all_reduce(x.T).tolist(), comm.all_gather(x[:, ::2])[0].tolist()

    x = np.arange(12.0).reshape(3, 4)
    assert run_ranks(2, run)[1] == ((2 * x.T).tolist(), x[:, ::2].tolist())


def test_what_is_started_goes_on_while_another_is_waited_for():
    """A started collective completes beside a later one, and the order of the waits may differ between ranks."""

    def run(comm):
        first = comm.start_all_reduce(np.full(30_000, 1.0))
        second = comm.start_all_reduce(np.full(30_000, 2.0))
        works = [first, second] if comm.rank else [second, first]
        return sorted(work.wait()[0] for work in works), comm.all_reduce(np.array([5]))[0]

    assert run_ranks(2, run) == [([2.0, 4.0], 10)] * 2


def test_ranks_that_differ_all_raise_and_name_both_lines():
    """Where ranks call different collectives each raises an error with both lines."""
    texts = []

    def run(comm):
        with pytest.raises(CollectiveError) as error:
            comm.all_reduce(np.zeros(2)) if comm.rank == 0 else comm.all_gather(np.zeros(2))
        texts.append(str(error.value))

    run_ranks(2, run)
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert texts[0].startswith("collective number 1 differs: rank 0 calls all_reduce (sum) of 2 double at ")
    assert "test_communicator.py:" in texts[0]
    assert ", and rank 1 calls all_gather of 2 double at " in texts[0]
    assert texts[0].endswith("; every rank calls the same collectives in the same order")


@pytest.mark.parametrize(("mine", "theirs"), [
    (lambda c: c.all_reduce(np.zeros(2)), lambda c: c.all_reduce(np.zeros(3))),
    (lambda c: c.all_reduce(np.zeros(2)), lambda c: c.all_reduce(np.zeros(2, np.float32))),
    (lambda c: c.all_reduce(np.zeros(2), "max"), lambda c: c.all_reduce(np.zeros(2), "min")),
    (lambda c: c.broadcast(np.zeros(2), 0), lambda c: c.broadcast(np.zeros(2), 1)),
    (lambda c: c.all_gather(np.zeros(2)), lambda c: c.barrier()),
], ids=["size", "dtype", "op", "root", "kind"])  # fmt: skip
def test_each_difference_is_found(mine, theirs):
    """Ranks that differ in kind, size, dtype, op or root raise on both sides."""

    def run(comm):
        with pytest.raises(CollectiveError, match="differs"):
            mine(comm) if comm.rank == 0 else theirs(comm)

    run_ranks(2, run)


def test_a_rank_that_ends_is_named():
    """Where one rank ends and another waits for it, the other raises at once."""

    def run(comm):
        if comm.rank == 0:
            comm.barrier()

    with pytest.raises(CollectiveError, match=r"rank 0 calls barrier at .*test_communicator.py:\d+, and rank 1 ends"):
        run_ranks(2, run)


def test_a_rank_that_does_not_come_is_an_error_in_time():
    """A rank waits for COLLECTIVE_LIMIT seconds, then it raises and says for what."""
    released = threading.Event()

    def run(comm):
        if comm.rank == 1:
            released.wait(30)
            return
        try:
            with Context(COLLECTIVE_LIMIT=1):
                comm.all_reduce(np.zeros(2))
        finally:
            released.set()

    begun = time.monotonic()
    with pytest.raises(CollectiveError) as error:
        run_ranks(2, run)
    assert time.monotonic() - begun < 10
    assert str(error.value).startswith(
        "rank 0 waited 1 s for the other ranks: it calls all_reduce (sum) of 2 double at "
    )
    assert ", and rank 1 does not come; COLLECTIVE_LIMIT sets how long" in str(error.value)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all"])
def test_equal_counts_of_other_shapes_differ(kind):
    """Ranks that pass as many elements in another shape all raise, and name both shapes."""

    def run(comm):
        shape = (2, 3) if comm.rank else (2, 1, 3)
        with pytest.raises(CollectiveError) as error:
            getattr(comm, kind)(np.zeros(shape))
        comm.barrier()
        return str(error.value)

    for text in run_ranks(2, run):
        assert "of 6 double in shape (2, 1, 3)" in text
        assert "of 6 double in shape (2, 3)" in text


def test_a_message_of_another_shape_is_an_error():
    """A receiver whose array has as many elements in another shape raises."""

    def run(comm):
        if comm.rank == 0:
            comm.send(np.zeros((2, 3)), 1)
        else:
            comm.receive(np.zeros(6), 0)

    with pytest.raises(
        CollectiveError, match=r"6 double in shape \(2, 3\) .*, and rank 1 receives 6 double from rank 0"
    ):
        run_ranks(2, run)


def test_messages_are_checked():
    """A receiver whose array is another one raises, and names what was sent."""

    def run(comm):
        if comm.rank == 0:
            comm.send(np.zeros(3), 1)
        else:
            comm.receive(np.zeros(4), 0)

    with pytest.raises(CollectiveError, match=r"rank 0 calls send of 3 double .* at .*, and rank 1 receives 4 double"):
        run_ranks(2, run)


def test_wrong_arguments_are_refused(alone):
    """What can be known before anything is sent raises at once."""
    with pytest.raises(ValueError, match="ranks take the sum, mean, max, min or prod, not 'avg'"):
        alone.all_reduce(np.zeros(2), "avg")
    with pytest.raises(DTypeError, match="cannot take the mean of int, whose quotient is no int; cast to float"):
        alone.all_reduce(np.zeros(2, np.int32), "mean")
    with pytest.raises(DTypeError, match="cannot take the sum of bool; max is any and min is all"):
        alone.all_reduce(np.zeros(2, bool))
    with pytest.raises(DTypeError, match="ranks take the sum and the mean of complex64, and not the max"):
        alone.all_reduce(np.zeros(2, np.complex64), "max")
    with pytest.raises(DTypeError, match="an array of float64 has no elements of bfloat16"):
        alone.all_reduce(np.zeros(2), dtype="bfloat16")
    with pytest.raises(DTypeError, match="cannot pass elements of object"):
        alone.all_gather(np.array([None]))
    with pytest.raises(ValueError, match="there is no rank 1: the 1 ranks are 0 to 0"):
        alone.broadcast(np.zeros(2), 1)
    with pytest.raises(ShapeError, match="one row for each of 1 ranks, got \\(2,\\)"):
        alone.reduce_scatter(np.zeros(2))
    with pytest.raises(ShapeError, match="out has to be a contiguous array of shape \\(2,\\) and float64"):
        alone.all_reduce(np.zeros(2), out=np.zeros(3))
    with pytest.raises(ShapeError, match="receive fills an array that is contiguous"):
        alone.receive(np.zeros((2, 2))[:, 0], 0)


def test_numbers_are_arrays_and_tensors_are_refused(alone):
    """Lists and numbers are what NumPy makes of them; a tensor is told where its collectives are."""
    from tinygraft import Tensor

    assert alone.all_reduce([1, 2]).tolist() == [1, 2]
    assert alone.all_gather(3.0).tolist() == [3.0]
    with pytest.raises(TypeError, match="a communicator passes arrays; tinygraft.nn.parallel has the collectives of"):
        alone.all_reduce(Tensor([1.0], device="PYTHON"))


def test_a_world_of_one_rank(alone):
    """Alone, every collective is a copy, and nothing waits."""
    x = np.arange(3.0)
    assert alone.all_reduce(x).tolist() == x.tolist()
    assert alone.all_gather(x).tolist() == [x.tolist()]
    assert alone.reduce_scatter(x[None]).tolist() == x.tolist()
    assert alone.all_to_all(x[None]).tolist() == [x.tolist()]
    alone.send(x, 0)
    assert alone.receive(np.zeros(3), 0).tolist() == x.tolist()
    with pytest.raises(CollectiveError, match="rank 0 receives what it has not sent, which would never come"):
        alone.receive(np.zeros(3), 0)
    alone.barrier()
    alone.close()
    alone.close()
    with pytest.raises(CollectiveError, match="all_reduce was called after the ranks had ended"):
        alone.all_reduce(x)
    for name, call in (
        ("barrier", alone.barrier), ("send", lambda: alone.send(x, 0)), ("receive", lambda: alone.receive(x, 0))
    ):  # fmt: skip
        with pytest.raises(CollectiveError, match=f"{name} was called after the ranks had ended"):
            call()


def test_without_headers_the_values_are_the_same():
    """COLLECTIVE_CHECK=0 leaves the exchange of headers out, and nothing else."""

    def run(comm):
        with Context(COLLECTIVE_CHECK=0):
            return comm.all_reduce(np.arange(3)).tolist()

    assert run_ranks(2, run) == [[0, 2, 4]] * 2


def test_the_first_failure_of_a_rank_is_raised():
    """run_ranks raises what the rank raised that failed, and not what the others then find."""

    def run(comm):
        if comm.rank == 1:
            raise KeyError("mine")
        comm.barrier()

    with pytest.raises(KeyError, match="mine"):
        run_ranks(3, run)
