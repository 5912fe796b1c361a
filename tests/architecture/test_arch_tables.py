"""Nothing is forgotten and nothing is said twice: tables have a row per op, methods one owner, tests a place."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import pytest

from tinygraft.autograd.vjp import VJP
from tinygraft.render import cstyle, cstyle_expr, llvm, llvm_expr
from tinygraft.render.text import Writer
from tinygraft.uop import bounds, shape
from tinygraft.uop.ops import ELEMENTWISE, FACTS, FLOAT, MOVEMENT, Ops

ROOT = Path(__file__).parents[2]
TENSOR_OPS = {op for op in Ops if op < Ops.PARAM} | {Ops.AFTER}  # Ops lists them by stage
TOLD = {
    Ops.CONST, Ops.VARIABLE, Ops.RANGE, Ops.LOCAL, Ops.LOAD, Ops.STORE, Ops.AFTER, Ops.BARRIER, Ops.REG, Ops.ACCUM,
    Ops.GET, Ops.LANES, Ops.END, Ops.TILE, Ops.PRODUCT, Ops.PUT,
}  # fmt: skip
SOURCES = sorted([*(ROOT / "core" / "src").rglob("*.py"), *(ROOT / "plugins").glob("*/src/**/*.py")])
TEST_FOLDERS = [ROOT / "tests", ROOT / "core" / "tests", *sorted((ROOT / "plugins").glob("*/tests"))]
THIRD_PARTY = set((ROOT / "tests" / "third_party").glob("*/"))  # projects of their own, run by a test beside them
IN_TESTS = sorted(f for folder in TEST_FOLDERS for f in folder.rglob("*.py") if not THIRD_PARTY & set(f.parents))
TEST_FILES = [file for file in IN_TESTS if file.name.startswith("test_")]


def test_every_op_has_its_facts():
    """FACTS has one row for each op."""
    assert set(FACTS) == set(Ops)


def test_every_tensor_op_has_a_derivative_row():
    """The table of derivatives says of each op of the tensor graph what its derivative is, or that it has none."""
    assert set(VJP) == TENSOR_OPS


def test_every_op_with_sources_has_a_shape():
    """An op of the tensor graph that is no leaf and no scalar has a shape rule."""
    scalars = {Ops.CONST, Ops.DEVICE, Ops.VARIABLE, Ops.BIND}
    assert TENSOR_OPS - scalars <= set(shape._RULES)


def test_no_integer_op_has_bounds_twice():
    """An op on integers has a bounds rule, or may give any value of its dtype, or is one of floats; no op is two."""
    only_floats = {op for op in ELEMENTWISE if FACTS[op].kinds == FLOAT}
    by_hand = {Ops.CAST}
    assert set(bounds.RULES) | bounds.ANY_VALUE | only_floats | by_hand == ELEMENTWISE
    assert not set(bounds.RULES) & (bounds.ANY_VALUE | only_floats | by_hand)
    assert not bounds.ANY_VALUE & only_floats


@pytest.mark.parametrize("table", [llvm_expr.EXPR, cstyle_expr.EXPR], ids=["llvm", "cstyle"])
def test_renderers_write_elementwise_ops_only(table):
    """A renderer's table of expressions has one row for each elementwise op, and no other."""
    assert set(table) == ELEMENTWISE


@pytest.mark.parametrize("writer", [llvm.LLVMKernel, cstyle.CStyleKernel])
def test_every_renderer_writes_every_instruction(writer):
    """Each instruction of the linear form is told to a method of its own, and no renderer lacks one."""
    told = inspect.getsource(Writer.write)
    assert {op for op in Ops if f"Ops.{op.name}: self." in told} == TOLD
    assert not writer.__abstractmethods__


def test_movement_is_shape_only():
    """Movement ops are a subset of the tensor ops that no elementwise op is in."""
    assert MOVEMENT <= TENSOR_OPS
    assert not MOVEMENT & ELEMENTWISE


def test_every_tensor_method_has_one_owner():
    """Each public name of Tensor is defined by exactly one class of its bases."""
    from tinygraft import Tensor

    owners = {}
    for cls in Tensor.__mro__[:-1]:
        for name in vars(cls):
            if not name.startswith("_"):
                owners.setdefault(name, []).append(cls.__name__)
    assert len(owners) > 100
    assert {name: classes for name, classes in owners.items() if len(classes) > 1} == {}


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: f.stem)
def test_nothing_is_defined_twice(file):
    """A class or module defines each of its functions once; a second one would silently replace the first."""
    tree = ast.parse(file.read_text())
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.ClassDef):
            names = Counter(
                node.name
                for node in scope.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not _may_repeat(node)
            )
            assert {name for name, count in names.items() if count > 1} == set()


def _may_repeat(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """An overload, or the setter of a property."""
    return any(ast.unparse(d).split(".")[-1] in ("overload", "setter", "deleter") for d in node.decorator_list)


@pytest.mark.parametrize("file", SOURCES, ids=lambda f: f.stem)
def test_every_file_says_what_is_in_it(file):
    """A module that holds anything begins with a docstring."""
    tree = ast.parse(file.read_text())
    assert not tree.body or ast.get_docstring(tree)


def test_tests_have_no_init():
    """A test file is known by its path, so two may have one name; below an __init__.py it would be a shorter one."""
    assert [str(file) for file in IN_TESTS if file.name == "__init__.py"] == []


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda f: f.relative_to(ROOT).as_posix())
def test_test_files_test(file):
    """A test file has tests, and each says in its docstring what holds."""
    tests = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert tests, "no test in this file"
    assert [test.name for test in tests if not ast.get_docstring(test)] == []
