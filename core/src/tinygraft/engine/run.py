"""Running a schedule: each call on its buffers, in order; memory of values in between is given back as early as it can.

While a capture is open in this thread (`capturing`), every launch is also recorded, for jit.py to replay.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.registry import Device
from tinygraft.engine.compile import Compiled, Ready
from tinygraft.engine.interrupt import Guard, guarded
from tinygraft.engine.show import show_launch
from tinygraft.events import LaunchEvent
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.shape import sint
from tinygraft.uop.uop import UOp, postorder


@dataclass(slots=True)
class Launch:
    """A compiled kernel, or a copy when there is none, on its buffers (target, source for a copy).

    uids are the numbers of the BUFFER nodes, which grow with time.
    """

    kernel: Compiled | None
    device: str
    buffers: list[Buffer]
    uids: tuple[int, ...]

    def run(self, values: Mapping[str, int]) -> None:
        """Launch once, with these values of its variables."""
        if self.kernel is None:
            copy(*self.buffers)
        else:
            run_kernel(self.kernel, self.device, self.buffers, values)


@dataclass(slots=True)
class Capture:
    """The launches of everything that ran in this thread while the capture was open."""

    launches: list[Launch] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    nodes: dict[int, weakref.ref[UOp]] = field(default_factory=dict)  # by number; dead when nobody holds the value


class _Open(threading.local):
    captures: tuple[Capture, ...] = ()


_open = _Open()


@contextmanager
def capturing() -> Iterator[Capture]:
    """Record the launches of the block. Temporary buffers keep their memory, so that they can run again."""
    capture = Capture()
    before = _open.captures
    _open.captures = (*before, capture)
    try:
        yield capture
    finally:
        _open.captures = before


def run_schedule(calls: Sequence[Ready], values: Mapping[str, int], kept: set[UOp],
                 done: list[Ready], guard: Guard) -> None:  # fmt: skip
    """Run calls in order. kept are the BUFFERs whose values somebody wants afterwards; done gets each call that ran.

    Ctrl-C waits for the end of a call that writes to memory which holds a value: it could not be done again.
    """
    launches = [_prepare(call) for call in calls]
    last: dict[UOp, int] = {}
    for i, call in enumerate(calls):
        for node in call.buffers:
            last[node] = i
    captures = _open.captures
    overwrites = [any(buffer_of(node).is_allocated() for node in writes(call)) for call in calls]
    for i, (call, launch) in enumerate(zip(calls, launches, strict=True)):
        guard.whole = overwrites[i]
        launch.run(values)
        done.append(call)
        guard.whole = False
        guard.point()
        for capture in captures:
            capture.launches.append(launch)
            capture.values.update(values)
            capture.nodes.update((node.arg.uid, weakref.ref(node)) for node in call.buffers)
        if not captures:
            for node in set(call.buffers):
                if last[node] == i and node not in kept:
                    buffer_of(node).deallocate()


def writes(call: Ready) -> tuple[UOp, ...]:
    """The BUFFERs that a call writes."""
    return tuple(call.buffers[slot] for slot in call.written)


def _prepare(call: Ready) -> Launch:
    buffers = [buffer_of(node) for node in call.buffers]
    return Launch(call.kernel, call.device, buffers, tuple([node.arg.uid for node in call.buffers]))


def replay(launches: Sequence[Launch], values: Mapping[str, int], results: Iterable[UOp]) -> None:
    """Run launches again; results are the new BUFFER nodes among what they write. Ctrl-C waits for the end of a launch.

    A capture that is open in this thread records them, as it does what a schedule runs.
    """
    with guarded() as guard:
        for launch in launches:
            guard.whole = True
            launch.run(values)
            guard.whole = False
            guard.point()
    for capture in _open.captures:
        capture.launches.extend(launches)
        capture.values.update(values)
        capture.nodes.update((node.arg.uid, weakref.ref(node)) for node in results)


def size_of(size: sint, values: Mapping[str, int]) -> int:
    """A size as an int, with these values of its variables."""
    if isinstance(size, int):
        return size
    swap = {n: ix.const(values[n.arg.name]) for n in postorder(size) if n.op is Ops.VARIABLE}
    return int(ix.rebuild_simplified((size,), swap)[size].arg)


def run_kernel(kernel: Compiled, device: str, buffers: Sequence[Buffer], values: Mapping[str, int]) -> None:
    """Launch a kernel; with DEBUG=2 wait for it and say how long it took."""
    signature = kernel.signature
    handles = [b.handle for b in buffers]
    variables = [values[name] for name in signature.variables]
    x, y, z = (size if isinstance(size, int) else size_of(size, values) for size in signature.grid)
    GlobalCounters.kernel_count += 1
    flops, moved = size_of(kernel.cost.flops, values), size_of(kernel.cost.bytes, values)
    GlobalCounters.global_ops += flops
    GlobalCounters.global_mem += moved
    if DEBUG.value < 2 and not events.active:
        kernel.program.launch(handles, variables, (x, y, z))
        return
    seconds = max(Device[device].timed_launch(kernel.program, handles, variables, (x, y, z)), 1e-9)
    _tell(device, kernel.name, len(handles), seconds, flops, moved)


def copy(target: Buffer, source: Buffer) -> None:
    """The bytes of one buffer to another of the same size, through the host where they cannot see each other."""
    start = time.perf_counter()
    view = source.as_memoryview()
    if view is None:
        view = memoryview(bytearray(source.nbytes))
        source.copy_out(view)
    target.copy_in(view)
    GlobalCounters.global_mem += 2 * target.nbytes
    GlobalCounters.kernel_count += 1
    if DEBUG.value >= 2 or events.active:
        seconds = max(time.perf_counter() - start, 1e-9)
        _tell(target.device, f"copy {target.nbytes}, {target.device} <- {source.device}", 2, seconds, 0, target.nbytes)


def _tell(device: str, name: str, arguments: int, seconds: float, flops: int, moved: int) -> None:
    GlobalCounters.time_sum_s += seconds
    if DEBUG.value >= 2:
        show_launch(device, name, arguments, seconds, flops, moved)
    if events.active:
        event = LaunchEvent(name=name, device=device, seconds=seconds, bytes=moved, flops=flops)
        events.stage("launch", event, name)
