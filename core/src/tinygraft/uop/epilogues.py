"""Epilogues: what a routine does with each of its results before it stores it, as options and operands behind its own.

An epilogue is a list of steps, each an op on the result so far (left) and one operand (right): a number, one element
for each channel, or one for each result. A device declares for which ops its routine has it
(`DeclaredRoutine.epilogue`), the schedule decides what becomes one (schedule/after_routines.py), and a step means what
a kernel of that op computes, rounded by itself: results have the bits that they would have in two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from tinygraft.uop.ops import Ops

OPS = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX)


class StepOperand(IntEnum):
    """Kinds of operands of a step; a number is no operand of the routine, but an option."""

    NUMBER = 0
    CHANNEL = 1
    ELEMENT = 2


class EpilogueStep(NamedTuple):
    """An op, what its other operand is, and of a NUMBER the bits of the float32."""

    op: Ops
    kind: StepOperand
    bits: int = 0


def to_options(steps: Sequence[EpilogueStep]) -> tuple[int, ...]:
    """Return steps as options of a routine, two of each."""
    return tuple([n for step in steps for n in (OPS.index(step.op) * 3 + int(step.kind), step.bits)])


def steps_of(options: Sequence[int]) -> list[EpilogueStep]:
    """Return the steps that options are.

    >>> after = [EpilogueStep(Ops.MUL, StepOperand.CHANNEL), EpilogueStep(Ops.MAX, StepOperand.NUMBER)]
    >>> to_options(after), steps_of(to_options(after)) == after
    ((7, 0, 9, 0), True)
    """
    pairs = zip(options[::2], options[1::2], strict=True)
    return [EpilogueStep(OPS[code // 3], StepOperand(code % 3), bits) for code, bits in pairs]
