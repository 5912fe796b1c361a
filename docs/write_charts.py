"""Draw docs/pictures/schedules-*.svg: the rate of each schedule over 100 steps, for light pages and for dark ones.

The rates are those that the schedules give as they are stepped; each picture keeps them as JSON in its description.
Run it with `make pictures`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinygraft import Tensor, nn

PICTURES = Path(__file__).parent / "pictures"
STEPS = 100
INK = {"light": "#1c2126", "dark": "#e4e7ea"}
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


def draw(found: dict[str, list[float]], theme: str) -> None:
    """Write one picture: a small chart for each schedule."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ink = INK[theme]
    with pyplot.rc_context({"svg.hashsalt": "schedules", "svg.fonttype": "none", "text.color": ink, "axes.edgecolor": ink,
                            "xtick.color": ink, "ytick.color": ink, "font.family": "sans-serif"}):  # fmt: skip
        figure, places = pyplot.subplots(2, 4, figsize=(9.6, 3.8), sharex=True, sharey=True, layout="constrained")
        for axes, (name, values) in zip(places.flat, found.items(), strict=False):
            axes.plot(values, color="#3b82d6", linewidth=2)
            axes.set_title(name, fontsize=8, color=ink)
            axes.tick_params(labelsize=7)
            axes.patch.set_visible(False)
        for axes in places.flat[len(found) :]:
            axes.remove()
        figure.savefig(PICTURES / f"schedules-{theme}.svg", transparent=True,
                       metadata={"Date": None, "Description": json.dumps(found)})  # fmt: skip
        pyplot.close(figure)


if __name__ == "__main__":
    for theme in INK:
        draw(rates(), theme)
