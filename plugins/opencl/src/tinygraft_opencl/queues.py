"""Queues of a device, each of which works in order, and the driver's events.

A queue waits for an event of another OpenCL device, which is of another context, through a user event of its own
context, which the driver sets when the other has passed. For events of other plugins the host waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tinygraft.plugin import DeviceError, DeviceLostError, Event, Handle, Program, Queue, an_event
from tinygraft_opencl.platforms import binding

if TYPE_CHECKING:
    from tinygraft_opencl.device import OpenCLBackend
    from tinygraft_opencl.program import WorkSizes


class ClEvent(Event):
    """The event of a command in a queue that works in order."""

    queue: ClQueue

    def __init__(self, queue: ClQueue, event: Any) -> None:
        self.queue, self.event = queue, event

    def done(self) -> bool:
        """Return whether the command has run, or failed."""
        return int(self.event.command_execution_status) <= int(self.queue.cl.command_execution_status.COMPLETE)

    def wait(self) -> None:
        """Wait for the command. Raises DeviceLostError."""
        with self.queue.late_errors():
            self.event.wait()

    def elapsed(self, since: Event) -> float:
        """Wait for this event. Returns the seconds since another one of the device, by the device's clock.

        Raises DeviceError for an event of another kind, DeviceLostError where the work failed.
        """
        if not isinstance(since, ClEvent):
            raise DeviceError(f"time is measured from an earlier event of the same queue, got {since!r}")
        self.wait()
        return float(self.event.profile.end - since.event.profile.end) * 1e-9


class ClQueue(Queue):
    """A command queue that works in order, and measures the time of each command."""

    backend: OpenCLBackend

    def __init__(self, backend: OpenCLBackend) -> None:
        super().__init__(backend)
        self.cl = binding()
        timed = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queue = self.cl.CommandQueue(backend.context, backend.device, timed)
        # retained until they have passed: pyopencl waits, with the GIL held, where one is collected before
        self._copies: deque[ClEvent] = deque()

    def launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: WorkSizes) -> None:
        """Add a launch to the queue."""
        program.enqueue(self.queue, buffers, variables, grid)  # type: ignore[attr-defined]

    def copy(self, target: Handle, source: Handle, nbytes: int) -> ClEvent:
        """Add a copy between two buffers of the context. Returns its event."""
        return self._copied(target.buffer, source.buffer, nbytes, byte_count=nbytes)

    def copy_in(self, target: Handle, source: memoryview) -> ClEvent:
        """Add a copy from host memory. Returns its event."""
        return self._copied(target.buffer, source, source.nbytes, is_blocking=False)

    def copy_out(self, target: memoryview, source: Handle) -> ClEvent:
        """Add a copy to host memory. Returns its event."""
        return self._copied(target, source.buffer, target.nbytes, is_blocking=False)

    def sees(self, peer: Any) -> bool:
        """Return whether `peer` is an OpenCL device whose buffers are host memory."""
        return bool(type(peer) is type(self.backend) and peer.allocator.on_host)

    def copy_from(self, target: Handle, peer: Any, source: Handle, nbytes: int) -> ClEvent:
        """Add a copy from a buffer of a peer that this queue `sees`. Returns its event."""
        return self._copied(target.buffer, source.host[:nbytes], nbytes, is_blocking=False)

    def record(self) -> ClEvent:
        """Return the event of a new marker."""
        with self.errors("an event could not be recorded"):
            return ClEvent(self, self.cl.enqueue_marker(self.queue))

    def wait(self, event: Event) -> None:
        """Let later commands wait for an event; the host waits for one of another plugin."""
        if not isinstance(event, ClEvent):
            an_event(event).wait()
            return
        if event.queue is self:
            return
        other = event.event
        if event.queue.backend is not self.backend:
            other = self._bridge(other)
        with self.errors("a queue could not wait for an event"):
            self.cl.enqueue_barrier(self.queue, wait_for=[other])

    def _bridge(self, event: Any) -> Any:
        """Return a user event of this context that is set when `event`, of another context, has passed or failed."""
        bridge = self.cl.UserEvent(self.backend.context)
        complete = self.cl.command_execution_status.COMPLETE
        event.set_callback(complete, lambda status: bridge.set_status(min(int(status), complete)))
        return bridge

    def submit(self) -> None:
        """Flush the queue, so that the driver begins."""
        with self.errors("a queue could not be flushed"):
            self.queue.flush()

    def finish(self) -> None:
        """Wait for all commands. Raises DeviceLostError."""
        with self.late_errors():
            self.queue.finish()

    def _copied(self, target: Any, source: Any, nbytes: int, **how: Any) -> ClEvent:
        """Add a copy to the queue, retain its event, and drop those that have passed. Returns the event."""
        with self.errors(f"could not copy {nbytes} bytes"):
            event = ClEvent(self, self.cl.enqueue_copy(self.queue, target, source, **how))
        self._copies.append(event)
        while self._copies and self._copies[0].done():
            self._copies.popleft()
        return event

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raise what the driver refuses in the block as DeviceError; `what` says what could not be done."""
        try:
            yield
        except self.cl.Error as error:
            raise DeviceError(f"{self.backend.name}: {what}: {error}") from error

    @contextmanager
    def late_errors(self) -> Iterator[None]:
        """Raise an error of the driver in the block, which failed while the device computed, as DeviceLostError."""
        try:
            yield
        except self.cl.Error as error:
            raise DeviceLostError(f"{self.backend.name} failed while it computed: {error}") from error
