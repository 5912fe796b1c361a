"""A function of core run in a child process, so that a plugin that crashes or hangs there does no harm here.

    with Child("tinygraft.x.y:function", job) as child:
        child.message(limit=2.0)       # the messages of function(job, tell), one after another; None when it has ended

A plugin that kills its process, or hangs, is a ChildEnded with the reason in words.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from tinygraft.installed.records import resolve

START_LIMIT = 20.0  # seconds that a Python process may take to start on a busy machine
AT_ONCE = 4  # child processes that run at the same time
MOST_PRINTED = 4000  # characters, the last ones, of what a child had printed that are in its error

_COMMAND = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path[:] = job['path']; "
    "from tinygraft.installed.child import serve; serve(job)"
)
Tell = Callable[[dict[str, Any]], None]  # sends a message to the parent process


class ChildEnded(Exception):
    """A child returned no answer; the text says how it ended. `printed` is what it had printed."""

    def __init__(self, text: str, printed: str = "") -> None:
        super().__init__(text)
        self.printed = printed


class _Abandoned(Exception):
    """The answer of a child is no longer needed."""


class Child:
    """A running child process, which ends with the block. Raises OSError where no process can be started.

    `function` is "module:name", called there with `job`, which has to be JSON. `what` is the subject of errors:
    "loading it". `on_wait` is called with the limit when a message takes longer than a second, at most once.
    """

    what: str

    def __init__(
        self, function: str, job: dict[str, Any], what: str = "it", on_wait: Callable[[float], object] | None = None
    ) -> None:
        self.what, self.on_wait = what, on_wait
        # a file, as a pipe that is not read while the child runs could fill and block it
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115
        job = {"path": sys.path, "function": function} | job
        try:
            self._process = subprocess.Popen(
                [sys.executable or "python", "-X", "faulthandler", "-c", _COMMAND, json.dumps(job)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._printed, start_new_session=True,
                text=True,
            )  # fmt: skip
        except BaseException:
            self._printed.close()
            raise
        self._abandoned = False
        _running.add(self)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._started = False

    def message(self, limit: float) -> dict[str, Any] | None:
        """Return the next message of the function; None when it has returned.

        Raises ChildEnded where the child ends, and after `limit` seconds. The start of Python does not count for that.
        """
        if not self._started:
            self._started = True
            self._line(START_LIMIT)
        answer: dict[str, Any] = json.loads(self._line(limit))
        return None if answer == {} else answer

    def _line(self, limit: float) -> str:
        """Wait for the next line of the child. Raises ChildEnded where it ends or takes over `limit` seconds.

        After one second `on_wait` is called, at most once, so that a program can print what it waits for.
        """
        try:
            try:
                line = self._lines.get(timeout=min(limit, 1.0))
            except queue.Empty:
                if limit <= 1.0:
                    raise
                if self.on_wait is not None:
                    self.on_wait(limit)
                    self.on_wait = None
                line = self._lines.get(timeout=limit - 1.0)
            if line is not None:
                return line
            if self._abandoned:
                raise _Abandoned
            ending = _ending(self._process.wait(timeout=2.0))
        except (queue.Empty, subprocess.TimeoutExpired):
            raise ChildEnded(f"{self.what} in a child process took more than {limit:g} s", self._output()) from None
        raise ChildEnded(f"{self.what} in a child process {ending}", self._output())

    def _output(self) -> str:
        """Return what the child has printed, at most the last MOST_PRINTED characters."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")[-MOST_PRINTED:]

    def _read(self) -> None:
        """Pass on the child's lines, in a thread of its own, and None when there are no more."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> Child:
        """Return this child."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child and whatever it started."""
        _running.discard(self)
        if self._process.poll() is None:
            self._kill()
            self._process.wait()
        self._printed.close()

    def abandon(self) -> None:
        """End the child while another thread waits for its answer. That thread gets an exception that is no ChildEnded.

        So it does not record the plugin as one that ended its process.
        """
        self._abandoned = True
        if self._process.poll() is None:
            self._kill()

    def _kill(self) -> None:
        """Kill the child and what it started: it leads a process group of its own."""
        with suppress(ProcessLookupError, PermissionError):  # it has ended in the meantime
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


_running: weakref.WeakSet[Child] = weakref.WeakSet()


def together(jobs: Iterable[Callable[[], object]]) -> None:
    """Call functions that wait for child processes, AT_ONCE at a time. Ctrl-C ends the processes without waiting."""
    from concurrent.futures import ThreadPoolExecutor  # imported only by the few commands that have several

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = [pool.submit(job) for job in jobs]
        try:
            for one in done:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(one.done() for one in done):  # one may be about to start its child
                for child in list(_running):
                    child.abandon()
                time.sleep(0.01)
            raise


def _ending(code: int) -> str:
    """Return how a process with this exit code ended, in words."""
    if code < 0:
        try:
            return f"ended it by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended it by signal {-code}"
    return f"ended it with exit code {code} and no answer"


def serve(job: dict[str, Any]) -> None:
    """Run the function of the job in the child: report that Python has started, call it, report that it returned."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what the plugin prints must not mix with the answers

        def tell(message: dict[str, Any]) -> None:
            out.write(json.dumps(message) + "\n")
            out.flush()

        function = resolve(job["function"])  # before "started", so that imports of core do not count for the limit
        tell({"started": True})
        function(job, tell)
        tell({})
