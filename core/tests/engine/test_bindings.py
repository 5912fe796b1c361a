"""One variable with several values: what has the one is realised before what has the other, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, Variable
from tinygraft.engine import realize as realize_module
from tinygraft.engine.bindings import computable_first, values_in, with_separate_names
from tinygraft.nn.optim import SGD
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

NUMBERS = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.fixture(params=[3, 2], ids=["one Variable", "two of one name"])
def p(request: pytest.FixtureRequest) -> Callable[[int], UOp]:
    """Binds p: always the same Variable, or for all values but the smallest one of other bounds."""
    return lambda k: Variable("p", 0, 3 if k == 0 else request.param).bind(k)


def memory() -> Tensor:
    """A realised 4 x 4."""
    return Tensor(NUMBERS.copy()).realize()


def write(t: Tensor, place: UOp, value: Tensor | float) -> None:
    """Write one row."""
    t[place : place + 1] = value


def rows(base: np.ndarray, **values: object) -> np.ndarray:
    """An array in which rows r0, r1, ... have other values."""
    new = base.copy()
    for name, value in values.items():
        new[int(name[1:])] = value
    return new


def test_an_expression_that_was_written_to_keeps_what_another_write_overwrites(p: Callable[[int], UOp]) -> None:
    """Seed 4020 of the fuzzer: it reads the memory, and has p at 1; the memory is written to at 0, and read first."""
    t = memory()
    u = t - t
    write(u, p(1), u.sum() + 5)
    write(t, p(0), 7)
    assert np.array_equal(t.numpy(), rows(NUMBERS, r0=7))
    assert np.array_equal(u.numpy(), rows(0 * NUMBERS, r1=5))


@pytest.mark.parametrize("times", [1, 2])
def test_memory_and_expressions_are_written_to_in_turn(p: Callable[[int], UOp], times: int) -> None:
    """Before anybody reads them."""
    t = memory() if times == 1 else memory() * times
    write(t, p(2), 5)
    write(t, p(1), 6)
    write(t, p(0), 7)
    write(t, p(2), t[0:1] + 1)
    assert np.array_equal(t.numpy(), rows(times * NUMBERS, r0=7, r1=6, r2=8))


@pytest.mark.parametrize("times", [1, 2])
def test_a_read_under_another_value(p: Callable[[int], UOp], times: int) -> None:
    """Of memory, and of an expression, that were written to; after the writer is gone, too."""
    t = memory() if times == 1 else memory() * times
    write(t, p(1), 5)
    total, again = t[p(0) : p(0) + 2].sum(), t[p(0) : p(0) + 2] + 1
    assert total.item() == times * 6 + 20
    del t
    assert again[:, 0].tolist() == [1.0, 6.0]


def test_a_view_is_written_through_in_turn(p: Callable[[int], UOp]) -> None:
    """A view, its base, and a view of a view."""
    t = memory()
    v = t[1:]
    w = v[:, 2:]
    write(v, p(1), 5)
    write(w, p(0), 6)
    write(t, p(2), t[2:3] + 1)
    wanted = rows(NUMBERS, r2=6)
    wanted[1, 2:] = 6
    assert np.array_equal(w.numpy(), wanted[1:, 2:])
    assert np.array_equal(v.numpy(), wanted[1:])
    assert np.array_equal(t.numpy(), wanted)


def test_a_written_expression_is_written_elsewhere(p: Callable[[int], UOp]) -> None:
    """Three tensors, each written with a row of the last one."""
    t = memory()
    u = t + 1
    v = u * 2
    write(u, p(2), v[0:1])
    write(v, p(1), u[2:3])
    write(t, p(0), v[1:2])
    row = 2 * (NUMBERS[0] + 1)
    assert np.array_equal(t.numpy(), rows(NUMBERS, r0=row))
    assert np.array_equal(v.numpy(), rows(2 * (NUMBERS + 1), r1=row))
    assert np.array_equal(u.numpy(), rows(NUMBERS + 1, r2=row))


def test_an_expression_of_the_old_value_and_of_the_new_one(p: Callable[[int], UOp]) -> None:
    """The old one is copied, and the write is not done again over the copy."""
    t = memory()
    old = t * 2
    write(t, p(1), 5)
    s = old + t
    write(s, p(0), 1)
    new = t[p(2) : p(2) + 1] + old[3:]
    assert np.array_equal(s.numpy(), rows(2 * NUMBERS + rows(NUMBERS, r1=5), r0=1))
    assert np.array_equal(new.numpy(), NUMBERS[2:3] + 2 * NUMBERS[3:])
    assert np.array_equal(t.numpy(), rows(NUMBERS, r1=5))
    assert np.array_equal(old.numpy(), 2 * NUMBERS)


def test_a_value_that_reads_under_another_value(p: Callable[[int], UOp]) -> None:
    """Each row from the one before, with one Variable: what is written is computed first; also a part, and a leaf."""
    t, w = memory(), Tensor(NUMBERS.copy(), requires_grad=True).realize()
    for k in (1, 2):
        write(t, p(k), t[p(k - 1) : p(k - 1) + 1] * 2)
        write(t, p(0), t[p(k) : p(k) + 1])
        w[p(k)] = w[p(0)] + 1
    wanted = rows(NUMBERS, r1=2 * NUMBERS[0], r2=4 * NUMBERS[0], r0=4 * NUMBERS[0])
    assert np.array_equal(t.numpy(), wanted)
    assert np.array_equal(w.numpy(), rows(NUMBERS, r1=NUMBERS[0] + 1, r2=NUMBERS[0] + 1))


@pytest.mark.parametrize("read", [False, True])
def test_gradients_are_added_up(p: Callable[[int], UOp], read: bool) -> None:
    """Of losses over several lengths, whether .grad is realised in between or not; and a step with them."""
    w = Tensor(NUMBERS.copy(), requires_grad=True).realize()
    wanted = np.zeros((4, 4), np.float32)
    state = SGD([w], lr=0.5, momentum=0.5)
    for k in (1, 2, 0):
        ((w[p(k) : p(k) + 1] * w[3:]).sum() + w[: p(k) + 1].sum()).backward()
        wanted[k] += NUMBERS[3]
        wanted[3] += NUMBERS[k]
        wanted[: k + 1] += 1
        if read:
            assert w.grad is not None
            w.grad.realize()
    assert w.grad is not None
    with Tensor.train():
        state.step()
    assert np.array_equal(w.grad.numpy(), wanted)
    assert np.array_equal(w.numpy(), NUMBERS - 0.5 * wanted)


@pytest.mark.parametrize("swapped", [False, True])
def test_tensors_realised_together(p: Callable[[int], UOp], swapped: bool) -> None:
    """Each is computed from the values that all had before."""
    a, b = memory(), memory()
    new_a, new_b = (a + b)[1:2], (a - 2 * b)[0:1]
    write(a, p(1), new_a)
    write(b, p(0), new_b)
    b.realize(a, b) if swapped else a.realize(b)
    GlobalCounters.reset()
    assert np.array_equal(a.numpy(), rows(NUMBERS, r1=2 * NUMBERS[1]))
    assert np.array_equal(b.numpy(), rows(NUMBERS, r0=-NUMBERS[0]))
    assert GlobalCounters.kernel_count == 0


def test_results_realised_together(p: Callable[[int], UOp]) -> None:
    """A write, what reads it under another value, lengths of one name, and what has no variable."""
    x, t = memory(), memory()
    write(t, p(1), 5)
    read, plain = t[p(0) : p(0) + 2].sum(), t.sum()
    one, two = x[: p(1)].sum(), x[: p(2)].sum()
    read.realize(one, t, plain, two)
    GlobalCounters.reset()
    assert (read.item(), plain.item()) == (26.0, rows(NUMBERS, r1=5).sum())
    assert (one.item(), two.item()) == (6.0, 28.0)
    assert np.array_equal(t.numpy(), rows(NUMBERS, r1=5))
    assert GlobalCounters.kernel_count == 0


def test_as_few_realises_as_there_are_values() -> None:
    """Writes with one value of a variable are computed together."""
    p = Variable("p", 0, 3)
    tensors = [memory() for _ in range(6)]
    x = Tensor.ones(4)
    for k in (1, 0):
        for t in tensors:
            write(t, p.bind(k), x)
            x = t[3] * 2
    together, seen = postorder(*[t.uop for t in tensors]), values_in
    assert seen(together) is None
    first = computable_first(together, [t.uop for t in tensors])
    assert values_in(postorder(*first)) == {"p": 1}
    assert sum(node.op is Ops.ASSIGN for node in postorder(*first)) == 6
    tensors[0].realize(*tensors[1:])
    for t in tensors[1:]:
        assert np.array_equal(t.numpy(), rows(NUMBERS, r0=2 * NUMBERS[3], r1=2 * NUMBERS[3]))


def test_two_values_in_one_expression(p: Callable[[int], UOp]) -> None:
    """Each has a variable of its own in the kernel; what is written under the one reads under the others."""
    t, x = memory(), memory()
    write(t, p(1), 5)
    mixed = x[: p(1)].sum() + x[: p(2)].sum() + t.sum()
    wanted = rows(NUMBERS, r1=5)
    assert mixed.item() == NUMBERS[:1].sum() + NUMBERS[:2].sum() + wanted.sum()
    assert np.array_equal(t.numpy(), wanted)
    write(x, p(0), x[p(1) : p(1) + 1] + x[p(2) : p(2) + 1])
    assert np.array_equal(x.numpy(), rows(NUMBERS, r0=NUMBERS[1] + NUMBERS[2]))


def test_variables_told_apart_have_new_names(p: Callable[[int], UOp]) -> None:
    """The first value of a name keeps it, and no other variable's name is taken; sizes in args follow."""
    x, taken = memory(), Variable("p_2", 0, 3).bind(3)
    mixed = (x[: p(1)].sum() + x[: p(2)].sum() + x[:taken].sum() + x[: p(0)].sum()).uop
    assert values_in(postorder(mixed)) is None
    (apart,) = with_separate_names([mixed]).values()
    assert values_in(postorder(apart)) == {"p": 1, "p_3": 2, "p_2": 3, "p_4": 0}
    plain = x[: p(1)].sum().uop
    assert with_separate_names([plain]) == {plain: plain}


