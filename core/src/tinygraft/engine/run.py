"""Running a schedule: each call on its buffers, in order; values in between have memory for as long as it runs.

    prepare(calls, kept) -> Prepared      their memory, taken before anything is written over
    run_prepared(prepared, ...)           the launches, and in a Progress how far they have come

A capture that is open in this thread (capture.py) is told of every launch.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.pool import note_lost
from tinygraft.device.queues import Span
from tinygraft.device.registry import Device, raise_noted
from tinygraft.engine.arena import give_back, give_places
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.compile import Compiled, Ready
from tinygraft.engine.launching import LaunchArguments, launch_on_queue, tell
from tinygraft.errors import DeviceLostError
from tinygraft.interrupt import Guard
from tinygraft.uop.index import size_of
from tinygraft.uop.uop import UOp


@dataclass(slots=True)
class Launch:
    """A compiled kernel, or a copy when there is none, on its buffers (target, source for a copy)."""

    kernel: Compiled | None
    device: str
    buffers: list[Buffer]

    def run(self, values: Mapping[str, int]) -> None:
        """Launch once, with these values of its variables."""
        if self.kernel is None:
            copy(*self.buffers)
        else:
            run_kernel(self.kernel, self.device, self.buffers, values)


@dataclass(slots=True)
class Prepared:
    """Calls that can run: their launches, and the memory that all of it takes.

    over are the BUFFERs that calls write and that held a value when this was prepared, overwrites says of each call
    whether it writes one. fresh are buffers that somebody may hold, without a value until a call has written them.
    placed are those of values in between.
    """

    calls: Sequence[Ready]
    launches: list[Launch]
    over: set[UOp]
    overwrites: list[bool]
    fresh: list[Buffer]
    placed: list[Buffer]

    def release(self) -> None:
        """Give the memory of the values in between back."""
        give_back(self.placed)


@dataclass(slots=True)
class Progress:
    """How far a run has come: which calls have run, whether one that overwrites has begun, and the one that failed.

    doubtful are calls that failed and may have stored a part of what they store.
    """

    done: list[bool]
    begun: bool = False
    failed: int | None = None
    doubtful: set[int] = field(default_factory=set)


def prepare(calls: Sequence[Ready], kept: Collection[UOp]) -> Prepared:
    """Calls with their buffers. kept are the BUFFERs whose values somebody wants afterwards.

    Where a call writes over a value, all memory of all of them is taken now: no shortage of it ends them half-way.
    Otherwise a result takes its memory when it is computed.
    """
    launches = [Launch(call.kernel, call.device, [buffer_of(node) for node in call.buffers]) for call in calls]
    written = {node: buffer_of(node) for call in calls for node in writes(call)}
    over = {node for node, buffer in written.items() if holds_value(buffer)}
    overwrites = [not over.isdisjoint(writes(call)) for call in calls]
    fresh = [buffer for node, buffer in written.items() if node not in over]
    placed = give_places(calls, kept)
    if over:
        try:
            for launch in launches:
                for buffer in launch.buffers:
                    buffer.allocate()
        except BaseException:
            give_back([*placed, *fresh])
            raise
    return Prepared(calls, launches, over, overwrites, fresh, placed)


def holds_value(buffer: Buffer) -> bool:
    """Whether writing to a buffer loses a value: it has memory, or will have that of a file."""
    return buffer.nbytes > 0 and (buffer.is_allocated() or buffer.unread is not None)


def run_prepared(prepared: Prepared, values: Mapping[str, int], guard: Guard, progress: Progress) -> None:
    """Run everything in order, and note in progress how far it has come.

    From the first call that writes over a value on, Ctrl-C waits until guard says otherwise. Raises what a launch
    raises, and KeyboardInterrupt.
    """
    captured = bool(open_captures())
    for i, launch in enumerate(prepared.launches):
        if prepared.overwrites[i] and not progress.begun:
            guard.whole = progress.begun = True
        try:
            launch.run(values)
        except BaseException as error:
            progress.failed = i
            if stored_before(error):
                progress.doubtful.add(i)
            raise
        progress.done[i] = True
        if captured:
            note_launch(prepared, i, values)


def note_launch(prepared: Prepared, number: int, values: Mapping[str, int]) -> None:
    """Tell the captures of this thread of a call that has run."""
    call, launch = prepared.calls[number], prepared.launches[number]
    numbers = tuple([node.arg.uid for node in call.buffers])
    note(Recorded(call.kernel, call.device, numbers), launch.buffers, call.buffers, values)


def stored_before(error: BaseException) -> bool:
    """Whether a launch that raised this may have stored something: device.interfaces.Program.launch says when not."""
    return not isinstance(error, Exception) or isinstance(error, DeviceLostError) or hasattr(error, "stored")


def run_schedule(calls: Sequence[Ready], values: Mapping[str, int], kept: set[UOp],
                 done: list[Ready], guard: Guard) -> None:  # fmt: skip
    """Run calls in order, where what they leave when one fails is nobody's concern. done gets each call that ran."""
    if len(calls) == 1 and not guard.hears and not open_captures():
        Launch(calls[0].kernel, calls[0].device, [buffer_of(node) for node in calls[0].buffers]).run(values)
        done.append(calls[0])
        return
    prepared, progress = prepare(calls, kept), Progress([False] * len(calls))
    try:
        run_prepared(prepared, values, guard, progress)
    finally:
        prepared.release()
        done += [call for call, ran in zip(calls, progress.done, strict=True) if ran]


