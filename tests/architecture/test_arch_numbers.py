"""A number that steers says where it comes from, beside it, in one of three words:

    measured: what, where, when     assumed: why, or that nobody has measured it     given: by what it follows from

The word stands in the comment behind the number, or in a line of its own above it; from there on it holds to the next
such line, and no further than to an empty one.

No test takes a number from the code that it tests: it would pass whatever the number is.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "tinygraft"
FILES = sorted(file for folder in ("codegen", "schedule", "engine", "device") for file in (CORE / folder).glob("*.py"))
ORIGIN = re.compile(r"\b(measured|assumed|given): \w")
DAY = re.compile(r"\b20\d\d-\d\d-\d\d\b")
# The only constants with numbers that tests import, and why they may.
IMPORTED = {
    "tinygraft.conformance.action_cases.COLUMNS": "the shape of the kit's cases, which the test gives more actions",
    "tinygraft.conformance.action_cases.COLUMNS_OF": "the same",
    "tinygraft.conformance.action_cases.ROWS": "the same",
    "tinygraft.conformance.levels.memory.SIZES": "arguments of the kit's tests, which have to find faulty allocators",
    "tinygraft.conformance.levels.memory.STEPS": "the same",
    "tinygraft.device.device_spec.PLUGIN_API": "a version: held to a snapshot, and to what plugins ask for",
    "tinygraft.nn.datasets._FILES": "names of files; the test gives them other sizes",
    "tinygraft.schedule.memory.ARENA": "the name of a home, which happens to be a number",
    "tinygraft_cpu.allocator.ALIGNMENT": "an allocator that stands in for this one keeps what kernels rely on",
}
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


def constants():
    """The names of the constants with numbers in each module of core and of the plugins here, by its dotted name."""
    found = {}
    for source in (ROOT / "core" / "src", *(ROOT / "plugins").glob("*/src")):
        for file in source.rglob("*.py"):
            module = file.relative_to(source).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            told = numbers(ast.parse(file.read_text(encoding="utf-8")))
            found[module] = {name for names, _ in told for name in names.split(", ")}
    return found


def taken(source, of):
    """The constants among those of some modules that a text imports, or reads from a module that it imports."""
    found, modules, nodes = set(), {}, list(ast.walk(ast.parse(source)))
    for node in nodes:
        for name in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            parent = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            if name.name in of.get(parent[:-1], ()):
                found.add(parent + name.name)
            modules[name.asname or name.name] = parent + name.name
    for node in nodes:
        if isinstance(node, ast.Attribute):
            where = ast.unparse(node.value)
            if node.attr in of.get(module := modules.get(where, where), ()):
                found.add(f"{module}.{node.attr}")
    return found


def test_no_test_takes_a_number_from_what_it_tests():
    """Bounds, limits and tolerances are written in the tests; what is excepted is still imported."""
    of, found = constants(), {}
    for folder in (ROOT / "tests", ROOT / "core" / "tests", *(ROOT / "plugins").glob("*/tests")):
        for file in folder.rglob("*.py"):
            for name in taken(file.read_text(encoding="utf-8"), of):
                found.setdefault(name, []).append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in found.items() if name not in IMPORTED} == {}
    assert set(found) == set(IMPORTED)


@pytest.mark.parametrize(("source", "found"), [
    ("from a.b import MOST", {"a.b.MOST"}),
    ("from a.b import MOST as M, names", {"a.b.MOST"}),
    ("from a import b\nassert f() < b.MOST", {"a.b.MOST"}),
    ("import a.b\nassert f() < a.b.MOST", {"a.b.MOST"}),
    ("def test():\n    from a import b as c\n    assert f() < c.MOST", {"a.b.MOST"}),
    ("from a import b\nfrom c import MOST\nb.LEAST, c.MOST, MOST", set()),
    ("from a import b\npatch(b, 'MOST', 3)\nMOST = 3", set()),
])  # fmt: skip
def test_what_taking_a_number_is(source, found):
    """An import of the name, or of its module and a look at it; patching it is none."""
    assert taken(source, {"a.b": {"MOST"}}) == found
