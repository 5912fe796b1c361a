"""How values lie on several devices: the rule of each op, and what is no proper node there."""

from __future__ import annotations

from typing import Any

import pytest

from tinygraft import Context, Tensor, dtypes
from tinygraft.errors import GraphError, ShapeError
from tinygraft.uop import graph_spec
from tinygraft.uop.nodes import fault
from tinygraft.uop.ops import BufferArg, Ops, ReduceArg, ScanArg, ShardArg
from tinygraft.uop.sharding import OP_SHARDING, cut, even, op_sharding, starts
from tinygraft.uop.uop import UOp

TWO = ("ANY", "ANY:1")


def laid(shape: tuple[int, ...], axis: int | None, sizes: tuple[int, ...] = ()) -> UOp:
    """A node of a shape on as many devices as there are sizes."""
    node = UOp.const(dtypes.float, 0, "ANY").alu(Ops.NEG)
    node = UOp(Ops.EXPAND, node.dtype, (UOp(Ops.RESHAPE, node.dtype, (node,), (1,) * len(shape)),), shape)
    if axis is None:
        return UOp(Ops.COPY, node.dtype, (node, UOp.on(TWO)))
    names = ("ANY", "ANY:1", "ANY:2")[: len(sizes)]
    return UOp(Ops.SHARD, node.dtype, (node, UOp.on(names)), ShardArg(axis, sizes))


def test_every_op_of_the_tensor_graph_has_a_rule() -> None:
    """A new op says how it works on several devices."""
    assert [op.name for op in graph_spec.TENSOR.ops if op not in OP_SHARDING] == []


MOVES: list[tuple[tuple[int, ...], int, tuple[int, ...], Ops, Any, tuple[int, tuple[int, ...]] | None]] = [
    ((4, 6), 0, (2, 2), Ops.RESHAPE, (4, 2, 3), (0, (2, 2))),
    ((4, 6), 1, (4, 2), Ops.RESHAPE, (4, 3, 2), (1, (2, 1))),
    ((4, 6), 1, (3, 3), Ops.RESHAPE, (4, 3, 2), (None)),
    ((4, 6), 1, (3, 3), Ops.RESHAPE, (4, 2, 3), (1, (1, 1))),
    ((4, 6), 0, (1, 3), Ops.RESHAPE, (24,), (0, (6, 18))),
    ((4, 6), 1, (3, 3), Ops.RESHAPE, (24,), None),
    ((1, 6), 1, (3, 3), Ops.RESHAPE, (6,), (0, (3, 3))),
    ((6,), 0, (4, 2), Ops.RESHAPE, (1, 6, 1), (1, (4, 2))),
    ((2, 3, 4), 1, (1, 2), Ops.RESHAPE, (2, 12), (1, (4, 8))),
    ((0, 4), 1, (2, 2), Ops.RESHAPE, (4, 0), None),
    ((4, 6), 0, (2, 2), Ops.PERMUTE, (1, 0), (1, (2, 2))),
    ((4, 1), 0, (2, 2), Ops.EXPAND, (4, 5), (0, (2, 2))),
    ((4, 1), 1, (0, 1), Ops.EXPAND, (4, 5), None),
    ((4, 6), 0, (2, 2), Ops.FLIP, (1,), (0, (2, 2))),
    ((4, 6), 0, (2, 2), Ops.FLIP, (0,), (0, (2, 2))),
    ((4, 6), 0, (2, 2), Ops.PAD, ((1, 2), (0, 0)), (0, (3, 4))),
    ((4, 6), 0, (0, 4), Ops.PAD, ((1, 2), (0, 0)), (0, (0, 7))),
    ((4, 6), 0, (2, 2), Ops.SHRINK, ((1, 4), (0, 6)), (0, (1, 2))),
    ((4, 6), 0, (2, 2), Ops.SHRINK, ((0, 4), (3, 4)), (0, (2, 2))),
    ((4, 6), 0, (2, 2), Ops.SCAN, ScanArg(Ops.ADD, 1), (0, (2, 2))),
    ((4, 6), 0, (2, 2), Ops.SCAN, ScanArg(Ops.ADD, 0), (0, (2, 2))),
]


@pytest.mark.parametrize(
    ("shape", "axis", "sizes", "op", "arg", "wanted"), MOVES, ids=lambda p: str(p).replace(" ", "")
)
def test_where_a_cut_axis_goes(
    shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], op: Ops, arg: Any, wanted: Any
) -> None:
    """Movement keeps a cut where it can, and says None where the value is put together."""
    found = UOp(op, dtypes.float, (laid(shape, axis, sizes),), arg).sharding
    assert (None if found is None else (found.axis, found.sizes)) == wanted


def test_operands_follow_the_first_that_is_cut() -> None:
    """Of two that lie differently the second is brought to the layout of the first; a replicated one is cut."""
    rows, columns, whole = laid((4, 6), 0, (1, 3)), laid((4, 6), 1, (3, 3)), laid((4, 6), None)
    assert (rows + columns).sharding is rows.sharding
    assert (whole + columns).sharding is columns.sharding
    assert (whole + whole).sharding is None
    assert op_sharding(Ops.ADD, (columns, rows), None, (4, 6)).sources == (columns.sharding, columns.sharding)


def test_a_reduction_over_the_cut_is_combined() -> None:
    """Over other axes it stays cut; over the cut one each device has part of the result."""
    x = laid((4, 6), 0, (1, 3))
    assert UOp(Ops.REDUCE_AXIS, x.dtype, (x,), ReduceArg(Ops.MAX, (1,))).sharding == ShardArg(0, (1, 3))
    over = op_sharding(Ops.REDUCE_AXIS, (x,), ReduceArg(Ops.MAX, (0,)), (1, 6))
    assert (over.result, over.sources, over.combine) == (None, (x.sharding,), Ops.MAX)


