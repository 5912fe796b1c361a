"""CTC: its gradient by occupied states beside differences, paths that do not exist, and one kernel for all steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Context, GlobalCounters, Tensor, dtypes
from tinygraft.errors import DTypeError

LABELS = np.array([[1, 2, 2], [3, 1, 0], [0, 0, 0]], np.int32)
ENDS, SIZES = [6, 5, 4], [3, 2, 0]


def scores(steps: int = 6) -> np.ndarray[Any, Any]:
    """Numbers (steps, 3, 4), float64."""
    return np.random.default_rng(3).normal(0, 1, (steps, 3, 4))


def loss_of(x: np.ndarray[Any, Any]) -> tuple[Tensor, Tensor]:
    """A leaf of float64, and the sum of the losses of three samples, of which one has no label."""
    leaf = Tensor(x, dtype=dtypes.float64, requires_grad=True)
    return leaf, leaf.log_softmax(2).ctc_loss(Tensor(LABELS), ENDS, SIZES, reduction="sum")


def test_gradients_are_those_of_differences() -> None:
    """The first along one direction, and the second as the difference of first ones along it."""
    x, way, step = scores(), np.random.default_rng(4).normal(0, 1, (6, 3, 4)), 1e-5
    leaf, loss = loss_of(x)
    (slope,) = loss.gradient(leaf)
    (curved,) = (slope * Tensor(way, dtype=dtypes.float64)).sum().gradient(leaf)
    sides = [loss_of(x + sign * step * way) for sign in (1, -1)]
    losses, slopes = [loss.item() for _, loss in sides], [values(loss.gradient(leaf)[0]) for leaf, loss in sides]
    np.testing.assert_allclose((values(slope) * way).sum(), (losses[0] - losses[1]) / (2 * step), rtol=1e-7)
    np.testing.assert_allclose(values(curved), (slopes[0] - slopes[1]) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_what_no_path_reaches(zero_infinity: bool) -> None:
    """A sample without an alignment is infinite and its gradient NaN, 0 and 0 with zero_infinity, as in PyTorch.

    A class of probability 0 has no gradient; others do.
    """
    x = np.log(np.full((3, 2, 3), 1 / 3, np.float32))
    x[1, 1, 2] = -math.inf
    leaf = Tensor(x, requires_grad=True)
    losses = leaf.ctc_loss(Tensor(np.array([[1, 1, 1], [2, 0, 0]], np.int32)), [3, 3], [3, 1], 0, "none", zero_infinity)
    (slope,) = losses.sum().gradient(leaf)
    found, slopes = values(losses), values(slope)
    assert found[0] == (0 if zero_infinity else math.inf)
    # of the six alignments of one label in three steps, the two that do not pass it in the second one
    np.testing.assert_allclose(found[1], -math.log(2 / 27), rtol=1e-6)
    assert not slopes[:, 0].any() if zero_infinity else np.isnan(slopes[:, 0, :2]).all()
    np.testing.assert_allclose(slopes[:, 1], [[-0.5, 0, -0.5], [-1, 0, 0], [-0.5, 0, -0.5]], atol=1e-6)


def test_a_label_that_is_the_blank() -> None:
    """Is refused where it is known, or looked up, also one after another; beyond a length it may be any number."""
    x = Tensor(scores()).log_softmax(2)
    labels = np.array([[1, 2, 2], [3, 2, 0], [0, 0, 0]], np.int32)
    for given in (Tensor(labels), labels.tolist()):
        with pytest.raises(ValueError, match=r"not its blank, 2: the one at \(0, 1\) of labels of shape \(3, 3\)"):
            x.ctc_loss(given, ENDS, SIZES, blank=2)
        with pytest.raises(ValueError, match="not its blank, 0"):
            x.ctc_loss(given, ENDS, [3, 3, 0])
        assert math.isfinite(x.ctc_loss(given, ENDS, SIZES).item())
    with pytest.raises(ValueError, match=r"not its blank, 3: the one at \(2,\) of labels of shape \(4,\)"):
        x.ctc_loss(Tensor([1, 2, 3, 1]), ENDS, [3, 1, 0], blank=3)
    computed = Tensor(labels) + 0
    with Context(CHECK_INDEX=1), pytest.raises(ValueError, match="not its blank, 2"):
        x.ctc_loss(computed, ENDS, SIZES, blank=2)
    assert x.ctc_loss(Tensor(labels) + 0, ENDS, SIZES, blank=2).shape == ()


def test_no_steps() -> None:
    """Without steps the loss of no labels is 0, that of others infinite, and the gradient has no elements."""
    leaf = Tensor(np.zeros((0, 2, 3), np.float32), requires_grad=True)
    losses = leaf.ctc_loss(Tensor([[1], [1]]), [0, 0], [0, 1], reduction="none")
    assert losses.tolist() == [0.0, math.inf]
    assert losses.sum().gradient(leaf)[0].shape == (0, 2, 3)


def test_all_steps_have_one_kernel() -> None:
    """Twice as many steps, forward and backward, compile as many kernels but for two that put steps together."""
    counts, runs = [], []
    with Context(DEV="NULL"):
        for steps in (12, 24):
            leaf = Tensor.empty(steps, 3, 4, requires_grad=True).realize()
            labels, ends, sizes = [Tensor.empty(*shape, dtype=dtypes.int32).realize() for shape in ((3, 3), (3,), (3,))]
            compiled, launched = GlobalCounters.kernels_compiled, GlobalCounters.kernel_count
            loss = leaf.ctc_loss(labels, ends, sizes)
            loss.realize(*loss.gradient(leaf))
            counts.append(GlobalCounters.kernels_compiled - compiled)
            runs.append(GlobalCounters.kernel_count - launched)
    assert counts[1] <= counts[0] + 2, counts
    assert runs[1] <= runs[0] + 26, runs


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_half_types(dtype: Any) -> None:
    """The loss of a half type comes back in it, as near to that of float32 as its digits allow."""
    x = Tensor(scores().astype(np.float32)).log_softmax(2)
    wanted = x.ctc_loss(Tensor(LABELS), ENDS, SIZES).item()
    found = x.cast(dtype).ctc_loss(Tensor(LABELS), ENDS, SIZES)
    assert found.dtype is dtype
    assert abs(found.item() - wanted) < 0.05 * wanted


def test_labels_that_are_computed_with_a_number_that_varies() -> None:
    """The number becomes an argument of kernels, in which it is on no device."""
    labels = Tensor([[3, 3, 1, 2], [3, 2, 2, 1], [1, 3, 1, 1]]).realize()
    for more in (0, 0, 0, 1, 1):
        scores = Tensor(np.zeros((8, 3, 5), np.float32), requires_grad=True)
        lengths = Tensor([8, 8, 8]), Tensor([4, 2, 3])
        losses = scores.log_softmax(-1).ctc_loss(labels + more, *lengths, reduction="none")
        np.testing.assert_allclose(losses.tolist(), [7.76956, 7.52840, 6.73994], rtol=1e-5)
        losses.sum().backward()
        assert scores.grad is not None
        np.testing.assert_allclose(float(np.abs(scores.grad.numpy()).sum()), 23.70043, rtol=1e-5)


def test_labels_are_integers() -> None:
    """Floats are refused, one after another too; an empty list, which has no kind, is one of integers."""
    scores = Tensor.zeros(4, 2, 3).log_softmax(-1)
    for labels in (Tensor([[1.0], [2.0]]), Tensor([1.0, 2.0])):
        with pytest.raises(
            DTypeError, match="^ctc_loss needs targets of integers, got dtypes.float\n  made at .*test_ctc"
        ):
            scores.ctc_loss(labels, [4, 4], [1, 1])
    none = scores.ctc_loss(Tensor([]), [4, 4], [0, 0], reduction="none")
    np.testing.assert_allclose(none.numpy(), 4 * np.log(3), rtol=1e-6)
