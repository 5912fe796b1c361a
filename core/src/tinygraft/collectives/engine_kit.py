"""The conformance kit of collectives: what every engine passes, on any number of ranks.

    failures = check(communicator)                # on every rank; the same everywhere
    mpiexec -n 2 python -m tinygraft.collectives.engine_kit

Every rank knows what the others pass, since it is drawn from the number of the rank; so each compares with NumPy alone.
Sums are compared bit for bit with those in the order of the ranks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tinygraft.collectives.communicator import Communicator
from tinygraft.collectives.engines import world
from tinygraft.collectives.rank_sums import RankArray
from tinygraft.dtype import dtypes, values_of
from tinygraft.errors import CollectiveError
from tinygraft.installed.records import describe

SIZES = (0, 1, 2, 7, 64, 1031, 40_007)  # given: none, one, fewer than ranks, primes, both ways of an all_reduce
OPS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
PLAIN = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
Case = Callable[[Communicator], None]


def drawn(rank: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> RankArray:
    """Return what rank `rank` passes: any bits of integers, floats of all magnitudes whose order of sums matters."""
    chance = np.random.default_rng((seed, rank, *shape))
    if dtype == "bool":
        return chance.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        return chance.integers(info.min, info.max, shape, dtype, endpoint=True)
    real, imaginary = chance.standard_normal((2, *shape)) * 10.0 ** chance.integers(-3, 4, shape)
    return (real + 1j * imaginary if dtype.startswith("complex") else real).astype(dtype)


def ops_of(dtype: str) -> tuple[str, ...]:
    """Return the names of the ops of OPS that a dtype has."""
    return ("max", "min") if dtype == "bool" else ("sum",) if dtype.startswith("complex") else tuple(OPS)


def _all(comm: Communicator, shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[RankArray]:
    """Return what each rank draws, in order of the ranks."""
    return [drawn(rank, shape, dtype, seed) for rank in range(comm.size)]


def _equal(found: RankArray, wanted: RankArray, what: str) -> None:
    """Raise AssertionError where two arrays differ in a bit, a shape or a dtype."""
    assert found.dtype == wanted.dtype, f"{what}: dtype {found.dtype}, not {wanted.dtype}"
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, not {wanted.shape}"
    different = int(np.sum(np.frombuffer(found.tobytes(), np.uint8) != np.frombuffer(wanted.tobytes(), np.uint8)))
    assert not different, f"{what}: {different} of {found.nbytes} bytes differ"


def _ordered(parts: list[RankArray], op: str) -> RankArray:
    """Return the combination in the order of the ranks, as NumPy has it; of float16 in float32, rounded once."""
    wide = [part.astype(np.float32) if part.dtype == np.float16 else part for part in parts]
    with np.errstate(all="ignore"):
        return reduce(OPS[op], wide).astype(parts[0].dtype)


def all_reduce(comm: Communicator) -> None:
    """Every op of every dtype that has it, of every size, bit for bit that in the order of the ranks."""
    for dtype in PLAIN:
        for op in ops_of(dtype):
            for size in SIZES:
                parts = _all(comm, (size,), dtype)
                _equal(comm.all_reduce(parts[comm.rank], op), _ordered(parts, op), f"all_reduce {op} of {size} {dtype}")


def mean(comm: Communicator) -> None:
    """The mean is the sum divided by the number of ranks."""
    parts = _all(comm, (1031,), "float64")
    _equal(comm.all_reduce(parts[comm.rank], "mean"), _ordered(parts, "sum") / comm.size, "mean of float64")


def in_place(comm: Communicator) -> None:
    """`out` may be the array itself."""
    for size in (7, 40_007):
        parts = _all(comm, (size,), "float32")
        mine = parts[comm.rank].copy()
        assert comm.all_reduce(mine, out=mine) is mine
        _equal(mine, _ordered(parts, "sum"), f"all_reduce in place of {size}")


def bfloat16(comm: Communicator) -> None:
    """bfloat16 is summed in float32 and rounded once, to the nearest."""
    bits = [(part.view(np.uint32) >> 16).astype(np.uint16) for part in _all(comm, (9001,), "float32")]
    found = comm.all_reduce(bits[comm.rank], dtype="bfloat16")
    exact = reduce(np.add, [(part.astype(np.uint32) << 16).view(np.float32) for part in bits])
    nearest = (found.astype(np.uint32) << 16).view(np.float32)
    step = np.abs(exact.astype(np.float64)) * 2.0**-8
    assert np.all(np.abs(nearest.astype(np.float64) - exact) <= step), "all_reduce of bfloat16 is not the nearest"


def eight_bits(comm: Communicator) -> None:
    """Floats of 8 bits are combined in float32 and rounded once: of all numbers of the dtype none is nearer."""
    for dtype in dtypes.fp8s:
        numbers = np.array(values_of(dtype), np.float32)
        finite = np.flatnonzero(np.isfinite(numbers)).astype(np.uint8)
        for op in OPS:
            bits = [np.random.default_rng((rank, 6)).choice(finite, 5003) for rank in range(comm.size)]
            found = numbers[comm.all_reduce(bits[comm.rank], op, dtype=dtype)]
            exact = reduce(OPS[op], [numbers[part] for part in bits])
            inside = np.abs(exact) <= numbers[finite].max()
            least = np.abs(numbers[finite][:, None] - exact[inside]).min(0)
            assert (np.abs(found - exact)[inside] == least).all(), f"all_reduce {op} of {dtype.name} is not the nearest"


def objects(comm: Communicator) -> None:
    """Objects of Python come from each rank, and from one, of whatever size each has."""
    mine = {"rank": comm.rank, "text": "x" * (comm.rank * 10_007)}
    wanted = [{"rank": rank, "text": "x" * (rank * 10_007)} for rank in range(comm.size)]
    assert comm.all_gather_object(mine) == wanted, "all_gather_object has not what each rank passed"
    for root in {0, comm.size - 1}:
        found = comm.broadcast_object(mine if comm.rank == root else None, root)
        assert found == wanted[root], f"broadcast_object has not what rank {root} passed"


def moved(comm: Communicator) -> None:
    """all_gather, broadcast and all_to_all move the bits of every dtype, of every size."""
    for dtype in PLAIN:
        for size in SIZES:
            what = f"of {size} {dtype}"
            parts = _all(comm, (size,), dtype, 1)
            _equal(comm.all_gather(parts[comm.rank]), np.stack(parts), f"all_gather {what}")
            for root in {0, comm.size - 1}:
                _equal(comm.broadcast(parts[comm.rank], root), parts[root], f"broadcast from {root} {what}")
            rows = _all(comm, (comm.size, size), dtype, 2)
            wanted = np.stack([row[comm.rank] for row in rows])
            _equal(comm.all_to_all(rows[comm.rank]), wanted, f"all_to_all {what}")


def reduce_scatter(comm: Communicator) -> None:
    """Rank r gets row r of the sum, of arrays of several axes too."""
    for shape in ((0,), (1,), (7,), (3, 5), (20_011,)):
        parts = _all(comm, (comm.size, *shape), "float32", 3)
        wanted = _ordered(parts, "sum")[comm.rank]
        _equal(comm.reduce_scatter(parts[comm.rank]), wanted, f"reduce_scatter of {shape}")


def messages(comm: Communicator) -> None:
    """What a rank sends to the next one arrives, in order."""
    if comm.size == 1:
        return
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in (0, 1, 65_537):
        mine, theirs = drawn(comm.rank, (size,), "float64", 4), drawn(before, (size,), "float64", 4)
        room = np.empty(size)
        if comm.rank % 2 == 0:
            comm.send(mine, after)
            comm.receive(room, before)
        else:
            other = comm.receive(room, before).copy()
            comm.send(mine, after)
            room = other
        _equal(room, theirs, f"receive of {size} from {before}")


def started(comm: Communicator) -> None:
    """What was started is complete when `wait` returns, in whatever order it is waited for, and beside others."""
    shapes = (50_021, 3, 20_011, 0)
    for backwards in (False, True):
        parts = [_all(comm, (size,), "float32", 5 + n) for n, size in enumerate(shapes)]
        works = [comm.start_all_reduce(part[comm.rank]) for part in parts]
        works.append(comm.start_all_gather(parts[0][comm.rank]))
        wanted = [_ordered(part, "sum") for part in parts] + [np.stack(parts[0])]
        order = range(len(works))
        for number in reversed(order) if backwards != (comm.rank % 2 == 1) else order:  # not the same on all ranks
            _equal(works[number].wait(), wanted[number], f"started collective {number}")


def late_ranks(comm: Communicator) -> None:
    """A collective has its values on all ranks also where one comes late."""
    for late in range(comm.size):
        parts = _all(comm, (30_011,), "float64", 9)
        if comm.rank == late:
            time.sleep(0.02)
        _equal(comm.all_reduce(parts[comm.rank]), _ordered(parts, "sum"), f"all_reduce, rank {late} late")


def barrier(comm: Communicator) -> None:
    """No rank leaves a barrier before the last one has come."""
    if comm.size == 1:
        return
    if comm.rank == comm.size - 1:
        time.sleep(0.05)
    came = time.monotonic()  # of one machine, as all of a test are
    comm.barrier()
    left = time.monotonic()
    last = comm.all_reduce(np.array([came]), "max")[0]
    if comm.local_size == comm.size:
        assert left >= last, f"a rank left the barrier {last - left:.3f} s before the last one came"


def differing(comm: Communicator) -> None:
    """Ranks that call different collectives all raise, naming both lines; afterwards they go on."""
    if comm.size == 1:
        return
    try:
        if comm.rank == 0:
            comm.all_reduce(np.zeros(3))
        else:
            comm.broadcast(np.zeros(3))
        text = ""
    except CollectiveError as error:
        text = str(error)
    assert "all_reduce" in text and "broadcast" in text, f"ranks that differ raise an error that names both: {text!r}"
    comm.barrier()


def random_programs(comm: Communicator, count: int = 30, seed: int = 0) -> None:
    """Run `count` random programs of collectives, some started and waited for later, and compare with NumPy.

    The same `seed` gives the same ones on all ranks. Raises AssertionError for a difference.
    """
    for number in range(count):
        chance = np.random.default_rng((seed, number))  # the same on all ranks
        open_works: list[tuple[Any, RankArray, str]] = []
        for at in range(int(chance.integers(1, 6))):
            work, wanted, what = _random_step(comm, chance, seed * 1_000_003 + number * 100 + at)
            open_works.append((work, wanted, f"program {number}, step {at}: {what}"))
            if chance.random() < 0.5:
                for one, value, text in open_works:
                    _equal(one.wait(), value, text)
                open_works.clear()
        for one, value, text in open_works:
            _equal(one.wait(), value, text)


def _random_step(comm: Communicator, chance: Any, seed: int) -> tuple[Any, RankArray, str]:
    """Start one collective that `chance` chooses. Returns it, its value and its name."""
    kind = str(chance.choice(["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]))
    dtype = str(chance.choice([name for name in PLAIN if name != "bool"]))
    op, root = str(chance.choice(list(ops_of(dtype)))), int(chance.integers(comm.size))
    shape: tuple[int, ...] = tuple(int(n) for n in chance.integers(0, 40, int(chance.integers(0, 4))))
    if kind in ("reduce_scatter", "all_to_all"):
        shape = (comm.size, *shape)
    parts = _all(comm, shape, dtype, seed)
    mine, what = parts[comm.rank], f"{kind} of {shape} {dtype}"
    if kind == "all_reduce":
        return comm.start_all_reduce(mine, op), _ordered(parts, op).reshape(shape), what
    if kind == "reduce_scatter":
        return comm.start_reduce_scatter(mine, op), np.asarray(_ordered(parts, op)[comm.rank]), what
    if kind == "all_gather":
        return comm.start_all_gather(mine), np.stack(parts), what
    if kind == "broadcast":
        return comm.start_broadcast(mine, root), parts[root], what
    return comm.start_all_to_all(mine), np.stack([part[comm.rank] for part in parts]), what


CASES: tuple[Case, ...] = (
    all_reduce, mean, in_place, bfloat16, eight_bits, moved, reduce_scatter, objects, messages, started, late_ranks,
    barrier, differing, random_programs,
)  # fmt: skip


def check(comm: Communicator, cases: tuple[Case, ...] = CASES) -> list[str]:
    """Run the cases, and return the failures of all ranks, the same on each: "rank 1, moved: all_gather of 7 ...".

    A rank that fails in a case is out of step with the others, so no further case is run.
    """
    for case in cases:
        try:
            case(comm)
            text = ""
        except (AssertionError, CollectiveError) as error:
            text = f"rank {comm.rank}, {case.__name__}: {error}"
        except Exception as error:
            text = f"rank {comm.rank}, {case.__name__}: {describe(error)}"
        found = _texts(comm, text)
        if found:
            return found
    return []


def _texts(comm: Communicator, text: str) -> list[str]:
    """Return the texts of all ranks that are not empty, in one collective of a fixed size, as the engine may be wrong.

    A rank that has failed early comes here while others are in the case: then all get an error, and come here again.
    """
    room = np.zeros(400, np.uint8)
    data = text.encode(errors="replace")[:400]
    room[: len(data)] = np.frombuffer(data, np.uint8)
    try:
        every = comm.all_gather(room)
    except CollectiveError:
        every = comm.all_gather(room)
    return [found for row in every if (found := row.tobytes().rstrip(b"\0").decode(errors="replace"))]


def main() -> int:
    """Run the kit on this rank; rank 0 prints. Returns the exit code."""
    comm = world()
    failures = check(comm)
    if comm.rank == 0:
        for failure in failures:
            print(failure)
        print(
            f"{len(CASES)} cases, {comm.size} ranks, {comm.transport.about()}: {'FAILED' if failures else 'all passed'}"
        )
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
