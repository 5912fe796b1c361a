"""One name, one thing: no two modules define a class or an alias of one name, no two files of core have one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "tinygraft"
PACKAGES = [CORE, *sorted(p for p in (ROOT / "plugins").glob("*/src/tinygraft_*") if (p / "__init__.py").is_file())]

# name -> the modules that define it, and why that stays
CLASSES = {
    "Function": (
        "functions uop.rewrite",
        "a public class, and what signatures of the plugin API call the code of a rule",
    ),
    "Linear": ("nn.dense uop.stages", "the layer as all libraries call it, and a box of the plugin API"),
    "Sigmoid": ("mlops nn.activations", "a function by its older name, and the layer as PyTorch calls it"),
    "UOp": ("uop.ops uop.uop", "one class: uop.uop puts it into uop.ops, from where the seeds import it"),
}
# the name of a file -> the modules of that name, and why that stays; __init__ and the folders of MIRRORS are left out
MODULES = {
    "onnx": ("frontend.onnx nn.onnx", "where two versions of tinygrad have OnnxRunner; the first finds the second's")
}
MIRRORS = {
    "array_api": "its names are the standard's",
    "conformance/levels": "the levels of the kit are named by what they test",
}


def defined(source: str) -> Iterator[str]:
    """The classes and aliases (CamelCase names that are assigned) at the top of a module, without underscores."""
    for node in ast.parse(source).body:
        for inner in [*node.body, *node.orelse] if isinstance(node, ast.If) else [node]:
            if isinstance(inner, ast.ClassDef):
                yield inner.name.lstrip("_")
            targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and re.match(r"_*[A-Z][A-Za-z0-9]*[a-z]", target.id):
                    yield target.id.lstrip("_")


def classes(sources: Mapping[str, str]) -> dict[str, str]:
    """The names that more than one of these modules defines, with the modules."""
    where: dict[str, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for name in defined(source):
            where[name].add(module)
    return {name: " ".join(sorted(modules)) for name, modules in where.items() if len(modules) > 1}


def files(paths: list[str]) -> dict[str, str]:
    """The names that more than one of these files has, with the modules."""
    where: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name != "__init__.py" and folder not in MIRRORS:
            where[name.removesuffix(".py")].append(module_of(path))
    return {name: " ".join(sorted(modules)) for name, modules in where.items() if len(modules) > 1}


def module_of(path: str) -> str:
    """A file of a package, as it is imported from there."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def sources() -> dict[str, str]:
    """The text of each module of core and of the plugins here, by its name; those of core without their package."""
    found = {}
    for package in PACKAGES:
        prefix = "" if package == CORE else f"{package.name}."
        for path in package.rglob("*.py"):
            found[prefix + module_of(path.relative_to(package).as_posix())] = path.read_text(encoding="utf-8")
    return found


def test_no_two_modules_define_one_name() -> None:
    """A class or an alias has a name of its own; what is excepted is still there."""
    assert classes(sources()) == {name: modules for name, (modules, _) in CLASSES.items()}


def test_no_two_files_of_core_have_one_name() -> None:
    """A module has a name of its own; what is excepted is still there."""
    found = files([path.relative_to(CORE).as_posix() for path in CORE.rglob("*.py")])
    assert found == {name: modules for name, (modules, _) in MODULES.items()}


@pytest.mark.parametrize(
    "again",
    ["class Plan: pass", "class _Plan: pass", "Plan = tuple[int, ...]", "_Plan: type = int", "if 1:\n    Plan = int"],
)
def test_a_second_definition_is_seen(again: str) -> None:
    """A class, a private one and an alias count as one name."""
    assert classes({"engine.pack": "class Plan: pass", "other": again}) == {"Plan": "engine.pack other"}


@pytest.mark.parametrize(
    "other", ["from engine.pack import Plan", "PLAN = 1", "plan = 1", "def Plan(): pass", "Planned = 1"]
)
def test_what_is_no_second_definition(other: str) -> None:
    """An import of the same object, a constant and a function are no second class."""
    assert classes({"engine.pack": "class Plan: pass", "other": other}) == {}


def test_a_second_file_is_seen() -> None:
    """Files of one name in two folders are two modules of one name, but in a folder that mirrors others."""
    assert files(["uop/show.py", "engine/show.py", "array_api/show.py", "uop/__init__.py", "engine/__init__.py"]) == {
        "show": "engine.show uop.show"
    }
