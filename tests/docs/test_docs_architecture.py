"""ARCHITECTURE.md names every folder of core, docs/tables.md every table that outlives a call."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TABLES = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
SOURCES = {
    "": ROOT / "core" / "src" / "tinygraft",
    **{f"plugins/{p.parents[1].name}": p for p in sorted((ROOT / "plugins").glob("*/src/tinygraft_*")) if p.is_dir()
       and not p.name.endswith("egg-info")},
}  # fmt: skip
CONTAINERS = {
    "dict",
    "set",
    "list",
    "defaultdict",
    "OrderedDict",
    "WeakKeyDictionary",
    "WeakValueDictionary",
    "WeakSet",
}
Table = tuple[str, str, str]  # package folder ("" is core), file in it, name


def last_name(node: ast.expr) -> str:
    """The last word of a dotted name, also where it is called or subscripted; empty for anything else."""
    while isinstance(node, (ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def starts_empty(value: ast.expr | None) -> bool:
    """Whether a module sets a name to a container that is empty, so that something fills it later."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, (ast.List, ast.Set)):
        return not value.elts
    return isinstance(value, ast.Call) and last_name(value) in CONTAINERS and not value.args


def tables_of(path: Path) -> list[str]:
    """The names of a module's tables: containers that start empty, and functions that cache."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and starts_empty(node.value) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
        elif isinstance(node, ast.Assign) and starts_empty(node.value):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.FunctionDef):
            found += [node.name for d in node.decorator_list if last_name(d) in ("cache", "lru_cache")]
    return found


def in_code() -> set[Table]:
    """Every table of core and of the plugins here."""
    return {
        (package, path.relative_to(folder).as_posix(), name)
        for package, folder in SOURCES.items()
        for path in folder.rglob("*.py")
        for name in tables_of(path)
    }


def in_text() -> set[Table]:
    """Every table that docs/tables.md has a row for."""
    rows = re.findall(r"^\| (?:`(plugins/\w+)` )?`([\w/]+\.py)` \| ([^|]+) \|", TABLES, re.M)
    return {(package, file, name) for package, file, names in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_table_has_a_row() -> None:
    """A cache or registry at the top of a module stands in docs/tables.md with how it ends."""
    assert sorted(in_code() - in_text()) == []


@pytest.mark.parametrize("table", sorted(in_text()), ids=lambda t: t[2])
def test_every_row_has_a_table(table: Table) -> None:
    """A row of docs/tables.md names something that is defined at the top of that file."""
    package, file, name = table
    text = (SOURCES[package] / file).read_text(encoding="utf-8")
    assert re.search(rf"^(def {name}\(|{name}\b.*=)", text, re.M), f"{file} defines no {name}"


def test_every_folder_has_its_section() -> None:
    """Each folder of core, and each of the files beside them, stands among the folders."""
    tree = TEXT.split("## The folders")[1].split("\n## ")[0]
    core = SOURCES[""]
    folders = [p.name for p in core.iterdir() if (p / "__init__.py").exists()]
    files = [p.stem for p in core.glob("*.py") if not p.stem.startswith("__")]
    assert [name for name in folders if f"{name}/" not in tree] == []
    assert [name for name in files if not re.search(rf"\b{name}\b", tree)] == []


def test_every_pass_is_named() -> None:
    """The passes of the pipeline stand in the text in their order."""
    from tinygraft.codegen.lower import PIPELINE

    names = ", ".join(step.name for step in PIPELINE)
    assert names in " ".join(TEXT.split())
