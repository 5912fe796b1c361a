"""Stages, and what is new in a record, as JSON for the page.

In: a Stage, or a LiveRecord with how much of it a page has. Out: compressed bytes, or a dict that becomes JSON.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from tinygraft.engine.drawing import Drawing
from tinygraft.engine.record import Stage

if TYPE_CHECKING:
    from tinygraft.engine.viewer.live_record import LiveRecord

DIGITS = 9  # assumed: of times in seconds: a nanosecond


def packed_stage(stage: Stage) -> bytes:
    """Return a stage as compressed JSON."""
    content: dict[str, Any] = {"name": stage.name, "about": stage.about, "text": stage.text,
                               "seconds": stage.seconds, "rules": stage.rules}  # fmt: skip
    if stage.drawing is not None:
        content["graph"] = graph(stage.drawing)
    return zlib.compress(text(content).encode(), 3)


def graph(drawing: Drawing) -> dict[str, Any]:
    """Return a drawing as JSON: each box as [kind, title, lines, numbers of its sources]."""
    boxes = [[box.kind, box.title, box.lines, box.sources] for box in drawing.boxes]
    return {"boxes": boxes, "omitted": drawing.omitted}


def stages_text(stages: list[bytes]) -> str:
    """Return compressed stages as a JSON list."""
    return "[" + ",".join(zlib.decompress(stage).decode() for stage in stages) + "]"


def text(content: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def news(record: LiveRecord, have: dict[str, int]) -> dict[str, Any]:
    """Return what is new in a record. `have` says how many of each list the page has, by its name.

    A kernel that is not finished yet is not in it, nor is any after it.
    """
    with record.lock:
        kernels = []
        for one in record.kernels[have.get("kernels", 0) :]:
            if not one.finished:
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
            "omitted": record.omitted,
            "cut": record.cut,
        }  # fmt: skip
