"""Depthwise convolutions, and their gradients for the image, that a routine of the device computes where it is faster.

Kernels slide a window over a copy with zeros around (codegen/stencil.py), and do with the results what follows. So does
the routine, but for that: its results are read again. It needs no copy for windows of 3x3, has lanes that are channels
where rows are short, and interleaves what slides back in steps as it stores it, which kernels do by a copy of its own.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tinygraft.helpers import prod
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE, Ops
from tinygraft.uop.uop import UOp

NAME = "depthwise_convolution"
MOVED = {Ops.RESHAPE, Ops.PERMUTE, Ops.SHRINK}
# measured: beside kernels (2026-11-29, two threads of a Sapphire Rapids, benchmarks/NOTES.md)
NARROW = 8  # columns of results up to which lanes are channels, at half of a vector and less
LARGE = 25  # elements of a window, from which the routine gains more than it takes to read results once more
WIDE = 20  # columns of results, below which kernels do other windows as fast
LONG = 256  # columns of results of one row, which is divided into rows of a tile
MOST = 1 << 28  # given: elements of a plane; the routine has 32 bits for places in it


def is_depthwise_faster(
    sizes: tuple[int, int, int, int, int],
    window: tuple[int, int],
    step: tuple[int, int],
    results: tuple[int, int],
    turned: bool,
    stored: bool,
    target: Target,
) -> bool:
    """Return whether the routine is expected to take less time than kernels.

    `sizes` are those of x, (batch, channels, 1, height, width); a `step` of 0 is for what slides back in steps.
    `stored` says whether results are memory with kernels too.
    """
    lanes = target.vector_bytes // 4
    if max(sizes[3] + window[0], results[0]) * max(sizes[4] + window[1], results[1]) > MOST:
        return False
    if max(step) == 0:
        return True
    large = prod(window) >= LARGE
    if results[1] <= NARROW and 2 * results[1] <= lanes and sizes[1] >= lanes:
        return large or stored
    if turned:
        return results[1] >= WIDE and (large or stored)
    by_rows = window == (3, 3) and results[1] >= WIDE
    if results[0] == window[0] == 1:
        return stored and results[1] >= LONG and window[1] > 1
    return stored and (max(step) > 1 or by_rows or (large and results[1] >= 2 * WIDE))


def alone(
    found: Container[UOp], order: Sequence[UOp], outputs: Sequence[UOp], ends: Mapping[UOp, UOp] | None = None
) -> set[UOp]:
    """Return which of the nodes `found` of a graph are memory anyway: no one operation is all that reads them.

    Where one is, a kernel that computes the node does it too. `ends` are what the routine of a node computes from it.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for source in dict.fromkeys(node.src):
            users.setdefault(source, []).append(node)
    wanted, stored = set(outputs), set[UOp]()
    for node in order:
        if node not in found:
            continue
        last = (ends or {}).get(node, node)
        read = users.get(last, [])
        while last not in wanted and len(read) == 1 and read[0].op in MOVED:
            last, read = read[0], users.get(read[0], [])
        if last in wanted or len(read) != 1 or read[0].op not in ELEMENTWISE:
            stored.add(node)
    return stored
