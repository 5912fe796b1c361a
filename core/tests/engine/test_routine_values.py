"""What routines mean in NumPy: the rows of the table, beside plain Python."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from tinygraft.engine.routine_values import MEANINGS, routine_values
from tinygraft.uop.epilogues import EpilogueStep, StepOperand, to_options
from tinygraft.uop.ops import Ops
from tinygraft.uop.routines import ROUTINES, results_of

NAN, INF = math.nan, math.inf
X = np.array([[2.0, NAN, -0.0, 0.0, -INF, 2.0, NAN, INF]], np.float32)


def test_ascending_order() -> None:
    """NaN comes last, zeros are equal, equal elements keep their order."""
    values, indices = routine_values("sort", [X], (0,))
    assert indices.tolist() == [[4, 2, 3, 0, 5, 7, 1, 6]]
    assert np.signbit(values[0, :3]).tolist() == [True, True, False]


def test_descending_order() -> None:
    """NaN comes first, and equal elements keep their order too."""
    _, indices = routine_values("sort", [X], (1,))
    assert indices.tolist() == [[1, 6, 7, 0, 5, 2, 3, 4]]


def test_topk_is_the_front_of_sort() -> None:
    """In both directions."""
    for largest in (0, 1):
        values, indices = routine_values("sort", [X], (largest,))
        first = routine_values("topk", [X], (3, largest))
        np.testing.assert_array_equal(first[0], values[:, :3])
        np.testing.assert_array_equal(first[1], indices[:, :3])


def test_unique_has_each_nan() -> None:
    """NaN equals nothing; of equal elements the first stands for all."""
    values, count, inverse, counts, firsts = routine_values("unique", [X], ())
    assert count.tolist() == [[6]] and counts.tolist() == [[1, 2, 2, 1, 1, 1, 0, 0]]
    assert inverse.tolist() == [[2, 4, 1, 1, 0, 2, 5, 3]] and firsts.tolist() == [[4, 2, 0, 7, 1, 6, 0, 0]]
    assert np.signbit(values[0, 1])


def test_histogram_drops_what_is_outside() -> None:
    """Negative numbers and those from the number of bins on."""
    assert routine_values("histogram", [np.array([[0, 2, -1, 3, 2]])], (3,))[0].tolist() == [[1, 0, 2]]


def test_cholesky_of_no_positive_definite_matrix() -> None:
    """Columns before the failure are numbers, what follows is NaN."""
    (low,) = routine_values("cholesky", [np.array([[[4.0, 2.0], [2.0, 0.0]]])], ())
    assert low[0, :, 0].tolist() == [2.0, 1.0] and math.isnan(low[0, 1, 1])


def test_a_singular_system_has_no_number() -> None:
    """So VALIDATE=1 skips it, and says so."""
    with pytest.raises(NotImplementedError, match="the solution of a singular system is no number"):
        routine_values("inverse", [np.ones((1, 2, 2))], ())


@pytest.mark.parametrize("name", MEANINGS)
def test_results_have_the_shapes_of_the_table(name: str) -> None:
    """Each result, in its dtype."""
    facts, chance = ROUTINES[name], np.random.default_rng(0)
    options = {"topk": (2, 1), "histogram": (4,), "irfft": (1, 8), "qr": (3,)}.get(name, (0,) * len(facts.options))
    known = {2: (2, 5), 3: (2, 5, 5), 5: (2, 1, 3, 5, 4), 6: (2, 1, 3, 2, 5, 4)}
    shapes = [known[axes] for axes in facts.axes_with(options)]
    if name == "attention_backward":
        shapes[4] = shapes[5] = shapes[0][:-1]  # the greatest score and the sum of each query
    if name == "convolution":
        shapes[1] = (2, 3, 4, 2, 3, 3)  # four filters of the two channels of each group
    if name == "direct_convolution":
        shapes[1], options = (2, 3, 4, 2, 3, 2), (1, 0, 2, 1, 0, 2, 3)
    if name == "depthwise_convolution":
        shapes, options = [(2, 1, 3, 1, 5, 4), (2, 3, 1, 1, 3, 2)], (1, 0, 2, 1, 0, 2, 3)
    if name == "convolution_weights":
        shapes[1], options = (2, 1, 3, 4, 3, 2), (1, 0, 2, 1, 1, 2, 2, 2)
    if name == "transposed_convolution":
        shapes[1], options = (2, 3, 2, 4, 3, 2), (2, 3, 1, 0, 8, 9)
    kind = np.int32 if name == "histogram" else np.float32
    operands = [(chance.random(shape) + (5 * np.eye(5) if len(shape) == 3 else 0)).astype(kind) for shape in shapes]
    from tinygraft.dtype import dtypes

    given = [(dtypes.int32 if kind is np.int32 else dtypes.float32, shape) for shape in shapes]
    found = routine_values(name, operands, options)
    assert [result.shape for result in found] == [shape for _, shape in results_of(name, given, options)]


def test_steps_after_a_convolution() -> None:
    """A number, one for each channel, one for each result: the greater of two is NaN where one of them is."""
    x, w = np.arange(4.0, dtype=np.float32).reshape(1, 1, 1, 1, 2, 2), np.ones((1, 1, 2, 1, 1, 1), np.float32)
    steps = [
        EpilogueStep(Ops.MUL, StepOperand.CHANNEL),
        EpilogueStep(Ops.SUB, StepOperand.ELEMENT),
        EpilogueStep(Ops.ADD, StepOperand.NUMBER, 0x3F800000),
        EpilogueStep(Ops.MAX, StepOperand.NUMBER),
    ]
    added = np.full((1, 1, 1, 2, 2, 2), 2.0)
    added[..., 0, 0] = math.nan
    given = [x, w, np.array([[[1.0, -1.0]]]), added]
    (found,) = routine_values("direct_convolution", given, (0, 0, 0, 0, 0, 1, 1, *to_options(steps)))
    np.testing.assert_array_equal(found.ravel(), [math.nan, 0, 1, 2, math.nan, 0, 0, 0])


def test_an_unknown_routine() -> None:
    """Its name is in the error."""
    with pytest.raises(NotImplementedError, match="no meaning of the routine nothing in NumPy"):
        routine_values("nothing", [X], ())


def test_attention_of_two_keys() -> None:
    """Weights are of a softmax, a later key is not seen, and what sees no key is 0."""
    q, k = np.array([[1.0], [2.0]]).reshape(1, 1, 1, 1, 2, 1), np.array([[0.0], [1.0]]).reshape(1, 1, 1, 2, 1)
    v = np.array([[4.0], [8.0]]).reshape(1, 1, 1, 2, 1)
    one = struct.unpack("<q", struct.pack("<d", 1.0))[0]
    values, greatest, sums = routine_values("attention", [q, k, v], (1, one, 0, 0))
    share = math.exp(2) / (1 + math.exp(2))
    np.testing.assert_allclose(values.ravel(), [4.0, 4 + 4 * share])
    np.testing.assert_allclose([greatest.ravel(), sums.ravel()], [[0.0, 2.0], [1.0, 1 + math.exp(-2)]])
    mask = np.array([[True, False], [False, False]]).reshape(1, 1, 1, 1, 2, 2)
    values, *of_queries = routine_values("attention", [q, k, v, mask], (0, one, 1, 0))
    assert [x.ravel().tolist() for x in (values, *of_queries)] == [[4.0, 0.0], [0.0, -INF], [1.0, 0.0]]
    start = np.ones_like(values)
    slopes = routine_values("attention_backward", [q, k, v, mask, values, *of_queries, start], (0, one, 1, 0))
    assert [x.ravel().tolist() for x in slopes] == [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]


def test_attention_adds_a_mask_in_the_dtype_of_scores() -> None:
    """Beside -1e9 nothing of a score is left in a float32: its keys have the same weight, in float64 they do not."""
    one = struct.unpack("<q", struct.pack("<d", 1.0))[0]
    for dtype, weight in ((np.float32, 0.5), (np.float64, 1 / (1 + math.exp(-1)))):
        q, k = np.ones((1, 1, 1, 1, 1, 1), dtype), np.array([0, 1], dtype).reshape(1, 1, 1, 2, 1)
        mask = np.full((1, 1, 1, 1, 1, 2), -1e9, dtype)
        values, *_ = routine_values("attention", [q, k, k, mask], (0, one, 1, 0))
        np.testing.assert_allclose(values.ravel(), [weight], rtol=1e-6)
