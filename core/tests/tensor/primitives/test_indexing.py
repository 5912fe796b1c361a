"""Reading and writing by index, held to numpy; gather, scatter and masks, held to their definitions."""

from __future__ import annotations

import contextlib
import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_numpy import evaluate, values
from tinygraft import Tensor, dtypes
from tinygraft.config import Context
from tinygraft.errors import AxisError, DTypeError, IndexOutOfRange, ShapeError
from tinygraft.tensor.primitives.index_picks import basic, parse
from tinygraft.tensor.primitives.indexing import _row_node, _slice_node
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort

X = np.arange(24, dtype=np.int32).reshape(2, 3, 4)

BASIC = [
    np.s_[0], np.s_[-1], np.s_[1, 2], np.s_[1, 2, 3], np.s_[...], np.s_[:], np.s_[()], np.s_[:, 1:], np.s_[:, :-1, 2:],
    np.s_[..., 0], np.s_[0, ..., 1], np.s_[None], np.s_[:, None, ..., None], np.s_[::-1], np.s_[:, ::2, ::3],
    np.s_[..., ::-2], np.s_[:, 2:0:-1], np.s_[5:], np.s_[1:1], np.s_[:, 3:1], np.s_[-5:5], np.s_[None, 0, None, 1:, 2],
    np.s_[np.int64(1), :, np.int8(-1)],
]  # fmt: skip
FANCY = [
    [0], [1, 0, 1], np.s_[:, [2, 0]], np.s_[..., [3, -1]], np.s_[[0, 1], [1, 2]], np.s_[[0, 1], :, [3, 0]],
    np.s_[:, [0, 2], [1, 3]], np.s_[0, :, [1, 2]], np.s_[:, 0, [1, -1]], np.s_[[1], 0, 1:3], np.s_[[[0], [1]], [0, 2]],
    np.s_[:, [[0, 2], [1, 1]]], np.s_[[0, 1], 1, [2, 3]], np.s_[1:, [0, 1], ::2], np.s_[None, [0], :, None, [1]],
    np.s_[::-1, [2, 1]], np.array([1, 1]), np.s_[:, np.array(2)], [], np.s_[:, np.array([-3, -1], np.int8)],
]  # fmt: skip


def ident(index: Any) -> str:
    """A readable test id."""
    return re.sub(r"[^\w:,.\[\]-]", "", str(index)) or "empty"


@pytest.mark.parametrize("index", BASIC + FANCY, ids=ident)
def test_reading_agrees_with_numpy(index: Any) -> None:
    """t[index] has numpy's shape and values."""
    np.testing.assert_array_equal(values(Tensor(X)[index]), X[index])


@pytest.mark.parametrize("index", BASIC + FANCY, ids=ident)
def test_writing_agrees_with_numpy(index: Any) -> None:
    """t[index] = v stores what numpy stores, for a number and for an array of the part's shape."""
    for value in (-7, np.arange(100, 100 + X[index].size, dtype=np.int32).reshape(X[index].shape)):
        expected, t = X.copy(), Tensor(X)
        expected[index] = value
        t[index] = value if isinstance(value, int) else Tensor(value)
        np.testing.assert_array_equal(values(t), expected)


@pytest.mark.parametrize("index", BASIC + FANCY, ids=ident)
def test_gradients_of_reads_and_writes(index: Any) -> None:
    """A read sends its gradient back to the places it read, a write keeps it from the places it overwrote."""
    weight = np.random.default_rng(6).integers(1, 9, X[index].shape).astype(np.float32)
    expected = np.zeros(X.shape, np.float32)
    np.add.at(expected, index, weight)
    x = Tensor(X.astype(np.float32), requires_grad=True)
    (x[index] * Tensor(weight)).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    kept, source = Tensor(X.astype(np.float32), requires_grad=True), Tensor(weight, requires_grad=True)
    written = kept * 1
    written[index] = source * 2
    (written * 3).sum().backward()
    expected = np.full(X.shape, 3, np.float32)
    expected[index] = 0
    numbers, last = np.arange(1, weight.size + 1).reshape(weight.shape), np.zeros(X.shape, np.int64)
    last[index] = numbers
    sent = np.zeros(weight.shape) if source.grad is None else source.grad.numpy()
    np.testing.assert_array_equal(sent, np.isin(numbers, last) * 6.0)
    found = np.zeros(X.shape) if kept.grad is None else kept.grad.numpy()  # nothing of it may be left
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", FANCY, ids=ident)
def test_index_tensors_read_like_lists(index: Any) -> None:
    """Tensors as indices, of which nothing is known before they are computed, read the same places."""
    parts = index if isinstance(index, tuple) else (index,)
    wrapped = tuple(Tensor(np.asarray(p, np.int32)) if isinstance(p, (list, np.ndarray)) else p for p in parts)
    np.testing.assert_array_equal(values(Tensor(X)[wrapped]), X[index])


