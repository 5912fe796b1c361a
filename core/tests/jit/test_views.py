"""Views under TinyJit: as arguments, of outside memory, and as results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, UOp, Variable
from tinygraft.errors import ShapeError


def numbers(*shape: int) -> Tensor:
    """0, 1, 2, ... in memory."""
    return Tensor(np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)).realize()


def test_a_cache_that_a_function_fills() -> None:
    """Captured and replayed, outside memory is written, and its views and results follow."""
    cache = Tensor.zeros(2, 4).contiguous().realize()
    row = cache[0]
    results = []

    @TinyJit
    def step(x: Tensor) -> Tensor:
        cache[:, 1:2].assign(x)
        return cache[1]

    for i in range(5):
        row.numpy()
        results.append(step(Tensor([[i + 1.0], [i + 2.0]]).realize()))
        assert cache.tolist() == [[0.0, i + 1.0, 0.0, 0.0], [0.0, i + 2.0, 0.0, 0.0]]
        assert row.tolist() == [0.0, i + 1.0, 0.0, 0.0]
        assert all(r.tolist() == [0.0, i + 2.0, 0.0, 0.0] for r in results)
    assert step.captured == 1
    results[-1][0] = 50
    assert cache.tolist()[1] == [50.0, 6.0, 0.0, 0.0]


def test_views_as_arguments_are_written() -> None:
    """Each call writes the part that it is given, and calls with other parts of what is only read are of one kind."""
    t = numbers(6)

    @TinyJit
    def grow(part: Tensor) -> None:
        part.assign(part + 10).realize()

    for i in range(9):
        grow(t[i % 3 : i % 3 + 2])
    assert t.tolist() == [30.0, 61.0, 62.0, 33.0, 4.0, 5.0]

    @TinyJit
    def total(part: Tensor) -> Tensor:
        return part.sum()

    assert [total(t[i : i + 2]).item() for i in range(4)] == [91.0, 123.0, 95.0, 37.0]
    assert total.captured == 1


def test_two_views_of_one_tensor_as_arguments() -> None:
    """One is written, the other is read after that."""
    t = numbers(4)

    @TinyJit
    def step(a: Tensor, b: Tensor) -> Tensor:
        a.assign(a + 1)
        return (b * 1).realize()

    for i in range(5):
        assert step(t[:2], t[1:]).tolist() == [i + 2.0, 2.0, 3.0]
    assert t.tolist() == [5.0, 6.0, 2.0, 3.0]


def test_a_tensor_that_shares_memory_with_an_argument_keeps_its_value() -> None:
    """contiguous() of memory is the same memory and no alias, made before a capture or between replays."""
    value = Tensor([9.0, 9.0]).realize()
    t = Tensor([1.0, 2.0]).realize()
    before = t.contiguous()
    write = TinyJit(lambda a: a.assign(value).realize())
    for _ in range(3):
        write(t)
    between = t.contiguous()
    value.assign(Tensor([3.0, 4.0])).realize()
    write(t)
    assert (before.tolist(), between.tolist(), t.tolist()) == ([1.0, 2.0], [9.0, 9.0], [3.0, 4.0])


def test_tokens_of_a_cache_are_those_without_one() -> None:
    """The idioms of caches: shrink and assign, or a slice and assign, then realize; eager and captured."""
    table = Tensor(np.random.default_rng(1).normal(size=(8, 6)).astype(np.float32)).realize()
    weight = Tensor(np.random.default_rng(2).normal(size=(6, 6)).astype(np.float32)).realize()

    def attend(keys: Tensor, query: Tensor) -> Tensor:
        return (query.reshape(1, 6) @ keys.T).softmax(-1) @ keys

    def without_cache() -> list[int]:
        tokens = [0]
        for _ in range(7):
            keys = table[tokens] @ weight
            tokens.append(int((attend(keys, keys[-1]) @ table.T).argmax().item()))
        return tokens

    def with_cache(write: Callable[[Tensor, Any, Tensor], Any], wrap: Any) -> list[int]:
        cache = Tensor.zeros(9, 6).contiguous().realize()
        start = Variable("start", 0, 7)

        def step(token: Tensor, at: Any) -> Tensor:
            key = table[token] @ weight
            write(cache, at, key)
            return (attend(cache.shrink(((0, at + 1), None)), key) @ table.T).argmax().realize()

        tokens, run = [0], wrap(step)
        for i in range(7):
            tokens.append(int(run(Tensor([tokens[-1]]).realize(), start.bind(i)).item()))
        return tokens

    idioms: list[Callable[[Tensor, Any, Tensor], Any]] = [
        lambda cache, at, key: cache.shrink(((at, at + 1), None)).assign(key).realize(),
        lambda cache, at, key: cache[at : at + 1].assign(key).realize(),
        lambda cache, at, key: cache.__setitem__(slice(at, at + 1), key),
    ]
    expected = without_cache()
    for write in idioms:
        assert with_cache(write, lambda f: f) == with_cache(write, TinyJit) == expected


def test_views_of_one_value_are_aliases_as_results() -> None:
    """With their base or without it, where they have elements in common, of symbolic size too; and pickled."""
    x, n = numbers(6), Variable("n", 2, 6)

    @TinyJit
    def step(x: Tensor, n: Any) -> dict[str, Any]:
        y, z = (x * 2).reshape(2, 3), x + 1
        return {"meet": [y[0], [y.T[1], y.detach()[0, 1:]]], "base": (z[:n], z, z[1:2])}

    def look(found: dict[str, Any], size: int) -> None:
        row, (column, rest) = found["meet"]
        row[1] = 50.0
        assert (column.tolist(), rest.tolist()) == ([50.0, 8.0], [50.0, 4.0])
        rest += 1
        rest.realize()
        assert (row.tolist(), column.tolist()) == ([0.0, 51.0, 5.0], [51.0, 8.0])
        front, z, one = found["base"]
        one += 5
        assert (front.sum().item(), z.tolist()) == (size * (size + 1) / 2 + 5, [1.0, 7.0, 3.0, 4.0, 5.0, 6.0])

    for size in (2, 3, 5, 6, 4):
        look(step(x, n.bind(size)), size)
    assert step.captured == 1
    look(pickle.loads(pickle.dumps(step))(x, n.bind(3)), 3)


def test_parts_beside_each_other_are_computed_by_themselves_as_results() -> None:
    """Nobody can tell: one does not keep the memory of another."""
    step = TinyJit(lambda x: (x * 2).chunk(3))
    for _ in range(4):
        a, b, c = step(numbers(6))
        a += 1
        assert (a.tolist(), b.tolist(), c.tolist()) == ([1.0, 3.0], [4.0, 6.0], [8.0, 10.0])
    assert {part.uop.base.realized.size for part in (b, c)} == {2}


def test_results_with_elements_in_common_stay_so() -> None:
    """Windows show a write wherever the element is, repeated elements are not written, as in eager calls."""
    step = TinyJit(lambda x: ((x * 2).unfold(0, 2, 1), (x + 1).expand(2, 3)))
    for _ in range(4):
        windows, rows = step(numbers(3))
        windows[0] = 9
        assert windows.tolist() == [[9.0, 9.0], [9.0, 4.0]]
        with pytest.raises(ShapeError, match="elements in common"):
            rows += 1
    assert step.captured == 1


RESULTS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "a tensor twice": lambda y: (y, y),
    "a tensor and its view": lambda y: (y, y[1:]),
    "parts of one that is not given back": lambda y: (y[:2], y[1:]),
    "a part of a part": lambda y: (y[1:][:1], y.flip(0)),
    "a view that is the whole": lambda y: (y, y.shrink(((0, 3),))),
    "other shapes of one": lambda y: (y.reshape(1, 3), y.unsqueeze(1)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_one_memory_are_that_in_replays(name: str) -> None:
    """Written after the call, the one shows in the other, and in no result of another call."""
    f = TinyJit(lambda x: RESULTS[name](x * 2))
    kept = []
    for i in range(5):
        x = Tensor([1.0 + i, 2.0, 3.0]).realize()
        a, b = RESULTS[name](x * 2)
        c, d = f(x)
        for one, other in ((a, b), (c, d)):
            one += 10
            other.realize()
            other *= 3
        assert (c.tolist(), d.tolist()) == (a.tolist(), b.tolist())
        kept.append((c, d, a.tolist(), b.tolist()))
    assert f.captured == 1
    assert all((c.tolist(), d.tolist()) == (a, b) for c, d, a, b in kept)
    again = pickle.loads(pickle.dumps(f))
    c, d = again(Tensor([5.0, 2.0, 3.0]).realize())
    c += 10
    d *= 3
    assert (c.tolist(), d.tolist()) == kept[-1][2:]


def test_views_of_an_argument_that_is_a_view_follow_its_memory() -> None:
    """Given back by replays, also the argument itself."""
    f = TinyJit(lambda x: (x, x.flip(0), x * 2))
    for _ in range(2):
        f(numbers(3))
    for i in range(3):
        t = numbers(4)
        same, flipped, double = f(t[1:])
        t[2].assign(Tensor(50.0 + i))
        assert same.tolist() == [1.0, 50.0 + i, 3.0]
        assert flipped.tolist() == [3.0, 50.0 + i, 1.0]
        flipped += 1
        assert t.tolist() == [0.0, 2.0, 51.0 + i, 4.0]
        assert double.tolist() == [2.0, 4.0, 6.0]
    assert f.captured == 1


VALUES_OF_AN_ARGUMENT: dict[str, Callable[[Tensor], Any]] = {
    "cast": lambda x: x.cast("float32").__isub__(1),
    "contiguous": lambda x: x.contiguous().__setitem__(0, 9),
    "written too": lambda x: (x.cast("float32").assign(x * 2), x.__iadd__(1)),
}


@pytest.mark.parametrize("name", VALUES_OF_AN_ARGUMENT)
def test_a_value_over_the_memory_of_an_argument_is_written(name: str) -> None:
    """And the argument is not, in any call."""
    f = TinyJit(VALUES_OF_AN_ARGUMENT[name])
    for _ in range(4):
        x = numbers(3)
        f(x)
        assert x.tolist() == ([1.0, 2.0, 3.0] if name == "written too" else [0.0, 1.0, 2.0])


def test_a_symbolic_row_given_back_with_its_base_is_that_row_of_each_call() -> None:
    """Not the one that was captured."""
    row = Variable("row", 0, 3)
    f = TinyJit(lambda x, i: (lambda y: (y, y[i : i + 1], y[i : i + 1].T))(x * 2))
    for k in (0, 2, 1, 3):
        whole, part, turned = f(numbers(4, 2), row.bind(k))
        part += 100
        turned[1] = 7
        expected = np.arange(8.0).reshape(4, 2) * 2
        expected[k] = [expected[k, 0] + 100, 7]
        assert (whole.tolist(), part.tolist()) == (expected.tolist(), [expected[k].tolist()])
    assert f.captured == 1


def test_what_was_assigned_outside_memory_is_a_copy_of_it() -> None:
    """A write to it leaves that memory where a capture reads it."""
    outside = Tensor([1.0, 2.0]).realize()
    add = TinyJit(lambda x: (x + outside).realize())

    @TinyJit
    def give(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * outside
        view = y.reshape(2, 1)
        y.assign(outside)
        return y, view

    for _ in range(4):
        y = Tensor([5.0, 6.0])
        y.assign(outside)
        y.realize()
        y += 10
        assert (y.tolist(), add(Tensor([0.0, 0.0])).tolist()) == ([11.0, 12.0], [1.0, 2.0])
        z, view = give(Tensor([3.0, 3.0]))
        view += 1
        assert (z.tolist(), outside.tolist()) == ([2.0, 3.0], [1.0, 2.0])
    assert (add.captured, give.captured) == (1, 1)


def test_a_result_that_begins_at_a_variable_may_share_memory_with_another() -> None:
    """Where it begins is known in each call only: the two are treated as views of one memory."""

    @TinyJit
    def step(x: Tensor, n: UOp) -> tuple[Tensor, Tensor]:
        y = x * x
        return y.reshape(2, 2)[n : n + 1], y.reshape(2, 2)[0:1]

    n = Variable("n", 0, 1)
    for number in (0, 1, 0, 1):
        x = Tensor([1.0, 2.0, 3.0, float(number)]).realize()
        there, first = step(x, n.bind(number))
        assert there.tolist() == [[[1.0, 4.0], [9.0, number**2]][number]]
        assert first.tolist() == [[1.0, 4.0]]


VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda t: t.contiguous(),
    "repeat": lambda t: t.repeat((1,)),
    "cast": lambda t: t.cast(t.dtype),
    "clone": lambda t: t.clone(),
    "reshaped": lambda t: t.contiguous().reshape(2, 1)[:, 0],
}


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("owner", ["outside", "argument"])
@pytest.mark.parametrize("idiom", VALUES)
def test_a_result_that_has_the_memory_of_another_tensor_is_written_beside_it(
    idiom: str, owner: str, read: bool
) -> None:
    """A value of t in a replay has t's memory; r += 100 leaves that where it is, so that the next replay writes it."""
    outside = Tensor([0.0, 0.0]).realize()
    x = Tensor([0.0, 0.0]).realize()

    @TinyJit
    def f(x: Tensor, y: Tensor) -> Tensor:
        t = outside if owner == "outside" else x
        t.assign(y)
        return VALUES[idiom](t)

    written = outside if owner == "outside" else x
    results: list[tuple[Tensor, float]] = []
    for i in range(6):
        r = f(x, Tensor([float(i), 1.0]).realize())
        if i >= 2:
            r += 100
        results.append((r, i + 100.0 * (i >= 2)))
        if read:
            assert written.tolist() == [i, 1.0]
            r.numpy()
    assert f.captured == 1
    assert written.tolist() == [5.0, 1.0]
    assert [r.tolist()[0] for r, _ in results] == [wanted for _, wanted in results]


