"""A crew: jobs done by some threads beside this one, for compilers that leave the interpreter while they work.

    with Crew() as crew:
        crew.do(job, size, threads)    # returns at once, unless there is one thread only
        crew.wait()                    # helps, and raises what a job raised

The largest of the jobs that wait is done first, so that no thread is left with a long one in the end. The threads live
as long as the block, so none is there when the process forks or ends.

Signals wait but while this thread does a job: the queue and the threads of Python take their locks in functions, which
a signal can leave between the lock and the try, and then everybody waits for ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import count
from queue import Empty, PriorityQueue

from tinygraft.interrupt import Guard

# measured: a first MNIST step, lowered by one thread and compiled by two, takes 529 ms with the 5 ms and 435 with
# these (benchmarks/NOTES.md, 2026-11-20, "a second process, two cores")
SWITCH = 1e-4  # seconds until a thread that is back from its compiler gets the interpreter; by default it waits 5 ms

Job = Callable[[], None]


class Crew:
    """Jobs and the threads that do them."""

    def __init__(self) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Job | None]] = PriorityQueue()  # what is least comes first
        self._numbers = count()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._interval = sys.getswitchinterval()
        self._guard = Guard(sealed=True)

    def __enter__(self) -> Crew:
        self._guard.__enter__()
        return self

    def do(self, job: Job, size: int, threads: int) -> None:
        """Have a job done, by this thread when it is all there is. The job sees the settings of this thread."""
        if threads < 2:
            self._heard(job)
            return
        self._jobs.put((-size, next(self._numbers), partial(copy_context().run, job)))
        if len(self._threads) < threads - 1:
            sys.setswitchinterval(SWITCH)
            thread = threading.Thread(target=self._work, name="tinygraft compiles", daemon=True)
            with suppress(RuntimeError):  # no more threads can be had: wait does what is left
                thread.start()
                self._threads.append(thread)

    def wait(self) -> None:
        """Do what is left, then wait for the others. Raises the error of a job that failed."""
        while (job := self._next()) is not None:
            self._heard(job)
        self._dismiss()
        if self._errors:
            raise self._errors[0]

    def __exit__(self, *_: object) -> None:
        try:
            while self._next() is not None:
                pass
            self._dismiss()
        finally:
            self._guard.__exit__(None, None, None)

    def _heard(self, job: Job) -> None:
        """Do a job in this thread; signals are heard meanwhile."""
        self._guard.sealed = False
        try:
            self._guard.point()
            job()
        finally:
            self._guard.sealed = True

    def _work(self) -> None:
        """Run jobs in a thread of the crew until the sentinel None, collecting errors: `wait` raises the first.

        An error ends its job, and not the thread.
        """
        while (job := self._jobs.get()[2]) is not None:
            try:
                job()
            except BaseException as error:
                self._errors.append(error)

    def _next(self) -> Job | None:
        """Return the next job without waiting; None where the queue is empty."""
        try:
            return self._jobs.get_nowait()[2]
        except Empty:
            return None

    def _dismiss(self) -> None:
        """Send the threads home and wait until they have gone."""
        for _ in self._threads:
            self._jobs.put((1, next(self._numbers), None))  # behind all jobs
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        sys.setswitchinterval(self._interval)
