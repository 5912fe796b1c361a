"""Queues of a card, which are streams of its driver, and their events.

All cards of a process have one driver, so an event of one card's stream is waited for by another's. Events of other
kinds of devices the host waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tinygraft.device.interfaces import Handle, Program
from tinygraft.device.queues import Event, Queue, an_event
from tinygraft.errors import DeviceError, DeviceLostError

if TYPE_CHECKING:
    from tinygraft.device.driver.driver_context import DriverContext, DriverEvent

GridSize = tuple[int, int, int]


class StreamEvent(Event):
    """A point in the work of a stream, of which `event` is the driver's."""

    queue: DriverQueue
    event: DriverEvent

    def __init__(self, queue: DriverQueue, event: DriverEvent) -> None:
        self.queue, self.event = queue, event

    def done(self) -> bool:
        """Return whether it has passed, or what was before it has failed."""
        return self.queue.context.has_passed(self.event)

    def wait(self) -> None:
        """Wait for it. Raises DeviceLostError."""
        with self.queue.late_errors():
            self.queue.context.wait(self.event)

    def elapsed(self, since: Event) -> float:
        """Wait, and return the seconds since an earlier event, by the card's clock.

        Raises DeviceError for another event.
        """
        if not isinstance(since, StreamEvent):
            raise DeviceError(f"time is measured from an earlier event of the same queue, got {since!r}")
        self.wait()
        return self.queue.context.seconds(since.event, self.event)


class DriverQueue(Queue):
    """A stream; with `is_beside` False one in a common order with the default stream of the process."""

    backend: Any  # a DriverBackend, whose module imports this one

    def __init__(self, backend: Any, is_beside: bool = True) -> None:
        super().__init__(backend)
        self.context: DriverContext = backend.context
        self.stream: Any = self.context.new_stream(is_beside)

    def launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: GridSize) -> None:
        """Put a kernel behind what is in the queue; raises as `DriverProgram.enqueue`."""
        program.enqueue(self.stream, buffers, variables, grid)  # type: ignore[attr-defined]

    def copy(self, target: Handle, source: Handle, nbytes: int) -> StreamEvent:
        """Copy `nbytes` within the card. Returns an event after the copy; raises DeviceError."""
        with self.errors(f"could not copy {nbytes} bytes"):
            self.context.copy(target.value, source.value, nbytes, self.stream)
            return self.record()

    def copy_in(self, target: Handle, source: memoryview) -> StreamEvent:
        """Copy host memory to `target`. Returns an event after the copy; raises DeviceError."""
        with self.errors(f"could not copy {source.nbytes} bytes from the host"):
            self.context.copy_in(target.value, source, self.stream)
            return self.record()

    def copy_out(self, target: memoryview, source: Handle) -> StreamEvent:
        """Copy `source` to host memory. Returns an event after the copy; raises DeviceError."""
        with self.errors(f"could not copy {target.nbytes} bytes to the host"):
            self.context.copy_out(target, source.value, self.stream)
            return self.record()

    def sees(self, peer: Any) -> bool:
        """Return whether that is a card too: the driver copies between them, directly where they reach each other."""
        return type(peer) is type(self.backend)

    def copy_from(self, target: Handle, peer: Any, source: Handle, nbytes: int) -> StreamEvent:
        """Copy from the memory of `peer`, another card. Returns an event after the copy; raises DeviceError."""
        with self.errors(f"could not copy {nbytes} bytes from {peer.name}"):
            self.context.copy_peer(target.value, peer.context, source.value, nbytes, self.stream)
            return self.record()

    def record(self) -> StreamEvent:
        """Return an event behind all that was called for here."""
        with self.errors("an event could not be recorded"):
            return StreamEvent(self, self.context.record(self.stream))

    def wait(self, event: Event) -> None:
        """Let later work wait for an event."""
        if not isinstance(event, StreamEvent):
            an_event(event).wait()
        elif event.queue is not self:
            with self.errors("a queue could not wait for an event"):
                self.context.wait_for(self.stream, event.event)

    def submit(self) -> None:
        """Do nothing: a stream has what it was given."""

    def finish(self) -> None:
        """Wait for all of it. Raises DeviceLostError."""
        with self.late_errors():
            self.context.finish(self.stream)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Say what was asked of the driver where it refuses, or where something failed before."""
        try:
            yield
        except DeviceError as error:
            raise type(error)(f"{self.backend.name}: {what}: {error}") from error

    @contextmanager
    def late_errors(self) -> Iterator[None]:
        """Add the device to what the block raises: a DeviceLostError stays one.

        Errors that are not of its work, as while a graph is captured, keep their class.
        """
        try:
            yield
        except DeviceLostError as error:
            raise DeviceLostError(f"{self.backend.name} failed while it computed: {error}") from error
        except DeviceError as error:
            raise type(error)(f"{self.backend.name} could not be waited for: {error}") from error