@pytest.mark.parametrize("dtype", dtypes.ints)
def test_indices_of_every_integer_dtype_work(dtype: Any) -> None:
    """An index tensor may be of any integer dtype; negative ones count from the end."""
    x = np.arange(300, dtype=np.int32)
    places = [-1, 0, 5] if dtype.kind == "int" else [0, 5, 200]
    assert values(Tensor(x)[Tensor(places, dtype=dtype)]).tolist() == x[places].tolist()


def test_a_tensor_index_is_one_gather() -> None:
    """Reading by a tensor is a GATHER in the graph, not a comparison with every place."""
    ops = [node.op for node in toposort(Tensor(X)[:, Tensor([0, 2])].uop)]
    assert ops.count(Ops.GATHER) == 1
    assert Ops.CMPEQ not in ops
    assert Ops.REDUCE_AXIS not in ops


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0)])
def test_a_mask_without_elements_picks_nothing(shape: tuple[int, ...]) -> None:
    """As in numpy it may be 0 long along an axis of any length; other lengths have to agree."""
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    mask = np.zeros(shape, bool)
    assert values(Tensor(x)[Tensor(mask)]).shape == x[mask].shape
    with pytest.raises(IndexError, match=r"^a mask of shape \(0, 2\) does not fit axes 0 to 1 of shape \(2, 3\)"):
        Tensor(x)[Tensor.zeros(0, 2, dtype="bool")]


@pytest.mark.parametrize("axis_mask", [X > 11, X.sum((1, 2)) > 100, X[:, :, 0] % 8 == 0, X < 0, X >= 0], ids=range(5))
def test_masks_read_and_write_as_in_numpy(axis_mask: Any) -> None:
    """A mask over all or the first axes reads the places where it is true and writes a number or rows there."""
    mask = Tensor(axis_mask)
    np.testing.assert_array_equal(values(Tensor(X)[mask]), X[axis_mask])
    np.testing.assert_array_equal(values(Tensor(X)[axis_mask]), X[axis_mask])
    rows = np.arange(X[axis_mask].size, dtype=np.int32).reshape(X[axis_mask].shape)
    for value in (5, rows):
        expected, t = X.copy(), Tensor(X)
        expected[axis_mask] = value
        t[mask] = value
        np.testing.assert_array_equal(values(t), expected)


def test_a_mask_with_a_number_needs_no_look_at_the_mask() -> None:
    """t[mask] = number is a WHERE: the mask stays lazy."""
    t, mask = Tensor(X), Tensor(X) > 3
    t[mask] = 0
    assert mask.uop.base.realized is None
    assert Ops.WHERE in [n.op for n in toposort(t.uop)]


def test_masks_mix_with_other_indices() -> None:
    """A mask of one axis next to slices, ellipses and integers picks like a list of places."""
    mask = np.array([True, False, True])
    for index in (np.s_[:, mask], np.s_[0, mask], np.s_[:, mask, 1:], np.s_[..., mask, :]):
        parts = tuple(Tensor(p) if isinstance(p, np.ndarray) else p for p in index)
        np.testing.assert_array_equal(values(Tensor(X)[parts]), X[index])
    last = np.array([True, False, False, True])
    np.testing.assert_array_equal(values(Tensor(X)[..., last]), X[..., last])


