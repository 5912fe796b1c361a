"""Running sums and products of rows that a routine of the device computes: which ones.

    becomes = rows_by_routine(order, target_of)

A SCAN that loops is one element after another in each row, or blocks whose elements are read twice, in several kernels
(blocked_scans.py). The routine has several rows side by side, or parts of a row, which no loop of a kernel is. Along
other axes than the last one the rows of kernels are vectors already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygraft.helpers import prod
from tinygraft.schedule.blocked_scans import is_long
from tinygraft.schedule.transposed import in_memory
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, rebuild

NAME = "running"


def rows_by_routine(order: Sequence[UOp], target_of: Callable[[str], Target]) -> dict[UOp, UOp]:
    """Return what becomes of each node of the graph `order` (sources before users); empty where nothing changes."""
    chosen = {node for node in order if is_long(node) and _suits(node, target_of)}
    if not chosen:
        return {}

    def replace(node: UOp, new: UOp) -> UOp:
        """Return the ROUTINE of a chosen node, on what its operand became; of other nodes what they are."""
        if node not in chosen:
            return new
        (x,) = new.src
        length = x.shape[-1]
        rows = in_memory(x, (prod(x.shape[:-1]), length))
        found = UOp(Ops.ROUTINE, x.dtype, (rows,), RoutineArg(NAME, 0, (int(new.arg.op is Ops.MUL),)))
        return UOp(Ops.RESHAPE, x.dtype, (found,), x.shape)

    return rebuild(order, {}, replace)


def _suits(node: UOp, target_of: Callable[[str], Target]) -> bool:
    """Return whether a long SCAN is a running sum or product of rows, and the device has the routine for its dtype."""
    shape, arg = node.shape, node.arg
    if arg.op not in (Ops.ADD, Ops.MUL) or arg.axis != len(shape) - 1 or not is_concrete(shape):
        return False
    if not isinstance(node.device, str):
        return False
    return target_of(node.device).has_routine(NAME, node.dtype, prod(shape))
