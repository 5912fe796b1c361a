"""A crew: threads that do jobs beside this one, for compilers that release the interpreter's lock while they work.

    with Crew() as crew:
        crew.do(job, size, threads)    # returns at once, unless `threads` is 1
        crew.wait()                    # does jobs as well, and raises what a job raised

The largest waiting job is done first, so that at the end no thread has a long one while the others have none. The
threads end with the block, so none exists when the process forks or ends.

Signals are handled only while this thread does a job: Python's queue and threads acquire locks in functions that an
exception of a handler can leave between the lock and the `try`, and then every other thread would wait for ever.
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
SWITCH = 1e-4  # seconds that a thread back from its compiler waits for the interpreter's lock; Python's default is 5 ms

Job = Callable[[], None]


class Crew:
    """A queue of jobs and the threads that do them; a context manager, in which jobs are added."""

    def __init__(self) -> None:
        self._jobs: PriorityQueue[tuple[int, int, Job | None]] = PriorityQueue()  # (-size, number, job); least first
        self._numbers = count()  # order jobs of one size, as jobs themselves cannot be compared
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._interval = sys.getswitchinterval()
        self._guard = Guard(sealed=True)

    def __enter__(self) -> Crew:
        """Delay the handlers of signals until the end of the block, but while this thread does a job."""
        self._guard.__enter__()
        return self

    def do(self, job: Job, size: int, threads: int) -> None:
        """Add a job of some `size` for up to `threads` threads, this one included; with one it is done at once.

        The job runs with the settings of this thread. Larger jobs are done first; the unit of `size` is the caller's.
        With one thread an error of the job is raised here, else by `wait`.
        """
        if threads < 2:
            self._interruptibly(job)
            return
        self._jobs.put((-size, next(self._numbers), partial(copy_context().run, job)))
        if len(self._threads) < threads - 1:
            sys.setswitchinterval(SWITCH)
            thread = threading.Thread(target=self._work, name="tinygraft compiles", daemon=True)
            with suppress(RuntimeError):  # the system has no more threads: `wait` does the remaining jobs
                thread.start()
                self._threads.append(thread)

    def wait(self) -> None:
        """Do remaining jobs in this thread, then wait for the other threads. Raises the first error of a job."""
        while (job := self._next()) is not None:
            self._interruptibly(job)
        self._dismiss()
        if self._errors:
            raise self._errors[0]

    def __exit__(self, *_: object) -> None:
        """Drop the jobs that have not begun, and wait for the threads. Raises no error of a job: `wait` does."""
        try:
            while self._next() is not None:
                pass
            self._dismiss()
        finally:
            self._guard.__exit__(None, None, None)

    def _interruptibly(self, job: Job) -> None:
        """Do a job in this thread, with the handlers of signals enabled meanwhile.

        Raises what the job raises.
        """
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
        """End the threads once they have done all waiting jobs, and wait for them; with no threads, jobs stay queued.

        Restores the interpreter's switch interval. Raises no error of a job: `wait` does.
        """
        for _ in self._threads:
            self._jobs.put((1, next(self._numbers), None))  # after all jobs, whose sizes are negated
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        sys.setswitchinterval(self._interval)
