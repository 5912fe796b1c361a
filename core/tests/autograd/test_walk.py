"""The walk: which nodes it visits, how contributions add up, and how deep a graph may be."""

from __future__ import annotations

import numpy as np

from graph_numpy import evaluate
from tinygraft import Tensor, dtypes
from tinygraft.autograd.walk import gradient, nodes_on_path
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, nodes_made


def leaf(*data: float) -> UOp:
    """Numbers in memory."""
    return Tensor(list(data)).uop


def test_contributions_of_all_users_add_up() -> None:
    """x * y + x gives x the sum of both paths."""
    x, y = leaf(2.0, 3.0), leaf(5.0, 7.0)
    to_x, to_y = gradient(x * y + x, [x, y], x.const_like(1.0))
    assert to_x is not None and to_y is not None
    np.testing.assert_array_equal(evaluate(to_x), [6, 8])
    np.testing.assert_array_equal(evaluate(to_y), [2, 3])


def test_rows_of_a_table_are_added_to_what_else_it_gets() -> None:
    """A table that is both read at places and multiplied has one gradient, and no zeros of its size are made."""
    table = leaf(2.0, 3.0, 5.0)
    where = Tensor([2, 0, 2], dtype=dtypes.int32).uop
    read = UOp(Ops.GATHER, table.dtype, (table, where), 0)
    for root in (read * table, table * read):
        (found,) = gradient(root, [table], root.const_like(1.0))
        assert found is not None
        assert found.op is Ops.SCATTER and found.src[0].op is Ops.MUL
        np.testing.assert_array_equal(evaluate(found), [5 + 3, 2, 5 + 2 + 5])
    twice = read * UOp(Ops.GATHER, table.dtype, (table, where), 0)
    (found,) = gradient(twice, [table], twice.const_like(1.0))
    assert found is not None
    np.testing.assert_array_equal(evaluate(found), [4, 0, 20])


def test_target_without_a_path_gets_none() -> None:
    """A node that the result does not depend on, or only through a comparison or DETACH, has no gradient."""
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    detached = UOp(Ops.DETACH, x.dtype, (x,))
    chosen = (x < y).where(y, detached)
    assert gradient(chosen, [x, leaf(9.0)], chosen.const_like(1.0)) == [None, None]


def test_target_below_another_target_gets_its_gradient_too() -> None:
    """An intermediate node and what it was computed from can both be targets, also the root itself."""
    x = leaf(2.0)
    middle = x * x
    root = middle * middle
    seed = root.const_like(1.0)
    found = gradient(root, [x, middle, root], seed)
    assert [float(evaluate(node)[0]) for node in found if node is not None] == [32.0, 8.0, 1.0]


def test_only_nodes_between_root_and_targets_are_visited() -> None:
    """Nothing is built for the sources that lead to no target."""
    x = leaf(1.0)
    other = leaf(1.0)
    for _ in range(100):
        other = other * 1.5
    root = x * other
    before = nodes_made()
    gradient(root, [x], root.const_like(1.0))
    assert nodes_made() - before < 10
    assert set(nodes_on_path(root, [x])) == {x, root}


def test_integers_have_no_gradient() -> None:
    """A path ends where values are integers."""
    x = leaf(1.0)
    root = x.cast(dtypes.int32).cast(dtypes.float32) + x
    (found,) = gradient(root, [x], root.const_like(1.0))
    assert found is root.const_like(1.0)


def test_deep_chain_is_differentiated_without_recursion() -> None:
    """A chain of 100,000 additions has its gradient."""
    x = leaf(1.0)
    root = x
    for _ in range(100_000):
        root = root + 1.0
    (found,) = gradient(root, [x], root.const_like(1.0))
    assert found is root.const_like(1.0)
