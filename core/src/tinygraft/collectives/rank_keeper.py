"""What `launch` starts in place of each rank: it starts the rank, and ends it where `launch` ends or says so.

    python -I -S rank_keeper.py SOCKET COMMAND...

A program of its own, which imports nothing of tinygraft: it has to listen while the rank computes, waits in MPI, or is
stopped. `launch` sends it the stdin, stdout and stderr of the rank, then lines: `signal N` for the rank, `kill` for it
and all that it has started, `leave` to end. It sends the number of the rank, its process, and how that ended.
Where there is no `launch` on this machine it becomes the rank itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

# given: what launchers of MPI, Slurm and PyTorch set in each process to its number
NUMBERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "RANK")
# given: set in a rank to 1: `launch` ends the others where it fails; no setting, as names with TINYGRAFT_ in front are
KEPT = "KEPT_BY_TINYGRAFT_LAUNCH"
PATIENCE = 3.0  # assumed: seconds that a rank has after SIGTERM until it is killed
PR_SET_PDEATHSIG = 1  # given: by prctl of Linux


def die_with_parent(number: int) -> None:
    """Let the system send this process a signal when its parent ends, however it does; Linux alone can."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def number_of_rank() -> str:
    """Return the number of this rank, as the environment has it; "" where it does not."""
    return next((os.environ[name] for name in NUMBERS if os.environ.get(name, "").isdigit()), "")


def start(command: Sequence[str], streams: Sequence[int]) -> int:
    """Start the rank in a group of processes of its own, with these streams. Returns its process."""
    parent, child = os.getpid(), os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
        os.execvpe(command[0], list(command), {**os.environ, KEPT: "1"})
    finally:
        os._exit(127)


def send(process: int, number: int, group: bool = False) -> None:
    """Send a signal to the rank, or to all of its group; nothing where there is none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if group else os.kill)(process, number)


def end_group(process: int) -> None:
    """End what a rank that failed has started."""
    send(process, signal.SIGTERM, group=True)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        try:
            os.killpg(process, 0)
        except OSError:
            return
        time.sleep(0.02)
    send(process, signal.SIGKILL, group=True)


class Keeper:
    """One rank, and the connection to `launch`."""

    def __init__(self, control: socket.socket, child: int) -> None:
        self.control, self.child = control, child
        self.told = b""
        self.status: int | None = None  # how the rank ended, as os.waitpid has it
        self.alone = False  # whether launch has ended
        self.leaves = False
        self.parent = os.getppid()
        self.until = 0.0  # when the rank is killed; 0 where it is not told to end

    def ask_to_end(self) -> None:
        """Let the rank end by SIGTERM, and see to it that it does."""
        send(self.child, signal.SIGTERM)
        send(self.child, signal.SIGCONT)
        self.until = self.until or time.monotonic() + PATIENCE

    def listen(self) -> None:
        """Do what launch says; where it has ended, end the rank."""
        try:
            data = self.control.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.alone = True
            self.ask_to_end()
            return
        self.told += data
        while b"\n" in self.told:
            line, _, self.told = self.told.partition(b"\n")
            word, _, number = line.decode().partition(" ")
            if word == "signal" and self.status is None:
                send(self.child, int(number))
            elif word == "kill":
                send(self.child, signal.SIGKILL, group=True)
            elif word == "leave":
                self.leaves = True

    def look(self) -> None:
        """Notice that the rank has ended, and say how."""
        if self.status is not None:
            return
        ended, status = os.waitpid(self.child, os.WNOHANG)
        if not ended:
            if os.getppid() != self.parent:  # mpiexec, or its part that started this one, was killed
                self.ask_to_end()
            if self.until and time.monotonic() > self.until:
                send(self.child, signal.SIGKILL, group=True)
            return
        self.status = status
        with contextlib.suppress(OSError):
            self.control.sendall(b"ended %d\n" % os.waitstatus_to_exitcode(status))
        if status:
            end_group(self.child)

    def keep(self, wakes: int) -> int:
        """Wait for the end of the rank. Returns its exit code.

        One that failed is kept until launch says so, since mpiexec would end the others when this process ends.
        """
        self.look()
        while self.status is None or (self.status and not self.leaves and not self.alone):
            watched: list[Any] = [wakes] if self.alone else [wakes, self.control]
            ready, _, _ = select.select(watched, [], [], 0.2 if self.until else 1.0)
            if wakes in ready:
                os.read(wakes, 4096)
            if self.control in ready:
                self.listen()
            self.look()
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code


def main() -> int:
    """Connect to launch and keep one rank."""
    path, command = sys.argv[1], sys.argv[2:]
    control = socket.socket(socket.AF_UNIX)
    try:
        control.connect(path)
    except OSError:
        if os.path.exists(path):
            raise
        os.execvp(command[0], command)  # of another machine
    control.sendall(f"rank {number_of_rank()}\n".encode())
    _, streams, _, _ = socket.recv_fds(control, 1, 3)
    if len(streams) != 3:
        return 1
    wakes, wake = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    keeper = Keeper(control, start(command, streams))
    with contextlib.suppress(OSError):
        control.sendall(b"process %d\n" % keeper.child)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # launch passes on what it gets
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: keeper.ask_to_end())
    for stream in streams:
        os.close(stream)
    return keeper.keep(wakes)


if __name__ == "__main__":
    sys.exit(main())
