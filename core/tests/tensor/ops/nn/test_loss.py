"""Losses against PyTorch: values, gradients, options, and the graph that one kernel can compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

torch = pytest.importorskip("torch")
F = torch.nn.functional
REDUCTIONS = ["mean", "sum", "none"]


def numbers(*shape: int, name: int = 0) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(name + 1).normal(0, 3, shape).astype(np.float32)


def agree(found: Any, wanted: Any, ours: Any, theirs: Any) -> None:
    """The value, and the gradient of its sum."""
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    found.sum().backward()
    wanted.sum().backward()
    np.testing.assert_allclose(values(ours.grad), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


def both(array: Any) -> tuple[Any, Any]:
    """The array as a tensor of ours and of PyTorch, with gradients."""
    return Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_crossentropy(reduction: str) -> None:
    """Probabilities against targets between 0 and 1; 0 and 1 themselves give no NaN and no infinity."""
    p, y = np.random.default_rng(0).uniform(0.05, 0.95, (2, 3, 5)).astype(np.float32), numbers(3, 5) > 0
    ours, theirs = both(p[0])
    wanted = F.binary_cross_entropy(theirs, torch.tensor(y).float(), reduction=reduction)
    agree(ours.binary_crossentropy(Tensor(y), reduction), wanted, ours, theirs)
    sure = Tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = sure.binary_crossentropy(Tensor([0, 1, 1, 0]), "none")
    assert values(loss).tolist() == [0, 0, 100, 100]


@pytest.mark.parametrize("weight", [None, "one", "each"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_crossentropy_logits(reduction: str, weight: str | None) -> None:
    """Logits against targets, far out too, with pos_weight as a number or a tensor."""
    x = np.concatenate([numbers(3, 5), np.array([[100, -100, 30, -30, 0]], np.float32)])
    y = np.random.default_rng(0).uniform(size=(4, 5)).astype(np.float32)
    given = {"one": np.array(2.5, np.float32), "each": np.array([1, 2, 3, 4, 5], np.float32), None: None}[weight]
    ours, theirs = both(x)
    pos = None if given is None else 2.5 if weight == "one" else Tensor(given, requires_grad=False)
    found = ours.binary_crossentropy_logits(Tensor(y, requires_grad=False), reduction, pos)
    wanted = F.binary_cross_entropy_with_logits(
        theirs, torch.tensor(y), reduction=reduction, pos_weight=None if given is None else torch.tensor(given)
    )
    agree(found, wanted, ours, theirs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sparse_categorical_crossentropy(reduction: str, smoothing: float) -> None:
    """Logits with the classes last, ignored labels left out, also of the mean."""
    x, y = numbers(3, 4, 5), np.random.default_rng(0).integers(0, 5, (3, 4))
    y[0, 1] = y[2, 2] = -1
    ours, theirs = both(x)
    found = ours.sparse_categorical_crossentropy(Tensor(y), label_smoothing=smoothing, reduction=reduction)
    wanted = F.cross_entropy(
        theirs.permute(0, 2, 1), torch.tensor(y), ignore_index=-1, label_smoothing=smoothing, reduction=reduction
    )
    agree(found, wanted, ours, theirs)


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int64, dtypes.int8])
def test_label_dtypes(dtype: Any) -> None:
    """Labels of any integer dtype; 255 is no -1 in uint8."""
    x = numbers(2, 300)
    y = np.array([255 if dtype is dtypes.uint8 else 120, 3])
    found = Tensor(x).sparse_categorical_crossentropy(Tensor(y).cast(dtype))
    wanted = F.cross_entropy(torch.tensor(x), torch.tensor(y))
    np.testing.assert_allclose(values(found), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3), (5,)])
def test_cross_entropy_of_labels_and_of_probabilities(shape: tuple[int, ...], reduction: str, smoothing: float) -> None:
    """Classes on axis 1, or 0 without a batch; targets are labels or probabilities."""
    axis = min(1, len(shape) - 1)
    places = tuple(n for i, n in enumerate(shape) if i != axis)
    labels = np.random.default_rng(0).integers(0, 5, places)
    ours, theirs = both(numbers(*shape))
    found = ours.cross_entropy(Tensor(labels), reduction, smoothing)
    agree(
        found,
        F.cross_entropy(theirs, torch.tensor(labels), reduction=reduction, label_smoothing=smoothing),
        ours,
        theirs,
    )
    likely = np.exp(numbers(*shape, name=1))
    likely /= likely.sum(axis, keepdims=True)
    ours, theirs = both(numbers(*shape))
    found = ours.cross_entropy(Tensor(likely, requires_grad=False), reduction, smoothing)
    agree(
        found,
        F.cross_entropy(theirs, torch.tensor(likely), reduction=reduction, label_smoothing=smoothing),
        ours,
        theirs,
    )


@pytest.mark.parametrize("ignore", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(reduction: str, weighted: bool, ignore: int | None) -> None:
    """Log probabilities against labels, with weights of classes and an ignored class."""
    x, y = numbers(4, 5, 3), np.random.default_rng(0).integers(0, 5, (4, 3))
    weight = np.array([1, 2, 0.5, 3, 0.1], np.float32) if weighted else None
    ours, theirs = both(x)
    found = ours.log_softmax(1).nll_loss(
        Tensor(y), None if weight is None else Tensor(weight, requires_grad=False), ignore, reduction
    )
    wanted = F.nll_loss(
        F.log_softmax(theirs, 1), torch.tensor(y), None if weight is None else torch.tensor(weight),
        ignore_index=-100 if ignore is None else ignore, reduction=reduction,
    )  # fmt: skip
    agree(found, wanted, ours, theirs)


def test_numbers_of_the_documentation() -> None:
    """The documented examples."""
    t, labels = Tensor([[-1, 2, -3], [1, -2, 3]]), Tensor([1, 2])
    for loss in (t.sparse_categorical_crossentropy(labels), t.cross_entropy(labels), t.log_softmax().nll_loss(labels)):
        assert abs(float(values(loss)) - 0.09391524642705917) < 1e-6
    np.testing.assert_allclose(values(t.cross_entropy(labels, reduction="none")), [0.055, 0.1328], atol=5e-5)
    p = Tensor([0.1, 0.9, 0.2]).binary_crossentropy(Tensor([0, 1, 0]))
    assert abs(float(values(p)) - 0.14462155103683472) < 1e-6
    logits = Tensor([-1, 2, -3]).binary_crossentropy_logits(Tensor([0, 1, 0]))
    assert abs(float(values(logits)) - 0.16292566061019897) < 1e-6


def test_picking_a_class_builds_neither_gather_nor_scatter() -> None:
    """Loss and gradient are reductions and elementwise ops only, so that they fuse."""
    x = Tensor.empty(8, 10, requires_grad=True)
    loss = x.sparse_categorical_crossentropy(Tensor.empty(8, dtype=dtypes.int32))
    loss.backward()
    assert x.grad is not None
    ops = {node.op for node in toposort(loss.uop, x.grad.uop)}
    assert not ops & {Ops.GATHER, Ops.SCATTER, Ops.CONTIGUOUS}


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x.binary_crossentropy(x, "avg"), lambda x, y: x.binary_crossentropy_logits(x, "avg"),
        lambda x, y: x.sparse_categorical_crossentropy(y, reduction="avg"),
        lambda x, y: x.cross_entropy(y, "avg"), lambda x, y: x.nll_loss(y, reduction="avg"),
    ],
)  # fmt: skip
def test_unknown_reduction_is_refused(call: Any) -> None:
    """Every loss checks its reduction."""
    with pytest.raises(ValueError, match="reduction is 'mean', 'sum' or 'none', got 'avg'"):
        call(Tensor.ones(2, 3), Tensor([0, 1]))


def test_labels_that_do_not_fit_are_refused() -> None:
    """Labels have the shape of the predictions without the class axis, and are integers."""
    with pytest.raises(
        ShapeError,
        match=r"predictions of shape \(2, 3\) with classes on axis 1 need labels of shape \(2,\), got \(3,\)",
    ):
        Tensor.ones(2, 3).sparse_categorical_crossentropy(Tensor([0, 1, 2]))
    with pytest.raises(DTypeError, match="labels are integers, got dtypes.float"):
        Tensor.ones(2, 3).cross_entropy(Tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="label_smoothing is between 0 and 1, got 1.5"):
        Tensor.ones(2, 3).cross_entropy(Tensor([0, 1]), label_smoothing=1.5)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64])
def test_binary_crossentropy_of_certain_predictions_has_a_finite_gradient(dtype: Any) -> None:
    """A probability of exactly 0 or 1, as a saturated sigmoid gives, counts at most 100 and makes no NaN."""
    sure = Tensor([0.0, 1.0, 0.0, 1.0], dtype=dtype, requires_grad=True)
    loss = sure.binary_crossentropy(Tensor([0.0, 1.0, 1.0, 0.0], dtype=dtype), reduction="none")
    assert loss.tolist() == [0.0, 0.0, 100.0, 100.0]
    assert loss.sum().gradient(sure)[0].tolist() == [1.0, -1.0, 0.0, 0.0]


def test_weights_for_other_classes_are_refused() -> None:
    """nll_loss counts them as cross_entropy does; an ignored label beside probabilities has no meaning."""
    x, labels = Tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]), Tensor([0, 1])
    with pytest.raises(ShapeError, match=r"nll_loss of shape \(2, 3\) needs a weight for each of 3 classes, got shape"):
        x.nll_loss(labels, weight=Tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"beside probabilities of shape \(2, 3\) 1 has no meaning"):
        x.cross_entropy(x.softmax(), ignore_index=1)
    assert x.cross_entropy(x.softmax(), ignore_index=-100).item() == x.cross_entropy(x.softmax()).item()


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(
    "row", [[math.inf, 1.0, 2.0], [1.0, math.inf, 2.0], [math.inf, math.inf, 0.0], [-math.inf] * 3]
)
def test_a_logit_of_inf_makes_nan_of_the_loss_and_of_its_whole_gradient(row: list[float], label: int) -> None:
    """As in PyTorch and as -log_softmax: a gradient that is NaN in part would go on unnoticed."""
    x = Tensor([row], requires_grad=True)
    loss = x.cross_entropy(Tensor([label]))
    assert math.isnan(loss.item())
    assert loss.gradient(x)[0].isnan().all().item()


def test_a_logit_of_minus_inf_is_a_class_that_is_left_out() -> None:
    """Its gradient is 0, and the loss of it is inf."""
    x = Tensor([[-math.inf, 0.0, 0.0]], requires_grad=True)
    loss = x.cross_entropy(Tensor([1]))
    assert loss.item() == pytest.approx(math.log(2))
    assert loss.gradient(x)[0].tolist() == [[0.0, -0.5, 0.5]]
    assert x.cross_entropy(Tensor([0])).item() == math.inf


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6, 1e7, -1e9])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_all_logits_share_costs_no_digits(offset: float, smoothing: float) -> None:
    """It was added to the logarithm and taken off with the label's logit: at 1e7 the loss was 1.5 in place of 1.9."""
    logits = np.array([[1, 2, 3, 4], [0, 0, 0, 0]], np.float32) + np.float32(offset)
    x, y = torch.tensor(logits, requires_grad=True), torch.tensor([1, 2])
    want = torch.nn.functional.cross_entropy(x, y, label_smoothing=smoothing)
    want.backward()
    t = Tensor(logits, requires_grad=True)
    loss = t.cross_entropy(Tensor([1, 2]), label_smoothing=smoothing).backward()
    np.testing.assert_allclose(loss.item(), want.item(), rtol=1e-6)
    np.testing.assert_allclose(t.grad.numpy(), x.grad.numpy(), atol=1e-7)
    same = t.sparse_categorical_crossentropy(Tensor([1, 2]), label_smoothing=smoothing)
    np.testing.assert_allclose(same.item(), want.item(), rtol=1e-6)


def test_equal_logits_of_any_size_are_equally_likely() -> None:
    """Near the greatest number, where a sum with it has no digit left."""
    loss = Tensor([[3e38, 3e38, -3e38]]).cross_entropy(Tensor([0])).item()
    assert loss == pytest.approx(math.log(2), rel=1e-6)