@pytest.mark.parametrize("number", [1.5, 0.0])
def test_views_of_a_result_that_was_written_whole_with_a_number(number: float) -> None:
    """What is a constant by then has memory in replays: both results are it."""

    @TinyJit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        view = y.reshape(1, 1)
        view[-1, :] = number
        return view, y

    for i in range(4):
        view, y = f(Tensor([float(i)]).realize())
        assert view.tolist() == [[number]] and y.tolist() == [number]
        view += 1
        assert y.tolist() == [number + 1]


@pytest.mark.parametrize("size", [1, 3])
def test_views_come_as_their_memory_once_a_capture_writes_to_its_argument(size: int) -> None:
    """Also where those that it was captured with were whole tensors; what it only reads comes by its elements."""

    @TinyJit
    def less(x: Tensor, y: Tensor) -> Tensor:
        view = x.flip((0,))
        view -= y
        return view

    one = Tensor([0.5] * size).realize()
    first = Tensor([4.0] * size).realize()
    view = less(first, one)
    less(Tensor([4.0] * size).realize(), one)
    assert less.captured == 1
    for i in range(4):
        less(view, one)
        assert first.tolist() == view.tolist() == [3.0 - i * 0.5] * size
    many = numbers(size + 5)
    before = less.captured
    for start in range(5):
        less(first, many[start : start + size])
    assert less.captured == before
    np.testing.assert_array_equal(first.numpy(), 1.5 - 10 - 5 * np.arange(size)[::-1])


