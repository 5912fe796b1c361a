"""Stages as JSON for the page, compressed: most are never looked at.

In: a Stage with its text and drawing. Out: compressed bytes; a list of these as the text of a JSON list.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from tinygraft.engine.drawing import Drawing
from tinygraft.engine.record import Stage


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
