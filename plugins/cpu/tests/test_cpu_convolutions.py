"""The routine of convolutions: its values beside exact sums, what no fast algorithm may get wrong, and its replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from convolution_call import convolved, numbers
from tinygraft import Context, Tensor, TinyJit
from tinygraft.engine.routine_values import routine_values
from tinygraft.errors import SettingError
from tinygraft.schedule import convolutions
from tinygraft_cpu import routines

pytestmark = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]
UNIT = 2.0**-24  # half a unit in the last place of float32, relative


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All of this runs on the CPU, by this routine also where that of all products (test_cpu_direct.py) is faster."""
    monkeypatch.setattr(convolutions, "DIRECTLY", "no routine")
    with Context(DEV="CPU"):
        yield


def run(x: Array, w: Array, options: tuple[int, ...], threads: int = 2) -> Array:
    """Return the routine's result on operands in its axes, (examples, batch, groups, ...)."""
    above, below, left, right, turned, _ = options
    window, filters = w.shape[-1], w.shape[3 if turned else 2]
    shape = (*x.shape[:3], filters, x.shape[4] + above + below - window + 1, x.shape[5] + left + right - window + 1)
    return convolved("convolution", x, w, options, shape, threads)


def exact(x: Array, w: Array, options: tuple[int, ...]) -> Array:
    """Return the sums in float64."""
    return routine_values("convolution", [x, w], options)[0]


def direct(x: Array, w: Array, padding: tuple[int, ...]) -> Array:
    """Return the sums in float32, one product after another: what the routine is not to be less exact than."""
    above, below, left, right = padding
    x = np.pad(x, [(0, 0)] * 4 + [(above, below), (left, right)])
    window = w.shape[-1]
    rows, columns = x.shape[4] - window + 1, x.shape[5] - window + 1
    total = np.zeros((*x.shape[:3], w.shape[2], rows, columns), np.float32)
    for c, i, j in np.ndindex(x.shape[3], window, window):
        part = x[:, :, :, None, c, i : i + rows, j : j + columns]
        product = part.astype(np.float64) * w[:, None, :, :, c, i, j, None, None]
        total = (total.astype(np.float64) + product).astype(np.float32)  # a fused multiply and add
    return total


SIZES = [
    ((1, 1, 1, 1, 3, 3), 1, (0, 0, 0, 0)),
    ((1, 2, 1, 5, 7, 9), 7, (1, 1, 1, 1)),
    ((2, 3, 2, 6, 13, 6), 9, (0, 1, 2, 0)),
    ((1, 1, 1, 70, 5, 131), 17, (2, 2, 2, 2)),
    ((1, 9, 1, 3, 4, 4), 33, (0, 0, 1, 2)),
    ((1, 1, 3, 8, 41, 3), 5, (4, 3, 5, 4)),
]


