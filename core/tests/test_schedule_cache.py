"""Schedules by form: equal graphs on other buffers are scheduled once, different ones never share."""

from __future__ import annotations

import pytest

from tinygraft import Context, Tensor
from tinygraft.dtype import dtypes
from tinygraft.schedule import cache
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


@pytest.fixture(autouse=True)
def empty():
    """Each test starts without schedules, on the PYTHON device."""
    cache.clear()
    with Context(DEV="PYTHON"):
        yield
    cache.clear()


def numbers(*values: float) -> Tensor:
    """Values in memory."""
    return Tensor(list(values)).realize()


def test_equal_graphs_on_other_buffers_are_scheduled_once(monkeypatch):
    """The second turn of a computation does not schedule, and has the values of its own buffers."""
    made = []
    real = cache.schedule
    monkeypatch.setattr(cache, "schedule", lambda *args: made.append(1) or real(*args))
    for turn in range(4):
        a, b = numbers(turn, 2.0), numbers(3.0, turn)
        assert (a * b + a.sum()).tolist() == [turn * 3.0 + turn + 2, 2.0 * turn + turn + 2]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda a, b: a + b, lambda a, b: a - b),
        (lambda a, b: a * 1.0, lambda a, b: a * -1.0),
        (lambda a, b: a * 0.0, lambda a, b: a * -0.0),
        (lambda a, b: a - b, lambda a, b: b - a),
        (lambda a, b: a + a, lambda a, b: a + b),
        (lambda a, b: a.flip(0), lambda a, b: a.flip(0) + 0 * b),
        (lambda a, b: a[:1], lambda a, b: a[1:]),
        (lambda a, b: (a > 1).cast("int32"), lambda a, b: (a > 1).cast("int8")),
    ],
)
def test_graphs_that_differ_do_not_share(first, second):
    """An op, a constant's sign, the roles of the buffers, a slice, a dtype: each is part of the form."""
    for compute in (first, second, first, second):
        a, b = numbers(1.0, 2.0), numbers(5.0, 7.0)
        found = compute(a, b).tolist()
        cache.clear()
        assert str(found) == str(compute(a, b).tolist())


def test_assigns_are_in_place_in_every_turn():
    """What is written over is the buffer of this turn."""
    for turn in range(4):
        t = numbers(turn, 1.0)
        buffer = t.uop.base.realized
        t.assign(t.flip(0) + t).realize()
        assert t.uop.base.realized is buffer
        assert t.tolist() == [turn + 1.0, turn + 1.0]


def test_old_forms_go_and_no_buffer_is_kept(monkeypatch):
    """At most MOST forms are kept, and they hold no memory."""
    monkeypatch.setattr(cache, "MOST", 3)
    for size in range(1, 8):
        (Tensor([1.0] * size).realize() + 1).realize()
    assert len(cache._prepared) == 3
    prepared = next(iter(cache._prepared.values()))
    assert all(call.buffers == () for call, _ in prepared.calls)


def test_the_size_of_a_buffer_and_the_target_are_part_of_the_form():
    """The same op on longer memory, or for a device that can do less, is another schedule."""

    def kernels(size, most):
        x = UOp.buffer("PYTHON", size, dtypes.float32)
        for _ in range(8):
            x = UOp(Ops.NEG, x.dtype, (x,))
        return [call.kernel for call in cache.scheduled([x], lambda _: Target(max_ops=most)).calls]

    assert kernels(4, 100) == kernels(4, 100)
    assert kernels(4, 100) != kernels(6, 100)
    assert len(kernels(4, 100)) == 1
    assert len(kernels(4, 6)) == 2
