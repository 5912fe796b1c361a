"""Any signal at any line: values are old or new as a whole, locks are free, and what was switched on is off again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from contextlib import suppress
from contextvars import copy_context
from types import SimpleNamespace

import numpy as np
import pytest

from failures import failing
from signal_lines import alarms, each_line, signal_at
from tinygraft import Context, Tensor, TinyJit, interrupt, nn
from tinygraft.config import DEBUG, NOOPT
from tinygraft.device.buffer import Borrowed
from tinygraft.device.interfaces import GraphExecutor
from tinygraft.engine import run
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.own_numbers import Compiled
from tinygraft.errors import DeviceError
from tinygraft.reference.python import PythonProgram

pytestmark = [
    pytest.mark.usefixtures("ctrl_c", "not_validated"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # signal_at says where these are
    pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system has no SIGALRM"),
]


@pytest.fixture(autouse=True)
def cpu():
    """All of this runs on the CPU, where SIGALRM raises KeyboardInterrupt; no test keeps the lock of the graphs."""
    with Context(DEV="CPU"), alarms():
        yield
    free = []
    thread = threading.Thread(target=lambda: free.append(exclusive.acquire(timeout=20) and exclusive.release() is None))
    thread.start()
    thread.join()
    assert free == [True], "a test has left the lock of the graphs locked"


class TooLate(BaseException):
    """What the handler of a time limit raises."""


def too_late(number, frame):
    """A time limit's handler."""
    raise TooLate


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TooLate, SystemExit])
@pytest.mark.parametrize("times", [1, 3])
def test_what_any_handler_raises_waits_until_all_launches_have_run(monkeypatch, at, error, times):
    """A time limit, SIGTERM with sys.exit: as Ctrl-C, however often it comes."""
    given = [Tensor([float(i) for i in range(size)]).realize() for size in (2, 3, 4)]
    launch, count, called = run.Launch.run, [], []

    def handler(number, frame):
        called.append(number)
        raise error

    def pressing(self, values):
        for _ in range(times if len(count) == at else 0):
            signal.raise_signal(signal.SIGALRM)
        count.append(1)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", pressing)
    with alarms(handler), pytest.raises(error):
        Tensor.realize(*[t.assign(t * 2) for t in given])
    monkeypatch.undo()
    assert (len(count), called) == (3, [signal.SIGALRM])
    assert [t.tolist() for t in given] == [[2.0 * i for i in range(size)] for size in (2, 3, 4)]


def test_a_handler_that_saves_a_checkpoint_sees_whole_values(monkeypatch):
    """It runs when the step is over, not in the middle of it."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()
    launch, saved = run.Launch.run, []

    def pressing(self, values):
        signal.raise_signal(signal.SIGALRM)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", pressing)
    with alarms(lambda number, frame: saved.append((a.tolist(), b.tolist()))):
        Tensor.realize(a.assign(a + 1), b.assign(b + 1))
    assert saved == [([2.0, 3.0], [2.0, 3.0, 4.0])]


def test_two_signals_that_waited_are_both_heard():
    """The first error is raised; the other handler has run."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))

    def work() -> None:
        with interrupt.guarded(whole=True):
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGTERM)
            assert heard == []

    try:
        with alarms(too_late), pytest.raises(TooLate):
            work()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_guards_lie_in_each_other():
    """What the outer guard delays still waits when the inner one is over; one that is not whole does not delay it."""
    reached = []

    def work() -> None:
        with interrupt.guarded(whole=True):
            with interrupt.guarded(sealed=True):
                signal.raise_signal(signal.SIGALRM)
            reached.append("inner")
            with interrupt.guarded() as inner:
                inner.point()
                reached.append("point")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inner", "point"]
    with interrupt.guarded(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGALRM)
    assert signal.getsignal(signal.SIGALRM) is signal.default_int_handler


def test_a_handler_that_is_set_meanwhile_stays():
    """The one that was there before does not come back over it."""
    with interrupt.guarded(whole=True):
        signal.signal(signal.SIGALRM, too_late)
    assert signal.getsignal(signal.SIGALRM) is too_late


def test_a_signal_where_an_object_goes_away_comes_again():
    """Python drops what is raised in __del__, so it is handled a moment later."""

    class Going:
        def __del__(self):
            with interrupt.guarded(whole=True):
                signal.raise_signal(signal.SIGALRM)

    def work():
        Going()
        for _ in range(10**8):
            pass

    with pytest.raises(KeyboardInterrupt):
        work()


