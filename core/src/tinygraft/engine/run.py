"""Running a schedule: each call on its buffers, in order; values in between have memory for as long as it runs.

A capture that is open in this thread (capture.py) is told of every launch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.registry import Device, raise_noted
from tinygraft.engine.arena import give_back, give_places
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.compile import Compiled, Ready
from tinygraft.engine.interrupt import Guard
from tinygraft.engine.show import show_launch
from tinygraft.events import LaunchEvent
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


def run_schedule(calls: Sequence[Ready], values: Mapping[str, int], kept: set[UOp],
                 done: list[Ready], guard: Guard) -> None:  # fmt: skip
    """Run calls in order. kept are the BUFFERs whose values somebody wants afterwards; done gets each call that ran.

    Ctrl-C waits for the end of a call that writes to memory which holds a value: it could not be done again.
    """
    if len(calls) == 1 and not guard.hears and not open_captures():
        _prepare(calls[0]).run(values)
        done.append(calls[0])
        return
    launches = [_prepare(call) for call in calls]
    captured = bool(open_captures())
    overwrites = guard.hears and [any(buffer_of(node).is_allocated() for node in writes(call)) for call in calls]
    placed = give_places(calls, kept)
    try:
        for i, (call, launch) in enumerate(zip(calls, launches, strict=True)):
            guard.whole = bool(overwrites and overwrites[i])
            launch.run(values)
            done.append(call)
            guard.whole = False
            guard.point()
            if captured:
                numbers = tuple([node.arg.uid for node in call.buffers])
                note(Recorded(call.kernel, call.device, numbers), launch.buffers, call.buffers, values)
    finally:
        give_back(placed)


def writes(call: Ready) -> tuple[UOp, ...]:
    """The BUFFERs that a call writes."""
    return tuple(call.buffers[slot] for slot in call.written)


def _prepare(call: Ready) -> Launch:
    return Launch(call.kernel, call.device, [buffer_of(node) for node in call.buffers])


def run_kernel(kernel: Compiled, device: str, buffers: Sequence[Buffer], values: Mapping[str, int]) -> None:
    """Launch a kernel; with DEBUG=2 wait for it and say how long it took."""
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
    try:
        if DEBUG.value < 2 and not events.on_launch:
            kernel.program.launch(handles, variables, grid)
            return
        seconds = max(Device[device].timed_launch(kernel.program, handles, variables, grid), 1e-9)
    except (Exception, SystemExit) as error:
        raise_noted(error, f"launching {kernel.name}", device)
    _tell(device, kernel.name, len(handles), seconds, flops, moved)


def copy(target: Buffer, source: Buffer) -> None:
    """The bytes of one buffer to another of the same size: within a device, or as the target's backend takes them."""
    start = time.perf_counter()
    target.copy_from(source)
    GlobalCounters.global_mem += 2 * target.nbytes
    GlobalCounters.kernel_count += 1
    if DEBUG.value >= 2 or events.on_launch:
        seconds = max(time.perf_counter() - start, 1e-9)
        _tell(target.device, f"copy {target.nbytes}, {target.device} <- {source.device}", 2, seconds, 0, target.nbytes)


def _tell(device: str, name: str, arguments: int, seconds: float, flops: int, moved: int) -> None:
    GlobalCounters.time_sum_s += seconds
    if DEBUG.value >= 2:
        show_launch(device, name, arguments, seconds, flops, moved)
    if events.on_launch:
        events.tell(LaunchEvent(name=name, device=device, seconds=seconds, bytes=moved, flops=flops))
