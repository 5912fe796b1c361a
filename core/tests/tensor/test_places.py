"""The dtype of places, and errors about axes and dtypes, which are also the builtin ones of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, dtypes
from tinygraft.errors import AxisError, DTypeChoiceError, DTypeError, IndexOutOfRange, ShapeError

LINE = [3.0, 1.0, 2.0, 1.0]
PLACES: dict[str, Callable[[Tensor], Any]] = {
    "argmax": lambda t: t.argmax(), "argmin": lambda t: t.argmin(0), "argsort": lambda t: t.argsort(),
    "sort": lambda t: t.sort()[1], "topk": lambda t: t.topk(2)[1], "kthvalue": lambda t: t.kthvalue(2)[1],
    "median": lambda t: t.median(0)[1], "mode": lambda t: t.mode()[1], "cummax": lambda t: t.cummax()[1],
    "nonzero": lambda t: t.nonzero(), "argwhere": lambda t: t.argwhere(), "multinomial": lambda t: t.multinomial(2),
    "searchsorted": lambda t: t.sort()[0].searchsorted(t), "bucketize": lambda t: t.bucketize(t.sort()[0]),
    "inverse": lambda t: t.unique(return_inverse=True)[1], "counts": lambda t: t.unique(return_counts=True)[1],
    "max_pool1d": lambda t: t.reshape(1, 1, 4).max_pool1d(2, return_indices=True)[1],
    "adaptive": lambda t: t.reshape(1, 1, 4).adaptive_max_pool1d(2, return_indices=True)[1],
    "of a number": lambda t: t[0].argmax(), "order of a number": lambda t: t[0].argsort(),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_are_int32_and_int64_where_default_int_is(name: str) -> None:
    """As in PyTorch, with DEFAULT_INT=int64; a narrower DEFAULT_INT would not hold them, so it changes nothing."""
    find, line = PLACES[name], Tensor(LINE)
    for setting, wanted in (("int32", dtypes.int32), ("int64", dtypes.int64), ("int8", dtypes.int32)):
        with Context(DEFAULT_INT=setting):
            assert find(line).dtype is wanted


def test_places_of_64_bits_have_the_same_values() -> None:
    """They are only wider; what LAPACK counts, and what is asked for as int32, stays int32."""
    line = Tensor(LINE)
    with Context(DEFAULT_INT="int64"):
        values, places = line.sort()
        assert values.tolist() == sorted(LINE) and places.tolist() == [1, 3, 2, 0]
        assert line.argmax().item() == 0 and line.gather(0, places).tolist() == sorted(LINE)
        assert line.bucketize(values, out_int32=True).dtype is dtypes.int32
        matrix = Tensor([[0.0, 2.0], [4.0, 4.0]])
        found = matrix.lu_factor()
        assert found.pivots.dtype is dtypes.int32 and found.pivots.tolist() == [2, 2]
        assert matrix.solve(Tensor([2.0, 8.0])).tolist() == [1.0, 1.0]
        assert Tensor([[4.0]]).cholesky_ex()[1].dtype is dtypes.int32


WRONG: dict[str, tuple[type[Exception], Callable[[], Any], str]] = {
    "axis": (AxisError, lambda: Tensor.ones(2, 3).sum(5), r"^axis 5 is not an axis of shape \(2, 3\): choose from"),
    "roll": (AxisError, lambda: Tensor(1.0).roll(1, 0), r"^roll needs an axis, got a tensor of shape \(\)"),
    "fft": (AxisError, lambda: Tensor(1.0).fft(), r"^fft over the axes \[-1\] with lengths None does not fit"),
    "fft2": (ShapeError, lambda: Tensor.ones(2, 2).fft2(s=(2,)), r"^fftn over the axes .* with lengths \[2\] does"),
    "no elements": (AxisError, lambda: Tensor.ones(2, 0).max(1), r"^max over axis 1 of shape \(2, 0\) has no elements"),
    "narrow": (IndexOutOfRange, lambda: Tensor.ones(4).narrow(0, 5, 1),
        r"^narrow begins at 5, which is no index of axis 0 of \(4,\)\n  made at "),
    "window": (DTypeChoiceError, lambda: Tensor.window_hann(4, dtype=dtypes.half),
        r"^a window is of float32 or float64, got dtypes.half; cast it$"),
    "coefficients": (TypeError, lambda: Tensor.window_general_cosine(4, a=None),
        r"^window_general_cosine needs a list of coefficients, got None$"),
    "mean": (DTypeChoiceError, lambda: Tensor.ones(2).mean(dtype="int32"),
        r"^mean gives floats or complex numbers, got dtypes.int\n  made at "),
    "hsplit": (DTypeError, lambda: Tensor.ones(4).hsplit("abc"),
        r"^hsplit takes a number of sections or the indices to cut at, got 'abc'$"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    """An axis that is not there is an IndexError and a ValueError, a dtype asked for a TypeError and a ValueError."""
    kind, call, sentence = WRONG[name]
    with pytest.raises(kind, match=sentence):
        call()


def test_errors_are_those_of_other_libraries_too() -> None:
    """An axis off the shape is an IndexError in PyTorch and both in NumPy; PyTorch has ValueErrors for dtypes."""
    assert issubclass(AxisError, (ShapeError)) and issubclass(AxisError, IndexError)
    assert issubclass(DTypeChoiceError, DTypeError) and issubclass(DTypeChoiceError, ValueError)


def test_an_empty_line_goes_with_any_shape() -> None:
    """`Tensor([])` to begin with, as ported programs have it; its dtype counts."""
    rows = Tensor.ones(2, 3, dtype="int32")
    found = Tensor([]).cat(rows)
    assert found.shape == (2, 3) and found.dtype is dtypes.float32 and found.tolist() == [[1.0] * 3] * 2
    assert rows.cat(Tensor([], dtype="int32"), rows, dim=1).shape == (2, 6)
    assert Tensor([]).cat(Tensor([])).shape == (0,) and Tensor([1.0]).cat(Tensor([])).tolist() == [1.0]


def test_bools_are_counted_by_square_and_sum_to_size() -> None:
    """As `** 2` and sum count them."""
    mask = Tensor([True, False])
    assert mask.square().tolist() == [1, 0] and mask.square().dtype is (mask**2).dtype is dtypes.int32
    assert mask.sum_to_size(2).tolist() == [1, 0] and mask.sum_to_size(2).dtype is dtypes.int32


def test_mean_in_a_dtype() -> None:
    """Of complex numbers too."""
    assert Tensor([1, 2]).mean(dtype="float64").dtype is dtypes.float64
    assert Tensor([1, 2]).mean(dtype="complex64").tolist() == 1.5 + 0j
    assert Tensor([1 + 2j, 3.0]).mean(0, dtype="complex128").tolist() == 2 + 1j


def test_histc_counts_by_the_width_of_its_bins() -> None:
    """Not by rounded edges: half of them would count an element on an edge below it."""
    x = np.arange(0, 101) / 100
    found = Tensor(x).histc(bins=10, min=0, max=1).numpy()
    assert found.tolist() == np.bincount(np.minimum((x * 10 / 1).astype(int), 9), minlength=10).tolist()
    assert Tensor([1.0, float("nan"), 7.0, -1.0]).histc(2, 0, 2).tolist() == [0.0, 1.0]
