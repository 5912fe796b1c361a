"""tinygraft settings: every setting with what it is now and what it means."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from tinygraft.config import SETTINGS


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `settings` to the parser."""
    parser = subparsers.add_parser("settings", help="print every setting, its value here and its meaning")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table of settings."""
    width = max(len(name) for name in SETTINGS)
    for name, setting in SETTINGS.items():
        lines = textwrap.wrap(setting.doc, 100 - width)
        print(f"{name:{width}}  {setting.value!r:10}  {lines[0]}")
        for line in lines[1:]:
            print(" " * (width + 14) + line)
    return 0
