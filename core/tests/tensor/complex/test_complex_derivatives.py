"""Gradients of functions of complex numbers, also on the axes and on branch cuts, against differences."""

import numpy as np
import pytest

from tinygraft import Tensor

pytestmark = pytest.mark.slow

# On the axes, where formulas of the parts take one side or the other, on both sides of branch cuts, and elsewhere.
POINTS = [2 + 0j, complex(2, -0.0), -2 + 0j, complex(-2, -0.0), 0.5 + 0j, -0.5 + 0j, 0.3j, -0.3j, 1 + 1j, 3 - 4j]
FUNCTIONS = ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh",
             "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sigmoid", "sinc", "square", "reciprocal",
             "silu", "rsqrt"]  # fmt: skip


def derivative(name, points):
    """By differences along the real axis, which keep the sign of an imaginary zero and so the side of a cut."""
    step, sides = 1e-5, []
    for sign in (1, -1):
        moved = points.copy()
        moved.real += sign * step
        sides.append(getattr(Tensor(moved), name)().numpy())
    return (sides[0] - sides[1]) / (2 * step)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_is_that_of_the_derivative(name):
    """A gradient of an analytic function is multiplied by the conjugate of the derivative, whichever part it is of."""
    points = np.array(POINTS)
    z = Tensor(points, requires_grad=True)
    for weight in (1.0, 1j):
        (found,) = getattr(z, name)().gradient(z, gradient=Tensor(np.full(points.shape, weight, np.complex128)))
        np.testing.assert_allclose(found.numpy(), weight * derivative(name, points).conj(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["exp", "sqrt", "asin", "tanh", "sigmoid"])
def test_the_second_gradient_is_that_of_the_derivative(name):
    """What a derivative is made of has its own derivative on the axes too."""
    points = np.array(POINTS[4:])
    z, ones = Tensor(points, requires_grad=True), Tensor(np.ones(len(points) - 0, np.complex128))

    def slope(x):
        return getattr(x, name)().gradient(x, gradient=ones)[0].conj()

    (found,) = slope(z).gradient(z, gradient=ones)
    step, sides = 1e-5, []
    for sign in (1, -1):
        moved = points.copy()
        moved.real += sign * step
        sides.append(slope(Tensor(moved, requires_grad=True)).numpy())
    np.testing.assert_allclose(found.numpy(), ((sides[0] - sides[1]) / (2 * step)).conj(), rtol=1e-5, atol=1e-5)


def test_the_gradient_of_sgn_at_zero_is_zero():
    """At 0 there is no direction to turn to."""
    z = Tensor([0j, 2j], requires_grad=True)
    (found,) = z.sgn().gradient(z, gradient=Tensor([1 + 0j, 1 + 0j]))
    assert found.tolist() == [0j, 0.5 + 0j]


def test_a_gradient_that_is_asked_for_by_name_needs_no_flag() -> None:
    """sgn of a tensor whose requires_grad is False has the same gradient as of one that asks."""
    asks, silent = (Tensor([3 + 4j, 1j], requires_grad=flag) for flag in (True, False))
    found = [z.sgn().real.sum().gradient(z)[0].tolist() for z in (asks, silent)]
    assert found[0] == found[1]
