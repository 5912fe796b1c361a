"""Command queues, and points in their work.

Launches and copies are gathered in a command buffer, which `submit` commits. Command buffers of a queue run one after
another, so an event is the end of one: each signals its number when it has run, and other queues wait for that number.

One that fails may signal nothing, and what waits for it would do so for ever. So the host first waits for the work of
other queues that a queue waits for, and signals in place of what failed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tinygraft.plugin import DeviceError, DeviceLostError, Event, Handle, Program, Queue, an_event
from tinygraft_metal.binding import binding, sentence

if TYPE_CHECKING:
    from tinygraft_metal.device import MetalBackend

MetalGrid = tuple[int, int, int]
MOST_GATHERED = 256  # assumed, 2026-11-24: launches in a command buffer, after which the GPU should have begun
WORD = 4  # given: what the bytes of a blit are a multiple of on macOS


class QueuePoint:
    """The end of the `number`-th command buffer of a queue; `follower` is the next one, once it is there."""

    __slots__ = ("before", "follower", "number")

    def __init__(self, number: int, before: Any) -> None:
        self.number, self.before = number, before
        self.follower: Any = None


class MetalEvent(Event):
    """A point in the work of a queue."""

    def __init__(self, queue: MetalQueue, point: QueuePoint) -> None:
        self.queue, self.point = queue, point

    def done(self) -> bool:
        """Return whether what was before it has run, or failed."""
        before = self.point.before
        return before is None or self.queue.has_ended(before)

    def wait(self) -> None:
        """Wait for it. Raises DeviceLostError."""
        self.queue.wait_for_end(self.point.before)
        self.queue.check()

    def elapsed(self, since: Event) -> float:
        """Return the seconds that the GPU took from an earlier event of the same queue to this one.

        From the beginning of the first command buffer in between to the end of the last, by the GPU's clock. Raises
        DeviceError for an event of another queue.
        """
        if not isinstance(since, MetalEvent) or since.queue is not self.queue:
            raise DeviceError(f"time is measured from an earlier event of the same queue, got {since!r}")
        self.wait()
        first, last = since.point.follower, self.point.before
        if since.point.number >= self.point.number or first is None:
            return 0.0
        return max(0.0, float(last.GPUEndTime() - first.GPUStartTime()))


class MetalQueue(Queue):
    """A command queue, with the command buffer that is being filled."""

    backend: MetalBackend

    def __init__(self, backend: MetalBackend) -> None:
        super().__init__(backend)
        self.binding = binding()
        self.commands = backend.device.newCommandQueue()
        self.signal = backend.device.newSharedEvent()
        if self.commands is None or self.signal is None:
            raise DeviceError(f"{backend.name}: Metal makes no more command queues")
        self.lock = threading.RLock()
        self.point = QueuePoint(0, None)
        self.open: Any = None  # the command buffer that is being filled
        self.encoder: Any = None
        self.is_compute = False  # what the encoder is for
        self.gathered = 0
        self._flying: deque[Any] = deque()  # committed, and not known to have ended
        self._awaited: set[MetalQueue] = set()
        self._ahead: dict[MetalQueue, QueuePoint] = {}  # of those the last points that the host has not waited for
        self._retained: deque[tuple[Any, Any]] = deque()  # what a command buffer uses that it does not retain

    def launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: MetalGrid) -> None:
        """Gather a launch; nothing where a size of the grid is 0. Raises as `MetalProgram.encode`."""
        if 0 in grid:
            return
        with self.gathering() as encoder:
            program.encode(encoder, buffers, variables, grid)  # type: ignore[attr-defined]

    def copy(self, target: Handle, source: Handle, nbytes: int) -> MetalEvent:
        """Gather a copy between two buffers. Returns its event."""
        with self.errors(f"could not copy {nbytes} bytes"):
            self.put_copy(target, source, nbytes)
            return self.record()

    def put_copy(self, target: Handle, source: Handle, nbytes: int) -> None:
        """Gather a copy between two buffers: words by a blit, and up to three more bytes by a kernel."""
        words = nbytes // WORD * WORD
        if words:
            with self.gathering(is_compute=False) as encoder:
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                    source.buffer, source.offset, target.buffer, target.offset, words
                )
        if nbytes > words:
            view, more = self.backend.allocator.view, nbytes - words
            ends = [view(target, words, more), view(source, words, more)]
            self.launch(self.backend.byte_copier, ends, (), (more, 1, 1))

    def copy_in(self, target: Handle, source: memoryview) -> MetalEvent:
        """Gather a copy from host memory, whose bytes are read now. Returns its event."""
        with self.errors(f"could not copy {source.nbytes} bytes from the host"):
            if source.nbytes:
                staged = self.backend.allocator.new(source.nbytes)
                staged.view()[:] = source.cast("B")
                self.put_copy(target, staged, source.nbytes)
            return self.record()

    def copy_out(self, target: memoryview, source: Handle) -> MetalEvent:
        """Copy a buffer to host memory, after what is in the queue, and wait for that.

        Returns an event that has passed.
        """
        if not target.nbytes:
            return self.record()
        with self.errors(f"could not copy {target.nbytes} bytes to the host"):
            staged = self.backend.allocator.new(target.nbytes)
            self.put_copy(staged, source, target.nbytes)
            event = self.record()
        event.wait()
        target.cast("B")[:] = staged.view()
        return event

    def record(self) -> MetalEvent:
        """Return an event behind all that was called for here."""
        with self.errors("an event could not be recorded"), self.lock:
            self.submit()
            return MetalEvent(self, self.point)

    def wait(self, event: Event) -> None:
        """Let later work wait for an event of this GPU; the host waits for others."""
        if not isinstance(event, MetalEvent) or event.queue.backend is not self.backend:
            an_event(event).wait()
        elif event.queue is not self and not event.done():
            with self.errors("a queue could not wait for an event"), self.lock, self.pool():
                self._end_encoder()
                self._begun().encodeWaitForEvent_value_(event.queue.signal, event.point.number)
                self._awaited.add(event.queue)
                self._ahead[event.queue] = event.point
        elif event.queue is not self:
            self._awaited.add(event.queue)

    def submit(self) -> None:
        """Commit the command buffer that is being filled."""
        with self.lock, self.pool():
            if self.open is None:
                return
            self._end_encoder()
            number, filled = self.point.number + 1, self.open
            filled.encodeSignalEvent_value_(self.signal, number)
            filled.commit()
            self.open, self.gathered = None, 0
            self.point = QueuePoint(number, filled)
            while self._flying and self._is_fine(self._flying[0]):
                self._flying.popleft()
            self._flying.append(filled)
            while self._retained and self.has_ended(self._retained[0][0]):
                self._retained.popleft()

    def finish(self) -> None:
        """Wait for all of it. Raises DeviceLostError."""
        self.record().wait()

    def wait_for_end(self, filled: Any) -> None:
        """Wait until a committed command buffer has run or failed, which may be none.

        Raises DeviceLostError where work of another queue that this one waits for has failed.
        """
        with self.lock:
            ahead, self._ahead = self._ahead, {}
        for queue, point in ahead.items():
            queue.wait_for_end(point.before)
            queue.check()
        if filled is not None:
            filled.waitUntilCompleted()

    def check(self) -> None:
        """Raise DeviceLostError where work of this queue, or of one that it waited for, has failed."""
        for queue in (self, *tuple(self._awaited)):
            with queue.lock:
                ended = [one for one in queue._flying if queue.has_ended(one)]
                failed = [one for one in ended if not queue._is_fine(one)]
                if not failed:
                    queue._flying = deque(one for one in queue._flying if one not in ended)
            if failed:  # it stays there: later calls raise it again
                queue.signal.setSignaledValue_(queue.point.number)
                raise DeviceLostError(
                    f"{self.backend.name} failed while it computed: {sentence(failed[0].error())}; "
                    "LAUNCH_BLOCKING=1 names the kernel"
                )

    def retain(self, used: Any) -> None:
        """Let `used` live until the command buffer that is being filled has ended."""
        self._retained.append((self.open, used))

    def has_ended(self, filled: Any) -> bool:
        """Return whether a committed command buffer has run, or failed."""
        return int(filled.status()) >= int(self.binding.metal.MTLCommandBufferStatusCompleted)

    def _is_fine(self, filled: Any) -> bool:
        """Return whether a command buffer has run without an error."""
        return int(filled.status()) == int(self.binding.metal.MTLCommandBufferStatusCompleted)

    @contextmanager
    def gathering(self, is_compute: bool = True, is_alone: bool = False) -> Iterator[Any]:
        """Yield an encoder for launches or for copies, after what was gathered before; `is_alone`: a new one."""
        with self.lock, self.pool():
            if is_alone or self.encoder is None or self.is_compute != is_compute:
                self._end_encoder()
                begun = self._begun()
                self.encoder = begun.computeCommandEncoder() if is_compute else begun.blitCommandEncoder()
                self.is_compute = is_compute
            yield self.encoder
            if is_alone:
                self._end_encoder()
            self.gathered += 1
            if self.gathered >= MOST_GATHERED:
                self.submit()

    def pool(self) -> Any:
        """Return a context at whose end Metal's objects go that only it refers to: Python's main thread has none."""
        return self.binding.objc.autorelease_pool()

    def _begun(self) -> Any:
        """Return the command buffer that is being filled. Raises DeviceError where Metal makes no more of them."""
        if self.open is None:
            self.open = self.commands.commandBuffer()
            if self.open is None:
                raise DeviceError(f"{self.backend.name}: Metal makes no more command buffers")
            self.point.follower = self.open
        return self.open

    def _end_encoder(self) -> None:
        """End the encoder that is open, if there is one."""
        if self.encoder is not None:
            self.encoder.endEncoding()
            self.encoder = None

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Say what was asked of Metal where it refuses."""
        try:
            yield
        except DeviceLostError:
            raise
        except DeviceError as error:
            raise type(error)(f"{self.backend.name}: {what}: {error}") from error
