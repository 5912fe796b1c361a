"""Lazy values that results are computed from again and again: the third time they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from general_road import plans_made
from tinygraft import GlobalCounters, Tensor, TinyJit, Variable
from tinygraft.engine import computed_again, plan

R = np.random.default_rng(5)
ROWS = R.standard_normal((60, 40)).astype(np.float32)
MATRIX = R.standard_normal((40, 40)).astype(np.float32)


@pytest.fixture(autouse=True)
def nothing_known():
    """No plan, no shortcut and no count of an earlier test."""
    plan.clear()
    computed_again.clear()


def kernels(call) -> int:
    """How many kernels a call launches."""
    before = GlobalCounters.kernel_count
    call()
    return GlobalCounters.kernel_count - before


def test_a_state_that_is_read_in_each_step_is_no_longer_computed_from_its_start(monkeypatch):
    """A running mean: its graphs stay short, so that a few plans serve all steps."""
    rows = [Tensor(row).realize() for row in ROWS]
    state, expected = Tensor(ROWS[0]).realize(), ROWS[0].astype(np.float64)
    found, made = plans_made(monkeypatch), []
    for number, row in enumerate(rows):
        before = len(found)
        state = 0.9 * state + row
        expected = 0.9 * expected + ROWS[number]
        assert state.sum().item() == pytest.approx(expected.sum(), abs=1e-3)
        made.append(len(found) - before)
    assert sum(made[:12]) > 0 == sum(made[12:])
    np.testing.assert_allclose(state.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_features_of_several_results_are_computed_three_times_at_most():
    """Of fifteen results the first three have kernels for the product, the others read it."""
    columns = R.standard_normal((15, 128)).astype(np.float32)
    wide = R.standard_normal((2, 128, 128)).astype(np.float32)
    x, w = (Tensor(value).realize() for value in wide)
    features = (x @ w).tanh()
    expected = np.tanh(wide[0].astype(np.float64) @ wide[1])
    counts = []
    for values in columns:
        column = Tensor(values).realize()
        result = (features @ column).sum()
        counts.append(kernels(result.realize))
        assert result.item() == pytest.approx((expected @ values).sum(), rel=1e-4, abs=1e-2)
    assert counts[0] == counts[1] > counts[3] == counts[-1] == 1
    assert kernels(features.realize) == 0


def test_a_value_that_is_computed_twice_stays_lazy():
    """A loss that is printed, and its gradient: no step of a usual loop stores more than before."""
    w = Tensor(MATRIX, requires_grad=True)
    for number in range(4):
        out = Tensor(ROWS * number).realize() @ w
        loss = out.square().mean()
        loss.item()
        loss.backward()
        w.grad.realize()
        assert kernels(out.realize) > 0
        w.grad = None


@pytest.mark.parametrize("reads", [1, 5])
def test_gradients_pass_through_what_was_stored(reads):
    """A recurrent state whose every step is read, beside one that nothing reads."""

    def gradients(count: int) -> list[np.ndarray]:
        x, w, u = (Tensor(value, requires_grad=True) for value in (ROWS[:8], MATRIX / 8, MATRIX.T / 9))
        state, losses = Tensor.zeros(40), []
        for step in range(8):
            state = (x[step] @ w + state @ u).tanh()
            losses.append((state * (step + 1)).sum())
            for _ in range(count):
                (state.square().sum() + step).item()
        Tensor.stack(*losses).sum().backward()
        return [each.grad.numpy() for each in (x, w, u)]

    for mine, plain in zip(gradients(reads), gradients(0), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=2e-4, atol=1e-5)


def test_no_value_is_stored_that_is_greater_than_what_it_is_computed_from():
    """All distances of two sets of points may not fit into memory."""
    a, b = Tensor(ROWS[:, 0]).realize(), Tensor(ROWS[:, 1]).realize()
    distances = (a[:, None] - b[None]).abs()
    for number in range(6):
        (distances * number).sum().item()
    assert kernels(distances.realize) == 1


def test_a_value_of_which_rows_are_read_stays_lazy():
    """Each result computes its row alone, where all of it may take long."""
    x = Tensor(ROWS).realize()
    scaled = x * 2
    for number in range(6):
        np.testing.assert_allclose(scaled[number].sum().item(), 2 * ROWS[number].sum(), rtol=1e-4)
    rows = scaled[Tensor([3, 5, 3])]
    for number in range(6):
        np.testing.assert_allclose((rows.sum() + number).item(), 2 * ROWS[[3, 5, 3]].sum() + number, rtol=1e-4)
    assert kernels(scaled.realize) == 1


def test_what_is_written_between_the_results_is_read_anew():
    """A lazy tensor has the values that its sources had; stored or not."""
    source = Tensor(ROWS[0]).realize()
    twice = source * 2
    results = []
    for number in range(6):
        results.append((twice + number).sum().item())
        if number == 3:
            source.assign(source * 0).realize()
    np.testing.assert_allclose(results, [2 * ROWS[0].sum() + 40 * number for number in range(6)], rtol=1e-4)
    assert source.tolist() == [0.0] * 40


def test_a_variable_with_another_value_is_another_value():
    """What depends on a bound variable is not stored."""
    x = Tensor(ROWS[0]).realize()
    length = Variable("length", 1, 40)
    for number in range(1, 8):
        part = x[: length.bind(number)] * 2
        for again in range(4):
            assert (part.sum() + again).item() == pytest.approx(2 * ROWS[0, :number].sum() + again, abs=1e-4)


def test_a_replay_computes_what_is_captured():
    """In a function under TinyJit nothing is stored that a replay would not compute."""
    w = Tensor(MATRIX).realize()

    @TinyJit
    def step(row: Tensor) -> list[Tensor]:
        features = (row @ w).tanh()
        return [(features * number).sum().realize() for number in range(5)]

    for row in ROWS[:6]:
        found = [each.item() for each in step(Tensor(row).realize())]
        np.testing.assert_allclose(found, np.tanh(row @ MATRIX).sum() * np.arange(5), rtol=1e-3, atol=1e-4)


def test_counts_are_bounded(monkeypatch):
    """The oldest is forgotten first."""
    monkeypatch.setattr(computed_again, "MOST", 8)
    x = Tensor(ROWS[0]).realize()
    states = [x.pad((0, number)) * 2 for number in range(1, 13)]
    for state in states:
        state.sum().item()
    assert len(computed_again._computed) == 8
