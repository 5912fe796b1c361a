"""The native replay: a list of launches in one call, in chunks, in slices of time and without the extension."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cpu_case import Case
from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinygraft.device.interfaces import GraphExecutor, Step
from tinygraft_cpu import extension
from tinygraft_cpu.program import NativeGraph

needs_ext = pytest.mark.needs("ext")


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def chain(case: Case, count: int) -> tuple[GraphExecutor, list[Any]]:
    """x * x + 1, count times one after another, over count + 1 buffers, and those buffers."""
    steps = [Step(case.program, (i + 1, i)) for i in range(count)]
    executor = case.backend.graph(steps)
    buffers = [case.source, *[case.backend.allocator.alloc(case.source.nbytes) for _ in range(count)]]
    for place, buffer in enumerate(buffers):
        executor.set_buffer(place, buffer)
    executor.set_values({})
    return executor, buffers


def run_all(executor: GraphExecutor) -> int:
    """Run a list to its end, in as many calls as a busy machine makes of it; how many steps it has."""
    done = 0
    while done < len(executor.steps):
        done = executor.run(done)
    return done


def after(x: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """What chain leaves."""
    for _ in range(count):
        x = x * x + 1
    return x


@needs_ext
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_a_list_runs_in_order_in_one_call(threads: int) -> None:
    """Each step reads what the one before it wrote, on any number of threads."""
    case = Case(threads, 1000)
    executor, buffers = chain(case, 3)
    assert isinstance(executor, NativeGraph)
    for _ in range(200):
        buffers[3].view[:] = bytes(buffers[3].nbytes)
        assert run_all(executor) == 3
        assert (np.frombuffer(buffers[3].view, np.float32) == after(case.x, 3)).all()


@needs_ext
def test_only_what_changes_is_given_again() -> None:
    """When a place gets another buffer, all steps that name the place use it."""
    case = Case(2, 100)
    executor, buffers = chain(case, 2)
    run_all(executor)
    other = case.backend.allocator.alloc(case.source.nbytes)
    case.backend.allocator.copy_in(other, memoryview(case.x + 1))
    executor.set_buffer(0, other)
    run_all(executor)
    assert (np.frombuffer(buffers[2].view, np.float32) == after(case.x + 1, 2)).all()


@needs_ext
def test_a_copy_and_an_empty_buffer_are_steps() -> None:
    """A step without a program copies bytes; a buffer of no elements has no address."""
    case = Case(2, 100)
    target, nothing = case.backend.allocator.alloc(400), None
    executor = case.backend.graph([Step(None, (1, 0), nbytes=400), Step(None, (2, 2), nbytes=0)])
    for place, buffer in enumerate([case.source, target, nothing]):
        executor.set_buffer(place, buffer)
    assert run_all(executor) == 2
    assert bytes(target.view) == bytes(case.source.view)


@needs_ext
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [1, 63, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 1_000_001])
def test_copies_by_threads_have_every_byte_and_no_more(threads: int, size: int) -> None:
    """A copy is of the bytes that it was told, as a step of a list and at once; what follows them stays."""
    case = Case(threads, 100)
    bits = np.random.default_rng(size).integers(0, 255, size + 100, dtype=np.uint8)
    source, listed, direct = (case.backend.allocator.alloc(size + 100) for _ in range(3))
    source.view[:] = bits.data
    for target in (listed, direct):
        target.view[:] = b"\xff" * (size + 100)
    executor = case.backend.graph([Step(None, (1, 0), nbytes=size)])
    executor.set_buffer(0, source)
    executor.set_buffer(1, listed)
    assert run_all(executor) == 1
    case.backend.allocator.copy(direct, source, size)
    for target in (listed, direct):
        assert bytes(target.view) == bytes(source.view[:size]) + b"\xff" * 100


@needs_ext
def test_it_comes_back_when_its_time_is_over_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time each call runs one step; together they do what one call does."""
    monkeypatch.setattr(NativeGraph, "NANOSECONDS", 0)
    case = Case(2, 1000)
    executor, buffers = chain(case, 4)
    assert [executor.run(first) for first in range(4)] == [1, 2, 3, 4]
    assert (np.frombuffer(buffers[4].view, np.float32) == after(case.x, 4)).all()