def writes(call: Ready) -> tuple[UOp, ...]:
    """The BUFFERs that a call writes."""
    return tuple(call.buffers[slot] for slot in call.written)


def run_kernel(kernel: Compiled, device: str, buffers: Sequence[Buffer], values: Mapping[str, int]) -> None:
    """Launch a kernel; with DEBUG=2, or where somebody observes, time it."""
    signature = kernel.signature
    handles = [b.handle for b in buffers]
    variables = [values[name] for name in signature.variables]
    x, y, z = grid = signature.grid
    flops, moved = kernel.cost.flops, kernel.cost.bytes
    if variables:
        grid = size_of(x, values), size_of(y, values), size_of(z, values)
        flops, moved = size_of(flops, values), size_of(moved, values)
    GlobalCounters.kernel_count += 1
    GlobalCounters.global_ops += flops
    GlobalCounters.global_mem += moved
    watched = DEBUG.value >= 2 or events.on_launch
    try:
        if kernel.timeline is not None:
            work = LaunchArguments(kernel, kernel.timeline, handles, variables, grid)
            taken = launch_on_queue(work, buffers, watched)
        elif not watched:
            kernel.program.launch(handles, variables, grid)
            return
        else:
            taken = Device[device].timed_launch(kernel.program, handles, variables, grid)
    except (Exception, SystemExit) as error:
        note_lost(error, Device[device])
        raise_noted(error, f"launching {kernel.name}", device)
    if taken is not None:
        tell(device, kernel.name, len(handles), taken, flops, moved)


def copy(target: Buffer, source: Buffer) -> None:
    """The bytes of one buffer to another of the same size: within a device, or as the target's backend takes them."""
    watched, timeline = DEBUG.value >= 2 or events.on_launch, target.backend.timeline
    begun = time.perf_counter()
    if watched and timeline is not None and timeline.has_events and target.nbytes:
        taken: Span | float
        with timeline.queue().span() as taken:
            target.copy_from(source)
    else:
        target.copy_from(source)
        taken = time.perf_counter() - begun
    GlobalCounters.global_mem += 2 * target.nbytes
    GlobalCounters.kernel_count += 1
    if watched:
        tell(target.device, f"copy {target.nbytes}, {target.device} <- {source.device}", 2, taken, 0, target.nbytes)
