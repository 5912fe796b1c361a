"""Interruptions and threads: what has run has run, what has not is as it was, and nothing runs twice."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, interrupt
from tinygraft.engine import run
from tinygraft.errors import DeviceError
from tinygraft.uop import uop

pytestmark = pytest.mark.usefixtures("ctrl_c")


@pytest.fixture(autouse=True)
def cpu():
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def test_a_step_that_fails_in_the_middle_is_not_done_twice(monkeypatch):
    """The assign that ran counts once; the one whose launch fails is dropped, and may be made again."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()
    a.assign(a + 1)
    b.assign(b + 1)
    launch, count = run.Launch.run, []

    def failing(self, values):
        if count:
            raise RuntimeError("no more")
        count.append(1)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", failing)
    with pytest.raises(RuntimeError, match="no more"):
        Tensor.realize(a, b)
    monkeypatch.undo()
    assert a.tolist() == [2.0, 3.0]
    assert b.tolist() == [1.0, 2.0, 3.0]
    assert Tensor.realize(b.assign(b + 1)).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_ctrl_c_waits_from_the_first_store_over_a_value_to_the_end(monkeypatch, at):
    """Pressed in any of the launches: all of them run, then it is handled."""
    given = [Tensor([float(i) for i in range(size)]).realize() for size in (2, 3, 4)]
    launch, count = run.Launch.run, []

    def pressing(self, values):
        if len(count) == at:
            signal.raise_signal(signal.SIGINT)
        count.append(1)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", pressing)
    with pytest.raises(KeyboardInterrupt):
        Tensor.realize(*[t.assign(t * 2) for t in given])
    monkeypatch.undo()
    assert len(count) == 3
    assert [t.tolist() for t in given] == [[2.0 * i for i in range(size)] for size in (2, 3, 4)]


def test_a_second_ctrl_c_ends_a_launch_and_what_it_wrote_over_says_so(monkeypatch):
    """What was written is new, what a launch that was ended stores is lost, what was not reached is old."""
    a, b, c = (Tensor([float(i) for i in range(size)]).realize() for size in (2, 3, 4))
    launch, count = run.Launch.run, []

    def pressing(self, values):
        if len(count) == 1:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        count.append(1)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", pressing)
    with pytest.raises(KeyboardInterrupt):
        Tensor.realize(*[t.assign(t * 2) for t in (a, b, c)])
    monkeypatch.undo()
    assert (a.tolist(), c.tolist()) == ([0.0, 2.0], [0.0, 1.0, 2.0, 3.0])
    lost = (
        r"^the value of a tensor of shape \(3,\) and dtypes.float is lost: launch 2 of 3 \(E_3 on CPU\) was ended by "
        r"KeyboardInterrupt, when memory that the value is in, or is computed from, had been written over\n"
        r"  made at .*test_pipeline_interrupt.py:\d+\n"
        r"  hint: make the tensor again; tensors that do not say so have their old or their new values$"
    )
    with pytest.raises(DeviceError, match=lost):
        b.tolist()
    with pytest.raises(DeviceError, match=lost):
        (b.sum() * 2).item()
    assert b.assign(Tensor([7.0, 8.0, 9.0])).tolist() == [7.0, 8.0, 9.0]


def press_until(heard: threading.Event, begun: list[int]) -> None:
    """Ctrl-C, and again when two more steps have begun since: it was dropped, as Python does with one that arrives
    while an object goes away outside of a guard, or in a callback of the garbage collector, as hypothesis has one. A
    second one in the same step would not wait for its end."""
    while not heard.is_set():
        last = len(begun)
        os.kill(os.getpid(), signal.SIGINT)
        while len(begun) < last + 2 and not heard.wait(0.01):
            pass


@pytest.mark.parametrize(("device", "size"), [("CPU", 2_000_000), ("PYTHON", 20_000)])
def test_a_kernel_that_writes_over_its_input_is_never_done_in_part_or_twice(device, size):
    """Ctrl-C while x.assign(f(x)) runs: every element got one update for each step, and the next step works."""
    with Context(DEV=device):
        x = Tensor(np.zeros(size, np.float32)).realize()

        def step() -> None:
            slow = x.sin().exp2().sin().exp2().sin().exp2().sin()
            x.assign(slow * 0 + x + 1).realize()

        step()
        for wait in (0.0, 0.02, 0.05):
            before, begun, heard = x.numpy()[0], list[int](), threading.Event()
            try:
                threading.Timer(wait, press_until, (heard, begun)).start()
                while len(begun) < 1000:
                    begun.append(1)
                    step()
            except KeyboardInterrupt:
                pass
            finally:
                heard.set()
            steps = len(begun)
            assert steps < 1000, "nothing was interrupted"
            after = x.numpy()
            assert after.min() == after.max()
            assert after[0] - before in (steps - 1, steps), "the last step may have been interrupted before its assign"


