"""Samplers: the indices of an epoch, in their order, from a seed and the number of the epoch.

All have `set_epoch`, which DataLoader calls before each epoch: equal seeds and epochs give equal orders, on every
machine and for any number of workers. Any other iterable of indices is a sampler too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from tinygraft.collectives import world
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.data.seeding import generator
from tinygraft.tensor.ops.random import current_seed


def count_of(value: Any, name: str, least: int = 1) -> int:
    """Return an integer argument, of Python or NumPy, as an int.

    Raises DTypeError for what is none, a bool too, and ShapeError for one below `least`; `name` is the argument's.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise DTypeError(f"{name} is an integer of at least {least}, got {value!r}")
    if value < least:
        raise ShapeError(f"{name} is an integer of at least {least}, got {value}")
    return int(value)


class SequentialSampler:
    """0 to len(data_source) - 1, in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class SeededSampler:
    """A sampler with a seed and an epoch. Without a seed it has that of Tensor.manual_seed."""

    epoch: int
    seed: int | None

    def __init__(self, seed: int | None) -> None:
        self.seed, self.epoch = None if seed is None else int(seed), 0

    def set_epoch(self, epoch: int) -> None:
        """Make the order of the next pass that of `epoch`."""
        self.epoch = epoch if isinstance(epoch, int) else int(epoch)

    def _random(self) -> np.random.RandomState:
        """Return the source of random numbers of the seed and epoch; equal ones give equal numbers."""
        return generator(current_seed() if self.seed is None else self.seed, self.epoch)


class RandomSampler(SeededSampler):
    """A permutation of the indices; with `replacement`, or more `num_samples` than there are, indices come again.

    `num_samples` is how many indices an epoch has, None as many as samples; without `replacement` each permutation is
    used up before the next. Raises ShapeError for num_samples below 1, and when iterated over an empty data set with
    some.

    >>> sampler = RandomSampler(range(5), seed=1)
    >>> sorted(sampler)
    [0, 1, 2, 3, 4]
    >>> list(sampler) == list(sampler)      # of one epoch
    True
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, *, seed: int | None = None
    ) -> None:
        super().__init__(seed)
        self.data_source, self.replacement = data_source, bool(replacement)
        self._count = None if num_samples is None else count_of(num_samples, "num_samples")

    def __len__(self) -> int:
        return len(self.data_source) if self._count is None else self._count

    def __iter__(self) -> Iterator[int]:
        size, count, source = len(self.data_source), len(self), self._random()
        if not size:
            if count:
                raise ShapeError(f"num_samples is {count}, and the data set is empty")
            return iter(())
        if self.replacement:
            return iter(source.randint(0, size, count, dtype=np.int64).tolist())
        rounds = [source.permutation(size) for _ in range(-(-count // size))]
        return iter(np.concatenate(rounds)[:count].tolist())


class SubsetRandomSampler(SeededSampler):
    """The given `indices`, each once, in a random order that changes with the epoch."""

    def __init__(self, indices: Sequence[int], *, seed: int | None = None) -> None:
        super().__init__(seed)
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return (self.indices[place] for place in self._random().permutation(len(self.indices)).tolist())


class WeightedRandomSampler(SeededSampler):
    """`num_samples` indices, each drawn by its weight: a rare class may come as often as the others.

    Indices are those of `weights`, which need not add up to 1. Raises ShapeError for weights that are negative, not
    finite or all 0, for num_samples below 1, and where more are drawn without replacement than have a weight above 0.
    """

    num_samples: int
    replacement: bool

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, *, seed: int | None = None) -> None:
        super().__init__(seed)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.num_samples, self.replacement = count_of(num_samples, "num_samples"), bool(replacement)
        if self.weights.ndim != 1 or not np.isfinite(self.weights).all() or not (self.weights >= 0).all():
            raise ShapeError(f"weights are finite numbers of at least 0 along one axis, got {weights!r}")
        positive = int((self.weights > 0).sum())
        if not positive or (not self.replacement and positive < self.num_samples):
            raise ShapeError(f"{self.num_samples} indices are to be drawn, and {positive} weights are above 0")

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        share, source = self.weights / self.weights.sum(), self._random()
        drawn = source.choice(len(share), self.num_samples, replace=self.replacement, p=share)
        return iter(drawn.tolist())


class DistributedSampler(SeededSampler):
    """The indices of one process of several that train together: every `num_replicas`-th of one common order.

    All processes have the same number of indices: where they do not divide evenly, the first ones come again, or with
    `drop_last` the last ones are left out. All need the same seed, 0 by default. Without `num_replicas` and `rank` they
    are those of this process among the ranks of the program (collectives.world). Raises ShapeError for one of them
    alone, and for a rank that is not below num_replicas. Source: torch.utils.data.distributed.

    >>> [list(DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    dataset: Sized
    shuffle: bool
    drop_last: bool
    num_replicas: int
    rank: int

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(seed)
        if (num_replicas is None) != (rank is None):
            raise ShapeError(
                "DistributedSampler needs num_replicas, the number of processes, and rank, the number of this one; "
                "without both they are those of the ranks of this program"
            )
        if num_replicas is None or rank is None:
            num_replicas, rank = world().size, world().rank
        self.dataset, self.shuffle, self.drop_last = dataset, bool(shuffle), bool(drop_last)
        self.num_replicas, self.rank = count_of(num_replicas, "num_replicas"), count_of(rank, "rank", 0)
        if self.rank >= self.num_replicas:
            raise ShapeError(f"rank is 0 to {self.num_replicas - 1} of {self.num_replicas} processes, got {rank}")

    def __len__(self) -> int:
        size = len(self.dataset)
        return size // self.num_replicas if self.drop_last else -(-size // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        size, count = len(self.dataset), len(self) * self.num_replicas
        order = self._random().permutation(size) if self.shuffle else np.arange(size)
        order = np.resize(order, count) if size else order  # NumPy's resize repeats from the start
        return iter(order[self.rank : count : self.num_replicas].tolist())


class BatchSampler:
    """Lists of `batch_size` indices of a sampler; the last may be shorter, or is left out with `drop_last`."""

    sampler: Iterable[Any]
    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, count_of(batch_size, "batch_size"), bool(drop_last)

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # Python says which sampler has no length
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Call `set_epoch` of the sampler, where it has that."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
