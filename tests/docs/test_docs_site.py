"""The site: built without a complaint, every link leads somewhere, and no page asks another machine for anything."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "site"
LOADS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
}  # what a page fetches by itself
FOR_ENGINES = {"canonical", "prev", "next", "alternate"}  # links that are not fetched
BLOCKS = ("```python", "```sh", "```diff", "```pycon", ":::", "![")

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a page links to, what it fetches, and the names in it that a link may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag's link, source and id."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found and found.get("rel") not in FOR_ENGINES:
            self.fetched.append(found[LOADS[tag]])


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """Every page of the site, built as `make site` does: the build fails for a page or an anchor that is not there."""
    pytest.importorskip("zensical", reason="zensical is not installed: it is in the group test")
    done = subprocess.run([sys.executable, "-m", "zensical", "build"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {path: Page(path.read_text()) for path in SITE.rglob("*.html") if path.name != "404.html"}
    assert {"index.html", "nn.html", "optim.html"} <= {path.name for path in found}
    return found


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    """Each link to a page of the site has its file, and each to a place in a page has that place."""
    broken = []
    for path, page in pages.items():
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else None
            if not target.exists() or (parts.fragment and known is not None and unquote(parts.fragment) not in known):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_no_page_asks_another_machine(pages: dict[Path, Page]) -> None:
    """Scripts, styles, fonts and pictures are the site's own."""
    asked = {link for page in pages.values() for link in page.fetched if urlsplit(link).netloc}
    assert asked == set()
    styles = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert "url(http" not in styles
    assert "@import" not in styles


def test_the_reference_has_signatures_and_examples(pages: dict[Path, Page]) -> None:
    """Classes of nn and of the optimizers are there with their parameters, and examples are code."""
    text = (SITE / "reference" / "nn.html").read_text()
    assert "tinygraft.nn.Linear" in text
    assert "in_features" in text
    assert "&gt;&gt;&gt;" in text
    assert "tinygraft.nn.optim.Adam" in (SITE / "reference" / "optim.html").read_text()


def test_every_page_is_on_the_map() -> None:
    """A page that the navigation does not name would be found by search alone."""
    named = (ROOT / "zensical.toml").read_text()
    files = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [name for name in files if f'"{name}"' not in named] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_page_shows_something(path: Path) -> None:
    """A page has a block to run, a picture, the reference of a module, or is itself a table of what there is."""
    text = path.read_text()
    assert any(mark in text for mark in BLOCKS) or text.count("\n| ") > 10
