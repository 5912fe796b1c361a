"""Reads and writes by index, place, search and mask against numpy, over generated shapes; gradients; errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinygraft import Context, Tensor
from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError

FILLED = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
KINDS = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]


def numbers(shape: Any, kind: Any = np.float32) -> Any:
    """Different numbers in a shape."""
    return np.arange(int(np.prod(shape))).reshape(shape).astype(kind)


@settings(max_examples=15, deadline=None)
@given(FILLED, st.sampled_from(KINDS), st.data())
def test_along_an_axis(shape: tuple[int, ...], kind: Any, data: st.DataObject) -> None:
    """index_select, index_copy, index_fill and index_add, with negative indices and repeated ones."""
    x = numbers(shape, kind)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    index = data.draw(hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(-n, n - 1)))
    t, i = Tensor(x), Tensor(index)
    np.testing.assert_array_equal(t.index_select(axis, i).numpy(), np.take(x, index, axis))
    source = numbers(np.take(x, index, axis).shape, kind)[..., ::-1].copy()
    lead = (slice(None),) * (axis % len(shape))
    want = x.copy()
    for place, number in enumerate(index):  # the last of equal places stays
        want[(*lead, number)] = source[(*lead, place)]
    np.testing.assert_array_equal(t.index_copy(axis, i, Tensor(source)).numpy(), want)
    want = x.copy()
    want[(*lead, index)] = 1
    np.testing.assert_array_equal(t.index_fill(axis, i, 1).numpy(), want)
    if kind is not np.bool_:
        want = x.copy()
        np.add.at(want, (*lead, index), source * 2)
        np.testing.assert_array_equal(t.index_add(axis, i, Tensor(source), alpha=2).numpy(), want)


@settings(max_examples=12, deadline=None)
@given(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4), st.data())
def test_by_place(shape: tuple[int, ...], data: st.DataObject) -> None:
    """take, put and index_put by flat places, take_along_dim with broadcast axes."""
    x = numbers(shape)
    n = x.size
    index = data.draw(hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3),
                                 elements=st.integers(-n, n - 1)))  # fmt: skip
    t, i = Tensor(x), Tensor(index)
    np.testing.assert_array_equal(t.take(i).numpy(), np.take(x, index))
    source = numbers(index.shape) + 100
    want = x.copy()
    np.put(want, index, source)
    np.testing.assert_array_equal(t.put(i, Tensor(source)).numpy(), want)
    want = x.copy().reshape(-1)
    np.add.at(want, index, source)
    np.testing.assert_array_equal(t.put(i, Tensor(source), accumulate=True).numpy(), want.reshape(shape))
    if shape:
        order = np.argsort(x, -1)[..., ::-1][:1].copy()
        np.testing.assert_array_equal(t.take_along_dim(Tensor(order), -1).numpy(), np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    "index", [([0, 1, 0], [2, 2, 2]), ([True, False, True],), (None, [0, 2]), ([[0], [2]], [0, 1])]
)
def test_index_put(index: Any, accumulate: bool) -> None:
    """index_put stores or adds what `x[index] = v` would, by lists, masks and whole axes."""
    x = numbers((3, 3))
    parts = tuple(slice(None) if part is None else np.array(part) for part in index)
    values = numbers(x[parts].shape) + 10
    want = x.copy()
    if accumulate:
        np.add.at(want, parts, values)
    else:
        want[parts] = values
    given_index = tuple(None if part is None else Tensor(part) for part in index)
    np.testing.assert_array_equal(Tensor(x).index_put(given_index, Tensor(values), accumulate).numpy(), want)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin", "sum"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce: str, include_self: bool) -> None:
    """What lands on one place is combined, with or without what is there."""
    x, source, index = np.array([2.0, 3.0, 5.0]), np.array([7.0, 4.0, 9.0]), [0, 2, 0]
    combine = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min, "sum": np.sum}[reduce]
    landed = [[7.0, 9.0], [], [4.0]]
    want = [combine([own] * include_self + got) if got else own for own, got in zip(x, landed, strict=True)]
    found = Tensor(x).index_reduce(0, Tensor(index), Tensor(source), reduce, include_self)
    np.testing.assert_allclose(found.numpy(), want)


def test_views_written_and_strides_read() -> None:
    """Slices, single places and diagonals replaced; strides over row-major order, overlapping too."""
    x = numbers((3, 4))
    t = Tensor(x)
    want = x.copy()
    want[:, 1::2] = -1
    np.testing.assert_array_equal(t.slice_scatter(Tensor(np.full((3, 2), -1.0)), 1, 1, None, 2).numpy(), want)
    want = x.copy()
    want[:, -1] = [7, 8, 9]
    np.testing.assert_array_equal(t.select_scatter(Tensor([7.0, 8.0, 9.0]), 1, -1).numpy(), want)
    want = x.copy()
    want[[0, 1, 2], [1, 2, 3]] = [7, 8, 9]
    np.testing.assert_array_equal(t.diagonal_scatter(Tensor([7.0, 8.0, 9.0]), 1).numpy(), want)
    strided = np.lib.stride_tricks.as_strided(x[0, 1:], (3, 2), (8, 4))
    np.testing.assert_array_equal(t.as_strided((3, 2), (2, 1), 1).numpy(), strided)
    again = t.as_strided((3, 2), (1, 1))
    np.testing.assert_array_equal(again.sum().gradient(t)[0].numpy()[0], [1, 2, 2, 1])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-5, 5, width=32), max_size=9), st.lists(st.floats(-6, 6, width=32), max_size=9))
def test_search(line: list[float], values: list[float]) -> None:
    """searchsorted and bucketize on both sides, lines of no elements, NaN last; isin."""
    ordered, wanted = np.sort(np.array(line, np.float32)), np.array([*values, np.nan], np.float32)
    for side in ("left", "right"):
        want = np.searchsorted(ordered, wanted, side)
        np.testing.assert_array_equal(Tensor(ordered).searchsorted(Tensor(wanted), side=side).numpy(), want)
    np.testing.assert_array_equal(Tensor(wanted).bucketize(Tensor(ordered)).numpy(), np.searchsorted(ordered, wanted))
    np.testing.assert_array_equal(Tensor(wanted).isin(Tensor(ordered)).numpy(), np.isin(wanted, ordered))


def test_search_by_rows_and_sorter() -> None:
    """Each row has values of its own; a sorter stands for a sorted tensor."""
    rows = np.array([[1, 3, 5], [2, 2, 8]], np.int64)
    values = np.array([[3, 9], [2, 3]], np.int64)
    want = [np.searchsorted(row, v, "right") for row, v in zip(rows, values, strict=True)]
    np.testing.assert_array_equal(Tensor(rows).searchsorted(Tensor(values), right=True).numpy(), want)
    line = Tensor([5, 1, 3])
    assert line.searchsorted(4, sorter=line.argsort()).item() == 2


def test_masks_are_written() -> None:
    """masked_scatter takes from its source one after another, over broadcast shapes."""
    mask = np.array([[True, False, True]])
    x = numbers((2, 3))
    want = x.copy()
    want[np.broadcast_to(mask, x.shape)] = [9, 8, 7, 6]
    found = Tensor(x).masked_scatter(Tensor(mask), Tensor(np.array([9, 8, 7, 6, 5], np.float32)))
    np.testing.assert_array_equal(found.numpy(), want)


WRITES: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "scatter": lambda t, i, v: t.scatter(0, i, v),
    "scatter of rows": lambda t, i, v: t.reshape(3, 1).scatter(0, i.reshape(2, 1), v),
    "scatter_add": lambda t, i, v: t.scatter_add(0, i, v),
    "scatter_reduce": lambda t, i, v: t.scatter_reduce(0, i, v, "prod"),
    "index_add": lambda t, i, v: t.index_add(0, i, v),
    "index_copy": lambda t, i, v: t.index_copy(0, i, v),
    "index_fill": lambda t, i, v: t.index_fill(0, i, v),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_tensor_without_axes_is_written_as_a_number(name: str) -> None:
    """It raised that no index fits its shape; its gradient is that of all that it was written to."""
    write, index, value = WRITES[name], Tensor([2, 0]), Tensor(2.0, requires_grad=True)
    x = Tensor([1.0, 3.0, 5.0], requires_grad=False)
    found = write(x, index, value)
    assert found.tolist() == write(x, index, 2.0).tolist()
    if name not in ("index_fill", "scatter_reduce"):
        assert (found.flatten() * Tensor([1.0, 10.0, 100.0])).sum().gradient(value)[0].item() == 101.0


def test_gradients_go_where_values_went() -> None:
    """A value that is read twice gets both gradients; one that was written over gets none."""
    x, source = Tensor([1.0, 2.0, 3.0]), Tensor([5.0, 6.0])
    assert x.index_select(0, Tensor([2, 2, 0])).sum().gradient(x)[0].tolist() == [1.0, 0.0, 2.0]
    found = (x.index_copy(0, Tensor([0, 2]), source) * Tensor([1.0, 2.0, 4.0])).sum().gradient(x, source)
    assert [g.tolist() for g in found] == [[0.0, 2.0, 0.0], [1.0, 4.0]]
    found = (x.index_add(0, Tensor([1, 1]), source) * Tensor([1.0, 2.0, 4.0])).sum().gradient(x, source)
    assert [g.tolist() for g in found] == [[1.0, 2.0, 4.0], [2.0, 2.0]]


def test_checked_mode_finds_what_lies_outside() -> None:
    """What is not known and out of range reads 0 and writes nothing; CHECK_INDEX=1 raises and names the place."""
    x, index = Tensor([1.0, 2.0]), Tensor([0, 2]) + 0  # to be computed
    assert x[index].tolist() == [1.0, 0.0]
    assert x.index_add(0, index, Tensor([5.0, 5.0])).tolist() == [6.0, 2.0]
    sentence = (
        r"^index 2, at \(1,\) of an index of shape \(2,\), is out of range for axis 0 of shape \(2,\): "
        r"it has 2 elements\n  index made at .*test_selection.py:"
    )
    for read in (lambda: x[index], lambda: x.gather(0, index), lambda: x.index_select(0, index), lambda: x.take(index)):
        with Context(CHECK_INDEX=1), pytest.raises(IndexOutOfRange, match=sentence):
            read()
    with Context(CHECK_INDEX=1):
        assert x[Tensor([1, -1])].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda t: t.index_select(0, Tensor([[0]])), ShapeError,
         "index_select needs an index of one axis, got shape (1, 1)\n  made at "),
        (lambda t: t.index_select(0, Tensor([0.5])), DTypeError,
         "index_select needs an index of integers, got dtypes.float\n  made at "),
        (lambda t: t.index_add(1, Tensor([0]), t), ShapeError,
         "index_add along axis 1 of shape (2, 3) by 1 indices needs a source of shape (2, 1), got (2, 3)\n"),
        (lambda t: t.take_along_dim(Tensor([[0], [0], [0]]), 1), ShapeError,
         "take_along_dim along axis 1 cannot broadcast shapes (2, 3) and (3, 1)\n  tensor made at "),
        (lambda t: t.as_strided((2, 3), (3, 2)), IndexOutOfRange,
         "as_strided would read index 7 of shape (2, 3), which has 6 elements"),
        (lambda t: t.searchsorted(Tensor([[1.0]])), ShapeError,
         "searchsorted needs one sorted line, or axes that agree but for the last, got (2, 3) and (1, "),
        (lambda t: t.index_fill(0, Tensor([0]), Tensor([1.0])), ShapeError,
         "index_fill needs a number, got a tensor of shape (1,)"),
        (lambda t: t.put(Tensor([0]), Tensor([1.0, 2.0])), ShapeError,
         "put needs as many indices as elements, got shapes (1,) and (2,)"),
        (lambda t: t.masked_scatter(Tensor([True, False, True]), Tensor([1.0, 2.0, 3.0])), ShapeError,
         "masked_scatter needs an element of its source for each of 4 that the mask takes, got 3 of shape (3,)\n"),
        (lambda t: t.masked_scatter(Tensor([True, False, True]), Tensor([])), ShapeError,
         "masked_scatter needs an element of its source for each of 4 that the mask takes, got 0 of shape (0,)\n"),
        (lambda t: t.masked_scatter(Tensor([0, 1, 1]), t), DTypeError,
         "masked_scatter needs a mask of bool, got dtypes.int\n  made at "),
    ],
)  # fmt: skip
def test_errors(call: Any, error: type[Exception], sentence: str) -> None:
    """A mistake says what was asked and what was found."""
    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        call(Tensor(numbers((2, 3))))
