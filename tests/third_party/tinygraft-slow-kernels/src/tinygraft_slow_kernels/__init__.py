"""Says which kernels are slow, while a program that uses tinygraft runs.

A line on stderr for each launch that takes SLOW_KERNELS_MS milliseconds or more, and at the end of the program the
kernels that took most of the time together.
"""

import atexit
import sys
from collections import defaultdict

from tinygraft.plugin import DoctorCheck, LaunchEvent, Setting, hookimpl

LIMIT = Setting("SLOW_KERNELS_MS", 1, "a launch that takes so many milliseconds or more is printed", 0)
MOST = 3  # kernels in the summary

_spent: defaultdict[tuple[str, str], list[float]] = defaultdict(list)


@hookimpl
def tinygraft_on_launch(event: LaunchEvent) -> None:
    """Print a slow launch, and keep the times of all."""
    if not _spent:
        atexit.register(summary)
    _spent[event.device, event.name].append(event.seconds)
    if event.seconds * 1e3 >= LIMIT.value:
        print(f"slow: {event.name} on {event.device}: {rates(event)}", file=sys.stderr)


def rates(event: LaunchEvent) -> str:
    """Time, operations and bytes of a launch."""
    gflops, gbytes = event.flops / event.seconds / 1e9, event.bytes / event.seconds / 1e9
    return f"{event.seconds * 1e3:.2f} ms, {gflops:.1f} GFLOPS, {gbytes:.1f} GB/s"


def summary() -> None:
    """Print where the time went."""
    slowest = sorted(_spent.items(), key=lambda item: -sum(item[1]))[:MOST]
    for (device, name), seconds in slowest:
        print(f"slowest: {name} on {device}: {sum(seconds) * 1e3:.2f} ms in {len(seconds)} launches", file=sys.stderr)


@hookimpl
def tinygraft_doctor_checks() -> list[DoctorCheck]:
    """Tell `tinygraft doctor` what is printed."""
    return [DoctorCheck(name="slow kernels", run=lambda: f"from {LIMIT.value} ms on (SLOW_KERNELS_MS)")]
