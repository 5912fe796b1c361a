"""DEBUG=1 says once, with the user's line, why the same operations are compiled again and again."""

from __future__ import annotations

import linecache
import warnings

import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit
from tinygraft.engine import plan, repeated


@pytest.fixture(autouse=True)
def empty():
    """Each test starts without plans, on the PYTHON device with DEBUG=1."""
    plan.clear()
    repeated._counted.clear()
    with Context(DEV="PYTHON", DEBUG=1):
        yield
    plan.clear()


def said(capsys, loop) -> list[str]:
    """What a loop prints about repetitions: the sentence, and the hint below it, without file and line."""
    capsys.readouterr()
    loop()
    printed = capsys.readouterr().out.splitlines()
    places = [number for number, line in enumerate(printed) if "compiled 8 times" in line]
    assert all("test_repeated.py:" in printed[place] for place in places)
    below = [place + 1 for place in places if "hint" in printed[place + 1]]
    return [printed[place].partition(": ")[2] for place in sorted(places + below)]


def test_a_shape_that_grows(capsys):
    """A result of another shape each time."""
    x = Tensor.ones(40).contiguous().realize()

    def loop():
        for i in range(1, 20):
            (x[:i] * 2).realize()

    assert said(capsys, loop) == [
        "the same operations were compiled 8 times, for 8 shapes or more, at last for a result of (9,)",
        "keep one shape (pad what is shorter), or give the size that changes as a Variable",
    ]


def test_a_number_that_kernels_are_specialised_for(capsys):
    """The operand of a function that has no other."""
    x = Tensor([7.0, 8.0, 9.0]).realize()

    def loop():
        for i in range(2, 20):
            (x * Tensor(i * 0.5).sin()).realize()

    assert said(capsys, loop) == [
        "the same operations were compiled 8 times, as a number of SIN differs, which kernels are specialised for: "
        "4.0, now 4.5",
        "put what changes into a Tensor",
    ]


def test_numbers_under_tinyjit(capsys):
    """A number of a closure of a captured function; those among its arguments compile twice."""
    x, by = Tensor([7.0, 8.0]).realize(), [0.0]

    @TinyJit
    def scaled(t):
        return (t * by[0]).realize()

    def loop():
        for i in range(12):
            by[0] = i + 0.5
            scaled(x)

    assert said(capsys, loop) == [
        "the same operations were compiled 8 times, because Python numbers in a function under TinyJit are part of "
        "what it captures, also those that it reads with item() or numpy()",
        "give what changes as an argument that is a Tensor or a bound Variable, and read nothing in it",
    ]


def test_a_value_that_a_tinyjit_reads_is_an_argument_of_kernels():
    """Few of its calls are recorded, and these take the numbers that they read as arguments: nothing compiles anew."""
    layer = Tensor([7.0, 8.0]).realize()

    @TinyJit
    def scaled(t):
        return (t * layer / t.max().item()).realize()

    with Context(DEBUG=0), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(40):
            assert scaled(Tensor([i + 3.0, 2.0]).realize()).tolist() == pytest.approx([7.0, 16.0 / (i + 3.0)])
            if i == 3:
                before = GlobalCounters.kernels_compiled
    assert not found and GlobalCounters.kernels_compiled == before


def test_a_number_that_changes_in_a_tinyjit_is_a_warning():
    """Also without DEBUG, once, at the user's line: each call is captured anew, which is slower than no TinyJit."""
    layer, numbers = Tensor([7.0, 8.0]).realize(), iter(range(2, 20))

    @TinyJit
    def scaled(t):
        return (t * layer / next(numbers)).realize()  # here

    with Context(DEBUG=0), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(12):
            scaled(Tensor([i + 1.0, 2.0]).realize())
    (warning,) = found
    assert warning.category is RuntimeWarning
    assert "also those that it reads with item" in str(warning.message)
    assert "here" in linecache.getline(warning.filename, warning.lineno)
    assert "a TinyJit that captures each call anew is slower than none" in str(warning.message)


def test_a_family_that_stays(capsys, monkeypatch):
    """Numbers that cannot be arguments."""
    monkeypatch.setattr("tinygraft.engine.same_sums.same_sums", lambda *args: False)
    x = Tensor([7.0, 8.0]).realize()

    def loop():
        for i in range(2, 14):
            (x * i).sum().realize()

    assert said(capsys, loop) == [
        "the same operations were compiled 8 times, once for each Python number: with the numbers as arguments, sums "
        "of floats would be added in another order",
        "put the numbers that change into a Tensor",
    ]


def test_nothing_is_said_where_numbers_are_arguments(capsys):
    """30 numbers, two compilations."""
    x = Tensor([7.0, 8.0]).realize()

    def loop():
        for i in range(30):
            (x * (i + 0.5)).realize()

    assert said(capsys, loop) == []