def test_a_second_ctrl_c_does_not_wait():
    """The first one is handled after the guarded lines, the second at once."""
    reached = []

    def pressed_twice() -> None:
        with interrupt.guarded() as guard:
            guard.whole = True
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("first")
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("second")

    def pressed_once() -> None:
        with interrupt.guarded() as guard:
            guard.whole = True
            os.kill(os.getpid(), signal.SIGINT)
            guard.whole = False
            reached.append("line")
            guard.point()
            reached.append("point")

    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
    assert reached == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        pressed_once()
    assert reached == ["first", "line"]


def test_a_handler_of_the_user_hears_ctrl_c(monkeypatch):
    """What a program set for the signal is called, once, and set again afterwards."""
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        launch = run.Launch.run

        def pressed(self, values):
            os.kill(os.getpid(), signal.SIGINT)
            launch(self, values)

        monkeypatch.setattr(run.Launch, "run", pressed)
        x = Tensor([1.0, 2.0]).realize()
        assert x.assign(x + 1).tolist() == [2.0, 3.0]
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def multiply_for_ever(x: Tensor, begun: list[int]) -> None:
    """Launch kernels until something stops it, or for 20 seconds of this process."""
    start = time.process_time()
    while time.process_time() - start < 20:
        begun.append(1)
        (x @ x).realize()


def test_ctrl_c_in_a_loop_leaves_the_process_usable():
    """A signal while kernels run raises KeyboardInterrupt soon, and the next result is right."""
    x = Tensor(np.ones((256, 256), np.float32)).realize()
    begun, heard = list[int](), threading.Event()
    threading.Timer(0.3, press_until, (heard, begun)).start()
    start = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            multiply_for_ever(x, begun)
    finally:
        heard.set()
    assert time.process_time() - start < 5
    assert (x @ x).numpy()[0, 0] == 256.0


def test_eight_threads_compute_at_once():
    """Each thread's results are its own, and a tensor that all of them read is computed rightly."""
    shared = Tensor(np.arange(1000, dtype=np.float32)) * 2
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        with Context(DEV="CPU"):
            right = True
            for i in range(20):
                mine = Tensor(np.full((17, 5), number, np.float32)) * i + 1
                right &= mine.sum().item() == (number * i + 1) * 85
                right &= (shared + number).numpy()[10] == 20 + number
            results[number] = bool(right)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(8), True)


def test_ctrl_c_is_not_lost_where_a_node_goes_away(monkeypatch):
    """Python drops what is raised there, so it is handled after the step, once."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()
    launch, pressed = run.Launch.run, []

    class Pressing:
        def __del__(self):
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)

    def pressing(self, values):
        launch(self, values)
        if not pressed:
            Pressing()

    monkeypatch.setattr(run.Launch, "run", pressing)
    with pytest.raises(KeyboardInterrupt):
        Tensor.realize(a.assign(a + 1), b.assign(b + 1))
    monkeypatch.undo()
    assert pressed == [1]
    assert uop._forget.__name__ in interrupt.ENDING
    assert a.tolist() == [2.0, 3.0]
    assert b.tolist() == [2.0, 3.0, 4.0]
    with interrupt.guarded() as guard:
        assert guard.hears
        Pressing()
        with pytest.raises(KeyboardInterrupt):
            guard.point()


def press_at_random(replay: bool, rounds: int) -> None:
    """Ctrl-C at random times while coupled tensors are updated: each is that of a step, and one step is whole."""
    size = 4096
    a, b = (Tensor(np.full(size, number, np.float32)).realize() for number in (1, 2))

    def step(one: Tensor) -> None:
        new = (a.reshape(64, 64).sum(1).reshape(64, 1) * 0 + a.reshape(64, 64)).reshape(size) + one
        b.assign(b + (a.flip(0) - a) + one)
        a.assign(new)
        Tensor.realize(a, b)

    run_step = TinyJit(step) if replay else step
    one = Tensor([1.0]).realize()
    for _ in range(4):
        run_step(one)
    generator = np.random.default_rng(5)
    for _ in range(rounds):
        before, begun, heard = (a.numpy()[0], b.numpy()[0]), list[int](), threading.Event()
        timer = threading.Timer(generator.uniform(0.0, 0.01), press_until, (heard, begun))
        try:
            timer.start()
            while len(begun) < 100_000:
                begun.append(1)
                run_step(one)
        except KeyboardInterrupt:
            pass
        finally:
            heard.set()
            timer.join()
        for tensor, start in zip((a, b), before, strict=True):
            now = tensor.numpy()
            assert now.min() == now.max()
            assert now[0] - start in (len(begun) - 1, len(begun))
        if replay:  # between the lines of Python the first write may be waiting
            assert a.numpy()[0] - before[0] == b.numpy()[0] - before[1], "Ctrl-C waits for the end of the step"


@pytest.mark.parametrize("replay", [False, True])
def test_ctrl_c_at_random_times_leaves_whole_steps(replay):
    """A short run of it; the next step is right."""
    press_at_random(replay, 15)


@pytest.mark.slow
@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_ctrl_c_at_many_random_times_leaves_whole_steps(replay, device):
    """The same, for longer."""
    with Context(DEV=device):
        press_at_random(replay, 400 if device == "CPU" else 60)
