"""What every example leaves behind: a picture and its numbers, from which the gallery in docs/ is built.

    write_results(out, "write_digits", figure, {"recognised": 0.91}, seconds=41.2, seeds=[0, 1, 2])

writes OUT/write_digits.png and OUT/write_digits.json. The other files of this folder are run as they are
(python examples/NAME.py), which puts the folder on the module path: they say `from results import write_results`.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

import tinygraft


def write_results(
    out: Path, name: str, figure: Figure, numbers: Mapping[str, float], *, seconds: float, seeds: Sequence[int]
) -> None:
    """Draw the figure to out/name.png and write what was measured to out/name.json.

    numbers are results by name (an accuracy, a loss); seconds is the wall time of the whole script. The command
    line, the devices and the version are written beside them, so that a reader can do the same again.
    """
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / f"{name}.png", dpi=120, bbox_inches="tight")
    result = {
        "name": name,
        "command": " ".join(["python", f"examples/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "numbers": {key: float(value) for key, value in numbers.items()},
        "seconds": round(seconds, 1),
        "seeds": list(seeds),
        "device": tinygraft.Device.DEFAULT,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "version": tinygraft.__version__,
    }
    (out / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    numbers_line = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
    print(f"{name}: {numbers_line} ({seconds:.0f} s; {out / name}.png, .json)")