@pytest.mark.parametrize("window", [3, 5])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("fast", [0, 1])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_values(window: int, turned: int, fast: int, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of odd sizes, groups, padding on some sides, and more than a window's, on each kind of processor."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    for number, (size, filters, padding) in enumerate(SIZES):
        if window == 5:
            padding = tuple(n + 1 for n in padding)
        x = numbers(*size, seed=number)
        w = numbers(size[0], size[2], *((size[3], filters) if turned else (filters, size[3])), window, window, seed=9)
        options = (*padding, turned, fast)
        got, wanted = run(x, w, options), exact(x, w, options)
        magnitudes = exact(abs(x), abs(w), options)
        # half a unit of rounding, and for `fast` as many as the transforms multiply errors
        bound = UNIT * (abs(wanted) + 1e-6 * magnitudes) if not fast else 64 * window * UNIT * magnitudes.max()
        assert (abs(got - wanted) <= bound).all(), (size, filters, padding)


@pytest.mark.parametrize(
    "kind", ["normal", "uniform", "scales", "one huge", "cancelling", "whole", "sparse", "tiny", "huge"]
)
def test_no_sum_is_less_exact_than_a_direct_one(kind: str) -> None:
    """In its greatest and its mean error, against float64, also where magnitudes are far apart or sums cancel."""
    chance = np.random.default_rng(3)
    x, w = numbers(1, 2, 1, 24, 18, 18, seed=1), numbers(1, 1, 16, 24, 3, 3, seed=2)
    if kind == "uniform":
        x, w = abs(x), abs(w)
    elif kind == "scales":
        x = x * np.exp2(chance.integers(-60, 60, x.shape)).astype(np.float32)
    elif kind == "one huge":
        x[..., 7, 7], w[..., 1, 1] = 1e30, 0
    elif kind == "cancelling":
        x[:, :, :, 1::2], w[:, :, :, 1::2] = x[:, :, :, ::2], -w[:, :, :, ::2]
    elif kind == "whole":
        x, w = np.round(x * 4), np.round(w * 4)
    elif kind == "sparse":
        x = x * (chance.random(x.shape) < 0.02)
    elif kind == "tiny":
        x, w = x * np.float32(1e-22), w * np.float32(1e-21)
    elif kind == "huge":
        x, w = x * np.float32(3e18), w * np.float32(1e18)
    x, w = x.astype(np.float32), w.astype(np.float32)
    options = (1, 1, 1, 1, 0, 0)
    wanted = exact(x, w, options)
    got, plain = abs(run(x, w, options) - wanted), abs(direct(x, w, options[:4]) - wanted)
    assert got.max() <= plain.max()
    assert np.sqrt((got**2).mean()) <= np.sqrt((plain**2).mean())
    # and each by itself, where the direct sum cannot be right by chance
    magnitudes = exact(abs(x), abs(w), options)
    least = 2.0**-150  # half of the smallest number that there is
    assert (got <= UNIT * abs(wanted) + 24 * 9 * UNIT * magnitudes + least).all()


def test_infinities_and_nan_are_those_of_the_sum() -> None:
    """They reach the results whose windows have them, and no others; opposite infinities make NaN."""
    x, w = numbers(1, 1, 1, 16, 20, 20), abs(numbers(1, 1, 8, 16, 3, 3)) + 1
    x[0, 0, 0, 3, 5, 5], x[0, 0, 0, 2, 12, 4] = np.inf, np.nan
    x[0, 0, 0, 1, 15, 15], x[0, 0, 0, 1, 15, 16] = np.inf, -np.inf
    options = (1, 1, 1, 1, 0, 0)
    got, wanted = run(x, w, options), exact(x, w, options)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    assert np.isnan(got).sum() == 8 * (9 + 6)


@pytest.mark.parametrize("taps", [3, 5])
@pytest.mark.parametrize("turned", [0, 1])
def test_infinite_weights_are_multiplied_with_zeros_around_an_image(turned: int, taps: int) -> None:
    """NaN there, as by kernels and by the direct routine; turned weights have no products there. VALIDATE=1 agrees."""
    x, w = numbers(1, 2, 1, 16, 12, 12), numbers(1, 1, 16, 16, taps, taps)
    w[0, 0, 3, 2, 0, 1] = np.inf
    options = (*[taps // 2] * 4, turned, 0)
    got, wanted = run(x, w, options), routine_values("convolution", [x, w], options)[0]
    assert np.isinf(got).any() and np.isnan(got).any() != turned
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))
    direct_ = convolved("direct_convolution", x, w, (*options[:5], 1, 1), got.shape)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(direct_))


def test_zeros_are_positive() -> None:
    """As in a sum that starts at 0."""
    got = run(-abs(numbers(1, 1, 1, 16, 9, 9)), np.zeros((1, 1, 4, 16, 3, 3), np.float32), (1, 1, 1, 1, 0, 0))
    assert (got == 0).all() and not np.signbit(got).any()


@pytest.mark.parametrize("fast", [0, 1])
def test_any_number_of_threads_gives_the_same_bits(fast: int) -> None:
    """Also where threads divide filters, as there is one block of tiles."""
    for size, filters in (((1, 5, 1, 40, 19, 23), 50), ((1, 1, 1, 33, 9, 9), 70)):
        x, w = numbers(*size), numbers(1, 1, filters, size[3], 3, 3, seed=1)
        first = run(x, w, (1, 1, 1, 1, 0, fast), 1)
        for threads in (2, 3, 7):
            np.testing.assert_array_equal(run(x, w, (1, 1, 1, 1, 0, fast), threads), first)


def count_routines(t: Tensor) -> int:
    """Return how many convolutions by the routine a tensor's schedule has."""
    return sum(getattr(call, "routine", None) is not None for call in t.schedule())


