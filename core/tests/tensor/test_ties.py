"""Gradients where a function has none of its own: ties of extremes, the spread of equal values, roots of 0, integers.

They are those of PyTorch, which takes the flat one at a root of 0 and gives each of two equal tensors half.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError

EQUAL = [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
MIXED = [[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]
flags = pytest.mark.parametrize("flag", [None, False, True], ids=str)


def slope(name: str, values: Any, *args: Any, **options: Any) -> Any:
    """The gradient of the sum of a method's result."""
    x = Tensor(values, dtype=dtypes.float64, requires_grad=True)
    result = getattr(x, name)(*args, **options)
    (result[0] if isinstance(result, tuple) else result).sum().backward()
    assert x.grad is not None
    return x.grad.numpy()


def theirs(name: str, values: Any, *args: Any, **options: Any) -> Any:
    """PyTorch's."""
    torch = pytest.importorskip("torch")
    x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    getattr(x, name)(*args, **options).sum().backward()
    return x.grad.numpy()


# Equal values


@pytest.mark.parametrize("name", ["std", "std_mean", "nanstd", "var", "masked_std"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
def test_the_spread_of_equal_values_is_flat(name: str, axis: Any) -> None:
    """0 and not NaN."""
    np.testing.assert_array_equal(slope(name, EQUAL, axis), np.zeros((2, 3)))


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_std_beside_pytorch(correction: int) -> None:
    """A row of equal values, and one of others, as in PyTorch; along the other axis too."""
    for axis in (0, 1):
        found = slope("std", MIXED, axis, correction=correction)
        if correction < np.shape(MIXED)[axis]:
            np.testing.assert_allclose(found, theirs("std", MIXED, axis, correction=correction), rtol=1e-14)


def test_std_of_one_value_is_not_a_number() -> None:
    """Nothing is left to divide by: NaN, value and gradient, as in PyTorch."""
    assert math.isnan(Tensor([1.0]).std().item()) and math.isnan(slope("std", [1.0])[0])


def test_std_of_complex_numbers() -> None:
    """Equal ones too."""
    x = Tensor([2.0, 2.0], requires_grad=True)
    x.complex(x).std().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 0.0]


def test_the_gradient_of_a_gradient_of_std() -> None:
    """Of values that differ, it is PyTorch's."""
    torch = pytest.importorskip("torch")
    values = [1.0, 2.0, 4.0]
    x, t = Tensor(values, dtype=dtypes.float64), torch.tensor(values, dtype=torch.float64, requires_grad=True)
    found = x.std().gradient(x)[0].square().sum().gradient(x)[0]
    (wanted,) = torch.autograd.grad(torch.autograd.grad(t.std(), t, create_graph=True)[0].square().sum(), t)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_distances_of_equal_points_are_flat() -> None:
    """Also with eps 0, where the root is of 0."""
    zero = [[0.0, 0.0, 0.0]] * 2
    other = Tensor(EQUAL, dtype=dtypes.float64)
    np.testing.assert_array_equal(slope("pairwise_distance", EQUAL, other, eps=0.0), zero)
    np.testing.assert_array_equal(slope("dist", EQUAL, other), zero)
    np.testing.assert_array_equal(slope("cdist", EQUAL, other), zero)
    np.testing.assert_array_equal(slope("norm", zero), zero)


def test_the_power_of_three_halves_is_flat_at_zero() -> None:
    """1.5 * sqrt(0), where x * sqrt(x) by the product rule would be NaN; the values and signs stay."""
    np.testing.assert_allclose(slope("pow", [0.0, -0.0, 4.0], 1.5), [0.0, 0.0, 3.0])
    found = Tensor([0.0, -0.0, 4.0, math.inf, math.nan, -1.0]).pow(1.5).numpy()
    np.testing.assert_array_equal(found, [0.0, 0.0, 8.0, math.inf, math.nan, math.nan])
    assert not np.signbit(found[:2]).any()


# Ties


@flags
@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("kind", ["list", "ones", "full", "number", "part", "eye"])
def test_a_tie_of_two_tensors_is_halved(name: str, kind: str, flag: bool | None) -> None:
    """Each gets half, also where one is a constant."""
    made = {
        "list": lambda: Tensor([1.0, 1.0], requires_grad=flag), "ones": lambda: Tensor.ones(2, requires_grad=flag),
        "full": lambda: Tensor.full((2,), 1.0, requires_grad=flag), "number": lambda: Tensor(1.0, requires_grad=flag),
        "part": lambda: Tensor.ones(3, 2, requires_grad=flag)[1],
        "eye": lambda: Tensor.eye(1, requires_grad=flag).reshape(1),
    }  # fmt: skip
    for first in (False, True):
        x, y = Tensor([1.0, 1.0], requires_grad=True), made[kind]()
        (getattr(x, name)(y) if first else getattr(y, name)(x)).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [0.5, 0.5]
        if flag and kind != "part":
            assert y.grad is not None and y.grad.sum().item() == 1.0


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_number_takes_all_of_a_tie(name: str) -> None:
    """As relu is flat at 0."""
    assert slope(name, [1.0, 1.0], 1.0).tolist() == slope(name, [1.0, 1.0], 1).tolist() == [0.0, 0.0]
    assert slope("relu", [0.0]).tolist() == [0.0]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_three_operands_of_a_tie(name: str) -> None:
    """Half of a half, in the order in which they were compared."""
    x, y, z = (Tensor([1.0], requires_grad=True) for _ in range(3))
    getattr(getattr(x, name)(y), name)(z).sum().backward()
    assert [t.grad.item() for t in (x, y, z) if t.grad is not None] == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
def test_equal_extremes_share(name: str, axis: Any) -> None:
    """An equal share to each, as PyTorch's amax gives."""
    arguments = () if axis is None else (axis,)
    for values in (EQUAL, MIXED):
        wanted = theirs(name if axis is None else f"a{name.removeprefix('a')}", values, *arguments)
        np.testing.assert_allclose(slope(name, values, axis), wanted, rtol=1e-15)


# Integers


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_a_target_of_integers_is_refused(dtype: str) -> None:
    """There is no gradient by what cannot change a little."""
    x, k = Tensor([1.0, 2.0]), Tensor([1, 0], dtype=dtype)
    with pytest.raises(
        DTypeError, match=rf"gradient needs targets of floats, target 1 of 2 is {re.escape(str(k.dtype))}"
    ):
        (x * k).sum().gradient(x, k)