def test_the_last_of_several_writes_to_one_place_stays() -> None:
    """Where an index names a place twice, the later value is kept, as in numpy."""
    t = Tensor([0, 0, 0])
    t[[1, 1, 0]] = Tensor([5, 6, 7])
    assert values(t).tolist() == [7, 6, 0]


def test_values_are_broadcast_and_cast() -> None:
    """A written value is broadcast to its place, loses leading ones and takes the tensor's dtype."""
    t = Tensor(X)
    t[0] = Tensor([[[1.9, 2.9, 3.9, 4.9]]])
    t[1, :, 1:3] = [7, 8]
    expected = X.copy()
    expected[0], expected[1, :, 1:3] = [1, 2, 3, 4], [7, 8]
    np.testing.assert_array_equal(values(t), expected)
    with pytest.raises(ShapeError, match=r"cannot write a value of shape \(2,\) to elements of shape \(3, 4\)"):
        t[0] = Tensor([1, 2])


def test_earlier_expressions_keep_their_values() -> None:
    """A sum made before t[i] = v has the value that t had then, and views have those that it has now."""
    t = Tensor([1, 2, 3, 4])
    view, total, same = t[1:3], t + 10, t.reshape(2, 2)
    t[2] = 99
    t[:2] = t[2:]
    assert values(t).tolist() == [99, 4, 99, 4]
    assert (view.tolist(), total.tolist(), same.tolist()) == ([4, 99], [11, 12, 13, 14], [[99, 4], [99, 4]])


def test_writing_into_constants_and_expressions() -> None:
    """A tensor without memory of its own can be written to."""
    t = Tensor.zeros(4)
    t[1] = 5
    t[3:] = 2.5
    assert values(t).tolist() == [0.0, 5.0, 0.0, 2.5]
    u = Tensor.arange(6).reshape(2, 3) * 2
    u[:, ::2] = 0
    assert values(u).tolist() == [[0, 2, 0], [0, 8, 0]]


def test_reversed_and_overlapping_writes() -> None:
    """t[1:] = t[:-1] and t[::-1] = t read the old values."""
    t = Tensor([1, 2, 3, 4])
    t[1:] = t[:-1]
    assert values(t).tolist() == [1, 1, 2, 3]
    t[::-1] = t
    assert values(t).tolist() == [3, 2, 1, 1]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (2, "index 2 is out of range for axis 0 of shape (2, 3, 4): it has 2 elements"),
        (np.s_[:, -4], "index -4 is out of range for axis 1 of shape (2, 3, 4)"),
        (np.s_[..., 4], "index 4 is out of range for axis 2"),
        ([0, 2], "index 2, at (1,) of an index of shape (2,), is out of range for axis 0"),
        (np.s_[:, [-4]], "index -4, at (0,) of an index of shape (1,), is out of range for axis 1"),
        (np.s_[0, 0, 0, 0], "4 indices for a tensor of 3 axes, shape (2, 3, 4)"),
        (np.s_[..., ...], "an index can have one ellipsis"),
        (np.s_[[0, 1], [0, 1, 2]], "index tensors of shapes (2,), (3,) do not broadcast together"),
        (np.array([True, False, True]), "a mask of shape (3,) does not fit axis 0 of shape (2, 3, 4)"),
    ],
    ids=ident,
)
def test_indices_known_to_be_wrong_raise(index: Any, message: str) -> None:
    """A place that is known to lie outside raises IndexOutOfRange, an IndexError, with axis and shape."""
    for use in (lambda: Tensor(X)[index], lambda: Tensor(X).__setitem__(index, 0)):
        with pytest.raises(IndexOutOfRange, match=re.escape(message)):
            use()
    assert issubclass(IndexOutOfRange, IndexError)


def test_tensors_whose_bounds_are_known_raise_too() -> None:
    """An index tensor of a constant that lies outside raises before anything is computed."""
    for place in (2, -3):
        with pytest.raises(IndexOutOfRange, match=f"index {place} is out of range for axis 0 of shape"):
            Tensor(X)[Tensor(place)]
    assert Tensor(X)[Tensor(-2)].tolist() == X[-2].tolist()


