"""A worker process of a DataLoader: it makes the batches that are asked for, and ends with its parent or its pipe.

Messages in: ("begin", pass, seed, epoch), ("make", pass, number, indices, free shared memory). Messages out, each with
pass and number: "batch" with a Parcel, "end" with whether the data set divides itself, "error" with a WorkerReport. A
thread reads the pipe all the time: the other side never waits for room in it, and its end is seen at once.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from tinygraft.nn.data.making import BatchJob, BatchMaker, SampleFailure
from tinygraft.nn.data.parcels import ParcelWriter
from tinygraft.nn.data.seeding import set_seeds, worker_seed
from tinygraft.tensor.ops.random import manual_seed

GRACE = 2.0  # seconds, assumed: what a sample may take that is being read when the loader ends


@dataclass
class WorkerInfo:
    """What a worker knows of itself: its number, how many there are, its seed in this epoch, and its data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    epoch: int = 0


@dataclass(frozen=True)
class WorkerReport:
    """An error in a worker: its exception as a pickle where it can be one, its text, and the sample."""

    exception: bytes | None
    text: str
    summary: str
    where: str


class _Ended(BaseException):
    """The pipe has ended: what is being made is not wanted any more."""


_info: WorkerInfo | None = None
_was_asked = False


def get_worker_info() -> WorkerInfo | None:
    """Return the WorkerInfo of this worker; None in a process that is none.

    An iterable data set that calls it is taken to divide its samples among the workers itself, as PyTorch asks for.
    """
    global _was_asked
    if _info is not None and not _was_asked:
        _was_asked = True
        set_seeds(_info.seed)
    return _info


class _Worker:
    """The state of the loop: what has been asked for, and what the pass is. `connection` is the pipe to the parent."""

    def __init__(self, connection: Connection, job: BatchJob) -> None:
        self.connection, self.job, self.writer = connection, job, ParcelWriter()
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.newest, self.has_ended = -1, False
        self.maker: BatchMaker | None = None

    def listen(self) -> None:
        """Read the pipe until it ends; then end the process after GRACE seconds if it has not done so by itself."""
        try:
            while True:
                message = self.connection.recv()
                if message[0] == "begin":
                    self.newest = message[1]
                self.tasks.put(message)
        except (EOFError, OSError):
            self.has_ended = True
            self.tasks.put(None)
        threading.Event().wait(GRACE)
        os._exit(1)

    def proceed(self) -> None:
        """Raise _Ended where the pipe has ended."""
        if self.has_ended:
            raise _Ended

    def loop(self, number: int, count: int, prepare: Callable[[int], Any] | None) -> None:
        """Do what is asked for, until the pipe ends. `number` is this worker's, of `count`.

        Messages of a pass that was left are dropped. `prepare`, the worker_init_fn, is called once, in the first pass.
        """
        is_prepared = False
        while (message := self.tasks.get()) is not None:
            if message[1] < self.newest:
                continue  # of a pass that was left
            if message[0] == "begin":
                self.begin(number, count, *message[2:])
                if prepare is not None and not is_prepared:
                    is_prepared = True
                    self.answer(message[1], -1, partial(prepare, number), "worker_init_fn")
                continue
            turn, place = message[1:3]
            self.answer(turn, place, partial(self.make, *message[1:]), f"batch {place}")

    def begin(self, number: int, count: int, seed: int, epoch: int) -> None:
        """Begin a pass: seed Python, NumPy, PyTorch and Tensor for this worker, and make a BatchMaker of the epoch."""
        global _info, _was_asked
        _info = WorkerInfo(number, count, worker_seed(seed, epoch, number), self.job.dataset, epoch)
        _was_asked = False
        set_seeds(_info.seed)
        manual_seed(_info.seed & 0xFFFFFFFF)
        if self.job.is_iterable and hasattr(self.job.dataset, "set_epoch"):
            self.job.dataset.set_epoch(epoch)  # a worker that stays has a data set of its own
        self.maker = BatchMaker(self.job, seed, epoch, self.proceed)

    def answer(self, turn: int, place: int, make: Callable[[], Any], what: str) -> None:
        """Send what `make` returns, or the error that it raises as a WorkerReport, in which `what` says where.

        A `place` below 0 has no answer but an error. Raises _Ended where the pipe is closed.
        """
        try:
            try:
                reply = make()
                if place >= 0:
                    self.connection.send(reply)
            except Exception as error:
                self.connection.send(("error", turn, place, report(error, what)))
        except BrokenPipeError:
            raise _Ended from None

    def make(self, turn: int, place: int, indices: Any, free: str | None) -> Any:
        """Return the message for batch `place` of pass `turn`: ("batch", ...) with a Parcel, or ("end", ...).

        `free` is shared memory that may be written again. Raises SampleFailure, and _Ended where nothing more is
        wanted.
        """
        assert self.maker is not None
        if self.job.is_iterable:
            there, batch = self.maker.read(place, lambda: not _was_asked)
            if not there:
                return "end", turn, place, _was_asked
        else:
            batch = self.maker.make(place, indices)
        return "batch", turn, place, self.writer.write(batch, self.job.collate_fn is None, free)


def report(error: Exception, what: str) -> WorkerReport:
    """Return an error as what can be sent: its pickle where it can be read again, and its text.

    `what` says where it was raised, unless the error is a SampleFailure, which knows its sample.
    """
    where, cause = (error.where, error.error) if isinstance(error, SampleFailure) else (what, error)
    try:
        pickled: bytes | None = pickle.dumps(cause)
        pickle.loads(pickled or b"")
    except Exception:  # of the class of the error, which may raise anything
        pickled = None
    text = "".join(traceback.format_exception(cause))
    return WorkerReport(pickled, text, f"{type(cause).__name__}: {cause}", where)


def run_worker(connection: Connection, number: int, count: int, content: bytes) -> None:
    """Be worker `number` of `count` until the pipe ends: what a new process calls.

    `content` is the pickle of a BatchJob and of a worker_init_fn; an error in reading it is sent as that of "start".
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the pipe
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        job, prepare = pickle.loads(content)
    except Exception as error:  # whatever the data set's module raises
        connection.send(("error", -1, -1, report(error, "start")))
        return
    worker = _Worker(connection, job)
    threading.Thread(target=worker.listen, name="tinygraft listens", daemon=True).start()
    try:
        worker.loop(number, count, prepare)
    except _Ended:
        pass
    finally:
        worker.writer.close()