def replayed_on_one():
    """A tensor, a view of it and momentum, trained under TinyJit."""
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    s = Tensor(np.zeros(4, np.float32)).realize()
    v = s[1:3]
    with Tensor.train():
        optimizer = nn.optim.SGD([w], lr=0.1, momentum=0.9)

    def step():
        with Tensor.train():
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        s.assign(s + 1)
        v.assign(v * 1)
        Tensor.realize(s)

    return [w, optimizer.b[0], s], step


def sharded():
    """Two tensors on two devices, which are swapped and grow."""
    both = ("CPU", "CPU:1")
    a = Tensor(np.arange(4, dtype=np.float32)).shard(both, 0).realize()
    b = Tensor(np.arange(4, dtype=np.float32) * 10).shard(both).realize()

    def step():
        new = a + b.sum()
        b.assign(b + a.sum().to(both) * 0 + 1)
        a.assign(new)
        Tensor.realize(a, b)

    return [a, b], step


def old_or_new(make, replayed: bool, step: int) -> int:
    """A signal at every step-th line of a call: each tensor has its old or its new value, and the next call is right.

    How many signals there were.
    """
    tensors, act = make()
    call = TinyJit(act) if replayed else act
    for _ in range(3):
        call()
    start, count = [np.array(t.numpy()) for t in tensors], 0
    call()
    new = [np.array(t.numpy()) for t in tensors]
    call()
    following = [np.array(t.numpy()) for t in tensors]

    def put(values) -> None:
        for tensor, value in zip(tensors, values, strict=True):
            data = Tensor(value)
            tensor.assign(data if isinstance(tensor.device, str) else data.shard_like(tensor)).realize()

    put(start)
    for reached in each_line(call, step):
        count += 1
        now = [np.array(t.numpy()) for t in tensors]
        for one, was, becomes in zip(now, start, new, strict=True):
            assert np.array_equal(one, was) or np.array_equal(one, becomes), reached
        assert not Tensor.training, reached
        put(start)
        call()
        call()
        for tensor, value in zip(tensors, following, strict=True):
            assert np.array_equal(tensor.numpy(), value), f"two calls after {reached}"
        put(start)
    return count


@pytest.mark.parametrize(("make", "replayed", "step"), [
    (replayed_on_one, True, 11), (sharded, True, 11), (replayed_on_one, False, 331), (sharded, False, 331)
])  # fmt: skip
def test_a_signal_at_any_line_leaves_old_or_new_values(make, replayed, step):
    """Before, in and after the launches, and while what follows from them is noted."""
    assert old_or_new(make, replayed, step) > 20


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("make", "replayed", "step"), [
    (replayed_on_one, True, 1), (sharded, True, 1), (replayed_on_one, False, 17), (sharded, False, 17)
])  # fmt: skip
def test_a_signal_at_nearly_every_line_leaves_old_or_new_values(make, replayed, step):
    """The same, for longer."""
    assert old_or_new(make, replayed, step) > 400


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_a_signal_at_every_run_of_an_executor_leaves_a_whole_replay(monkeypatch, device):
    """A replay whose launches come back to Python one by one."""
    with Context(DEV=device):
        a, b = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()

        def act():
            a.assign(a + b.sum())
            b.assign(b * 2 + a.sum())
            Tensor.realize(a, b)

        monkeypatch.setattr(
            type(a.uop.base.realized.backend), "graph", lambda backend, steps: GraphExecutor(backend, steps)
        )
        step = TinyJit(act)
        for _ in range(3):
            step()
        start, number = (a.numpy().copy(), b.numpy().copy()), 0
        step()
        new = a.tolist(), b.tolist()
        while True:
            a.assign(Tensor(start[0])).realize()
            b.assign(Tensor(start[1])).realize()
            with failing("alarm", number, device) as failure:
                try:
                    step()
                except KeyboardInterrupt:
                    assert failure.has_happened
            assert (a.tolist(), b.tolist()) == new
            if not failure.has_happened:
                break
            number += 1
        assert number >= 2