def test_what_is_no_index_raises() -> None:
    """Floats, strings and steps of 0 are refused in words."""
    t = Tensor(X)
    with pytest.raises(DTypeError, match=r"an index is made of integers, slices, None, \.\.\. and tensors, got float"):
        t[1.5]
    with pytest.raises(DTypeError, match="an index is made of integers or bools, got a tensor of dtypes.float"):
        t[Tensor([1.5])]
    with pytest.raises(DTypeError, match="got a list or array of float64"):
        t[[1.5]]
    with pytest.raises(ShapeError, match="a slice needs a step other than 0"):
        t[::0]
    with pytest.raises(TypeError, match="a tensor cannot lose elements"):
        del t[0]


def test_places_outside_read_zero_and_are_not_written() -> None:
    """A tensor index that turns out to lie outside reads 0, also with several index tensors, and writes nothing."""
    t = Tensor([1, 2, 3])
    assert values(t[Tensor([3, -4, 2]) + 0]).tolist() == [0, 0, 3]
    square = Tensor([[1, 2], [3, 4]])
    assert values(square[Tensor([0, 1, 0]), Tensor([2, 1, -3]) + 0]).tolist() == [0, 4, 0]
    t[Tensor([5, 0]) + 0] = Tensor([8, 9])
    assert values(t).tolist() == [9, 2, 3]


def test_a_symbolic_place_reads_and_writes() -> None:
    """Slices with bounds that are bound variables read and write, as a cache of keys and values needs."""
    n = UOp.variable("n", 0, 6).bind(2)
    cache = Tensor.zeros(8, 2).contiguous().realize()
    cache[n : n + 2] = Tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = np.zeros((8, 2), np.float32)
    expected[2:4] = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(evaluate(cache.uop), expected)
    np.testing.assert_array_equal(cache.numpy(), expected)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_index_reads_and_writes_as_in_numpy(data: st.DataObject) -> None:
    """Random mixtures of integers, slices, None and lists read and write numpy's places."""
    shape = (3, 2, 4)
    x = np.arange(24, dtype=np.int32).reshape(shape)
    count = data.draw(st.integers(1, 2))
    index: list[Any] = []
    for size in shape:
        kind = data.draw(st.sampled_from(["int", "slice", "slice", "list"]))
        if kind == "int":
            index.append(data.draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            end = st.none() | st.integers(-5, 5)
            index.append(slice(data.draw(end), data.draw(end), data.draw(st.sampled_from([None, 1, 2, -1, -3]))))
        else:
            index.append(data.draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count)))
        if data.draw(st.booleans()):
            index.append(None)
    key = tuple(index)
    np.testing.assert_array_equal(evaluate(Tensor(x)[key].uop), x[key])
    t, expected = Tensor(x), x.copy()
    t[key], expected[key] = 77, 77
    np.testing.assert_array_equal(evaluate(t.uop), expected)


# By index tensors of the same number of axes


def test_gather_and_scatter_agree_with_their_definition() -> None:
    """gather picks along one axis at every other coordinate, scatter stores there; shorter indices are allowed."""
    rng = np.random.default_rng(0)
    for dim in (0, 1, 2, -1):
        index = rng.integers(0, X.shape[dim], (2, 2, 3))
        index = np.minimum(index, X.shape[dim] - 1).astype(np.int32)
        grid = list(np.indices(index.shape))
        grid[dim] = index
        np.testing.assert_array_equal(values(Tensor(X).gather(dim, Tensor(index))), X[tuple(grid)])
        source = rng.integers(0, 100, (2, 3, 4)).astype(np.int32)
        for reduce, ufunc in ((None, None), ("add", np.add), ("multiply", np.multiply)):
            expected = X.copy()
            for place in np.ndindex(*index.shape):
                at = tuple(g[place] for g in grid)
                expected[at] = source[place] if ufunc is None else ufunc(expected[at], source[place])
            found = Tensor(X).scatter(dim, Tensor(index), Tensor(source), reduce)
            np.testing.assert_array_equal(values(found), expected)


