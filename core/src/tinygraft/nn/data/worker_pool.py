"""The workers of a DataLoader, seen from its process: started, asked, waited for, and ended in every case.

A process that dies, an error in a data set and a batch that does not come are errors that name the worker.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from tinygraft.errors import WorkerError
from tinygraft.nn.data.making import BatchJob
from tinygraft.nn.data.parcels import ParcelReader
from tinygraft.nn.data.worker import GRACE, WorkerReport, run_worker
from tinygraft.uop.uop import Place

_GUARD = 'a script that starts workers does so under if __name__ == "__main__":, since each of them imports it'
_MODULE = "a worker imports the module of the data set, of collate_fn and of worker_init_fn: put them into a file"


class _Process:
    """One worker: its process, its pipe and its shared memory. `number` is which of `count`.

    `content` is what `run_worker` gets; `context` is that of multiprocessing, which starts the process.
    """

    def __init__(self, context: Any, number: int, count: int, content: bytes) -> None:
        self.connection, there = context.Pipe()
        self.process = context.Process(
            target=run_worker, args=(there, number, count, content), name=f"tinygraft loads {number}", daemon=True
        )
        with _without_interrupt():
            self.process.start()
        there.close()
        self.reader = ParcelReader()


@contextlib.contextmanager
def _without_interrupt() -> Iterator[None]:
    """A block in which a process is started that Ctrl-C does not reach before it has said that it ignores it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerPool:
    """`count` workers with one job. They end with `close`, with this object, and with this process.

    `prepare` is the worker_init_fn or None, `context` that of multiprocessing. Raises WorkerError for what pickle does
    not take. `is_busy` says that an iteration has it.
    """

    count: int
    is_busy: bool

    def __init__(self, job: BatchJob, prepare: Callable[[int], Any] | None, count: int, context: Any) -> None:
        try:
            content = pickle.dumps((job, prepare), protocol=5)
        except Exception as error:  # whatever a class of the user's raises
            raise WorkerError(
                f"{_not_sent(job, prepare)} cannot be sent to workers, pickle says: {error}\n"
                "  hint: lambdas, open files and classes inside functions cannot be; num_workers=0 needs no pickle"
            ) from error
        self.count: int = count
        self.turn: int = -1
        self.is_busy: bool = False
        self._processes: list[_Process] = []
        self.close = weakref.finalize(self, _end, os.getpid(), self._processes)
        try:
            for number in range(count):
                self._processes.append(_Process(context, number, count, content))
        except BaseException:
            self.close()
            raise

    def begin(self, seed: int, epoch: int) -> None:
        """Begin a pass: what was asked for in an earlier one is not made any more."""
        self.turn += 1
        for number in range(self.count):
            self._send(number, ("begin", self.turn, seed, epoch))

    def ask(self, worker: int, place: int, indices: Any) -> None:
        """Ask a worker for batch `place`."""
        free = self._processes[worker].reader.free
        self._send(worker, ("make", self.turn, place, indices, free.pop() if free else None))

    def _send(self, worker: int, message: Any) -> None:
        """Send a message to a worker; nothing happens where it has ended."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: what waits for it says so
            self._processes[worker].connection.send(message)

    def receive(self, worker: int, place: int, timeout: float, device: Place) -> tuple[str, Any]:
        """Return a worker's next answer: ("batch", it on `device`), ("error", of a sample of it), or ("end", ...).

        The last one has whether the data set divides itself. Raises what a worker_init_fn did, TimeoutError after
        `timeout` seconds (0 waits for ever), and WorkerError where the worker has ended. Answers of earlier passes are
        dropped.
        """
        one, until = self._processes[worker], time.monotonic() + timeout if timeout else None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = wait([one.connection, one.process.sentinel], left)
            if not ready:
                raise TimeoutError(f"worker {worker} has not made batch {place} in {timeout} seconds, its timeout")
            try:
                if one.connection not in ready:
                    raise EOFError
                kind, turn, made, content = one.connection.recv()
            except (EOFError, OSError):
                raise WorkerError(self._why_ended(worker, place)) from None
            if kind == "error" and (turn == self.turn or turn < 0):
                error = _error_of(content, worker, self.count)
                if made < 0:  # before any batch: this worker can make none
                    raise error
                return kind, error
            if turn != self.turn:
                if kind == "batch":
                    one.reader.skip(content)
                continue
            if kind == "end":
                return kind, content
            if content.is_full:
                _warn_full()
            return kind, one.reader.read(content, device)

    def _why_ended(self, worker: int, place: int) -> str:
        """Return how a worker's process ended: by which signal or with which code, and a hint."""
        process = self._processes[worker].process
        process.join(GRACE)
        code = process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            hint = "\n  hint: the system ends processes so when memory runs out" if name == "SIGKILL" else ""
            return f"worker {worker} (process {process.pid}) was ended by {name} before batch {place}{hint}"
        return f"worker {worker} (process {process.pid}) ended with code {code} before batch {place}\n  hint: {_GUARD}"


def _not_sent(job: BatchJob, prepare: Callable[[int], Any] | None) -> str:
    """Return which argument of the loader pickle does not take."""
    for name, one in (("collate_fn", job.collate_fn), ("worker_init_fn", prepare)):
        try:
            pickle.dumps(one, protocol=5)
        except Exception:  # whatever a class of the user's raises
            return name
    return "the data set"


def _error_of(report: WorkerReport, worker: int, count: int) -> BaseException:
    """Return a worker's error, with a note of where it was; a WorkerError where it could not be sent."""
    text = f"in worker {worker} of {count}, {report.where}:\n\n{report.text.rstrip()}"
    if report.where == "start":
        return WorkerError(f"worker {worker} cannot read the data set: {report.summary}\n  hint: {_MODULE}")
    if report.exception is None:
        return WorkerError(f"{report.summary}, {text}")
    error: BaseException = pickle.loads(report.exception)
    error.add_note(text)
    return error


def _warn_full() -> None:
    """Warn that batches go through pipes."""
    warnings.warn(
        "the system has no room for more shared memory: batches go through pipes, which takes longer",
        RuntimeWarning, stacklevel=4,
    )  # fmt: skip


def _end(owner: int, processes: list[_Process]) -> None:
    """End workers; those that do not see the end of their pipe in time are killed. A fork of `owner` ends none."""
    if os.getpid() != owner:
        return
    for one in processes:
        with contextlib.suppress(EOFError, OSError):
            while one.connection.poll():
                kind, _, _, content = one.connection.recv()
                if kind == "batch":
                    one.reader.skip(content)
        one.connection.close()
    until = time.monotonic() + GRACE
    for one in processes:
        one.process.join(max(0.0, until - time.monotonic()))
        if one.process.exitcode is None:
            one.process.kill()
            one.process.join()
        one.process.close()
        one.reader.close()
    processes.clear()


def context_of(wanted: Any) -> Any:
    """Return the context that starts workers: `wanted`, or that of its name; "spawn" for None.

    Raises WorkerError for one that forks.
    """
    context = multiprocessing.get_context(wanted or "spawn") if wanted is None or isinstance(wanted, str) else wanted
    if context.get_start_method() == "fork":
        raise WorkerError(
            'workers are started by "spawn" or "forkserver": a fork copies locks that other threads have, and hangs'
        )
    return context