@needs_ext
def test_without_the_extension_a_list_is_launched_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default executor gives the same values, step by step."""
    monkeypatch.setattr(extension, "library", lambda: None)
    case = Case(2, 1000)
    executor, buffers = chain(case, 3)
    assert type(executor) is GraphExecutor
    assert [executor.run(first) for first in range(3)] == [1, 2, 3]
    assert (np.frombuffer(buffers[3].view, np.float32) == after(case.x, 3)).all()


@needs_ext
def test_an_extension_of_older_sources_is_no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build without the replay is not used, and the reason says what to do."""
    import tinygraft_cpu._native as native

    class Old:
        class lib:
            tg_launch = None

    monkeypatch.setitem(sys.modules, native.__name__, Old)
    extension._load.cache_clear()
    try:
        assert extension.library() is None
        assert extension.why_missing() == "the extension was built from older sources; install the package again"
    finally:
        extension._load.cache_clear()


def layers(count: int, size: int = 32) -> tuple[Callable[[Tensor], Tensor], np.ndarray[Any, Any]]:
    """count times (x @ w).relu(), and w."""
    w = np.random.default_rng(0).random((size, size), np.float32) / size * 2
    weight = Tensor(w).realize()

    def compute(x: Tensor) -> Tensor:
        for _ in range(count):
            x = (x @ weight).relu()
        return x.realize()

    return compute, w


def test_a_hundred_layers_are_a_hundred_kernels() -> None:
    """A replay launches every kernel, says so in the counters, and gives the values of a plain call."""
    compute, _ = layers(100)
    jit = TinyJit(compute)
    x = Tensor(np.random.default_rng(1).random((32, 32), np.float32)).realize()
    GlobalCounters.reset()
    expected = compute(x).numpy()
    plain = GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem
    jit(x)  # also computes what other tests have assigned and left waiting, such as the state of the random numbers
    for _ in range(4):
        GlobalCounters.reset()
        np.testing.assert_array_equal(jit(x).numpy(), expected)
        assert (GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem) == plain
    assert jit.captured == 1
    assert [len(names) for names in jit.kernels] == [plain[0]] == [100]


def test_a_steady_replay_allocates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """When earlier results were dropped, a replay reuses their memory and allocates none."""
    compute, _ = layers(10)
    jit = TinyJit(compute)
    x = Tensor(np.ones((32, 32), np.float32)).realize()
    for _ in range(4):
        result = jit(x)
    allocator = result.uop.base.realized.backend.allocator
    asked = []
    alloc = allocator.alloc
    monkeypatch.setattr(allocator, "alloc", lambda nbytes: asked.append(nbytes) or alloc(nbytes))
    before = GlobalCounters.mem_used
    for _ in range(50):
        result = jit(x)
    assert asked == []
    assert GlobalCounters.mem_used == before
    held = [jit(x) for _ in range(3)]
    assert len(asked) <= 3, "results that are held have memory of their own"
    assert len({t.uop.base.realized.handle.address for t in held}) == 3


def test_debug_and_observers_see_each_kernel_of_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """With DEBUG=2 a replay prints a line per kernel, and an observer is notified of each launch, with its time."""
    from tinygraft import events

    compute, _ = layers(5)
    jit = TinyJit(compute)
    x = Tensor(np.ones((32, 32), np.float32)).realize()
    expected = [jit(x).numpy() for _ in range(3)][-1]
    GlobalCounters.reset()
    with Context(DEBUG=2):
        shown = jit(x)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("***")]
    assert len(lines) == GlobalCounters.kernel_count == 5
    assert GlobalCounters.time_sum_s > 0
    seen: list[Any] = []
    stop = events.observe(seen.append, events.LaunchEvent)
    observed = jit(x)
    stop()
    assert len(seen) == 5
    assert all(launch.seconds > 0 for launch in seen)
    for result in (shown, observed):
        np.testing.assert_array_equal(result.numpy(), expected)


