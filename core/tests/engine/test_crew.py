"""A crew: jobs run side by side, errors come out, and nothing of it is left behind."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import pytest

from tinygraft import Context
from tinygraft.config import NOOPT
from tinygraft.engine.crew import Crew


def test_jobs_run_side_by_side():
    """Two jobs that wait for each other both end, although one thread alone would wait for ever."""
    meeting = threading.Barrier(2, timeout=20)
    done: list[int] = []
    with Crew() as crew:
        for _ in range(2):
            crew.do(lambda: done.append(meeting.wait()), 0, 2)
        crew.wait()
    assert sorted(done) == [0, 1]


def test_one_thread_is_this_one():
    """With one thread the job has run when do returns, here."""
    done: list[threading.Thread] = []
    with Crew() as crew:
        crew.do(lambda: done.append(threading.current_thread()), 0, 1)
        assert done == [threading.current_thread()]


def test_jobs_see_the_settings_of_who_gave_them():
    """A Context around do holds in the job, whichever thread does it."""
    seen: list[int] = []
    with Crew() as crew:
        for value in (0, 1, 0, 1):
            with Context(NOOPT=value):
                crew.do(lambda: seen.append(NOOPT.value), 0, 3)
        crew.wait()
    assert sorted(seen) == [0, 0, 1, 1]


def test_an_error_comes_out_and_nothing_is_left():
    """wait raises what a job raised; threads are gone and the interpreter switches as before."""

    def fail() -> None:
        raise ValueError("this job cannot be done")

    def work() -> None:
        with Crew() as crew:
            for _ in range(4):
                crew.do(fail, 0, 4)
            crew.wait()

    before, threads = sys.getswitchinterval(), threading.active_count()
    with pytest.raises(ValueError, match="this job cannot be done"):
        work()
    assert (sys.getswitchinterval(), threading.active_count()) == (before, threads)


def test_the_largest_job_is_done_first():
    """Of those that wait; equal ones in the order in which they came."""
    go, done = threading.Event(), []
    with Crew() as crew:
        crew.do(lambda: done.append(go.wait(20)), 9, 2)
        for size in (1, 3, 2, 3):
            crew.do(lambda size=size: done.append(size), size, 2)
        go.set()
        while len(done) < 5:  # wait() would help
            time.sleep(0.001)
        crew.wait()
    assert done == [True, 3, 3, 2, 1]


def test_jobs_that_nobody_waits_for_are_dropped():
    """When the block ends with an error, what has not begun never does."""
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        begun.set()
        go.wait(20)
        done.append(0)

    def work() -> None:
        with Crew() as crew:
            crew.do(first, 0, 2)
            begun.wait(20)
            crew.do(lambda: done.append(1), 0, 2)
            threading.Timer(0.05, go.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [0]


def test_without_threads_this_one_does_all(monkeypatch: pytest.MonkeyPatch):
    """Where no thread can be started (a limit of the system, the end of the interpreter), wait does every job."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[int] = []
    before = sys.getswitchinterval()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Crew() as crew:
        for number in range(3):
            crew.do(partial(done.append, number), number, 3)
        crew.wait()
    assert done == [2, 1, 0]
    assert sys.getswitchinterval() == before
