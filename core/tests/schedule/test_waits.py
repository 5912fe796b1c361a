"""AFTER in the tensor graph: the value of one node, in kernels that come after another one is there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tinygraft import Tensor
from tinygraft.engine.plan import target_of
from tinygraft.schedule.schedule import schedule
from tinygraft.schedule.waits import order_with_waits, without_waits
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import UOp


def after(x: Tensor, y: Tensor) -> Tensor:
    """x, once y is there."""
    return x._wrap(UOp(Ops.AFTER, x.dtype, (x.uop, y.uop)))


def places(outputs: Sequence[Tensor]) -> list[int]:
    """At which place in the schedule each output is written."""
    made = schedule([t.uop for t in outputs], target_of)
    calls = [call for call in made.calls if isinstance(call, KernelCall)]
    return [
        next(i for i, call in enumerate(calls) if made.memory[t.uop] in [call.buffers[slot] for slot in call.written])
        for t in outputs
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_what_waits_comes_later(turned: bool) -> None:
    """Two rows of values, of which one waits for the sum over the other; in one kernel they may come together."""
    a, b = Tensor([1.0, 2.0, 3.0]).realize(), Tensor([[1.0] * 64] * 64).realize()
    first = (b @ b).contiguous()
    second = (after(a, first) * 3).contiguous()
    outputs = [second, first] if turned else [first, second]
    found = dict(zip(map(id, outputs), places(outputs), strict=True))
    assert found[id(first)] < found[id(second)]
    assert (second.tolist(), first[0, 0].item()) == ([3.0, 6.0, 9.0], 64.0)


def test_waiting_for_what_nobody_computes_is_no_work() -> None:
    """What is only waited for, and is no output, is not computed."""
    a = Tensor([1.0, 2.0, 3.0]).realize()
    lonely = after(a, (a * 5).contiguous()) * 3
    assert len(schedule([lonely.uop], target_of).calls) == 1
    assert lonely.tolist() == [3.0, 6.0, 9.0]


def test_the_gradient_is_that_of_the_value() -> None:
    """Nothing flows to what was waited for."""
    a, b = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    assert [g.tolist() for g in (after(a, b) * a).sum().gradient(a, b)] == [[4.0], [0.0]]


def test_order_follows_what_is_waited_for() -> None:
    """A node that waits comes after what it waits for, also where nothing else orders them."""
    a = Tensor([1.0, 2.0]).realize()
    y = (a + 1).uop
    x = after(a, Tensor(y)).uop
    outputs, waits = without_waits([x * 2.0, y])
    assert {node.op for node in waits} == {Ops.RESHAPE}
    turn = order_with_waits(outputs, waits)
    assert all(node.op is not Ops.AFTER for node in turn)
    for node, awaited in waits.items():
        assert turn.index(awaited) < turn.index(node)
