"""The routine of depthwise convolutions, and transposed ones: values, infinities, threads, and what is left to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from convolution_call import convolved, in_order, numbers, slid_back_in_order
from tinygraft import Context, Tensor, dtypes
from tinygraft.engine.routine_values import routine_values
from tinygraft.uop import epilogues
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import RoutineCall
from tinygraft_cpu import machine, routines

pytestmark = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]
NAME, BACK = "depthwise_convolution", "transposed_convolution"


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def run(x: Array, w: Array, options: tuple[int, ...], threads: int = 2) -> Array:
    """Return the routine's result on operands in its axes, (examples, batch, channels, 1, ...)."""
    above, below, left, right, _, *steps = options
    sizes = x.shape[4] + above + below, x.shape[5] + left + right
    results = [(size - n) // step + 1 for size, n, step in zip(sizes, w.shape[4:], steps, strict=True)]
    return convolved(NAME, x, w, options, (*x.shape[:3], 1, *results), threads)


def same_kinds(got: Array, wanted: Array) -> None:
    """Fail unless NaN and infinities are in the same places, and all else is about equal."""
    for is_so in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(is_so(got), is_so(wanted))
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", ["whole", "infinite element", "infinite weight"])
def test_values(level: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random sizes, steps, windows and padding, on each kind of processor, on one thread and more alike.

    Sums of whole numbers are exact. Turned weights have no product with what is outside of an image.
    """
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)

    def upto(most: int, least: int = 1) -> int:
        """Return a number from `least` to `most`."""
        return int(chance.integers(least, most + 1))

    for number in range(60):
        window, step = (upto(9), upto(9)), ((1, 1), (2, 2), (upto(4), upto(4)))[number % 3]
        padding = [upto(n, 0) for n in (window[0], window[0], window[1], window[1])]
        size = upto(8 if number % 4 else 40) + window[0], upto((8, 16, 30, 70)[number % 4]) + window[1]
        x = np.round(numbers(upto(2), upto(5), upto(40), 1, *size, seed=number) * 4)
        w = np.round(numbers(x.shape[0], x.shape[2], 1, 1, *window, seed=9) * 4)
        options = (*padding, number // 2 % 2, *step)
        if kind == "infinite element":
            x[:, 0, 0, 0, upto(size[0]) - 1, upto(size[1]) - 1] = np.nan
            x[:, 0, -1, 0, upto(size[0]) - 1, upto(size[1]) - 1] = np.inf
        elif kind == "infinite weight":
            w[:, -1, ..., upto(window[0]) - 1, upto(window[1]) - 1] = -np.inf
        got = run(x, w, options, upto(5))
        np.testing.assert_array_equal(got, run(x, w, options, 1))
        if kind == "whole":
            np.testing.assert_array_equal(
                got, routine_values(NAME, [x, w], options)[0], f"{x.shape} {w.shape} {options}"
            )
        else:
            same_kinds(got, in_order(x, w, options, fused=True))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("infinite", [False, True])
def test_what_slides_back(level: int, infinite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In steps, of which windows may be shorter and results more than what slides back."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)

    def upto(most: int, least: int = 1) -> int:
        """Return a number from `least` to `most`."""
        return int(chance.integers(least, most + 1))

    for number in range(60):
        window, step = (upto(9), upto(9)), ((1, 1), (2, 2), (upto(4), upto(4)))[number % 3]
        size = upto(8 if number % 4 else 40), upto((4, 8, 20, 40)[number % 4])
        x = np.round(numbers(upto(2), upto(5), upto(40), 1, *size, seed=number) * 4)
        w = np.round(numbers(x.shape[0], x.shape[2], 1, 1, *window, seed=9) * 4)
        full = [(n - 1) * s + k for n, s, k in zip(size, step, window, strict=True)]
        cut = [upto(min(n - 1, 6), 0) for n in full]
        results = [upto(n - c + 2 * (number % 5 == 0), 1) for n, c in zip(full, cut, strict=True)]
        options = (*step, *cut, *results)
        if infinite:
            w[..., upto(window[0]) - 1, upto(window[1]) - 1] = np.inf
        shape = (*x.shape[:3], 1, *results)
        got = convolved(BACK, x, w, options, shape, upto(5))
        np.testing.assert_array_equal(got, convolved(BACK, x, w, options, shape, 1))
        if infinite:
            same_kinds(got, slid_back_in_order(x, w, options))
        else:
            np.testing.assert_array_equal(
                got, routine_values(BACK, [x, w], options)[0], f"{x.shape} {w.shape} {options}"
            )


def test_bands_of_rows() -> None:
    """Of planes for which the first cache has no room."""
    for size, step in (((150, 301), 1), ((301, 203), 2), ((90, 500), 3)):
        x, w = np.round(numbers(1, 2, 3, 1, *size) * 4), np.round(numbers(1, 3, 1, 1, 8, 5) * 4)
        options = (3, 4, 2, 2, 0, step, step)
        np.testing.assert_array_equal(run(x, w, options), routine_values(NAME, [x, w], options)[0])
        options = (step, step, 3, 2, size[0] * step - 1, size[1] * step)
        shape = (1, 2, 3, 1, *options[4:])
        np.testing.assert_array_equal(convolved(BACK, x, w, options, shape), routine_values(BACK, [x, w], options)[0])


@pytest.mark.parametrize("level", [1, 2])
def test_windows_of_three(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any length, in strips of several vectors, of planes that are read once; nothing beside x is read as x."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    w = np.round(numbers(1, 5, 1, 1, 3, 3, seed=9) * 4)
    for width in (*range(5, 36), 47, 48, 49, 63, 64, 65, 66, 80, 97, 129, 131):
        step, above, below = 1 + width % 2, width % 4, width // 3 % 4
        for left, right in ((1, 1), (0, 0), (width // 2 % 4, width // 5 % 4)):
            x = np.round(numbers(1, 2, 5, 1, 90 if width > 90 else 9, width, seed=width) * 4)
            for steps, turned in (((step, step), 0), ((3 - step, 3 - step), 0), ((1, 1), 1)):
                options = (above, below, left, right, turned, *steps)
                got = run(x, w, options)
                np.testing.assert_array_equal(got, routine_values(NAME, [x, w], options)[0], f"{x.shape} {options}")
    x[0, 0, 0, 0, :, 20] = np.nan
    x[0, 1, 2, 0, 4, 0], x[0, 1, 2, 0, 7, -1] = np.inf, -np.inf
    for step in (1, 2):
        options = (1, 1, 1, 1, 0, step, step)
        same_kinds(run(x, w, options), in_order(x, w, options, fused=True))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_one_row(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any length: parts of it are rows of a tile, and what is left has its own."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    for number, width in enumerate((9, 27, 28, 29, 55, 56, 57, 63, 111, 113, 225, 448, 450, 1001, 6500)):
        x = np.round(numbers(1, 2, 5, 1, 1, width, seed=width) * 4)
        for window, step, left, right in ((3, 1, 1, 1), (9, 1, 4, 4), (2, 2, 0, 1), (5, 3, 2, 0)):
            w = np.round(numbers(1, 5, 1, 1, 1, window, seed=9) * 4)
            options = (0, 0, left, right, number % 2 if step == 1 else 0, 1 + number % 3, step)
            got = run(x, w, options)
            np.testing.assert_array_equal(got, routine_values(NAME, [x, w], options)[0], f"{x.shape} {options}")


def test_zeros_are_positive() -> None:
    """As in a sum that starts at 0."""
    got = run(-abs(numbers(1, 1, 16, 1, 9, 9)), np.zeros((1, 16, 1, 1, 3, 2), np.float32), (1, 1, 1, 1, 0, 2, 1))
    assert (got == 0).all() and not np.signbit(got).any()


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", ["rows", "lanes", "copies", "an infinite weight"])
def test_epilogues(level: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has the bits of that op on stored results, whichever way those are computed, in bands of rows too."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)
    strange = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    for number in range(8):
        size = (7, 6) if kind == "lanes" else (number * 20 + 9, number * 20 + 21)
        x = numbers(2, 2, 18 if kind == "lanes" else 3, 1, *size, seed=number)
        window = (3, 3) if kind == "rows" else (5, 4)
        w = numbers(2, x.shape[2], 1, 1, *window, seed=9)
        if kind == "an infinite weight":
            w[:, 1, ..., 2, 1] = np.inf
        options = (1, 2, 1, 1, number // 2 % 2, 1 + number % 2, 1 + number % 2)
        plain = run(x, w, options)
        wanted, steps, others = plain, [], []
        for _ in range(int(chance.integers(1, 7))):
            op, of = epilogues.OPS[int(chance.integers(4))], epilogues.StepOperand(int(chance.integers(3)))
            shape = ((), plain.shape[:1] + plain.shape[2:4], plain.shape)[of]
            other = np.where(
                chance.random(shape) < 0.1, chance.choice(strange, shape), numbers(*shape, seed=len(steps))
            )
            other = np.asarray(other, np.float32)
            steps.append(epilogues.EpilogueStep(op, of, int(other.view(np.uint32)) if of == 0 else 0))
            others += [other] if of else []
            other = other[:, None, :, :, None, None] if of == 1 else other
            with np.errstate(all="ignore"):
                if op is Ops.MAX:
                    wanted = np.where((other > wanted) | np.isnan(other), other, wanted)
                else:
                    wanted = {Ops.ADD: np.add, Ops.SUB: np.subtract, Ops.MUL: np.multiply}[op](wanted, other)
        options = (*options, *epilogues.to_options(steps))
        for threads in (1, 3):
            got = convolved(NAME, x, w, options, plain.shape, threads, others)
            np.testing.assert_array_equal(got, wanted)
            there = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(got)[there], np.signbit(wanted)[there])


def names(t: Tensor) -> list[str]:
    """Return the routines of a tensor's schedule."""
    return [call.routine.name for call in t.schedule() if isinstance(call, RoutineCall)]


@pytest.mark.parametrize(
    ("size", "window", "step", "padding", "multiple"),
    [
        ((7, 7), (7, 7), (1, 1), (3, 3), 1), ((6, 5), (5, 5), (2, 2), (2, 1), 1),
        ((45, 41), (5, 5), (1, 1), (0, 2), 1), ((29, 57), (3, 3), (2, 2), (1, 1), 1),
        ((30, 31), (5, 4), (2, 3), (2, 0), 1), ((23, 40), (3, 3), (1, 1), (1, 1), 1),
        ((40, 41), (3, 5), (1, 1), (2, 4), 2),
    ],
)  # fmt: skip
def test_methods_beside_torch(
    size: tuple[int, int], window: tuple[int, int], step: tuple[int, int], padding: tuple[int, int], multiple: int
) -> None:
    """conv2d and both gradients, and the transposed one, with NaN and infinities at a border; also two filters each."""
    torch = pytest.importorskip("torch")
    x, w = numbers(3, 19, *size), numbers(19 * multiple, 1, *window, seed=1)
    x[0, 0, 0, :2], x[1, 2, -1, -1] = (np.nan, np.inf), -np.inf
    a, b = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    c, d = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    found = a.conv2d(b, groups=19, stride=step, padding=padding)
    wanted = torch.nn.functional.conv2d(c, d, groups=19, stride=step, padding=padding)
    same_kinds(found.numpy(), wanted.detach().numpy())
    start = numbers(*wanted.shape, seed=2)
    for got, other in zip(
        found.gradient(a, b, gradient=Tensor(start)),
        torch.autograd.grad(wanted, (c, d), torch.tensor(start)),
        strict=True,
    ):
        same_kinds(got.numpy(), other.numpy())
    turned = Tensor(np.nan_to_num(x, posinf=1, neginf=1)), numbers(19, 1, *window, seed=1)
    slid = turned[0].conv_transpose2d(Tensor(turned[1]), groups=19, stride=step)
    other = torch.nn.functional.conv_transpose2d(
        torch.tensor(turned[0].numpy()), torch.tensor(turned[1]), groups=19, stride=step
    )
    same_kinds(slid.numpy(), other.numpy())


def test_windows_of_three_that_are_this_routine() -> None:
    """Where results are memory, or its epilogue does what follows, and rows are not short; else kernels do both."""
    w = Tensor(numbers(32, 1, 3, 3))
    for size, wanted in ((40, [NAME]), (14, [])):
        found = Tensor(numbers(2, 32, size, size)).conv2d(w, groups=32, padding=1)
        assert names(found) == wanted
        assert names(found.relu()) == wanted
        assert names(found.exp()) == []


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "length", "window", "step", "padding"),
    [
        (64, 64, 1, 500, 3, 1, 1), (20, 20, 20, 333, 9, 1, 4), (20, 20, 20, 999, 4, 2, 3), (33, 47, 1, 800, 7, 2, 0),
        (24, 48, 3, 900, 5, 1, 2), (20, 40, 20, 333, 5, 1, 2),
    ],
)  # fmt: skip
def test_one_spatial_axis(
    channels: int, filters: int, groups: int, length: int, window: int, step: int, padding: int
) -> None:
    """conv1d with bias and relu, and its gradients, whichever of routines and kernels computes them."""
    torch = pytest.importorskip("torch")
    x, w, b = (
        numbers(2, channels, length),
        numbers(filters, channels // groups, window, seed=1),
        numbers(filters, seed=2),
    )
    ours = [Tensor(one, requires_grad=True) for one in (x, w, b)]
    theirs = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in (x, w, b)]
    found = ours[0].conv1d(*ours[1:], stride=step, padding=padding, groups=groups).relu()
    wanted = torch.nn.functional.conv1d(*theirs, stride=step, padding=padding, groups=groups).relu()
    if machine.vector_bytes() == 32 and filters < 40:
        assert names(found) == [NAME]
    start = numbers(*wanted.shape, seed=3)
    slopes = found.gradient(*ours, gradient=Tensor(start))
    others = torch.autograd.grad(wanted, theirs, torch.tensor(start).double())
    for got, other in zip((found, *slopes), (wanted, *others), strict=True):
        np.testing.assert_allclose(got.numpy(), other.detach().numpy(), 1e-4, 1e-4 * float(abs(other.detach()).max()))


def test_which_are_this_routine() -> None:
    """Of float32; others, and those that few operations follow, are kernels."""
    x, w = Tensor(numbers(2, 32, 2, 2)), Tensor(numbers(32, 1, 5, 5))
    assert names(x.conv2d(w, groups=32, padding=2)) == [NAME]
    assert names(x.conv2d(w, groups=32, padding=4, dilation=2)) == []
    for dtype in (dtypes.float64, dtypes.bfloat16):
        assert names(x.cast(dtype).conv2d(w.cast(dtype), groups=32, padding=2)) == []
    with Context(ROUTINES=0):
        assert names(x.conv2d(w, groups=32, padding=2)) == []
