"""A device with queues, over PYTHON, that does all work as late as the interface allows: when the host waits for it.

Each queue runs only as far as an event, a copy to the host or `finish` requires, whatever the others still have to do.
New memory is full of 0xFF, and memory that is freed is filled with it at once. So what core does not order, or frees
too early, is a wrong value here, each time.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.device.device_spec import ApiRange, DeviceSpec, Probe
from tinygraft.device.interfaces import Handle, Program
from tinygraft.device.queues import Event, Queue, an_event
from tinygraft.errors import DeviceLostError, DTypeError
from tinygraft.reference.python import HostAllocator, PythonBackend
from tinygraft.uop.stages import Binary

Grid = tuple[int, int, int]
DIRT = 0xFF
LOCK = threading.RLock()  # one thread at a time does work, whichever thread waits for it


class LateEvent(Event):
    """It has passed when its queue has done so many pieces of work."""

    def __init__(self, queue: LateQueue, number: int) -> None:
        self.queue, self.number = queue, number

    def done(self) -> bool:
        """Return whether so much work was done, since something has waited for it."""
        return len(self.queue.times) > self.number

    def wait(self) -> None:
        """Do it now."""
        self.queue.run(self.number)

    def elapsed(self, since: Event) -> float:
        """By the clock of the host, as the work was done."""
        if not isinstance(since, LateEvent):
            raise DTypeError(f"an earlier event of the same queue is needed, got {since!r}")
        self.wait()
        return self.queue.times[self.number] - self.queue.times[since.number]


class LateQueue(Queue):
    """A queue whose work is done when something waits for it."""

    backend: LateBackend

    def __init__(self, backend: LateBackend) -> None:
        super().__init__(backend)
        self.tasks: deque[Callable[[], object]] = deque()
        self.times = [time.perf_counter()]  # when so many pieces of work were done
        self.given = self.submitted = 0

    def later(self, work: Callable[..., object], *arguments: Any) -> LateEvent:
        """Append work to the queue. Returns an event after it."""
        copies = [list(a) if isinstance(a, list) else a for a in arguments]  # a sequence is the caller's
        with LOCK:
            self.tasks.append(lambda: work(*copies))
            self.given += 1
            return LateEvent(self, self.given)

    def run(self, number: int) -> None:
        """Do work until so much of it is done."""
        with LOCK:
            while len(self.times) <= number:
                try:
                    self.tasks.popleft()()
                except DeviceLostError:
                    raise
                except Exception as error:
                    raise DeviceLostError(f"{self.backend.name} failed while it computed: {error}") from error
                finally:
                    self.times.append(time.perf_counter())

    def launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> None:
        """Run a kernel later."""
        assert isinstance(program, LateProgram)
        self.later(program.program.launch, list(buffers), list(variables), grid)

    def copy(self, target: Handle, source: Handle, nbytes: int) -> LateEvent:
        """Copy later."""
        return self.later(lambda: target.__setitem__(slice(nbytes), bytes(source[:nbytes])))

    def copy_in(self, target: Handle, source: memoryview) -> LateEvent:
        """Read the source later."""
        flat = source.cast("B")
        return self.later(lambda: target.__setitem__(slice(flat.nbytes), bytes(flat)))

    def copy_out(self, target: memoryview, source: Handle) -> LateEvent:
        """Write the target later."""
        flat = target.cast("B")
        return self.later(lambda: flat.__setitem__(slice(None), bytes(source[: flat.nbytes])))

    def record(self) -> LateEvent:
        """Return an event after all work so far."""
        return LateEvent(self, self.given)

    def wait(self, event: Event) -> None:
        """Append the wait for an event to the queue."""
        self.later(an_event(event).wait)

    def submit(self) -> None:
        """Count the calls."""
        self.submitted += 1

    def finish(self) -> None:
        """Do all work of the queue."""
        self.run(self.given)


class LateProgram(Program):
    """A kernel for the first queue, or another one."""

    def __init__(self, backend: LateBackend, program: Program) -> None:
        self.backend, self.program = backend, program

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> None:
        """Run it later."""
        self.backend.queue.launch(self, buffers, variables, grid)


class LateMemory(HostAllocator):
    """Memory that is dirty when it is new and again when it is freed, and that the host does not see."""

    def __init__(self, backend: LateBackend) -> None:
        self.backend = backend
        self.freed = 0

    def alloc(self, nbytes: int) -> Handle:
        """Dirt."""
        handle = super().alloc(nbytes)
        handle[:] = bytes([DIRT]) * nbytes
        return handle

    def free(self, handle: Handle, nbytes: int) -> None:
        """Fill the memory with DIRT at once: core frees only what no work uses any more."""
        handle[:] = bytes([DIRT]) * nbytes
        self.freed += 1

    def as_host(self, handle: Handle) -> memoryview | None:
        """Return None, so that core reads memory by copies, which wait for no more than they have to."""
        return None

    def alloc_host(self, nbytes: int) -> memoryview:
        """Dirt."""
        return memoryview(bytearray([DIRT]) * nbytes)

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Behind what the first queue has."""
        self.backend.queue.copy_in(target, source).wait()

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Behind what the first queue has."""
        self.backend.queue.copy_out(target, source).wait()

    def copy(self, target: Handle, source: Handle, nbytes: int) -> None:
        """Behind what the first queue has."""
        self.backend.queue.copy(target, source, nbytes)


class LateBackend(PythonBackend):
    """PYTHON with queues that do everything late."""

    queue: LateQueue
    queue_class = LateQueue

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.queue = self.queue_class(self)
        self.allocator = LateMemory(self)

    def make_queue(self) -> LateQueue:
        """Another one."""
        return self.queue_class(self)

    def load(self, binary: Binary) -> Program:
        """A program that runs later."""
        return LateProgram(self, super().load(binary))


class SeeingQueue(LateQueue):
    """One that reads the memory of its peers itself."""

    def sees(self, peer: Any) -> bool:
        """All of its kind."""
        return isinstance(peer, LateBackend)

    def copy_from(self, target: Handle, peer: Any, source: Handle, nbytes: int) -> LateEvent:
        """Read the peer's memory later."""
        return self.copy(target, source, nbytes)


