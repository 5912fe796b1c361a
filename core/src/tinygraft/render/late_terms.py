"""Terms of unrolled sums that are written beside the addition that uses them, copy by copy.

In: the instructions of a Linear. Out: for each ACCUM what only it needs. A compiler that leaves instructions where they
are written would compute the terms of all copies first, and has no registers for so many: of 6 by 64 distances it
stored and loaded two thirds, in three times the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tinygraft.render.branches import users_of
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.uop import UOp

FEW = 8  # assumed: copies of a sum, up to which their terms have registers beside them
_COPIES = (AxisKind.UNROLL, AxisKind.VECTOR)  # of these ranges no loop is made


def late_terms(uops: Sequence[UOp], unrolled: Mapping[int, UOp]) -> dict[UOp, list[UOp]]:
    """Return, for each ACCUM of more than FEW registers, the operations that it alone needs, in their order.

    Those of the same loop and with as many copies, of the UNROLL ranges `unrolled` by axis: what several copies share
    is written once before them.
    """
    found: dict[UOp, list[UOp]] = {}
    copied = sum(1 << axis for axis in unrolled)
    users = users_of(uops)
    for number, u in enumerate(uops):
        mine = u.ranges & copied
        if u.op is not Ops.ACCUM or u.src[0].ranges & copied != mine or _count(mine, unrolled) <= FEW:
            continue
        needed: dict[UOp, int] = {}
        for source in u.src[1:]:
            needed[source] = needed.get(source, 0) + 1
        nodes: list[UOp] = []
        for before in reversed(uops[:number]):
            if before.op is Ops.END or (before.op is Ops.RANGE and before.arg.kind not in _COPIES):
                break
            if before.op in ELEMENTWISE and needed.get(before) == users[before] and before.ranges & copied == mine:
                nodes.append(before)
                for source in before.src:
                    needed[source] = needed.get(source, 0) + 1
        if nodes:
            found[u] = nodes[::-1]
    return found


def _count(mask: int, unrolled: Mapping[int, UOp]) -> int:
    """Return how many copies there are of a node with these ranges."""
    return math.prod(int(r.src[0].arg) for axis, r in unrolled.items() if mask >> axis & 1)
