"""KeptRanks: the ranks that `launch` has started, from their beginning to their end.

Each has a keeper (rank_keeper.py), which connects to a socket here and gets the streams of the rank: rank 0 has the
stdin of `launch`, the others an empty one; what all print comes here and is written by whole lines. Where one rank
fails, or `launch` gets a signal, all ranks end, in seconds.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tinygraft.collectives import rank_keeper
from tinygraft.collectives.rank_output import LineMerger, Sink, sinks

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
PATIENCE = 5.0  # assumed: seconds that ranks have to end after a signal of the user; then they are killed
FAILED_PATIENCE = 2.0  # assumed: the same after another rank has failed
LEAVING = 5.0  # assumed: seconds in which mpiexec ends after all ranks have
CHUNK = 1 << 16


def is_possible() -> bool:
    """Return whether this system has what it takes: forks, and files that are passed by sockets."""
    return hasattr(os, "fork") and hasattr(socket, "recv_fds") and hasattr(socket, "AF_UNIX")


class Kept:
    """One keeper, and its rank. `code` is how the rank ended: its exit code, or minus the signal that ended it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.number, self.process = -1, 0
        self.code: int | None = None
        self.told = b""

    def tell(self, line: str) -> None:
        """Send a line to the keeper; nothing where it has ended."""
        with contextlib.suppress(OSError):
            self.connection.sendall(line.encode() + b"\n")


