"""Running a schedule: each call on its buffers, in order; temporaries have memory for as long as it runs.

    prepare(calls, results) -> Prepared   allocates their memory, before anything is overwritten
    run_prepared(prepared, ...)           launches, and records in a Progress how far it has come

A capture that is open in this thread (capture.py) records every launch.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.pool import note_lost
from tinygraft.device.queues import Span
from tinygraft.device.registry import Device, raise_noted
from tinygraft.engine.arena import Placement, free_temporaries, place_again, place_temporaries
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.compile import Ready
from tinygraft.engine.launching import LaunchArguments, LaunchReport, launch_on_queue, report, start_clock
from tinygraft.engine.own_numbers import Compiled
from tinygraft.errors import DeviceLostError
from tinygraft.interrupt import Guard
from tinygraft.uop.index import size_of
from tinygraft.uop.uop import UOp


@dataclass(slots=True)
class Launch:
    """A compiled kernel, or a copy where `kernel` is None, on its buffers (target and source for a copy)."""

    kernel: Compiled | None
    device: str
    buffers: list[Buffer]
    origins: tuple[Any, ...] = ()

    def run(self, values: Mapping[str, int]) -> None:
        """Launch the kernel, or copy, once; `values` are those of variables by name. Raises what the plugin raises."""
        if events.origins is not None:
            events.origins.computing(self.origins)
        if self.kernel is None:
            target, source = self.buffers
            copy(target, source, self.origins)
        else:
            run_kernel(self.kernel, self.device, self.buffers, values, self.origins)


@dataclass(slots=True)
class Prepared:
    """Calls that can run: their launches, and the memory that they need.

    `over` are the BUFFERs that calls write and that had a value when this was prepared; `overwrites` says of each call
    whether it writes one. `fresh` are written buffers that had no value, `placed` the temporaries.
    """

    calls: Sequence[Ready]
    launches: list[Launch]
    over: set[UOp]
    overwrites: list[bool]
    fresh: list[Buffer]
    placed: list[Buffer]

    def release(self) -> None:
        """Free the memory of the temporaries."""
        free_temporaries(self.placed)


@dataclass(slots=True)
class Progress:
    """How far a run has come: which calls are `done`, whether one that overwrites has `begun`, and which has `failed`.

    `doubtful` are calls that failed and may have stored some of their elements.
    """

    done: list[bool]
    begun: bool = False
    failed: int | None = None
    doubtful: set[int] = field(default_factory=set)


def prepare(calls: Sequence[Ready], results: Collection[UOp], existing: Collection[UOp] | None = None,
            placements: list[Placement] | None = None) -> Prepared:  # fmt: skip
    """Return the calls with their buffers. `results` are the BUFFERs whose values are used afterwards.

    Where a call overwrites a value, the memory of all calls is allocated now, so that no shortage of it ends them
    half-way. Otherwise the memory of a result is allocated when it is computed. `existing` are the BUFFERs that the
    graph names, `placements` has where the temporaries of the plan lie, once that was found. Raises what allocating
    raises, after freeing what it has allocated.
    """
    launches = [
        Launch(call.kernel, call.device, [buffer_of(node) for node in call.buffers], call.origins) for call in calls
    ]
    written = {
        call.buffers[slot]: launch.buffers[slot]
        for call, launch in zip(calls, launches, strict=True) for slot in call.written
    }  # fmt: skip
    over = {node for node, buffer in written.items() if has_value(buffer)}
    if over:
        overwrites = [not over.isdisjoint(writes(call)) for call in calls]
        fresh = [buffer for node, buffer in written.items() if node not in over]
    else:
        overwrites, fresh = [False] * len(calls), list(written.values())
    if events.origins is not None:
        events.origins.computing(_of_temporaries(launches, written, results))
    if placements:
        placed = place_again(placements[0], [launch.buffers for launch in launches])
    else:
        placed = place_temporaries(calls, results, existing, placements)
    if over:
        try:
            for launch in launches:
                if events.origins is not None:
                    events.origins.computing(launch.origins)
                for buffer in launch.buffers:
                    buffer.allocate()
        except BaseException:
            free_temporaries([*placed, *fresh])
            raise
    return Prepared(calls, launches, over, overwrites, fresh, placed)


def _of_temporaries(launches: Sequence[Launch], written: Mapping[UOp, Buffer],
                    results: Collection[UOp]) -> tuple[Any, ...]:  # fmt: skip
    """Return the origins of the launch with the largest temporary: all of them share memory, which is one line's."""
    sizes = {id(buffer): buffer.nbytes for node, buffer in written.items() if node not in results}
    of = [max([sizes.get(id(buffer), 0) for buffer in launch.buffers], default=0) for launch in launches]
    largest = max(of, default=0)
    return launches[of.index(largest)].origins if largest else ()


