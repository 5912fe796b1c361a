"""tensor.pyi is what its writer writes, and shows type checkers and editors what Tensor takes."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tinygraft import Tensor
from tinygraft.tensor.methods import THEMES

ROOT = Path(__file__).parents[2]
STUB = ROOT / "core" / "src" / "tinygraft" / "tensor" / "tensor.pyi"
(CLASS,) = (node for node in ast.parse(STUB.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
SHOWN: dict[str, list[ast.FunctionDef]] = {}
for _node in CLASS.body:
    if isinstance(_node, ast.FunctionDef):
        SHOWN.setdefault(_node.name, []).append(_node)


def parameters(function: ast.FunctionDef) -> set[str]:
    """The names of the parameters of a function of the stub."""
    given = function.args
    stars = [star for star in (given.vararg, given.kwarg) if star]
    return {parameter.arg for parameter in [*given.args, *given.kwonlyargs, *stars]}


def test_the_stub_is_current() -> None:
    """`python docs/write_tensor_stub.py` would change nothing."""
    spec = spec_from_file_location("write_tensor_stub", ROOT / "docs" / "write_tensor_stub.py")
    assert spec is not None and spec.loader is not None
    writer = module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert STUB.read_text(encoding="utf-8") == writer.text(), "run python docs/write_tensor_stub.py"


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.module)
def test_the_stub_has_every_member(theme) -> None:
    """With the parameters that it has when Python runs."""
    for name, kind in theme.names().items():
        assert name in SHOWN
        if kind != "properties":
            found = inspect.signature(inspect.unwrap(getattr(Tensor, name))).parameters
            assert set(found) <= parameters(SHOWN[name][0]) | {"self", "cls"}, name


def test_the_stub_has_both_spellings() -> None:
    """Of a parameter with a default in one signature, of one without as an overload."""
    assert {"axis", "dim", "keepdim", "keepdims"} <= parameters(SHOWN["sum"][0])
    assert ["dim" in parameters(way) for way in SHOWN["gather"]] == [True, False]
    assert ["axis" in parameters(way) for way in SHOWN["gather"]] == [False, True]


PROGRAM = """
from tinygraft import Tensor
t = Tensor([[1.0, 2.0]])
a: Tensor = t.sum(dim=0, keepdims=True)
b: Tensor = t.sum(axis=0, keepdim=True)
c: Tensor = t.gather(axis=1, index=Tensor([[0]])) + t.gather(1, Tensor([[0]]))
d: Tensor = t.conv2d(t).T.relu() @ Tensor.zeros(2, 3)
t.sum(axes=0)
t.no_such_method()
e: int = t.mean()
f: Tensor = Tensor.stack([t, t], dim=0) + Tensor.cat([t, t]) + Tensor.cat(t, t, dim=1)


class Mine(Tensor):
    pass


g: Mine = Mine.ones(2).relu() + 1
"""


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed; the group `check` has it")
def test_a_type_checker_sees_the_methods(tmp_path: Path) -> None:
    """mypy accepts both spellings, and finds a parameter, a method and a type that are wrong."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env={
        "PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT / "core" / "src"), "MYPY_CACHE_DIR": str(tmp_path / "cache"),
    })  # fmt: skip
    said = [line.partition(": ")[2] for line in done.stdout.splitlines() if "error" in line]
    assert [line.rpartition("[")[2] for line in said] == ["call-arg]", "attr-defined]", "assignment]"], done.stdout
