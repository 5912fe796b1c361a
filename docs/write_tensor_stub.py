"""Write tensor.pyi: the methods of Tensor with their types, as type checkers and editors see them.

The methods are functions of many modules (`tensor/methods.py` says which), bound when Python runs; a type checker
does not run it. A parameter that has two names (`tensor/primitives/keyword_aliases.py`) is there under both. Run it
after a method was added or its types were changed: `python docs/write_tensor_stub.py`. A test holds the file to it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from pathlib import Path

from tinygraft.tensor import methods
from tinygraft.tensor.primitives.keyword_aliases import ALSO

FOLDER = Path(methods.__file__).parent
FILE = FOLDER / "tensor.pyi"
HEAD = '''"""Tensor with its methods, for type checkers and editors; written by `python docs/write_tensor_stub.py`."""

# mypy: disable-error-code="override"
# == and != compare elements, and give no bool as those of `object` do.
'''
MEMBERS = {name for theme in methods.THEMES for name in theme.names()}


def parsed(module: str) -> ast.Module:
    """The tree of a module of the folder."""
    return ast.parse((FOLDER / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


def origins(module: str, tree: ast.Module) -> dict[str, str]:
    """Where each name that an annotation of a module may use comes from: the statement that imports it."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"from {node.module} import {ast.unparse(alias)}"
        elif isinstance(node, ast.Import):
            found.update({alias.asname or alias.name: f"import {ast.unparse(alias)}" for alias in node.names})
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.Assign)):
            names = [node.name] if isinstance(node, ast.ClassDef) else [ast.unparse(to) for to in node.targets]
            found.update({name: f"from tinygraft.tensor.{module} import {name}" for name in names})
    return found


class Names(ast.NodeTransformer):
    """Collect the names of annotations, and write `builtins.int` where a method is named int."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """One name."""
        if node.id in MEMBERS and hasattr(builtins, node.id):
            self.used.add("builtins")
            return ast.Attribute(ast.Name("builtins"), node.id)
        self.used.add(node.id)
        return node


def bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function without its body and without defaults that are no plain values: what a stub shows of it."""
    given = function.args
    calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    if given.args and given.args[0].arg in ("self", "cls"):  # `Tensor.cat([a, b])` has a list for its first tensor
        listed = ast.parse("Tensor | Sequence[Tensor]", mode="eval").body
        given.args[0].annotation = listed if "several" in calls else None
    given.defaults = [value(default) for default in given.defaults]
    given.kw_defaults = [default and value(default) for default in given.kw_defaults]
    function.body = [ast.Expr(ast.Constant(...))]
    return function


def value(default: ast.expr) -> ast.expr:
    """A default as the stub shows it: itself where it is a plain value."""
    try:
        ast.literal_eval(default)
    except ValueError:
        return ast.Constant(...)
    return default


def spelled(function: ast.FunctionDef) -> list[ast.arguments]:
    """The parameters of a function, in each of the ways in which it may be called."""
    given = function.args
    positional = given.posonlyargs + given.args
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    named = list(zip(positional, defaults, strict=True))
    only = list(zip(given.kwonlyargs, given.kw_defaults, strict=True))
    declared = {parameter.arg for parameter, _ in named + only}
    decorated = any(ast.unparse(decorator) == "either_spelling" for decorator in function.decorator_list)
    also = {own: other for other, own in ALSO.items() if own in declared and other not in declared} if decorated else {}
    for parameter, default in named + only:
        if parameter.arg in also and default is not None:
            only.append((ast.arg(also[parameter.arg], parameter.annotation), default))
    ways = [(named, only)]
    for place, (parameter, default) in enumerate(named):
        if parameter.arg in also and default is None:  # by its other name it and all after it are keywords
            renamed = [(ast.arg(also[parameter.arg], parameter.annotation), None), *named[place + 1 :], *only]
            ways.append((named[:place], renamed))
    return [arguments(given, *way) for way in ways]


