"""Times as a picture: for each item a named bar of ours and of each library that was measured, with its time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import OURS
from benchmarks.report import Line

COLOURS = {
    OURS: "black", "torch": "tab:red", "torch+jemalloc": "tab:orange", "torch+compile": "tab:brown",
    "jax": "tab:blue", "tinygrad": "tab:green",
    "onnxruntime": "tab:purple", "numpy": "tab:gray",
}  # fmt: skip
BAR = 0.22  # inches
GAP = 0.8  # between items, in bars

Bar = tuple[str, str, float, str]  # item, library, its time or memory, its text


def bars(lines: Sequence[Line]) -> list[Bar]:
    """Return the bars, item by item: ours first, then each peer with how many times ours it takes."""
    found: list[Bar] = []
    seen: set[str] = set()
    for line in lines:
        if line.ours is not None and line.item not in seen:
            limit = f", limit {line.theirs:g}" if line.against == "limit" else ""
            found.append((line.item, OURS, line.ours, f"{line.ours:.3g} {line.unit}{limit}{_doubt(line)}"))
            seen.add(line.item)
        if line.against not in ("", "limit") and line.theirs is not None:
            times = "" if line.ratio is None else f", {line.ratio:.2g} x ours"
            found.append((line.item, line.against, line.theirs, f"{line.theirs:.3g} {line.unit}{times}{_doubt(line)}"))
    return [bar for bar in found if bar[2] > 0]  # a logarithm has no other place


def description(lines: Sequence[Line]) -> str:
    """Return the texts of the bars, a line each, by which a picture can be compared with results."""
    return "\n".join(f"{item}: {library} {text}" for item, library, _, text in bars(lines))


def _doubt(line: Line) -> str:
    return " (wrong)" if line.verdict == "wrong" else ""


def draw(lines: Sequence[Line], path: Path, title: str = "") -> None:
    """Write the picture, in the format that the path's ending names. A PNG has the texts of its bars as Description."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows: list[tuple[float, Bar]] = []
    labels: dict[str, list[float]] = {}
    at = 0.0
    for bar in bars(lines):
        if bar[0] not in labels:
            at += GAP if labels else 0.0
            labels[bar[0]] = []
        rows.append((at, bar))
        labels[bar[0]].append(at)
        at += 1
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + BAR * at), layout="constrained")
    for place, (_, library, amount, text) in rows:
        axes.barh(place, amount, height=0.85, color=COLOURS.get(library, "tab:brown"))
        axes.text(amount, place, f"  {library} {text}", va="center", fontsize=7)
    axes.set_yticks([sum(places) / len(places) for places in labels.values()], list(labels), fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="milliseconds (memory: megabytes), least of all runs; shorter is better")
    if rows:
        low, high = min(bar[2] for _, bar in rows), max(bar[2] for _, bar in rows)
        axes.set_xlim(low / 2, high * (high / low) ** 0.3 * 3)  # room for the names
    axes.grid(axis="x", alpha=0.3)
    if title:
        axes.set_title(title, fontsize=8, loc="left")
    texts = {"Description": description(lines)} if path.suffix == ".png" else None
    figure.savefig(path, dpi=120, metadata=texts)
    pyplot.close(figure)
