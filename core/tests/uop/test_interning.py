"""Interning: equal parts are one node, constants differ by dtype and bits, and a node ends with its last user."""

from __future__ import annotations

import gc
import pickle
import threading

import pytest

from tinygraft import Tensor, Variable
from tinygraft.dtype import dtypes
from tinygraft.uop import uop
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, live_nodes, make_again, rebuild, steps_to


def test_equal_parts_are_one_node() -> None:
    """The same op, dtype, sources, arg and tag give the same object; another tag is another node."""
    x = UOp.variable("x", 0, 9)
    assert x + 1 is x + 1
    assert x + 1 is not x + 2
    assert (x + 1).replace(tag="seen") is not x + 1
    assert (x + 1).replace(tag="seen").replace(tag=None) is x + 1


def test_constants_are_told_apart_by_dtype_and_bits() -> None:
    """1, True and 1.0 are equal in Python and three nodes here; so are 0.0 and -0.0. One NaN is one node."""
    kinds = [(dtypes.int32, 1), (dtypes.int64, 1), (dtypes.bool, True), (dtypes.float32, 1.0), (dtypes.float64, 1.0)]
    kinds += [(dtypes.float32, 0.0), (dtypes.float32, -0.0), (dtypes.float32, float("nan"))]
    nodes = [UOp.const(*kind) for kind in kinds]
    assert len({id(node) for node in nodes}) == len(kinds)
    assert UOp.const(dtypes.float32, float("nan")) is nodes[-1]
    assert UOp.const(dtypes.float32, 1) is UOp.const(dtypes.float32, 1.0), "a value is of its dtype when it is made"


def test_a_node_ends_with_its_last_user() -> None:
    """A graph that nobody holds is freed at once, without the collector, however deep it is."""
    x = UOp.variable("gone", 0, 9)
    gc.collect()
    gc.disable()
    try:
        before = live_nodes()
        deep = x
        for i in range(20_000):
            deep = UOp(Ops.ADD, dtypes.index, (deep, UOp.const(dtypes.index, i)))
        assert live_nodes() >= before + 20_000
        del deep
        assert live_nodes() <= before + 5  # the loop's last constant may be held
    finally:
        gc.enable()


def test_threads_make_one_node() -> None:
    """Eight threads that build the same graphs at once hold the same objects."""
    made: list[list[UOp]] = []
    start = threading.Barrier(8)

    def build() -> None:
        start.wait()
        x = UOp.variable("shared", 0, 99)
        made.append([x + i for i in range(2000)])

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    for nodes in zip(*made, strict=True):
        assert len({id(node) for node in nodes}) == 1


def test_a_pickled_node_comes_back_as_itself() -> None:
    """In the same process unpickling gives the node that is there."""
    node = UOp.variable("kept", 0, 9) * 3 + 1
    assert pickle.loads(pickle.dumps(node)) is node


def test_a_view_that_is_written_moves_with_its_base_also_where_it_is_replaced() -> None:
    """The place of an assignment is no value: the sizes of its movements stay, though nobody else has them."""
    start = Variable("start", 0, 2).bind(1)
    base, other = Tensor.empty(3, 4).uop, Tensor.empty(3, 4).uop
    view = Tensor(base)[start : start + 1].uop
    value = Tensor.empty(1, 4).uop
    write = UOp(Ops.ASSIGN, base.dtype, (base, value, view))
    assert rebuild((write,), {view: value})[write] is write
    moved = rebuild((write,), {view: value, base: other})[write]
    assert moved.src == (other, value, Tensor(other)[start : start + 1].uop)


def test_a_rule_is_asked_once_for_each_node() -> None:
    """With the node as it was and on its new sources; not about what it has made, nor about what was replaced."""
    x, y = UOp.variable("x", 0, 9), UOp.variable("y", 0, 9)
    asked: list[tuple[UOp, UOp]] = []

    def negated(node: UOp, new: UOp) -> UOp:
        asked.append((node, new))
        return UOp(Ops.NEG, new.dtype, (new,)) if new.op is Ops.ADD else new

    total = (x + y) * 2
    done = rebuild((total,), {y: x}, negated)
    assert {node for node, _ in asked} == {x, x + y, total, *total.src[1:]}
    assert len(asked) == 4
    assert done[x + y] is UOp(Ops.NEG, dtypes.index, (x + x,))
    assert done[total].src[0] is done[x + y]


def test_a_step_that_is_repeated_makes_the_node_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of steps interns as UOp does: constants by their bits, of which 0.0 and -0.0 are two."""
    monkeypatch.setattr(uop, "check_node", None)  # with SPEC the rules make each node, and these compare
    device = UOp(Ops.DEVICE, arg="CPU")
    made = [UOp(Ops.CONST, dtypes.float32, (device,), number) for number in (0.0, -0.0, 2.5)]
    made += [UOp(Ops.ADD, dtypes.float32, (made[2], made[1]))]
    constants, steps = steps_to(made, {device: 0})
    nodes = [device, *constants]
    make_again(steps, nodes)
    assert all(one is other for one, other in zip(nodes[1:], made, strict=True))
    assert made[0] is not made[1]
