"""Data sets made of tensors, or of parts of other data sets.

`rows_of` is what makes batches of tensors fast: one selection of rows, and no samples that would be stacked again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError
from tinygraft.nn.data.collate import RawBits, as_tensors, raw_or_array
from tinygraft.nn.data.samplers import count_of
from tinygraft.nn.data.seeding import generator
from tinygraft.tensor.ops.random import order_seed
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.tensor import Tensor


class TensorDataset:
    """Tensors or arrays of one length; a sample is the tuple of their rows. They are read once, into host memory.

    Raises ShapeError where there are none, or their lengths differ. A DataLoader also takes a tensor or an array
    itself, whose samples are its rows.

    >>> x, y = TensorDataset(Tensor([[1.0], [2.0]]), Tensor([3, 4]))[1]
    >>> x.tolist(), y.item()
    ([2.0], 4)
    """

    def __init__(self, *tensors: Any) -> None:
        self.columns: list[Any] = [raw_or_array(tensor) for tensor in tensors]
        shapes = [_bits(column).shape for column in self.columns]
        if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(f"TensorDataset takes tensors of one length along axis 0, got the shapes {shapes}")

    def __len__(self) -> int:
        return len(_bits(self.columns[0]))

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        """Return a tuple of Tensors: the rows at an int, or those at what NumPy indexes with.

        Raises IndexOutOfRange for an int outside.
        """
        if isinstance(index, str):
            raise DTypeError(f"a sample of a TensorDataset is found by its number, got {index!r}")
        if isinstance(index, (int, np.integer)):
            index = in_range(int(index), len(self))
        return tuple(as_tensors(column) for column in self.rows(index))

    def rows(self, index: Any) -> tuple[Any, ...]:
        """Return the rows at `index`, what NumPy indexes with, of each tensor: arrays, or RawBits."""
        return tuple(_selected(column, index) for column in self.columns)

    def __repr__(self) -> str:
        shapes = ", ".join(str(_bits(column).shape) for column in self.columns)
        return f"TensorDataset({shapes})"


def _bits(column: Any) -> Any:
    """Return the array of a column, which for RawBits is that of its bits."""
    return column.bits if isinstance(column, RawBits) else column


def _selected(column: Any, index: Any) -> Any:
    """Return the rows of a column at `index`, RawBits where it is such."""
    if isinstance(column, RawBits):
        return RawBits(np.asarray(column.bits[index]), column.dtype)
    return np.asarray(column[index])


def in_range(index: int, size: int) -> int:
    """Return an index from 0 on, also for one that counts from the end. Raises IndexOutOfRange for one outside."""
    if not -size <= index < size:
        raise IndexOutOfRange(f"the data set has {size} samples, index {index} is none of them")
    return index % size


class Subset:
    """The samples of a data set at some indices, in their order."""

    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        """Return the sample at an index, or what the data set returns for a list of them. Raises IndexOutOfRange."""
        if isinstance(index, list):
            return self.dataset[[self.indices[place] for place in index]]
        return self.dataset[self.indices[in_range(int(index), len(self))]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, by the method of that name of the data set where it has one."""
        there = [self.indices[place] for place in indices]
        several = getattr(self.dataset, "__getitems__", None)
        return list(several(there)) if several else [self.dataset[place] for place in there]


class ConcatDataset:
    """Data sets one after another, each with a length. Raises ShapeError for none.

    An index outside of all of them raises IndexOutOfRange.
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise ShapeError("ConcatDataset takes a list of at least one data set")
        self._ends = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Any:
        place = in_range(int(index), len(self))
        which = bisect_right(self._ends, place)
        return self.datasets[which][place - (self._ends[which - 1] if which else 0)]


@either_spelling
def random_split(dataset: Any, lengths: Sequence[float], *, seed: int | None = None) -> list[Subset]:
    """Split a data set at random into Subsets of the given lengths, or shares that add up to 1.

    What shares leave over is given to the first ones, one each. Without a seed the first order is that of
    Tensor.manual_seed, each further one another. Raises ShapeError for lengths that do not add up or are negative,
    DTypeError for floats that are no shares. Source: torch.utils.data.random_split.

    >>> [len(part) for part in random_split(range(10), [0.75, 0.25], seed=0)]
    [8, 2]
    """
    if not isinstance(lengths, Iterable) or not all(isinstance(n, (int, float, np.number)) for n in lengths):
        raise DTypeError(f"random_split needs lengths as a list of numbers, as [0.8, 0.2] or [80, 20], got {lengths!r}")
    size, counts = len(dataset), list(lengths)
    if counts and any(isinstance(share, float) for share in counts) and abs(sum(counts) - 1) < 1e-6:
        counts = [int(size * share) for share in counts]
        for place in range(size - int(sum(counts))):
            counts[place % len(counts)] += 1
    if sum(counts) != size:
        raise ShapeError(f"the lengths {list(lengths)} do not add up to the {size} samples, nor to 1")
    sizes = [count_of(count, "a length", 0) for count in counts]
    order = generator(order_seed() if seed is None else count_of(seed, "seed", 0), 0).permutation(size).tolist()
    return [Subset(dataset, order[end - count : end]) for count, end in zip(sizes, accumulate(sizes), strict=True)]


def rows_of(dataset: Any) -> Callable[[list[int]], Any] | None:
    """Return what selects a whole batch of a data set of arrays at once; None for any other.

    The function gets a list of indices and returns NumPy's arrays (or RawBits): a tuple of them for a TensorDataset.
    """
    if isinstance(dataset, TensorDataset):
        return dataset.rows
    if isinstance(dataset, (Tensor, np.ndarray)):
        columns = TensorDataset(dataset)
        return lambda indices: columns.rows(indices)[0]
    if isinstance(dataset, Subset) and type(dataset) is Subset and (inner := rows_of(dataset.dataset)) is not None:
        indices = dataset.indices
        return lambda places: inner([indices[place] for place in places])
    return None


def samples_of(dataset: Any, indices: Sequence[Any]) -> Iterator[Any]:
    """Yield the samples at some indices: all at once where the data set has `__getitems__`, else one by one."""
    several = getattr(dataset, "__getitems__", None)
    if several is not None:
        yield from several(list(indices))
    else:
        for index in indices:
            yield dataset[index]
