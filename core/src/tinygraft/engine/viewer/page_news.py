"""What is new in a record since a page last asked, as JSON: lists that only grow, from what the page has on.

In: a LiveRecord, and how much of each of its lists a page has. Out: a dict that becomes JSON.
"""

from __future__ import annotations

import time
from typing import Any

from tinygraft.engine.profiling.line_times import IMPORTS, KINDS, PROGRAM
from tinygraft.engine.profiling.worth_a_look import worth_a_look
from tinygraft.engine.viewer.live_record import LiveRecord

MOST_LINES = 200  # assumed: of the user, by the time that passed there; all of them are sent each time
DIGITS = 9  # given: by the clock, whose times are whole nanoseconds


def news(record: LiveRecord, have: dict[str, int], to_end: bool = False) -> dict[str, Any]:
    """Return what is new in a record. `have` says how many of each list the page has, by its name.

    A kernel that is not finished yet is not in it, nor is any after it, unless `to_end` is true: no more will come.
    """
    with record.lock:
        kernels = []
        for one in record.kernels[have.get("kernels", 0) :]:
            if not one.finished and not to_end:
                break
            kernels.append([one.name, one.device, one.origin, len(one.stages)])
        known = have.get("kernels", 0) + len(kernels)
        first = have.get("launches", 0)
        last = len(record.launches.start)
        columns = record.launches
        while last > first and columns.kernel[last - 1] >= known:
            last -= 1
        return {
            "kernels": kernels,
            "schedules": [[s.where, round(s.at, DIGITS), s.calls, len(s.stages)]
                          for s in record.schedules[have.get("schedules", 0) :]],
            "launches": {name: [round(x, DIGITS) if isinstance(x, float) else x
                                for x in getattr(columns, name)[first:last]]
                         for name in ("start", "seconds", "kernel", "origin", "track", "flops", "bytes")},
            "origins": record.origins[have.get("origins", 0) :],
            "tracks": record.tracks[have.get("tracks", 0) :],
            "spans": [[round(a, DIGITS), round(b, DIGITS), c] for a, b, c in record.spans[have.get("spans", 0) :]],
            "memory": [[round(at, DIGITS), device, n] for at, device, n in record.memory(have.get("memory", 0))],
            "lines": lines_of(record),
            "told": told_of(record),
            "omitted": record.omitted,
            "cut": record.cut,
        }  # fmt: skip


def lines_of(record: LiveRecord) -> list[list[Any]]:
    """Return the user's lines at which most time passed, whole each time, as they change.

    A row has the place, the function, seconds (the program's own, making graphs, preparing, compiling, kernels), how
    many requests for values there were and how many of them were compiled.
    """
    shown = [kind for kind in KINDS if kind != IMPORTS]
    rows = []
    for row in record.lines.rows()[:MOST_LINES]:
        spent = dict(row.seconds)
        spent[PROGRAM] = spent.get(PROGRAM, 0.0) + spent.pop(IMPORTS, 0.0)
        seconds = [round(spent.get(kind, 0.0), DIGITS) for kind in shown]
        rows.append([f"{row.file}:{row.line}", row.function, seconds, row.requests, row.compiled])
    return rows


def told_of(record: LiveRecord) -> list[str]:
    """Return what is worth a look up to now, as sentences."""
    rows = record.lines.rows()
    until = time.perf_counter() if record.lines.ended is None else record.lines.ended
    return worth_a_look(
        rows, max(until - record.lines.begun, 1e-9), record.layers.modules(), None, record.lines.uncaptured
    )
