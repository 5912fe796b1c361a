"""The pages of tests/seeds: how one is read, and how it is run in an interpreter of its own.

As a program, `python read_page.py PAGE.txt RESULT.json` runs the cells of a page in order and writes each
with what it printed, the repr of a last line that is an expression, and why it was left out or failed, if so.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass
class Cell:
    """One cell: its code, what the document shows, and what follows "%% code": a name or "needs DEVICE"."""

    code: str
    shows: str
    note: str


@dataclass
class Result:
    """What running a cell gave; left_out says which device was missing, error is a traceback."""

    printed: str = ""
    value: str = ""
    left_out: str = ""
    error: str = ""


def read_page(path: Path) -> list[Cell]:
    """The cells of a page, in order."""
    cells = []
    for part in path.read_text(encoding="utf-8").split("\n%% code")[1:]:
        first, _, rest = part.partition("\n")
        code, _, shows = rest.partition("\n%% shows\n")
        cells.append(Cell(code.strip("\n"), shows.strip("\n"), first.strip()))
    return cells


def run_cell(cell: Cell, names: dict[str, Any]) -> Result:
    """Run a cell as a notebook does: the value of a last line that is an expression is shown."""
    if cell.note.startswith("needs ") and (reason := why_not(cell.note.removeprefix("needs "))):
        return Result(left_out=reason)
    tree = ast.parse(cell.code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    result = Result()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(compile(tree, "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
                result.value = "" if value is None else repr(value)
        except Exception:
            result.error = traceback.format_exc()
    result.printed = printed.getvalue()
    return result


def why_not(device: str) -> str:
    """Why a device does not open here, in the words of the error; empty when it opens."""
    from tinygraft import Device
    from tinygraft.errors import DeviceError

    try:
        Device[device]
    except DeviceError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    names: dict[str, Any] = {"__name__": "__main__"}
    results = [asdict(cell) | asdict(run_cell(cell, names)) for cell in read_page(Path(sys.argv[1]))]
    Path(sys.argv[2]).write_text(json.dumps(results), encoding="utf-8")
