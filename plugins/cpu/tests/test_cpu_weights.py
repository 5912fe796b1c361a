"""The routine of the gradient of a convolution's weights: values, infinities, threads, and what is left to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from convolution_call import convolved, numbers
from tinygraft import Context, Tensor, dtypes
from tinygraft.engine.routine_values import routine_values
from tinygraft.uop.stages import RoutineCall
from tinygraft_cpu import routines

pytestmark = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]
NAME = "convolution_weights"


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def run(x: Array, g: Array, options: tuple[int, ...], threads: int = 2) -> Array:
    """Return the routine's result on operands in its axes."""
    return convolved(NAME, x, g, options, (x.shape[0], x.shape[2], g.shape[3], x.shape[3], *options[-2:]), threads)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", ["whole", "infinite"])
def test_values(level: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random sizes, steps, gaps, windows, padding and groups, on each kind of processor, on threads alike."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)

    def upto(most: int, least: int = 1) -> int:
        """Return a number from `least` to `most`."""
        return int(chance.integers(least, most + 1))

    for number in range(90):
        channels, filters = (upto(12), upto(90)) if number % 10 else (upto(140, 70), upto(140, 70))
        if number >= 40:  # depthwise
            channels = filters = 1
        window, step, gap = (upto(5), upto(5)), (upto(3), upto(3)), (upto(2), upto(3))
        results = (upto(15), upto((9, 30, 160)[number % 3])) if number % 4 else (1, upto(700, 150))
        if number >= 40 and number % 2:
            window, step, gap = (upto(9), upto(9)), (upto(2),) * 2, (1, 1)
            results = upto(12), upto((8, 30, 70)[number % 3])
        pads = [(upto(4, 0), upto(4, 0)) for _ in range(2)]
        reach = [(r - 1) * s + (n - 1) * d + 1 for r, s, n, d in zip(results, step, window, gap, strict=True)]
        size = [max(1, n - sum(pad) + upto(2, 0)) for n, pad in zip(reach, pads, strict=True)]
        groups = upto(40 if number >= 40 else 2)
        x = numbers(upto(2), upto(7), groups, channels, *size, seed=number)
        g = numbers(*x.shape[:3], filters, *results, seed=9)
        options = (pads[0][0], pads[1][0], *step, *gap, *window)
        if kind == "whole":
            x, g = np.round(x * 4), np.round(g * 4)
        else:
            x[:, -1, 0, 0, upto(size[0]) - 1, upto(size[1]) - 1] = np.nan
            g[:, 0, -1, -1, upto(results[0]) - 1, upto(results[1]) - 1] = np.inf
        got = run(x, g, options, upto(5))
        np.testing.assert_array_equal(got, run(x, g, options, 1))
        with np.errstate(invalid="ignore"):
            wanted = routine_values(NAME, [x, g], options)[0]
        if kind == "whole":
            np.testing.assert_array_equal(got, wanted, f"{x.shape} {g.shape} {options}")
            continue
        for is_so in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(is_so(got), is_so(wanted))
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)


def test_more_than_caches_hold() -> None:
    """Many channels, long rows and large images: weights in parts, bands of rows, and parts of rows."""
    for x, g, options in (
        ((1, 2, 1, 300, 12, 13), (1, 2, 1, 70, 12, 13), (1, 1, 1, 1, 1, 1, 3, 3)),
        ((1, 2, 1, 40, 1, 9000), (1, 2, 1, 20, 1, 8996), (0, 0, 1, 1, 1, 2, 1, 3)),
        ((1, 1, 1, 30, 210, 200), (1, 1, 1, 20, 105, 100), (1, 1, 2, 2, 1, 1, 3, 3)),
    ):
        a, b = np.round(numbers(*x) * 2), np.round(numbers(*g, seed=1) * 2)
        wanted = routine_values(NAME, [a, b], options)[0]
        for threads in (1, 2, 3, 7):
            np.testing.assert_array_equal(run(a, b, options, threads), wanted)


def test_sums_are_as_exact_as_one_after_another() -> None:
    """Of 60,000 positive products."""
    x, g = abs(numbers(1, 8, 1, 2, 80, 94)), abs(numbers(1, 8, 1, 16, 80, 94, seed=1))
    got, wanted = run(x, g, (0, 0, 1, 1, 1, 1, 1, 1)), routine_values(NAME, [x, g], (0, 0, 1, 1, 1, 1, 1, 1))[0]
    terms = np.moveaxis(x[0, :, 0, :], 0, 1).reshape(2, 1, -1) * np.moveaxis(g[0, :, 0, :], 0, 1).reshape(1, 16, -1)
    plain = np.add.accumulate(terms, axis=-1, dtype=np.float32)[..., -1].T
    assert abs(got.reshape(16, 2) - wanted.reshape(16, 2)).max() < 0.5 * abs(plain - wanted.reshape(16, 2)).max()


