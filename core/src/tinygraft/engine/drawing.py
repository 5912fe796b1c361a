"""Graphs as boxes to draw: the text of each node, and which nodes of a large graph are shown.

In: UOps, or the calls of a schedule. Out: a Drawing, which refers to no node, so that recording a graph keeps no
memory of the program alive. `layout.py` computes the coordinates of the boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, AxisKind, Ops
from tinygraft.uop.stages import Call, CopyCall, RoutineCall
from tinygraft.uop.uop import UOp, toposort

# assumed: looked at, never timed
MOST_BOXES = 600  # a larger drawing is not read, and slows its page

KINDS: dict[str, frozenset[Ops]] = {
    "number": frozenset({Ops.CONST, Ops.IOTA, Ops.VARIABLE, Ops.BIND, Ops.DEVICE}),
    "memory": frozenset({Ops.BUFFER, Ops.MULTI, Ops.PARAM, Ops.LOCAL, Ops.LOAD, Ops.STORE, Ops.CONTIGUOUS, Ops.COPY,
                         Ops.SHARD, Ops.ASSIGN, Ops.GATHER, Ops.SCATTER, Ops.REG, Ops.GET, Ops.TILE, Ops.PUT}),
    "movement": MOVEMENT | {Ops.CAT, Ops.FOLD},
    "math": ELEMENTWISE,
    "reduce": frozenset({Ops.REDUCE_AXIS, Ops.REDUCE, Ops.SCAN, Ops.ROUTINE, Ops.ACCUM, Ops.LANES, Ops.DOT, Ops.MATRIX,
                         Ops.PRODUCT}),
    "range": frozenset({Ops.RANGE, Ops.END}),
}  # fmt: skip


@dataclass(slots=True)
class Box:
    """One drawn node: its title, further lines, a kind that decides the colour, and the indices of its sources."""

    title: str
    lines: list[str]
    kind: str
    sources: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Drawing:
    """Boxes, sources first, and how many nodes of the graph were omitted."""

    boxes: list[Box]
    omitted: int = 0


def draw_graph(root: UOp, most: int = MOST_BOXES) -> Drawing:
    """Return the graph of `root` as boxes, of the `most` nodes nearest to the result.

    A SINK is not drawn. A DEVICE is a line of its user. A number, also one broadcast to a shape, is a line of its user
    where it is one operand of several, and otherwise a box of its own for each user: a shared number would only draw
    long lines.

    >>> [box.title for box in draw_graph(UOp.variable("n", 1, 9) + 2).boxes]
    ['VARIABLE', 'ADD']
    """
    shown, omitted = _nearest(root, most)
    boxes: list[Box] = []
    drawn: dict[UOp, int] = {}  # node -> index of its box
    numbers: dict[UOp, UOp] = {}  # a node all of whose elements are one number -> its CONST
    for node in shown:
        if node.op is Ops.CONST:
            numbers[node] = node
        elif node.op in (Ops.RESHAPE, Ops.EXPAND) and node.src[0] in numbers:
            numbers[node] = numbers[node.src[0]]
        if (node in numbers or node.op is Ops.DEVICE) and node is not root:
            continue
        if node.op is Ops.SINK and node.src:
            boxes.extend(Box("CONST", _lines(numbers[s]), "number") for s in node.src if s in numbers)
            continue
        box = Box(node.op.name, _lines(node), kind_of(node))
        operands = [s for s in node.src if s.op is not Ops.DEVICE]
        for number, source in enumerate(operands):
            if source in drawn:
                box.sources.append(drawn[source])
            elif source in numbers and len(operands) > 1:
                box.lines.append(f"operand {number + 1}: {_number(numbers[source].arg)}")
            elif source in numbers and node.op is not Ops.RANGE:
                box.sources.append(len(boxes))
                boxes.append(Box("CONST", _lines(numbers[source]), "number"))
        drawn[node] = len(boxes)
        boxes.append(box)
    return Drawing(boxes, omitted)


def draw_calls(calls: Sequence[Call], names: Sequence[str] = ()) -> Drawing:
    """Return the first MOST_BOXES calls of a schedule as boxes; sources of one are the calls that wrote its buffers.

    `names` has the name of each call; the title is "kernel" where there is none.
    """
    boxes: list[Box] = []
    writer: dict[UOp, int] = {}
    for number, call in enumerate(calls[:MOST_BOXES]):
        if isinstance(call, CopyCall):
            title, reads, writes = f"{number + 1}  copy", [call.source], [call.target]
            lines = [f"{call.target.device} <- {call.source.device}", buffer_text(call.target)]
        else:
            writes = [call.buffers[slot] for slot in call.written]
            reads = [b for b in call.buffers if b not in writes or b in writer]
            kind = call.routine.name if isinstance(call, RoutineCall) else "kernel"
            title = f"{number + 1}  {names[number] if number < len(names) else kind}"
            lines = [f"on {call.device}", *(f"writes {buffer_text(b)}" for b in writes[:4])]
            if len(writes) > 4:
                lines.append(f"writes {len(writes) - 4} more buffers")
        sources = list(dict.fromkeys(writer[b] for b in reads if b in writer))
        boxes.append(Box(title, lines, "call", sources))
        writer.update((b, number) for b in writes)
    return Drawing(boxes, max(0, len(calls) - MOST_BOXES))


def buffer_text(node: UOp) -> str:
    """Return a buffer in a few words: its id, size and dtype."""
    if node.op is not Ops.BUFFER:
        return f"{node.op.name} {node.dtype.name}"
    return f"buffer {node.arg.uid} ({node.arg.size} {node.dtype.name})"


def kind_of(node: UOp) -> str:
    """Return the kind of `node` in KINDS, by which the page colours its box; "control" for other ops."""
    return next((kind for kind, ops in KINDS.items() if node.op in ops), "control")


def _nearest(root: UOp, most: int) -> tuple[list[UOp], int]:
    """Return the `most` nodes nearest to `root`, sources first, and how many others its graph has.

    A node is the nearer, the fewer steps lead to it from user to source.
    """
    everything = toposort(root)
    if len(everything) <= most:
        return everything, 0
    seen = {root}
    front = [root]
    while front:
        below: list[UOp] = []
        for node in front:
            for source in node.src:
                if source not in seen and len(seen) < most:
                    seen.add(source)
                    below.append(source)
        front = below
    return [node for node in everything if node in seen], len(everything) - len(seen)


def _number(value: object) -> str:
    """Return the value of a CONST as text: six digits of a float."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _lines(node: UOp) -> list[str]:
    """Return the lines of a box under its title: dtype and shape, then the arg, then the device."""
    lines = []
    if node.dtype.kind != "void":
        lines.append(node.dtype.name + (_shape(node.shape) if node.shape else ""))
    if node.op not in (Ops.RESHAPE, Ops.EXPAND) and (text := _argument(node)):
        lines.append(text if len(text) <= 48 else text[:45] + "...")
    device = next((s.arg for s in node.src if s.op is Ops.DEVICE), None)
    if device is not None:
        lines.append(f"on {device}")
    return lines


