"""Draw the graphs of docs/internals/walk.md, from a program that is run: docs/pictures/walk-*.svg.

The program is recorded as `explain` records one; the boxes are those of VIZ, and so is the library that lays them out:
dagre, which tinygraft ships for VIZ, in a Chromium that playwright drives. No other layout library is needed, and a
reader meets the same drawing on both pages. A drawing has its colours twice, for light and dark pages, and keeps its
boxes as JSON, so that a test can tell whether the program still gives them. Run it with `make pictures`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from tinygraft import Tensor, events
from tinygraft.engine.drawing import Box, Drawing, draw_graph
from tinygraft.engine.record import OBSERVED, Recorder, Stage
from tinygraft.engine.viewer import page_file

PICTURES = Path(__file__).parent / "pictures"
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHAR, LINE = 6.8, 15  # pixels of the drawings' font; given: those of the page of VIZ, graph.js
COLOURS = {  # kind of a box: its colour on a light page and on a dark one, as in page.css
    "number": ("#e8e8ec", "#3b3f46"), "memory": ("#cfe4d4", "#24452f"), "movement": ("#e6dcf2", "#3d3152"),
    "math": ("#cfe0f5", "#203d60"), "reduce": ("#f7d9c4", "#5a3720"), "range": ("#f3efc3", "#4a461d"),
    "call": ("#d5e6ee", "#23414f"), "control": ("#e3e3e3", "#3a3a3a"),
}  # fmt: skip
ACROSS = {"walk-pipeline"}  # drawn from left to right
PLACE = """([boxes, rankdir]) => {
  const graph = new dagre.graphlib.Graph({multigraph: true});
  graph.setGraph({rankdir, nodesep: 18, ranksep: 28, marginx: 8, marginy: 8});
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box, number) => graph.setNode(String(number), {width: box.width, height: box.height}));
  boxes.forEach((box, number) => box.sources.forEach((source, slot) =>
    graph.setEdge(String(source), String(number), {}, String(slot))));
  dagre.layout(graph);
  return {width: graph.graph().width, height: graph.graph().height,
          boxes: boxes.map((box, number) => { const {x, y} = graph.node(String(number)); return [x, y]; }),
          lines: graph.edges().map(edge => graph.edge(edge).points.map(({x, y}) => [x, y]))};
}"""


def recorded(*wanted: Tensor) -> Recorder:
    """What is done to compute these tensors."""
    recorder = Recorder(draw=True)
    stop = events.observe(recorder, *OBSERVED)
    wanted[0].realize(*wanted[1:])
    stop()
    return recorder


def chain(stages: Iterable[tuple[str, str]]) -> Drawing:
    """Stages as a row of boxes, each made of the one before."""
    boxes = [Box(name, [about], "call", [number - 1] if number else []) for number, (name, about) in enumerate(stages)]
    return Drawing(boxes)


def of(stages: Iterable[Stage], name: str) -> Drawing:
    """The drawing of the stage of this name."""
    found = next(stage.drawing for stage in stages if stage.name == name)
    assert found is not None
    return found


def drawings() -> dict[str, Drawing]:
    """Each drawing by name: on PYTHON, whose kernels depend on no machine, in a new process: buffers count from 1."""
    x = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device="PYTHON").realize()
    w = Tensor([[0.5, -1.0], [2.0, 0.25]], device="PYTHON", requires_grad=True).realize()
    b = Tensor([0.1, 0.2], device="PYTHON").realize()
    y = (x @ w + b).relu()
    graph = draw_graph(y.uop)
    (gradient,) = y.sum().gradient(w)
    gradient_graph = draw_graph(gradient.uop)
    schedule = recorded(y).schedules[0]
    kernel = schedule.kernels[0]
    first, second = (Tensor.ones(4, 4, device="PYTHON", requires_grad=True).contiguous().realize() for _ in range(2))
    loss = ((x @ w @ Tensor.ones(2, 4, device="PYTHON") @ first).relu() @ second).square().mean()
    step = recorded(loss, *loss.gradient(first, second)).schedules[0]
    counted = f"{len(graph.boxes)} boxes", f"{len(schedule.kernels)} kernel"
    stages = [("Tensor", "y"), ("UOp graph", counted[0]), ("KernelCall", counted[1]), ("Kernel", kernel.name),
              ("Linear", "a list"), ("Source", "text"), ("Binary", "bytes"), ("launch", "values")]  # fmt: skip
    return {
        "walk-pipeline": chain(stages),
        "walk-graph": graph,
        "walk-gradient": gradient_graph,
        "walk-kernel": of(kernel.stages, "kernel"),
        "walk-calls": of(step.stages, "schedule"),
    }


def size(box: Box) -> tuple[float, float]:
    """Width and height of a box that fits its text."""
    longest = max(len(box.title) + 1, *(len(line) for line in box.lines), 4)
    return longest * CHAR + 16, (1 + len(box.lines)) * LINE + 9


def placed(found: dict[str, Drawing]) -> list[dict[str, Any]]:
    """Where dagre puts the boxes and lines of each drawing."""
    from playwright.sync_api import sync_playwright

    path = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"there is no Chromium here: none of {', '.join(CHROMIUM)} is on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(path=str(Path(page_file.__file__).parent / "page" / "dagre.min.js"))
        rows = [[{"width": size(box)[0], "height": size(box)[1], "sources": box.sources} for box in drawing.boxes]
                for drawing in found.values()]  # fmt: skip
        ways = ["LR" if name in ACROSS else "TB" for name in found]
        results = [page.evaluate(PLACE, [boxes, way]) for boxes, way in zip(rows, ways, strict=True)]
        browser.close()
    return results


def style() -> str:
    """The colours of a drawing, for light pages and for dark ones."""
    light = " ".join(f".{kind} {{ fill: {colours[0]} }}" for kind, colours in COLOURS.items())
    dark = " ".join(f".{kind} {{ fill: {colours[1]} }}" for kind, colours in COLOURS.items())
    return (
        "text { font: 11px ui-monospace, monospace; text-anchor: middle; fill: #15191d } .title { font-weight: bold } "
        f"path {{ fill: none; stroke: #5c6670 }} {light} "
        f"@media (prefers-color-scheme: dark) {{ text {{ fill: #e4e7ea }} path {{ stroke: #9aa4ad }} {dark} }}"
    )


def svg(name: str, drawing: Drawing, place: dict[str, Any]) -> str:
    """A drawing as a picture, which keeps its boxes as JSON."""
    width, height = round(place["width"]), round(place["height"])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{name}">',
        f"<metadata>{escape(json.dumps(asdict(drawing)), quote=False)}</metadata>",
        f"<style>{style()}</style>",
    ]
    for points in place["lines"]:
        (x, y), start = points[-1], "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
        tip = (
            f"M{x - 6:.1f},{y - 3.5:.1f}L{x:.1f},{y:.1f}L{x - 6:.1f},{y + 3.5:.1f}"
            if name in ACROSS
            else (f"M{x - 3.5:.1f},{y - 6:.1f}L{x:.1f},{y:.1f}L{x + 3.5:.1f},{y - 6:.1f}")
        )
        parts.append(f'<path d="{start}{tip}"/>')
    for box, (x, y) in zip(drawing.boxes, place["boxes"], strict=True):
        wide, high = size(box)
        left, top = x - wide / 2, y - high / 2
        parts.append(
            f'<rect class="{box.kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="6"/>'
        )
        for number, line in enumerate([box.title, *box.lines]):
            kind = "" if number else ' class="title"'
            parts.append(f'<text{kind} x="{x:.1f}" y="{top + 16 + LINE * number:.1f}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Write all drawings."""
    found = drawings()
    for (name, drawing), place in zip(found.items(), placed(found), strict=True):
        (PICTURES / f"{name}.svg").write_text(svg(name, drawing, place), encoding="utf-8")


if __name__ == "__main__":
    main()
