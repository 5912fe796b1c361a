"""Parts of a run on a machine with a card, one process each with a limit of its own, and the report of all of them.

Used by on_a_card.py of the plugins for cards. It needs this checkout and a Python with numpy, cffi and pytest; it
installs nothing and asks no network. The report, card.json, has `about`, the machine and the sources, and `parts`, each
with its verdict, its seconds and the end of what it said.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]


@dataclass(frozen=True)
class Part:
    """The arguments of Python, settings, its share of the time in percent, and a command that it runs under.

    OUT in an argument is the folder of the report. `short` are more arguments, for a run that only tries the script.
    """

    arguments: list[str]
    settings: dict[str, str]
    share: int
    under: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Card:
    """A plugin's run: its parts, of which the first opens the card, and what else it needs.

    left_out says why a part is not run, given its name and the path of modules; packed is a folder with wheels and
    libraries, which need not be there; minutes is how long the run may take.
    """

    plugin: str
    parts: dict[str, Part]
    left_out: Callable[[str, str], str] = lambda name, path: ""
    packed: Path | None = None
    minutes: float = 10


def main(card: Card, doc: str) -> int:
    """Run the parts one after another; the exit code."""
    given = options(card, doc)
    print(f"Python {sys.version.split()[0]}, {sysconfig.get_platform()}", flush=True)
    out = Path(given.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + given.minutes * 60
    first = next(iter(card.parts))
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(site(card, Path(folder)))
        for name in given.only or card.parts:
            left = end - time.monotonic()
            why = "no time is left" if left < 5 else card.left_out(name, path)
            if found.get(first, {}).get("verdict") == "failed":
                why = "the card could not be opened"
            if why:
                found[name] = {"verdict": f"left out ({why})", "seconds": 0.0, "said": ""}
            else:
                part = prepared(card.parts[name], out, given.short)
                found[name] = run(name, part, path, Path(folder), left, given.minutes * 60)
            (out / "card.json").write_text(json.dumps({"about": about(given), "parts": found}, indent=1))
            print(f"{name}: {found[name]['verdict']} in {found[name]['seconds']:.0f} s", flush=True)
    print(f"the report is {out / 'card.json'}\n{verdict_of(found)}")
    return any(part["verdict"] == "failed" for part in found.values())


def options(card: Card, doc: str) -> argparse.Namespace:
    """Read the command line. A part that does not exist ends the process with the names of those that do."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"parts, in their order: {', '.join(card.parts)}")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=card.minutes, help="of the whole run (%(default)g); each part "
                        "has a share, and what has no time left is left out")  # fmt: skip
    parser.add_argument("--out", default=os.environ.get("OUT", "out"), help="the folder of the report (%(default)s)")
    parser.add_argument("--only", default="", metavar="PART,...", help="these parts; all without it")
    parser.add_argument("--short", action="store_true", help="a fraction of each part, which tries the script; the "
                        "report that is wanted is the long one")  # fmt: skip
    given = parser.parse_args()
    given.only = [name.strip() for name in given.only.split(",") if name.strip()]
    if wrong := [name for name in given.only if name not in card.parts]:
        parser.error(f"there is no part {', '.join(wrong)}; the parts are {', '.join(card.parts)}")
    return given


def prepared(part: Part, out: Path, is_short: bool) -> Part:
    """Return a part with the folder of the report in its arguments, and of its short form."""
    given = [argument.replace("OUT", str(out)) for argument in (*part.arguments, *(part.short if is_short else ()))]
    return replace(part, arguments=given, settings={**part.settings, **({"SPEED_SMALL": "1"} if is_short else {})})


def about(given: argparse.Namespace) -> dict[str, object]:
    """Return what was run, on what, and which state of the sources."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return {
        "python": sys.version, "platform": platform.platform(), "machine": platform.machine(),
        "sources": done.stdout.strip() if done is not None else "", "day": time.strftime("%Y-%m-%d"),
        "minutes": given.minutes, "only": given.only, "short": given.short,
    }  # fmt: skip


def verdict_of(found: dict[str, dict[str, object]]) -> str:
    """Return the last line: what failed, what was left out and why, or that all passed.

    >>> verdict_of({"open": {"verdict": "passed"}, "digits": {"verdict": "left out (tqdm cannot be imported)"}})
    'PASSED: open; left out: digits (tqdm cannot be imported)'
    """
    parts = {name: str(part["verdict"]) for name, part in found.items()}
    left = [name + verdict.removeprefix("left out") for name, verdict in parts.items() if verdict.startswith("left")]
    words = [
        f"{word.upper()}: {', '.join(names)}"
        for word in ("failed", "passed")
        if (names := [name for name, verdict in parts.items() if verdict == word])
    ]
    if words == [f"PASSED: {', '.join(parts)}"]:
        return "ALL PASSED"
    return "; ".join([*words, *([f"left out: {', '.join(left)}"] if left else [])])


def run(name: str, part: Part, path: str, folder: Path, left: float, whole: float) -> dict[str, object]:
    """Run one part, and print the end of what it says."""
    environment = {**os.environ, **part.settings, "PYTHONPATH": path, "SPEC": "0", "PYTHONUNBUFFERED": "1",
                   "TINYGRAFT_CACHE": str(folder / "cache")}  # fmt: skip
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*part.under, sys.executable, *part.arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=min(left, whole * part.share / 100 * 2), check=False,
        )  # fmt: skip
        said, verdict = done.stdout, "passed" if done.returncode == 0 else "failed"
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        said, verdict = text if isinstance(text, str) else text.decode(errors="replace"), "failed"
        said += "\nit took longer than its share of the time"
    print(f"--- {name}\n{said[-3000:]}", flush=True)
    return {"verdict": verdict, "seconds": time.monotonic() - begun, "said": said[-20_000:]}


def site(card: Card, folder: Path) -> list[str]:
    """Return what comes before the path of modules: this checkout, and what was packed, unpacked into a folder.

    CARD_MODULES may name one more folder, as that of an emulated binding.
    """
    sources = [ROOT / "core" / "src", *(ROOT / "plugins" / name / "src" for name in ("cpu", card.plugin))]
    made = folder / "site"
    made.mkdir()
    if card.packed is not None:
        unpack(card.packed, made)
    devices = "python = tinygraft.reference.spec:PYTHON\nnull = tinygraft.reference.spec:NULL\n"
    entries = {"tinygraft": devices}
    for name in ("cpu", card.plugin):  # an entry point each, as an installed package has it
        entries[f"tinygraft-{name}"] = f"{name} = tinygraft_{name}.spec:SPEC\n"
    for name, points in entries.items():
        info = made / f"{name.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        requires = "" if name == "tinygraft" else "Requires-Dist: tinygraft<0.2,>=0.1\n"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n{requires}")
        (info / "entry_points.txt").write_text(f"[tinygraft.devices]\n{points}")
    return [*map(str, sources), str(ROOT / "tests" / "support"), str(made),
            *filter(None, [os.environ.get("CARD_MODULES")])]  # fmt: skip


def unpack(packed: Path, made: Path) -> None:
    """Unpack wheels for this Python, and libraries."""
    for wheel in sorted(packed.glob("*.whl")):
        tag = wheel.stem.split("-")[-3]
        if tag.startswith("py") or tag == f"cp{sys.version_info.major}{sys.version_info.minor}":
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(made)
    libraries = made / "nvidia" / "cu13" / "lib"
    for library in sorted(packed.glob("*.xz")):
        libraries.mkdir(parents=True, exist_ok=True)
        with lzma.open(library) as source, (libraries / library.stem).open("wb") as target:
            shutil.copyfileobj(source, target)