def test_what_a_second_ctrl_c_loses_in_a_replay_is_said_in_a_sentence(monkeypatch):
    """Ctrl-C pressed twice does not wait; no stray colon where an error has no text."""
    with Context(DEV="PYTHON"):
        s = Tensor([1.0, 2.0]).realize()
        step = TinyJit(lambda: s.assign(s + 1).realize())
        for _ in range(3):
            step()

    def pressing(self, *args):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PythonProgram, "launch", pressing)
    with pytest.raises(KeyboardInterrupt), Context(DEV="PYTHON"):
        step()
    monkeypatch.undo()
    sentence = (
        r"^the value of a tensor of shape \(2,\) and dtypes.float is lost: a replay was ended by KeyboardInterrupt, "
        r"when memory that the value is in, or is computed from, had been written over\n"
        r"  made at .*test_pipeline_signals.py:\d+\n"
        r"  hint: make the tensor again; tensors that do not say so have their old or their new values$"
    )
    with pytest.raises(DeviceError, match=sentence):
        s.tolist()


def test_what_was_assigned_is_computed_before_the_next_replay_whatever_ended_the_last_call():
    """A new value that waits for its memory stays listed when a signal ends the call that was to compute it."""
    s, total = Tensor([1.0, 2.0]).realize(), Tensor([0.0, 0.0]).realize()
    step = TinyJit(lambda: total.assign(s * 10).realize())
    for _ in range(3):
        step()

    def assign_and_call():
        s.assign(s + 1)
        step()

    for reached in each_line(assign_and_call, 97):
        step()
        assert total.tolist() == [10 * x for x in s.tolist()], reached


def test_a_signal_at_any_line_of_a_crew_leaves_nobody_waiting():
    """Between a lock of the queue and its try everybody would wait for ever. Runs in a process, which can be ended."""
    code = """
        import signal, sys, threading
        sys.path.insert(0, sys.argv[1])
        from signal_lines import alarms, each_line
        from tinygraft.engine.crew import Crew
        def work():
            with Crew() as crew:
                for size in range(3):
                    crew.do(lambda: None, size, 3)
                crew.wait()
        with alarms():
            print(sum(1 for _ in each_line(work, 3, files=("crew.py", "queue.py", "threading.py"))))
        assert threading.active_count() == 1
    """
    assert int(in_process(code)) > 100


@pytest.mark.slow
def test_a_signal_at_any_line_leaves_settings_as_they_were():
    """Training mode and Context, where they begin and where they end."""

    def work():
        with Tensor.train(), Context(DEBUG=0, NOOPT=1), Tensor.no_grad():
            pass

    w, seen = Tensor([1.0], requires_grad=True), []
    for reached in each_line(work, files=("mode.py", "config.py", "interrupt.py", "no_grad.py")):
        assert not Tensor.training, reached
        assert NOOPT.value == DEBUG.value == 0, reached
        assert (w * 2).gradient(w)[0].tolist() == [2.0], reached
        seen.append(reached)
    assert {name for name in ("config.py", "no_grad.py") if any(f"{name}:" in r and "__exit__" in r for r in seen)} == {
        "config.py", "no_grad.py"
    }  # fmt: skip


@pytest.mark.slow
def test_a_signal_while_an_object_is_freed_is_heard_afterwards():
    """A block of settings, memory of another library, a kernel: Python would drop what a finaliser raises."""
    waiting: list[object] = []
    left: list[int] = []
    timeline = SimpleNamespace(release_later=lambda what, uses: waiting.append(what))

    class Kernel(Compiled):
        def __init__(self) -> None:
            for name, value in (("program", "program"), ("timeline", timeline)):
                object.__setattr__(self, name, value)  # it is frozen

    def work():
        Kernel()
        Borrowed(SimpleNamespace(timeline=timeline, lost=False), "owner")
        Context(NOOPT=1).__enter__()  # nothing ends it but its __del__
        left.append(NOOPT.value)

    ends = {"config.py": "_end_blocks", "own_numbers.py": "_release", "buffer.py": "_release"}
    seen = set()
    for reached in each_line(lambda: copy_context().run(work), files=tuple(ends)):
        file, function = os.path.basename(reached.partition(":")[0]), reached.rpartition(" ")[2]
        if function == ends[file]:
            seen.add(file)
        assert not any(left) or function == "__del__", reached  # where it begins nothing comes, but Python traces
        left.clear()
    assert seen == set(ends)
    assert {"program", "owner"} <= set(waiting)


