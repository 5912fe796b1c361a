"""Replays by indirect command buffers: launches that are written once, and run by one command.

What such a buffer has may not change while it runs. So there are two editions of a list: where buffers or values have
changed and the last one still runs, the other is brought up to date, once its own run has ended.

GPUs before the M3 read a pipeline that only an indirect command buffer names when it may be gone, which can end other
programs too. So each one is also named by the encoder there, in a launch of no thread blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.plugin import Backend, GraphExecutor, Handle, Step, size_of
from tinygraft_metal.binding import binding
from tinygraft_metal.program import VALUE, MetalProgram, packed_values

EDITIONS = 2
MOST_COMMANDS = 16384  # given: of an indirect command buffer
APART = 256  # given: bytes between what constant memory may begin at, on every GPU
MOST_OFFSET = (1 << 32) - 1  # given: of a buffer in an indirect command, which takes no more bits of it


@dataclass(frozen=True, slots=True)
class LaunchSegment:
    """Steps `first` to `end`: launches that one buffer has, or one copy."""

    first: int
    end: int
    is_copy: bool


def segments_of(steps: Sequence[Step]) -> list[LaunchSegment]:
    """Return a list's launches in as few segments as Metal allows, with the copies between them."""
    found: list[LaunchSegment] = []
    for number, step in enumerate(steps):
        last, is_copy = found[-1] if found else None, step.program is None
        if last is None or is_copy or last.is_copy or last.end - last.first >= MOST_COMMANDS:
            found.append(LaunchSegment(number, number + 1, is_copy))
        else:
            found[-1] = LaunchSegment(last.first, number + 1, False)
    return found


def barriers_of(steps: Sequence[Step], segments: Sequence[LaunchSegment]) -> list[bool]:
    """Return which steps wait for those before them in their segment; between segments all wait.

    One that may have no thread blocks is no barrier then, so nothing relies on its.
    """
    found = [False] * len(steps)
    for segment in segments:
        since = segment.first  # what came before this has ended
        for number in range(segment.first, segment.end):
            if any(before >= since for before in steps[number].after):
                found[number] = True
                since = number if all(isinstance(size, int) and size for size in steps[number].grid) else since
    return found


def places_of(steps: Sequence[Step]) -> tuple[dict[int, int], int]:
    """Return where the variables of each step that has some begin, in bytes, and how many bytes there are in all."""
    found: dict[int, int] = {}
    end = 0
    for number, step in enumerate(steps):
        if step.variables:
            found[number] = end
            end += -(-VALUE * len(step.variables) // APART) * APART
    return found, end


class GraphEdition:
    """One set of indirect command buffers, the memory of its variables, and what was written there last."""

    def __init__(self, backend: Any, steps: Sequence[Step], segments: Sequence[LaunchSegment], nbytes: int) -> None:
        metal = binding().metal
        described = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
        described.setCommandTypes_(metal.MTLIndirectCommandTypeConcurrentDispatch)
        described.setInheritBuffers_(False)
        described.setInheritPipelineState_(False)
        most = max((len(step.buffers) + bool(step.variables) for step in steps), default=1)
        described.setMaxKernelBufferBindCount_(max(most, 1))
        self.values = backend.allocator.new(nbytes) if nbytes else None
        self.buffers: dict[int, Any] = {}
        for segment in segments:
            if not segment.is_copy:
                self.buffers[segment.first] = (
                    backend.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
                        described, segment.end - segment.first, metal.MTLResourceStorageModeShared
                    )
                )
        self.is_whole = all(one is not None for one in self.buffers.values())
        self.clock = -1  # of the changes that are written there
        self.numbers: dict[str, int] | None = None
        self.user: Any = None  # the command buffer that ran it last, and its queue
        self.queue: Any = None