def names(t: Tensor) -> list[str]:
    """Return the routines of a tensor's schedule."""
    return [call.routine.name for call in t.schedule() if isinstance(call, RoutineCall)]


@pytest.mark.parametrize(
    ("shape", "weights", "given"),
    [
        ((3, 24, 19, 23), (40, 24, 3, 3), {"padding": 1}),
        ((5, 24, 29, 30), (64, 12, 5, 4), {"stride": (2, 3), "padding": (2, 0), "groups": 2, "dilation": (1, 2)}),
        ((1, 24, 63, 57), (32, 24, 3, 3), {"stride": 2}),
        ((5, 24, 301), (32, 24, 3), {"padding": 4, "dilation": 4}),
        ((5, 24, 301), (32, 24, 5), {"stride": 2}),
        ((600, 32, 1, 1), (32, 32, 1, 1), {}),
    ],
)
def test_conv2d_beside_torch(shape: tuple[int, ...], weights: tuple[int, ...], given: dict[str, Any]) -> None:
    """The gradient of weights, with NaN and infinities at a border, and what it is summed with."""
    torch = pytest.importorskip("torch")
    x, w = numbers(*shape), numbers(*weights, seed=1)
    x[0, 0, ..., 0], x[-1, 2, ..., -1] = np.nan, -np.inf
    b, d = Tensor(w, requires_grad=True), torch.tensor(w, requires_grad=True)
    found = Tensor(x).conv2d(b, **given)
    wanted = getattr(torch.nn.functional, f"conv{len(shape) - 2}d")(torch.tensor(x), d, **given)
    start = numbers(*wanted.shape, seed=2)
    (got,) = found.gradient(b, gradient=Tensor(start))
    if shape[-1] > 1:
        assert names(got) == [NAME]
    (other,) = torch.autograd.grad(wanted, d, torch.tensor(start))
    assert (np.isfinite(got.numpy()) == np.isfinite(other.numpy())).all()
    np.testing.assert_allclose(got.numpy(), other.numpy(), 1e-4, 1e-3)
    np.testing.assert_allclose((b + got * 2).numpy(), (d + other * 2).detach().numpy(), 1e-4, 1e-3)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_transpose_beside_torch(axes: int, groups: int) -> None:
    """Of what slides back: x and the gradient of results have changed places."""
    torch = pytest.importorskip("torch")
    x, w = numbers(3, 64, *((201,) if axes == 1 else (31, 31))), numbers(64, 24, *(4,) * axes, seed=1)
    b, d = Tensor(w, requires_grad=True), torch.tensor(w, requires_grad=True)
    given: dict[str, Any] = {"stride": 2, "padding": 1, "output_padding": 1, "groups": groups}
    found = Tensor(x).conv_transpose2d(b, **given)
    wanted = getattr(torch.nn.functional, f"conv_transpose{axes}d")(torch.tensor(x), d, **given)
    start = numbers(*wanted.shape, seed=2)
    (got,) = found.gradient(b, gradient=Tensor(start))
    assert names(got) == [NAME]
    (other,) = torch.autograd.grad(wanted, d, torch.tensor(start))
    np.testing.assert_allclose(got.numpy(), other.numpy(), 1e-4, 1e-3)


def test_which_are_kernels() -> None:
    """Half types and float64, few filters or results, and all with ROUTINES=0."""

    def routines_of(dtype: Any = dtypes.float32, filters: int = 32, size: int = 24) -> list[str]:
        """Return those of the gradient of weights."""
        x = Tensor(numbers(2, 32, size, size)).cast(dtype)
        w = Tensor(numbers(filters, 32, 3, 3)).cast(dtype).requires_grad_()
        found = x.conv2d(w)
        return names(found.gradient(w, gradient=Tensor(numbers(*found.shape)).cast(dtype))[0])

    assert routines_of() == [NAME]
    assert routines_of(dtypes.float64) == routines_of(dtypes.bfloat16) == []
    assert routines_of(filters=4) == routines_of(size=8) == []
    with Context(ROUTINES=0):
        assert routines_of() == []
