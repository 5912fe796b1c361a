"""What a routine does with its results before it stores them: which steps of a graph become its epilogue.

    chains = epilogues(order, kept, starts, limits)

A kernel that scales, shifts or adds to what a routine has stored reads and writes all of it once more. Where a device
declares that its routine applies these ops, they become steps of it (uop/epilogues.py), one after another from the
routine's value on, as long as the value has one use and is not requested itself: batch norm, the way around a block
and relu. Operands are in memory when the routine runs: numbers, what is one element for each channel, and values as
large as the results that are stored anyway, or that a kernel makes of a sum.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinygraft.dtype import dtypes
from tinygraft.uop.epilogues import EpilogueStep, StepOperand
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops
from tinygraft.uop.uop import UOp

MOST_STEPS = 16  # given: of an epilogue, which is room enough in a routine
MOST_BELOW = 16  # assumed: nodes between a value and the sum that it is made of


@dataclass(slots=True)
class Epilogue:
    """The steps after a routine, with the node of the operand of each (None for a number), and the last node of all."""

    last: UOp
    steps: list[EpilogueStep] = field(default_factory=list)
    operands: list[UOp | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Start:
    """What begins an epilogue: the results of a routine, (batch, groups, channels, rows, columns), and its `ops`."""

    results: tuple[int, ...]
    ops: tuple[Ops, ...]
    reads: tuple[UOp, ...]


def epilogues(order: Sequence[UOp], kept: set[UOp], starts: Mapping[UOp, Start]) -> dict[UOp, Epilogue]:
    """Return the epilogue of each node of `starts` that has one, for a graph `order` (sources before users).

    Nodes of `kept` are requested, or wait for others, and remain what they are.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for source in node.src:
            users.setdefault(source, []).append(node)
    stored = {memory_base(operand) for start in starts.values() for operand in start.reads}
    taken: set[UOp] = set()
    found: dict[UOp, Epilogue] = {}
    for first in (node for node in order if node in starts):
        start, node, chain = starts[first], first, Epilogue(first)
        while node not in kept and len(after := users.get(node, [])) == 1 and len(chain.steps) < MOST_STEPS:
            (user,) = after
            if user.op is Ops.RESHAPE:
                node = user
                continue
            operand = None if user in taken else _step(user, node, start, stored)
            if operand is None:
                break
            step, other = operand
            node = chain.last = user
            chain.steps.append(step)
            chain.operands.append(other)
            taken.add(user)
        if chain.steps:
            found[first] = chain
            stored.add(chain.last)
    return found


def _step(user: UOp, node: UOp, start: Start, stored: set[UOp]) -> tuple[EpilogueStep, UOp | None] | None:
    """Return the step that `user`, the one use of `node`, is, with the node of its operand; None where it is none."""
    if user.op not in start.ops or user.dtype is not dtypes.float32 or any(s.dtype != user.dtype for s in user.src):
        return None
    left = user.src[0] is node
    if not left and user.op in (Ops.SUB, Ops.MAX):
        return None
    other = user.src[1] if left else user.src[0]
    number = other
    while number.op in (Ops.EXPAND, Ops.RESHAPE):
        number = number.src[0]
    if number.op is Ops.CONST:
        (bits,) = struct.unpack("<I", struct.pack("<f", number.arg))
        return EpilogueStep(user.op, StepOperand.NUMBER, bits), None
    batch, groups, channels, rows, columns = start.results
    # the shape of a value for each channel, in those that results have
    whole = {
        (batch, groups, channels, rows, columns): (1, groups, channels, 1, 1),
        (batch, groups * channels, rows, columns): (1, groups * channels, 1, 1),
    }
    if rows == 1:  # of one spatial axis
        whole |= {(batch, groups, channels, columns): (1, groups, channels, 1)}
        whole |= {(batch, groups * channels, columns): (1, groups * channels, 1)}
    each = whole.get(user.shape)
    if each is None:
        return None
    if other.op is Ops.EXPAND and other.src[0].shape == each:
        return EpilogueStep(user.op, StepOperand.CHANNEL), other.src[0]
    base = memory_base(other)
    if base.op is Ops.BUFFER or base in stored or _is_of_sum(base):
        return EpilogueStep(user.op, StepOperand.ELEMENT), other
    return None


def _is_of_sum(node: UOp) -> bool:
    """Return whether a value is computed from a sum with as many elements, whose kernel stores it."""
    pending, seen = [node], set[UOp]()
    while pending and len(seen) < MOST_BELOW:
        node = pending.pop()
        if node.op is Ops.REDUCE_AXIS:
            return True
        seen.add(node)
        if node.op in ELEMENTWISE or node.op in MOVEMENT - {Ops.EXPAND}:
            pending += [s for s in node.src if s not in seen]
    return False
