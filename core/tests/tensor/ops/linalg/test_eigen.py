"""Eigenvalues and singular values alone: their routines, and gradients that find the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

pytestmark = pytest.mark.needs("ext")


def symmetric(x: Any) -> Any:
    """A symmetric matrix of one that is not."""
    return x + x.transpose(0, 1)


def close(found: Tensor, wanted: Any, bound: float) -> None:
    """Equal to a tensor of PyTorch within a bound."""
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=bound, atol=bound)


def test_values_alone() -> None:
    """svdvals and eigvalsh have routines without vectors, whose gradients find the vectors, also of one value of all.

    The greatest is compared with all of them in its gradient, which a second run of other bits would make zero.
    """
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).standard_normal((6, 6))
    weight = np.arange(36.0).reshape(6, 6)
    a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    cases: dict[str, tuple[Any, Any]] = {
        "greatest": (lambda t: t.svdvals().max(), lambda t: torch.linalg.svdvals(t).max()),
        "cond": (lambda t: t.cond(), torch.linalg.cond),
        "nuclear": (lambda t: t[:4].matrix_norm("nuc"), lambda t: torch.linalg.matrix_norm(t[:4], "nuc")),
        "eigenvalue": (lambda t: symmetric(t).eigvalsh().max(), lambda t: torch.linalg.eigvalsh(symmetric(t)).max()),
        "triangle": (
            lambda t: t.eigvalsh("U").square().sum(),
            lambda t: torch.linalg.eigvalsh(t, UPLO="U").square().sum(),
        ),
    }
    with Context(DEV="CPU"):
        for name, (ours, theirs) in cases.items():
            loss = ours(a)
            used = {node.arg.routine for node in toposort(loss.uop) if node.op is Ops.ROUTINE}
            assert used <= {"svdvals", "eigvalsh", "inverse"} and used, name
            close(loss, theirs(b), 1e-10)
            (first,) = loss.gradient(a)
            (wanted,) = torch.autograd.grad(theirs(b), b, create_graph=True)
            if name == "triangle":  # PyTorch's is that of the whole matrix
                close(first + first.T, wanted + wanted.T, 1e-9)
                continue
            close(first, wanted, 1e-9)
            (second,) = (ours(a).gradient(a)[0] * Tensor(weight)).sum().gradient(a)
            (wanted,) = torch.autograd.grad((wanted * torch.tensor(weight)).sum(), b)
            close(second, wanted, 1e-7)
