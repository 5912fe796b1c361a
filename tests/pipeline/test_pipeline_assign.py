"""Assigning: a tensor keeps the value its expression had when it was written, whatever is written in place later."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request):
    """Each test runs on both devices."""
    with Context(DEV=request.param):
        yield request.param


def numbers(n: int = 10) -> Tensor:
    """0, 1, 2, ... in memory."""
    return Tensor([float(i) for i in range(n)]).realize()


def test_assign_keeps_the_memory():
    """An update of a realised tensor is written to its own buffer."""
    t = numbers()
    buffer = t.uop.base.realized
    t.assign(t + 1).realize()
    assert t.uop.base.realized is buffer
    assert t.tolist() == [float(i + 1) for i in range(10)]


def test_an_overlapping_assign_reads_old_values():
    """t[i] = t[n-1-i] and t[1:] = t[:-1] are as if the right side had been computed first."""
    t = numbers()
    t.assign(t.flip(0)).realize()
    assert t.tolist() == [float(9 - i) for i in range(10)]
    t[1:] = t[:-1]
    assert t.tolist() == [9.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]


def test_expressions_made_before_keep_their_values_and_views_follow():
    """What was computed before an assign has the old value, realised before or after; a view has the new one."""
    t = numbers(4)
    view, lazy = t.reshape(2, 2), t * 10
    t.assign(t + 100).realize()
    assert t.tolist() == [100.0, 101.0, 102.0, 103.0]
    assert view.tolist() == [[100.0, 101.0], [102.0, 103.0]]
    assert lazy.tolist() == [0.0, 10.0, 20.0, 30.0]


def test_old_and_new_value_in_one_expression():
    """A graph may need both the old and the new value of one buffer."""
    t = numbers(5)
    old = t * 1
    t.assign(t * 2)
    both = old + t.sum()
    Tensor.realize(t, both)
    assert both.tolist() == [20.0 + i for i in range(5)]
    assert t.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_part_is_written_in_place():
    """Only the region changes, and the memory stays."""
    t = numbers()
    buffer = t.uop.base.realized
    t[2:5] = t[2:5] * 100
    t.realize()
    assert t.uop.base.realized is buffer
    assert t.tolist() == [0.0, 1.0, 200.0, 300.0, 400.0, 5.0, 6.0, 7.0, 8.0, 9.0]


def test_several_assigns_in_a_row_before_anything_runs():
    """Each reads what the one before it wrote."""
    t = numbers(3)
    for _ in range(5):
        t.assign(t * 2 + 1)
    t[1] = 7.0
    assert t.tolist() == [31.0, 7.0, 95.0]


def test_an_assign_between_forward_and_backward_does_not_change_the_gradient():
    """The gradient is that of the expression as it was written."""
    w = Tensor([3.0, 4.0], requires_grad=True).realize()
    loss = (w * w).sum()
    w.assign(w.detach() - 1)
    loss.backward()
    grad = w.grad
    Tensor.realize(w, grad)
    assert w.tolist() == [2.0, 3.0]
    assert grad.tolist() == [6.0, 8.0]


def test_swapping_two_tensors():
    """a, b = b, a by assigns."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([3.0, 4.0]).realize()
    old = a * 1
    a.assign(b * 1)
    b.assign(old)
    Tensor.realize(a, b)
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_assigning_at_computed_places():
    """Tensor indices, with repeats: the last one counts; an index out of bounds is an error where it is known."""
    t = numbers(6)
    t[Tensor([1, 3, 3])] = Tensor([10.0, 20.0, 30.0])
    assert t.tolist() == [0.0, 10.0, 2.0, 30.0, 4.0, 5.0]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5), ()])
def test_empty_and_single_tensors(shape):
    """No elements and no axes are sizes like any other."""
    x = Tensor.zeros(*shape).contiguous()
    y = (x + 1) * 2
    np.testing.assert_array_equal(y.numpy(), np.full(shape, 2.0, np.float32))
    np.testing.assert_array_equal(y.sum().numpy(), np.full(shape, 2.0, np.float32).sum())
    x.assign(x + 3)
    np.testing.assert_array_equal(x.numpy(), np.full(shape, 3.0, np.float32))


def test_what_does_not_need_the_old_value_is_not_computed_along():
    """A live tensor whose value an assignment to another one does not change stays lazy."""
    x, memory = Tensor([1.0, 2.0, 3.0, 4.0]).realize(), Tensor.zeros(4).contiguous().realize()
    held, needs = (x * 2).flip(0), memory.flip(0) + x
    part = memory + 1
    memory.assign(held + x)
    after = memory * 3
    memory.realize()
    assert (held.uop.base.realized, after.uop.base.realized) == (None, None)
    GlobalCounters.reset()
    assert (needs.tolist(), part.tolist()) == ([1, 2, 3, 4], [1, 1, 1, 1])
    assert GlobalCounters.kernel_count == 0
    assert (held.tolist(), after.tolist()) == ([8, 6, 4, 2], [27, 24, 21, 18])
    assert GlobalCounters.kernel_count == 2


def _masked_softmax() -> Tensor:
    w = Tensor(DATA, requires_grad=True)
    p = w.softmax()
    p[:4, [1, 2]] = 0
    (p * p).sum().backward()
    assert w.grad is not None
    return w.grad


def _written_by_index_after_a_view() -> Tensor:
    b = Tensor(DATA).realize()
    v = b[:2, 1:3]
    m = v.max()
    v += 1
    u = v * 2
    b[[3, 2], 3:5] = 0
    return u.sum() + m + b.sum()


def _two_states_and_a_view() -> Tensor:
    w, c = Tensor(DATA).realize(), Tensor.ones(4).contiguous().realize()
    t = w + 1
    u = t * 2
    t[1] = 0
    c *= 2
    c[0] = 1
    v = t[:, :4] * 2
    total = c.sum() + u.sum() + v.sum()
    Tensor.realize(total, v)
    return Tensor.cat(total.reshape(1), v.flatten())


def _expected(name: str) -> np.ndarray:
    data = DATA.astype(np.float64)
    if name == "masked softmax":
        p = np.exp(data) / np.exp(data).sum(1, keepdims=True)
        g = 2 * p
        g[:4, [1, 2]] = 0
        return p * (g - (g * p).sum(1, keepdims=True))
    if name == "index after a view":
        b = data.copy()
        m = b[:2, 1:3].max()
        b[:2, 1:3] += 1
        u = b[:2, 1:3] * 2
        b[[3, 2], 3:5] = 0
        return np.asarray(u.sum() + m + b.sum())
    t = data + 1
    u = (t * 2).sum()
    t[1] = 0
    v = t[:, :4] * 2
    return np.concatenate([[7 + u + v.sum()], v.ravel()])


DATA = np.random.default_rng(8).standard_normal((8, 8)).astype(np.float32)
CIRCLES = {
    "masked softmax": _masked_softmax,
    "index after a view": _written_by_index_after_a_view,
    "two states and a view": _two_states_and_a_view,
}


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("name", CIRCLES)
def test_where_memory_for_the_smallest_value_is_not_enough_the_next_one_gets_its_own(name, device) -> None:
    """A kernel needs the old and the new value of a written tensor: memory for others breaks no circle."""
    with Context(DEV=device):
        np.testing.assert_allclose(CIRCLES[name]().numpy(), _expected(name), rtol=1e-5, atol=1e-6)
