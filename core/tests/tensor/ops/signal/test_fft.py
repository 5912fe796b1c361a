"""Fourier transforms against numpy's, for lengths of all kinds, with their gradients and sentences."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.signal import fft as fourier

pytestmark = pytest.mark.slow

rng = np.random.default_rng(0)
LENGTHS = [1, 2, 3, 4, 5, 6, 8, 12, 30, 61, 64, 67, 100, 127, 194]  # primes above 61 take the way of Bluestein
NORMS = [None, "backward", "forward", "ortho"]
Array = np.ndarray[Any, Any]


def close(found: Tensor, wanted: Array) -> None:
    """Equal to twelve digits of the largest."""
    values = found.numpy()
    assert values.shape == wanted.shape and values.dtype == wanted.dtype
    np.testing.assert_allclose(values, wanted, atol=1e-12 * max(1.0, np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int) -> None:
    """Small factors, large primes and both; real and complex, forward and back."""
    x = rng.normal(size=(2, n))
    z = x + 1j * rng.normal(size=(2, n))
    close(Tensor(x).fft(), np.fft.fft(x))
    close(Tensor(z).fft(), np.fft.fft(z))
    close(Tensor(z).ifft(), np.fft.ifft(z))
    close(Tensor(x).rfft(), np.fft.rfft(x))
    close(Tensor(x).ihfft(), np.fft.ihfft(x))
    close(Tensor(z).irfft(2 * n - 1), np.fft.irfft(z, 2 * n - 1))
    if n > 1:
        close(Tensor(z).irfft(), np.fft.irfft(z))
        close(Tensor(z).hfft(), np.fft.hfft(z))
    close(Tensor(x).rfft().irfft(n), x)


@pytest.mark.parametrize("norm", NORMS)
def test_norms_lengths_and_axes(norm: Any) -> None:
    """Cut and filled up with zeros, along any axis, divided as norm says."""
    x = rng.normal(size=(4, 6, 5))
    z = x + 1j * rng.normal(size=(4, 6, 5))
    for n in (3, 6, 10):
        close(Tensor(x).fft(n, 1, norm), np.fft.fft(x, n, 1, norm))
        close(Tensor(z).ifft(n, -3, norm), np.fft.ifft(z, n, -3, norm))
        close(Tensor(x).rfft(n, 0, norm), np.fft.rfft(x, n, 0, norm))
        close(Tensor(z).irfft(n, 0, norm), np.fft.irfft(z, n, 0, norm))
        close(Tensor(z).hfft(n, 1, norm), np.fft.hfft(z, n, 1, norm))
        close(Tensor(x).ihfft(n, 1, norm), np.fft.ihfft(x, n, 1, norm))


def test_several_axes() -> None:
    """Two axes, all of them, and those of s and dim, in their order."""
    x = rng.normal(size=(4, 6, 5))
    z = x + 1j * rng.normal(size=(4, 6, 5))
    close(Tensor(x).fft2(), np.fft.fft2(x))
    close(Tensor(z).ifft2(), np.fft.ifft2(z))
    close(Tensor(x).fftn(), np.fft.fftn(x))
    close(Tensor(z).ifftn(s=(3, 8), dim=(0, 2)), np.fft.ifftn(z, (3, 8), (0, 2)))
    close(Tensor(x).rfftn(dim=(2, 0)), np.fft.rfftn(x, axes=(2, 0)))
    close(Tensor(x).rfft2(), np.fft.rfft2(x))
    close(Tensor(z).irfftn(), np.fft.irfftn(z, axes=(0, 1, 2)))
    close(Tensor(z).irfft2(s=(6, 7)), np.fft.irfft2(z, (6, 7)))
    back = Tensor(x).ihfftn(dim=(0, 2)).hfftn((4, 5), (0, 2))
    close(back, x)
    close(Tensor(x).ihfft2().hfft2((6, 5)), x)


@pytest.mark.parametrize("columns", [7, 8, 19])
def test_axes_before_the_last(columns: int) -> None:
    """Of complex numbers with few and many columns, which a routine may transform where they are; and gradients."""
    z = rng.normal(size=(4, 6, columns)) + 1j * rng.normal(size=(4, 6, columns))
    for axes in ((0,), (1,), (0, 1), (2, 0)):
        close(Tensor(z).fftn(dim=axes), np.fft.fftn(z, axes=axes))
        close(Tensor(z).ifftn(dim=axes), np.fft.ifftn(z, axes=axes))
    weights = rng.normal(size=z.shape)
    parts = [Tensor(part, requires_grad=True) for part in (z.real, z.imag)]
    (Tensor.complex(*parts).fft(dim=1).real * Tensor(weights)).sum().backward()
    slope = np.fft.fft(weights, axis=1)  # the transform is its own transpose, and the real part reads both parts
    assert parts[0].grad is not None and parts[1].grad is not None
    close(parts[0].grad, slope.real)
    close(parts[1].grad, -slope.imag)


def test_frequencies_and_shifts() -> None:
    """As numpy has them, for even and odd lengths."""
    for n in (1, 4, 5):
        np.testing.assert_allclose(Tensor.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(Tensor.rfftfreq(n, 0.5).numpy(), np.fft.rfftfreq(n, 0.5))
    x = np.arange(30).reshape(5, 6)
    for axes in (None, 0, (1,)):
        assert Tensor(x).fftshift(axes).tolist() == np.fft.fftshift(x, axes).tolist()
        assert Tensor(x).fftshift(axes).ifftshift(axes).tolist() == x.tolist()


def test_dtypes_and_gradients() -> None:
    """What is narrower than 64 bits gives complex64; the gradient of a transform is a transform."""
    assert Tensor([1, 2, 3]).fft().dtype is dtypes.complex64
    assert Tensor([1.0, 2.0], dtype=dtypes.half).rfft().dtype is dtypes.complex64
    assert Tensor([1.0, 2.0], dtype=dtypes.half).rfft().irfft().dtype is dtypes.float32
    x, weight = Tensor(rng.normal(size=12), requires_grad=True), rng.normal(size=(12, 2))
    (gradient,) = (x.fft().view_as_real() * Tensor(weight)).sum().gradient(x)
    angle = 2 * np.pi * np.outer(np.arange(12), np.arange(12)) / 12
    close(gradient, np.cos(angle) @ weight[:, 0] - np.sin(angle) @ weight[:, 1])


def test_every_function_says_what_it_does() -> None:
    """The family is whole: what numpy.fft has, by the same names."""
    ours = {name for name, _ in inspect.getmembers(fourier) if "fft" in name and not name.startswith("_")}
    assert set(np.fft.__all__) <= ours


def test_mistakes_have_sentences() -> None:
    """Axes, lengths and norms are named, and what takes real numbers only says so."""
    x = Tensor.ones(2, 3)
    with pytest.raises(
        ShapeError, match=r"^fft over the axes \[2\] with lengths None does not fit shape \(2, 3\)\n  made at "
    ):
        x.fft(dim=2)
    with pytest.raises(
        ShapeError, match=r"^fftn needs at least one axis, and different ones, got \[0, 0\] for shape \(2, 3\)\n  made"
    ):
        x.fftn(dim=(0, 0))
    with pytest.raises(ShapeError, match=r"^fft needs a length of at least 1, got \[0\] for shape \(2, 3\)$"):
        x.fft(0)
    with pytest.raises(DTypeError, match=r"^rfft is not defined for dtypes.complex64\n  made at "):
        x.fft().rfft()
    with pytest.raises(ValueError, match=r"^norm is backward, forward or ortho, got 'none'$"):
        x.fft(norm="none")


WAYS: dict[str, tuple[bool, dict[str, Any]]] = {  # whether it takes complex numbers, and its arguments
    "fft": (True, {}), "ifft": (True, {}), "rfft": (False, {}), "irfft": (True, {}), "hfft": (True, {}),
    "ihfft": (False, {}), "fft2": (True, {}), "ifft2": (True, {}), "rfft2": (False, {}), "irfft2": (True, {}),
    "fftn": (True, {"dim": (0, 2)}), "rfftn": (False, {"dim": (2, 1)}), "irfftn": (True, {"dim": (0, 1)}),
}  # fmt: skip


@pytest.mark.parametrize("size", [(2, 8, 8), (3, 5, 12), (2, 9, 7), (2, 2, 1), (2, 16, 67)], ids=str)
@pytest.mark.parametrize("name", WAYS)
def test_gradients_beside_torch(name: str, size: tuple[int, ...]) -> None:
    """Of sums with weights of the results' squares, and once more of these gradients, in which all parts take part."""
    is_complex, given = WAYS[name]
    if size[-1] == 1 and name in ("irfft", "hfft", "irfft2"):
        given = given | ({"n": 3} if name != "irfft2" else {"s": (2, 3)})
    numbers = np.random.default_rng(5)
    x = numbers.normal(size=size) + (1j * numbers.normal(size=size) if is_complex else 0)
    theirs = torch.tensor(x, requires_grad=True)
    out = getattr(torch.fft, name)(theirs, **given)
    weights = numbers.normal(size=(*out.shape, 2))

    def loss(squares: Any, weight: Any) -> Any:
        return (squares * weight).sum()

    parts = torch.view_as_real(out.resolve_conj()) if out.is_complex() else torch.stack([out, out * 0], -1)
    (slope,) = torch.autograd.grad(loss(parts**3, torch.tensor(weights)), theirs, create_graph=True)
    flat = torch.view_as_real(slope.resolve_conj()) if slope.is_complex() else slope
    (second,) = torch.autograd.grad((flat**2).sum(), theirs)

    def as_parts(z: Tensor) -> Tensor:
        return z.view_as_real() if z.is_complex() else Tensor.stack(z, z * 0, dim=-1)

    if is_complex:  # both parts are leaves: a gradient is one of real numbers
        leaves = [Tensor(np.ascontiguousarray(part), requires_grad=True) for part in (x.real, x.imag)]
        ours = Tensor.complex(*leaves)
    else:
        leaves = [Tensor(x, requires_grad=True)]
        ours = leaves[0]
    mine = as_parts(getattr(ours, name)(**given))
    slopes = loss(mine**3, Tensor(weights)).gradient(*leaves)
    total: Any = sum((s**2).sum() for s in slopes)
    again = total.gradient(*leaves)
    for found, wanted in ((slopes, slope), (again, second)):
        want = wanted.detach().resolve_conj().numpy()
        sides = (want.real, want.imag) if is_complex else (want,)
        for got, side in zip(found, sides, strict=True):
            np.testing.assert_allclose(got.numpy(), side, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(side).max()))
