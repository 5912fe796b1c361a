"""The machine that times are measured on: its processor, and how much of it others used meanwhile."""

from __future__ import annotations

import os
import platform
import time


class Others:
    """Counts, from when it is made on, how many processors were busy with other work, or taken by the host."""

    def __init__(self) -> None:
        self.start, self.before, self.ours = time.perf_counter(), _busy(), _ours()

    def processors(self) -> float | None:
        """Their mean number; None where the system does not tell. Our child processes have to have ended."""
        after = _busy()
        if self.before is None or after is None:
            return None
        return (after - self.before - _ours() + self.ours) / (time.perf_counter() - self.start)


def _busy() -> float | None:
    """Seconds that all processors together were busy, or taken by the host, since the machine started."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, *others = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return float(user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    """Seconds of processor time of this process and of those of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def processor() -> str:
    """How many processors, and their name."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{len(names)} x {names[0]}" if names else platform.processor()
