"""Pictures of the documents are what their commands make now: drawings of graphs, charts, the gallery of examples."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOW = """
import json, sys
from dataclasses import asdict
sys.path.insert(0, sys.argv[1])
from write_drawings import drawings
print(json.dumps({name: asdict(drawing) for name, drawing in drawings().items()}))
"""


@pytest.mark.slow
def test_drawings_are_those_of_the_program() -> None:
    """Each drawing has the boxes that the program gives now, with their words: else run `make pictures`."""
    done = subprocess.run([sys.executable, "-c", NOW, str(DOCS)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wanted = json.loads(done.stdout)
    files = sorted((DOCS / "pictures").glob("walk-*.svg"))
    assert [path.stem for path in files] == sorted(wanted)
    for path in files:
        root = ElementTree.parse(path).getroot()
        space = "{http://www.w3.org/2000/svg}"
        drawing = wanted[path.stem]
        assert json.loads(root.find(f"{space}metadata").text) == drawing  # type: ignore[union-attr, arg-type]
        words = [text.text for text in root.iter(f"{space}text")]
        assert words == [line for box in drawing["boxes"] for line in (box["title"], *box["lines"])]
        assert len(list(root.iter(f"{space}rect"))) == len(drawing["boxes"])
        assert "prefers-color-scheme: dark" in root.find(f"{space}style").text  # type: ignore[union-attr, operator]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_schedules_are_drawn_as_they_are(theme: str) -> None:
    """The picture of the rates is of what the schedules give now: else run `make pictures`."""
    found = runpy.run_path(str(DOCS / "write_charts.py"))["rates"]()
    root = ElementTree.parse(DOCS / "pictures" / f"schedules-{theme}.svg").getroot()
    (kept,) = (one.text for one in root.iter("{http://purl.org/dc/elements/1.1/}description"))
    assert json.loads(kept or "") == found


def test_the_gallery_is_current() -> None:
    """The page is what its script writes of the entries that are there: else run `python docs/write_gallery.py`."""
    assert runpy.run_path(str(DOCS / "write_gallery.py"))["page"]() == (DOCS / "gallery.md").read_text(encoding="utf-8")


def test_every_example_is_in_the_gallery() -> None:
    """Each script of examples/ has left a picture and numbers: else run `python docs/write_gallery.py --run NAME`."""
    assert runpy.run_path(str(DOCS / "write_gallery.py"))["missing"]() == []


def test_the_benchmarks_are_the_stored_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bars are those of docs/benchmarks.json, and none of its values was wrong: else run `make pictures`."""
    monkeypatch.syspath_prepend(DOCS.parent)  # the benchmarks are not installed
    from benchmarks import picture, report

    found, _ = report.from_json((DOCS / "benchmarks.json").read_text())
    words = b"tEXtDescription\x00" + picture.description(found).encode("latin-1")
    assert words in (DOCS / "pictures" / "benchmarks.png").read_bytes()
    assert {line.against for line in found} >= {"torch", "numpy"}
    assert [line.item for line in found if line.verdict == "wrong"] == []


@pytest.mark.parametrize("path", sorted((DOCS / "gallery").glob("*.json")), ids=lambda path: path.stem)
def test_an_entry_is_of_a_script(path: Path) -> None:
    """The command of an entry runs a script that writes results, and there is a picture beside the numbers."""
    entry = json.loads(path.read_text())
    python, script, *_ = entry["command"].split()
    assert python == "python"
    assert Path(script).parent == Path("examples")
    assert Path(script).stem in runpy.run_path(str(DOCS / "write_gallery.py"))["scripts"]()
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert (entry["name"], bool(entry["numbers"])) == (path.stem, True)
