"""Where a tensor was made: the nearest line of the user's code, for messages and for telling view methods.

A position is kept as code and instruction, which are cheap to get; its line is looked up when a message needs it.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

Made = tuple[CodeType, int, CodeType, CodeType]  # what `here` returns
_PACKAGE = __name__.partition(".")[0] + "."


def here(above: int = 2) -> Made:
    """Where the nearest caller outside this package is: its code and instruction, which are cheap to get.

    With them the code of the function that it called, and of the one that this called: from these storage.py finds
    which public method the user called, which the hooks cannot see. `above` is how many frames are skipped: they are
    frames of this package, and so are the two above them.
    """
    outer = inner = frame = sys._getframe(above)
    while frame.f_globals.get("__name__", "").startswith(_PACKAGE) and frame.f_back is not None:
        outer, inner, frame = frame, outer, frame.f_back
    return frame.f_code, frame.f_lasti, outer.f_code, inner.f_code


def line_of(code: CodeType, instruction: int) -> int:
    """The line of the bytecode at offset `instruction` of `code`; the first one of the function where it has none."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


def place(made: Made) -> str:
    """FILE:LINE of a position in the user's code, short enough for a message."""
    code, instruction, _, _ = made
    file, line = code.co_filename, line_of(code, instruction)
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return f"{file if relative.startswith('..') else relative}:{line}"
