"""postorder, a walk without recursion, against its definition; and forms of equal graphs over other memory."""

from __future__ import annotations

import random

import pytest

from tinygraft.dtype import dtypes
from tinygraft.schedule.form import form_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder


def graph(seed: int) -> list[UOp]:
    """Nodes of one to three sources, some used often, over four BUFFERs; the last of them are roots."""
    choose = random.Random(seed)
    nodes = [UOp.buffer("PYTHON", 4, dtypes.float32) for _ in range(4)]
    nodes.append(UOp(Ops.RESHAPE, dtypes.float32, (UOp.const(dtypes.float32, 2.0, "PYTHON"),), (1,)))
    nodes[-1] = UOp(Ops.EXPAND, dtypes.float32, (nodes[-1],), (4,))
    for _ in range(choose.randint(1, 40)):
        op, count = choose.choice([(Ops.NEG, 1), (Ops.ADD, 2), (Ops.MUL, 2), (Ops.FMA, 3)])
        nodes.append(UOp(op, dtypes.float32, tuple(choose.choices(nodes, k=count))))
    return nodes


def by_definition(roots: list[UOp]) -> list[UOp]:
    """Each node after its sources, from left to right, once."""
    found: dict[UOp, None] = {}

    def visit(node: UOp) -> None:
        if node not in found:
            for source in node.src:
                visit(source)
            found[node] = None

    for root in roots:
        visit(root)
    return list(found)


@pytest.mark.parametrize("seed", range(20))
def test_postorder_is_its_definition(seed: int) -> None:
    """Of one root and of several, of which some are sources of others or named twice."""
    nodes = graph(seed)
    for roots in ([nodes[-1]], nodes[-3:], [nodes[-1], nodes[0], nodes[-1]], [nodes[0]], []):
        assert postorder(*roots) == by_definition(roots)


@pytest.mark.parametrize("seed", range(20))
def test_graphs_of_one_form_differ_in_their_memory_alone(seed: int) -> None:
    """The same graph over other BUFFERs has the same key; another graph, or other outputs, have another one."""
    nodes, others = graph(seed), graph(seed)
    one, two = (form_of(postorder(found[-1]), [found[-1]]) for found in (nodes, others))
    assert one is not None
    assert two is not None
    assert one.key == two.key
    assert len(one.buffers) == len(two.buffers)
    assert set(one.buffers).isdisjoint(two.buffers)


def test_a_form_has_each_source() -> None:
    """Graphs whose nodes are the same in order, and that differ in one source or in their outputs, differ in key."""
    a, b = (UOp.buffer("PYTHON", 4, dtypes.float32) for _ in range(2))
    inner = UOp(Ops.SUB, dtypes.float32, (a, b))
    pairs = [UOp(Ops.SUB, dtypes.float32, sources) for sources in ((inner, a), (inner, b), (inner, inner))]
    negated = [UOp(Ops.NEG, dtypes.float32, (source,)) for source in (a, b, inner)]
    fused = [UOp(Ops.FMA, dtypes.float32, (inner, source, a)) for source in (a, b, inner)]
    outputs = [[node] for node in (*pairs, *fused)] + [[inner, node] for node in (*pairs, *negated)]
    outputs.append([pairs[0], inner])
    forms = [form_of(postorder(*found), found) for found in outputs]
    assert len({form.key for form in forms if form is not None}) == len(outputs)
