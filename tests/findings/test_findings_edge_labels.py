"""Labels out of range, by their number in the list of findings of 2026-11-21 (1.14)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.errors import IndexOutOfRange
from tinygraft.onnx.op_loss import nll_loss, softmax_cross_entropy_loss
from tinygraft.uop.ops import Ops

SCORES = Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], requires_grad=True)
STEPS = Tensor([[[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]] * 2, requires_grad=True)

LOSSES: dict[str, Callable[[Tensor, str], Tensor]] = {
    "cross_entropy": lambda y, r: SCORES.cross_entropy(y, reduction=r),
    "cross_entropy, smoothed": lambda y, r: SCORES.cross_entropy(y, reduction=r, label_smoothing=0.1),
    "cross_entropy, weighted": lambda y, r: SCORES.cross_entropy(y, reduction=r, weight=Tensor([1.0, 2.0, 3.0])),
    "cross_entropy, one ignored": lambda y, r: SCORES.cross_entropy(y, reduction=r, ignore_index=-100),
    "sparse": lambda y, r: SCORES.sparse_categorical_crossentropy(y, reduction=r, ignore_index=-100),
    "nll": lambda y, r: SCORES.nll_loss(y, reduction=r),
    "nll, weighted": lambda y, r: SCORES.nll_loss(y, reduction=r, weight=Tensor([1.0, 2.0, 3.0])),
    "margin": lambda y, r: SCORES.multi_margin_loss(y, reduction=r),
    "margins": lambda y, r: SCORES.multilabel_margin_loss(_several(y), reduction=r),
    "linear": lambda y, r: SCORES.linear_cross_entropy(Tensor.eye(3), y, reduction=r),
}


def _several(labels: Tensor) -> Tensor:
    """Labels (2,) as (2, 3), the others 0; in memory where these are."""
    wide = labels.reshape(2, 1).pad(((0, 0), (0, 2)))
    return wide if labels.uop.op is Ops.ADD else wide.realize()


@pytest.mark.parametrize("name", LOSSES)
def test_1_14_a_label_that_is_no_class_makes_the_loss_nan(name: str) -> None:
    """NaN for its sample and that one's gradients, so for the mean; the other samples are as they were.

    That is so where it is to be computed (`+ 0`); in memory it raises.
    """
    loss = LOSSES[name]
    good = loss(Tensor([2, 1]), "none").numpy()
    for label in (3, 7, -2):
        found = loss(Tensor([label, 1]) + 0, "none")
        np.testing.assert_array_equal(found.numpy(), [math.nan, good[1]])
        assert math.isnan(loss(Tensor([label, 1]) + 0, "mean").item())
        with pytest.raises(IndexOutOfRange, match=rf"^label {label}, at \(0(, 0)?,?\) of labels"):
            loss(Tensor([label, 1]), "mean")
        gradient = found.sum().gradient(SCORES)[0].numpy()
        assert np.isnan(gradient[0]).all() and np.isfinite(gradient[1]).all()


@pytest.mark.parametrize("name", LOSSES)
def test_1_14_every_loss_checks_its_labels_under_check_index(name: str) -> None:
    """The error names the label and the classes."""
    with Context(CHECK_INDEX=1):
        assert LOSSES[name](Tensor([2, 1]), "mean").item() >= 0 or name.startswith("nll")
        with pytest.raises(
            IndexOutOfRange, match=r"^label 7, at \(0(, 0)?,?\) of labels of shape .* is no class: axis 1"
        ):
            LOSSES[name](Tensor([7, 1]) + 0, "mean")


def test_1_14_a_label_that_is_known_raises() -> None:
    """A number is known without the setting; `cross_entropy` with label 7 of 3 classes gave 1.5986."""
    for loss in (SCORES[0].cross_entropy, SCORES[0].nll_loss, SCORES[0].sparse_categorical_crossentropy):
        with pytest.raises(
            IndexOutOfRange, match=r"^label 7 is no class: axis 0 of the predictions, shape \(3,\), has 3"
        ):
            loss(Tensor(7))
    assert SCORES[0].sparse_categorical_crossentropy(Tensor(-1), reduction="sum").item() == 0
    assert math.isnan(SCORES.cross_entropy(Tensor([7, 1]) + 0).item())


def test_1_14_ignored_labels_stay_out_of_it() -> None:
    """A label that is ignored need be no class, and its gradient is 0."""
    for loss in (
        SCORES.cross_entropy(Tensor([-100, 1]), ignore_index=-100),
        SCORES.nll_loss(Tensor([9, 1]), ignore_index=9),
        SCORES.sparse_categorical_crossentropy(Tensor([-1, 1])),
    ):
        assert math.isfinite(loss.item())
        gradient = loss.gradient(SCORES)[0].numpy()
        assert (gradient[0] == 0).all() and np.isfinite(gradient).all() and gradient[1].any()


def test_1_14_labels_of_sequences() -> None:
    """ctc_loss: a label within its length; -1 counted as the last class, and 7 had a probability of 1."""
    steps = STEPS.log_softmax(-1)

    def loss(labels: Any, ends: Any = (2, 1)) -> list[float]:
        labels = labels if isinstance(labels, Tensor) else Tensor(labels)
        return steps.ctc_loss(labels, [2, 2], ends, reduction="none").tolist()

    good = loss([[1, 2], [1, 0]])
    assert all(map(math.isfinite, good)) and loss([[1, 2], [1, 99]]) == good == loss([[1, 2], [1, -1]])
    for label in (-1, 3, 99):
        found = loss(Tensor([[1, label], [1, 99]]) + 0)
        assert math.isnan(found[0]) and found[1] == good[1]
        found = loss([[1, label], [1, 99]], Tensor([2, 1]) + 0)  # which of them count is still to be computed
        assert math.isnan(found[0]) and found[1] == good[1]
        assert loss([[1, 2], [1, label]], Tensor([2, 1])) == good
        wrong = rf"^label {label}, at \(0, 1\) of labels of shape \(2, 2\), is no"
        for ends in ((2, 1), np.array([2, 1]), Tensor([2, 1])):
            with pytest.raises(IndexOutOfRange, match=wrong):
                loss([[1, label], [1, 99]], ends)
        with pytest.raises(IndexOutOfRange, match=rf"^label {label}, at \(1,\) of labels of shape \(3,\), is no"):
            loss([1, label, 1])  # those of all samples one after another
        with Context(CHECK_INDEX=1):
            assert loss([[1, 2], [1, label]]) == good
            with pytest.raises(IndexOutOfRange, match=wrong):
                loss(Tensor([[1, label], [1, 0]]) + 0)


def test_1_14_the_least_label_of_several() -> None:
    """multilabel_margin_loss ends at -1; what comes after is not looked at, and what is below is no class."""
    loss = SCORES.multilabel_margin_loss
    good = loss(Tensor([[1, -1, 0], [0, -1, 0]]), "none").tolist()
    assert all(map(math.isfinite, good)) and loss(Tensor([[1, -1, 9], [0, -1, 7]]), "none").tolist() == good
    found = loss(Tensor([[1, -2, 0], [0, -1, 0]]) + 0, "none").tolist()
    assert math.isnan(found[0]) and found[1] == good[1]
    for wrong in ([1, -2, 0], [1, 3, -1], [0, -1, -5]):
        with pytest.raises(IndexOutOfRange, match=rf"^label {min(wrong, key=lambda n: n in (0, 1, -1))}, at \(0, "):
            loss(Tensor([wrong, [0, -1, 0]]))


def test_1_14_targets_of_a_model_in_onnx() -> None:
    """A target that is no class had a loss of 0 where it was to be computed, and was named an index where not."""
    for loss in (lambda y, **o: nll_loss(SCORES, y, **o), lambda y, **o: softmax_cross_entropy_loss(SCORES, y, **o)[0]):
        assert math.isfinite(loss(Tensor([-100, 1]), ignore_index=-100).item())
        assert math.isnan(loss(Tensor([7, 1]) + 0).item())
        with pytest.raises(IndexOutOfRange, match=r"^label 7, at \(0,\) of labels of shape \(2,\), is no class"):
            loss(Tensor([7, 1]))
