"""Many Python numbers in one graph: a few compilations, however many there are and whichever of them are equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from general_road import plans_made, without_plans
from tinygraft import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import postorder

R = np.random.default_rng(0)
ROWS = R.standard_normal((40, 6)).astype(np.float32)
IMAGES = R.standard_normal((16, 2, 12, 12)).astype(np.float32)
PLANE = R.standard_normal((32, 32)).astype(np.float32)
CALLS, LEARNT = 12, 4  # calls with other numbers, and how many of them may compile


class Held:
    """Values in memory, made once on the device of the tests."""

    rows: Tensor
    images: Tensor
    plane: Tensor


H = Held()


@pytest.fixture(autouse=True)
def held():
    """The tests start without plans, on the PYTHON device."""
    with without_plans():
        H.rows, H.images, H.plane = Tensor(ROWS).realize(), Tensor(IMAGES).realize(), Tensor(PLANE).realize()
        yield
        vars(H).clear()


@pytest.fixture
def made(monkeypatch):
    """An element for each plan that is made."""
    return plans_made(monkeypatch)


Both = tuple[Tensor, np.ndarray]


def rows(rng: np.random.Generator) -> Both:
    """A batch of rows, with repeats."""
    at = rng.integers(0, 40, 32)
    return Tensor.stack(*[H.rows[int(i)] for i in at]), ROWS[at]


def sum_of_rows(rng: np.random.Generator) -> Both:
    """A sum that Python adds."""
    at = rng.integers(0, 40, 32)
    return sum([H.rows[int(i)] for i in at[1:]], H.rows[int(at[0])]), sum([ROWS[i] for i in at[1:]], ROWS[at[0]])


def computed_rows(rng: np.random.Generator) -> Both:
    """Operations on rows, some of which are equal and so one node."""
    at = rng.integers(0, 6, 5)
    wanted = np.stack([ROWS[i] * np.float32(2) + np.float32(1) for i in at])
    return Tensor.stack(*[H.rows[int(i)] * 2 + 1 for i in at]), wanted


def picks_summed(rng: np.random.Generator) -> Both:
    """One element of each computed row, summed, as log-probabilities of actions are."""
    at = rng.integers(0, 6, 16)
    wanted = np.float32(0)
    for row, i in enumerate(at):
        wanted += ROWS[row, i] * np.float32(2)
    return Tensor.stack(*[(H.rows * 2)[row, int(i)] for row, i in enumerate(at)]).sum(), wanted


def crops(rng: np.random.Generator) -> Both:
    """Crops of a batch of images."""
    at = rng.integers(0, 5, (16, 2))
    found = [H.images[k, :, int(y) : int(y) + 8, int(x) : int(x) + 8] for k, (y, x) in enumerate(at)]
    return Tensor.stack(*found), np.stack([IMAGES[k, :, y : y + 8, x : x + 8] for k, (y, x) in enumerate(at)])


def writes(rng: np.random.Generator) -> Both:
    """Parts of rows set to 0."""
    at, y, wanted = rng.integers(0, 24, (32, 2)), H.plane.clone(), PLANE.copy()
    for i, j in at:
        y[int(i), int(j) : int(j) + 8] = 0
        wanted[i, j : j + 8] = 0
    return y, wanted


def elements_written(rng: np.random.Generator) -> Both:
    """Single elements set to 1."""
    at, y, wanted = rng.integers(0, 32, (16, 2)), H.plane.clone(), PLANE.copy()
    for i, j in at:
        y[int(i), int(j)] = 1
        wanted[i, j] = 1
    return y, wanted


def rows_copied(rng: np.random.Generator) -> Both:
    """Rows of one tensor written to rows of another, some of them twice."""
    at, y, wanted = rng.integers(0, 32, (16, 2)), H.plane.clone(), PLANE.copy()
    for i, j in at:
        y[int(i), :6] = H.rows[int(j)]
        wanted[i, :6] = ROWS[j]
    return y, wanted


def gradient_of_picks(rng: np.random.Generator) -> Both:
    """The gradient of a sum of log-probabilities: what surrounds each begins where its slice did."""
    at = rng.integers(0, 6, 6)
    t = Tensor(ROWS[:6] + np.float32(rng.integers(5)), requires_grad=True).realize()
    computed = t * 2
    Tensor.stack(*[computed[k, int(i)] for k, i in enumerate(at)]).sum().backward()
    assert t.grad is not None
    return t.grad, np.eye(6, dtype=np.float32)[at] * 2


@pytest.mark.parametrize(
    "case",
    [rows, sum_of_rows, computed_rows, picks_summed, crops, writes, elements_written, rows_copied, gradient_of_picks],
)
def test_a_few_compilations(case: Callable[[np.random.Generator], Both], made):
    """Random numbers compile in a few calls at most, the last of them in none; each value has NumPy's bits."""
    rng = np.random.default_rng(1)
    compiled = []
    for _ in range(CALLS):
        del made[:]
        found, wanted = case(rng)
        np.testing.assert_array_equal(found.numpy(), wanted)
        compiled.append(bool(made))
    assert sum(compiled) <= LEARNT
    assert not any(compiled[-4:])


def test_a_pick_that_is_used_twice_stays_one(made):
    """What a program reads once and uses several times is one argument of a kernel, and takes the shortcut."""
    for i in range(12):
        row = H.rows[i]
        np.testing.assert_array_equal((row * row + row).numpy(), ROWS[i] * ROWS[i] + ROWS[i])
    assert len(made) == 2
    lifted = made[-1][0]
    assert sum(node.op is Ops.SHRINK for node in postorder(lifted)) == 1


def test_the_padding_of_a_convolution_stays(made):
    """A routine or a kernel for convolutions is made for its padding."""
    weights = Tensor(IMAGES[:4, :, :3, :3]).realize()
    for before in range(3):
        padded = H.images[:2].pad(((0, 0), (0, 0), (before, 2 - before), (1, 1)))
        found = padded.conv2d(weights).numpy()
        wanted = np.pad(IMAGES[:2], ((0, 0), (0, 0), (before, 2 - before), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(wanted, (3, 3), (2, 3))
        np.testing.assert_allclose(found, np.einsum("bcyxhw,fchw->bfyx", windows, IMAGES[:4, :, :3, :3]), atol=1e-5)
    assert not any(node.op is Ops.BIND for outputs in made for node in postorder(*outputs))
