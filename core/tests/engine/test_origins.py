"""Where nodes come from: lines and modules of kernels, of gradients, of replays and of plans that are used again."""

from __future__ import annotations

import ast
import gc
import inspect
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tinygraft import Tensor, TinyJit, events, nn
from tinygraft.engine import origins
from tinygraft.events import LaunchEvent


@pytest.fixture
def launches() -> Iterator[list[LaunchEvent]]:
    """The launches of a test, while origins are noted."""
    seen: list[LaunchEvent] = []
    origins.start()
    stop = events.observe(seen.append, LaunchEvent)
    yield seen
    stop()
    events.origins = None


class Net:
    """Two layers in a list, and one by name."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(40, 50), nn.Linear(50, 70)]
        self.last = nn.Linear(70, 20)

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the layers make of `x`, one after another."""
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def modules(launches: list[LaunchEvent]) -> list[tuple[str, bool]]:
    """The module that each launch computes most for, and whether it is its gradient."""
    return [(one.origins[0].module, one.origins[0].backward) for one in launches]


def lines(launches: list[LaunchEvent]) -> list[int]:
    """The lines of this file that launches compute most for, counted from that of the caller's `def`."""
    begin = inspect.currentframe().f_back.f_code.co_firstlineno  # type: ignore[union-attr]
    assert {one.origins[0].file for one in launches} == {__file__}
    return [one.origins[0].line - begin for one in launches]


def test_a_kernel_names_its_module(launches: list[LaunchEvent]) -> None:
    """Each product of a network is of its layer: by attribute, and by number in a list."""
    net = Net()
    x = Tensor.ones(30, 40).contiguous().realize()
    Tensor.realize(*nn.state.get_parameters(net))
    launches.clear()
    net(x).realize()
    assert modules(launches) == [("Net.layers.0", False), ("Net.layers.1", False), ("Net.last", False)]


def test_a_gradient_is_of_its_line(launches: list[LaunchEvent]) -> None:
    """Kernels of backward() name the module of the forward pass, and say that it is its gradient."""
    net = Net()
    parameters = nn.state.get_parameters(net)
    for parameter in parameters:
        parameter.requires_grad = True
    x = Tensor.ones(30, 40).contiguous().realize()
    Tensor.realize(*parameters)
    launches.clear()
    net(x).square().sum().backward()
    Tensor.realize(*[parameter.grad for parameter in parameters])  # type: ignore[misc]
    assert {("Net.layers.0", True), ("Net.layers.1", True), ("Net.last", True)} <= set(modules(launches))


def test_equal_graphs_have_lines_of_their_own(launches: list[LaunchEvent]) -> None:
    """A plan that is used again, for a graph of another line, names that line."""
    x = Tensor([1.0, 2.0, 3.0]).realize()
    launches.clear()
    (x * 2 + 1).realize()
    (x * 2 + 1).realize()
    assert lines(launches) == [4, 5]
    assert launches[0].kernel == launches[1].kernel != 0


def test_a_replay_has_the_lines_of_its_capture(launches: list[LaunchEvent]) -> None:
    """A launch of TinyJit is of the line that was captured."""
    net = Net()
    step = TinyJit(lambda x: net(x).realize())
    for _ in range(4):
        x = Tensor.ones(30, 40).contiguous().realize()
        launches.clear()
        step(x)
    assert modules(launches) == [("Net.layers.0", False), ("Net.layers.1", False), ("Net.last", False)]


def test_what_a_value_read_again_is_of(launches: list[LaunchEvent]) -> None:
    """A lazy tensor that was rebuilt over memory keeps its line."""
    x = Tensor([1.0, 2.0, 3.0]).realize()
    a = x * 3
    b = a.contiguous() + x.sum()
    a.realize()
    launches.clear()
    b.realize()
    assert set(lines(launches)) == {4}


class Reads:
    """A module whose call asks for its own locals, and drops a tensor before it computes."""

    gone: Any = None

    def __call__(self, x: Tensor) -> dict[str, Any]:
        """Return the locals of this call."""
        mine = locals()
        other = x + 5
        self.gone = weakref.ref(other)
        _ = x * 2
        del other
        gc.collect()
        _ = x * 3
        return mine


def test_looking_changes_nothing(launches: list[LaunchEvent]) -> None:
    """A user's locals() stays whole."""
    module, x = Reads(), Tensor([1.0])
    assert module(x)["x"] is x


def test_no_local_lives_longer(launches: list[LaunchEvent]) -> None:
    """A tensor that a call drops is freed there: what is live decides what is stored."""

    class Drops:
        def __call__(self, x: Tensor) -> bool:
            other = x + 5
            gone = weakref.ref(other)
            _ = x * 2
            del other
            return gone() is None

    assert Drops()(Tensor([1.0]))


def test_nothing_is_imported_without_a_recording() -> None:
    """Without PROFILE and VIZ the module is not loaded."""
    code = "import sys; from tinygraft import Tensor; (Tensor([1.0]) + 1).item(); print(*[m for m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = done.stdout.split()
    assert "tinygraft.engine.realize" in loaded
    assert not [name for name in loaded if "origins" in name or "profiling" in name or "viewer" in name]


