"""Findings 1.18 (a reshape by a variable), 2.3 and 2.7: symbolic sizes in shapes, in constructors and as values.

A size written in different ways is one size; what bounds decide is decided, what they leave open is checked with the
values that variables are bound to, in each call and in each replay. Programs are compared with NumPy.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from symbolic_programs import Program, digest
from tinygraft import Context, Tensor, TinyJit, Variable, dtypes
from tinygraft.errors import DTypeError, GraphError, NumberOutOfRange, ShapeError
from tinygraft.tensor.primitives.size_math import now
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, VariableArg
from tinygraft.uop.uop import UOp

DATA = np.arange(40, dtype=np.float32).reshape(8, 5)


@pytest.fixture
def x() -> Tensor:
    """DATA in memory."""
    return Tensor(DATA).realize()


# 1.18


def test_1_18_a_reshape_to_a_wrong_size_names_the_values() -> None:
    """It kept 12 of 30 elements without a word."""
    i = Variable("i", 1, 10)
    with pytest.raises(ShapeError) as caught:
        Tensor.ones(30).reshape(3, i.bind(4))
    assert str(caught.value).startswith(
        "cannot reshape (30,), which has 30 elements, to (3, 4), which has 12, with i = 4\n  made at "
    )
    assert Tensor.ones(30).reshape(3, i.bind(10)).sum(0).sum().item() == 30.0
    for wrong in (lambda t, n: t[:n].reshape(-1, 2), lambda t, n: t[:n].unflatten(0, (2, 2))):
        with pytest.raises(ShapeError, match=re.escape("cannot reshape (3, 5), which has 15 elements, to")):
            wrong(Tensor(DATA), i.bind(3))
    with pytest.raises(ShapeError, match="which has 12, with i = 4"):  # a node that nobody looks at
        UOp(Ops.RESHAPE, dtypes.float, (Tensor.ones(30).uop, i.bind(4)), (3, i.bind(4)))


def test_1_18_a_replay_with_a_wrong_size_raises() -> None:
    """The kernel of a capture is for every value; whether it fits is looked at before each launch."""
    data = np.arange(12, dtype=np.float32)
    t, i = Tensor(data).realize(), Variable("i", 1, 10)
    rows = TinyJit(lambda t, n: t.reshape(n, -1).sum(1).max().realize())
    for n in (4, 6, 4, 3):
        assert rows(t, i.bind(n)).item() == data.reshape(n, -1).sum(1).max()
    assert rows.captured == 1
    with pytest.raises(
        ShapeError, match=re.escape("cannot reshape (12,), which has 12 elements, to (5, 2), which has")
    ):
        rows(t, i.bind(5))


# 2.3: sizes


def test_2_3_what_cancels_is_a_number(x: Tensor) -> None:
    """i + (5 - i), the pad of a cache, parts counted from a symbolic end."""
    i, s = Variable("i", 1, 5), Variable("s", 0, 7)
    for n in (1, 3, 5):
        b = i.bind(n)
        assert Tensor.ones(5)[:b].pad(((0, 5 - b),)).tolist() == [1.0] * n + [0.0] * (5 - n)
        cache = x[: s.bind(n) + 1].pad(((0, 8 - s.bind(n) - 1), (0, 0)))
        np.testing.assert_array_equal(cache.numpy(), np.pad(DATA[: n + 1], ((0, 7 - n), (0, 0))))
        assert x[:b].cat(x[b:]).shape == (8, 5)
        np.testing.assert_array_equal(x[:b].cat(x[b:]).numpy(), DATA)
        np.testing.assert_array_equal(x[s.bind(n) : s.bind(n) + 1].numpy(), DATA[n : n + 1])
    for n in (3, 4, 5):
        part = x[:, : i.bind(n)][:, -3:-1]
        assert part.shape == (8, 2)
        np.testing.assert_array_equal(part.numpy(), DATA[:, :n][:, -3:-1])


def test_2_3_one_size_has_one_form(x: Tensor) -> None:
    """2*i is i+i where sizes are compared; the operators themselves build what was written."""
    i, j = Variable("i", 1, 4).bind(2), Variable("j", 0, 2).bind(1)
    assert (2 * i) is not (i + i)
    assert (i + i).op is Ops.ADD
    for one, other in [
        (2 * i, i + i),
        (i + j, j + i),
        (i * j, j * i),
        (i - j + j, i),
        (i // 2 + j // 2, j // 2 + i // 2),
        ((i + 1) * 2 - 2, i * 2),
        (i % 3 + i * j + j, j + i * j + i % 3),
    ]:
        left, right = x[:one], x[:other]
        assert left.shape == right.shape
        assert (left + right).sum().item() == 2 * DATA[: now(one)].sum()
    assert x[: Variable("three", 3, 3).bind(3)].shape == (3, 5)  # it can be nothing else
    assert ix.settled((i + (5 - i), (i - i, 4))) == (5, (0, 4))


def test_2_3_bounds_decide_slices(x: Tensor) -> None:
    """From the end where a place can only be negative, up to the end where it can only be past it."""
    n = Variable("n", 2, 5)
    for k in (2, 3, 5):
        b = n.bind(k)
        rows = x[:b]
        for part, expected in [
            (rows[:10], DATA[:k][:10]),
            (rows[-10:], DATA[:k][-10:]),
            (rows[-2:], DATA[:k][-2:]),
            (x[-b:], DATA[-k:]),
            (x[b - 6 :], DATA[k - 6 :]),
            (rows[::-1], DATA[:k][::-1]),
            (rows[1:1], DATA[:k][1:1]),
            (x[b + 8 :], DATA[k + 8 :]),
            (x.narrow(0, -b, 2), DATA[-k : 2 - k or None]),
            (x[-b], DATA[-k]),
        ]:
            assert tuple(now(size) for size in part.shape) == expected.shape
            assert part.sum().item() == expected.sum()
            if all(isinstance(size, int) for size in part.shape):
                np.testing.assert_array_equal(part.numpy(), expected)


def test_2_3_what_bounds_leave_open_is_checked(x: Tensor) -> None:
    """A place that may be negative for some values counts from the front, and is refused where it is negative."""
    n = Variable("n", 0, 5)
    assert x[n.bind(3) - 2 :].sum().item() == DATA[1:].sum()
    with pytest.raises(ShapeError, match=re.escape("cannot shrink axis 0 of (8, 5) to (-1, 8), with n = 1")):
        x[n.bind(1) - 2 :]
    with pytest.raises(ShapeError, match=re.escape("cannot shrink axis 0 of (1, 5) to (0, 2), with n = 1")):
        x[: n.bind(1)][:2]
    with pytest.raises(DTypeError, match="^a slice is made of integers, got int"):
        x[: n.bind(1).cast(dtypes.int)]
    with pytest.raises(DTypeError, match="^a slice is made of integers, got n:2 for axis 0"):
        x[:: n.bind(2)]
    with pytest.raises(ShapeError, match="^a slice with symbolic bounds needs a step of 1, got 2 on axis 0 of shape"):
        x[: n.bind(3)][::2]


NEGATIVE = {
    "a shape": [
        lambda t, n: Tensor.zeros(n - 3, 2) + t.sum(),
        lambda t, n: Tensor.full((2, n - 3), 1.0) + t.sum(),
        lambda t, n: t.expand(n - 3, 8, 5),
        lambda t, n: t.repeat(n - 3, 1),
        lambda t, n: Tensor.eye(n - 3).sum() + t.sum(),
        lambda t, n: t.repeat_interleave(n - 3, 0),
    ],
    "a padding": [lambda t, n: t.pad(((0, n - 3), (0, 0))), lambda t, n: t.pad(((n - 3, 0), (0, 0)), value=2)],
}


@pytest.mark.parametrize(("what", "make"), [(what, make) for what, makes in NEGATIVE.items() for make in makes])
def test_2_3_a_number_of_elements_is_never_negative(x: Tensor, what, make) -> None:
    """Neither when it is written, nor in a replay with another value."""
    n = Variable("n", 0, 6)
    message = f"{what} is made of sizes that are not negative, got "
    with pytest.raises(ShapeError, match=re.escape(message)):
        make(x, n.bind(1))
    run = TinyJit(lambda t, b: make(t, b).sum().realize())
    for value in (4, 5, 3):
        assert run(x, n.bind(value)).item() == pytest.approx(make(x, value).sum().item())
    assert run.captured == 1
    with pytest.raises(ShapeError, match=re.escape(message)):
        run(x, n.bind(2))


def test_2_3_a_pad_that_could_be_negative_pads(x: Tensor) -> None:
    """8 - s - 1 with s up to 9 was taken for a cut, whatever s was bound to."""
    s = Variable("s", 0, 9)
    padded = x[: s.bind(3) + 1].pad(((0, 8 - s.bind(3) - 1), (0, 0)))
    np.testing.assert_array_equal(padded.numpy(), np.pad(DATA[:4], ((0, 4), (0, 0))))
    with pytest.raises(ShapeError, match="a padding is made of sizes that are not negative, got "):
        x.pad(((0, 8 - s.bind(9)), (0, 0)))


# 2.3: constructors and values


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_2_3_arange_of_a_variable(step: int) -> None:
    """Any ends, up and down; none where the end comes first."""
    i, j = Variable("i", 0, 9), Variable("j", 2, 6)
    for a, b in itertools.product((0, 4, 9), (2, 6)):
        line = Tensor.arange(i.bind(a), j.bind(b), step)
        expected = np.arange(a, b, step)
        assert [now(size) for size in line.shape] == [len(expected)]
        assert line.sum().item() == expected.sum()
        room = 12 - line.shape[0]
        np.testing.assert_array_equal(line.pad((0, room)).numpy(), np.pad(expected, (0, 12 - len(expected))))


def test_2_3_what_arange_of_a_variable_is(x: Tensor) -> None:
    """Its dtype is that of its ends as values; it takes the place of a known length."""
    i = Variable("i", 1, 5).bind(3)
    assert (Tensor.arange(i).dtype, Tensor.arange(i, dtype=dtypes.half).dtype) == (dtypes.int, dtypes.half)
    assert Tensor.arange(Variable("n", 1, 2**40).bind(7)).dtype is dtypes.int64
    assert Tensor.arange(Variable("n", 1, 9, dtype=dtypes.int16).bind(7)).dtype is dtypes.int16
    assert (Tensor.arange(i) * x[0, :i]).sum().item() == 5.0
    assert x[Tensor.arange(i)].sum().item() == DATA[:3].sum()
    assert Tensor.eye(i).sum().item() == 3.0
    assert Tensor.arange(i, 3).shape[0].lo == 0
    for wrong in (lambda: Tensor.arange(0, i, 0.5), lambda: Tensor.arange(0, 9, i), lambda: Tensor.arange(i, 2.5)):
        with pytest.raises(ShapeError, match="^arange with a symbolic end counts in integers, by a known step other"):
            wrong()


def test_2_3_a_variable_is_a_value() -> None:
    """On either side of each operator, as one dtype or another, where a number can be."""
    i, data = Variable("i", 1, 5).bind(3), np.array([1.0, 2.0, 4.0], np.float32)
    t, whole = Tensor(data).realize(), Tensor([1, 2, 4]).realize()
    assert (Tensor.ones(5)[:i] * Tensor(i.cast(dtypes.float))).sum().item() == 9.0
    for op in ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!="):
        for text in (f"t {op} n", f"n {op} t"):
            np.testing.assert_allclose(eval(text, {"t": t, "n": i}).numpy(), eval(text, {"t": data, "n": 3}), rtol=1e-6)
    for op in ("&", "|", "^", "<<", ">>"):
        for text in (f"t {op} n", f"n {op} t"):
            assert eval(text, {"t": whole, "n": i}).tolist() == eval(text, {"t": np.array([1, 2, 4]), "n": 3}).tolist()
    assert (t > 1).where(i, t).tolist() == [1.0, 3.0, 3.0]
    assert (t.maximum(i).tolist(), t.clip(0, i).tolist()) == ([3.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    assert (t * (i.cast(dtypes.float) * -0.5)).tolist() == [-1.5, -3.0, -6.0]
    zero = Tensor(Variable("zero", 0, 1).bind(0).cast(dtypes.float) * -0.5).item()
    assert str(zero) == "-0.0"
    assert (Tensor(10 // i).item(), Tensor(10 % i).item(), Tensor(i * 2 - 1).item()) == (3, 1, 5)
    with pytest.raises(DTypeError, match=re.escape("a symbolic integer is combined with integers, got 2.5\n  hint:")):
        i * 2.5
    for divide in (lambda: i / 2, lambda: i / i, lambda: 2 / i):
        with pytest.raises(
            DTypeError, match=re.escape("a symbolic integer is divided by //, which gives one; / would")
        ):
            divide()


def test_2_3_the_dtype_of_a_variable() -> None:
    """It is what it has as a value; a size it is all the same."""
    n = Variable("n", 1, 10, dtype=dtypes.int8)
    assert repr(n.arg) == "VariableArg(name='n', low=1, high=10, dtype=dtypes.char)"
    assert "dtype" not in repr(Variable("n", 1, 10).arg)
    assert (Tensor(n.bind(3)).dtype, Tensor.full((2,), n.bind(3)).dtype) == (dtypes.int8, dtypes.int8)
    assert (Tensor(n.bind(3) * 100).dtype, Tensor(n.bind(3) * 100).item()) == (dtypes.int64, 300)
    assert Tensor(Variable("n", 0, 2**40).bind(2**33)).item() == 2**33
    assert Tensor(DATA)[: n.bind(3)].sum().item() == DATA[:3].sum()
    assert (Tensor(DATA)[: n.bind(3)] + Tensor(n.bind(3))).sum().item() == (DATA[:3] + 3).sum()
    assert Variable("n", 1, 10, dtype=dtypes.index) is Variable("n", 1, 10)
    for dtype, bounds in ((dtypes.uint8, (0, 300)), (dtypes.float, (0, 3))):
        with pytest.raises(DTypeError, match=re.escape(f"variable 'n' is an integer in [0, {bounds[1]}], so its")):
            Variable("n", *bounds, dtype=dtype)


def test_2_3_a_variable_beside_a_dtype_that_does_not_hold_it() -> None:
    """As a Python number: it raises where it would have wrapped, with the value that is bound, in a replay too."""
    v, x = Variable("v", 0, 1000), Tensor([1, 2], dtype=dtypes.int8).realize()
    for make in (
        lambda n: x + n,
        lambda n: n * x,
        lambda n: x < n,
        lambda n: (x > 1).where(n, x),
        lambda n: Tensor(n, dtype=dtypes.int8),
        lambda n: Tensor.full((2,), n, dtype=dtypes.int8),
        lambda n: Tensor.arange(n + 1, dtype=dtypes.int8).sum(),
    ):
        make(v.bind(100)).realize()
        with pytest.raises(
            NumberOutOfRange, match="^300 is out of range for dtypes.char, which holds -128 to 127, with v = 300"
        ):
            make(v.bind(300))
    assert (x & v.bind(511)).tolist() == [1, 2]  # ops on bits wrap
    assert (Tensor([0.5]) + v.bind(300)).tolist() == [300.5]
    assert Tensor.arange(v.bind(500), 3, dtype=dtypes.int8).sum().item() == 0  # there are none
    run = TinyJit(lambda t, n: (t + n).realize())
    assert [run(x, v.bind(n)).tolist() for n in (1, 2, 3)] == [[2, 3], [3, 4], [4, 5]]
    with pytest.raises(NumberOutOfRange, match="^200 is out of range"):
        run(x, v.bind(200))


def test_2_3_a_variable_without_a_value_says_so(x: Tensor) -> None:
    """It was KeyError 'u'."""
    u = Variable("u", 2, 4)
    for make in (lambda: Tensor(u), lambda: x[:u].sum(), lambda: x[u], lambda: Tensor.arange(u).sum()):
        with pytest.raises(GraphError) as caught:
            make().realize()
        assert str(caught.value) == (
            "the variable u has no value, and the result depends on it\n"
            "  hint: bind it, as in u.bind(2); it is in [2, 4]"
        )
    with pytest.raises(GraphError, match="^the variable u has no value"):
        TinyJit(lambda t, n: t[:n].sum().realize())(x, u)


def test_2_3_what_is_bound_is_an_integer() -> None:
    """2.7 was bound as 2, and bounds of more than 64 bits failed at the launch."""
    n = Variable("n", 1, 9)
    for value in (2.7, 2.0, "2", None):
        with pytest.raises(ValueError, match=re.escape(f"n must be in [1, 9], got {value!r}")):
            n.bind(value)
    assert n.bind(np.int16(2)).arg == 2
    for low, high in ((0.5, 3), (0, 2**63), ("0", "3")):
        with pytest.raises(ValueError, match="^variable 'n' needs bounds that are integers of 64 bits, got "):
            Variable("n", low, high)


@pytest.mark.parametrize("axes", [("n", 5), (8, "m"), ("n", "m"), ("n", "n")])
@pytest.mark.parametrize("axis", [0, 1])
def test_2_3_a_scan_over_symbolic_axes(x: Tensor, axes, axis: int) -> None:
    """The proof that a scan reads what it stored knew no strides that are symbolic."""
    sizes = {"n": Variable("n", 1, 5), "m": Variable("m", 0, 4)}
    for n, m in ((3, 2), (5, 4), (1, 0)):
        values = {"n": n, "m": m}
        known = tuple(values.get(a, a) for a in axes)
        bound = [sizes[a].bind(values[a]) if a in values else a for a in axes]
        expected = DATA[: known[0], : known[1]].cumsum(axis)
        found = x[: bound[0], : bound[1]].cumsum(axis)
        filled = found.pad(((0, 8 - bound[0]), (0, 5 - bound[1])))
        np.testing.assert_array_equal(filled.numpy()[: known[0], : known[1]], expected)


# Programs


@pytest.mark.parametrize("replayed", [False, True])
def test_2_3_programs_over_symbolic_sizes_are_those_of_numpy(replayed: bool) -> None:
    """Slices, pads, aranges, joins, reductions, writes; with other values each time, also in replays."""
    compared = refused = 0
    for seed in range(1000, 1022) if replayed else range(40):
        program = Program(seed)
        t = Tensor(program.data).realize()

        def number(t, *bound, program=program):
            return digest(program.run(t, dict(zip(program.variables, bound, strict=True)))).realize()

        call = TinyJit(number) if replayed else number
        for sizes, expected in program.cases(4 if replayed else 2):
            try:
                found = call(t, *program.bound(sizes)).item()
            except ShapeError as error:
                if not re.match("cannot (shrink axis|add shapes|multiply shapes)", str(error)):
                    raise
                refused += 1
                continue
            assert np.isclose(found, digest(expected), rtol=1e-9, atol=1e-9), f"{seed}: {program} with {sizes}"
            compared += 1
    assert compared >= 50
    assert refused * 10 <= compared


def test_2_3_gradients_of_symbolic_parts_are_those_of_known_ones() -> None:
    """The same program with numbers in place of variables has the same derivative."""
    compared = 0
    for seed in range(2000, 2030):
        program = Program(seed)
        for sizes, _ in program.cases(1):
            found = []
            for given in (sizes, dict(zip(program.variables, program.bound(sizes), strict=True))):
                t = Tensor(program.data, requires_grad=True).realize()
                try:
                    found.append(digest(program.run(t, given).square()).gradient(t)[0].numpy())
                except (ShapeError, GraphError):  # of what was no part of it there is no gradient
                    break
            if len(found) == 2:
                np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9, err_msg=f"{seed}: {program}")
                compared += 1
    assert compared >= 8


# 2.7


@pytest.mark.parametrize(
    "name", ["a b", "a'\"", "a\nb", "x" * 10240, "1a", "", "a;b", "a*/", "é", "a.b", "-", None, 3, b"a"]
)
def test_2_7_names_of_variables_are_checked_once(name) -> None:
    """Where one is made, or read from a file: no generated source has to look at it again."""
    for make in (lambda: Variable(name, 1, 5), lambda: VariableArg(name, 1, 5)):
        with pytest.raises(ValueError) as caught:
            make()
        message = str(caught.value)
        assert message.startswith(
            "the name of a variable is 1 to 64 letters a to z or A to Z, digits and _, and does not begin with a "
            "digit, for kernels have an argument of that name; got "
        )
        assert len(message) < 260 and "\n" not in message


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_2_7_names_that_mean_something_in_source_are_names(device: str) -> None:
    """Generated source has something before each of them."""
    with Context(DEV=device):
        x = Tensor(DATA).realize()
        for name in ("for", "int", "data0", "part", "variables", "scratch", "r0", "_", "None", "x" * 64):
            v = Variable(name, 1, 6)
            assert (x[: v.bind(2)].sum() + v.bind(2)).item() == DATA[:2].sum() + 2


@pytest.mark.needs("cc")
def test_2_7_names_in_c() -> None:
    """The same with the system's compiler."""
    code = (
        "from tinygraft import Tensor, Variable\n"
        "for name in ('for', 'part', 'x' * 64):\n"
        "    v = Variable(name, 1, 6)\n"
        "    print((Tensor([1.0, 2.0, 4.0]).realize()[:v.bind(2)].sum() + v.bind(2)).item())\n"
    )
    env = {**os.environ, "CPU_COMPILER": "c", "DEV": "CPU"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["5.0"] * 3, done.stderr
