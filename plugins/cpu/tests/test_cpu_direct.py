"""The routine of direct convolutions: its values beside sums one after another, infinities, threads, its schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from convolution_call import convolved, in_order, numbers
from tinygraft import Context, Tensor, TinyJit
from tinygraft.engine.routine_values import routine_values
from tinygraft.uop import epilogues
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import RoutineCall
from tinygraft_cpu import machine, routine_sources, routines

pytestmark = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]
NAME = "direct_convolution"


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def run(x: Array, w: Array, options: tuple[int, ...], threads: int = 2) -> Array:
    """Return the routine's result on operands in its axes, (examples, batch, groups, ...)."""
    above, below, left, right, turned, *steps = options
    sizes = x.shape[4] + above + below, x.shape[5] + left + right
    results = [(size - n) // step + 1 for size, n, step in zip(sizes, w.shape[4:], steps, strict=True)]
    shape = (*x.shape[:3], w.shape[3 if turned else 2], *results)
    return convolved(NAME, x, w, options, shape, threads)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", ["normal", "infinite", "whole"])
def test_values(level: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random sizes, steps, windows, padding and groups, on each kind of processor, on one thread and more alike.

    Sums of whole numbers are exact. An infinite element makes infinities where it is, and NaN times a 0.
    """
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)

    def upto(most: int, least: int = 1) -> int:
        """Return a number from `least` to `most`."""
        return int(chance.integers(least, most + 1))

    for number in range(24):
        channels, filters = (upto(12), upto(90)) if number % 12 else (upto(240, 120), upto(140, 70))
        window, step = (upto(7 if number % 3 else 1), upto(7 if number % 3 else 1)), (upto(4), upto(4))
        padding = [upto(n, 0) for n in (window[0], window[0], window[1], window[1])]
        size = upto(20) + window[0], upto(30) + window[1]
        turned = number % 2
        x = numbers(upto(2), upto(9), upto(2), channels, *size, seed=number)
        w = numbers(x.shape[0], x.shape[2], *((channels, filters) if turned else (filters, channels)), *window, seed=9)
        options = (*padding, turned, *step)
        if kind == "infinite":
            w[..., upto(window[0]) - 1, upto(window[1]) - 1] = np.inf
            x[:, 0, 0, 0, upto(size[0]) - 1, upto(size[1]) - 1] = np.nan
        elif kind == "whole":
            x, w = np.round(x * 4), np.round(w * 4)
        got = run(x, w, options, upto(4))
        np.testing.assert_array_equal(got, run(x, w, options, 1))
        if kind == "infinite":
            plain = in_order(x, w, options, fused=True)
            for is_so in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(is_so(got), is_so(plain))
            np.testing.assert_allclose(got, plain, 1e-4, 1e-4)
            continue
        wanted = routine_values(NAME, [x, w], options)[0]
        if kind == "whole":
            np.testing.assert_array_equal(got, wanted)
            continue
        plain = in_order(x, w, options, fused=level > 0 or not machine.is_x86())
        assert abs(got - wanted).max() <= abs(plain - wanted).max(), (x.shape, w.shape, options)


def test_many_rows_and_images() -> None:
    """Of which the second cache has room for a part: bands of rows, or blocks of images."""
    for shape, weights, step in (
        ((1, 1, 1, 5, 300, 301), (1, 1, 70, 5, 7, 7), 2),
        ((1, 37, 1, 80, 9, 8), (1, 1, 20, 80, 3, 3), 1),
    ):
        x, w = np.round(numbers(*shape) * 4), np.round(numbers(*weights) * 4)
        options = (3, 2, 1, 2, 0, step, step)
        for threads in (1, 2, 3, 7):
            np.testing.assert_array_equal(run(x, w, options, threads), routine_values(NAME, [x, w], options)[0])


def test_zeros_are_positive() -> None:
    """As in a sum that starts at 0."""
    got = run(-abs(numbers(1, 1, 1, 16, 9, 9)), np.zeros((1, 1, 4, 16, 3, 2), np.float32), (1, 1, 1, 1, 0, 2, 1))
    assert (got == 0).all() and not np.signbit(got).any()


def names(t: Tensor) -> list[str]:
    """Return the routines of a tensor's schedule."""
    return [call.routine.name for call in t.schedule() if isinstance(call, RoutineCall)]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("window", "step"), [(3, 1), (3, 2), (4, 1)])
def test_methods_and_gradients(groups: int, window: int, step: int) -> None:
    """conv2d and the gradient in steps of 1 for its image are this routine where the CPU has it, and right.

    Of such small windows only in longer steps where a core multiplies one vector in a cycle.
    """
    if NAME not in routine_sources.sources() or (machine.multipliers() == 1 and step == 1):
        pytest.skip("not on this processor")
    x, w = numbers(4, 64 * groups, 20 * step, 23 * step), numbers(64 * groups, 64, window, window, seed=1)
    by_kernels: list[Array] = []
    by_routine: list[Array] = []
    for found, wanted in ((by_kernels, 0), (by_routine, 1)):
        with Context(ROUTINES=wanted):
            a, b = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
            slid = a.conv2d(b, groups=groups, stride=step, padding=1)
            assert names(slid) == [NAME] * wanted
            slope, other = slid.gradient(a, b, gradient=Tensor(numbers(*slid.shape, seed=2)))
            if step == 1:
                assert names(slope) == [NAME] * wanted
            found += [slid.numpy(), slope.numpy(), other.numpy()]
    for one, other in zip(by_kernels, by_routine, strict=True):
        assert abs(one - other).max() <= 1e-5 * abs(other).max()


def test_which_processors_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are known to multiply a vector in each cycle, or two."""
    routine_sources.sources.cache_clear()
    try:
        for count, wanted in ((2, True), (1, True), (0, False)):
            monkeypatch.setattr(machine, "multipliers", lambda count=count: count)
            assert (NAME in routine_sources.sources()) is wanted
            routine_sources.sources.cache_clear()
    finally:
        monkeypatch.undo()
        routine_sources.sources.cache_clear()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_epilogues(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has the bits of that op on stored results: of random sizes, NaN, infinities and zeros of both signs."""
    monkeypatch.setattr(routines, "PROCESSOR", level)
    chance = np.random.default_rng(level)
    strange = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    for number in range(24):
        filters, turned = int(chance.integers(1, 90)), number % 2
        x = numbers(2, *chance.integers(1, 5, 3), *chance.integers(3, 14, 2), seed=number)
        channels = (x.shape[3], filters) if turned else (filters, x.shape[3])
        w = numbers(2, x.shape[2], *channels, 3, 2, seed=9)
        if number % 4 == 3:
            w[0, 0, 0, 0] = np.inf
        options = (1, 2, 0, 1, turned, *map(int, chance.integers(1, 3, 2)))
        plain = run(x, w, options)
        wanted, steps, others = plain, [], []
        for _ in range(int(chance.integers(1, 7))):
            op, kind = epilogues.OPS[int(chance.integers(4))], epilogues.StepOperand(int(chance.integers(3)))
            shape = ((), (2, *plain.shape[2:4]), plain.shape)[kind]
            other = np.where(
                chance.random(shape) < 0.1, chance.choice(strange, shape), numbers(*shape, seed=len(steps))
            )
            other = np.asarray(other, np.float32)
            steps.append(epilogues.EpilogueStep(op, kind, int(other.view(np.uint32)) if kind == 0 else 0))
            others += [other] if kind else []
            other = other[:, None, :, :, None, None] if kind == 1 else other
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


def test_a_block_of_a_network() -> None:
    """Batch norm, what goes around and relu give the bits that they give as kernels, in replays too."""
    x, w = Tensor(numbers(3, 40, 27, 29)).realize(), Tensor(numbers(40, 40, 3, 3, seed=1)).realize()
    scale, shift = (Tensor(numbers(40, 1, 1, seed=n)).realize() for n in (2, 3))

    def block(x: Tensor) -> Tensor:
        """Return a block's results."""
        return ((x.conv2d(w, padding=1) - shift) * scale + shift + x).relu().realize()

    replayed = TinyJit(block)
    with Context(DEBUG=0):
        stored = x.conv2d(w, padding=1).realize()
        wanted = ((stored - shift) * scale + shift + x).relu().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(replayed(x).numpy(), wanted)
    with Context(VALIDATE=1):
        block(x)
