"""A process that measures one library: it reads commands, one JSON object a line, and answers each with one.

    python -m benchmarks.worker torch

    {"do": "facts"}                                            what the library runs with
    {"do": "set up", "kind": ..., "sizes": ..., "values": PATH}  a case, warmed up; its results go to the file PATH
    {"do": "time", "calls": N, "seconds": S}                     the seconds of each of up to N runs, at least one
    {"do": "kernels"}                                            the time of each kernel (tinygraft)
    {"do": "drop"}                                               the case is given up

An answer to a command that raised has "error". What a library prints goes to stderr.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.case import Case
from benchmarks.libraries import use

WARM = 3
LONG = 0.1  # seconds; before a turn of shorter runs there is one that only wakes threads and fills caches


class Worker:
    """The library and the case that is set up."""

    def __init__(self, library: str) -> None:
        self.module = use(library)
        self.case: Case | None = None
        self.last = 0.0  # how long a run took

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a command says."""
        do = command["do"]
        if do == "facts":
            return dict(self.module.facts())
        if do == "set up":
            return self.set_up(command["kind"], command["sizes"], command["values"])
        if do == "drop":
            self.case = None
            gc.collect()
            return {}
        assert self.case is not None, "no case is set up"
        if do == "kernels":
            return {"kernels": kernels.rows(self.case)}
        assert do == "time", do
        return {"seconds": self.time(self.case, command["calls"], command["seconds"])}

    def set_up(self, kind: str, sizes: list[int], path: str) -> dict[str, Any]:
        """Make a case, run it WARM times, and save what it computed. An item that the library lacks is "missing"."""
        if kind not in self.module.ITEMS:
            return {"missing": True}
        self.case = case = self.module.ITEMS[kind](*sizes)
        warm = [case.run() for _ in range(WARM)]
        self.last = warm[-1]
        np.save(path, case.values())
        counts = self.module.counts(case) if hasattr(self.module, "counts") else {}
        return {"warm": warm, **counts}

    def time(self, case: Case, calls: int, seconds: float) -> list[float]:
        """The seconds of each of up to calls runs, until they sum up to seconds."""
        times: list[float] = []
        gc.collect()
        if self.last < LONG:
            case.run()
        start = time.perf_counter()
        while not times or (len(times) < calls and time.perf_counter() - start < seconds):
            times.append(case.run())
        self.last = times[-1]
        return times


def main() -> None:
    """Answer until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ["BENCHMARK_THREADS"])])
    try:
        worker = Worker(sys.argv[1])
    except ImportError as error:
        out.write(json.dumps({"absent": str(error)}) + "\n")
        return
    out.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
