"""What a call does beside its launches: a replay does it too, or the function is run in every call.

Each program runs with TinyJit and without it, and has to return the same. A reader found these, most of them silent.
"""

from __future__ import annotations

import gc
import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from failures import failing, value_of
from tinygraft import Context, Tensor, TinyJit, Variable, nn
from tinygraft.errors import GraphError

Jit = Callable[[Callable[..., Any]], Any]
PROGRAMS: dict[str, Callable[[Jit], Any]] = {}


@pytest.fixture(autouse=True)
def python():
    """All of this runs on PYTHON."""
    with Context(DEV="PYTHON"):
        yield


def program(function: Callable[[Jit], Any]) -> Callable[[Jit], Any]:
    """List a program by its name."""
    PROGRAMS[function.__name__] = function
    return function


def floats(*values: float) -> Tensor:
    """Numbers in memory."""
    return Tensor([float(value) for value in values]).realize()


def leaf(*values: float) -> Tensor:
    """A leaf in memory."""
    return Tensor([float(value) for value in values], requires_grad=True).realize()


def listed(tensor: Tensor | None) -> list[float] | None:
    """The values of a grad, if there is one."""
    return None if tensor is None else tensor.tolist()


class Holder:
    """An object with attributes."""

    last: Any = None
    tensor: Any = None


# Gradients


@program
def backward_through_the_tape_of_an_argument(jit: Jit) -> Any:
    """Each argument was computed from the leaf in another way."""
    w = leaf(1, 2)

    def back(h: Tensor) -> Tensor:
        w.grad = None
        h.sum().backward()
        return w.grad.realize()

    f = jit(back)
    return [f((w * k).realize()).tolist() for k in (2, 2, 2, 3, 4)]


@program
def backward_through_the_tape_of_what_is_outside(jit: Jit) -> Any:
    """The value outside is computed anew from the leaf."""
    w = leaf(1, 2)
    h = (w * 2).realize()

    def back() -> Tensor:
        w.grad = None
        h.sum().backward()
        return w.grad.realize()

    f = jit(back)
    out = [f().tolist() for _ in range(3)]
    h.assign(w * 3).realize()
    return [*out, f().tolist()]


