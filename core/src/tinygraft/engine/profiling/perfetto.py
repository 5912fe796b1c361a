"""A profile as a trace file that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's JSON trace format.

In: a Profile. Out: a file with a track for each thread of Python, one for each queue of each device, and a counter of
memory for each device. Times are in microseconds since the profile began. The format is described in "Trace Event
Format" by Nat Duca and Dan Sinclair.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tinygraft.engine.origins import place
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.engine.profiling.time_spent import KINDS
from tinygraft.files import write_atomic

PYTHON = 1  # the "process" whose tracks are threads of Python; those of devices are counted from there


def write_trace(profile: Profile, path: Path) -> None:
    """Write a profile to `path`, whole or not at all. Raises OSError where it cannot be written."""
    # one event a line: readable, and large traces need no second copy as one text
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace_events(profile))
    if not write_atomic(path, f'{{"displayTimeUnit":"ns","traceEvents":[\n{lines}\n]}}\n'.encode()):
        raise OSError(f"the trace {path} could not be written")


def trace_events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the events of the trace, first the names of its tracks."""
    threads: dict[int, int] = {profile.thread: 1}
    devices: dict[str, int] = {}
    queues: set[tuple[str, int]] = set()
    for thread, _ in profile.spans:
        threads.setdefault(thread, len(threads) + 1)
    for compiled in profile.compiles:
        if compiled.thread:
            threads.setdefault(compiled.thread, len(threads) + 1)
    for _, launch in profile.launches:
        devices.setdefault(launch.device, PYTHON + 1 + len(devices))
        queues.add((launch.device, launch.queue))
    for change in profile.memory:
        devices.setdefault(change.device, PYTHON + 1 + len(devices))
    yield _named("process_name", PYTHON, 0, f"Python: {profile.title}")
    for number in threads.values():
        yield _named("thread_name", PYTHON, number, "main thread" if number == 1 else f"thread {number}")
    for device, process in devices.items():
        yield _named("process_name", process, 0, device)
    for device, queue in sorted(queues):
        yield _named("thread_name", devices[device], queue + 1, f"{device} queue {queue}")
    yield from _of_python(profile, threads)
    yield from _of_devices(profile, devices)


def _of_python(profile: Profile, threads: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the spans of Python and the compilations, on the tracks of their threads.

    `threads` has the number of the track of each thread, by its id. What the disk cache had is no compilation.
    """
    for thread, span in profile.spans:
        name = f"{KINDS.get(span.name, span.name)} {span.detail}".strip()
        yield _complete(profile, name, span.name, PYTHON, threads[thread], span.start, span.seconds)
    for one in profile.compiles:
        if one.thread and not one.cached:
            arguments = {"device": one.device, "bytes": one.bytes}
            yield _complete(profile, f"compiler: {one.name}", "compiler", PYTHON, threads[one.thread], one.start,
                            one.seconds, arguments)  # fmt: skip


def _of_devices(profile: Profile, devices: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield launches and copies on the tracks of their queues, and the memory of each device after each change.

    `devices` has the number of the process that stands for a device, by its name.
    """
    for _, one in profile.launches:
        kind = "copy" if one.name.startswith("copy ") else "kernel"
        arguments: dict[str, Any] = {"flops": one.flops, "bytes": one.bytes}
        if one.origins:
            arguments |= {"module": one.origins[0].module, "lines": list(dict.fromkeys(map(place, one.origins)))}
        yield _complete(profile, one.name, kind, devices[one.device], one.queue + 1, one.start, one.seconds, arguments)
    used = dict.fromkeys(devices, 0)
    for change in profile.memory:
        used[change.device] += change.nbytes
        yield {"ph": "C", "name": "memory", "pid": devices[change.device], "tid": 0,
               "ts": _microseconds(change.time - profile.begun), "args": {"bytes": used[change.device]}}  # fmt: skip


def _named(kind: str, process: int, track: int, name: str) -> dict[str, Any]:
    """Return the event that gives a process or a track its name."""
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": {"name": name}}


def _complete(profile: Profile, name: str, category: str, process: int, track: int, start: float, seconds: float,
              arguments: dict[str, Any] | None = None) -> dict[str, Any]:  # fmt: skip
    """Return the event of a piece of work with a duration.

    `start` is on the clock of time.perf_counter, in seconds as `seconds` is; `arguments` is what a click on it shows.
    `track` is one of the tracks of `process`; `category` is a word by which the viewer filters.
    """
    return {"ph": "X", "name": name, "cat": category, "pid": process, "tid": track,
            "ts": _microseconds(start - profile.begun), "dur": _microseconds(seconds),
            "args": arguments or {}}  # fmt: skip


def _microseconds(seconds: float) -> float:
    """Return seconds as microseconds, to the nanosecond."""
    return round(seconds * 1e6, 3)
