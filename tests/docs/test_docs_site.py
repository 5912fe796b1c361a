"""The site: built without a complaint, every link leads somewhere, and no page asks another machine for anything."""

from __future__ import annotations

import functools
import importlib
import json
import re
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tinygraft import Tensor
from tinygraft.tensor.methods import THEMES, load_all

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "site"
LOADS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
}  # what a page fetches by itself
REFERENCE = [  # page, module, and the names that the page has under another
    ("tinygraft.html", "tinygraft", {"Tensor", "Device", "function"}),
    ("nn.html", "tinygraft.nn", set()),
    ("optim.html", "tinygraft.nn.optim", set()),
    ("plugin.html", "tinygraft.plugin", set()),
    ("nn-state.html", "tinygraft.nn.state", set()),
    ("nn-data.html", "tinygraft.nn.data", set()),
]
FOR_ENGINES = {"canonical", "prev", "next", "alternate"}  # links that are not fetched
RUNS = re.compile(r"^```(python|sh|diff|pycon)\b|!\[", re.MULTILINE)

pytestmark = pytest.mark.slow

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


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


@pytest.mark.parametrize(("name", "module", "but"), REFERENCE, ids=[row[0] for row in REFERENCE])
def test_the_reference_is_complete(pages: dict[Path, Page], name: str, module: str, but: set[str]) -> None:
    """Every public name of a module is on its page, and the page has signatures and examples."""
    page = SITE / "reference" / name
    whole = importlib.import_module(module)
    # tinygraft.function may be its module, which is called like the function
    members = {one: getattr(whole, one) for one in whole.__all__}
    names = {one for one, it in members.items() if callable(it) or not isinstance(it, types.ModuleType)}
    assert {one for one in names if f"{module}.{one}" not in pages[page].anchors} == but
    assert "doc-signature" in page.read_text()
    assert "&gt;&gt;&gt;" in page.read_text()


def test_the_reference_has_every_method_with_its_signature(pages: dict[Path, Page]) -> None:
    """Each public method of Tensor has a place, its parameters, and there is an example on every page of them."""
    load_all(Tensor)
    files = [path for path in pages if path.name.startswith("tensor-")]
    anchors = {anchor for path in files for anchor in pages[path].anchors}
    names = {name for theme in THEMES for name in theme.names() if not name.startswith("_")}
    assert {name for name in names if f"tinygraft.Tensor.{name}" not in anchors} == set()
    texts = [path.read_text() for path in files]
    assert sum(text.count("doc-signature") for text in texts) >= len(names)
    assert all("&gt;&gt;&gt;" in text for text in texts)


def test_search_finds_methods(pages: dict[Path, Page]) -> None:
    """The index that search reads has pages, methods and layers, and is beside the pages."""
    index = json.loads((SITE / "search.json").read_text())
    places = {item["location"] for item in index["items"]}
    wanted = (
        "reference/tensor-linalg.html#tinygraft.Tensor.einsum",
        "reference/nn.html#tinygraft.nn.Linear",
        "jit.html",
    )
    assert [place for place in wanted if place not in places] == []


def test_every_page_is_on_the_map() -> None:
    """A page that the navigation does not name would be found by search alone."""
    named = (ROOT / "zensical.toml").read_text()
    files = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [name for name in files if f'"{name}"' not in named] == []


@pytest.fixture(scope="module")
def served(pages: dict[Path, Page]) -> Iterator[str]:
    """The address of the site on a server of this machine."""
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(CHROMIUM is None, reason=f"there is no Chromium here: none of {', '.join(NAMES)} is on PATH")
def test_in_a_browser(served: str) -> None:
    """Search leads to a method; no page overflows a phone, and none asks another host or complains, also not later."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in the group test")
    said: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith((served, "data:", "blob:")) or said.append(asked.url))
        for name in ("index", "start", "how-to/from-pytorch", "internals/walk", "viz", "gallery", "reference/optim"):
            page.goto(f"{served}/{name}.html")
            page.wait_for_load_state("networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} is {wide} pixels wider than a phone"
            small = page.evaluate(
                "[...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
            )
            assert small == [], f"{name} has pictures that do not load"
        page.set_viewport_size({"width": 1300, "height": 900})
        page.goto(f"{served}/index.html")
        page.wait_for_load_state("networkidle")
        page.keyboard.press("Control+k")
        page.keyboard.type("einsum", delay=50)
        page.wait_for_timeout(1500)
        page.keyboard.press("Enter")
        page.wait_for_url("**/reference/tensor-linalg.html*einsum*")
        browser.close()
    assert said == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_page_shows_something(path: Path) -> None:
    """A page has a block that runs, or a picture; a page of the reference too."""
    assert RUNS.search(path.read_text())


def test_every_picture_is_on_a_page() -> None:
    """A picture that no page shows would be kept for nobody."""
    text = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    pictures = [path.name for folder in ("pictures", "gallery") for path in (ROOT / "docs" / folder).glob("*.*g")]
    assert [name for name in sorted(pictures) if f"/{name}" not in text] == []
