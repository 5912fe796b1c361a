"""THREEFRY in 32-bit operations: 64 random bits from a 64-bit counter and key.

In: two nodes of uint64. Out: a node of uint64, equal to meanings.threefry2x32 for every counter and key.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from tinygraft.dtype import dtypes
from tinygraft.rules.target_ops import RuleRow, TargetOps
from tinygraft.uop.meanings import THREEFRY_PARITY, THREEFRY_ROTATIONS
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

ROUNDS = 20


def threefry(ops: TargetOps, counter: UOp, key: UOp) -> UOp:
    """Threefry 2x32 with 20 rounds; a key word is added before the rounds and after every fourth."""
    x0, x1 = _halves(counter)
    k0, k1 = _halves(key)
    keys = (k0, k1, k0 ^ k1 ^ THREEFRY_PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(ROUNDS):
        rotation = THREEFRY_ROTATIONS[i // 4 % 2][i % 4]
        x0 = x0 + x1
        x1 = x0 ^ (x1 << rotation | x1 >> (32 - rotation))
        if i % 4 == 3:
            injection = i // 4 + 1
            x0, x1 = x0 + keys[injection % 3], x1 + keys[(injection + 1) % 3] + injection
    return x1.cast(dtypes.uint64) << 32 | x0.cast(dtypes.uint64)


def _halves(x: UOp) -> tuple[UOp, UOp]:
    """The low and the high 32 bits."""
    return x.alu(Ops.AND, 0xFFFFFFFF).cast(dtypes.uint32), (x >> 32).cast(dtypes.uint32)


RULES: tuple[RuleRow, ...] = ((Ops.THREEFRY, threefry),)
