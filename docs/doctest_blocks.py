"""Shows docstrings as they are meant on the site: an extension of griffe, by which mkdocstrings reads docstrings.

Our docstrings have their examples as doctest has them, without a section of their own, and an asterisk in their prose
is a product; in Markdown such examples would be prose, a printed list a link, and two products italics.
"""

from __future__ import annotations

import re
from typing import Any

import griffe  # brought by mkdocstrings

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)  # up to the next empty line
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def fenced(text: str) -> str:
    """Return a docstring with each run of examples in a block of its own, and products that stay products."""
    blocks = EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    blocks = re.sub(r"\n *```\n\n *```pycon\n", "\n\n", blocks)  # examples apart by one empty line are one block
    parts = CODE.split(blocks)  # prose, code, prose, ...
    parts[::2] = [re.sub(r"(?<!\\)\*", r"\\*", part) for part in parts[::2]]
    return "".join(parts)


class DoctestBlocks(griffe.Extension):
    """Puts the examples of every docstring that is read into blocks."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of what griffe has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
