"""Photograph the page of VIZ for docs/: docs/pictures/viz-*.png, profile-*.png, light and dark.

A small network is trained for a few steps as a user would, its page is saved, and Chromium, driven by playwright, opens
it and clicks. Times differ from run to run; what is seen does not. Run it with `make pictures`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent / "pictures"
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PROGRAM = """
from tinygraft import Tensor, nn


class Net:
    def __init__(self):
        self.first, self.hidden, self.last = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def __call__(self, x):
        return self.last(self.hidden(self.first(x).relu()).gelu())


Tensor.manual_seed(0)
net, x, labels = Net(), Tensor.rand(256, 64).realize(), Tensor.randint(256, high=10).realize()
optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)
with Tensor.train():
    for _ in range(6):
        optimizer.zero_grad()
        loss = net(x).cross_entropy(labels).backward()
        loss.realize(*optimizer.schedule_step())
"""


def saved(folder: Path) -> Path:
    """The page of the program, as VIZ=1 writes it at the end."""
    script = folder / "train.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "VIZ": "1", "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.split()[-1])


def slowest(page: Any) -> None:
    """What is seen first, but for the slowest kernel, which is chosen."""
    page.click("#list .row >> nth=0")
    page.wait_for_selector("#details .tabs button >> text=source")


def graph(page: Any) -> None:
    """The graph of a kernel that sums."""
    slowest(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#details svg rect")


def source(page: Any) -> None:
    """The source of the slowest kernel."""
    slowest(page)
    page.click("#details .tabs button >> text=source")


def schedules(page: Any) -> None:
    """The requests for values, and the passes of the last one."""
    page.keyboard.press("3")
    page.click("#list .row >> nth=-1")


def roofline(page: Any) -> None:
    """Every kernel by operations and bytes."""
    page.keyboard.press("4")


SHOTS: dict[str, Callable[[Any], None]] = {
    "viz-kernels": slowest, "viz-graph": graph, "viz-source": source,
    "viz-schedules": schedules, "viz-roofline": roofline,
}  # fmt: skip


def store(image: bytes, path: Path) -> None:
    """Write a picture of few colours in few bytes."""
    from PIL import Image

    with Image.open(BytesIO(image)) as found:
        found.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Take all pictures."""
    from playwright.sync_api import sync_playwright

    path = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"there is no Chromium here: none of {', '.join(CHROMIUM)} is on PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        address = saved(Path(folder)).as_uri()
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            for name, click in SHOTS.items():
                context = browser.new_context(viewport={"width": 1200, "height": 720}, color_scheme=theme)
                page = context.new_page()
                page.goto(address)
                page.wait_for_selector("#list .row")
                if page.evaluate("document.documentElement.dataset.theme") != theme and theme == "dark":
                    page.keyboard.press("d")
                click(page)
                page.wait_for_timeout(300)  # a graph is placed in the next frame
                store(page.screenshot(), PICTURES / f"{name}-{theme}.png")
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
