"""Reflections and short-time Fourier transforms, against PyTorch and what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import ShapeError

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(6, 4), (5, 5), (2, 7, 3), (3, 5), (0, 3, 2)])
def test_reflections_make_the_orthogonal_factor(shape: tuple[int, ...]) -> None:
    """Q from the reflections times R is the matrix; ormqr multiplies by it from both sides and transposed."""
    matrix = rng.normal(size=shape)
    a, tau = Tensor(matrix).geqrf()
    m, n = shape[-2:]
    eye = np.broadcast_to(np.eye(m), (*shape[:-2], m, m)).copy()
    q = a.ormqr(tau, Tensor(eye)).numpy()
    r = a.triu().numpy()
    np.testing.assert_allclose(q @ r, matrix, atol=1e-12)
    np.testing.assert_allclose(q.swapaxes(-1, -2) @ q, eye, atol=1e-12)
    if m >= n:
        np.testing.assert_allclose(a.householder_product(tau).numpy(), q[..., :n], atol=1e-12)
    other = rng.normal(size=(*shape[:-2], m, 2))
    np.testing.assert_allclose(
        a.ormqr(tau, Tensor(other), transpose=True).numpy(), q.swapaxes(-1, -2) @ other, atol=1e-12
    )
    row = other.swapaxes(-1, -2).copy()
    np.testing.assert_allclose(a.ormqr(tau, Tensor(row), left=False).numpy(), row @ q, atol=1e-12)


def test_reflections_are_those_of_lapack() -> None:
    """Signs and numbers as PyTorch has them, and gradients through the product."""
    torch = pytest.importorskip("torch")
    matrix = rng.normal(size=(6, 4))
    a, tau = Tensor(matrix).geqrf()
    theirs = torch.geqrf(torch.tensor(matrix))
    np.testing.assert_allclose(a.numpy(), theirs.a.numpy(), atol=1e-12)
    np.testing.assert_allclose(tau.numpy(), theirs.tau.numpy(), atol=1e-12)
    b = rng.normal(size=(4, 2))
    for upper in (True, False):
        for transpose in (True, False):
            found, _ = Tensor(b).triangular_solve(Tensor(matrix[:4]), upper, transpose)
            triangle = np.triu(matrix[:4]) if upper else np.tril(matrix[:4])
            np.testing.assert_allclose((triangle.T if transpose else triangle) @ found.numpy(), b, atol=1e-9)


@pytest.mark.parametrize("kind", [{"n_fft": 16}, {"n_fft": 16, "hop_length": 5, "win_length": 10, "center": False},
                                  {"n_fft": 12, "normalized": True, "onesided": False}])  # fmt: skip
def test_short_time_transforms(kind: dict[str, int]) -> None:
    """stft as PyTorch has it; istft brings the signal back."""
    torch = pytest.importorskip("torch")
    signal = rng.normal(size=(2, 50))
    window = np.hanning(kind.get("win_length", kind["n_fft"])) + 0.2
    found = Tensor(signal).stft(window=Tensor(window), **kind)  # type: ignore[arg-type]
    theirs = torch.stft(torch.tensor(signal), window=torch.tensor(window), return_complex=True, **kind)
    np.testing.assert_allclose(found.numpy(), theirs.numpy(), atol=1e-12)
    apart = Tensor(signal).stft(window=Tensor(window), return_complex=False, **kind)  # type: ignore[arg-type]
    assert apart.tolist() == found.view_as_real().tolist()
    back = found.istft(window=Tensor(window), **kind)  # type: ignore[arg-type]
    size = back.shape[-1]
    inner = slice(3, size - 3) if "center" in kind else slice(None)  # at the ends a narrower window leaves nothing
    np.testing.assert_allclose(back.numpy()[:, inner], signal[:, :size][:, inner], atol=1e-12)
    if "center" not in kind:
        whole = found.istft(window=Tensor(window), length=60, **kind)  # type: ignore[arg-type]
        assert whole.shape == (2, 60)
        np.testing.assert_allclose(whole.numpy()[:, :48], signal[:, :48], atol=1e-12)


def test_mistakes_have_sentences() -> None:
    """Shapes are named."""
    with pytest.raises(
        ShapeError, match=r"^ormqr needs at most as many reflections as there are rows and columns, got shap"
    ):
        Tensor.ones(3, 2).ormqr(Tensor.ones(3), Tensor.ones(3, 1))
    with pytest.raises(ShapeError, match=r"^ormqr of \(3, 2\) needs 3 rows on the other side, got shape \(2, 1\)\n"):
        Tensor.ones(3, 2).ormqr(Tensor.ones(2), Tensor.ones(2, 1))
    with pytest.raises(ShapeError, match=r"^householder_product needs rows for all columns, got \(2, 3\)\n  made at "):
        Tensor.ones(2, 3).householder_product(Tensor.ones(2))
    with pytest.raises(
        ShapeError, match=r"^stft needs a window of 3 numbers, at least 1 and at most n_fft = 4, got \(2,\)$"
    ):
        Tensor.ones(8).stft(4, win_length=3, window=Tensor.ones(2))
    with pytest.raises(ShapeError, match=r"^stft needs a hop of at least 1 and 16 numbers, got 4 and 8\n  made at "):
        Tensor.ones(8).stft(16, center=False)
    with pytest.raises(
        ShapeError, match=r"^istft needs complex numbers of shape \(..., 3, pieces\), got dtypes.float and "
    ):
        Tensor.ones(2, 3, 2).istft(4)