@program
def a_layer_is_frozen(jit: Jit) -> Any:
    """A flag outside is set to False after the capture, and to True again."""
    w, u = leaf(1, 2), leaf(1, 2)
    optimizer = nn.optim.SGD([w, u], lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (x * w * u).sum().backward()
        for p in (w, u):
            if p.requires_grad:
                p.assign(p.detach() - 0.1 * p.grad)

    f = jit(step)
    out = []
    with Tensor.train():
        for flag in (True, True, True, False, False, True):
            w.requires_grad_(flag)
            f(floats(1, 1))
            out.append((w.tolist(), u.tolist()))
    return out


@program
def a_grad_that_is_there_when_the_call_begins(jit: Jit) -> Any:
    """A micro-batch outside: the call adds to its gradient, steps, and drops it."""
    w = leaf(1, 2)
    optimizer = nn.optim.SGD([w], lr=0.5)

    def step(x: Tensor) -> None:
        (x * w).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    f = jit(step)
    with Tensor.train():
        for _ in range(3):
            f(floats(1, 1))
        (floats(8, 8) * w).sum().backward()
        f(floats(1, 1))
        f(floats(1, 1))
    return w.tolist(), listed(w.grad)


@program
def a_grad_that_the_call_drops(jit: Jit) -> Any:
    """It does nothing else with the leaf."""
    w = leaf(1, 2)

    def drop(x: Tensor) -> Tensor:
        w.grad = None
        return (x + 1).realize()

    f = jit(drop)
    for _ in range(3):
        f(floats(1, 1))
    (w * w).sum().backward()
    f(floats(1, 1))
    return listed(w.grad)


@program
def steps_only(jit: Jit) -> Any:
    """The gradients come from outside, in new memory each time."""
    w = leaf(1, 2)
    optimizer = nn.optim.SGD([w], lr=0.5)
    f = jit(optimizer.step)
    with Tensor.train():
        for k in range(6):
            if k != 1:
                w.grad = None
            (w * k).sum().backward()
            f()
    return w.tolist()


@program
def a_grad_that_is_returned(jit: Jit) -> Any:
    """It is the result and the leaf's gradient."""
    w = leaf(1, 2)

    def back(x: Tensor) -> Tensor:
        w.grad = None
        (x * w).sum().backward()
        return w.grad

    f = jit(back)
    kept = [f(floats(i, i)) for i in range(5)]
    return [each.tolist() for each in kept], listed(w.grad), kept[-1] is w.grad


@program
def a_grad_that_is_kept(jit: Jit) -> Any:
    """By the program, between calls: a new one comes each time."""
    w, kept = leaf(1, 2), []

    def back(x: Tensor) -> None:
        w.grad = None
        (x * w).sum().backward()

    f = jit(back)
    for i in range(6):
        f(floats(i, 1))
        kept.append(w.grad)
    return [each.tolist() for each in kept]


@program
def a_leaf_that_is_returned(jit: Jit) -> Any:
    """It is that tensor, with its gradient."""
    w = leaf(1, 2)

    def back(x: Tensor) -> Tensor:
        w.grad = None
        (x * w).sum().backward()
        return w

    f = jit(back)
    return [listed(f(floats(i, 1)).grad) for i in range(5)], f(floats(1, 1)) is w


# Values that are left elsewhere


@program
def left_and_returned(jit: Jit) -> Any:
    """One tensor is an attribute and the result."""
    holder = Holder()

    def double(x: Tensor) -> Tensor:
        holder.last = (x * 2).realize()
        return holder.last

    f = jit(double)
    for i in range(5):
        f(floats(i, i))
    return holder.last.tolist()


@program
def a_view_of_the_result_is_left(jit: Jit) -> Any:
    """And the container that is returned."""
    holder = Holder()

    def double(x: Tensor) -> dict[str, Tensor]:
        y = x * 2
        holder.last, holder.tensor = {"y": y}, y[0:1]
        return holder.last

    f = jit(double)
    for i in range(5):
        f(floats(i, i))
    return holder.last["y"].tolist(), holder.tensor.tolist()


@program
def an_argument_is_left(jit: Jit) -> Any:
    """Itself, a view of it, and a list that was given."""
    holder = Holder()

    def keep(x: Tensor, xs: list[Tensor]) -> Tensor:
        holder.last, holder.tensor = xs, x.detach()
        return (x + xs[0]).realize()

    f = jit(keep)
    for i in range(5):
        f(floats(i, i), [floats(i)])
    return holder.last[0].tolist(), holder.tensor.tolist()


@program
def a_lazy_one_is_assigned_to(jit: Jit) -> Any:
    """Zeros outside, that were never computed."""
    w = Tensor.zeros(2)

    def write(x: Tensor) -> Tensor:
        w.assign(x * 2)
        return (x + 1).realize()

    f = jit(write)
    out = []
    for i in range(5):
        f(floats(i, i))
        out.append(w.tolist())
    return out


@program
def a_lazy_one_is_added_to(jit: Jit) -> Any:
    """An expression outside."""
    s = floats(1, 2) * 3

    def add(x: Tensor) -> None:
        nonlocal s
        s += x

    f = jit(add)
    for i in range(5):
        f(floats(i, i))
    return s.tolist()


@program
def a_flag_in_memory_is_set(jit: Jit) -> Any:
    """To a constant; the program clears it."""
    s = Tensor.zeros(2)
    f = jit(lambda: [s.assign(Tensor.ones(2))][1:])
    out = []
    for _ in range(4):
        f()
        out.append(s.tolist())
        s.assign(Tensor.zeros(2)).realize()
    return out


@program
def a_node_is_replaced(jit: Jit) -> Any:
    """By the argument's, and by a new value's."""
    w, u = floats(1, 2), floats(1, 2)

    def put(x: Tensor) -> None:
        w.replace(x)
        u.replace((x * 2).realize())

    f = jit(put)
    for i in range(5):
        f(floats(i, i))
    return w.tolist(), u.tolist()


# What is outside


@program
def a_twin_that_is_returned(jit: Jit) -> Any:
    """No launch reads it."""
    y = floats(1, 2) + 1
    a, other = y.contiguous(), y.contiguous()
    Tensor.realize(a, other)
    f = jit(lambda x: (a, (x + 1).realize()))
    for i in range(3):
        f(floats(i, i))
    other.assign(floats(5, 5)).realize()
    return f(floats(1, 1))[0].tolist(), a.tolist()


@program
def a_constant_that_is_returned(jit: Jit) -> Any:
    """It has no memory until it is assigned to."""
    a = Tensor.zeros(2)
    f = jit(lambda: (a, a + 1))
    out = [[each.tolist() for each in f()] for _ in range(3)]
    a.assign(floats(5, 5))
    return out, [[each.tolist() for each in f()] for _ in range(3)]


@program
def another_view_of_the_same_memory(jit: Jit) -> Any:
    """A tensor gets other elements of the memory that it had."""
    w = floats(1, 2, 3, 4)
    v = w[0:2]
    f = jit(lambda x: (x + v).realize())
    for i in range(3):
        f(floats(i, i))
    v.replace(w[2:4])
    out = f(floats(0, 0)).tolist()
    w.replace(w.flip(0))
    return out, f(floats(0, 0)).tolist()


@program
def draws_after_a_seed(jit: Jit) -> Any:
    """While another draw is pending."""
    f = jit(lambda: Tensor.rand(2).realize())
    Tensor.manual_seed(1)
    out = [f().tolist() for _ in range(3)]
    lazy = Tensor.rand(2)
    Tensor.manual_seed(5)
    return out, [f().tolist() for _ in range(2)], lazy.tolist()


@program
def the_seed_is_set_inside(jit: Jit) -> Any:
    """In every call."""

    def draw() -> Tensor:
        Tensor.manual_seed(3)
        return Tensor.rand(2).realize()

    f = jit(draw)
    return [f().tolist() for _ in range(5)]


# Kinds of calls


@program
def the_order_of_names(jit: Jit) -> Any:
    """Of keywords, which the function sees."""
    f = jit(lambda **named: (lambda values: (values[0] - values[1]).realize())(list(named.values())))
    x, y = floats(5), floats(3)
    return [f(a=x, b=y).tolist() for _ in range(3)], f(b=y, a=x).tolist()


class Layer:
    """Equal to another one of its name."""

    def __init__(self, name: str, *values: float) -> None:
        self.name, self.w = name, floats(*values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layer) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Net(list):  # type: ignore[type-arg]
    """A list with an attribute."""


@program
def objects_that_say_they_are_equal(jit: Jit) -> Any:
    """Two layers, two lists and two mappings with attributes."""
    f = jit(lambda layer, x: (x * layer.w).realize())
    a, b = Layer("linear", 2, 2), Layer("linear", 3, 3)
    out = [f(a, floats(1, 1)).tolist() for _ in range(3)] + [f(b, floats(1, 1)).tolist()]
    g = jit(lambda net, x: (x * net.scale).realize())
    nets = [Net([1]), Net([1])]
    nets[0].scale, nets[1].scale = 2.0, 3.0
    return out, [g(net, floats(1)).tolist() for net in (nets[0], nets[0], nets[0], nets[1])]


@dataclass(frozen=True)
class Setting:
    """One field is not compared."""

    name: str
    value: Any
    scale: Any = field(default=1, compare=False)


@program
def values_that_are_equal_and_differ(jit: Jit) -> Any:
    """By type, by sign, in fields that are not compared, in the size of a queue, in a mask."""
    cases: list[tuple[Callable[..., Any], Any, Any]] = [
        (lambda x, d: (x * next(iter(d))).realize(), {1: 0}, {1.0: 0}),
        (lambda x, s: (x * s.value).realize(), Setting("a", 1), Setting("a", 1.0)),
        (lambda x, s: (x * s.scale).realize(), Setting("a", 1, 2), Setting("a", 1, 3)),
        (lambda x, s: (x * next(iter(s))[0]).realize(), frozenset([(1,)]), frozenset([(1.0,)])),
        (lambda x, q: (x * q.maxlen).realize(), deque([1], 2), deque([1], 3)),
        (lambda x, m: (x * int(m.sum())).realize(), np.ma.array([5, 2], mask=[0, 0]), np.ma.array([5, 2], mask=[1, 0])),
    ]
    x, out = Tensor([1, 2], dtype="int32").realize(), []
    for function, first, second in cases:
        f = jit(function)
        found = [f(x, value) for value in (first, first, first, second)]
        out.append([(each.dtype, each.tolist()) for each in found])
    return out


@program
def one_tensor_twice_or_two_with_one_memory(jit: Jit) -> Any:
    """The second argument is the first, or has its memory until one is written."""

    def add(a: Tensor, b: Tensor) -> Tensor:
        a.assign(a + 1)
        return (a * 10 + b).realize()

    f = jit(add)
    for i in range(4):
        x = floats(i, 1)
        f(x, x)
    x = floats(5, 1)
    y = x.contiguous()
    return f(x, y).tolist(), x.tolist(), y.tolist()


@program
def a_view_of_what_is_written_outside(jit: Jit) -> Any:
    """As an argument, after others."""
    w = floats(1, 2, 3, 4)

    def add(x: Tensor) -> Tensor:
        w.assign(w + 1)
        return (x * 1).realize()

    f = jit(add)
    for i in range(3):
        f(floats(i, i))
    return f(w[0:2]).tolist(), w.tolist()


class Some(set):  # type: ignore[type-arg]
    """A set that is compared by value."""


class Bytes(bytearray):
    """The same of bytes."""


class Attributes(dict):  # type: ignore[type-arg]
    """A dict whose names are attributes."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


@program
def containers_that_change_between_calls(jit: Jit) -> Any:
    """Sets and bytes of types of their own are read anew."""
    out = []
    for numbers, change in ((Some([1]), Some.add), (Bytes([1]), Bytes.append), ({1}, set.add)):
        f = jit(lambda x, numbers: x * sum(numbers))
        out += [f(floats(1), numbers).tolist() for _ in range(3)]
        change(numbers, 9)
        out.append(f(floats(1), numbers).tolist())
    return out


@program
def a_list_is_left_that_is_filled_again(jit: Jit) -> Any:
    """The attribute has it since the first call; another list comes later."""
    holder, batch = Holder(), [floats(0)]

    def keep(batch: list[Tensor]) -> Tensor:
        holder.last = batch
        return batch[0] * 2

    f = jit(keep)
    for i in range(4):
        batch[0] = floats(i)
        f(batch)
    f([floats(9)])
    return holder.last[0].tolist()


@program
def a_class_as_an_argument(jit: Jit) -> Any:
    """Of a frozen dataclass; and one with an attribute that is no field."""
    f = jit(lambda x, kind: x * kind.scale)
    out = [f(floats(1), Setting).tolist() for _ in range(4)]
    g, settings = jit(lambda x, setting: x * setting.more), [Setting("a", 1), Setting("a", 1)]
    for more, setting in zip((2, 5), settings, strict=True):
        object.__setattr__(setting, "more", more)
    return out, [g(floats(1), settings[i]).tolist() for i in (0, 0, 0, 1)]


# Nested


@program
def an_inner_one_reads_a_lazy_tensor(jit: Jit) -> Any:
    """The outer one is captured around a replay of it."""
    s = floats(1, 2) * 3
    inner = jit(lambda x: (x + s).realize())
    for i in range(4):
        inner(floats(i, i))
    outer = jit(lambda x: (inner(x) * 2).realize())
    for i in range(4):
        outer(floats(i, i))
    s.assign(floats(50, 50))
    return outer(floats(0, 0)).tolist()


@program
def an_inner_one_fills_gradients(jit: Jit) -> Any:
    """Which are dropped, or set, before the outer one is replayed."""
    w = leaf(1, 2)

    def back(x: Tensor) -> None:
        w.grad = None
        (x * w * w).sum().backward()

    inner = jit(back)
    for _ in range(3):
        inner(floats(1, 1))
    outer = jit(lambda x: (inner(x), (x + 1).realize())[1])
    for i in range(4):
        outer(floats(i, 1))
    w.grad = None
    outer(floats(4, 1))
    out = listed(w.grad)
    w.grad = floats(50, 50)
    outer(floats(3, 1))
    return out, listed(w.grad)


# Results


@program
def objects_that_change_in_a_result(jit: Jit) -> Any:
    """An array and a set, new in each call, and an array that was given."""
    f = jit(lambda x, a: ((x + 1).realize(), np.zeros(2), {1}, a))
    out = []
    for i in range(5):
        _, array, some, given = f(floats(1), np.full(2, 1.0))
        out.append((array.tolist(), sorted(some), given.tolist()))
        array += 1
        some.add(7)
        given += i
    return out


@program
def iterators_in_a_result(jit: Jit) -> Any:
    """Each is exhausted once."""
    w = floats(1, 2)

    def numbers() -> Any:
        yield w + 1

    f, g = jit(numbers), jit(lambda x: ((x + 1).realize(), iter([1, 2, 3])))
    return [([each.tolist() for each in f()], list(g(floats(1))[1])) for _ in range(4)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_tinyjit_changes_nothing(name: str) -> None:
    """What a program returns is the same with and without it."""
    assert PROGRAMS[name](TinyJit) == PROGRAMS[name](lambda function: function)


# Costs: what could be an effect and is none is captured

CAPTURED: dict[str, Callable[[Tensor], Any]] = {
    "a value": lambda x: (x * 2).realize(),
    "lazy": lambda x: x * 2,
    "containers": lambda x: {"a": [x * 2, (x + 1, None, 3)], "b": "text"},
    "the argument": lambda x: x,
    "a part of it": lambda x: x[0:1],
    "twice": lambda x: (lambda y: [y, y])(x * 2),
    "nothing": lambda x: None,
    "a NumPy number": lambda x: (x * 2, np.float32(3)),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_results_of_all_kinds_are_captured(name: str) -> None:
    """Nothing of these is referred to from elsewhere, also while the program keeps the results."""
    f = TinyJit(CAPTURED[name])
    kept = [f(floats(i, 1)) for i in range(4)]
    assert f.captured == 1
    assert len(kept) == 4


@pytest.mark.parametrize("early", [False, True])
def test_a_training_step_is_captured(early: bool) -> None:
    """With arguments in containers, a model as an argument, and gradients that are dropped at the begin or the end."""
    layer = nn.Linear(2, 1)
    optimizer = nn.optim.Adam(nn.state.get_parameters(layer))

    def step(model: nn.Linear, batch: dict[str, Tensor]) -> Tensor:
        if early:
            optimizer.zero_grad()
        loss = (model(batch["x"]) - batch["y"]).square().mean()
        loss.backward()
        optimizer.step()
        if not early:
            optimizer.zero_grad()
        return loss.realize()

    f = TinyJit(step)
    with Tensor.train():
        for i in range(5):
            f(layer, {"x": Tensor([[float(i), 1.0]]).realize(), "y": Tensor([[1.0]]).realize()})
    assert f.captured == 1


def _tree(tree: dict[str, Any], x: Tensor) -> Any:
    def scaled(part: Any) -> Any:
        return {name: scaled(value) for name, value in part.items()} if isinstance(part, dict) else part * x

    return scaled(tree)


def test_a_cycle_that_a_call_leaves_is_no_effect() -> None:
    """A function that refers to itself has its arguments until the garbage is collected."""
    f = TinyJit(_tree)
    for i in range(3):
        f({"a": floats(1), "b": {"c": floats(2)}}, floats(i))
    assert f.captured == 1


@pytest.mark.parametrize(
    "make",
    [lambda: Path("/a/b"), lambda: UUID(int=5), lambda: time(1, 2), lambda: Attributes(a=1), lambda: Decimal("1.0")],
)
def test_new_objects_of_one_value_are_one_kind(make: Callable[[], Any]) -> None:
    """Those of Python that never change, and a dict whose names are its attributes."""
    f = TinyJit(lambda x, value: (x * 2).realize())
    for i in range(4):
        f(floats(i), make())
    assert f.captured == 1


def test_slices_after_a_view_without_base_are_one_kind() -> None:
    """What is dissolved between two looks was not written."""
    f = TinyJit(lambda x: x.sum())
    f(Tensor([1.0, 2.0, 3.0, 4.0]).reshape(2, 2).realize())
    data = Tensor.arange(12).reshape(6, 2).contiguous().realize()
    for i in range(4):
        assert f(data[i : i + 2]).item() == 8 * i + 6
    assert f.captured == 1


def test_captures_of_lists_that_are_gone_are_dropped() -> None:
    """Also where the list is inside of a key."""
    f = TinyJit(lambda net, x: x * net.scale)
    for i in range(5):
        net = Net([1])
        net.scale = i
        for _ in range(3):
            f(net, floats(1))
        del net
    gc.collect()
    assert f.captured == 1


# After failures, and pickles


@pytest.mark.parametrize("kind", ["launch", "stored"])
@pytest.mark.parametrize("number", range(5))
def test_a_gradient_that_was_set_again_is_old_or_new_or_lost(number: int, kind: str) -> None:
    """It is over the capture's memory by another node."""
    w = leaf(1, 2)

    def step(x: Tensor) -> None:
        w.grad = None
        a = (x * 3).realize()
        b = (a * a + 1).realize()
        c = (b.sum() * b).realize()
        (c.detach() * w * w).sum().backward()

    f, x = TinyJit(step), floats(5, 5)
    for i in range(3):
        f(floats(i + 1, 1))
    w.grad = None
    f(floats(1, 1))
    old = w.grad.tolist()
    with failing(kind, number, "PYTHON", 2):
        try:
            f(x)
        except RuntimeError:
            pass
    found = value_of(w.grad)
    w.grad = None
    f(x)
    assert found is None or found.tolist() in (old, w.grad.tolist())


def test_a_pickle_whose_state_was_torn_says_so() -> None:
    """No tensor has its state, so nothing else could."""
    w = floats(0, 0)

    def step(x: Tensor) -> Tensor:
        a = (x * 3).realize()
        w.assign(w + a)
        w.assign(w * a)
        return w

    f = TinyJit(step)
    for _ in range(3):
        f(floats(1, 1))
    loaded = pickle.loads(pickle.dumps(f))
    loaded(floats(1, 1))
    with failing("stored", 2, "PYTHON", 1000), pytest.raises(RuntimeError, match="^the launch failed"):
        loaded(floats(2, 2))
    with pytest.raises(Exception, match="was loaded from a pickle, and a value of its own was lost"):
        loaded(floats(2, 2))


W = Tensor([2.0], device="PYTHON").realize()


class Named:
    """A class with a tensor."""

    w = W


def test_a_pickle_needs_to_know_what_the_function_reads() -> None:
    """One tensor, or one value of a variable, in all calls may be reached by name as well."""
    w, n = floats(1, 2), Variable("n", 1, 2)
    f, g = TinyJit(lambda x: (x * 10 + w).realize()), TinyJit(lambda x, k: x[: n.bind(2)].sum().realize())
    own = TinyJit(lambda x, k: (x[:k].sum() * 10).realize())
    for _ in range(3):
        f(w)
        g(w, n.bind(2))
        own(w, n.bind(2))
    for ambiguous in (f, g):
        with pytest.raises(GraphError, match=r"which it also reaches by itself: a pickle would not know[\s\S]*hint: "):
            pickle.dumps(ambiguous)
    outer = TinyJit(lambda x: next((lambda: x * W)() for _ in range(2)) * Named.w)
    for _ in range(3):
        outer(W)
    with pytest.raises(GraphError, match="which it also reaches by itself"):
        pickle.dumps(outer)
    f(floats(3, 4))
    f(floats(3, 4))
    assert pickle.loads(pickle.dumps(f))(floats(5, 5)).tolist() == [51.0, 52.0]
    assert pickle.loads(pickle.dumps(own))(floats(5, 6), n.bind(1)).item() == 50.0


# Why a call was not captured

HOLDER = Holder()


def _left(x: Tensor) -> Tensor:
    HOLDER.last = x * 2
    return HOLDER.last


def _argument_left(x: Tensor) -> Tensor:
    HOLDER.last = x
    return (x + 1).realize()


WHY: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a value is read": (lambda x: x * x.sum().item(), "it reads a value (item, numpy, a mask)"),
    "a hidden tensor": (lambda x: {x + 1}, "its result has a tensor, or a symbolic size, in an object that is no list"),
    "an array": (lambda x: (x + 1, np.zeros(1)), "its result has an object that may change"),
    "its result": (_left, "it leaves its result elsewhere, too: something else refers to it"),
    "an argument": (_argument_left, "it leaves an argument elsewhere: something else refers to it afterwards"),
    "other shapes": (lambda x: (x + next(NUMBERS)).realize(), "it launched E_2"),
    "other memory": (lambda x: (x + NEW[-1]).realize(), "E_2 used other memory than in the call before"),
    "a new flag": (lambda x: x.requires_grad_(), "it gives an argument other memory, or another flag"),
}
NUMBERS = iter(range(2, 100))
NEW: list[Tensor] = []


@pytest.mark.parametrize("name", WHY)
def test_a_function_says_why_it_is_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In its repr, and once at DEBUG=1."""
    function, sentence = WHY[name]
    f = TinyJit(function)
    with Context(DEBUG=1):
        for i in range(5):
            NEW.append(floats(i, 1))
            f(floats(i, 1))
            assert "the last call was run: " in repr(f)
    assert f"the last call was run: {sentence}" in repr(f)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("TinyJit runs ")]
    assert any(sentence in line for line in told)
    assert len(told) == len(set(told))


def test_a_captured_function_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """The first call is run to see what it launches."""
    f = TinyJit(lambda x: (x * 2).realize())
    with Context(DEBUG=1):
        f(floats(1))
        assert repr(f).endswith("nothing captured; the last call was run: this is the first call of its kind>")
        f(floats(2))
        f(floats(3))
    assert repr(f).endswith("kinds of calls captured: 1, launches: 1>")
    assert "TinyJit runs" not in capsys.readouterr().out
