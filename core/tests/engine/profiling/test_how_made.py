"""How a program makes its tensors, in a profile: rows one by one, Python by module, float64, memory that grows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Tensor, events, nn
from tinygraft.engine.origins import MemoryChange, UserLine
from tinygraft.engine.profiling.how_made import HowMade, growth, in_double, row_loops
from tinygraft.engine.profiling.profile_report import report_lines
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.engine.profiling.worth_a_look import worth_a_look

HERE = Path(__file__).name


@pytest.fixture
def profiled() -> Iterator[Callable[[Callable[[], object]], Profile]]:
    """Return a function that profiles a call."""

    def run(call: Callable[[], object]) -> Profile:
        profile = Profile("a test").start()
        try:
            call()
        finally:
            profile.stop()
        return profile

    yield run
    events.origins = None


class Outside:
    """A layer that calls another one for each row."""

    def __init__(self) -> None:
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def __call__(self, x: Tensor) -> Tensor:
        """Row by row, then all."""
        return self.last(Tensor.stack(*[self.first(row).relu() for row in x]))


class Inside:
    """A layer with the loop in itself."""

    def __init__(self) -> None:
        self.weight = Tensor.ones(4, 4)

    def __call__(self, x: Tensor) -> Tensor:
        """Row by row."""
        return Tensor.cat(*[x[i : i + 1] @ self.weight for i in range(len(x))])


class Recurrent:
    """Each step needs the one before."""

    def __init__(self) -> None:
        self.cell = nn.RNNCell(4, 4)

    def __call__(self, x: Tensor) -> Tensor:
        """The last state."""
        state = self.cell(x[0])
        for number in range(1, len(x)):
            state = self.cell(x[number], state)
        return state


def told_rows(profile: Profile) -> list[str]:
    """The sentences about loops over rows."""
    assert profile.lines.makings is not None
    return [text for _, text in row_loops(profile.lines.makings, {})]


def test_a_layer_that_is_called_for_each_row(profiled: Callable[..., Profile]) -> None:
    """It is named with how often, and the line that takes the rows; the layer that has the whole batch is not."""
    net, x = Outside(), Tensor.ones(12, 4).contiguous().realize()
    told = told_rows(profiled(lambda: [net(x).realize() for _ in range(2)]))
    assert len(told) == 1
    assert f"{HERE}:" in told[0]
    assert re.search(
        r"Outside.first is called 12 times, each with one row of a tensor of shape \(12, 4\) \(\d+ % of all tensors "
        r"are made there: most of what is scheduled and compiled\): call it once with the whole batch$",
        told[0],
    )


class Both:
    """Two layers for each row, with a third around all of them."""

    def __init__(self) -> None:
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def __call__(self, x: Tensor) -> Tensor:
        """Row by row."""
        return Tensor.stack(*[self.b(self.a(row)) for row in x])


def test_layers_that_are_called_for_the_same_rows_are_one_loop(profiled: Callable[..., Profile]) -> None:
    """Both are named; most tensors are made there, so what is compiled is mostly for them."""
    net, x = Both(), Tensor.ones(12, 4).contiguous().realize()
    (told,) = told_rows(profiled(lambda: net(x).realize()))
    assert re.search(
        r"Both.a and Both.b are called 12 times, each with one row of a tensor of shape \(12, 4\) \(\d+ % of all "
        r"tensors are made there: most of what is scheduled and compiled\): call them once with the whole batch$",
        told,
    )


def test_a_layer_that_loops_over_rows(profiled: Callable[..., Profile]) -> None:
    """The layer itself is to be mended."""
    net, x = Inside(), Tensor.ones(12, 4).contiguous().realize()
    (told,) = told_rows(profiled(lambda: net(x).realize()))
    assert re.search(
        r"Inside computes 12 times on one row each of a tensor of shape \(12, 4\) \(\d+ % of all tensors are made "
        r"there: most of what is scheduled and compiled\): compute with the whole tensor at once, without a loop in "
        r"Python$",
        told,
    )


def test_steps_of_a_recurrent_layer_are_no_rows(profiled: Callable[..., Profile]) -> None:
    """No batch can take what each step needs from the one before; one row in each request is no loop either."""
    net, x = Recurrent(), Tensor.ones(12, 3, 4).contiguous().realize()
    layer = nn.Linear(4, 4)
    assert told_rows(profiled(lambda: net(x).realize())) == []
    assert told_rows(profiled(lambda: [layer(x[i]).realize() for i in range(12)])) == []


def test_python_by_module(profiled: Callable[..., Profile]) -> None:
    """A module whose graphs take long in Python shows so beside its kernels, its gradient, too."""
    net, x = Outside(), Tensor.ones(64, 4).contiguous().realize()

    def steps() -> None:
        with Tensor.train():
            for _ in range(6):
                net(x).square().mean().backward()
                nn.state.get_parameters(net)[0].grad.realize()  # type: ignore[union-attr]

    profile = profiled(steps)
    python = profile.lines.modules()
    assert python.get("Outside.first", 0.0) > 0
    assert python.get("Outside.first backward", 0.0) > 0
    assert "" not in python
    table = "\n".join(report_lines(profile)).partition("kernels by module")[2].partition("\n\n")[0]
    assert table.split()[:2] == ["Python", "time"]


def test_float64_is_named_with_where_it_comes_from(profiled: Callable[..., Profile]) -> None:
    """NumPy's default dtype is seldom meant; float32 is no matter."""
    array = np.ones((32, 32))
    profile = profiled(lambda: (Tensor(array) @ Tensor(array)).realize())
    assert profile.lines.makings is not None
    launches = [launch for _, launch in profile.launches]
    ((seconds, told),) = in_double(profile.lines.makings, launches)
    assert seconds > 0
    assert "0.008 MB of float64 come in here, NumPy's default dtype; kernels compute in float64 for " in told
    small = array.astype(np.float32)
    profile = profiled(lambda: (Tensor(small) @ Tensor(small)).realize())
    assert profile.lines.makings is not None
    assert list(in_double(profile.lines.makings, [launch for _, launch in profile.launches])) == []


def test_memory_that_grows() -> None:
    """A line of which each step leaves a value is named; weights, which one request makes, and small ones are not."""
    line = UserLine("/there/a.py", 3, "Net")
    changes = [MemoryChange(number + 0.5, "X", 10**6, number, line) for number in range(9)]
    (told,) = growth(changes, [float(number) for number in range(9)])
    assert told.startswith("/there/a.py:3: memory grows: values of this line from 9 steps were live at once, 9.000 MB.")
    assert list(growth(changes, [0.0])) == []
    small = [MemoryChange(number + 0.5, "X", 10, number, line) for number in range(9)]
    assert list(growth(small, [float(number) for number in range(9)])) == []


def test_what_hides_the_rest_comes_first() -> None:
    """Loops over rows and memory that grows are before what takes longest; a loop of no time is not told."""
    how = HowMade(rows=[(0.5, "a loop"), (0.001, "a small one")], double=[(2.0, "float64")], growth=["it grows"])
    modules = {"Net": {"x.py:1": 3.0}}
    told = worth_a_look([], 4.0, modules, how=how, work={"Net x.py:1": "2 GFLOP in 3 launches"})
    assert told[:2] == ["a loop", "it grows"]
    assert told[2].startswith("Net: 3.00 s") and told[2].endswith("most at x.py:1, 2 GFLOP in 3 launches")
    assert told[3:] == ["float64"]
    assert worth_a_look([], 4.0, {"Net": {"x.py:1": 0.001}}, how=how)[2:] == ["float64"]
