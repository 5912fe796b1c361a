"""Triangular systems as a routine, and derivatives of qr and lu that are written in terms of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

pytestmark = pytest.mark.needs("ext")


def test_triangular_systems_are_one_routine() -> None:
    """Of any triangle, batch and side, with what is not read of the matrix NaN; and a 0 on the diagonal."""
    chance = np.random.default_rng(4)
    with Context(DEV="CPU"):
        for upper, ones, count in ((False, False, 1), (True, False, 3), (False, True, 2), (True, True, 1)):
            whole = chance.standard_normal((3, 5, 5)) + 3 * np.eye(5)
            read = np.triu(whole, int(ones)) if upper else np.tril(whole, -int(ones))
            hidden = np.where(read != 0, whole, np.nan)
            b = chance.standard_normal((2, 1, 5, count))
            found = Tensor(hidden).solve_triangular(Tensor(b), upper=upper, unitriangular=ones)
            assert any(node.op is Ops.ROUTINE and node.arg.routine == "triangular" for node in toposort(found.uop))
            wanted = np.linalg.solve(read + np.eye(5) if ones else read, b)
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-9)
        zero = Tensor([[0.0, 0.0], [1.0, 1.0]])
        for side in (Tensor([[1.0], [1.0]]), Tensor([[1.0, 2.0], [1.0, 1.0]])):
            assert not np.isfinite(zero.solve_triangular(side, upper=False).numpy()).any()


FACTORS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any, Any], Any]]] = {
    "qr": (lambda a: a.qr("reduced"), lambda linalg, a: linalg.qr(a)),
    "lu_factor": (lambda a: [a.lu_factor().LU], lambda linalg, a: [linalg.lu_factor(a)[0]]),
    "lu": (lambda a: a.lu()[1:], lambda linalg, a: linalg.lu(a)[1:]),
}


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (6, 3), (2, 5, 2), (3, 6), (2, 2, 5), (1, 1)])
@pytest.mark.parametrize("name", FACTORS)
def test_derivatives_of_factors(name: str, shape: tuple[int, ...]) -> None:
    """First and second ones of square, tall and wide matrices are PyTorch's, and take a few kernels."""
    torch = pytest.importorskip("torch")
    ours, theirs = FACTORS[name]
    chance = np.random.default_rng(0)
    x, direction = chance.standard_normal(shape), chance.standard_normal(shape)
    with Context(DEV="CPU"):
        a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        found, wanted = ours(a), theirs(torch.linalg, b)
        weights = [chance.standard_normal(tuple(part.shape)) for part in wanted]
        loss = sum(((part * Tensor(w)).sum() for part, w in zip(found, weights, strict=True)), Tensor(0.0))
        other = sum((part * torch.tensor(w)).sum() for part, w in zip(wanted, weights, strict=True))
        (first,) = loss.gradient(a)
        (slope,) = torch.autograd.grad(other, b, create_graph=True)
        np.testing.assert_allclose(first.numpy(), slope.detach().numpy(), rtol=1e-8, atol=1e-8)
        (second,) = (first * Tensor(direction)).sum().gradient(a)
        (curve,) = torch.autograd.grad((slope * torch.tensor(direction)).sum(), b)
        np.testing.assert_allclose(second.numpy(), curve.numpy(), rtol=1e-6, atol=1e-6)


def test_complete_q_of_a_tall_matrix_has_the_gradient_of_its_reflections() -> None:
    """Columns beyond the matrix's are what the reflections make of them: as by kernels."""
    x = np.random.default_rng(1).standard_normal((5, 3))
    weight = Tensor(np.random.default_rng(2).standard_normal((5, 5)))
    found = []
    for setting in (1, 0):
        with Context(DEV="CPU", ROUTINES=setting):
            a = Tensor(x, requires_grad=True)
            q, r = a.qr()
            loss = (q * weight).sum() + (r * weight[:, :3]).sum()
            found.append(loss.gradient(a)[0].numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)