def test_scatter_takes_a_number() -> None:
    """A number is stored, added or multiplied at every place."""
    index = Tensor([[0, 0], [1, 2]])
    assert values(Tensor.zeros(2, 3).scatter(1, index, 5.0)).tolist() == [[5, 0, 0], [0, 5, 5]]
    assert values(Tensor.ones(2, 3).scatter(1, index, 2, reduce="add")).tolist() == [[5, 1, 1], [1, 3, 3]]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_agrees_with_its_definition(reduce: str, include_self: bool) -> None:
    """Every way of combining, with and without what is there before."""
    base = np.array([10.0, -20.0, 30.0, 40.0], np.float32)
    index, source = np.array([0, 2, 0, 0, 1], np.int32), np.array([1.0, 2.0, -3.0, 4.0, 5.0], np.float32)
    expected = base.copy()
    combine = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for place in set(index.tolist()):
        landed = source[index == place].tolist()
        expected[place] = combine(([base[place]] if include_self else []) + landed)
    found = Tensor(base).scatter_reduce(0, Tensor(index), Tensor(source), reduce, include_self)
    np.testing.assert_allclose(values(found), expected, rtol=1e-6)


def test_gather_and_scatter_errors() -> None:
    """An index that does not fit, is of floats, or an unknown reduction, raises."""
    t = Tensor(X)
    with pytest.raises(
        ShapeError, match=r"an index of shape \(3, 1, 1\) does not fit a tensor of shape \(2, 3, 4\) along axis 1"
    ):
        t.gather(1, Tensor.zeros(3, 1, 1, dtype=dtypes.int32))
    with pytest.raises(DTypeError, match="gather needs an index of integers, got dtypes.float"):
        t.gather(0, Tensor.zeros(1, 1, 1))
    with pytest.raises(ShapeError, match="scatter takes reduce=None, 'add' and 'multiply', got 'min'"):
        t.scatter(0, Tensor([[[0]]]), 1, reduce="min")
    with pytest.raises(ShapeError, match="scatter_reduce takes sum, prod, mean, amax, amin, got 'x'"):
        t.scatter_reduce(0, Tensor([[[0]]]), Tensor([[[1]]]), "x")
    with pytest.raises(ShapeError, match=r"an index of shape \(1, 1, 2\) does not fit a source of shape \(1, 1, 1\)"):
        t.scatter(0, Tensor([[[0, 1]]]), Tensor([[[1]]]))


# By masks


def test_where_and_masked_fill_choose() -> None:
    """where takes tensors and numbers on both sides and promotes them; masked_fill keeps the tensor's place."""
    mask = Tensor([True, False, True])
    assert values(mask.where(Tensor([1, 2, 3]), 0)).tolist() == [1, 0, 3]
    assert values(mask.where(1.5, Tensor([1, 2, 3]))).tolist() == [1.5, 2.0, 1.5]
    assert mask.where(1, 2).dtype is dtypes.int32
    assert values(Tensor([[1.0], [2.0]]).masked_fill(mask, -1)).tolist() == [[-1, 1, -1], [-1, 2, -1]]
    with pytest.raises(ShapeError, match=r"cannot choose between shapes \(3,\) and \(2,\)"):
        mask.where(Tensor([1, 2]), 0)


def test_places_that_are_true() -> None:
    """nonzero and masked_select find them; with a size the result has that length and is filled up."""
    x = np.array([[0, 3, 0], [4, 0, 5]], np.int32)
    t = Tensor(x)
    np.testing.assert_array_equal(values(t.nonzero()), np.argwhere(x))
    np.testing.assert_array_equal(values(t.nonzero(size=4, fill_value=-1)), [[0, 1], [1, 0], [1, 2], [-1, -1]])
    np.testing.assert_array_equal(values(t.nonzero(size=2)), [[0, 1], [1, 0]])
    assert values(t.masked_select(t > 3)).tolist() == [4, 5]
    assert values(t.masked_select(t > 0, size=5, fill_value=9)).tolist() == [3, 4, 5, 9, 9]
    assert values(Tensor([0, 0]).nonzero()).shape == (0, 1)
    with pytest.raises(ShapeError, match=r"a mask of shape \(5,\) does not fit a tensor of shape \(2, 3\)"):
        t.masked_select(Tensor([True] * 5))