class MetalGraph(GraphExecutor):
    """A captured list of launches as indirect command buffers, with blits between them."""

    def __init__(self, backend: Backend, steps: Sequence[Step]) -> None:
        super().__init__(backend, steps)
        self.segments = segments_of(steps)
        self.has_barrier = barriers_of(steps, self.segments)
        self.names = sorted({name for step in steps for name in step.variables})
        self.places, self.nbytes = places_of(steps)
        self.uses: dict[int, list[int]] = {}  # by place: the launches that use it
        for number, step in enumerate(steps):
            for place in set(step.buffers) if step.program is not None else ():
                self.uses.setdefault(place, []).append(number)
        self.varying = [n for n, step in enumerate(steps) if any(not isinstance(size, int) for size in step.grid)]
        self.clock = 0
        self.changed: dict[int, int] = {}  # by place: when its buffer was set
        self.editions: list[GraphEdition] = []
        self.is_refused = False  # whether Metal makes no such buffers here

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Let `handle` be the buffer of `place`."""
        super().set_buffer(place, handle)
        self.clock += 1
        self.changed[place] = self.clock

    def run(self, first: int) -> int:
        """Gather all steps from `first` on. Returns the number of steps."""
        queue: Any = self.queue
        with queue.lock, queue.pool():
            edition = None if self.is_refused or self._is_too_far() else self._edition()
            if edition is None:
                return super().run(first)
            for segment in self.segments:
                if segment.first >= first:
                    self._start(segment, edition)
        return len(self.steps)

    def _edition(self) -> GraphEdition | None:
        """Return an edition that is as the buffers and values are now; None where Metal makes none."""
        numbers = self._numbers()
        for one in self.editions:
            if one.clock == self.clock and one.numbers == numbers:
                return one
        free = next((one for one in self.editions if not self._is_running(one)), None)
        if free is None and len(self.editions) < EDITIONS:
            free = GraphEdition(self.backend, self.steps, self.segments, self.nbytes)
            if not free.is_whole:
                self.is_refused = True
                return None
            self.editions.append(free)
        if free is None:
            free = min(self.editions, key=lambda one: one.clock)
            self._wait(free)
        self._write(free, numbers)
        return free

    def _is_too_far(self) -> bool:
        """Return whether a buffer begins further behind the beginning of Metal's than an indirect command can say."""
        return any(one is not None and one.offset > MOST_OFFSET for one in self.handles.values())

    def _numbers(self) -> dict[str, int]:
        """Return what depends on values: variables, and sizes of grids."""
        found = {name: self.values[name] for name in self.names}
        for number in self.varying:
            for axis, size in enumerate(self.steps[number].grid):
                found[f"{number}.{axis}"] = size_of(size, self.values)
        return found

    def _is_running(self, edition: GraphEdition) -> bool:
        """Return whether the last run of an edition has not ended."""
        return edition.user is not None and not edition.queue.has_ended(edition.user)

    def _wait(self, edition: GraphEdition) -> None:
        """Wait until the last run of an edition has ended."""
        edition.queue.submit()
        edition.queue.wait_for_end(edition.user)

    def _write(self, edition: GraphEdition, numbers: dict[str, int]) -> None:
        """Bring an edition up to date, which does not run."""
        stale = {n for place, when in self.changed.items() if when > edition.clock for n in self.uses.get(place, ())}
        if edition.clock < 0:
            stale = {n for n, step in enumerate(self.steps) if step.program is not None}
        elif edition.numbers != numbers:
            stale.update(self.varying)
        if edition.values is not None and edition.numbers != numbers:
            view = edition.values.view()
            for number, place in self.places.items():
                data = packed_values([self.values[name] for name in self.steps[number].variables])
                view[place : place + len(data)] = data
        for segment in self.segments:
            if not segment.is_copy:
                buffer = edition.buffers[segment.first]
                for number in range(segment.first, segment.end):
                    if number in stale:
                        command = buffer.indirectComputeCommandAtIndex_(number - segment.first)
                        self._write_launch(command, number, edition)
        edition.clock, edition.numbers = self.clock, numbers

    def _write_launch(self, command: Any, number: int, edition: GraphEdition) -> None:
        """Write a launch; none where its grid has no thread blocks."""
        step = self.steps[number]
        program = step.program
        assert isinstance(program, MetalProgram)
        x, y, z = (size_of(size, self.values) for size in step.grid)
        command.reset()
        if 0 in (x, y, z):
            return
        if self.has_barrier[number]:
            command.setBarrier()
        program.check_slots(len(step.buffers) + bool(step.variables))
        command.setComputePipelineState_(program.state)
        for slot, place in enumerate(step.buffers):
            if (handle := self.handles[place]) is not None:
                command.setKernelBuffer_offset_atIndex_(handle.buffer, handle.offset, slot)
        if step.variables:
            assert edition.values is not None
            at = self.places[number]
            command.setKernelBuffer_offset_atIndex_(edition.values.buffer, at, len(step.buffers))
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup_((x, y, z), (program.threads, 1, 1))

    def _start(self, segment: LaunchSegment, edition: GraphEdition) -> None:
        """Gather a segment."""
        queue: Any = self.queue
        if segment.is_copy:
            step = self.steps[segment.first]
            target, source = (self.handles[place] for place in step.buffers)
            queue.put_copy(target, source, step.nbytes)
            return
        metal = binding().metal
        usage = metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite
        with queue.gathering(is_alone=True) as encoder:
            for buffer in self._resources(segment, edition):
                encoder.useResource_usage_(buffer, usage)
            for state in self._pipelines(segment):
                encoder.setComputePipelineState_(state)
                encoder.dispatchThreadgroups_threadsPerThreadgroup_((0, 0, 0), (0, 0, 0))
            encoder.executeCommandsInBuffer_withRange_(edition.buffers[segment.first], (0, segment.end - segment.first))
            edition.user, edition.queue = queue.open, queue
            queue.retain(edition)
            queue.gathered += segment.end - segment.first - 1  # the encoder counts as one launch

    def _pipelines(self, segment: LaunchSegment) -> list[Any]:
        """Return the pipelines that the encoder has to name too; none on a GPU that needs no such help."""
        backend: Any = self.backend
        if backend.retains_pipelines:
            return []
        states = [step.program.state for step in self.steps[segment.first : segment.end]]  # type: ignore[union-attr]
        return list({id(state): state for state in states}.values())

    def _resources(self, segment: LaunchSegment, edition: GraphEdition) -> list[Any]:
        """Return the buffers that a segment's launches use."""
        places = {place for step in self.steps[segment.first : segment.end] for place in step.buffers}
        handles = [self.handles[place] for place in sorted(places)]
        found = {id(one.buffer): one.buffer for one in handles if one is not None}
        return [*found.values(), *([edition.values.buffer] if edition.values is not None else [])]