def _shape(shape: Sequence[object]) -> str:
    """Return a shape as text that begins with a space, as " (2, 3)"."""
    sizes = [str(n) if isinstance(n, int) else _symbolic(n) for n in shape]
    return f" ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _symbolic(size: object) -> str:
    """Return the name of the variable that a size is; "n" for an expression."""
    if isinstance(size, UOp) and size.op in (Ops.VARIABLE, Ops.BIND):
        return str((size if size.op is Ops.VARIABLE else size.src[0]).arg.name)
    return "n"


def _argument(node: UOp) -> str:
    """Return the arg of a node as one line of its box; empty where it has none."""
    arg = node.arg
    if arg is None:
        return ""
    if node.op is Ops.CONST:
        return _number(arg)
    if node.op is Ops.BUFFER:
        return f"number {arg.uid}, {arg.size} elements"
    if node.op is Ops.PARAM:
        return f"argument {arg.slot}, {arg.size} elements"
    if node.op is Ops.VARIABLE:
        return f"{arg.name} from {arg.low} to {arg.high}"
    if node.op is Ops.RANGE:
        kind = "" if arg.kind is AxisKind.LOOP else f" {arg.kind.value}"
        size = node.src[0]
        return f"r{arg.axis}{kind} below {size.arg if size.op is Ops.CONST else _symbolic(size)}"
    if node.op in (Ops.REDUCE_AXIS, Ops.REDUCE, Ops.LANES, Ops.SCAN, Ops.SCATTER):
        axes = getattr(arg, "axes", None) or getattr(arg, "axis", None)
        op = "set" if arg.op is None else arg.op.name
        return op if axes is None or axes == () else f"{op} over {axes}"
    if node.op is Ops.WINDOW or node.op is Ops.FOLD:
        return f"size {arg.size}, stride {arg.stride}, dilation {arg.dilation}"
    return str(arg)
