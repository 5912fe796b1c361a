"""How contributions to one gradient are added: parts of an axis as one CAT, products of one weight as one product."""

from __future__ import annotations

import numpy as np
import pytest

from graph_numpy import evaluate
from tensor_nodes import filled, memory, move
from tinygraft import Tensor, Variable
from tinygraft.autograd.contributions import separate, total
from tinygraft.dtype import dtypes
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32


def padded(values: list[float], before: int, after: int) -> UOp:
    """PAD of some numbers."""
    return move(Ops.PAD, filled(values), ((before, after),))


def test_parts_of_one_axis_are_put_together() -> None:
    """In any order, with zeros where no part is, and other contributions added."""
    first, second = padded([1, 2], 0, 4), padded([3], 3, 2)
    found = total([second, first])
    assert found.op is Ops.CAT and Ops.PAD not in [node.op for node in postorder(found)]
    np.testing.assert_array_equal(evaluate(found), [1, 2, 0, 3, 0, 0])
    more = total([second, filled([1] * 6), first])
    np.testing.assert_array_equal(evaluate(more), [2, 3, 1, 4, 1, 1])


def test_parts_that_overlap_are_added() -> None:
    """x[:-1] and x[1:] have elements in common."""
    found = total([padded([1, 2], 0, 1), padded([3, 4], 1, 0)])
    assert found.op is Ops.ADD
    np.testing.assert_array_equal(evaluate(found), [1, 5, 4])


def products(count: int, rows: int, inner: int, outer: int) -> tuple[UOp, list[UOp]]:
    """The EXPAND of a weight (1, outer, inner), and the contributions of `count` products of `rows` rows to it."""
    shape = (rows, outer, inner)
    weight = move(Ops.EXPAND, memory(1, outer, inner), shape)
    parts = [
        move(Ops.EXPAND, memory(rows, outer, 1), shape) * move(Ops.EXPAND, memory(rows, 1, inner), shape)
        for _ in range(count)
    ]
    return weight, parts


def test_products_of_one_weight_are_one_product() -> None:
    """Three uses of 8 rows are one of 24; uses with more elements than the result pays for stay apart."""
    weight, parts = products(3, 8, 16, 32)
    (found,) = separate(weight, parts)
    assert found.shape == (24, 32, 16)
    weight, parts = products(3, 512, 16, 32)
    assert separate(weight, parts) == parts


def test_other_contributions_to_a_weight_are_added_first() -> None:
    """What is no product is one gradient, before those of products."""
    weight, parts = products(2, 8, 16, 32)
    plain = move(Ops.EXPAND, memory(1, 1, 1), weight.shape)
    found = separate(weight, [plain, *parts, plain])
    assert len(found) == 2 and found[0].op is Ops.ADD and found[1].shape == (16, 32, 16)


@pytest.mark.parametrize("rows", [1, 8, 300])
def test_gradients_of_a_weight_that_is_used_in_steps(rows: int) -> None:
    """Those of h = tanh(h @ w), five times, are those that differences give, with few rows and with many."""
    random = np.random.default_rng(rows)
    w, h = random.standard_normal((6, 6)) * 0.4, random.standard_normal((rows, 6))

    def loss(weight: np.ndarray) -> float:
        state = h
        for _ in range(5):
            state = np.tanh(state @ weight)
        return float((state * state).sum())

    weight, state = Tensor(w, dtype=dtypes.float64, requires_grad=True), Tensor(h, dtype=dtypes.float64)
    for _ in range(5):
        state = (state @ weight).tanh()
    (state * state).sum().backward()
    assert weight.grad is not None
    step = 1e-5
    for i, j in ((0, 0), (3, 1), (5, 5)):
        moved = np.zeros_like(w)
        moved[i, j] = step
        slope = (loss(w + moved) - loss(w - moved)) / (2 * step)
        assert weight.grad[i, j].item() == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_gradients_of_chunks() -> None:
    """Four gates of one sum, each used in another way."""
    random = np.random.default_rng(0)
    numbers = random.standard_normal((3, 64))
    x = Tensor(numbers, dtype=dtypes.float64, requires_grad=True)
    i, f, g, o = x.chunk(4, dim=1)
    (i * f.tanh() + g * g * o).sum().backward()
    a, b, c, d = np.split(numbers, 4, 1)
    wanted = np.concatenate([np.tanh(b), a * (1 - np.tanh(b) ** 2), 2 * c * d, c * c], 1)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def test_slices_that_begin_at_a_variable_are_added() -> None:
    """Nothing is known of where they are; two of them, and one beside a fixed one."""
    i = Variable("i", 0, 4)
    x = Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], requires_grad=True)
    (x[i.bind(1) : i.bind(1) + 2].sum() + x[i.bind(1) : i.bind(1) + 2].square().sum() + x[:2].sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1 + 1 + 4.0, 1 + 6.0, 0.0, 0.0, 0.0]