@pytest.mark.parametrize("how", [{}, {"whole": True}, {"sealed": True}])
def test_a_signal_at_any_line_of_a_guard_leaves_the_next_one_whole(how):
    """Also where handlers were changed before, and are set anew afterwards: the next guard delays them all."""

    def work():
        with interrupt.guarded(**how), interrupt.guarded():
            pass

    def delayed() -> bool:
        reached = False
        with suppress(KeyboardInterrupt), interrupt.guarded(sealed=True):
            signal.raise_signal(signal.SIGALRM)
            reached = True
        return reached

    before, line, reached = signal.signal(signal.SIGUSR1, signal.default_int_handler), 0, "the first line"
    try:
        while reached:
            with alarms():
                assert delayed(), reached
            with alarms(signal.SIG_DFL):
                line += 1
                reached = signal_at(work, line, signal.SIGUSR1, ("interrupt.py",))[0]
            with alarms():
                assert delayed(), reached
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert line > 60


def test_a_signal_at_any_line_leaves_the_pool_to_others():
    """Another thread can take memory and give it back afterwards."""
    size = 1 << 20

    def work():
        one = Tensor.ones(size).contiguous().realize()
        del one

    def other():
        with Context(DEV="CPU", VALIDATE=0):
            work()
            done.append(1)

    work()
    for reached in each_line(work, 3, files=("pool.py", "counters.py")):
        done: list[int] = []
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(20)
        stack = sys._current_frames().get(thread.ident)
        assert done, f"{reached}\n{''.join(traceback.format_stack(stack))}"


def in_process(code: str, limit: int = 100) -> str:
    """What a program prints, in a process of its own that is ended when it takes too long."""
    support = os.path.join(os.path.dirname(__file__), os.pardir, "support")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), support], capture_output=True, text=True,
                          timeout=limit, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_and_alarms_at_random_times_keep_the_weights():
    """Stop a training loop, then read the weights: by every kind of signal, with and without TinyJit.

    What a handler raises before the first line of a __del__, or in the callbacks of Python's own weak tables, Python
    drops, and says so: nothing of ours can catch it.
    """
    code = """
        import _thread, os, random, signal, sys, threading
        import numpy as np
        from tinygraft import Tensor, TinyJit, nn
        random.seed(7)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = Tensor.randn(64, 100).realize()
        def training(optimizer, replayed):
            layers = [nn.Linear(100, 100), Tensor.relu, nn.Linear(100, 10)]
            parameters = nn.state.get_parameters(layers)
            one = optimizer(parameters, lr=0.001)
            def step():
                with Tensor.train():
                    one.zero_grad()
                    loss = x.sequential(layers).square().mean().backward()
                    one.step()
                return loss.realize()
            call = TinyJit(step) if replayed else step
            for _ in range(3):
                call()
            return [*parameters, *nn.state.get_parameters(one)], call
        heard, dropped = 0, []
        def unraisable(error):
            last = error.exc_traceback
            while last.tb_next:
                last = last.tb_next
            code = last.tb_frame.f_code
            is_ours = os.path.basename(code.co_filename) not in ("weakref.py", "_weakrefset.py")
            dropped.append("" if last.tb_lineno == code.co_firstlineno or not is_ours else f"{code}:{last.tb_lineno}")
        sys.unraisablehook = unraisable
        for optimizer in (nn.optim.SGD, nn.optim.Adam):
            for replayed in (True, False):
                tensors, call = training(optimizer, replayed)
                for number in range(12):
                    wait = random.uniform(0.001, 0.03)
                    press = [lambda: os.kill(os.getpid(), signal.SIGINT), _thread.interrupt_main][number % 2]
                    timer = threading.Timer(wait, press)
                    try:
                        if number % 3:
                            timer.start()
                        else:
                            signal.setitimer(signal.ITIMER_REAL, wait)
                        lost = len(dropped)
                        while len(dropped) == lost:
                            call()
                    except KeyboardInterrupt:
                        heard += 1
                    for tensor in tensors:
                        assert np.isfinite(tensor.numpy()).all()
                    call()
        assert not any(dropped), dropped
        print(heard + len(dropped))
    """
    assert int(in_process(code)) == 48
