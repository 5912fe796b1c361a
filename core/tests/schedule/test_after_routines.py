"""What becomes a step of a routine: values with one use, by ops that the device declares, of operands in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft import Context, Device, Tensor, dtypes, nn
from tinygraft.schedule.schedule import schedule
from tinygraft.target import DeclaredRoutine
from tinygraft.uop.epilogues import StepOperand, steps_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import RoutineCall

PLAIN = DeclaredRoutine("direct_convolution", (dtypes.float32,))
TARGET = replace(
    Device["PYTHON"].target,
    vector_bytes=64,
    registers=32,
    routines=(replace(PLAIN, epilogue=(Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX)),),
)
RELU = [(Ops.MAX, StepOperand.NUMBER)]
NORM = [
    (Ops.SUB, StepOperand.CHANNEL),
    (Ops.MUL, StepOperand.CHANNEL),
    (Ops.MUL, StepOperand.CHANNEL),
    (Ops.ADD, StepOperand.CHANNEL),
]


@pytest.fixture(autouse=True)
def python() -> object:
    """All of this is scheduled for PYTHON's name, with another Target."""
    with Context(DEV="PYTHON"):
        yield


def memory(*shape: int) -> Tensor:
    """Return a tensor that is memory."""
    return Tensor.empty(*shape).realize()


def convolved(x: Tensor, groups: int = 1) -> Tensor:
    """Return a convolution of x with as many filters as channels."""
    channels = int(x.shape[1])
    return x.conv2d(memory(channels, channels // groups, 3, 3), padding=1, groups=groups)


def calls(*tensors: Tensor, target: object = TARGET) -> tuple[list[list[tuple[Ops, int]]], int]:
    """Return the steps of each routine that computes tensors, and how many kernels there are beside."""
    found = schedule([t.uop for t in tensors], lambda _: target).calls
    steps = [steps_of(c.routine.options[7:]) for c in found if isinstance(c, RoutineCall)]
    return [[(step.op, step.kind) for step in s] for s in steps], len(found) - len(steps)


X = (2, 64, 28, 30)


def test_a_block_is_two_routines() -> None:
    """Batch norm, relu, and the way around: one kernel each for what scales channels, and none for images."""
    x = memory(*X)
    first, second = nn.BatchNorm(64), nn.BatchNorm(64)
    for norm in (first, second):
        for p in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            p.realize()
    y = first(convolved(x)).relu()
    assert calls((second(convolved(y)) + x).relu()) == (
        [NORM + RELU, [*NORM, (Ops.ADD, StepOperand.ELEMENT), *RELU]],
        2,
    )


def test_a_bias_and_numbers() -> None:
    """On either side where order means nothing; of groups too."""
    found = 2.0 * memory(*X).conv2d(memory(96, 32, 3, 3), memory(96), groups=2)
    assert calls(found.maximum(1)) == (
        [[(Ops.ADD, StepOperand.CHANNEL), (Ops.MUL, StepOperand.NUMBER), (Ops.MAX, StepOperand.NUMBER)]],
        0,
    )


def test_what_has_other_uses_stays() -> None:
    """What is requested, and what two nodes read: the steps before it are in the routine."""
    c = convolved(memory(*X))
    scaled = c * 2.0
    assert calls(scaled, scaled.relu())[0] == [[(Ops.MUL, StepOperand.NUMBER)]]
    c = convolved(memory(*X))
    assert calls(c * c)[0] == [[]]
    c = convolved(memory(*X)) + 1.0
    assert calls(c.relu() + c.exp()) == ([[(Ops.ADD, StepOperand.NUMBER)]], 1)


def test_two_sums_that_are_added() -> None:
    """One routine adds the other's results."""
    a, b = convolved(memory(*X)), convolved(memory(*X))
    steps, kernels = calls((a + b * 3.0).relu())
    assert sorted(map(len, steps)) == [1, 2]
    assert kernels == 0


@pytest.mark.parametrize(
    "go_on",
    [
        lambda c, x: 1.0 / c,
        lambda c, x: c.exp(),
        lambda c, x: c + x.exp(),  # that would be a kernel of its own
        lambda c, x: c + x[:, :, :1],  # one for each column
        lambda c, x: c.permute(1, 0, 2, 3) + x.permute(1, 0, 2, 3),
        lambda c, x: memory(64, 1, 1) - c,
        lambda c, x: (c > 0).where(c, x),
        lambda c, x: c.sum(),
        lambda c, x: c.pad((1, 1)) + 1,
    ],
)
def test_what_is_no_step(go_on: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Other ops, other operands, and what is turned round."""
    x = memory(*X)
    assert calls(go_on(convolved(memory(*X)), x))[0] == [[]]


def test_devices_declare_it() -> None:
    """One without, and one for other ops, has kernels."""
    x = memory(*X)
    assert calls((convolved(x) + 1.0).relu(), target=replace(TARGET, routines=(PLAIN,))) == ([[]], 1)
    some = replace(TARGET, routines=(replace(PLAIN, epilogue=(Ops.ADD,)),))
    assert calls((convolved(x) + 1.0).relu(), target=some) == ([[(Ops.ADD, StepOperand.NUMBER)]], 1)


def test_values_that_wait() -> None:
    """What is overwritten is read before, by whichever call does."""
    x, y = memory(*X), memory(*X)
    found = (convolved(x) + y).relu()
    y.assign(Tensor.full(X, 2.0).contiguous())
    assert calls(found)[0][0][:1] == [(Ops.ADD, StepOperand.ELEMENT)]