def test_one_hot_marks_the_class() -> None:
    """The last axis is 1 at each element's class; -1 classes counts them."""
    assert values(Tensor([0, 2, 1]).one_hot(3)).tolist() == np.eye(3, dtype=int)[[0, 2, 1]].tolist()
    assert Tensor([[0, 3]]).one_hot().shape == (1, 2, 4)
    with pytest.raises(DTypeError, match="one_hot needs integers, got dtypes.float"):
        Tensor([1.0]).one_hot(2)


# In order


@pytest.mark.parametrize("dtype", dtypes.all)
def test_sort_agrees_with_numpy_for_every_dtype(dtype: Any) -> None:
    """Values and places are those of a stable sort, extremes, zeros of both signs and repeats included."""
    rng = np.random.default_rng(1)
    x = rng.integers(-40, 40, (3, 17)).astype(np.float64)
    if dtype.kind == "float":
        x[0, :4] = [np.inf, -np.inf, -0.0, 0.0]
    t = Tensor(x, dtype=dtype)
    held = evaluate(t.uop)
    found, places = t.sort()
    np.testing.assert_array_equal(values(places), np.argsort(held, axis=-1, kind="stable"))
    np.testing.assert_array_equal(values(found), np.sort(held, axis=-1, kind="stable"))


def test_sort_puts_nan_last_and_descends_stably() -> None:
    """NaN counts as the greatest; equal elements keep their order in both directions; any axis works."""
    t = Tensor([1.0, float("nan"), -1.0, 1.0])
    assert t.argsort().tolist() == [2, 0, 3, 1]
    assert t.argsort(descending=True).tolist() == [1, 0, 3, 2]
    np.testing.assert_array_equal(values(Tensor(X[::-1].copy()).sort(0)[0]), np.sort(X, 0))
    assert Tensor(5).sort()[0].item() == 5
    assert Tensor.ones(0).argsort().shape == (0,)


def test_long_rows_are_merged() -> None:
    """Rows too long to compare every pair are sorted by merging, with the same result."""
    x = np.random.default_rng(2).integers(0, 50, (1, 2100)).astype(np.int32)
    t = Tensor(x)
    np.testing.assert_array_equal(t.argsort().numpy(), np.argsort(x, axis=-1, kind="stable"))


def test_topk_takes_the_greatest_or_least() -> None:
    """topk is the first k of a sort, and refuses more than there are."""
    t = Tensor([[1, 4, 2], [9, 7, 8]])
    assert [x.tolist() for x in t.topk(2)] == [[[4, 2], [9, 8]], [[1, 2], [0, 2]]]
    assert t.topk(1, dim=0, largest=False)[0].tolist() == [[1, 4, 2]]
    with pytest.raises(ShapeError, match=r"topk cannot take 4 of 3 elements, axis 1 of \(2, 3\)"):
        t.topk(4)


def test_a_number_is_gathered_from_and_scattered_into() -> None:
    """A tensor without axes has one place, 0, which is also -1."""
    number, place = Tensor(3.0, requires_grad=True), Tensor(0)
    assert number.gather(0, place).tolist() == 3.0
    assert number.gather(-1, Tensor(-1)).tolist() == 3.0
    assert number.scatter(0, place, Tensor(5.0)).tolist() == 5.0
    assert number.scatter(0, place, 2.5, reduce="add").tolist() == 5.5
    assert number.scatter_reduce(0, place, Tensor(4.0), "mean").tolist() == 3.5
    assert number.scatter_reduce(0, place, Tensor(4.0), "sum", include_self=False).tolist() == 4.0
    assert number.scatter_reduce(0, place, Tensor(4.0), "prod").gradient(number)[0].tolist() == 4.0


def test_numbers_are_written_in_the_precision_of_the_tensor() -> None:
    """A Python float does not pass through float32 on its way into a float64 tensor."""
    t = Tensor(np.zeros(4))
    t[0] = 0.1
    t[[1]] = 0.7
    t[Tensor([False, False, True, False])] = 0.3
    t[3:] = [0.9]
    assert t.tolist() == [0.1, 0.7, 0.3, 0.9]


