"""Shows the examples of docstrings as code on the site: an extension of griffe, by which mkdocstrings reads docstrings.

Our docstrings have their examples as doctest has them, without a section of their own; in Markdown such lines would be
prose, and a printed list a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe  # brought by mkdocstrings

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)  # up to the next empty line


def fenced(text: str) -> str:
    """Return a docstring with each run of examples in a block of its own."""
    blocks = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    return re.sub(r"\n *```\n\n *```pycon\n", "\n\n", blocks)  # examples apart by one empty line are one block


class DoctestBlocks(griffe.Extension):
    """Puts the examples of every docstring that is read into blocks."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of what griffe has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
