"""Where a tensor was made: the nearest line of the user's code, for messages and to recognise methods that give views.

It is stored as code and instruction, which are cheap to get; the line is looked up when a message needs it.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType

from tinygraft.helpers import cell_or_file, line_in, short_path

Made = tuple[CodeType, int, CodeType, CodeType]  # what `here` returns
_PACKAGE = __name__.partition(".")[0] + "."
MOST = 1024  # files of others that are known; assumed: few programs have more
_files: set[str] = set()  # those of this package that a call came through
_others: set[str] = set()  # those of others


def here(above: int = 2) -> Made:
    """Return where the nearest caller outside this package is: its code and its instruction there.

    Then the code of the function that it called, and of the one that this called: from these storage.py finds which
    public method the user called, which the hooks cannot see. `above` is how many frames are skipped: they have to be
    frames of this package, and so do the next two.
    """
    outer = inner = frame = sys._getframe(above)
    # no call for a file that was asked about before: this is done for each tensor
    while ((name := frame.f_code.co_filename) in _files or (name not in _others and _is_ours(frame))) and (
        back := frame.f_back
    ) is not None:
        outer, inner, frame = frame, outer, back
    return frame.f_code, frame.f_lasti, outer.f_code, inner.f_code


def _is_ours(frame: FrameType) -> bool:
    """Return whether a frame is one of this package, and note its file: eight frames are asked about for each tensor.

    Code without a file ("<string>") may be that of a dataclass here, or of the user: it is asked each time.
    """
    ours: bool = frame.f_globals.get("__name__", "").startswith(_PACKAGE)
    name = frame.f_code.co_filename
    if not name.startswith("<"):
        if len(_others) > MOST:  # each cell of a notebook is a file of its own
            _others.clear()
        (_files if ours else _others).add(name)
    return ours


def file_and_line(made: Made) -> str:
    """Return FILE:LINE of what `here` returned; the file is relative to the working directory where it is below it."""
    code, instruction, _, _ = made
    return f"{short_path(cell_or_file(code.co_filename))}:{line_in(code, instruction)}"
