"""Shortcuts: which realisations take one, and that these give what the general road gives."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from general_road import collections, numbers, without_shortcuts
from tinygraft import Context, Function, GlobalCounters, Tensor, TinyJit, Variable, dtypes, nn
from tinygraft.autograd import gradient_steps
from tinygraft.engine import plan, shortcut, tape
from tinygraft.events import LaunchEvent, observe
from tinygraft.uop.ops import Ops


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No test finds the shortcuts or the tape of another one; all of this runs on the PYTHON device."""
    with without_shortcuts():
        yield


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An element for each realisation that takes the general road."""
    return collections(monkeypatch)


def general(collected: list[int], make: Callable[[], object]) -> int:
    """Return how many of ten calls of `make`, once it has been called four times, take the general road."""
    for _ in range(4):
        make()
    collected.clear()
    for _ in range(10):
        make()
    return len(collected)


def launches(known: shortcut.KnownLaunches) -> list[shortcut.PreparedLaunch]:
    """The launches of the one shortcut of a key."""
    (found,) = known.exact.values()
    return found.launches


def test_a_known_expression_takes_the_shortcut(collected: list[int]) -> None:
    """An expression with constants, and one of several kernels, take it in every later call, with the same values."""
    x = numbers(1, 2, 3)
    assert general(collected, lambda: (x * 2.5 + 1.0).realize()) == 0
    assert (x * 2.5 + 1.0).tolist() == [3.5, 6.0, 8.5]
    rows = Tensor([[1.0, 2.0], [3.0, 5.0]]).realize()
    assert general(collected, lambda: ((rows @ rows).softmax(1) @ rows).realize()) == 0
    with Context(NOOPT=1):
        expected = ((rows @ rows).softmax(1) @ rows).tolist()
    found = ((rows @ rows).softmax(1) @ rows).tolist()
    assert [[pytest.approx(value, rel=1e-6) for value in row] for row in expected] == found


def test_draws_and_indices_take_the_shortcut(collected: list[int]) -> None:
    """The host counts what is drawn; a result of integers has no gradient, whatever its flag is."""
    line, values = numbers(1, 2, 3), numbers(2.5, 0.5)
    assert general(collected, lambda: Tensor.rand(3, device="PYTHON").realize()) == 0
    assert general(collected, lambda: Tensor.randn(3, device="PYTHON").realize()) == 0
    assert general(collected, lambda: Tensor.randint(3, high=7, device="PYTHON").realize()) == 0
    assert general(collected, lambda: line.searchsorted(values).realize()) == 0
    assert line.searchsorted(values).tolist() == [2, 0]


def test_what_was_requested_as_memory_is_computed_once(collected: list[int]) -> None:
    """A contiguous() that another tensor has is realised with what is computed from it: in general."""
    x = numbers(1, 2, 3)

    def make() -> None:
        held = (x * 3.0).contiguous()
        assert (held + 1.0).tolist() == [4, 7, 10]
        assert held.uop.base.op is Ops.BUFFER

    assert general(collected, make) == 10
    assert general(collected, lambda: ((x * 3.0).contiguous() + 1.0).realize()) == 0


def test_numbers_of_lists_that_are_made_anew(collected: list[int]) -> None:
    """The memory of new lists is that of each call."""
    assert general(collected, lambda: (Tensor([1, 2, 3]) + 1).tolist()) == 0
    assert [(Tensor([i, 2, 3]) + 1).tolist() for i in range(3)] == [[i + 1, 3, 4] for i in range(3)]


def test_one_buffer_twice_and_two_buffers_are_two_keys() -> None:
    """x - x reads one buffer, x - y two; both in turns, also in another order."""
    x, y = numbers(1, 2), numbers(5, 9)
    for _ in range(5):
        assert (x - x).tolist() == [0.0, 0.0]
        assert (x - y).tolist() == [-4.0, -7.0]
        assert (y - x).tolist() == [4.0, 7.0]
        assert ((x - y) * x).tolist() == [-4.0, -14.0]
        assert ((x - y) * y).tolist() == [-20.0, -63.0]


def test_constants_that_compare_equal_are_told_apart() -> None:
    """1, 1.0 and True are equal for Python, as are 0.0 and -0.0."""
    x, whole = numbers(0), Tensor([3]).realize()
    for _ in range(5):
        assert str((x * 0.0).tolist()) == "[0.0]"
        assert str((x * -0.0).tolist()) == "[-0.0]"
        assert (whole + 1).dtype is dtypes.int32 and (whole + 1).tolist() == [4]
        assert (whole + 1.0).tolist() == [4.0]
        assert (whole + True).tolist() == [4]
        assert (whole == True).tolist() == [False]  # noqa: E712


def test_shapes_and_dtypes_are_told_apart() -> None:
    """The same ops on another length, dtype and axis."""
    short, long, small = numbers(1, 2), numbers(1, 2, 3), Tensor([1.0, 2.0], dtype="half").realize()
    square = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    for _ in range(5):
        assert (short + 1.0).tolist() == [2.0, 3.0] and (long + 1.0).tolist() == [2.0, 3.0, 4.0]
        assert (small + 1.0).dtype is dtypes.half and (small + 1.0).tolist() == [2.0, 3.0]
        assert square.sum(0).tolist() == [4.0, 6.0] and square.sum(1).tolist() == [3.0, 7.0]


def test_a_graph_of_constants_alone(collected: list[int]) -> None:
    """Its key is the node itself."""
    assert general(collected, lambda: (Tensor.arange(4) * 3).contiguous().realize()) == 0
    assert general(collected, lambda: (Tensor.arange(4) * 3).realize()) == 0
    assert (Tensor.arange(4) * 3).tolist() == [0, 3, 6, 9]


def test_a_gradient_goes_through(collected: list[int]) -> None:
    """Of a tracked value, of an untracked one, and of one that was read on the way."""
    w, x = numbers(2, 3).requires_grad_(), numbers(5, 7)

    def loss() -> None:
        w.grad = None
        hidden = (w * x).realize()
        (hidden * hidden).sum().backward()

    assert general(collected, loss) == 0
    assert w.grad is not None and w.grad.tolist() == [2 * 2 * 25.0, 2 * 3 * 49.0]
    for _ in range(5):
        leaf = numbers(2, 3)
        hidden = (leaf * x).realize()
        (hidden * hidden).sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [100.0, 294.0]


def test_a_gradient_is_refused_where_it_was_in_general() -> None:
    """Through a detached value it is None, in every call."""
    for _ in range(5):
        w = numbers(2, 3).requires_grad_()
        held = (w * 2.0).detach().realize()
        assert held.tolist() == [4.0, 6.0]
        (held * w).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [4.0, 6.0]


def test_large_memory_is_not_retained_by_what_was_read_from_it() -> None:
    """A small result of a large tensor does not keep that alive, with a shortcut or without."""
    sums = []
    for _ in range(6):
        gc.collect()
        before = GlobalCounters.mem_used
        large = Tensor.full((200_000,), 1.0).contiguous().realize()
        sums.append(large.sum().realize())
        del large
        gc.collect()
        assert GlobalCounters.mem_used - before < 1000


def test_what_reads_large_memory_takes_the_shortcut(collected: list[int]) -> None:
    """Also where its graph may not wait for a gradient: that goes through, and the memory is freed with its tensor."""
    count = (64 << 10) + 4096
    held = [Tensor(np.ones(count, np.uint8)).float().realize()]
    assert general(collected, lambda: (held[0] * 3.0).realize()) == 0
    held.append((held[0] * 3.0).realize())
    square = (held[1] * held[1]).realize()  # of a value that is on the tape
    assert np.all((square.sum().gradient(held[0])[0]).numpy() == 18)
    gc.collect()
    before = GlobalCounters.mem_used
    held.clear()
    gc.collect()
    assert before - GlobalCounters.mem_used >= 2 * 4 * count
    assert square[1:2].tolist() == [9]


def test_another_graph_that_has_the_node_reads_the_result() -> None:
    """A younger expression over what is realised reads its memory then."""
    x = numbers(1, 2)
    for _ in range(5):
        part = x + 1.0
        whole = part * part
        part.realize()
        assert part.uop.base in whole.uop.src
        assert whole.tolist() == [4.0, 9.0]


def test_an_older_lazy_tensor_stays_as_it_is() -> None:
    """It cannot contain the younger node, and is not computed."""
    x = numbers(1, 2)
    older = x * 7.0
    for _ in range(5):
        assert (x + 1.0).tolist() == [2.0, 3.0]
    assert older.uop.base.op is Ops.MUL and older.tolist() == [7.0, 14.0]


def test_views_and_variables_take_the_general_road(collected: list[int]) -> None:
    """What concerns other tensors, or has values of a run, is decided in general."""
    x = numbers(1, 2, 3)
    n = Variable("n", 1, 3)
    for make in (lambda: x[1:].realize(), lambda: x.shrink(((0, n.bind(2)),)).sum().realize()):
        general(collected, make)
        assert len(collected) >= 10
    assert x[1:].tolist() == [2.0, 3.0]


def test_a_view_of_what_is_written_reads_the_new_values() -> None:
    """Views beside a known expression, with a write through one of them."""
    x = numbers(1, 2, 3)
    for i in range(5):
        view = x[:2]
        assert (x + 1.0).tolist()[2] == 4.0
        view.assign(Tensor([float(i), float(i)]))
        assert (x + 1.0).tolist() == [i + 1.0, i + 1.0, 4.0]


def test_settings_and_observers_take_the_general_road(collected: list[int]) -> None:
    """NOOPT, VALIDATE, DEBUG=2, ROUTINES=0, a precision, and an observer of launches, who sees each."""
    x = numbers(1, 2, 3)
    general(collected, lambda: (x + 1.0).realize())
    for settings in ({"NOOPT": 1}, {"VALIDATE": 1}, {"DEBUG": 2}, {"BEAM": 1}, {"ROUTINES": 0}, {"PRECISION": "fast"}):
        collected.clear()
        with Context(**settings):
            (x + 1.0).realize()
        assert collected, settings
    events: list[LaunchEvent] = []
    stop = observe(events.append, LaunchEvent)
    (x + 1.0).realize()
    stop()
    assert len(events) == 1


def test_launches_in_a_capture_are_recorded() -> None:
    """A TinyJit of an expression that has a shortcut replays it on other inputs."""
    x = numbers(1, 2, 3)
    for _ in range(5):
        (x + 1.0).realize()

    @TinyJit
    def step(t: Tensor) -> Tensor:
        return (t + 1.0).realize()

    for i in range(5):
        assert step(numbers(i, 2, 3)).tolist() == [i + 1.0, 3.0, 4.0]


def test_counts_are_those_of_the_general_road() -> None:
    """Kernels, operations, bytes and memory in use."""
    x = numbers(*range(50))

    def counts() -> tuple[int, int, int, int]:
        gc.collect()
        GlobalCounters.reset()
        before = GlobalCounters.mem_used
        held = ((x * 2.0).sum() + x).realize()
        found = GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem
        assert held.uop.base.op is Ops.BUFFER
        return *found, GlobalCounters.mem_used - before

    assert len({counts() for _ in range(6)}) == 1


def test_a_failing_launch_leaves_the_tensor_lazy(monkeypatch: pytest.MonkeyPatch, collected: list[int]) -> None:
    """The error names the kernel; nothing is counted as in use, and the next call works."""
    x = numbers(1, 2, 3)
    make = lambda: ((x * 2.0).sum() + x).realize()  # noqa: E731
    assert general(collected, make) == 0
    gc.collect()
    before = GlobalCounters.mem_used
    known = list(shortcut._shortcuts.values())[-1]  # the first has a key without known constants
    program = type(launches(known)[-1].kernel.program)

    def fail(*args: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(program, "launch", fail)
    lazy = (x * 2.0).sum() + x
    with pytest.raises(RuntimeError, match="out of order") as raised:
        lazy.realize()
    assert any("launching" in note for note in raised.value.__notes__)
    monkeypatch.undo()
    del raised
    gc.collect()
    assert GlobalCounters.mem_used == before
    assert lazy.uop.base.op is not Ops.BUFFER
    assert lazy.tolist() == [13.0, 14.0, 15.0]


def test_an_interrupt_leaves_the_tensor_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a launch."""
    x = numbers(1, 2, 3)
    for _ in range(5):
        (x + 1.0).realize()

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    known = list(shortcut._shortcuts.values())[-1]  # the first has a key without known constants
    monkeypatch.setattr(type(launches(known)[0].kernel.program), "launch", interrupted)
    lazy = x + 1.0
    with pytest.raises(KeyboardInterrupt):
        lazy.realize()
    monkeypatch.undo()
    assert lazy.tolist() == [2.0, 3.0, 4.0]


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond MOST all are dropped, with the constants that are known as such; what is used is noted again."""
    monkeypatch.setattr(shortcut, "MOST", 4)
    x = numbers(1, 2, 3)
    for _ in range(6):
        for power in range(2, 9):
            assert (x + x.pow(power).sum(0, keepdim=True)).tolist()[0] == 1.0 + sum(i**power for i in (1, 2, 3))
        assert len(shortcut._shortcuts) <= 4


def test_dropping_plans_drops_shortcuts() -> None:
    """Plan and shortcuts have the same programs."""
    x = numbers(1, 2, 3)
    for _ in range(5):
        (x + Tensor.arange(3)).realize()
    assert shortcut._shortcuts and shortcut._same
    plan.clear()
    assert not shortcut._shortcuts and not shortcut._same
    assert (x + 1.0).tolist() == [2.0, 3.0, 4.0]


def test_no_grad_and_flags_of_false(collected: list[int]) -> None:
    """A result without a gradient has its value and its flag, however it was realised."""
    x = numbers(1, 2, 3).requires_grad_()
    for _ in range(5):
        with Tensor.no_grad():
            quiet = (x * 2.0).realize()
        assert quiet.requires_grad is False and quiet.tolist() == [2.0, 4.0, 6.0]


NUMBERS = [0.5, 3.0, -2.0, math.inf, -math.inf, 1e-40, 7.0, 3.0, 2.5]


def test_a_number_that_varies_is_an_argument_of_the_shortcut(collected: list[int]) -> None:
    """Once two were compiled, others take it; each result is that of the general road, to the last bit."""
    x = numbers(1.5, -2.0, 0.5)
    for number in (11.0, 12.0, 13.0, 14.0):
        (x * number + 0.25).realize()
    collected.clear()
    for number in NUMBERS:
        found = (x * number + 0.25).numpy()
        assert found.tobytes() == (x.numpy() * np.float32(number) + np.float32(0.25)).tobytes(), number
    assert collected == []


def test_special_numbers_take_the_general_road(collected: list[int]) -> None:
    """Rules remove 0, 1 and -1, and a compiler may give NaN another sign."""
    x = numbers(1, 2)
    for number in (11.0, 12.0, 13.0, 14.0):
        (x + number).realize()
    collected.clear()
    assert all(math.isnan(value) for value in (x + math.nan).tolist())
    assert [(x + number).tolist() for number in (0.0, 1.0, -1.0)] == [[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]]
    assert len(collected) == 4


def test_starts_of_slices_vary(collected: list[int]) -> None:
    """One start, a row, and two starts that keep their distance or do not."""
    x = Tensor([[float(10 * i + j) for j in range(4)] for i in range(9)]).realize()
    for i in (1, 2, 3, 4):
        (x[i : i + 3].sum(0)).realize(), (x[i + 1] - x[i]).realize()
    collected.clear()
    for i in (0, 6, 5, 1):
        assert x[i : i + 3].sum(0).tolist() == [30.0 * (i + 1) + 3 * j for j in range(4)]
        assert (x[i + 1] - x[i]).tolist() == [10.0] * 4 if i < 8 else True
    assert collected == []
    assert (x[7] - x[2]).tolist() == [50.0] * 4


def test_numbers_that_are_equal_once(collected: list[int]) -> None:
    """They are one constant then, and two in the next call."""
    x = numbers(1, 2)
    for a, b in [(2.0, 3.0), (3.0, 4.0), (4.0, 6.0), (5.0, 5.0), (6.0, 6.0), (2.0, 9.0), (7.0, 7.0), (8.0, 1.0)] * 2:
        assert (x * a + b).tolist() == [a + b, 2 * a + b]


def test_a_number_with_another_use_stays() -> None:
    """A power is specialised for its exponent, also where the number is an argument of a product."""
    x = numbers(1, 2, 3)
    for power in [3, 4, 5, 6, 7, 3, 4, 5, 8, 9] * 2:
        assert ((x * float(power)) + x.pow(float(power))).tolist() == [v * power + v**power for v in (1.0, 2.0, 3.0)]


def test_numbers_of_other_dtypes_and_shapes_are_told_apart() -> None:
    """1, 1.0 and True; a number beside tensors of other shapes."""
    whole = Tensor([1, 2, 3], dtype=dtypes.int32).realize()
    for number in (1, 1.0, True, 2, 2.0, False, 3, 3.5) * 3:
        found = (whole + number).realize()
        assert (found.dtype, found.tolist()) == ((whole + Tensor(number)).dtype, [v + number for v in (1, 2, 3)])
    rows = Tensor([[1.0, 2.0, 3.0]] * 2).realize()
    for number in (2.0, 3.0, 4.0, 5.0, 6.0):
        assert (rows * number).tolist() == [[number, 2 * number, 3 * number]] * 2
        assert (numbers(1, 2, 3) * number).tolist() == [number, 2 * number, 3 * number]


def test_gradients_through_numbers_that_vary() -> None:
    """What is taped has the number of its own call."""
    w = numbers(1, 2)
    w.requires_grad = True
    for number in (2.0, 3.0, 4.0, 5.0, 6.0, 7.0):
        middle = (w * number).realize()
        (grad,) = (middle * middle).sum().gradient(w)
        assert grad.tolist() == [2 * number**2, 4 * number**2]


def test_several_tensors_take_one_shortcut(collected: list[int]) -> None:
    """Values of one realisation take it together, those of routines and of a no_grad block too."""
    x = numbers(1, 2, 3)

    def several() -> list[Tensor]:
        found = [x + 1.0, x * 2.0, (x * 3.0).sum()]
        found[0].realize(*found[1:])
        return found

    assert general(collected, several) == 0
    assert [found.tolist() for found in several()] == [[2.0, 3.0, 4.0], [2.0, 4.0, 6.0], 18.0]

    def quiet() -> list[Tensor]:
        with Tensor.no_grad():
            found = [(x + 1.0).square(), x.sum()]
        found[0].realize(*found[1:])
        return found

    assert general(collected, quiet) == 0
    assert [found.tolist() for found in quiet()] == [[4.0, 9.0, 16.0], 6.0]
    first, second = quiet()
    assert first.uop.op is Ops.DETACH and second.uop.op is Ops.DETACH
    assert general(collected, lambda: quiet()[0]) == 0


def test_a_root_in_the_graph_of_another_takes_the_shortcut(collected: list[int]) -> None:
    """Where one value is read by another, it is stored once, and the gradient goes through both."""
    x = Tensor([1.0, 2.0], requires_grad=True).realize()

    def nested() -> tuple[Tensor, Tensor]:
        below = x * 2.0
        above = below.square().sum()
        below.realize(above)
        return below, above

    assert general(collected, nested) == 0
    for order in (1, -1):
        below, above = nested()[::order][::order]
        (gradient,) = above.gradient(x)
        assert gradient.tolist() == [8.0, 16.0]
        assert above.gradient(below)[0].tolist() == [4.0, 8.0]

    del below, above, gradient  # else the tape has the same nodes, older than these

    def turned() -> tuple[Tensor, Tensor]:
        below = x * 2.0
        above = below.square().sum()
        above.realize(below)
        return below, above

    assert general(collected, turned) == 0
    below, above = turned()
    assert (below.tolist(), above.item(), above.gradient(x)[0].tolist()) == ([2.0, 4.0], 20.0, [8.0, 16.0])


def test_a_view_that_is_left_alone_takes_the_shortcut(collected: list[int]) -> None:
    """Its storage ends when it is realised; one beside its base, or that repeats elements, takes the general road."""
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True).realize()

    def alone() -> Tensor:
        return (x * 3.0).reshape(-1).realize()

    assert general(collected, alone) == 0
    found = alone()
    assert found._storage is None and found.requires_grad
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x.grad = None
    with Tensor.no_grad():
        found[0] = 7.0
    assert found.tolist() == [7.0, 6.0, 9.0, 12.0]

    def beside() -> None:
        base = x * 3.0
        view = base.reshape(-1).realize()
        assert view.tolist() == base.flatten().tolist() == [3.0, 6.0, 9.0, 12.0]

    def repeated() -> None:
        view = (x * 3.0).sum(1, keepdim=True).expand(2, 2).realize()
        assert view.tolist() == [[9.0, 9.0], [21.0, 21.0]] and view._storage is not None

    assert general(collected, beside) == 10
    assert general(collected, repeated) == 10


def test_derivatives_of_their_own_and_copies_take_the_shortcut(collected: list[int]) -> None:
    """What a FUNCTION is computed by is the same for each; a scatter starts as a copy of what it is into."""
    x, index = numbers(1.5, 2.5, 3.5), Tensor([2, 0], dtype=dtypes.int32, device="PYTHON").realize()
    assert general(collected, lambda: x.lgamma().realize()) == 0
    assert x.lgamma().tolist() == [pytest.approx(math.lgamma(value), rel=1e-6) for value in (1.5, 2.5, 3.5)]
    assert general(collected, lambda: (x.lgamma() * 2.0 + x).sum().realize()) == 0
    leaf = numbers(1.5, 2.5, 3.5).requires_grad_()
    for _ in range(5):
        leaf.grad = None
        leaf.lgamma().realize().sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == leaf.digamma().tolist()
    assert general(collected, lambda: x.index_add(0, index, numbers(10, 20)).realize()) == 0
    assert x.index_add(0, index, numbers(10, 20)).tolist() == [21.5, 2.5, 13.5] and x.tolist() == [1.5, 2.5, 3.5]

    class Scaled(Function):
        """A value with a gradient of another function, which reads memory that the value does not."""

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            self.y = y
            return x * 2.0

        def backward(self, gradient: Tensor) -> tuple[Tensor, None]:
            return gradient * self.y, None

    for number in range(6):
        y = numbers(number, 1, 2)
        leaf.grad = None
        found = Scaled.apply(leaf, y).realize()
        assert found.tolist() == [3.0, 5.0, 7.0]
        found.sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [number, 1.0, 2.0]


def test_results_without_a_flag_take_the_shortcut(collected: list[int]) -> None:
    """What is computed from tensors of requires_grad=False is taped as in general: not, unless a leaf is upstream."""
    x, y = numbers(1, 2, 3).requires_grad_(False), numbers(4, 5, 6).requires_grad_(False)
    assert general(collected, lambda: (x * y + 1.0).realize()) == 0
    found = (x * y + 1.0).realize()
    assert found.requires_grad is False and found.tolist() == [5.0, 11.0, 19.0]
    assert tape.entry_of(found.uop.base) is None
    leaf = numbers(1, 2, 3).requires_grad_()

    gradients = []
    for _ in range(6):  # the first takes the general road
        written = numbers(0, 0, 0).requires_grad_(False)
        written[1:2] = leaf[:1] * 3.0
        written.realize()
        found = (written * y).realize()
        entry = tape.entry_of(found.uop.base)
        gradients.append(
            (found.requires_grad, entry is not None and entry.tracked, found.sum().gradient(leaf)[0].tolist())
        )
    assert all(found == gradients[0] for found in gradients) and gradients[0][2] == [15.0, 0.0, 0.0]


def test_steps_of_an_optimizer_are_those_of_the_general_road(collected: list[int]) -> None:
    """Losses and weights of training steps, bit by bit, with and without what is known of earlier ones."""

    def train(forget: bool) -> list[Any]:
        w, b = numbers(0.5, -1.25, 2.0).requires_grad_(), numbers(0.25).requires_grad_()
        optimizer = nn.optim.Adam([w, b], lr=0.125)
        found: list[Any] = []
        for number in range(9):
            if forget:
                shortcut.clear()
                gradient_steps.clear()
            x = numbers(number, 1, 2)
            optimizer.zero_grad()
            with Tensor.train():
                likely = ((x * w).sum() + b).sigmoid().reshape(-1)
                loss = -(likely * 0.75).log().mean()
                loss.backward()
                optimizer.step()
            found += [loss.item(), likely.tolist(), w.tolist(), b.tolist()]
        return found

    assert train(False) == train(True)


def test_a_loss_and_its_gradients_take_one_shortcut(collected: list[int]) -> None:
    """A loss that a backward went through is taped as used, and its gradients are no leaves of it."""
    x = numbers(1, 2, 3)

    def step(number: float) -> tuple[float, list[float]]:
        w = Tensor([number, 1.0, 2.0]).realize().requires_grad_()
        loss = (x * w).square().sum()
        loss.backward()
        assert w.grad is not None
        loss.realize(w.grad)
        return loss.item(), w.grad.tolist()

    assert general(collected, lambda: step(3.0)) == 0
    assert step(5.0) == (25.0 + 4.0 + 36.0, [10.0, 8.0, 36.0])


def test_another_tensor_that_reads_one_of_several_values_gets_it(collected: list[int]) -> None:
    """A live expression over a value that is realised with others reads its memory afterwards."""
    x = numbers(1, 2, 3)
    for _ in range(5):
        one, two = x + 4.0, x - 1.0
        reader = two * 2.0
        one.realize(two)
        assert any(node.op is Ops.BUFFER for node in (reader.uop.src[0], reader.uop.src[0].base))
        assert reader.tolist() == [0.0, 2.0, 4.0]
