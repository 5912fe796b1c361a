"""VIZ=1: at exit, one self-contained HTML page of everything that was computed, and its path on the screen.

In: the stages that a Recorder has recorded. Out: a file that needs no network and no other file. page.html is its
frame; the coordinates of boxes are computed here, and drawn by the page.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tinygraft import events
from tinygraft.engine.drawing import Drawing
from tinygraft.engine.layout import lay_out
from tinygraft.engine.record import OBSERVED, Recorder, ScheduleRecord, Stage, bind_names

FRAME = Path(__file__).with_name("page.html")

_undo: Callable[[], None] | None = None


def install() -> None:
    """Record every stage from now on and write the page when the process ends. A second call does nothing."""
    global _undo
    if _undo is not None:
        return
    recorder = Recorder(draw=True)
    _undo = events.observe(recorder, *OBSERVED)
    owner = os.getpid()

    def at_exit() -> None:
        """Write the page and print its path; do nothing in a forked child."""
        if os.getpid() == owner:  # a forked child inherits this handler and has recorded nothing
            recorder.finish()
            print(f"VIZ: {write_page(recorder.schedules, omitted=recorder.omitted)}", flush=True)

    atexit.register(at_exit)


def write_page(schedules: Sequence[ScheduleRecord], path: str | Path | None = None, omitted: int = 0) -> Path:
    """Write the page to `path`, or to a new file in the folder of temporary files. Returns the path.

    `omitted` is how many schedules were not recorded.
    """
    text = page(schedules, omitted)
    if path is None:
        handle, name = tempfile.mkstemp(prefix="tinygraft-", suffix=".html")
        os.close(handle)
        path = name
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page(schedules: Sequence[ScheduleRecord], omitted: int = 0) -> str:
    """Return the whole page as text; `omitted` is how many schedules were not recorded."""
    kernels = sum(len(schedule.kernels) for schedule in schedules)
    data = {
        "about": f"{' '.join(sys.argv)[:120]}: {len(schedules)} schedules, {kernels} kernels made",
        "omitted": omitted,
        "schedules": [_schedule(schedule) for schedule in schedules],
    }
    # "</" would end the script element that has the data
    packed = json.dumps(data, separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return FRAME.read_text(encoding="utf-8").replace("@DATA@", packed)


def _schedule(schedule: ScheduleRecord) -> dict[str, Any]:
    """Return a recorded schedule as JSON for the page, after giving its boxes the names of launched kernels."""
    bind_names(schedule)
    return {
        "number": schedule.number,
        "where": schedule.where,
        "launched": schedule.launched,
        "stages": [_stage(stage) for stage in schedule.stages],
        "kernels": [{"name": k.name, "key": k.key, "stages": [_stage(stage) for stage in k.stages]}
                    for k in schedule.kernels],
        "launches": [
            {"name": one.name, "device": one.device, "start": one.start, "seconds": one.seconds,
             "bytes": one.bytes, "flops": one.flops,
             "key": one.key}
            for one in schedule.launches
        ],
    }  # fmt: skip


def _stage(stage: Stage) -> dict[str, Any]:
    """Return a stage as JSON for the page, with its drawing under "graph" where it has one."""
    packed: dict[str, Any] = {
        "name": stage.name, "about": stage.about, "text": stage.text, "seconds": stage.seconds, "rules": stage.rules,
    }  # fmt: skip
    if stage.drawing is not None:
        packed["graph"] = _graph(stage.drawing)
    return packed


def _graph(drawing: Drawing) -> dict[str, Any]:
    """Return a drawing as JSON for the page, placed by layout.py.

    Each box is [left, top, width, height, kind, title, lines].
    """
    placed = lay_out(drawing)
    boxes = [[*corner, box.kind, box.title, box.lines]
             for corner, box in zip(placed.boxes, drawing.boxes, strict=True)]  # fmt: skip
    return {"boxes": boxes, "lines": placed.lines, "width": placed.width, "height": placed.height,
            "omitted": drawing.omitted}  # fmt: skip
