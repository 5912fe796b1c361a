"""TinyJit and what Python does beside it: results in objects, arguments that are changed, values left elsewhere."""

from __future__ import annotations

import array
import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from tinygraft import Device, Tensor, TinyJit, Variable, dtypes
from tinygraft.errors import GraphError, ShapeError


@dataclass
class Output:
    """A result with a name."""

    value: Tensor


class Slots:
    """A result in a slot."""

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value


class Pair(NamedTuple):
    """A result that is a tuple."""

    value: Tensor
    other: int


# What a function wraps its result in, and how the tensor in it is reached.
OBJECTS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]] = {
    "dataclass": (Output, lambda out: out.value),
    "slots": (Slots, lambda out: out.value),
    "set": (lambda t: {t}, lambda out: next(iter(out))),
    "deque": (lambda t: deque([t]), lambda out: out[0]),
    "object in a list": (lambda t: [1, {"k": Slots(t)}], lambda out: out[1]["k"].value),
    "closure": (lambda t: lambda: t, lambda out: out()),
    "default": (lambda t: lambda t=t: t, lambda out: out()),
    "partial": (lambda t: partial(Tensor.reshape, t, (1,)), lambda out: out()),
    "iterator": (lambda t: iter([t]), next),
    "generator": (lambda t: (each for each in [t]), next),
    "bound method": (lambda t: t.contiguous, lambda out: out()),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("compute", [lambda x: x + 1, lambda x: (x + 1).realize()], ids=["lazy", "realised"])
def test_a_result_in_an_object_is_made_by_the_function(name: str, compute: Callable[[Tensor], Tensor]) -> None:
    """Where TinyJit does not look for tensors every call has its own all the same: the function is run."""
    put, take = OBJECTS[name]
    jit = TinyJit(lambda x: put(compute(x)))
    kept = [jit(Tensor([float(i)])) for i in range(5)]
    assert [take(out).item() for out in kept] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert jit.captured == 0


def test_containers_of_a_result_keep_their_type() -> None:
    """Dicts and tuples of other types come back as what they were, each call's with tensors of its own."""

    def counts(t: Tensor) -> defaultdict[str, Any]:
        made: defaultdict[str, Any] = defaultdict(list)
        made["all"].append(t)
        return made

    jit = TinyJit(lambda x: ((y := (x + 1).realize()), OrderedDict(z=y * 1, a=y * 2), counts(y * 3), Pair(y * 4, 7)))
    kept = [jit(Tensor([float(i)])) for i in range(5)]
    assert jit.captured == 1
    for i, (_, ordered, default, pair) in enumerate(kept):
        assert (type(ordered), list(ordered)) == (OrderedDict, ["z", "a"])
        assert (ordered["z"].item(), ordered["a"].item()) == (i + 1, 2 * (i + 1))
        assert default["all"][0].item() == 3 * (i + 1)
        assert default["new"] == []
        assert (type(pair), pair.value.item(), pair.other) == (Pair, 4 * (i + 1), 7)


def test_a_symbolic_integer_of_a_result_is_that_of_its_call() -> None:
    """A length that was computed from a bound variable is not the one of the call that was captured."""
    n = Variable("n", 1, 5)
    jit = TinyJit(lambda x, n: (x[:n].sum().realize(), n))
    x = Tensor([1.0, 1.0, 1.0, 1.0, 1.0]).realize()
    for i in (1, 2, 3, 4):
        total, length = jit(x, n.bind(i))
        assert (total.item(), length.unbind()[1]) == (i, i)


def test_a_function_that_changes_its_containers_is_run() -> None:
    """Lists and dicts of the arguments have in them what the function put there, whichever ones are given."""

    def advance(state: Any, key: Any, x: Tensor) -> Tensor:
        state[key] = state[key] + x
        return (state[key] * 10).realize()

    for make, key in ((list, 0), (dict, 0), (deque, 0)):
        jit = TinyJit(advance)
        one, two = (make([(0, Tensor([v])) if make is dict else Tensor([v])]) for v in (1.0, 100.0))
        for i in range(1, 5):
            assert jit(one, key, Tensor([1.0])).item() == 10.0 * (1 + i)
            assert jit(two, key, Tensor([1.0])).item() == 10.0 * (100 + i)
            assert (one[key].item(), two[key].item()) == (1.0 + i, 100.0 + i)
        assert jit.captured == 0


def test_a_list_that_the_function_extends() -> None:
    """What is appended in each call is there after each call."""
    log: list[Tensor] = []
    jit = TinyJit(lambda log, x: log.append((x * 2).realize()))
    for i in range(5):
        jit(log, Tensor([float(i)]))
        log[:-1] = []
        assert log[0].item() == 2.0 * i


# An argument that is no tensor, what changes in it, and its sum before and after.
CHANGED: dict[str, tuple[Any, Callable[[Any], Any], float, float]] = {
    "set": ({1, 2}, lambda s: s.add(10), 3.0, 13.0),
    "bytearray": (bytearray([2, 3]), lambda b: b.__setitem__(0, 5), 5.0, 8.0),
    "memoryview": (memoryview(bytearray([2, 3])), lambda b: b.__setitem__(0, 5), 5.0, 8.0),
    "deque": (deque([1, 2], maxlen=2), lambda d: d.append(5), 3.0, 7.0),
    "array.array": (array.array("i", [1, 2]), lambda a: a.__setitem__(0, 4), 3.0, 6.0),
    "ndarray": (np.array([1.0, 2.0]), lambda a: a.__setitem__(0, 4.0), 3.0, 6.0),
    "list in a list": ([1, [2]], lambda n: n[1].__setitem__(0, 5) or n.__setitem__(0, 1), 3.0, 6.0),
}


def sum_of(nested: Any) -> float:
    """The sum of numbers in nested iterables."""
    return float(sum(sum_of(item) if isinstance(item, list) else item for item in nested))


@pytest.mark.parametrize("name", CHANGED)
def test_an_argument_that_was_changed_in_place_is_another_one(name: str) -> None:
    """Python's containers and arrays are known by what is in them."""
    item, change, before, after = CHANGED[name]
    jit = TinyJit(lambda x, item: (x * sum_of(item)).realize())
    assert [jit(Tensor([1.0]), item).item() for _ in range(3)] == [before] * 3
    assert jit.captured == 1
    change(item)
    assert [jit(Tensor([1.0]), item).item() for _ in range(3)] == [after] * 3


def test_arguments_of_equal_value_and_other_types_are_told_apart() -> None:
    """1, 1.0 and True, also in a set, and arrays of the same bytes."""
    jit = TinyJit(lambda x, item: (x * next(iter(item))).realize())
    x = Tensor([3], dtype=dtypes.int32)
    for item in ({1}, {1.0}, {True}, frozenset({1.0}), array.array("f", [0.0]), array.array("i", [0])):
        kinds = {(out := jit(x, item)).dtype for _ in range(3)}
        assert kinds == {(x * next(iter(item))).dtype}
        assert out.tolist() == (x * next(iter(item))).tolist()


def test_an_array_of_another_library_is_read_in_every_call() -> None:
    """It may be changed where nobody can tell, so a call with it is like no other."""

    class Foreign:
        def __init__(self) -> None:
            self.mine = np.array([2.0])

        def __dlpack__(self, **how: Any) -> Any:
            return self.mine.__dlpack__(**how)

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            return True

    foreign = Foreign()
    jit = TinyJit(lambda x, y: (x * float(y.mine[0])).realize())
    assert [jit(Tensor([1.0]), foreign).item() for _ in range(3)] == [2.0] * 3
    foreign.mine[0] = 5.0
    assert jit(Tensor([1.0]), foreign).item() == 5.0


def test_a_value_that_is_left_uncomputed_is_that_of_the_last_call() -> None:
    """Nothing was launched for it that could be launched again, so the function is run."""
    left: dict[str, Tensor] = {}

    @TinyJit
    def step(x: Tensor) -> Tensor:
        left["twice"] = x * 2
        return (x + 1).realize()

    for i in range(5):
        assert step(Tensor([float(i)])).item() == i + 1
        assert left["twice"].item() == 2.0 * i
    assert step.captured == 0


def test_a_constant_that_is_left_uncomputed_keeps_nobody_from_replaying() -> None:
    """It has the same value after every call."""
    left: dict[str, Tensor] = {}

    @TinyJit
    def step(x: Tensor) -> Tensor:
        left["mask"] = Tensor.ones(3, 3).tril() * 5
        return (x + 1).realize()

    assert [step(Tensor([float(i)])).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert left["mask"].sum().item() == 30.0
    assert step.captured == 1


def test_a_value_that_is_left_computed_is_written_anew() -> None:
    """The tensor that the captured call left has the value of every later call; results are a tensor each."""
    left: dict[str, Tensor] = {}

    @TinyJit
    def step(x: Tensor) -> Tensor:
        left["twice"] = (x * 2).realize()
        return left["twice"] * 1

    results = []
    for i in range(5):
        results.append(step(Tensor([float(i)])))
        assert left["twice"].item() == 2.0 * i
    assert [result.item() for result in results] == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert step.captured == 1


def test_devices_and_dtypes_are_kinds_of_calls() -> None:
    """A tensor of another dtype or device runs the function again, and each kind is replayed."""
    jit = TinyJit(lambda x: (x * 2).realize())
    for i in range(4):
        for dtype in (dtypes.float32, dtypes.int32, dtypes.float16):
            out = jit(Tensor([i, 1], dtype=dtype))
            assert (out.dtype, out.tolist()) == (dtype, [2 * i, 2])
        for device in (Device.DEFAULT, "PYTHON", "PYTHON:1"):
            out = jit(Tensor([i, 1], dtype=dtypes.int8, device=device))
            assert (out.device, out.tolist()) == (device, [2 * i, 2])
    assert jit.captured == 6


def test_training_mode_is_a_kind_of_call() -> None:
    """Dropout does what the mode of the call says."""
    jit = TinyJit(lambda x: x.dropout(0.5).realize())
    for _ in range(4):
        assert jit(Tensor.ones(64)).tolist() == [1.0] * 64
        with Tensor.train():
            assert set(jit(Tensor.ones(64)).tolist()) == {0.0, 2.0}
    assert jit.captured == 2


def test_an_argument_by_position_or_by_name() -> None:
    """Defaults, positions, names and their order give the same numbers."""

    @TinyJit
    def f(x: Tensor, y: float = 2, *, z: Tensor) -> Tensor:
        return (x * y - z).realize()

    for i in range(4):
        x, z = Tensor([float(i)]), Tensor([1.0])
        found = [f(x, z=z), f(x, 2, z=z), f(x=x, z=z), f(z=z, x=x), f(z=z, y=2, x=x), f(y=2, x=x, z=z), f(x=z, z=x)]
        assert [t.item() for t in found] == [2.0 * i - 1] * 6 + [2.0 - i]


def test_views_of_arguments_of_every_kind() -> None:
    """Transposed, cut, strided and flipped views, and two of them over one memory."""
    jit = TinyJit(lambda x: (x * 2).realize())
    both = TinyJit(lambda a, b: (a - b).realize())
    for i in range(4):
        values = np.arange(12, dtype=np.float32).reshape(3, 4) + i
        base = Tensor(values).realize()
        for view, same in (
            (base.T, values.T), (base[1:], values[1:]), (base[:, ::2], values[:, ::2]), (base.flip(0), values[::-1]),
            (base.reshape(4, 3), values.reshape(4, 3)), (base[1].expand(3, 4), np.broadcast_to(values[1], (3, 4))),
        ):  # fmt: skip
            np.testing.assert_array_equal(jit(view).numpy(), same * 2)
        np.testing.assert_array_equal(both(base[:2], base[1:]).numpy(), values[:2] - values[1:])
        np.testing.assert_array_equal(both(base[:2], base[:2]).numpy(), np.zeros((2, 4)))


@pytest.mark.parametrize("call", [0, 1])
def test_an_exception_in_either_run_leaves_it_usable(call: int) -> None:
    """Assignments before the error happen once, as they would without TinyJit, and the next calls are captured."""
    state, fails = Tensor([0.0]).realize(), [False]
    inner = TinyJit(lambda x: (x * 2).realize())

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + inner(x))
        if fails[0]:
            raise RuntimeError("not now")
        return (state * 10).realize()

    expected = 0.0
    for i in range(7):
        fails[0] = i == call
        expected += 2.0 * (i + 1)
        if fails[0]:
            with pytest.raises(RuntimeError, match="not now"):
                step(Tensor([float(i + 1)]))
        else:
            assert step(Tensor([float(i + 1)])).item() == 10 * expected
        assert state.item() == expected
    assert (step.captured, inner.captured) == (1, 1)


def test_an_error_of_a_shape_comes_from_the_function() -> None:
    """Arguments of another shape run the function, whose error names both; the capture before goes on."""
    jit = TinyJit(lambda a, b: (a @ b).realize())
    left = Tensor.ones(2, 3).realize()
    for _ in range(3):
        jit(left, Tensor.ones(3, 2))
    with pytest.raises(ShapeError, match=r"cannot multiply shapes \(2, 3\) and \(2, 3\) as matrices"):
        jit(left, Tensor.ones(2, 3))
    assert jit(left, Tensor.ones(3, 2) * 2).tolist() == [[6.0, 6.0], [6.0, 6.0]]
    assert jit.captured == 1


def test_it_says_what_it_has_captured() -> None:
    """Its repr has the function's name, and how many kernels each kind of calls launches."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x + 1).realize()

    assert repr(step) == "<TinyJit of step: nothing captured>"
    for size in (2, 3):
        for _ in range(2):
            step(Tensor([1.0] * size))
    assert repr(step) == "<TinyJit of step: kinds of calls captured: 2, launches: 1, 1>"
    assert repr(pickle.loads(pickle.dumps(step))) == repr(step)
    assert repr(TinyJit(None, check=True)) == "<TinyJit of the function: nothing captured>"


@pytest.mark.parametrize(
    ("args", "kwargs", "shown"),
    [((), {}, r"\(\)"), ((3,), {}, r"\(int\)"), ((abs, 3), {}, r"\(builtin_function_or_method, int\)"),
     ((), {"fxn": 3}, r"\(fxn=int\)")],
)  # fmt: skip
def test_a_decorator_takes_one_function(args: tuple[Any, ...], kwargs: dict[str, Any], shown: str) -> None:
    """Settings come before, in TinyJit(check=True): what is given with the function would be ignored."""
    decorate: Any = TinyJit(check=True)
    with pytest.raises(TypeError, match=f"made without a function takes one, as a decorator does, got {shown}$"):
        decorate(*args, **kwargs)


def test_data_of_python_that_differs_from_call_to_call_is_not_frozen() -> None:
    """Numbers of np.random in a function would be the same in all replays: it is run in every call, and says why."""
    seen: list[float] = []

    def noisy(x: Tensor) -> Tensor:
        seen.append(float(len(seen)))
        return (x * Tensor(np.array([seen[-1], 1.0], dtype=np.float32))).realize()

    jit = TinyJit(noisy)
    assert [jit(Tensor([1.0, 2.0])).tolist() for _ in range(5)] == [[float(n), 2.0] for n in range(5)]
    assert jit.captured == 0
    assert "it makes a tensor of Python's data (NumPy's, a list), which was other data in the call before" in str(jit)
    assert "give it as an argument" in str(jit)


def test_equal_data_of_python_is_captured() -> None:
    """A table that a function makes of a list is the same in each call."""
    jit = TinyJit(lambda x: (x * Tensor(np.arange(1.0, 5.0, dtype=np.float32))).realize())
    results = [jit(Tensor([1.0, 1.0, 2.0, 2.0])).tolist() for _ in range(4)]
    assert (results, jit.captured) == ([[1.0, 2.0, 6.0, 8.0]] * 4, 1)


def test_check_finds_data_of_python_that_has_changed() -> None:
    """Where both captured calls made equal data, a later call may not."""
    table = np.ones(2, dtype=np.float32)
    jit = TinyJit(lambda x: (x * Tensor(table.copy())).realize(), check=True)
    for _ in range(3):
        jit(Tensor([1.0, 2.0]))
    table[1] = 5.0
    with pytest.raises(GraphError, match=r"made a tensor of Python's data \(NumPy's, a list\) that is other data"):
        jit(Tensor([1.0, 2.0]))