def has_value(buffer: Buffer) -> bool:
    """Return whether writing to a buffer loses a value: that of its memory, or of a file that is not read yet."""
    return buffer.nbytes > 0 and (buffer.is_allocated() or buffer.unread is not None)


def run_prepared(prepared: Prepared, values: Mapping[str, int], guard: Guard, progress: Progress) -> None:
    """Run all calls in order, and record in `progress` how far it has come. `values` are those of variables.

    From the first call that overwrites a value on, Ctrl-C is delayed until the end of `guard`. Raises what a launch
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
    """Record call `number`, which has run, in the captures of this thread."""
    call, launch = prepared.calls[number], prepared.launches[number]
    uids = tuple([node.arg.uid for node in call.buffers])
    note(Recorded(call.kernel, call.device, uids, origins=call.origins), launch.buffers, call.buffers, values)


def stored_before(error: BaseException) -> bool:
    """Return whether a launch that raised `error` may have stored something.

    An error of a plugin means that nothing was stored, unless it has the attribute `stored`
    (device.interfaces.Program.launch). An interrupt may come at any time, and a lost device may have begun.
    """
    return not isinstance(error, Exception) or isinstance(error, DeviceLostError) or hasattr(error, "stored")


def run_schedule(calls: Sequence[Ready], values: Mapping[str, int], results: set[UOp],
                 done: list[Ready], guard: Guard) -> None:  # fmt: skip
    """Run calls in order that overwrite nothing, so that nothing has to be restored when one fails.

    `results` are the BUFFERs whose values are used afterwards, `values` those of variables. Each call that ran is
    appended to `done`, also where a later one fails. Raises what a launch raises, and KeyboardInterrupt. `guard` is
    that of the realisation.
    """
    if len(calls) == 1 and not guard.hears and not open_captures():
        only = calls[0]
        Launch(only.kernel, only.device, [buffer_of(node) for node in only.buffers], only.origins).run(values)
        done.append(calls[0])
        return
    prepared, progress = prepare(calls, results), Progress([False] * len(calls))
    try:
        run_prepared(prepared, values, guard, progress)
    finally:
        prepared.release()
        done += [call for call, ran in zip(calls, progress.done, strict=True) if ran]


def writes(call: Ready) -> tuple[UOp, ...]:
    """Return the BUFFERs that a call writes."""
    return tuple(call.buffers[slot] for slot in call.written)


def run_kernel(kernel: Compiled, device: str, buffers: Sequence[Buffer], values: Mapping[str, int],
               origins: tuple[Any, ...] = ()) -> None:  # fmt: skip
    """Launch a kernel on `buffers` and count it; with DEBUG=2, or with an observer of launches, measure its time.

    `values` are those of variables by name, `origins` the lines that it computes, which are reported. What the plugin
    raises gets a note with the kernel and the device.
    """
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
            duration = launch_on_queue(work, buffers, watched)
        elif not watched:
            kernel.program.launch(handles, variables, grid)
            return
        elif kernel.on_host:
            begun = time.perf_counter()
            kernel.program.launch(handles, variables, grid)
            duration = time.perf_counter() - begun
        else:
            duration = Device[device].timed_launch(kernel.program, handles, variables, grid)
    except (Exception, SystemExit) as error:
        launch_failed(error, kernel, device)
    if duration is not None:
        report(LaunchReport(device, kernel.name, len(handles), duration, flops, moved, kernel.serial, origins))


def launch_failed(error: BaseException, kernel: Compiled, device: str) -> NoReturn:
    """Raise what a plugin raised in a launch, with a note of the kernel; a lost device is noted as such."""
    note_lost(error, Device[device])
    raise_noted(error, f"launching {kernel.name}", device)


def copy(target: Buffer, source: Buffer, origins: tuple[Any, ...] = ()) -> None:
    """Copy the bytes of `source` to `target`, a buffer of the same size, perhaps of another device; count the copy.

    `origins` are the lines that it is of, which are reported. With DEBUG=2, or with an observer of launches, its time
    is reported. Raises what the plugins raise.
    """
    watched, timeline = DEBUG.value >= 2 or events.on_launch, target.backend.timeline
    begun = time.perf_counter()
    if watched and timeline is not None and timeline.has_events and target.nbytes:
        duration: Span | float
        if events.on_launch:
            start_clock(timeline.queue())
        with timeline.queue().span() as duration:
            target.copy_from(source)
    else:
        target.copy_from(source)
        duration = time.perf_counter() - begun
    GlobalCounters.global_mem += 2 * target.nbytes
    GlobalCounters.kernel_count += 1
    if watched:
        name = f"copy {target.nbytes}, {target.device} <- {source.device}"
        report(LaunchReport(target.device, name, 2, duration, 0, target.nbytes, 0, origins))
