"""A graph for many examples at once gives what the graphs of single examples give: each op, and random graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from random_graphs import graph
from tinygraft import Tensor
from tinygraft.autograd.batch import RULES, batched
from tinygraft.autograd.vjp import VJP
from tinygraft.errors import GraphError
from tinygraft.uop.ops import Ops, ReduceArg, ScatterArg
from tinygraft.uop.uop import UOp, substitute, toposort

LEAVES = {Ops.CONST, Ops.DEVICE, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.IOTA, Ops.PLACEHOLDER, Ops.MULTI}


def integers(shape: Sequence[int], seed: int = 0, low: int = -2, high: int = 3) -> Tensor:
    """A realised tensor of small integers, held in floats."""
    return Tensor(np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)).realize()


def places(shape: Sequence[int], seed: int = 0, high: int = 4) -> Tensor:
    """A realised tensor of indices from -1 to high."""
    return Tensor(np.random.default_rng(seed).integers(-1, high + 1, shape).astype(np.int32)).realize()


def check(root: UOp, leaves: Sequence[UOp], wholes: Sequence[Tensor]) -> None:
    """root over all examples of its leaves is root over each of them, one after the other."""
    count = wholes[0].shape[0]
    ((node, has_axis),) = batched([root], dict(zip(leaves, (w.uop for w in wholes), strict=True)), count)
    assert has_axis
    assert node.shape == (count, *root.shape)
    found = Tensor(node).numpy()
    for example in range(count):
        one = substitute(root, dict(zip(leaves, (w[example].uop for w in wholes), strict=True)))
        np.testing.assert_array_equal(found[example], Tensor(one).numpy())


def test_every_op_of_the_tensor_graph_has_a_rule_or_is_a_leaf() -> None:
    """An op that is added to the tensor graph needs a rule here."""
    assert set(VJP) - LEAVES == set(RULES)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    """Of the leaves of a random graph some are examples, tables and indices alike."""
    r = random.Random(seed)
    root = graph(r, steps=8)[0].contiguous().uop
    buffers = [node for node in toposort(root) if node.op is Ops.BUFFER]
    chosen = [node for node in buffers if r.random() < 0.6] or buffers[:1]
    if not chosen:
        root = (Tensor(root) + integers((1,)).sum()).uop
        chosen = [node for node in toposort(root) if node.op is Ops.BUFFER]
    wholes = [(integers if n.dtype.kind == "float" else places)((3, *n.shape), seed + i) for i, n in enumerate(chosen)]
    check(root, chosen, wholes)


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", [None, Ops.ADD, Ops.MAX])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(axis: int, op: Ops | None, which: tuple[int, ...]) -> None:
    """Base, index and value may each be another one for each example or the same for all."""
    base, index = integers((4, 5), 1), places((2, 3), 2, high=4)
    value = integers((*base.shape[:axis], 2, 3, *base.shape[axis + 1 :]), 3)
    nodes = [base.uop, index.uop, value.uop]
    root = UOp(Ops.SCATTER, base.dtype, tuple(nodes), ScatterArg(axis, op))
    wholes = [(places if i == 1 else integers)((3, *nodes[i].shape), 10 + i) for i in which]
    check(root, [nodes[i] for i in which], wholes)


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int, which: tuple[int, ...]) -> None:
    """Table and index may each be another one for each example; places outside the table give 0 for each."""
    table, index = integers((4, 3, 5), 1), places((2, 3), 2, high=5)
    root = UOp(Ops.GATHER, table.dtype, (table.uop, index.uop), axis)
    nodes = [table.uop, index.uop]
    wholes = [(places if i else integers)((4, *nodes[i].shape), 20 + i) for i in which]
    check(root, [nodes[i] for i in which], wholes)


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_assigned_views(which: tuple[int, ...]) -> None:
    """A value that is assigned to a part is what the part has afterwards, for each example."""
    old, value = integers((4, 5), 1), integers((2, 4), 2)
    shrunk = UOp(Ops.SHRINK, old.dtype, (old.uop,), ((1, 3), (0, 4)))
    view = UOp(Ops.FLIP, old.dtype, (shrunk,), (1,))
    root = UOp(Ops.ASSIGN, old.dtype, (old.uop, value.uop, view))
    nodes = [old.uop, value.uop]
    check(root, [nodes[i] for i in which], [integers((3, *nodes[i].shape), 30 + i) for i in which])


def test_no_examples_and_what_depends_on_none() -> None:
    """No examples give no values, and a graph without examples is left alone."""
    x = integers((3,))
    other = (integers((3,), 5) * 2).uop
    root = UOp(Ops.REDUCE_AXIS, x.dtype, ((x + 1).uop,), ReduceArg(Ops.ADD, (0,)))
    (found, has_axis), (same, without) = batched([root, other], {x.uop: Tensor.zeros(0, 3).uop}, 0)
    assert (found.shape, has_axis) == ((0, 1), True)
    assert same is other
    assert not without


def test_an_op_without_a_rule() -> None:
    """A kernel's op is no part of a tensor graph."""
    x = integers((3,))
    odd = UOp(Ops.SINK, src=(x.uop,))
    with pytest.raises(GraphError, match=r"^SINK has no rule for many examples at once$"):
        batched([odd], {x.uop: integers((2, 3)).uop}, 2)
