"""Graphs and boxes as JSON, and back."""

from __future__ import annotations

import json
import math

from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.flat import flat, whole
from tinygraft.uop.ops import AxisKind, Ops, ReduceArg, StoreHint
from tinygraft.uop.stages import Cost, Param, Signature
from tinygraft.uop.uop import UOp


def again(value: object) -> object:
    """A value after the way to the disk and back."""
    return whole(json.loads(json.dumps(flat(value))))


def test_boxes_come_back_from_json() -> None:
    """A signature and a cost, with dtypes and symbolic sizes."""
    n = UOp.variable("n", 1, 9)
    size = UOp(Ops.ADD, dtypes.index, (UOp(Ops.MUL, dtypes.index, (n, n)), UOp.const(dtypes.index, 3)))
    signature = Signature(
        (Param(dtypes.float16, 7, True), Param(dtypes.bool, 0, False)), ("n",), (size, 1, 2), 32, True
    )
    for box in (signature, Cost(size, 12), ()):
        assert again(box) == box


def test_kernels_come_back_as_the_same_nodes() -> None:
    """Every kind of argument: ranges, reductions, gates, hints, variables, constants that are no plain numbers."""
    i, j = UOp.range(UOp.variable("n", 1, 7), 0), UOp.range(5, 1, AxisKind.ORDERED)
    x = load(param(1, dtypes.half, 35), ix.add(ix.mul(i, 5), j))
    total = UOp(Ops.REDUCE, dtypes.half, (x, j), ReduceArg(Ops.MAX))
    numbers = [UOp.const(dtypes.half, value) for value in (math.inf, -math.inf, math.nan, -0.0, 0.1)]
    value = total
    for number in numbers:
        value = value + number
    first = store(param(0, dtypes.half, 7), i, value).replace(arg=StoreHint.STREAM)
    second = store(param(2, dtypes.bool, 7), i, UOp.const(dtypes.bool, True))
    sink = UOp(Ops.SINK, src=(first, second))
    assert again(sink) is sink
    assert again([number.arg for number in numbers[:2]]) == (math.inf, -math.inf)


def test_equal_graphs_have_equal_text() -> None:
    """Whatever else lives, and in whatever order they were made."""
    text = [json.dumps(flat(UOp.range(size, 0) + 1)) for size in (3, 4, 3)]
    assert text[0] == text[2] != text[1]
