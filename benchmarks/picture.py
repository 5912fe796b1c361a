"""The ratios as a picture: a row for each item, a point for each comparison, and a mark where it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Line

COLOURS = {
    "limit": "black", "torch": "tab:red", "torch+jemalloc": "tab:orange", "jax": "tab:blue", "tinygrad": "tab:green",
    "onnxruntime": "tab:purple", "numpy": "tab:gray",
}  # fmt: skip
MARKERS = {"pass": "o", "": "o", "fail": "X", "wrong": "$?$"}


def draw(lines: Sequence[Line], path: Path) -> None:
    """Write the picture, in the format that the path's ending names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [line for line in lines if line.ratio is not None]
    items = list(dict.fromkeys(line.item for line in shown))[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1.5 + 0.22 * len(items)), layout="constrained")
    for line in shown:
        row, colour = items.index(line.item), COLOURS.get(line.against, "tab:brown")
        axes.scatter(line.ratio or 0.0, row, s=30, color=colour, marker=MARKERS[line.verdict], zorder=3)
        if line.bar is not None:
            axes.plot([line.bar] * 2, [row - 0.4, row + 0.4], color=colour, linewidth=2)
    for name in dict.fromkeys(line.against for line in shown):
        axes.scatter([], [], s=30, color=COLOURS.get(name, "tab:brown"), label=name)
    axes.axvline(1, color="tab:gray", linewidth=0.8)
    axes.set(xscale="log", xlabel="their time over ours; a mark is the bar, a cross is short of it", ylim=(-0.7, None))
    axes.set_yticks(range(len(items)), items, fontsize=7)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize=7)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