def test_lengths_are_cut_evenly() -> None:
    """The last parts are short or empty."""
    assert even(8, 3) == (3, 3, 2)
    assert even(2, 4) == (1, 1, 0, 0)
    assert even(0, 2) == (0, 0)
    assert starts(ShardArg(0, (2, 0, 3))) == (0, 2, 2)
    assert cut(ShardArg(0, (2, 0, 3)), 1, 5) == [(1, 2), (0, 0), (0, 3)]


BUFFER, BOTH = UOp.buffer("ANY", 4, dtypes.float), UOp.on(TWO)
NAMES = "a DEVICE has the name of one device or those of several as arg, got"
PARTS = "SHARD has one part for each of several devices, got"
WRONG: list[tuple[tuple[Any, ...], str]] = [
    ((Ops.DEVICE, dtypes.void, (), ("ANY",)), f"{NAMES} ('ANY',)"),
    ((Ops.DEVICE, dtypes.void, (), ("ANY", 1)), f"{NAMES} ('ANY', 1)"),
    ((Ops.BUFFER, dtypes.float, (BOTH,), BufferArg(1, 4)), "a BUFFER is memory of one device, got ('ANY', 'ANY:1')"),
    ((Ops.SHARD, dtypes.float, (BUFFER, UOp.on("ANY")), ShardArg(0, (2, 2))), f"{PARTS} 2 for 'ANY'"),
    ((Ops.SHARD, dtypes.float, (BUFFER, BOTH), ShardArg(0, (1, 1, 2))), f"{PARTS} 3 for ('ANY', 'ANY:1')"),
    ((Ops.MULTI, dtypes.float, (BUFFER,), 0), "MULTI takes 2 or more sources, got 1"),
    ((Ops.MULTI, dtypes.float, (BUFFER, BUFFER + BUFFER), 0), "MULTI is over memory, got ADD"),
]


@pytest.mark.parametrize(("parts", "reason"), WRONG, ids=[reason[:40] for _, reason in WRONG])
def test_what_is_no_node_on_several_devices(parts: tuple[Any, ...], reason: str) -> None:
    """The spec says what is wrong."""
    with Context(SPEC=0):
        assert fault(UOp(*parts)) == reason


def test_sizes_have_to_add_up() -> None:
    """A SHARD of other sizes than its axis has is no node."""
    with pytest.raises(ShapeError, match=r"^cannot cut axis 0 of \(4,\) into parts of \(1, 2\)$"):
        UOp(Ops.SHARD, dtypes.float, (BUFFER, UOp.on(TWO)), ShardArg(0, (1, 2)))


def test_operands_lie_on_the_same_devices() -> None:
    """SPEC refuses an op whose sources lie on different devices."""
    other = UOp(Ops.COPY, dtypes.float, (BUFFER, UOp.on(("ANY", "ANY:2"))))
    mixed = UOp(Ops.ADD, dtypes.float, (UOp(Ops.COPY, dtypes.float, (BUFFER, UOp.on(TWO))), other))
    sentence = (
        r"^a test made an invalid tensor graph: ADD has sources on \('ANY', 'ANY:1'\) and \('ANY', 'ANY:2'\)\n"
        r"  node: UOp\(Ops.ADD, "
    )
    with Context(SPEC=1), pytest.raises(GraphError, match=sentence):
        graph_spec.check(graph_spec.TENSOR, mixed, "a test")


def test_what_is_taken_apart_has_no_several_devices() -> None:
    """SPEC refuses what the pass that takes graphs apart has left."""
    sentence = r"^a test made an invalid graph of single devices: DEVICE is on several devices: ANY, ANY:1\n"
    with Context(SPEC=1), pytest.raises(GraphError, match=sentence):
        graph_spec.check(graph_spec.SPLIT, UOp(Ops.COPY, dtypes.float, (BUFFER, UOp.on(TWO))), "a test")


def test_a_shard_prints_as_it_was_written() -> None:
    """Printing a tensor that is cut, and one that is memory on two devices."""
    t = Tensor([1.0, 2.0, 3.0], device="PYTHON").shard(("PYTHON", "PYTHON:1"), 0)
    number = t.uop.src[0].arg.uid
    assert repr(t.uop) == (
        "UOp(Ops.SHARD, dtypes.float, arg=ShardArg(axis=0, sizes=(2, 1)), src=(\n"
        f"  UOp(Ops.BUFFER, dtypes.float, arg=BufferArg(uid={number}, size=3), src=(\n"
        "    UOp(Ops.DEVICE, dtypes.void, arg='PYTHON', src=()),)),\n"
        "  UOp(Ops.DEVICE, dtypes.void, arg=('PYTHON', 'PYTHON:1'), src=()),))"
    )
    memory = t.realize().uop
    first, second = (part.arg.uid for part in memory.src)
    assert repr(memory) == (
        "UOp(Ops.MULTI, dtypes.float, arg=0, src=(\n"
        f"  UOp(Ops.BUFFER, dtypes.float, arg=BufferArg(uid={first}, size=2), src=(\n"
        "    UOp(Ops.DEVICE, dtypes.void, arg='PYTHON', src=()),)),\n"
        f"  UOp(Ops.BUFFER, dtypes.float, arg=BufferArg(uid={second}, size=1), src=(\n"
        "    UOp(Ops.DEVICE, dtypes.void, arg='PYTHON:1', src=()),)),))"
    )
