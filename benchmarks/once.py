"""One measurement in a process of its own, which ends with it: a first call, or the most memory that was used.

    python -m benchmarks.once LIBRARY KIND SIZES PATH HOW

HOW is "first": the seconds of the first run; "made": those of setting up and the first run; "python": the time that
this takes in Python, without compiling and running (tinygraft); "memory": megabytes, after RUNS runs. Importing the
library and drawing numbers for its inputs is never counted. What was computed is saved at PATH. The answer is one line
of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Case
from benchmarks.libraries import use

RUNS = 5


def measured(make: Callable[[], Case], how: str) -> tuple[Case, float]:
    """The case after its run or runs, and what was measured: seconds or megabytes."""
    if how == "first":
        case = make()
        return case, case.run()
    if how == "made":
        start = time.perf_counter()
        case = make()
        case.run()
        return case, time.perf_counter() - start
    if how == "python":
        return in_python(make)
    assert how == "memory", how
    case = make()
    for _ in range(RUNS):
        case.run()
    return case, peak_megabytes()


def peak_megabytes() -> float:
    """The most memory that this process had. getrusage alone would count what its parent had before it started this."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def in_python(make: Callable[[], Case]) -> tuple[Case, float]:
    """Make and run a case. Returns it, and the seconds less those of compilers and kernels.

    While stages are observed, compilations and launches run in this thread, one after another. One counts for at
    most the time since the one before, so that what is left is never negative: its seconds are those of another clock.
    """
    from tinygraft import events

    native, last = 0.0, time.perf_counter()

    def count(event: object) -> None:
        nonlocal native, last
        if isinstance(event, (events.CompileEvent, events.LaunchEvent)):  # a stage is made in Python
            now = time.perf_counter()
            native += min(event.seconds, now - last)
            last = now

    stop = events.observe(count, events.StageEvent, events.CompileEvent, events.LaunchEvent)
    start = last = time.perf_counter()
    case = make()
    case.run()
    seconds = time.perf_counter() - start - native
    stop()
    return case, seconds


def main() -> None:
    """Measure and answer."""
    library, kind, sizes, path, how = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer: dict[str, Any]
    module = use(library)
    if kind in module.ITEMS:
        module.facts()  # opens the device
        case, amount = measured(lambda: module.ITEMS[kind](*map(int, filter(None, sizes.split("x")))), how)
        np.save(path, case.values())
        answer = {"amount": amount}
    else:
        answer = {"missing": True}
    out.write(json.dumps(answer) + "\n")
    out.close()


if __name__ == "__main__":
    main()