def test_a_variable_reaches_the_kernels_of_a_list() -> None:
    """Values of variables are given anew for each replay."""
    data = np.arange(1000, dtype=np.float32)
    x = Tensor(data).realize()
    jit = TinyJit(lambda n: (x[:n].sum() + x[:n].max()).realize())
    n = Variable("n", 1, 1000)
    for size in (10, 20, 1, 999, 1000):
        assert jit(n.bind(size)).item() == data[:size].sum() + size - 1
    assert jit.captured == 1


def test_two_threads_replay_at_once(run_threads: Callable[..., list[Any]]) -> None:
    """Threads that replay functions of their own, and one that they share, get their own results."""
    shared = TinyJit(layers(6)[0])
    own = [TinyJit(layers(4)[0]) for _ in range(4)]
    expected = [layers(6)[0], layers(4)[0]]

    def job(k: int) -> bool:
        with Context(DEV="CPU"):
            x = Tensor(np.full((32, 32), k + 1, np.float32)).realize()
            plain = [compute(x).numpy() for compute in expected]
            return all(
                np.array_equal(own[k](x).numpy(), plain[1]) and np.array_equal(shared(x).numpy(), plain[0])
                for _ in range(30)
            )

    assert run_threads(job, 4) == [True] * 4


FORKS = """
    import os, threading
    import numpy as np
    from tinygraft import Tensor, TinyJit
    w = Tensor(np.eye(32, dtype=np.float32)).realize()
    @TinyJit
    def f(x):
        for _ in range(20):
            x = (x @ w).relu() + 1
        return x.realize()
    x = Tensor(np.zeros((32, 32), np.float32)).realize()
    for _ in range(3):
        f(x)
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            f(x)
    threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(20):
        pid = os.fork()
        if pid == 0:
            if i % 2 and hasattr(os, "sched_setaffinity"):  # one processor for all threads of the pool
                os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            os._exit(0 if all((f(x).numpy() == 20).all() for _ in range(5)) else 1)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert (f(x).numpy() == 20).all()
    print("well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_replays_what_other_threads_of_its_parent_were_replaying() -> None:
    """A fork in the middle of another thread's replay leaves a function that the child can replay."""
    code = textwrap.dedent(FORKS)
    environment = os.environ | {"DEV": "CPU"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "well\n", done.stderr


@needs_ext
@pytest.mark.skipif(not hasattr(os, "kill"), reason="no signals here")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_long_replay_and_it_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is handled where the list returns to Python; the next replay begins anew."""
    compute, _ = layers(50)
    jit = TinyJit(compute)
    x = Tensor(np.ones((32, 32), np.float32)).realize()
    expected = [jit(x).numpy() for _ in range(3)][-1]
    run, calls = NativeGraph.run, []

    def pressed(self: NativeGraph, first: int) -> int:
        calls.append(first)
        if first == 10:
            os.kill(os.getpid(), signal.SIGINT)
        return run(self, first)

    monkeypatch.setattr(NativeGraph, "NANOSECONDS", 0)
    monkeypatch.setattr(NativeGraph, "run", pressed)
    with pytest.raises(KeyboardInterrupt):
        jit(x)
    assert 11 <= len(calls) <= 12
    monkeypatch.undo()
    np.testing.assert_array_equal(jit(x).numpy(), expected)


@needs_ext
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_a_long_list_comes_back_every_tenth_of_a_second() -> None:
    """A list that takes longer than that is run in several calls, each but the last of about that time."""
    case = Case(2, 1 << 21)
    steps = [Step(case.program, (1, 0)) for _ in range(300)]
    executor = case.backend.graph(steps)
    executor.set_buffer(0, case.source)
    executor.set_buffer(1, case.target)
    executor.set_values({})
    done, slices = 0, []
    while done < len(steps):
        start = time.monotonic()
        done = executor.run(done)
        slices.append(time.monotonic() - start)
    assert len(slices) > 1 or sum(slices) < 0.15
    assert min(slices[:-1], default=1.0) >= 0.09
