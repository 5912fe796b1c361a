"""Graphs, and the frozen types of uop/stages.py, as JSON data, and back: written nodes are read as the same nodes.

    whole(json.loads(json.dumps(flat(kernel.sink)))) is kernel.sink

Equal graphs have equal text in every process. Data that is read is not checked beyond what making the nodes requires:
it comes from files and processes of the same user.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any

from tinygraft.dtype import BY_NAME, DType
from tinygraft.uop.ops import (
    AxisKind,
    LocalArg,
    Ops,
    ParamArg,
    RangeArg,
    ReduceArg,
    RegArg,
    StoreHint,
    VariableArg,
)
from tinygraft.uop.stages import Cost, Param, Routine, Signature
from tinygraft.uop.uop import UOp, postorder

ARGS = (LocalArg, ParamArg, RangeArg, ReduceArg, RegArg, VariableArg)
BOXES: dict[str, type[Any]] = {box.__name__: box for box in (Signature, Param, Cost, Routine, *ARGS)}
ENUMS: dict[str, type[Enum]] = {enum.__name__: enum for enum in (Ops, AxisKind, StoreHint)}


def flat(value: Any) -> Any:
    """Return a graph, a Signature and the like, or a part of one, as JSON data.

    >>> flat((1, Ops.ADD))
    [1, {'Ops': 'ADD'}]
    """
    if isinstance(value, (tuple, list)):
        return [flat(item) for item in value]
    kind = type(value).__name__
    if isinstance(value, Enum):
        return {kind: value.name}
    if isinstance(value, DType):
        return {"DType": value.name}
    if isinstance(value, UOp):
        return {"UOp": _nodes(value)}
    if kind in BOXES:
        return {kind: [flat(getattr(value, field.name)) for field in fields(value)]}
    return value


def _nodes(root: UOp) -> list[Any]:
    """Return the nodes of a graph in order, with their sources as numbers of nodes."""
    order = postorder(root)
    numbers = {node: number for number, node in enumerate(order)}
    return [[n.op.name, n.dtype.name, [numbers[s] for s in n.src], flat(n.arg)] for n in order]


def whole(data: Any) -> Any:
    """Return the value that `flat` wrote as `data`; lists become tuples, and a node that exists here is that node.

    Raises KeyError, TypeError, ValueError or IndexError for data that nothing can be made of; no more is checked.
    """
    if isinstance(data, list):
        return tuple([whole(item) for item in data])
    if not isinstance(data, dict):
        return data
    (kind, content), = data.items()  # fmt: skip
    if kind == "DType":
        return BY_NAME[content]
    if kind in ENUMS:
        return ENUMS[kind][content]
    if kind == "UOp":
        nodes: list[UOp] = []
        for op, dtype, sources, arg in content:
            nodes.append(UOp(Ops[op], BY_NAME[dtype], tuple(nodes[s] for s in sources), whole(arg)))
        return nodes[-1]
    return BOXES[kind](*whole(content))
