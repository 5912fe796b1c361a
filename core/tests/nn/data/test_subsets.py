"""TensorDataset, Subset, ConcatDataset and random_split."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import IndexOutOfRange, ShapeError
from tinygraft.nn.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split


def test_samples_of_tensors() -> None:
    """By number, also from the end; slices; no index beyond."""
    data = TensorDataset(Tensor([[1.0], [2.0], [3.0]]), np.array([4, 5, 6]))
    assert len(data) == 3 and [part.tolist() for part in data[-1]] == [[3.0], 6]
    assert [part.tolist() for part in data[1:]] == [[[2.0], [3.0]], [5, 6]]
    assert repr(data) == "TensorDataset((3, 1), (3,))"
    with pytest.raises(IndexOutOfRange, match="^the data set has 3 samples, index 3 is none of them$"):
        data[3]
    with pytest.raises(ShapeError, match=r"^TensorDataset takes tensors of one length along axis 0, got the shapes"):
        TensorDataset(Tensor([1]), Tensor([1, 2]))


def test_parts_of_data_sets() -> None:
    """A Subset of a Subset, one set behind another; in a loader as by themselves."""
    data = TensorDataset(np.arange(10))
    part = Subset(Subset(data, [9, 8, 7]), [2, 0])
    assert [part[index][0].item() for index in (0, 1)] == [7, 9] and len(part) == 2
    assert [batch[0].tolist() for batch in DataLoader(part, 2)] == [[7, 9]]
    assert [len(batch) for batch in DataLoader(Subset([[1, 2], [3, 4]], [1]), 1)] == [2]
    both = ConcatDataset([[1, 2], [], [3]])
    assert [both[index] for index in (0, 1, 2, -1)] == [1, 2, 3, 3] and len(both) == 3
    with pytest.raises(ShapeError, match="^ConcatDataset takes a list of at least one data set$"):
        ConcatDataset([])


def test_random_split() -> None:
    """By lengths or shares; the same parts for the same seed; every sample once."""
    parts = random_split(range(11), [0.5, 0.25, 0.25], seed=2)
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(index for part in parts for index in part.indices) == list(range(11))
    assert [p.indices for p in parts] == [p.indices for p in random_split(range(11), [6, 3, 2], seed=2)]
    for lengths in ([5, 5], [0.5, 0.2]):
        with pytest.raises(ShapeError, match=r"^the lengths \[.*\] do not add up to the 11 samples, nor to 1$"):
            random_split(range(11), lengths)