def test_an_ellipsis_for_no_axis_parts_index_tensors() -> None:
    """As in numpy: two index arrays with ... between them are apart, so their axes come first, read and written."""
    x = np.arange(5 * 4 * 3, dtype=np.float32).reshape(5, 4, 3)
    a, b = np.array([0, 2]), np.array([1, 2])
    for index in (
        (slice(None), a, ..., b),
        (slice(None, None, 2), a, ..., 1),
        (..., a, b),
        (a, ..., 1, b),
        (..., a, 1, 2),
    ):
        ours = tuple(Tensor(i) if isinstance(i, np.ndarray) else i for i in index)
        np.testing.assert_array_equal(Tensor(x)[ours].numpy(), x[index])
        written, wanted = Tensor(x).realize(), x.copy()
        value = np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
        written[ours], wanted[index] = Tensor(value), value
        np.testing.assert_array_equal(written.numpy(), wanted)


@pytest.mark.parametrize("flag", [True, False])
def test_a_mask_without_axes_is_an_axis_of_one_or_none(flag: bool) -> None:
    """As in numpy, where it also takes what is written."""
    t, mask = Tensor(X), Tensor(flag)
    for index in (mask, (mask, 0), (Ellipsis, mask), (0, mask, slice(1, 3))):
        plain = tuple(
            np.array(flag) if part is mask else part for part in (index if isinstance(index, tuple) else (index,))
        )
        np.testing.assert_array_equal(t[index].numpy(), X[plain])
        np.testing.assert_array_equal(t[plain].numpy(), X[plain])
    t[mask] = 0
    assert bool((t == 0).all()) is flag


def some_index(draw: random.Random) -> tuple[Any, ...]:
    """Up to four items of every kind."""
    kinds: list[Callable[[], Any]] = [
        lambda: draw.randint(-4, 3),
        lambda: slice(draw.choice([None, -2, 0, 1, 5]), draw.choice([None, -1, 2, -9]), draw.choice([None, 2, -1, -2])),
        lambda: None,
        lambda: Ellipsis,
        lambda: np.array([draw.randint(-3, 2) for _ in range(draw.randint(0, 3))], np.int64),
        lambda: np.array([[draw.randint(-2, 1)]]),
        lambda: np.array(draw.random() < 0.5),
        lambda: np.array([draw.random() < 0.5 for _ in range(draw.randint(1, 3))]),
        lambda: np.array([[draw.random() < 0.5 for _ in range(draw.randint(1, 3))]] * draw.randint(1, 2)),
    ]
    return tuple(draw.choice(kinds)() for _ in range(draw.randint(0, 4)))


@pytest.mark.parametrize("seed", range(4))
def test_any_index_is_numpys(seed: int) -> None:
    """Read and written, and refused where numpy refuses it, on shapes with axes of 0, 1 and more elements.

    An index that lies outside is refused also where the result has no elements, which numpy warns that it will do.
    """
    draw, done = random.Random(seed), 0
    with Context(DEV="PYTHON", SPEC=0):
        for _ in range(400):
            shape = tuple(draw.choice([0, 1, 2, 3]) for _ in range(draw.randint(0, 4)))
            index, values = some_index(draw), np.arange(math.prod(shape)).reshape(shape)
            written, t = values.copy(), Tensor(values)
            try:
                found = values[index]
                written[index] = np.arange(found.size).reshape(found.shape)
            except IndexError:
                with pytest.raises(IndexError):
                    t[index]
                continue
            if found.size == 0:
                with contextlib.suppress(IndexOutOfRange):
                    assert t[index].shape == found.shape, (shape, index)
                continue
            np.testing.assert_array_equal(t[index].numpy(), found, err_msg=f"{shape} {index}")
            t[index] = np.arange(found.size).reshape(found.shape)
            np.testing.assert_array_equal(t.numpy(), written, err_msg=f"{shape} {index}")
            done += 1
    assert done > 60


