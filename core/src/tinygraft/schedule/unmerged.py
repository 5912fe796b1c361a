"""Loops over merged axes as loops over each of them: where a sum is computed past a reshape.

relu(flatten(convolution)) is stored as (N, M), and computed as the convolution at the index (n, m // 16, m // 4 % 4,
m % 4): with divisions in the innermost loop, which no vector, tile or hoisting follows. With a loop for channel, row
and column in place of m it is the kernel that relu(convolution) is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp, postorder


def unmerged(sink: UOp, loops: Sequence[UOp]) -> tuple[UOp, list[UOp]]:
    """Return a SINK of stores and the `loops` of its outputs, with loops split where reductions read only their digits.

    A digit of a loop i is i // a, i % b or these of a digit. A loop of fixed size is split where some index in a
    reduction has digits of it, and no division has it otherwise; where the numbers divide each other and its size.
    """
    nodes = postorder(sink)
    terms = postorder(*[node.src[0] for node in nodes if node.op is Ops.REDUCE])
    divisions = [node for node in terms if node.op in (Ops.IDIV, Ops.MOD)]
    if not divisions:
        return sink, list(loops)
    number = 1 + max(node.arg.axis for node in nodes if node.op is Ops.RANGE)
    swap: dict[UOp, UOp] = {}
    found: list[UOp] = []
    for loop in loops:
        sizes = _sizes(loop, divisions)
        new = [UOp.range(size, number + k, loop.arg.kind) for k, size in enumerate(sizes)] if len(sizes) > 1 else [loop]
        found += new
        if len(new) > 1:
            number += len(new)
            swap[loop] = new[0]
            for inner, size in zip(new[1:], sizes[1:], strict=True):
                swap[loop] = ix.add(ix.mul(swap[loop], ix.const(size)), inner)
    return (ix.rebuild_simplified((sink,), swap)[sink], found) if swap else (sink, found)


def _sizes(loop: UOp, divisions: Iterable[UOp]) -> list[int]:
    """Return the sizes, outermost first, of the loops that `loop` is split into; one where it is not split.

    `divisions` are the IDIV and MOD nodes to be simplified, sources before users.
    """
    size = loop.src[0]
    if size.op is not Ops.CONST or loop.arg.kind is not AxisKind.LOOP:
        return [1]
    units = {loop: 1}  # a digit -> what it counts: i // 4 % 4 counts fours
    cuts = {1, size.arg}
    for node in divisions:
        if not node.ranges >> loop.arg.axis & 1:
            continue
        source, by = node.src
        if source not in units or by.op is not Ops.CONST:
            return [1]
        cuts.add(units[source] * by.arg)
        units[node] = units[source] * (by.arg if node.op is Ops.IDIV else 1)
    ordered = sorted(cuts, reverse=True)
    if ordered[0] != size.arg or any(a % b for a, b in pairwise(ordered)):
        return [1]
    return [a // b for a, b in pairwise(ordered)]