def test_a_context_that_begins_late_knows_the_lines(tmp_path: Path) -> None:
    """What was written before Context(VIZ=1) began to record, as in a notebook, has its line: no kernel has none."""
    script = tmp_path / "late.py"
    script.write_text(
        "from tinygraft import Context, Tensor\n"
        "x = Tensor.rand(16, 16, device='PYTHON')\n"
        "y = (x @ x.T).relu().sum()\n"
        "with Context(VIZ=1):\n"
        "    y.item()\n"
        "from tinygraft.engine.viewer import served\n"
        "record = served._viewing.record\n"
        "print(*[[line for _, line, _, _ in record.origins[kernel.origin]] for kernel in record.kernels], sep='\\n')\n"
        "served._viewing.undo()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    lines = [ast.literal_eval(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert lines[-1][0] == 3
    assert all(lines), lines


def test_a_second_reduction_has_a_line_too(launches: list[LaunchEvent]) -> None:
    """The sum of all elements, which is a RESHAPE over the node that a call computes, beside a matrix product."""
    x = Tensor.ones(64, 64, device="PYTHON").contiguous().realize()
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    ((x @ x) + 1).relu().sum().item()
    assert [launch.origins[0].line for launch in launches][1:] == [line] * (len(launches) - 1)
    assert len(launches) == 3


def test_a_number_that_changes_gives_no_kernel_the_line_of_another(launches: list[LaunchEvent]) -> None:
    """Where a plan takes Python numbers as arguments the product has its line, and the sum has its own or none."""
    x = Tensor.ones(64, 64, device="PYTHON").contiguous().realize()
    launches.clear()
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    for i in range(4):
        product = (x @ x) + (i + 0.5)
        product.relu().sum().item()
    lines = [[origin.line for origin in launch.origins[:1]] for launch in launches]
    assert lines[::2] == [[line]] * 4
    assert lines[1] == [line + 1]
    assert all(found in ([], [line + 1]) for found in lines[1::2])


def test_numbers_that_vary_have_lines_of_their_own(launches: list[LaunchEvent]) -> None:
    """A plan that takes a Python number as its argument names the line of each graph that it is launched for."""
    x = Tensor([1.0, 2.0, 3.0]).realize()
    launches.clear()
    (x * 5.5 + 1.5).realize()
    (x * 6.5 + 1.5).realize()
    (x * 7.5 + 1.5).realize()
    (x * 8.5 + 1.5).realize()
    assert lines(launches) == [4, 5, 6, 7]


class Shy:
    """A module that cannot be looked into."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise RuntimeError("nothing to see")
        return object.__getattribute__(self, name)

    def __call__(self, x: Tensor) -> Tensor:
        """Return twice `x`, as another module computes it."""
        return nn.LayerNorm(3, elementwise_affine=False)(x)


def test_a_module_that_raises_is_no_error(launches: list[LaunchEvent]) -> None:
    """What a user's object raises where its attributes are looked at does not end the program."""
    assert Shy()(Tensor([[1.0, 2.0, 3.0]])).tolist()[0][1] == 0
    assert launches


def test_changes_of_memory_are_bounded(launches: list[LaunchEvent], monkeypatch: pytest.MonkeyPatch) -> None:
    """A long loop does not fill the memory with what it notes: past a bound changes are counted only."""
    known = origins.start()
    bound = len(known.memory) + 3
    monkeypatch.setattr(origins, "MOST_CHANGES", bound)
    for _ in range(5):
        (Tensor([1.0, 2.0]) + 1).realize()
    assert len(known.memory) == bound
    assert known.unnoted > 0


def test_memory_from_before_is_not_subtracted() -> None:
    """What was allocated before the recording may be freed during it: the sum stays what was allocated since."""
    before = Tensor.ones(300, 300).contiguous().realize()
    known = origins.start()
    try:
        del before
        gc.collect()
        after = Tensor.ones(200, 200).contiguous().realize()
        assert min(sum(one.nbytes for one in known.memory[:end]) for end in range(1, len(known.memory) + 1)) > 0
        del after
        gc.collect()
        numbers = [one.allocation for one in known.memory if one.nbytes < 0]
        assert len(set(numbers)) == len(numbers) > 0
    finally:
        events.origins = None


def test_a_part_of_a_block_is_freed_as_it_was_allocated(launches: list[LaunchEvent]) -> None:
    """A request that a cached, larger block serves, and its return, have one number."""
    large = Tensor.ones(1_000_000).contiguous().realize()
    del large
    gc.collect()
    known = origins.start()
    since = len(known.memory)
    part = Tensor.ones(990_000).contiguous().realize()
    del part
    gc.collect()
    made, freed = [one for one in known.memory[since:] if abs(one.nbytes) == 3_960_000]
    assert (made.nbytes, freed.nbytes) == (3_960_000, -3_960_000)
    assert made.allocation == freed.allocation
