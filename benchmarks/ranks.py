"""all_reduce of 4 MB: ours beside MPI called by hand, in milliseconds on rank 0.

Rounds of 30 of each in turn, so that what else the machine does meets both; of each round the ratio of the least times,
and of all the least times and their ratio.

mpiexec -n 2 python benchmarks/ranks.py
"""

import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from tinygraft import collectives

comm, hand = collectives.world(), MPI.COMM_WORLD
ROUNDS, TIMES = 12, 200 // comm.size  # given: a few seconds on a quiet machine
values = np.random.default_rng(comm.rank).random(1 << 20, np.float32)
theirs, ours = np.empty_like(values), np.empty_like(values)


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes on this rank, begun by all at once."""
    hand.Barrier()
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def least() -> tuple[float, float]:
    """The least times of a round, by hand and by us."""
    pairs = [
        (seconds(lambda: hand.Allreduce(values, theirs)), seconds(lambda: comm.all_reduce(values, out=ours)))
        for _ in range(TIMES)
    ]
    by_hand, by_us = (min(column) * 1e3 for column in zip(*pairs, strict=True))
    return by_hand, by_us


rounds = [least() for _ in range(ROUNDS)]
assert np.allclose(theirs, ours)
if comm.rank == 0:
    by_hand, by_us = (min(column) for column in zip(*rounds, strict=True))
    ratios = sorted(ours / theirs for theirs, ours in rounds)
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f} in {ROUNDS} rounds"
    print(f"{by_hand:.3f} {by_us:.3f} ms, {by_us / by_hand:.2f} times MPI_Allreduce ({spread}), {comm.size} ranks")
