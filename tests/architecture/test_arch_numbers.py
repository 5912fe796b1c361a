"""A number that steers says where it comes from, beside it, in one of three words:

    measured: what, where, when     assumed: why, or that nobody has measured it     given: by what it follows from

The word stands in the comment behind the number, or in a line of its own above it; from there on it holds to the next
such line, and no further than to an empty one.
"""

import ast
import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "src" / "tinygraft"
FILES = sorted(file for folder in ("codegen", "schedule", "engine", "device") for file in (CORE / folder).glob("*.py"))
ORIGIN = re.compile(r"\b(measured|assumed|given): \w")
DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b")
MAKERS = {"range", "frozenset", "set", "tuple", "dict.fromkeys"}


def is_number(value):
    """Whether an expression is a number or a collection of numbers, by its text."""
    match value:
        case ast.Constant():
            return type(value.value) in (int, float)
        case ast.UnaryOp():
            return is_number(value.operand)
        case ast.BinOp():
            return is_number(value.left) or is_number(value.right)
        case ast.Tuple() | ast.List() | ast.Set():
            return any(map(is_number, value.elts))
        case ast.Dict():
            return any(map(is_number, value.values))
        case ast.Call():
            return ast.unparse(value.func) in MAKERS and any(map(is_number, value.args))
    return False


def numbers(tree):
    """The statements of a module that give a constant (a name in capitals) a number, or several."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
            if all(name.isupper() for name in names) and is_number(statement.value):
                yield ", ".join(names), statement


def comment(line):
    """The comment of a line of code without strings that hold a #."""
    return line.partition("#")[2]


def origin(lines, statement):
    """The text that says where the number of a statement comes from; empty where none does."""
    first, last = statement.lineno - 1, statement.end_lineno
    own = " ".join(map(comment, lines[first:last]))
    if ORIGIN.search(own):
        return own
    while first and lines[first - 1].strip():
        first -= 1
        if lines[first].startswith("#") and ORIGIN.search(lines[first]):
            end = next(i for i in range(first, last) if not lines[i].startswith("#"))
            return " ".join(map(comment, lines[first:end]))
    return ""


def missing(source):
    """What is missing beside the numbers of a source text: a line each."""
    lines, found = source.splitlines(), []
    for names, statement in numbers(ast.parse(source)):
        said = origin(lines, statement)
        if not said:
            found.append(f"line {statement.lineno}: {names} says neither measured: nor assumed: nor given:")
        elif "measured:" in said and not DAY.search(said):
            found.append(f"line {statement.lineno}: {names} was measured, but on which day?")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(CORE)))
def test_a_number_says_where_it_comes_from(file):
    """Each constant number of the folders that decide on speed and memory was measured, assumed or is given."""
    assert missing(file.read_text(encoding="utf-8")) == []


NOTHING = "says neither measured: nor assumed: nor given:"


@pytest.mark.parametrize(("source", "found"), [
    ("A = 4  # bytes\n", [f"line 1: A {NOTHING}"]),
    ("A = 4  # bytes; assumed: never measured\n", []),
    ("# given: by the format\nA = 4\nB: Final = 1 << 3  # more\n", []),
    ("# given: by the format\nA = 4\n\nB, C = -1, 2.0\n", [f"line 4: B, C {NOTHING}"]),
    ("import a\n# measured: 3 ms\nA = range(4)\n", ["line 3: A was measured, but on which day?"]),
    ("# measured: 3 ms\n# (2026-11-20)\nA = {1: 2}\n", []),
    ("# assumed: both\nA = 4\n# of bytes\nB = 5\n", []),
    ("A = 4  # given: here\nB = 5\n", [f"line 2: B {NOTHING}"]),
    ("a = 4\nB = 'text'\nC = name(5)\nD = lambda: 6\nE = (x, 'y')\n", []),
    ("D = {\n    a: 1,\n    b: 2,\n}  # assumed: as the others\n", []),
])  # fmt: skip
def test_what_is_asked_of_a_number(source, found):
    """The check sees a number without its word, and takes nothing else for one."""
    assert missing(source) == found


def test_there_are_numbers():
    """The check looks at the numbers: there are more than a hundred."""
    assert sum(1 for file in FILES for _ in numbers(ast.parse(file.read_text(encoding="utf-8")))) > 100