def test_a_written_tensor_and_a_view_of_it_as_arguments() -> None:
    """Captured with tensors of their own, then called with two that are one memory."""

    @TinyJit
    def step(y: Tensor, x: Tensor) -> Tensor:
        x += 1
        return (y * 1).realize()

    for _ in range(2):
        step(Tensor([1.0]).realize(), Tensor([1.0, 2.0]).realize())
    t = Tensor([1.0, 2.0]).realize()
    for i in range(4):
        assert step(t[1:], t).tolist() == [3.0 + i]
    assert t.tolist() == [5.0, 6.0]


def _value_and_view(x: Tensor, y: Tensor) -> Any:
    value = y.roll(0, 0)
    return value.chunk(2, 0)[1], value


def _view_alone(x: Tensor, y: Tensor) -> Any:
    return y.contiguous()[1:], x + 1


@pytest.mark.parametrize("function", [_value_and_view, _view_alone])
@pytest.mark.parametrize("from_outside", [True, False])
def test_a_view_of_a_value_with_anothers_memory_is_written_beside_it(function: Any, from_outside: bool) -> None:
    """As a result, where the other tensor is from outside and where it is an argument."""
    y = Tensor([1.0, 1.0]).realize()
    f = TinyJit(lambda x: function(x, y)) if from_outside else TinyJit(function)
    for i in range(5):
        x = Tensor([float(i)]).realize()
        view, _ = f(x) if from_outside else f(x, y)
        assert view.tolist() == [1.0]
        view += 2
        assert (view.tolist(), y.tolist()) == ([3.0], [1.0, 1.0])
    assert f.captured == 1


@pytest.mark.parametrize("calls", [2, 4])
def test_a_result_with_the_memory_of_another_tensor_given_back_as_an_argument_that_is_written(calls: int) -> None:
    """No launch reads that tensor: the function gives it back, and a later call writes to its memory beside it."""
    kept = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x: Tensor, total: Tensor) -> Tensor:
        total += x
        return kept.contiguous()

    for _ in range(calls):
        given = step(Tensor([5.0, 5.0]).realize(), Tensor([3.0, 3.0]).realize())
    again = step(Tensor([10.0, 20.0]).realize(), given)
    assert (given.tolist(), kept.tolist(), again.tolist()) == ([11.0, 22.0], [1.0, 2.0], [1.0, 2.0])
