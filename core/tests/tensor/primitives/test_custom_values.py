"""Results of functions with derivatives of their own are values: a write to one changes no other tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft import Tensor, checkpoint
from tinygraft.functions import Function

kept: list[Tensor] = []


class Same(Function):
    """Its argument as it is."""

    def forward(self, x: Tensor) -> Tensor:
        """Nothing to do."""
        return x

    def backward(self, gradient: Tensor) -> Tensor:
        """Told apart from the gradient."""
        return gradient * 2


class Keep(Function):
    """A value that somebody else holds too."""

    def forward(self, x: Tensor) -> Tensor:
        """Keep the result."""
        kept[:] = [x * 1]
        return kept[0]

    def backward(self, gradient: Tensor) -> Tensor:
        """Told apart from the gradient."""
        return gradient * 2


@pytest.mark.parametrize(
    ("function", "factor"),
    [(Same.apply, 2), (Keep.apply, 2), (checkpoint(lambda x: x), 1), (checkpoint(lambda x: x.reshape(4)), 1)],
)
@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("view", [False, True])
def test_a_part_of_a_result_is_written(
    function: Callable[[Tensor], Tensor], factor: int, realized: bool, view: bool
) -> None:
    """Whoever had the value before, or what it was made of, keeps it, wherever that is in memory by then."""
    w = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    base = w * 2
    if realized:
        base.realize()
    kept[:] = [base]
    y = function(base)
    kept[0].realize()
    base.realize()
    later = base * 10
    if view:
        part = y[:2]
        part += 5
    else:
        y[:2] = y[:2] + 5
    (y * y).sum().backward()
    assert w.grad is not None
    assert (y.tolist(), base.tolist(), kept[0].tolist()) == ([7, 9, 6, 8], [2, 4, 6, 8], [2, 4, 6, 8])
    assert later.tolist() == [20, 40, 60, 80]
    assert w.grad.tolist() == [2 * 2 * factor * value for value in (7, 9, 6, 8)]
