"""Variable: what a call makes, and what is one."""

from __future__ import annotations

import pytest

from tinygraft import Tensor, UOp, Variable
from tinygraft.uop.ops import Variable as OlderPlace


def test_a_variable_is_a_node_that_isinstance_knows() -> None:
    """Scripts tell a bound variable from a tensor or a number by its type."""
    n = Variable("n", 1, max_val=9, dtype="int8")
    assert n is UOp.variable("n", 1, 9, "int8") and OlderPlace is Variable
    assert isinstance(n, Variable) and isinstance(n.bind(4), Variable)
    assert n.bind(4).val == 4 and not hasattr(n, "val")
    for other in (3, Tensor([1]), n + 1, None):
        assert not isinstance(other, Variable)
    with pytest.raises(ValueError, match="min_val <= max_val"):
        Variable("n", 9, 1)
