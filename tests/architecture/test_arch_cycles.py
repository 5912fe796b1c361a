"""Modules of core do not import each other in circles, in functions and for type checkers neither; themes are apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "core" / "src"
TENSOR = SOURCE / "tinygraft" / "tensor"
# the type of the argument of almost everything; the module that defines it imports almost everything
OWN_TYPES = {"tinygraft.tensor.tensor.Tensor", "tinygraft.tensor.primitives.base.TensorBase"}


def modules() -> dict[str, Path]:
    """The modules of core by name."""
    found = {}
    for file in (SOURCE / "tinygraft").rglob("*.py"):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = file
    return found


def imports(source: str, known: Mapping[str, object]) -> Iterator[str]:
    """The modules that a text imports, wherever it does so, but for the types of OWN_TYPES."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names} - OWN_TYPES
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of more than one node of which each reaches each other (Tarjan 1972, as two walks by Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        stack = [(start, iter(graph[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                order.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    users: dict[str, set[str]] = {name: set() for name in graph}
    for name, used in graph.items():
        for other in used:
            users[other].add(name)
    groups, left = [], set(graph)
    for start in reversed(order):
        group, todo = set(), [start]
        while todo:
            node = todo.pop()
            if node in left:
                left.remove(node)
                group.add(node)
                todo += users[node]
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Wherever an import stands; but for the type of tensors."""
    known = modules()
    graph = {name: {m for m in imports(file.read_text(), known) if m in known and m != name}
             for name, file in known.items()}  # fmt: skip
    found = {" ".join(sorted(name.removeprefix("tinygraft.") for name in group)) for group in circles(graph)}
    assert not found


def test_circles_are_found() -> None:
    """Two that touch are one; what only leads there is none of it."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["d", "e"]]
    graph["e"].add("c")
    assert sorted(map(sorted, circles(graph))) == [["b", "c", "d", "e"]]


# which folders below tensor/ one of them imports from; a theme of ops/ from its own folder, too
MAY = {"ops": {"primitives", "state", "data"}, "primitives": {"primitives", "state", "data"}}


@pytest.mark.parametrize("file", sorted([*(TENSOR / "ops").rglob("*.py"), *(TENSOR / "primitives").rglob("*.py")]),
                         ids=lambda file: file.relative_to(TENSOR).as_posix())  # fmt: skip
def test_a_theme_uses_primitives_only(file: Path) -> None:
    """And its own folder: what another theme has it reaches through the methods of a tensor."""
    own = file.parent.relative_to(TENSOR).as_posix().replace("/", ".")
    wrong = []
    for module in imports(file.read_text(), modules()):
        below = module.removeprefix("tinygraft.tensor.")
        if below == module or "." not in below:  # another part of core, or a module of tensor/ itself
            continue
        folder = below.rpartition(".")[0] if (TENSOR / f"{below.replace('.', '/')}.py").exists() else below
        if folder != own and folder.partition(".")[0] not in MAY[own.partition(".")[0]]:
            wrong.append(module)
    assert wrong == []