def arguments(given: ast.arguments, named: list, only: list) -> ast.arguments:
    """The parameters of a function whose positional ones and keywords are these, with their defaults."""
    return ast.arguments(
        [], [p for p, _ in named], given.vararg, [p for p, _ in only], [d for _, d in only], given.kwarg,
        [d for _, d in named if d is not None],
    )  # fmt: skip


def stub(function: ast.FunctionDef, name: str, kind: str) -> list[str]:
    """The lines of a member of the class."""
    ways = spelled(function)
    lines = []
    for way in ways:
        if len(ways) > 1:
            lines.append("@overload")
        if kind in ("classmethods", "staticmethods"):
            lines.append(f"@{kind[:-1]}")
        if kind == "properties":
            lines.append("@property")
        gives = ast.unparse(function.returns or ast.Name("None"))
        listed = bool(way.args) and way.args[0].annotation is not None  # a list has no class to give
        if kind != "staticmethods" and not re.match("_[a-z]", name) and not listed:
            gives = re.sub(r"\bTensor\b", "Self", gives)  # of a subclass what it gives is one, too
        lines.append(f"def {name}({ast.unparse(way)}) -> {gives}: ...")
    return lines


def members(module: str, kinds: dict[str, str], imports: dict[str, str]) -> list[str]:
    """The lines for what a module gives to Tensor; the imports that they need are added."""
    tree = parsed(module)
    functions = {node.name: bare(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    same = {ast.unparse(n.targets[0]): ast.unparse(n.value) for n in tree.body if isinstance(n, ast.Assign)}
    known, names, lines = origins(module, tree), Names(), [f"# {module}"]
    for name, kind in kinds.items():
        function = names.visit(functions[name if name in functions else same[name]])
        lines += stub(function, name, kind)
        if f"set_{name}" in functions:
            setter = names.visit(functions[f"set_{name}"])
            lines += [
                f"@{name}.setter",
                f"def {name}(self, value: {ast.unparse(setter.args.args[1].annotation)}) -> None: ...",
            ]
    for name in names.used & known.keys() - {"Tensor", "either_spelling"}:
        if imports.setdefault(name, known[name]) != known[name]:
            raise SystemExit(f"{name} is {imports[name]!r} and, in {module}, {known[name]!r}")
    return lines


def text() -> str:
    """The file."""
    imports = {
        "TensorBase": "from tinygraft.tensor.primitives.base import TensorBase",
        "TensorType": "from tinygraft.tensor.mode import TensorType",
        "overload": "from typing import overload", "Self": "from typing import Self",
        "Sequence": "from collections.abc import Sequence", "builtins": "import builtins",
    }  # fmt: skip
    lines: list[str] = []
    (cls,) = (node for node in parsed("tensor").body if isinstance(node, ast.ClassDef))
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            lines += stub(bare(node), "__init__", "methods")
    imports |= {
        name: line for name, line in origins("tensor", parsed("tensor")).items() if name in "Any DTypeLike Place"
    }
    for theme in methods.THEMES:
        lines += members(theme.module, theme.names(), imports)
    lines.insert(0, "__array_priority__: float")
    body = "\n".join(f"    {line}" for line in lines)
    return f"{HEAD}\n{statements(imports.values())}\n\nclass Tensor(TensorBase, metaclass=TensorType):\n{body}\n"


def statements(lines: Iterable[str]) -> str:
    """The imports, one statement for each module, those of the standard library first."""
    names: dict[str, set[str]] = {}
    for line in lines:
        module, _, name = line.removeprefix("from ").partition(" import ")
        names.setdefault(module, set()).update({name} - {""})
    ordered = sorted(names.items(), key=lambda item: (item[0].startswith("tinygraft"), item[0]))
    return "\n".join(f"from {module} import {', '.join(sorted(of))}" if of else module for module, of in ordered)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
