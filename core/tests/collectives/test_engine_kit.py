"""The conformance kit of collectives: threads as ranks pass it, and every mutant of them fails it."""

import numpy as np
import pytest

import collective_mutants
from tinygraft.collectives import Communicator, engine_kit, rank_sums, run_ranks
from tinygraft.collectives.engine_kit import check
from tinygraft.config import Context
from tinygraft.errors import CollectiveError

QUICK = tuple(case for case in engine_kit.CASES if case.__name__ not in ("all_reduce", "differing"))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_pass(size):
    """Ranks that are threads pass all cases, and every rank has the same verdict."""
    assert run_ranks(size, check) == [[]] * size


@pytest.mark.parametrize("mutant", collective_mutants.MUTANTS)
def test_a_mutant_fails(mutant):
    """A transport with one fault fails, whichever it is."""
    found = []

    def run(comm):
        for case in QUICK:
            case(comm)
        found.append("passed")

    with Context(COLLECTIVE_LIMIT=1), pytest.raises((AssertionError, CollectiveError)):
        run_ranks(2, run, mutant)
    assert len(found) < 2


def test_sums_out_of_order_fail(monkeypatch):
    """Sums in another order than that of the ranks are found, which differ in their last bits only."""
    right = rank_sums.combine

    def reversed_order(parts, op, dtype, out):
        right(parts[::-1].copy(), op, dtype, out)

    monkeypatch.setattr("tinygraft.collectives.rank_steps.combine", reversed_order)
    with Context(COLLECTIVE_LIMIT=2):
        failures = run_ranks(3, check)[0]
    assert failures
    assert "all_reduce sum of" in failures[0]
    assert "float" in failures[0]


def test_sums_in_a_wrong_dtype_fail(monkeypatch):
    """Sums of float64 that are computed in float32 are found."""
    right = rank_sums.combine

    def narrow(parts, op, dtype, out):
        right([part.astype(np.float32) for part in parts] if out.dtype == np.float64 else parts, op, dtype, out)

    monkeypatch.setattr("tinygraft.collectives.rank_steps.combine", narrow)
    with Context(COLLECTIVE_LIMIT=2):
        failures = run_ranks(2, check)[0]
    assert any("float64" in failure for failure in failures)


def test_a_rank_that_fails_before_the_others_is_reported():
    """Where one rank fails while the others are in the case, all return what it found."""

    def fails_early(comm):
        assert comm.rank != 1, "found by one"
        comm.barrier()

    found = run_ranks(3, lambda comm: check(comm, (fails_early,)))
    assert found[0] == found[1] == found[2]
    assert any(text.startswith("rank 1, fails_early: found by one") for text in found[0])


def test_a_missing_check_fails(monkeypatch):
    """An engine whose ranks do not compare what they call is found."""
    monkeypatch.setattr(Communicator, "_exchange", lambda self, header, always=False: [header.piece])
    with Context(COLLECTIVE_LIMIT=1), pytest.raises((AssertionError, CollectiveError)):
        run_ranks(2, engine_kit.differing)
