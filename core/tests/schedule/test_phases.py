"""FOLDs of products with a stride, by phases: values of every kind, kernels, and what is left as it was."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor
from tinygraft.schedule import phases
from tinygraft.schedule.phases import Phases, _groups, has_phases
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort


def transposed(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """The transposed convolution by its definition, in float64."""
    (batch, _, *count), (_, out, *kernel) = x.shape, w.shape
    sizes = [(c - 1) * stride + k for c, k in zip(count, kernel, strict=True)]
    result = np.zeros((batch, out, *sizes))
    for place in itertools.product(*(range(c) for c in count)):
        parts = tuple(slice(p * stride, p * stride + k) for p, k in zip(place, kernel, strict=True))
        result[(slice(None), slice(None), *parts)] += np.einsum(
            "bc,co...->bo...", x[(slice(None), slice(None), *place)], w
        )
    return result


def folds(tensor: Tensor) -> list[bool]:
    """Whether each FOLD of a graph is computed by phases."""
    return [has_phases(node) for node in toposort(tensor.uop) if node.op is Ops.FOLD]


def numbers(*shape: int) -> np.ndarray:
    """Floats between -1 and 1."""
    return np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(("kernel", "stride"), [(4, 2), (3, 2), (2, 2), (2, 3), (5, 3), (1, 2)])
@pytest.mark.parametrize("axes", [1, 2])
def test_values(kernel: int, stride: int, axes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that overlap, touch and have gaps, in whole phases and not."""
    monkeypatch.setattr(phases, "LARGE", 1)
    x, w = numbers(2, 3, *(5, 4)[:axes]), numbers(3, 2, *(kernel, kernel)[:axes])
    result = Tensor(x).conv_transpose2d(Tensor(w), stride=stride)
    assert folds(result) == [True]
    assert np.allclose(result.numpy(), transposed(x, w, stride), atol=1e-5)


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_the_gradient_of_a_convolution(kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of its input is such a FOLD, also where the last elements are in no window; in two groups."""
    monkeypatch.setattr(phases, "LARGE", 1)
    x, w = numbers(2, 4, 10, 8), numbers(6, 2, kernel, kernel)
    a = Tensor(x, requires_grad=True)
    y = a.conv2d(Tensor(w), groups=2, stride=2)
    (gradient,) = y.square().sum().gradient(a)
    assert any(folds(gradient))
    each = [transposed(2 * y.numpy()[:, 3 * i : 3 * i + 3], w[3 * i : 3 * i + 3], 2) for i in range(2)]
    wanted = np.zeros(x.shape)
    whole = np.concatenate(each, 1)
    wanted[:, :, : whole.shape[2], : whole.shape[3]] = whole
    assert np.allclose(gradient.numpy(), wanted, atol=1e-4)


def test_infinities_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinite input reaches the elements of its own window alone: none is multiplied by a padded 0."""
    monkeypatch.setattr(phases, "LARGE", 1)
    x, w = numbers(1, 1, 3, 3), numbers(1, 1, 3, 3)
    x[0, 0, 1, 1] = np.inf
    result = Tensor(x).conv_transpose2d(Tensor(w), stride=2).numpy()
    assert not np.isnan(result).any()
    assert np.argwhere(np.isinf(result[0, 0])).tolist() == [[i, j] for i in (2, 3, 4) for j in (2, 3, 4)]


def test_each_group_of_phases_is_a_kernel() -> None:
    """And one interleaves them."""
    x = Tensor(numbers(1, 8, 16, 16)).realize()
    for kernel, kernels in ((2, 2), (3, 5), (4, 2)):
        w = Tensor(numbers(8, 16, kernel, kernel)).realize()
        before = GlobalCounters.kernel_count
        x.conv_transpose2d(w, stride=2).realize()
        assert GlobalCounters.kernel_count - before == kernels


def test_what_has_no_phases() -> None:
    """Stride 1, dilated windows, little work, and the gradient of a pool whose windows do not overlap."""
    x, w = Tensor(numbers(1, 8, 16, 16)), Tensor(numbers(8, 16, 3, 3))
    assert folds(x.conv_transpose2d(w)) == [False]
    assert folds(x.conv_transpose2d(w, stride=2, dilation=2)) == [False]
    assert folds(x[:, :, :2, :2].conv_transpose2d(w, stride=2)) == [False]
    pooled = Tensor(numbers(1, 64, 32, 32), requires_grad=True)
    assert not any(folds(pooled.avg_pool2d(2, 3).sum().gradient(pooled)[0]))
    assert folds(pooled.avg_pool2d(3, 2).sum().gradient(pooled)[0]) == [True]


def test_groups_of_phases() -> None:
    """Phases with one element more come first; those without elements are in none."""
    assert _groups(4, 2) == [Phases(0, 2, 2)]
    assert _groups(5, 3) == [Phases(0, 2, 2), Phases(2, 3, 1)]
    assert _groups(2, 3) == [Phases(0, 2, 1)]


@pytest.mark.parametrize(("size", "stride"), [(3, 2), (5, 3), ((3, 2), (2, 1))])
def test_the_gradient_of_a_maximum_over_windows_that_overlap(size: Any, stride: Any) -> None:
    """Is computed by phases, each without remainders; it is PyTorch's, and that of windows one by one."""
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).permutation(4 * 41 * 43 * 8).reshape(8, 4, 41, 43).astype(np.float64)
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    wanted = torch.nn.functional.max_pool2d(theirs, size, stride)
    weight = np.random.default_rng(1).standard_normal(wanted.shape)
    (gradient,) = (ours.max_pool2d(size, stride) * Tensor(weight)).sum().gradient(ours)
    found = torch.autograd.grad((wanted * torch.tensor(weight)).sum(), theirs)[0].numpy()
    np.testing.assert_allclose(gradient.numpy(), found, rtol=1e-12, atol=1e-12)