def test_a_function_with_two_values_in_one_expression_is_not_captured(p: Callable[[int], UOp]) -> None:
    """A replay would not know what the second one is: the function runs in every call."""
    x = memory()
    both = TinyJit(lambda n: (x[: p(1)].sum() + x[:n].sum()).realize())
    for number in (2, 0, 2, 0, 2):
        assert both(p(number)).item() == NUMBERS[:1].sum() + NUMBERS[:number].sum()
    assert both.captured == 0


def test_a_failure_drops_the_writes_of_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it comes in what is realised first; those of others stay."""
    p = Variable("p", 0, 3)
    t, other = memory(), memory() * 2
    write(other, p.bind(2), 9)
    write(t, p.bind(1), other[3:4])
    write(t, p.bind(0), 6)
    run, calls = realize_module.run_request, 0

    def fail(*args: object) -> None:
        nonlocal calls
        calls += 1
        raise MemoryError

    monkeypatch.setattr(realize_module, "run_request", fail)
    with pytest.raises(MemoryError):
        t.realize()
    monkeypatch.setattr(realize_module, "run_request", run)
    assert calls == 1
    assert np.array_equal(t.numpy(), NUMBERS)
    assert np.array_equal(other.numpy(), rows(2 * NUMBERS, r2=9))


def test_a_function_under_tinyjit(p: Callable[[int], UOp]) -> None:
    """Writes under its argument and under a value of its own: right in every call, also beside a pending one."""
    t = memory()

    @TinyJit
    def step(x: Tensor, place: UOp) -> Tensor:
        write(t, place, x)
        write(t, p(0), x + 1)
        return (t * 2).realize()

    wanted = NUMBERS
    for k in (1, 2, 1, 2, 0, 2):
        write(t, p(1), 20.0 + k)
        x = Tensor(np.full((1, 4), 10.0 * k, np.float32)).realize()
        wanted = rows(rows(wanted, r1=20 + k), **{f"r{k}": 10 * k})
        wanted = rows(wanted, r0=10 * k + 1)
        assert np.array_equal(step(x, p(k)).numpy(), 2 * wanted)
        assert np.array_equal(t.numpy(), wanted)
