"""Draw the charts of docs/, for light pages and for dark ones: docs/pictures/schedules-*.svg and profile-*.svg.

The rates are those that the schedules give as they are stepped; the picture keeps them as JSON in its description. The
trace is one that `profile` wrote of a small network that trains: its tracks, as Perfetto shows them. Run it with `make
pictures`.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinygraft import Tensor, nn

DOCS = Path(__file__).parent
PICTURES = Path(__file__).parent / "pictures"
STEPS = 100
INK = {"light": "#1c2126", "dark": "#e4e7ea"}
SPANS = {  # category of a span in the trace: what it is called, and its colour
    "schedule": ("scheduling", "#8a63d2"), "lower": ("writing kernels", "#3b82d6"), "compile": ("compiling", "#2a9d8f"),
    "kernel": ("kernels on the CPU", "#d97706"),
}  # fmt: skip
R = nn.optim.lr_scheduler
CHOSEN: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: R.StepLR(o, 25, 0.5),
    "MultiStepLR": lambda o: R.MultiStepLR(o, [40, 80], 0.3),
    "ExponentialLR": lambda o: R.ExponentialLR(o, 0.97),
    "CosineAnnealingLR": lambda o: R.CosineAnnealingLR(o, STEPS),
    "CosineAnnealingWarmRestarts": lambda o: R.CosineAnnealingWarmRestarts(o, 33),
    "OneCycleLR": lambda o: R.OneCycleLR(o, 1.0, total_steps=STEPS + 1),
    "LinearLR, then cosine": lambda o: R.SequentialLR(
        o, [R.LinearLR(o, 0.1, total_iters=10), R.CosineAnnealingLR(o, STEPS - 10)], milestones=[10]
    ),
}


def rates() -> dict[str, list[float]]:
    """The rate before each of 100 steps, of each schedule, from a rate of 1."""
    found = {}
    for name, make in CHOSEN.items():
        optimizer = nn.optim.SGD([Tensor([0.0], requires_grad=True, device="PYTHON")], lr=1.0, momentum=0.9)
        schedule = make(optimizer)
        found[name] = []
        for _ in range(STEPS):
            found[name].append(round(optimizer.lr.item(), 4))
            schedule.step()
    return found


def trace() -> list[dict[str, Any]]:
    """The events of a profile of the program that VIZ is photographed with."""
    program = runpy.run_path(str(DOCS / "write_screenshots.py"))["PROGRAM"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(program)
        command = [sys.executable, "-m", "tinygraft", "profile", "--out", "trace.json", "train.py"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        found = json.loads((Path(folder) / "trace.json").read_text())
    return list(found["traceEvents"] if isinstance(found, dict) else found)


def style(ink: str) -> dict[str, str]:
    """How charts are drawn on a page whose text has this colour."""
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    fixed = {"svg.hashsalt": "charts", "svg.fonttype": "none", "font.family": "sans-serif"}
    return fixed | dict.fromkeys(inked, ink)


def draw_trace(found: list[dict[str, Any]], theme: str) -> None:
    """Write the trace as a picture: what Python did, what the device did, memory in use."""
    from matplotlib import pyplot

    spans = [event for event in found if event["ph"] == "X"]
    memory = [(event["ts"] / 1e3, event["args"]["bytes"] / 1e6) for event in found if event["ph"] == "C"]
    begun = min(span["ts"] for span in spans) / 1e3
    with pyplot.rc_context(style(INK[theme])):
        figure, (upper, lower) = pyplot.subplots(
            2, 1, figsize=(9.6, 3.2), sharex=True, layout="constrained", height_ratios=[3, 1]
        )
        for row, (kind, (words, colour)) in enumerate(SPANS.items()):
            bars = [(span["ts"] / 1e3 - begun, span["dur"] / 1e3) for span in spans if span["cat"] == kind]
            upper.broken_barh(bars, (row - 0.4, 0.8), color=colour)
            upper.text(-0.01, row, words, transform=upper.get_yaxis_transform(), ha="right", va="center", fontsize=8)
        upper.set(yticks=[], ylim=(len(SPANS) - 0.5, -0.5))
        lower.step([at - begun for at, _ in memory], [size for _, size in memory], where="post", color="#3b82d6")
        lower.set_ylabel("memory, MB", fontsize=8)
        lower.set_xlabel("milliseconds", fontsize=8)
        for axes in (upper, lower):
            axes.tick_params(labelsize=7)
            axes.patch.set_visible(False)
        figure.savefig(PICTURES / f"profile-{theme}.svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)


def draw(found: dict[str, list[float]], theme: str) -> None:
    """Write one picture: a small chart for each schedule."""
    from matplotlib import pyplot

    with pyplot.rc_context(style(INK[theme])):
        figure, places = pyplot.subplots(2, 4, figsize=(9.6, 3.8), sharex=True, sharey=True, layout="constrained")
        for axes, (name, values) in zip(places.flat, found.items(), strict=False):
            axes.plot(values, color="#3b82d6", linewidth=2)
            axes.set_title(name, fontsize=8)
            axes.tick_params(labelsize=7)
            axes.patch.set_visible(False)
        for axes in places.flat[len(found) :]:
            axes.remove()
        figure.savefig(PICTURES / f"schedules-{theme}.svg", transparent=True,
                       metadata={"Date": None, "Description": json.dumps(found)})  # fmt: skip
        pyplot.close(figure)


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("Agg")
    recorded = trace()
    for theme in INK:
        draw(rates(), theme)
        draw_trace(recorded, theme)
