"""Losses of numbers, distances and margins against PyTorch: values, gradients, options, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numbers(*shape: int, name: int = 0, positive: bool = False) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    found = np.random.default_rng(name + 1).normal(0, 1, shape).astype(np.float32)
    return np.abs(found) + 0.1 if positive else found


def agree(ours: list[Any], theirs: list[Any], call: str, others: tuple[Any, ...] = (), **options: Any) -> None:
    """One function of both libraries over equal tensors: the value, and the gradients of its sum."""
    mine = [Tensor(x, requires_grad=x.dtype.kind == "f") for x in ours]
    wanted_of = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in theirs]
    found, wanted = getattr(Tensor, call)(*mine, *others, **options), getattr(F, call)(*wanted_of, *others, **options)
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    if wanted.requires_grad:
        inputs = [(a, b) for a, b in zip(mine, wanted_of, strict=True) if b.requires_grad]
        grads = torch.autograd.grad(wanted.sum(), [b for _, b in inputs])
        for got, want in zip(found.sum().gradient(*(a for a, _ in inputs)), grads, strict=True):
            np.testing.assert_allclose(values(got), want.numpy(), rtol=1e-4, atol=1e-5)


SIGNS = np.array([1, -1, 1])
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("l1_loss", [numbers(3, 4), numbers(3, 4, name=1)], {}),
    ("mse_loss", [numbers(3, 4), numbers(3, 4, name=1)], {"reduction": "sum"}),
    ("smooth_l1_loss", [numbers(3, 4), numbers(3, 4, name=1)], {"beta": 0.7}),
    ("smooth_l1_loss", [numbers(3, 4), numbers(3, 4, name=1)], {"beta": 0.0, "reduction": "none"}),
    ("huber_loss", [numbers(3, 4), numbers(3, 4, name=1)], {"delta": 0.7}),
    ("kl_div", [numbers(3, 4), numbers(3, 4, name=1, positive=True)], {"reduction": "batchmean"}),
    ("kl_div", [numbers(3, 4), numbers(3, 4, name=1)], {"log_target": True}),
    ("poisson_nll_loss", [numbers(3, 4), numbers(3, 4, name=1, positive=True)], {"full": True}),
    ("poisson_nll_loss", [numbers(3, 4, positive=True), numbers(3, 4, name=1, positive=True)], {"log_input": False}),
    ("gaussian_nll_loss", [numbers(3, 4), numbers(3, 4, name=1), numbers(3, 1, name=2, positive=True)], {"full": True}),
    ("cosine_similarity", [numbers(3, 4), numbers(1, 4, name=1)], {"dim": -1}),
    ("pairwise_distance", [numbers(3, 4), numbers(3, 4, name=1)], {"p": 3.0, "keepdim": True}),
    ("cosine_embedding_loss", [numbers(3, 4), numbers(3, 4, name=1), SIGNS], {"margin": 0.2}),
    ("hinge_embedding_loss", [numbers(3), SIGNS], {"margin": 0.5, "reduction": "none"}),
    ("margin_ranking_loss", [numbers(3), numbers(3, name=1), SIGNS], {"margin": 0.5}),
    ("triplet_margin_loss", [numbers(3, 4), numbers(3, 4, name=1), numbers(3, 4, name=2)], {"swap": True}),
    ("soft_margin_loss", [numbers(3), SIGNS], {}),
    ("multilabel_soft_margin_loss", [numbers(3, 4), (numbers(3, 4, name=1) > 0).astype(np.float32)], {}),
    ("multi_margin_loss", [numbers(3, 4), np.array([1, 3, 0])], {"p": 2, "margin": 0.5}),
    ("multilabel_margin_loss", [numbers(2, 4), np.array([[1, 3, -1, 0], [-1, 0, 1, 2]])], {}),
    ("binary_cross_entropy_with_logits", [numbers(3, 4), (numbers(3, 4, name=1) > 0).astype(np.float32)], {}),
]


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize(("call", "tensors", "options"), CASES, ids=[f"{row[0]}-{i}" for i, row in enumerate(CASES)])
def test_loss(call: str, tensors: list[Any], options: dict[str, Any]) -> None:
    """Value and gradients are PyTorch's."""
    agree(tensors, tensors, call, **options)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_with_weights(reduction: str, smoothing: float) -> None:
    """Classes have weights, one label does not count, and both go with label smoothing and spatial axes."""
    x, y, weight = numbers(3, 4, 2), np.array([[0, 3], [1, 1], [2, 0]]), numbers(4, name=2, positive=True)
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 1}
    found = ours.cross_entropy(Tensor(y), weight=Tensor(weight), **options)
    wanted = F.cross_entropy(theirs, torch.tensor(y), torch.tensor(weight), **options)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    found.sum().backward()
    wanted.sum().backward()
    np.testing.assert_allclose(values(ours.grad), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_ctc_loss(flat: bool, reduction: str) -> None:
    """Repeated labels, samples that end early and one without an alignment; the gradient through log_softmax is
    PyTorch's, whose own gradient takes that to be there."""
    x, sizes, ends = numbers(6, 3, 4), [3, 2, 3], [6, 4, 2]
    labels = np.array([[1, 1, 2], [3, 2, 0], [1, 2, 3]])
    given = np.concatenate([row[:n] for row, n in zip(labels, sizes, strict=True)]) if flat else labels
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    options: dict[str, Any] = {"reduction": reduction, "zero_infinity": True}
    found = ours.log_softmax(2).ctc_loss(Tensor(given), ends, sizes, **options)
    wanted = F.ctc_loss(theirs.log_softmax(2), torch.tensor(given), ends, sizes, **options)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    found.sum().backward()
    wanted.sum().backward()
    np.testing.assert_allclose(values(ours.grad), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_losses_of_half_types() -> None:
    """A half comes back, computed in float32."""
    x = Tensor([300.0, 0.0], dtype=dtypes.float16)
    assert x.mse_loss(x * 0, reduction="none").dtype is dtypes.float16
    assert x.mse_loss(x - 1).item() == 1.0


def test_losses_that_are_refused() -> None:
    """Each error says what was asked and what was found."""
    x = Tensor.ones(2, 3)
    with pytest.raises(ValueError, match="reduction is 'mean', 'sum' or 'none', got 'abc'"):
        x.l1_loss(x, reduction="abc")
    with pytest.raises(ShapeError, match=r"needs targets in the shape of the probabilities, \(2, 3\), got \(3,\)"):
        x.binary_cross_entropy(Tensor.ones(3))
    with pytest.raises(ShapeError, match=r"of that shape, of \(2, 1\) or of \(2,\), got \(3,\)"):
        x.gaussian_nll_loss(x, Tensor.ones(3))
    with pytest.raises(ValueError, match="a triplet loss needs a margin of more than 0, got -1"):
        x.triplet_margin_loss(x, x, margin=-1)
    with pytest.raises(
        DTypeError, match=r"labels are integers, got dtypes.float\n.*\n  hint: cast them, as in Y.int\(\)"
    ):
        x.multi_margin_loss(Tensor.ones(2))
    with pytest.raises(ShapeError, match=r"cross_entropy of shape \(2, 3\) needs a weight for each of 3 classes"):
        x.cross_entropy(Tensor([0, 1]), weight=Tensor.ones(2))
    with pytest.raises(ShapeError, match="ctc_loss needs target_lengths that add up to 3, the number of targets; 2 is"):
        Tensor.ones(4, 2, 3).ctc_loss(Tensor([1, 1, 1]), [4, 4], [1, 1])
