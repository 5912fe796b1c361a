"""The ratios as a picture: one bar for each comparison, and a mark where it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Line

COLOURS = {"pass": "tab:green", "fail": "tab:red", "wrong": "black", "": "tab:gray"}


def draw(lines: Sequence[Line], path: Path) -> None:
    """Write the picture, in the format that the path's ending names. Raises ImportError without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("the picture needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [line for line in lines if line.ratio is not None][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.2 * len(shown)), layout="constrained")
    axes.barh(range(len(shown)), [line.ratio or 0 for line in shown], color=[COLOURS[line.verdict] for line in shown])
    for place, line in enumerate(shown):
        if line.bar is not None:
            axes.plot([line.bar, line.bar], [place - 0.45, place + 0.45], color="black", linewidth=1.5)
    axes.axvline(1, color="tab:gray", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [f"{line.item}, {line.against}" for line in shown], fontsize=7)
    axes.set_xlabel("their time over ours: to the right of the black mark is where it has to be")
    axes.margins(y=0.01)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
