"""Write docs/gallery.md from what the examples left behind: docs/gallery/NAME.json and NAME.png.

    python docs/write_gallery.py                     the page alone, from what is there
    python docs/write_gallery.py --run               every script of examples/ first, as its entry says
    python docs/write_gallery.py --run train_digits  one of them

`make gallery` runs all, which takes minutes to hours. A script leaves its picture and its numbers by `write_results`
(examples/results.py) in out/gallery, once or for several arguments; both are copied to docs/gallery.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
ENTRIES = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
OUT = Path("out") / "gallery"  # in the root, where scripts are run
SHORT = {"cnn", "gan", "gpt", "lstm", "mlp", "vae"}  # words of names that are written in capitals
HEAD = """# Gallery

What the scripts of `examples/` make, each with its numbers and the command that made them. All were run on a processor,
with nothing downloaded unless it says so. `make gallery` runs them again and writes this page.
"""


def scripts() -> list[str]:
    """The names of the scripts in examples/ that write results, by themselves or through a file that they import."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))}
    writing = {name for name, text in texts.items() if "write_results(" in text and name != "results"}
    found = []
    for name, text in texts.items():
        imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
        if 'if __name__ == "__main__":' in text and ({name} | imported) & writing:
            found.append(name)
    return found


def entries() -> dict[str, list[str]]:
    """The entries that are there, by the script that left them: one may leave several, for several arguments."""
    found: dict[str, list[str]] = {name: [] for name in scripts()}
    for path in sorted(ENTRIES.glob("*.json")):
        script = Path(command(path.stem)[1]).stem
        if path.with_suffix(".png").exists() and script in found:
            found[script].append(path.stem)
    return found


def missing() -> list[str]:
    """The scripts that have left no picture with its numbers."""
    return [script for script, names in entries().items() if not names]


def command(name: str) -> list[str]:
    """What ran the script when an entry was made, without the folder that its results went to."""
    words = shlex.split(json.loads((ENTRIES / f"{name}.json").read_text(encoding="utf-8"))["command"])
    if "--out" in words:
        at = words.index("--out")
        words[at : at + 2] = []
    return words


def run(script: str) -> None:
    """Run a script as each of its entries says, and keep pictures and numbers. Ends the process where it fails."""
    commands = [command(name) for name in entries()[script]] or [["python", f"examples/{script}.py"]]
    for words in commands:
        print(f"gallery: {shlex.join(words)}", flush=True)
        shutil.rmtree(ROOT / OUT, ignore_errors=True)
        done = subprocess.run([sys.executable, *words[1:], "--out", str(OUT)], cwd=ROOT)
        if done.returncode:
            raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}: docs/gallery has what it had")
        for path in (ROOT / OUT).glob("*.json"):
            if path.with_suffix(".png").exists():
                shutil.copy(path, ENTRIES)
                shutil.copy(path.with_suffix(".png"), ENTRIES)


def said(name: str) -> str:
    """The first paragraph of a script's docstring, on one line."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def took(seconds: float) -> str:
    """A time in words."""
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def heading(name: str) -> str:
    """The name of a script or an entry as words."""
    words = [word.upper() if word in SHORT else word for word in name.split("_")]
    return " ".join([words[0].capitalize(), *words[1:]])


def entry(name: str) -> list[str]:
    """The lines of the page about one entry."""
    found: dict[str, Any] = json.loads((ENTRIES / f"{name}.json").read_text(encoding="utf-8"))
    seeds = ", ".join(map(str, found["seeds"]))
    rows = [f"| {key.replace('_', ' ')} | {value:.4g} |" for key, value in found["numbers"].items()]
    word = "seed" if len(found["seeds"]) == 1 else "seeds"
    about = f"{took(found['seconds'])} on {found['device']} ({found['machine']}), {word} {seeds}."
    shown = f"![{heading(name)}: what the script draws](gallery/{name}.png)"
    table = ["| result | |", "|---|---|", *rows]
    return [shown, "", *table, "", about, "", "```sh", shlex.join(command(name)), "```", ""]


def page() -> str:
    """The whole page, of the scripts that have left something."""
    parts = [HEAD]
    for script, names in entries().items():
        if names:
            parts += [f"## {heading(script)}", "", said(script), ""]
        for name in names:
            parts += [*([f"### {heading(name)}", ""] if len(names) > 1 else []), *entry(name)]
    return "\n".join(parts)


def main() -> None:
    """Run what is asked for, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", nargs="*", metavar="NAME", help="run these scripts first; all without a name")
    args = parser.parse_args()
    for name in scripts() if args.run == [] else args.run or []:
        run(name)
    PAGE.write_text(page(), encoding="utf-8")
    if missing():
        print(f"not in the gallery, as they have left nothing yet: {', '.join(missing())}")


if __name__ == "__main__":
    main()
