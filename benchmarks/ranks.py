"""all_reduce of 4 MB: ours beside MPI called by hand, the least of 100 of each in turn, in milliseconds on rank 0.

mpiexec -n 2 python benchmarks/ranks.py
"""

import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from tinygraft import collectives

comm, hand = collectives.world(), MPI.COMM_WORLD
values = np.random.default_rng(comm.rank).random(1 << 20, np.float32)
theirs, ours = np.empty_like(values), np.empty_like(values)


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes on this rank, begun by all at once."""
    hand.Barrier()
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


rounds = [
    (seconds(lambda: hand.Allreduce(values, theirs)), seconds(lambda: comm.all_reduce(values, out=ours)))
    for _ in range(100)
]
assert np.allclose(theirs, ours)
if comm.rank == 0:
    by_hand, by_us = (min(column) * 1e3 for column in zip(*rounds, strict=True))
    print(f"{by_hand:.3f} {by_us:.3f} ms, {by_us / by_hand:.2f} times MPI_Allreduce, {comm.size} ranks")
