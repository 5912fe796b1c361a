"""TargetOps: build the nodes of a decomposition in the ops that a Target has.

A rule of rules.decompose takes TargetOps and the operands of an op, and returns a node of the same value, or None where
it does not hold for them. It may use every op of BASIC_OPS freely; for any other it calls `ops(op, ...)`, which
decomposes in turn.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinygraft import events
from tinygraft.dtype import DType, dtypes
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.rulebook import reported
from tinygraft.uop.uop import UOp

LoweringRule = Callable[..., UOp | None]
RuleRow = tuple[Ops, LoweringRule]  # a row of a table of rules


@dataclass(frozen=True, slots=True)
class FloatLayout:
    """The bit fields of a float dtype; `low_half` masks the lower half of its mantissa."""

    dtype: DType
    mantissa: int
    bias: int
    signed: DType
    unsigned: DType
    low_half: int

    @property
    def sign(self) -> int:
        """Return the sign bit."""
        return 1 << (self.dtype.bits - 1)

    @property
    def infinity(self) -> int:
        """Return the bits of inf."""
        return (2 * self.bias + 1) << self.mantissa

    def bits(self, value: float) -> int:
        """Return the bits of a number."""
        fmt = ("<I", "<f") if self.dtype is dtypes.float32 else ("<Q", "<d")
        return struct.unpack(fmt[0], struct.pack(fmt[1], value))[0]  # type: ignore[no-any-return]


LAYOUT = {
    dtypes.float32: FloatLayout(dtypes.float32, 23, 127, dtypes.int32, dtypes.uint32, (1 << 12) - 1),
    dtypes.float64: FloatLayout(dtypes.float64, 52, 1023, dtypes.int64, dtypes.uint64, (1 << 27) - 1),
}


class TargetOps:
    """The ops of a Target, and the rules that decompose those it lacks."""

    target: Target
    rules: Mapping[Ops, Sequence[LoweringRule]]

    def __init__(self, target: Target, rules: Mapping[Ops, Sequence[LoweringRule]]) -> None:
        self.target, self.rules = target, rules

    def __call__(self, op: Ops, *src: UOp) -> UOp:
        """Return `op` of `src`, decomposed where the Target lacks it."""
        return src[0].alu(op, *src[1:]) if op in self.target.native_ops else self.lowered(op, *src)

    def lowered(self, op: Ops, *src: UOp) -> UOp:
        """Return `op` of `src` by the first of its rules that holds. Raises LookupError where none does."""
        for rule in self.rules[op]:
            if (found := rule(self, *src)) is not None:
                return reported(rule, found) if events.on_rule else found
        raise LookupError(f"no rule of {op} holds for operands of {[s.dtype for s in src]}")

    def multiply_add(self, a: UOp, b: UOp, c: UOp) -> UOp:
        """Return a * b + c, rounded once where FMA is an instruction, else twice: where both are exact enough."""
        return a.alu(Ops.FMA, b, c) if self.target.fused_sums else a * b + c

    def polynomial(self, x: UOp, coefficients: Sequence[float]) -> UOp:
        """Return the polynomial in `x` with these coefficients, lowest first, by Horner's rule."""
        total = x.const_like(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.multiply_add(total, x, x.const_like(c))
        return total


def magnitude(x: UOp) -> UOp:
    """Return `x` without its sign."""
    form = LAYOUT[x.dtype]
    return (x.bitcast(form.unsigned) & (form.sign - 1)).bitcast(x.dtype)


def signed(size: UOp, x: UOp) -> UOp:
    """Return `size`, whose sign bit is clear, with the sign of `x`."""
    form = LAYOUT[x.dtype]
    return (size.bitcast(form.unsigned) | (x.bitcast(form.unsigned) & form.sign)).bitcast(x.dtype)


def at_most(x: UOp, limit: float) -> UOp:
    """Return `x`, or `limit` where `x` is greater; NaN for NaN."""
    return (x > limit).where(x.const_like(limit), x)


def trimmed(x: UOp) -> UOp:
    """Return `x` with the lower half of its mantissa cleared: the product of two such numbers is exact."""
    form = LAYOUT[x.dtype]
    return (x.bitcast(form.unsigned) & (2 * form.sign - 1 - form.low_half)).bitcast(x.dtype)
