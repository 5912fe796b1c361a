"""The routine of transposed convolutions: its values beside exact sums, infinities, threads, and what is left to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from convolution_call import convolved, numbers, slid_back_in_order
from tinygraft import Context, Tensor
from tinygraft.engine.routine_values import routine_values
from tinygraft.schedule import convolutions
from tinygraft.uop.stages import RoutineCall
from tinygraft_cpu import routines

pytestmark = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]
NAME = "transposed_convolution"
UNIT = 2.0**-24  # half a unit in the last place of float32, relative


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def run(x: Array, w: Array, options: tuple[int, ...], threads: int = 2) -> Array:
    """Return the routine's result on operands in its axes, (examples, batch, groups, ...)."""
    shape = (*x.shape[:3], w.shape[3], *options[4:])
    return convolved(NAME, x, w, options, shape, threads)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("infinite", [False, True])
def test_values(level: int, infinite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random sizes, steps, windows, cuts and groups, on each kind of processor, on one thread and more alike.

    An infinite weight reaches the results that its products are part of, and none at the border by a 0 around x.
    """
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)

    def upto(most: int, least: int = 1) -> int:
        """Return a number from `least` to `most`."""
        return int(chance.integers(least, most + 1))

    for number in range(40):
        channels, filters = (upto(12), upto(20)) if number % 8 else (upto(240, 120), upto(140, 70))
        size, window, step = (upto(20), upto(40)), (upto(5), upto(5)), (upto(4), upto(4))
        x, w = numbers(upto(2), upto(5), upto(2), channels, *size), None
        w = numbers(x.shape[0], x.shape[2], channels, filters, *window, seed=1)
        full = [(n - 1) * s + k for n, s, k in zip(size, step, window, strict=True)]
        cut = [upto(min(n - 1, 6), 0) for n in full]
        results = [upto(n - c + 2 * (number % 5 == 0)) for n, c in zip(full, cut, strict=True)]
        options = (*step, *cut, *results)
        if infinite:
            w[..., upto(window[0]) - 1, upto(window[1]) - 1] = np.inf
        got = run(x, w, options, upto(4))
        np.testing.assert_array_equal(got, run(x, w, options, 1))
        if infinite:
            wanted = slid_back_in_order(x, w, options)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
            np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
            continue
        wanted = routine_values(NAME, [x, w], options)[0]
        magnitudes = routine_values(NAME, [abs(x), abs(w)], options)[0]
        terms = channels * window[0] * window[1]
        assert (abs(got - wanted) <= UNIT * np.sqrt(terms + 4) * 2 * magnitudes).all(), (x.shape, w.shape, options)


def test_rows_whose_windows_leave_the_image() -> None:
    """Of many filters: windows wider than the image too, cut anywhere; a row of results in one part or several."""
    chance = np.random.default_rng(7)
    for _ in range(40):
        window, step = (int(chance.integers(1, 4)), int(chance.choice([1, 2, 4, 9, 30]))), int(chance.integers(1, 4))
        size = (int(chance.integers(1, 6)), int(chance.integers(1, 50)))
        x = numbers(1, 2, 1, int(chance.integers(6, 12)), *size)
        w = numbers(1, 1, x.shape[3], int(chance.choice([50, 64, 120])), *window, seed=1)
        full = [(n - 1) * step + k for n, k in zip(size, window, strict=True)]
        cut = [int(chance.integers(0, n)) for n in full]
        results = [n - c + int(chance.integers(0, 3)) for n, c in zip(full, cut, strict=True)]
        options = (step, step, *cut, *results)
        got, wanted = run(x, w, options), routine_values(NAME, [x, w], options)[0]
        magnitudes = routine_values(NAME, [abs(x), abs(w)], options)[0]
        terms = x.shape[3] * window[0] * window[1]
        assert (abs(got - wanted) <= UNIT * np.sqrt(terms + 4) * 2 * magnitudes).all(), (x.shape, w.shape, options)


@pytest.mark.parametrize(("channels", "filters", "size", "step"), [(136, 128, 3, 2), (72, 256, 4, 3), (64, 48, 2, 2)])
def test_small_images(channels: int, filters: int, size: int, step: int) -> None:
    """Several of them share tiles, and threads have filters of their own where weights are large."""
    x, w = numbers(1, 9, 1, channels, size, size), numbers(1, 1, channels, filters, 4, 4, seed=1)
    options = (step, step, 1, 1, (size - 1) * step + 2, (size - 1) * step + 2)
    got, wanted = run(x, w, options), routine_values(NAME, [x, w], options)[0]
    np.testing.assert_array_equal(got, run(x, w, options, 1))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 * abs(wanted).max())
    w[0, 0, 5, 7, 1, 2] = np.inf
    np.testing.assert_array_equal(np.isnan(run(x, w, options)), np.isnan(slid_back_in_order(x, w, options)))


def test_zeros_are_positive() -> None:
    """As in a sum that starts at 0, also where a step leaves results that no window covers."""
    x, w = -abs(numbers(1, 1, 1, 16, 9, 9)), np.zeros((1, 1, 16, 4, 2, 2), np.float32)
    got = run(x, w, (3, 3, 0, 0, 26, 26))
    assert (got == 0).all() and not np.signbit(got).any()


def count_routines(t: Tensor) -> int:
    """Return how many convolutions by a routine a tensor's schedule has."""
    return sum(isinstance(call, RoutineCall) for call in t.schedule())


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", [3, 4])
def test_methods_and_gradients(groups: int, window: int) -> None:
    """conv_transpose2d and the gradient of a strided conv2d for its image are this routine, and right."""
    x, w = numbers(2, 48 * groups, 20, 23), numbers(48 * groups, 40, window, window, seed=1)
    by_kernels: list[Array] = []
    by_routine: list[Array] = []
    for found, wanted in ((by_kernels, 0), (by_routine, 1)):
        with Context(ROUTINES=wanted):
            a, b = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
            slid = a.conv_transpose2d(b, groups=groups, stride=2, padding=1, output_padding=window % 2)
            assert count_routines(slid) == wanted
            start = Tensor(numbers(*slid.shape, seed=2))
            found += [slid.numpy(), *[slope.numpy() for slope in slid.gradient(a, b, gradient=start)]]
            c = start.detach()
            c.requires_grad = True
            strided = c.conv2d(b, groups=groups, stride=2, padding=1)
            (slope,) = strided.gradient(c, gradient=a[:, :, : strided.shape[2], : strided.shape[3]].detach())
            assert count_routines(slope) == wanted
            found.append(slope.numpy())
    for one, other in zip(by_kernels, by_routine, strict=True):
        assert abs(one - other).max() <= 1e-5 * abs(other).max()


def test_steps_of_one_slide_back_by_the_other_routine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transposed convolution in steps of 1 is a convolution of turned weights."""
    monkeypatch.setattr(convolutions, "DIRECTLY", "no routine")
    x, w = numbers(4, 96, 20, 20), numbers(96, 96, 3, 3, seed=1)
    found = Tensor(x).conv_transpose2d(Tensor(w), padding=1)
    names = [call.routine.name for call in found.schedule() if isinstance(call, RoutineCall)]
    assert names == ["convolution"]
    wide = Tensor(x.astype(np.float64)).conv_transpose2d(Tensor(w.astype(np.float64)), padding=1).numpy()
    assert abs(found.numpy() - wide).max() < 1e-6 * abs(wide).max()


def test_a_block_without_gradients_has_the_same_routine() -> None:
    """no_grad detaches each step of it; both are one routine (it was two kernels, of 8 times the time)."""
    x, w = Tensor(numbers(2, 48, 20, 23), requires_grad=True), Tensor(numbers(48, 40, 4, 4, seed=1), requires_grad=True)
    plain = x.conv_transpose2d(w, stride=2, padding=1)
    with Tensor.no_grad():
        quiet = x.conv_transpose2d(w, stride=2, padding=1)
    assert count_routines(plain) == count_routines(quiet) == 1
    assert (plain.numpy() == quiet.numpy()).all()


def test_few_products_stay_kernels() -> None:
    """Of a result; then storing is most of the work."""
    x, w = Tensor(numbers(8, 64, 28, 28)), Tensor(numbers(64, 64, 1, 1))
    assert count_routines(x.conv_transpose2d(w, stride=2)) == 0
