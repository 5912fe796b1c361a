"""VIZ=1: at exit, one self-contained HTML page of everything that was computed, and its path on the screen.

In: the stages that a Recorder has kept. Out: a file that needs no network and no other file. page.html is its
frame; places of boxes are computed here, drawing them is done by the page.
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
from tinygraft.engine.layout import place
from tinygraft.engine.record import LOOKED_AT, Recorder, ScheduleRecord, Stage, bind_names

FRAME = Path(__file__).with_name("page.html")

_undo: Callable[[], None] | None = None


def install() -> None:
    """Record every stage from now on and write the page when the process ends. A second call does nothing."""
    global _undo
    if _undo is not None:
        return
    recorder = Recorder(draw=True)
    _undo = events.observe(recorder, *LOOKED_AT)
    owner = os.getpid()

    def at_exit() -> None:
        if os.getpid() == owner:  # a forked child has a copy of this and nothing of its own to show
            recorder.finish()
            print(f"VIZ: {write_page(recorder.schedules, left_out=recorder.left_out)}", flush=True)

    atexit.register(at_exit)


def write_page(schedules: Sequence[ScheduleRecord], path: str | Path | None = None, left_out: int = 0) -> Path:
    """Write the page to path, or to a new file in the folder of temporary files; the path it has."""
    text = page(schedules, left_out)
    if path is None:
        handle, name = tempfile.mkstemp(prefix="tinygraft-", suffix=".html")
        os.close(handle)
        path = name
    path = Path(path)
    path.write_text(text, encoding="utf-8")
    return path


def page(schedules: Sequence[ScheduleRecord], left_out: int = 0) -> str:
    """The whole page as text."""
    kernels = sum(len(schedule.kernels) for schedule in schedules)
    data = {
        "about": f"{' '.join(sys.argv)[:120]}: {len(schedules)} schedules, {kernels} kernels made",
        "left_out": left_out,
        "schedules": [_schedule(schedule) for schedule in schedules],
    }
    # "</" would end the script element that holds the data
    packed = json.dumps(data, separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return FRAME.read_text(encoding="utf-8").replace("@DATA@", packed)


def _schedule(schedule: ScheduleRecord) -> dict[str, Any]:
    """A recorded schedule as JSON for the page, after giving its boxes the names of launched kernels."""
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
    """A stage as JSON for the page, with its drawing under "graph" where it has one."""
    packed: dict[str, Any] = {
        "name": stage.name, "about": stage.about, "text": stage.text, "seconds": stage.seconds, "rules": stage.rules,
    }  # fmt: skip
    if stage.drawing is not None:
        packed["graph"] = _graph(stage.drawing)
    return packed


def _graph(drawing: Drawing) -> dict[str, Any]:
    """A drawing as JSON for the page: each box is [*corner, kind, title, lines], placed by layout.py."""
    placed = place(drawing)
    boxes = [[*corner, box.kind, box.title, box.lines]
             for corner, box in zip(placed.boxes, drawing.boxes, strict=True)]  # fmt: skip
    return {"boxes": boxes, "lines": placed.lines, "width": placed.width, "height": placed.height,
            "left_out": drawing.left_out}  # fmt: skip