@pytest.mark.parametrize("window", [3, 5])
@pytest.mark.parametrize("groups", [1, 2])
def test_methods_and_gradients(window: int, groups: int) -> None:
    """conv2d and both of its gradients are right in float64's eyes; the image's gradient is a routine too."""
    x, w = numbers(4, 96 * groups, 21, 24), numbers(96 * groups, 96, window, window, seed=1)
    start = numbers(4, 96 * groups, 23 - window + 1, 28 - window + 1, seed=2)
    a, b = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    found = a.conv2d(b, groups=groups, padding=(2, 2, 1, 1))
    assert count_routines(found) == 1
    slopes = found.gradient(a, b, gradient=Tensor(start))
    assert count_routines(slopes[0]) == 1
    wide = [Tensor(value.astype(np.float64), requires_grad=True) for value in (x, w)]
    true = wide[0].conv2d(wide[1], groups=groups, padding=(2, 2, 1, 1))
    true_slopes = true.gradient(*wide, gradient=Tensor(start.astype(np.float64)))
    for got, wanted, least in (
        (found, true, 1e-6),
        (slopes[0], true_slopes[0], 1e-6),
        (slopes[1], true_slopes[1], 1e-5),
    ):
        assert abs(got.numpy() - wanted.numpy()).max() < least * abs(wanted.numpy()).max()


@pytest.mark.parametrize("number", [0, 1])
def test_gradients_by_differences(number: int) -> None:
    """Of the sum of squares of the result along a direction of an operand: a quadratic, whose differences are exact."""
    given = [numbers(2, 96, 20, 20), numbers(96, 96, 3, 3, seed=1)]
    along = given[number] * numbers(*given[number].shape, seed=2) ** 2

    def value(step: float) -> float:
        """Return that sum, added up by NumPy in float64, `step` along the direction."""
        moved = [(x + step * along).astype(np.float32) if i == number else x for i, x in enumerate(given)]
        found = Tensor(moved[0]).conv2d(Tensor(moved[1]), padding=1)
        assert count_routines(found) == 1
        return float((found.numpy().astype(np.float64) ** 2).sum())

    operands = [Tensor(x, requires_grad=True) for x in given]
    (operands[0].conv2d(operands[1], padding=1) ** 2).sum().backward()
    slope = operands[number].grad
    assert slope is not None
    expected = float((slope.numpy().astype(np.float64) * along).sum())
    assert abs(value(0.5) - value(-0.5) - expected) < 1e-5 * abs(expected)


def test_a_replay_sees_weights_that_were_written() -> None:
    """A weight that changes between replays, by assign and by a step of its own, is transformed anew."""
    x, w = Tensor(numbers(2, 96, 20, 20)).realize(), Tensor(numbers(96, 96, 3, 3, seed=1)).realize()

    @TinyJit
    def step(image: Tensor) -> Tensor:
        return image.conv2d(w, padding=1).realize()

    for number in range(6):
        w.assign(Tensor(numbers(96, 96, 3, 3, seed=number))).realize()
        w += 0.5
        got = step(x).numpy()
        wanted = exact(x.numpy()[None, :, None], w.numpy()[None, None], (1, 1, 1, 1, 0, 0))[0, :, 0]
        assert abs(got - wanted).max() < 1e-6 * abs(wanted).max(), number


def test_precision_is_part_of_plans_and_captures() -> None:
    """A function that was planned or captured with one precision is not replayed with the other."""
    x, w = Tensor(numbers(2, 96, 20, 20)).realize(), Tensor(numbers(96, 96, 3, 3, seed=1)).realize()
    step = TinyJit(lambda image: image.conv2d(w, padding=1).realize())
    with Context(ROUTINES=0):
        kernels = x.conv2d(w, padding=1).numpy()
    found: dict[str, list[Array]] = {"": [], "fast": []}
    for _ in range(3):
        for precision, results in found.items():
            with Context(PRECISION=precision):
                results += [x.conv2d(w, padding=1).numpy(), step(x).numpy()]
    for results in found.values():
        assert all(np.array_equal(results[0], other) for other in results)
    assert not np.array_equal(found[""][0], found["fast"][0])
    assert not np.array_equal(found[""][0], kernels)
    assert abs(found[""][0] - kernels).max() < 1e-5 * abs(kernels).max()


def test_an_unknown_precision_is_an_error() -> None:
    """It is said what there is."""
    with pytest.raises(SettingError, match="PRECISION must be 'fast' or empty, got 'high'"), Context(PRECISION="high"):
        pass