def test_a_mask_of_two_axes_behind_an_ellipsis_and_another_mask() -> None:
    """The axes of a mask are counted from the end by all that come behind it."""
    first, second = np.array([True, False]), np.arange(12).reshape(3, 4) == 5
    np.testing.assert_array_equal(Tensor(X)[..., first, second].numpy(), X[..., first, second])


@pytest.mark.parametrize("shape", [(3, 2), (1, 4), (2, 0), (4,), (1,), (2, 1, 3)])
def test_one_integer_is_a_tuple_of_one(shape: tuple[int, ...]) -> None:
    """t[i] goes past `parse`: it has the node, the gradient and the memory of t[i,], which does not."""
    for number in (*range(-shape[0], shape[0]), np.int64(0), np.int8(-1)):
        data = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        t = Tensor(data, requires_grad=True)
        row, general = t[number], t[(number,)]
        assert row.uop is general.uop
        assert row.requires_grad is True
        np.testing.assert_array_equal(values(row), data[number])
        written = Tensor(data.copy())
        written[number] = 7
        written[number].assign(written[number] + 1)
        data[number] = 8
        np.testing.assert_array_equal(written.numpy(), data)


@pytest.mark.parametrize("number", [-3, 2, 2**70, -(2**70)])
def test_one_integer_outside_is_refused_as_in_a_tuple(number: int) -> None:
    """The sentence is that of t[i,]; a tensor of no axis and one of no row have theirs."""
    t = Tensor([[1, 2], [3, 4]])
    sentence = re.escape(f"index {number} is out of range for axis 0 of shape (2, 2): it has 2 elements")
    for index in (number, (number,)):
        with pytest.raises(IndexOutOfRange, match=sentence):
            t[index]
    with pytest.raises(IndexOutOfRange, match=r"index 0 is out of range for axis 0 of shape \(0, 2\)"):
        Tensor.zeros(0, 2)[0]
    with pytest.raises(IndexOutOfRange, match=r"1 indices for a tensor of 0 axes, shape \(\)"):
        Tensor(1.0)[0]


def test_a_bool_is_no_row() -> None:
    """True and False are masks without axes, and not the rows 1 and 0."""
    t = Tensor([[1, 2], [3, 4]])
    assert t[True].tolist() == [[[1, 2], [3, 4]]]
    assert t[False].shape == (0, 2, 2)


BOUNDS = (None, -9, -2, -1, 0, 1, 2, 4, 9)


@pytest.mark.parametrize("shape", [(6,), (5, 3), (1, 4), (2, 1, 3)])
def test_rows_that_are_written_at_once_are_those_that_are_parsed(shape: tuple[int, ...]) -> None:
    """By an int and by a slice: the same views, and what does not take this way has its values too."""
    data = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    t = Tensor(data).realize()
    indices = [
        *range(-shape[0], shape[0]),
        *(slice(a, b) for a in BOUNDS for b in BOUNDS),
        slice(0, 2, 1),
        slice(0, 2, 2),
    ]
    for index in indices:
        found = _slice_node(t.uop, index) if isinstance(index, slice) else _row_node(t.uop, index)
        assert found is None or found is basic(t, parse(t, index)).uop
        for value in (7, 2.5, True, np.float32(3), np.full(data[index].shape, 4, np.float32)):
            expected, written = data.copy(), Tensor(data)
            expected[index] = value
            written[index] = Tensor(value) if isinstance(value, np.ndarray) else value
            np.testing.assert_array_equal(values(written), expected)


def test_a_mask_of_numbers_is_refused_by_name() -> None:
    """masked_fill speaks of its mask."""
    with pytest.raises(DTypeError, match=r"^masked_fill needs a mask of bool, got dtypes.float\n  made at "):
        Tensor([1.0, 2.0]).masked_fill(Tensor([1.0, 0.0]), 3)


def test_an_extreme_of_nothing_is_of_its_shape() -> None:
    """Over all axes there is no axis to name."""
    with pytest.raises(AxisError, match=r"^max of shape \(0,\) has no elements to choose from"):
        Tensor.zeros(0).max()
