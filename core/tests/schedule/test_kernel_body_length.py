"""LENGTH, by which the scheduler cuts chains, against what rules write out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft import Tensor, dtypes
from tinygraft.rules.decompose import RULES, decompose
from tinygraft.schedule.kernel_body import LENGTH
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE, FUNCTIONS, Ops
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import UOp, toposort

TARGET = replace(Target(), native_ops=Target().native_ops | {Ops.SQRT})  # as processors have it


def written(op: Ops) -> int:
    """How many elementwise instructions an op is in float64."""
    x = Tensor([0.5, 0.25, 0.75], dtype=dtypes.float64).realize().uop
    value = UOp(op, dtypes.float64, (x,))
    calls = [call for call in Tensor(value).schedule() if isinstance(call, KernelCall)]
    return sum(node.op in ELEMENTWISE for node in toposort(decompose(calls[0].kernel.sink, TARGET)))


@pytest.mark.parametrize("op", sorted(FUNCTIONS & RULES.keys(), key=lambda op: op.name))
def test_the_length_of_a_function_is_about_what_it_becomes(op: Ops) -> None:
    """A function that counts as one instruction lets kernels grow until their compiler takes minutes."""
    assert op in LENGTH
    assert 0.5 <= LENGTH[op] / written(op) <= 2.5