class KeptRanks:
    """`count` ranks that the command in front of theirs starts, with `environment`."""

    def __init__(self, front: Sequence[str], count: int, command: Sequence[str], environment: Mapping[str, str]):
        self.front, self.count, self.command, self.environment = front, count, command, environment
        self.select = selectors.DefaultSelector()
        self.kept: list[Kept] = []
        self.out, self.err = sinks(1, 2)
        self.streams: dict[int, LineMerger] = {}
        self.failed: Kept | None = None  # the first that did
        self.signal = 0  # the first that this process got
        self.until = 0.0  # when what is left is killed; 0 where nothing has to end
        self.silent = False  # whether what mpiexec prints is left out, as it is known already
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Start the ranks, and wait until all have ended. Returns the exit code of the first that failed, else 0.

        Raises OSError where the command cannot be started.
        """
        folder = Path(tempfile.mkdtemp(prefix="tinygraft-"))
        if len(os.fsencode(folder)) > 80:  # given: by the length of a socket's name, 104 on some systems
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="tinygraft-", dir="/tmp"))
        wakes, wake = os.pipe()
        os.set_blocking(wake, False)
        before: dict[int, Any] = {}
        in_main = threading.current_thread() is threading.main_thread()  # others cannot have signals
        previous = signal.set_wakeup_fd(wake, warn_on_full_buffer=False) if in_main else -1
        try:
            for name in (*SIGNALS, "SIGCHLD") if in_main else ():
                number = int(getattr(signal, name))
                ignored = signal.getsignal(number) is signal.SIG_IGN and name == "SIGHUP"  # nohup
                if not ignored:
                    before[number] = signal.signal(number, self._on_signal)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(folder / "ranks"))
                server.listen(self.count)
                self.select.register(server, selectors.EVENT_READ, self._accept)
                self.select.register(wakes, selectors.EVENT_READ, lambda: os.read(wakes, 4096))
                self._start(str(folder / "ranks"))
                self._wait(folder)
                self._drain()
        finally:
            if self.process is not None and self.process.poll() is None:
                self._kill()
                self.process.wait()
            for number, handler in before.items():
                signal.signal(number, handler)
            if in_main:
                signal.set_wakeup_fd(previous)
            self.select.close()
            shutil.rmtree(folder, ignore_errors=True)
            for file in (wakes, wake):
                os.close(file)
        return self._code()

    def _start(self, path: str) -> None:
        """Start mpiexec, with a keeper for each rank."""
        keeper = [sys.executable, "-I", "-S", str(rank_keeper.__file__), path]
        self.process = subprocess.Popen(
            [*self.front, *keeper, *self.command], env=dict(self.environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=_die_with_launch if sys.platform == "linux" else None,
        )  # fmt: skip
        for pipe, sink in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            assert pipe is not None
            self._read_from(pipe.fileno(), sink, shows_open=False, is_ours=True)

    def _read_from(self, file: int, sink: Sink, shows_open: bool, is_ours: bool = False) -> None:
        """Merge what comes from a pipe into a Sink; `is_ours` says that mpiexec prints it, and no rank."""
        merger = self.streams[file] = LineMerger(sink, shows_open)

        def read() -> None:
            data = os.read(file, CHUNK)
            if not data:
                self.select.unregister(file)
                del self.streams[file]
                if not is_ours:
                    os.close(file)
            try:
                if is_ours and self.silent:
                    return
                if data:
                    merger.feed(data)
                else:
                    merger.end()
            except BrokenPipeError:  # the reader has closed it, as `head` does
                self._end_all(signal.SIGTERM, PATIENCE)
                self.signal = self.signal or int(signal.SIGPIPE)
                _to_nowhere(sink.file)

        self.select.register(file, selectors.EVENT_READ, read)

    def _accept(self) -> None:
        """Take a keeper that connects."""
        server = next(key.fileobj for key in self.select.get_map().values() if key.data == self._accept)
        assert isinstance(server, socket.socket)
        connection, _ = server.accept()
        kept = Kept(connection)
        self.kept.append(kept)
        self.select.register(connection, selectors.EVENT_READ, lambda: self._listen(kept))

    def _listen(self, kept: Kept) -> None:
        """Read what a keeper says."""
        try:
            data = kept.connection.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.select.unregister(kept.connection)
            return
        kept.told += data
        while b"\n" in kept.told:
            line, _, kept.told = kept.told.partition(b"\n")
            word, *rest = line.decode().split(" ")
            if word == "rank":
                self._begin(kept, rest[0])
            elif word == "process":
                kept.process = int(rest[0])
            elif word == "ended":
                self._ended(kept, int(rest[0]))

    def _begin(self, kept: Kept, number: str) -> None:
        """Give a rank its streams; one whose launcher is unknown gets the next number."""
        kept.number = int(number) if number else len([one for one in self.kept if one.number >= 0])
        pipes = [os.pipe(), os.pipe()]
        with open(os.devnull, "rb") as nothing:
            source = nothing.fileno()
            if kept.number == 0:
                with contextlib.suppress(OSError):
                    os.fstat(0)
                    source = 0
            socket.send_fds(kept.connection, [b"s"], [source, pipes[0][1], pipes[1][1]])
        for (reads, writes), sink in zip(pipes, (self.out, self.err), strict=True):
            os.close(writes)
            self._read_from(reads, sink, shows_open=kept.number == 0)
        if self.until:
            kept.tell("kill")

    def _ended(self, kept: Kept, code: int) -> None:
        """Note how a rank ended, and end the others where it failed."""
        kept.code = code
        if code and self.failed is None:
            self.failed, self.silent = kept, True
            if not self.signal:
                self._end_all(signal.SIGTERM, FAILED_PATIENCE)

    def _end_all(self, number: int, patience: float) -> None:
        """Send ranks a signal; after `patience` seconds what is left is killed."""
        for kept in self.kept:
            kept.tell(f"signal {int(number)}")
        self.silent = True
        self.until = self.until or time.monotonic() + patience

    def _kill(self) -> None:
        """End at once what is left."""
        for kept in self.kept:
            kept.tell("kill")
            kept.tell("leave")
        if self.process is not None:
            waiting = any(kept.code is None for kept in self.kept)
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM if waiting or not self.kept else signal.SIGKILL)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Pass a signal on to the ranks; a second one ends them at once."""
        if number == signal.SIGCHLD:
            return
        if self.signal:
            self.until = time.monotonic()
            return
        self.signal = number
        self._end_all(signal.SIGTERM if number == signal.SIGHUP else number, PATIENCE)

    def _wait(self, folder: Path) -> None:
        """Wait until mpiexec has ended, which waits for the ranks."""
        assert self.process is not None
        asked, left = 0.0, 0.0
        in_main = threading.current_thread() is threading.main_thread()  # which notices at once that it has ended
        while self.process.poll() is None:
            self._step(1.0 if in_main else 0.1)
            now = time.monotonic()
            if folder.exists() and len(self.kept) == self.count and all(kept.process for kept in self.kept):
                shutil.rmtree(folder, ignore_errors=True)
            if self.kept and len(self.kept) == self.count and all(kept.code is not None for kept in self.kept):
                left = left or now + LEAVING
                for kept in self.kept:
                    kept.tell("leave")
                if now > left:
                    self.process.kill()
            elif self.until and now > self.until:
                self._kill()
                asked = asked or now + LEAVING
                if now > asked:
                    self.process.kill()
            elif self.until and not self.kept:  # none has begun
                with contextlib.suppress(ProcessLookupError):
                    self.process.terminate()
        lost = [kept for kept in self.kept if kept.code is None]
        for kept in lost:  # mpiexec was killed, and they were not
            kept.tell("kill")
            kept.tell("leave")
        until = time.monotonic() + 1.0
        while any(kept.code is None for kept in lost) and time.monotonic() < until:
            self._step(0.05)
        for kept in self.kept:
            if kept.code is None and kept.process and hasattr(os, "killpg"):  # its keeper was killed before it could
                with contextlib.suppress(OSError):
                    os.killpg(kept.process, signal.SIGKILL)

    def _step(self, longest: float) -> bool:
        """Wait until something happens, and do what it asks for. Returns whether a rank or mpiexec said something."""
        if any(stream.is_waiting() for stream in self.streams.values()):
            longest = min(longest, 0.05)
        elif self.until:
            longest = min(longest, 0.1)
        ready = self.select.select(longest)
        for key, _ in ready:
            key.data()
        for stream in self.streams.values():
            stream.show_after_a_moment()
        return bool(ready)

    def _drain(self) -> None:
        """Read what ranks have printed last; what they have started may hold their pipes open."""
        while self.streams and self._step(0.2):
            pass
        for stream in list(self.streams.values()):
            with contextlib.suppress(BrokenPipeError):
                stream.end()

    def _code(self) -> int:
        """Return the exit code, and say which rank failed."""
        assert self.process is not None
        failed, begun = self.failed, [kept for kept in self.kept if kept.process]
        if self.signal:
            ended_well = len(begun) == self.count and all(kept.code == 0 for kept in begun)
            return 0 if ended_well else 128 + self.signal
        lost = [kept for kept in begun if kept.code is None]
        # MPI_Abort: mpiexec kills all, and a keeper may tell of its rank's SIGKILL before it is killed itself
        by_launcher = bool(lost) and self.process.returncode > 0
        killed = failed is not None and failed.code == -signal.SIGKILL
        if failed is not None and failed.code is not None and not (killed and by_launcher):
            others = "" if self.count == 1 else ", and the other ranks were ended"
            self._say(f"rank {failed.number} {_how(failed.code)}{others}")
            return failed.code if failed.code > 0 else 128 - failed.code
        if lost:
            numbers = ", ".join(str(kept.number) for kept in sorted(lost, key=lambda one: one.number))
            how = _how(self.process.returncode)
            self._say(f"{'rank' if len(lost) == 1 else 'ranks'} {numbers} ended with {self.front[0]}, which {how}")
        code = self.process.returncode
        return 1 if lost and not code else code if code >= 0 else 128 - code

    def _say(self, text: str) -> None:
        """Print a line, after what ranks have printed."""
        merger = LineMerger(self.err, False)
        with contextlib.suppress(BrokenPipeError, OSError):
            merger.feed(f"tinygraft launch: {text}\n".encode())


def _how(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"was ended by signal {-code}"


def _die_with_launch() -> None:
    """Let mpiexec end when this process does, even by kill -9."""
    rank_keeper.die_with_parent(signal.SIGTERM)


def _to_nowhere(file: int) -> None:
    """Let what is still written to a file go nowhere."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, file)
        os.close(nowhere)
