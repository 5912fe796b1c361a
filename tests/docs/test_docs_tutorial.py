"""The tutorial runs as it is read: commands and changes of files in order, and what is shown is what is printed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from page_steps import blocks_of, follow
from tinygraft.plugin import Dialect, Target

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "writing-a-plugin.md"
BLOCKS = blocks_of(PAGE.name)


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.parametrize("options", [
    "--tinygraft-level spec,render,memory",
    pytest.param("", marks=pytest.mark.long, id="whole"),
])  # fmt: skip
def test_the_tutorial(tmp_path: Path, options: str) -> None:
    """From the generated project to one with words and vectors of its own, which passes the whole kit.

    In the gate its pytest leaves out the kit's levels whose kernels are compiled for minutes.
    """
    follow(BLOCKS, tmp_path, PYTEST_ADDOPTS=options)


def test_the_page_shows_every_kind_of_step() -> None:
    """The page makes a project, installs it, changes it, runs the kit after each change, and shows what comes out."""
    kinds = [language for language, _ in BLOCKS]
    assert kinds.count("diff") == 4
    assert kinds.count("output") == kinds.count("sh")
    kit = [text for language, text in BLOCKS if language == "sh" and re.search("conformance|pytest", text)]
    assert len(kit) == 5


def test_the_fields_it_names_exist() -> None:
    """What the page calls a field, of Target or of Dialect, is one."""
    (paragraph,) = re.findall(r"^\[Other fields\].*?\n\n", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    named = set(re.findall(r"`([a-z_]+)`", paragraph)) - {"launch"}
    fields = {field.name for cls in (Target, Dialect) for field in dataclasses.fields(cls)}
    assert len(named) > 4
    assert named <= fields
