"""Activations against PyTorch: values and gradients, at zero, far out and for NaN, in float32 and half types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Tensor, dtypes

torch = pytest.importorskip("torch")
F = torch.nn.functional
NAMES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "relu": (torch.relu, {}), "sigmoid": (torch.sigmoid, {}), "logsigmoid": (F.logsigmoid, {}),
    "hardsigmoid": (F.hardsigmoid, {}), "elu": (F.elu, {}), "celu": (F.celu, {}), "silu": (F.silu, {}),
    "swish": (F.silu, {}), "relu6": (F.relu6, {}), "hardswish": (F.hardswish, {}), "hardtanh": (F.hardtanh, {}),
    "gelu": (lambda x: F.gelu(x, approximate="tanh"), {}), "leaky_relu": (F.leaky_relu, {}), "mish": (F.mish, {}),
    "softplus": (F.softplus, {}), "softsign": (F.softsign, {}), "tanh": (torch.tanh, {}),
    "selu": (lambda x: 1.0507 * F.elu(x, 1.67326), {}), "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), {}),
}  # fmt: skip
VARIANTS: list[tuple[str, Callable[[Any], Any], dict[str, Any]]] = [(n, f, k) for n, (f, k) in NAMES.items()] + [
    ("gelu", F.gelu, {"approximate": "none"}),
    ("elu", lambda x: F.elu(x, 0.3), {"alpha": 0.3}),
    ("celu", lambda x: F.celu(x, 2.0), {"alpha": 2.0}),
    ("softplus", lambda x: F.softplus(x, beta=3.0), {"beta": 3.0}),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), {"neg_slope": 0.2}),
    ("hardtanh", lambda x: F.hardtanh(x, -2.0, 0.5), {"min_val": -2.0, "max_val": 0.5}),
    ("hardsigmoid", lambda x: torch.clamp(x * 0.2 + 0.4, 0, 1), {"alpha": 0.2, "beta": 0.4}),
]
DATA = np.concatenate([np.linspace(-5.03, 5.01, 64), [-30.0, 30.0, -100.0, 100.0, 1e-5, -1e-5]]).astype(np.float32)


@pytest.mark.parametrize(("name", "function", "keywords"), VARIANTS)
def test_values_and_gradients(name: str, function: Callable[[Any], Any], keywords: dict[str, Any]) -> None:
    """Value and gradient are PyTorch's."""
    x, theirs = Tensor(DATA, requires_grad=True), torch.tensor(DATA, requires_grad=True)
    found, wanted = getattr(x, name)(**keywords), function(theirs)
    np.testing.assert_allclose(values(found), wanted.detach().numpy(), rtol=4e-6, atol=5e-7)
    found.sum().backward()
    wanted.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(values(x.grad), theirs.grad.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_huge_inputs(name: str) -> None:
    """NaN stays NaN; no value is NaN for huge inputs, and no gradient is."""
    huge = np.array([1e4, -1e4, 3e38, -3e38, np.inf, -np.inf, np.nan], np.float32)
    bounded = name not in ("swish", "silu", "quick_gelu", "gelu", "mish", "hardswish", "softsign")
    found, wanted = values(getattr(Tensor(huge), name)()), NAMES[name][0](torch.tensor(huge)).numpy()
    keep = slice(None) if bounded else [0, 1, 2, 3, 6]  # there inf * 0 is NaN in PyTorch too
    np.testing.assert_allclose(found[keep], wanted[keep], rtol=1e-5, atol=1e-30)
    x = Tensor(huge[:2], requires_grad=True)
    getattr(x, name)().sum().backward()
    assert x.grad is not None
    assert np.isfinite(values(x.grad)).all()


@pytest.mark.parametrize("name", NAMES)
def test_dtypes(name: str) -> None:
    """Half types keep their dtype and are close to float32 rounded once; float64 is computed as such."""
    x = np.linspace(-4, 4, 33).astype(np.float16)
    half = values(getattr(Tensor(x), name)())
    wanted = NAMES[name][0](torch.tensor(x.astype(np.float64))).numpy()
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, wanted, rtol=4e-3, atol=2e-3)
    assert getattr(Tensor([0.5]).bfloat16(), name)().dtype is dtypes.bfloat16
    np.testing.assert_allclose(values(getattr(Tensor(x.astype(np.float64)), name)()), wanted, rtol=1e-13, atol=1e-15)


def test_relu_at_zero_and_for_integers() -> None:
    """The gradient of relu at 0 is 0; integers stay integers."""
    x = Tensor([0.0, -0.0, 1.0], requires_grad=True)
    x.relu().sum().backward()
    assert x.grad is not None
    assert values(x.grad).tolist() == [0, 0, 1]
    assert values(Tensor([-1, 2]).relu()).tolist() == [0, 2]


def test_unknown_approximation_is_refused() -> None:
    """gelu knows tanh and none."""
    with pytest.raises(ValueError, match="gelu approximates by 'tanh' or 'none', got 'fast'"):
        Tensor([1.0]).gelu("fast")


def test_hardswish_of_half_is_as_wide_as_its_result() -> None:
    """x * 6 is no half from 10,923 on, and the result is x."""
    assert Tensor([11000.0, 60000.0]).cast(dtypes.float16).hardswish().tolist() == [11000.0, 60000.0]


@pytest.mark.parametrize("name", ["elu", "celu", "expm1"])
def test_gradients_far_below_zero_have_their_digits(name: str) -> None:
    """exp(x), and not exp(x) - 1 with 1 added again: at -16 that was 6 % off, at -20 it is 0."""
    x = np.array([-1e-3, -1.0, -10.0, -16.0, -20.0, -80.0], np.float32)
    t = Tensor(x, requires_grad=True)
    getattr(t, name)().sum().backward()
    assert t.grad is not None
    np.testing.assert_allclose(t.grad.numpy(), np.exp(x.astype(np.float64)), rtol=1e-6)