class SeenMemory(LateMemory):
    """Memory that the host sees, too."""

    def as_host(self, handle: Handle) -> memoryview | None:
        """The memory itself."""
        return HostAllocator.as_host(self, handle)


class SeeingBackend(LateBackend):
    """Devices that see each other's memory, which the host sees too."""

    queue_class = SeeingQueue

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.allocator = SeenMemory(self)


def probe() -> Probe:
    """It is there, as often as one wants."""
    return Probe(ok=True, detail="found", count=None)


def spec(name: str, backend: str) -> DeviceSpec:
    """A device of this file."""
    return DeviceSpec(
        name=name, summary="late", api=ApiRange((0, 1), (0, 9)), kind="accelerator", priority=0,
        probe="late_queues:probe", backend=f"late_queues:{backend}",
    )  # fmt: skip


LATE, SEEING = spec("LATE", "LateBackend"), spec("SEEING", "SeeingBackend")


class LentMemory(LateMemory):
    """Memory that other libraries on the device may use, by its addresses, which are of the host here."""

    def address(self, handle: Handle) -> int:
        """Of the bytes."""
        return ctypes.addressof(ctypes.c_ubyte.from_buffer(handle))

    def at_address(self, address: int, nbytes: int) -> Handle:
        """Any bytes of this process."""
        return HostAllocator.at_address(self, address, nbytes)


class LendingBackend(LateBackend):
    """A device of which other libraries know: its memory is DLPack's type 12, its streams have numbers."""

    array_interface = "__late_array_interface__"

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.allocator = LentMemory(self)
        self.dlpack_device = (12, ordinal)
        self.waits: list[tuple[str, int]] = []  # for which streams somebody waited

    def stream_number(self) -> int:
        """Of the first queue."""
        return 100 + self.ordinal

    def lend(self, stream: int) -> None:
        """Their stream waits: what was launched has run, as nothing here runs but when somebody waits."""
        self.waits.append(("lend", stream))
        self.synchronize()

    def follow(self, stream: int) -> None:
        """This device waits."""
        self.waits.append(("follow", stream))


LENDING = spec("LENDING", "LendingBackend")
