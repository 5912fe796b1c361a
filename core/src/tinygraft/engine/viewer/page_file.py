"""The page as one file: the frame with its styles and scripts inside, and the data of a whole record, or none.

In: the files of page/, a LiveRecord. Out: HTML that loads nothing. A policy in it (Content-Security-Policy) permits
these very scripts and styles, by their digests, and requests to the server of the page alone, from a saved file none.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from tinygraft.engine.viewer.live_record import SPANS, LiveRecord
from tinygraft.engine.viewer.packing import stages_text, text
from tinygraft.engine.viewer.page_news import news
from tinygraft.files import write_atomic

FOLDER = Path(__file__).with_name("page")
# in the order in which they build on each other
SCRIPTS = ("dagre.min.js", "elements.js", "record.js", "rows.js", "timeline.js", "charts.js", "graph.js", "details.js",
           "main.js")  # fmt: skip


@cache
def frame() -> tuple[str, str, str]:
    """Return the frame without data in three parts: up to its title, up to its data, and the rest; with its policy.

    The files are read once.
    """
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    scripts = [re.sub(r"^//# sourceMappingURL=.*$", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.M)
               for name in SCRIPTS]  # fmt: skip  # the map is not shipped
    policy = "; ".join([
        "default-src 'none'",
        "script-src " + " ".join(_digest(script) for script in scripts),
        f"style-src {_digest(style)}",
        "img-src data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    ])  # fmt: skip
    whole = (FOLDER / "frame.html").read_text(encoding="utf-8")
    whole = whole.replace("@POLICY@", policy).replace("@STYLE@", f"<style>{style}</style>")
    before, _, rest = whole.partition("@TITLE@")
    middle, _, after = rest.partition("@DATA@")
    return before, middle, after.replace("@SCRIPTS@", "\n".join(f"<script>{script}</script>" for script in scripts))


def _digest(content: str) -> str:
    """Return the source expression by which a Content-Security-Policy allows a script or style with this content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def live_page(title: str) -> str:
    """Return the page that asks its server for everything."""
    return _page(title, {"live": True, "title": title, "spanNames": SPANS}, "")


def saved_page(record: LiveRecord, title: str) -> str:
    """Return the page with everything in it. The stages come after the page itself, which is drawn before them."""
    content = {"live": False, "title": title, "spanNames": SPANS, **news(record, {}, to_end=True)}
    with record.lock:
        kernels, schedules = list(record.kernels), list(record.schedules)
    details = [_block(f"kernel-{i}", one.stages) for i, one in enumerate(kernels)]
    details += [_block(f"schedule-{i}", one.stages) for i, one in enumerate(schedules)]
    return _page(title, content, "\n".join(details))


def write_page(record: LiveRecord, path: Path, title: str) -> Path:
    """Write the saved page to `path`; return that. Raises OSError where it cannot be written."""
    if not write_atomic(path, saved_page(record, title).encode()):
        raise OSError(f"the page {path} could not be written")
    return path


def _page(title: str, content: dict[str, Any], details: str) -> str:
    """Return the page as HTML, with `content` as JSON in it, and `details`, which is HTML, in its place."""
    before, middle, after = frame()
    # JSON in an element is data to the end of that element: "<" as an escape cannot begin the end
    data = text(content).replace("<", "\\u003c")
    block = f'<script type="application/json" id="data">{data}</script>'
    return "".join([before, html.escape(title), middle, block, after.replace("@DETAILS@", details)])


def _block(name: str, stages: list[bytes]) -> str:
    """Return stages as an element of the page, compressed: most are never looked at."""
    packed = base64.b64encode(zlib.compress(stages_text(stages).encode(), 6)).decode()
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>'
