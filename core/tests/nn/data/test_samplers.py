"""Samplers: which indices, in which order, for which seed, epoch and rank."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygraft import Tensor
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def test_random_orders() -> None:
    """Permutations; with replacement independent draws; more than there are come again."""
    assert sorted(RandomSampler(range(9), seed=1)) == list(range(9))
    assert Counter(RandomSampler(range(4), num_samples=10, seed=1)).most_common()[-1][1] == 2
    drawn = list(RandomSampler(range(4), replacement=True, num_samples=4000, seed=1))
    assert all(900 < count < 1100 for count in Counter(drawn).values())
    assert sorted(SubsetRandomSampler([5, 7, 9], seed=0)) == [5, 7, 9]
    Tensor.manual_seed(1)
    assert list(RandomSampler(range(9))) == list(RandomSampler(range(9), seed=1))


def test_an_order_is_that_of_its_seed_for_ever() -> None:
    """Written down on 2026-11-24: a new version may not change it, or resumed runs would go on with other batches."""
    sampler = RandomSampler(range(10), seed=7)
    sampler.set_epoch(2)
    assert list(sampler) == [7, 5, 1, 2, 9, 6, 8, 0, 3, 4]


def test_weights() -> None:
    """Indices come by their weight, and never where it is 0."""
    drawn = Counter(WeightedRandomSampler([1, 0, 3], 4000, seed=3))
    assert set(drawn) == {0, 2} and 2.7 < drawn[2] / drawn[0] < 3.3
    assert sorted(WeightedRandomSampler(Tensor([1.0, 0.0, 3.0]), 2, replacement=False, seed=3)) == [0, 2]
    for weights, count, message in (
        ([1, -1], 1, "weights are finite numbers of at least 0 along one axis, got"),
        ([0, 0], 1, "1 indices are to be drawn, and 0 weights are above 0"),
        ([1, 0], 2, "2 indices are to be drawn, and 1 weights are above 0"),
    ):
        with pytest.raises(ShapeError, match=f"^{message}"):
            WeightedRandomSampler(weights, count, replacement=count == 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(1, 7), st.booleans(), st.booleans(), st.integers(0, 3))
def test_ranks_divide_the_indices(size: int, ranks: int, shuffled: bool, drop_last: bool, epoch: int) -> None:
    """All ranks have as many; together they have every index, or all but fewer than there are ranks."""
    parts = []
    for rank in range(ranks):
        sampler = DistributedSampler(range(size), ranks, rank, shuffled, 3, drop_last)
        sampler.set_epoch(epoch)
        parts.append(list(sampler))
        assert len(parts[-1]) == len(sampler)
    assert len({len(part) for part in parts}) == 1
    found = Counter(itertools.chain(*parts))
    assert len(found) > size - ranks if drop_last else set(found) == set(range(size))
    assert not drop_last or not found or max(found.values()) == 1


def test_ranks_as_pytorch_divides_them() -> None:
    """Without a shuffle, the same lists."""
    distributed = pytest.importorskip("torch.utils.data.distributed", reason="PyTorch's sampler is compared with")
    for size, ranks, drop_last in ((10, 3, False), (10, 3, True), (2, 5, False), (9, 3, False)):
        for rank in range(ranks):
            theirs = distributed.DistributedSampler(range(size), ranks, rank, False, drop_last=drop_last)
            assert list(DistributedSampler(range(size), ranks, rank, False, drop_last=drop_last)) == list(theirs)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DistributedSampler([1], 2), ShapeError,
         "DistributedSampler needs num_replicas, the number of processes, and rank, the number of this one; without "
         "both they are those of the ranks of this program"),
        (lambda: DistributedSampler([1], 2, 2), ShapeError, "rank is 0 to 1 of 2 processes, got 2"),
        (lambda: RandomSampler([1], num_samples=0), ShapeError, "num_samples is an integer of at least 1, got 0"),
        (lambda: BatchSampler([1], True), DTypeError, "batch_size is an integer of at least 1, got True"),
        (lambda: list(RandomSampler([], num_samples=2)), ShapeError, "num_samples is 2, and the data set is empty"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(make: Any, error: type[Exception], message: str) -> None:
    """Each with its sentence."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


def test_batches_of_indices() -> None:
    """The last one is shorter, or left out; their number is known."""
    for drop_last, expected in ((False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])):
        batches = BatchSampler(SequentialSampler(np.zeros(7)), 3, drop_last)
        assert list(batches) == expected and len(batches) == len(expected)
