"""Gradients built again: the steps of an earlier graph give the nodes of the rules, and no other graph takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tinygraft import Tensor, nn
from tinygraft.autograd import gradient_steps
from tinygraft.autograd.walk import gradient
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No test finds the steps of another one."""
    gradient_steps.clear()
    yield
    gradient_steps.clear()


def leaf(*data: float) -> UOp:
    """Numbers in memory."""
    return Tensor(list(data)).realize().uop


def same(make: Callable[[UOp, UOp], UOp], times: int = 4) -> None:
    """Check that each of several graphs that `make` makes has the gradients of the rules."""
    for _ in range(times):
        x, y = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
        root = make(x, y)
        seed = root.const_like(1)
        found, ruled = gradient_steps.gradient_again(root, [x, y], seed), gradient(root, [x, y], seed)
        assert all(one is other for one, other in zip(found, ruled, strict=True))


def steps() -> list[gradient_steps.GradientSteps]:
    """The graphs whose steps are known."""
    return [found for found in gradient_steps._known.values() if found is not None]


def test_a_later_graph_is_made_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one of the same ages is noted, and then rules are applied no more."""
    one = leaf(0.0, 0.0, 0.0).const_like(1)  # else its age is another in each graph
    same(lambda x, y: x * y + x)
    assert steps() and one.shape == (3,)
    monkeypatch.setattr("tinygraft.uop.uop.check_node", None)
    x, y = leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)
    root = x * y + x
    expected = gradient(root, [x, y], root.const_like(1))
    monkeypatch.setattr(gradient_steps, "gradient", None)
    found = gradient_steps.gradient_again(root, [x, y], root.const_like(1))
    assert all(one is other for one, other in zip(found, expected, strict=True))


def test_graphs_of_other_forms_have_their_own_steps() -> None:
    """The order of ages, targets, constants, and one memory in place of two make another graph."""
    same(lambda x, y: x * y + x)
    same(lambda x, y: x + x * y)
    same(lambda x, y: x * x.const_like(2.0) + y)
    same(lambda x, y: x * x.const_like(0.0) + y)
    same(lambda x, y: x * x.const_like(-0.0) + y)
    same(lambda x, y: x * x)
    for order in (0, 1):
        for _ in range(4):
            x = leaf(1.0, 2.0, 3.0)
            made = [x * x, x + x][:: 1 if order else -1]  # the older one passes its part on last
            root = made[0] * made[1] if order else made[1] * made[0]
            one, two = (
                gradient_steps.gradient_again(root, [x], root.const_like(1)),
                gradient(root, [x], root.const_like(1)),
            )
            assert one[0] is two[0]


def test_a_target_that_is_not_reached_has_none() -> None:
    """A target outside of the graph, and one behind a step."""
    same(lambda x, y: x * x)
    same(lambda x, y: UOp(Ops.TRUNC, x.dtype, (x,)) * y)
    for _ in range(4):
        x, y = leaf(1.0), leaf(2.0)
        assert gradient_steps.gradient_again(x * x, [y], x.const_like(1)) == [None]


def test_batches_are_alike_and_slices_of_a_target_are_not() -> None:
    """Where a slice of data begins is left out; where one of a weight does is a part of its gradient."""
    data, w = Tensor.arange(40).float().realize(), Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True).realize()
    for begin in range(0, 36, 3):
        w.grad = None
        (data[begin : begin + 4] * w).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [begin, begin + 1, begin + 2, begin + 3]
    assert 1 <= len(steps()) <= 2
    for begin in (0, 1, 2, 0, 1, 2, 0, 1, 2):
        w.grad = None
        (w[begin : begin + 2] * 3.0).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [3.0 if begin <= i < begin + 2 else 0.0 for i in range(4)]


def test_rules_of_an_operator_are_applied_each_time() -> None:
    """A graph with a derivative of its own is not noted."""
    for _ in range(4):
        x = Tensor([2.0, 3.0], requires_grad=True)
        x.lgamma().sum().backward()
        assert x.grad is not None
    assert steps() == []


def test_steps_have_no_memory_of_a_graph() -> None:
    """What is known retains no BUFFER."""
    same(lambda x, y: (x * y) * (x + y.const_like(2.0)))
    assert steps()
    stack = [node for found in steps() for node in found.constants]
    while stack:
        node = stack.pop()
        assert node.op is not Ops.BUFFER
        stack += node.src


def test_a_second_derivative_and_a_layer() -> None:
    """Gradients of gradients, and those of a layer whose weights change."""
    layer = nn.Linear(3, 2)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.125)
    for number in range(6):
        x = Tensor([[1.0, 2.0, number]], requires_grad=True)
        (first,) = (x * x * x).sum().gradient(x)
        assert first.sum().gradient(x)[0].tolist() == [[6.0, 12.0, 6.0 * number]]
        optimizer.zero_grad()
        with Tensor.train():
            layer(x.detach()).square().sum().backward()
            optimizer.step()


def test_what_is_known_is_bounded() -> None:
    """No more than 64 keys of each kind are kept."""
    for number in range(69):
        same(lambda x, y, number=number: x * x.const_like(float(number + 2)) + y, 2)
    assert len(gradient_steps._known) <= 64 and len(gradient_steps._seen) <= 64
