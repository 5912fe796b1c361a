"""Indices that name nothing, and axes with one element or none: reads and writes in all forms, beside NumPy.

A write through an empty index leaves everything as it was, whatever the other parts of the index name.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import IndexOutOfRange

SHAPES = [(1, 6), (6, 1), (1, 1), (0, 3), (3, 0), (2, 3), (1, 0, 2), (1, 4, 1)]
PARTS: list[Any] = [
    slice(None), slice(1, None), slice(0, 0), slice(5, 2), slice(None, None, -1), 0, -1, None,
    [], [0], [0, 0], [-1, 0], [[0], [0]], "all", "none",
]  # fmt: skip


def forms(shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Every pair of parts; masks are of the length of their axis."""
    found = []
    for one, other in itertools.product(PARTS, repeat=2):
        index, axis = [], 0
        for part in (one, other):
            if part in ("all", "none"):
                part = np.full(shape[min(axis, len(shape) - 1)], part == "all")
            elif isinstance(part, list):
                part = np.array(part, np.int64).reshape(np.shape(part) or (0,))
            index.append(part)
            axis += part is not None
        found.append(tuple(index))
    return found


def in_tensors(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arrays as tensors."""
    return tuple(Tensor(part) if isinstance(part, np.ndarray) else part for part in index)


def as_put(x: np.ndarray[Any, Any], index: Any, value: Any, accumulate: bool) -> np.ndarray[Any, Any]:
    """What index_put means."""
    found = x.copy()
    if accumulate:
        np.add.at(found, index, value)
    else:
        found[index] = value
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reads_and_writes(shape: tuple[int, ...]) -> None:
    """t[index], t[index] = 99, index_put and the gradient of a read."""
    x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    t = Tensor(x).realize()
    refused: list[Any] = []
    for index in forms(shape):
        try:
            read = x[index]
        except IndexError:
            continue
        mine = in_tensors(index)
        try:
            found = t[mine].numpy()
        except IndexOutOfRange:  # as PyTorch does; NumPy does not look where the result is empty
            refused.append(index)
            continue
        np.testing.assert_array_equal(found, read, err_msg=f"read {index}")
        if read.size:
            continue  # what names something is in test_indexing.py
        written = Tensor(x).realize()
        written[mine] = 99.0
        np.testing.assert_array_equal(written.numpy(), x, err_msg=f"write {index}")
        np.testing.assert_array_equal(t[mine].sum().gradient(t)[0].numpy(), np.zeros(shape), err_msg=f"slope {index}")
        if all(isinstance(part, (slice, np.ndarray)) for part in index):
            for accumulate in (False, True):
                put = t.index_put(mine, Tensor(99.0, dtype=t.dtype), accumulate)
                np.testing.assert_array_equal(put.numpy(), x, err_msg=f"put {index}")
    assert 0 in shape or not refused


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (2, 3)], ids=str)
def test_index_put_of_few(shape: tuple[int, int], accumulate: bool) -> None:
    """Axes of one element with indices that name something."""
    x = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)
    for rows, columns in itertools.product([slice(None), slice(0, 1), [0], [0, 0], [-1]], repeat=2):
        index = tuple(np.array(part) if isinstance(part, list) else part for part in (rows, columns))
        found = Tensor(x).index_put(in_tensors(index), Tensor(99.0, dtype="float64"), accumulate).numpy()
        np.testing.assert_array_equal(found, as_put(x, index, 99.0, accumulate), err_msg=f"{index}")


def test_a_slice_of_nothing_on_an_axis_of_one() -> None:
    """The write that was made although the slice is empty."""
    t = Tensor([[0, 1, 2, 3, 4, 5]])
    assert t.index_put((slice(1, None), Tensor([3, 4])), Tensor(99)).tolist() == [[0, 1, 2, 3, 4, 5]]
    assert t.index_put((slice(1, None), Tensor([3, 4])), Tensor(99), True).tolist() == [[0, 1, 2, 3, 4, 5]]


def test_scatters_of_nothing() -> None:
    """scatter and its kin by an index without elements give the values, in memory of their own."""
    t, none = Tensor([1.0, 2.0]).realize(), (Tensor([0, 1]) + 0)[2:]
    empty = Tensor([3.0])[1:]
    for found in (t.scatter(0, none, empty), t.scatter_add(0, none, empty), t.scatter_reduce(0, none, empty, "amax"),
                  t.index_add(0, none, empty), t.index_copy(0, none, empty), t.index_fill(0, none, 9.0),
                  t.put(none, empty)):  # fmt: skip
        assert found.tolist() == [1.0, 2.0]
        found.assign(Tensor([7.0, 7.0])).realize()
        assert t.tolist() == [1.0, 2.0]
