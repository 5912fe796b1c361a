"""MpiTransport: the ranks of MPI_COMM_WORLD, and what ends all of them where one fails.

Each channel is a communicator of its own, so that transfers of one never match those of another. mpi4py is given the
memory itself: nothing is copied on the way to MPI.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

from tinygraft.plugin.ranks import CHANNELS, COLLECTIVE_LIMIT, Bytes, DeviceBytes, Transfer, Transport, is_kept
from tinygraft_mpi.launching import check_cuda_aware, library
from tinygraft_mpi.spec import MPI_CUDA_AWARE

# measured: on 2026-11-24, MPICH, 4 MB among 2 and 4 ranks on 2 cores: messages 0.10 and 0.25 ms, MPI_Ialltoallv 0.27
# and 1.2 ms. assumed: up to a machine's worth of ranks; among more the algorithms of MPI need fewer messages
FEW = 16
# measured: on 2026-11-24, MPICH, 128 bytes on 2 cores: MPI_Iallgather 3 and 19 us among 2 and 4 ranks, messages 8 and
# 39, MPI_Iallgatherv 7 and 65. assumed: up to a page, where bandwidth does not count
SMALL = 4096
# measured: on 2026-11-24 MPICH's launcher dropped the message of 1 abort in 14 that followed it at once
FORWARDED = 0.2  # seconds in which it reaches the terminal
INTERRUPTED = 130  # given: the exit code of a process that Ctrl-C has ended: 128 and the signal
TAG = 7  # given: of all messages; those between two ranks arrive in order


CUDA_INTERFACE = "__cuda_array_interface__"  # given: by it mpi4py knows memory of CUDA cards


class CudaBytes:
    """Memory of a card as mpi4py takes it."""

    def __init__(self, memory: DeviceBytes) -> None:
        setattr(self, CUDA_INTERFACE, {
            "shape": (memory.size,), "typestr": "|u1", "data": (memory.address, False), "version": 3,
        })  # fmt: skip


def given(memory: Bytes) -> Any:
    """Return memory as mpi4py takes it: that of the host itself."""
    return CudaBytes(memory) if isinstance(memory, DeviceBytes) else memory


class MpiTransfer(Transfer):
    """A transfer of MPI, with the memory that it uses."""

    def __init__(self, requests: list[Any], *memory: Any) -> None:
        self.requests, self.memory = requests, memory

    def test(self) -> bool:
        """Return whether MPI has completed all of it."""
        while self.requests and self.requests[-1].Test():
            self.requests.pop()
        return not self.requests


class MpiTransport(Transport):
    """The connection of this process to the other ranks of MPI_COMM_WORLD. `ours` says that MPI was started here."""

    name = "MPI"
    leave = staticmethod(os._exit)

    def __init__(self, mpi: Any, ours: bool) -> None:
        self.mpi, self.ours, self.closed = mpi, ours, False
        self.device_memory = CUDA_INTERFACE if MPI_CUDA_AWARE.value else ""
        whole = mpi.COMM_WORLD
        self.rank, self.size = whole.Get_rank(), whole.Get_size()
        self._channels = [whole.Dup() for _ in range(CHANNELS)]
        self._messages, self._notes = whole.Dup(), whole.Dup()
        self._announced: dict[int, bytes] = {}
        self._announcing: list[tuple[Any, bytes]] = []
        local = whole.Split_type(mpi.COMM_TYPE_SHARED, self.rank)
        self.local_rank, self.local_size = local.Get_rank(), local.Get_size()
        local.Free()

    def all_to_all(
        self, send: Bytes, send_counts: Sequence[int], receive: Bytes, receive_counts: Sequence[int], channel: int
    ) -> Transfer:
        """Start a message to and from each rank, of up to FEW ranks, else MPI_Ialltoallv; counts are in bytes."""
        sent, received = _offsets(send_counts), _offsets(receive_counts)
        if self.size <= FEW:
            parts = [send[at : at + count] for at, count in zip(sent, send_counts, strict=True)]
            places = [receive[at : at + count] for at, count in zip(received, receive_counts, strict=True)]
            return self._each(parts, places, channel)
        byte, counts = self.mpi.BYTE, list(send_counts)
        counts[self.rank] = receive_counts[self.rank]
        request = self._channels[channel].Ialltoallv(
            [given(send), counts, sent, byte], [given(receive), list(receive_counts), received, byte]
        )
        return MpiTransfer([request], send, receive)

    def all_gather(self, part: Bytes, whole: Bytes, counts: Sequence[int], channel: int) -> Transfer:
        """Start MPI_Iallgather of small parts of one size; else a message to and from each of up to FEW ranks.

        Among more it is MPI_Iallgatherv. Counts are in bytes, and all ranks have the same ones.
        """
        offsets = _offsets(counts)
        is_small = 0 < counts[0] <= SMALL and len(set(counts)) == 1
        if self.size <= FEW and not is_small:
            places = [whole[at : at + count] for at, count in zip(offsets, counts, strict=True)]
            return self._each([part] * self.size, places, channel)
        byte, at = self.mpi.BYTE, offsets[self.rank]
        there = _is_same(part, whole[at : at + part.size])
        source = self.mpi.IN_PLACE if there else [given(part), byte]
        if is_small:
            request = self._channels[channel].Iallgather(source, [given(whole), counts[0], byte])
        else:
            request = self._channels[channel].Iallgatherv(source, [given(whole), list(counts), offsets, byte])
        return MpiTransfer([request], part, whole)

    def _each(self, parts: Sequence[Bytes], places: Sequence[Bytes], channel: int) -> Transfer:
        """Send part r to rank r, and receive place r from it; what stays here is copied, unless it is there already."""
        on, byte = self._channels[channel], self.mpi.BYTE
        others = [(self.rank + step) % self.size for step in range(1, self.size)]  # not all to the same one first
        requests = [on.Irecv([given(places[rank]), byte], rank, TAG) for rank in reversed(others)]
        requests += [on.Isend([given(parts[rank]), byte], rank, TAG) for rank in others]
        own, place = parts[self.rank], places[self.rank]
        if isinstance(own, DeviceBytes) and place.size and not _is_same(own, place):  # the host cannot copy it
            requests += [on.Irecv([given(place), byte], self.rank, TAG), on.Isend([given(own), byte], self.rank, TAG)]
            return MpiTransfer(requests, parts, places)
        if place.size and not _is_same(own, place):
            place[:] = own
        return MpiTransfer(requests, parts, places)

    def broadcast(self, data: Bytes, root: int, channel: int) -> Transfer:
        """Start MPI_Ibcast."""
        return MpiTransfer([self._channels[channel].Ibcast([given(data), self.mpi.BYTE], root)], data)

    def send(self, data: Bytes, target: int) -> Transfer:
        """Start MPI_Isend."""
        return MpiTransfer([self._messages.Isend([data, self.mpi.BYTE], target, TAG)], data)

    def receive(self, data: Bytes, source: int) -> Transfer:
        """Start MPI_Irecv."""
        return MpiTransfer([self._messages.Irecv([data, self.mpi.BYTE], source, TAG)], data)

    def announce(self, note: bytes) -> None:
        """Send it to each other rank."""
        self.announced()
        self._announcing = [(request, data) for request, data in self._announcing if not request.Test()]
        for step in range(1, self.size):
            request = self._notes.Isend([note, self.mpi.BYTE], (self.rank + step) % self.size, TAG)
            self._announcing.append((request, note))

    def announced(self) -> dict[int, bytes]:
        """Receive what has come, and return the last of each rank."""
        about = self.mpi.Status()
        while self._notes.Iprobe(self.mpi.ANY_SOURCE, TAG, about):
            data = bytearray(about.Get_count(self.mpi.BYTE))
            self._notes.Recv([data, self.mpi.BYTE], about.Get_source(), TAG)
            self._announced[about.Get_source()] = bytes(data)
        return self._announced

    def abort(self, message: str, code: int = 1) -> None:
        """Print the message with this rank's number, and end all ranks, with `code` unless that is 0.

        `launch` does so when this process has ended; else it is MPI_Abort.
        """
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        text = "".join(f"[rank {self.rank}] {line}\n" for line in message.rstrip().splitlines())
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(2, data) :]
        if is_kept():
            self.leave(code or 1)
        time.sleep(FORWARDED)
        self.mpi.COMM_WORLD.Abort(code or 1)

    def close(self) -> None:
        """Free the communicators, and end MPI where it was started here."""
        self.closed = True
        self.announced()
        for channel in (*self._channels, self._messages, self._notes):
            channel.Free()
        if self.ours:
            self.mpi.Finalize()

    def about(self) -> str:
        """Return version and library of MPI."""
        return f"MPI, {library(self.mpi)}"


def _is_same(one: Bytes, other: Bytes) -> bool:
    """Return whether two arrays are the same memory."""
    if isinstance(one, DeviceBytes):
        return bool(one.address == other.address)
    found: bool = one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    return found


def _offsets(counts: Sequence[int]) -> list[int]:
    """Return where consecutive parts of these sizes begin."""
    found, at = [], 0
    for count in counts:
        found.append(at)
        at += count
    return found


def open_transport() -> Transport:
    """Start MPI, and let an exception that nothing catches end all ranks. Returns the Transport of this process."""
    import mpi4py

    # mpi4py would end MPI in forked children too, which are no ranks, and wait there for ever
    mpi4py.rc.initialize, mpi4py.rc.finalize = False, False
    from mpi4py import MPI

    if ours := not MPI.Is_initialized():
        all_ranks_start(MPI)
    if MPI_CUDA_AWARE.value:
        check_cuda_aware(MPI)
    transport = MpiTransport(MPI, ours)
    if transport.size > 1:
        end_all_with_one(transport)
    return transport


def all_ranks_start(mpi: Any) -> None:
    """Start MPI, which waits until all ranks do; after COLLECTIVE_LIMIT seconds show where, and end this process.

    mpi4py lets no other thread of Python run meanwhile, and MPI has no limit itself.
    """
    if COLLECTIVE_LIMIT.value:
        faulthandler.dump_traceback_later(COLLECTIVE_LIMIT.value, exit=True)
    mpi.Init_thread()
    if COLLECTIVE_LIMIT.value:
        faulthandler.cancel_dump_traceback_later()


def end_all_with_one(transport: MpiTransport) -> None:
    """Let an exception that ends this rank, Ctrl-C among them, end all ranks with its traceback; os._exit too.

    mpi4py alone waits in MPI_Finalize for the others, which wait for this rank in their collectives.
    """

    before, rank_process = sys.excepthook, os.getpid()

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != rank_process:  # a forked child, which is no rank
            before(kind, error, trace)
            return
        code = INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1
        transport.abort("".join(traceback.format_exception(kind, error, trace)), code)

    sys.excepthook, leave = hook, os._exit

    def exit_at_once(status: int) -> NoReturn:
        """End this process; where the other ranks would wait for it, end them: MPICH ends them with the exit code 0."""
        if os.getpid() == rank_process and not transport.closed:
            frame = sys._getframe(1)
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            transport.abort(f"os._exit({status}) at {where} ends this rank without the others", status)
        leave(status)

    os._exit = exit_at_once
