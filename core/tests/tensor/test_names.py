"""Every name that a Tensor of other versions has: it is there with its parameters, and does what it says.

names.txt is the table. Each expression of it is evaluated with fresh tensors of the names below.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seed_pages import difference, read_signature
from tinygraft import Tensor, Variable, dtypes
from tinygraft.uop.meanings import threefry2x32
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

TEXT = (Path(__file__).parent / "names.txt").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in TEXT.split("\n\n", 2)[2].splitlines() if " | " in line]


def name_in(row: list[str]) -> str:
    """The name of a row."""
    return row[0].partition("(")[0]


X, P, U, B = (-1.5, 0.0, 2.5), (0.25, 1.0, 2.25), (-0.5, 0.5, 0.75), (True, False, True)


def sigmoid(v: float) -> float:
    """1 / (1 + e**-v)."""
    return 1 / (1 + math.exp(-v))


def raised(call: Callable[[], object]) -> str:
    """The name of what a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def doubled(out: UOp, source: UOp) -> UOp:
    """A kernel that writes twice the source into out."""
    place = UOp.range(source.arg.size, 0)
    value = UOp(Ops.LOAD, source.dtype, (source, place)) * 2.0
    return UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(out, place, value)),))


def names(folder: Path) -> dict[str, Any]:
    """What the expressions of the table are about."""
    path = folder / "bytes.gz"
    path.write_bytes(gzip.compress(bytes([1, 2, 3])))
    return {
        "Tensor": Tensor, "dtypes": dtypes, "Ops": Ops, "math": math, "hashlib": hashlib, "threefry2x32": threefry2x32,
        "sigmoid": sigmoid, "raised": raised, "doubled": doubled, "X": X, "P": P, "U": U, "B": B,
        "t": Tensor([[1.0, 2.0], [3.0, 4.0]]), "i": Tensor([2, 0, 1]), "b": Tensor(list(B)), "x": Tensor(list(X)),
        "p": Tensor(list(P)), "u": Tensor(list(U)), "n": Variable("n", 1, 2).bind(1), "url": path.as_uri(),
        "array": np.array([5.0, 6.0], np.float32),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Tensors and tuples as lists, of numbers as Python has them."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def same(found: Any, wanted: Any) -> bool:
    """Equal in structure and type, and in value to 1e-5."""
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return type(found) is float and math.isclose(found, wanted, rel_tol=1e-5, abs_tol=1e-5)
    return type(found) is type(wanted) and bool(found == wanted)


def test_the_table_is_whole() -> None:
    """256 names, each once."""
    assert len({name_in(row) for row in ROWS}) == len(ROWS) == 256


@pytest.mark.parametrize("signature", [row[0] for row in ROWS])
def test_a_name_is_there_with_its_parameters(signature: str) -> None:
    """The method, property or constructor has the names, the order and the defaults of the table."""
    name, wanted = read_signature(signature)
    if name == "size":
        assert isinstance(Tensor.size, property), "size is a number that can be called"
    else:
        assert difference(Tensor, name, wanted) == ""


@pytest.mark.parametrize(("signature", "expression", "wanted"), ROWS, ids=map(name_in, ROWS))
def test_a_name_does_what_it_says(tmp_path: Path, signature: str, expression: str, wanted: str) -> None:
    """The expression of the table gives the value beside it."""
    given = names(tmp_path)
    ast.parse(expression, mode="eval")
    found = plain(eval(expression, given))
    assert same(found, plain(eval(wanted, given))), f"{expression} gave {found}, not {wanted}"


OPERATORS = {
    "__add__": operator.add, "__sub__": operator.sub, "__mul__": operator.mul, "__truediv__": operator.truediv,
    "__floordiv__": operator.floordiv, "__mod__": operator.mod, "__pow__": operator.pow, "__and__": operator.and_,
    "__or__": operator.or_, "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift,
    "__lt__": operator.lt, "__gt__": operator.gt, "__ge__": operator.ge, "__le__": operator.le,
    "__eq__": operator.eq, "__ne__": operator.ne,
}  # fmt: skip
ARITHMETIC = list(OPERATORS)[:12]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_pythons(name: str) -> None:
    """Between tensors, and between a tensor and a number, each element is what Python's operator gives."""
    a, b = [7, 2, 5], [2, 3, 1]
    function = OPERATORS[name]
    assert plain(function(Tensor(a), Tensor(b))) == pytest.approx([function(x, y) for x, y in zip(a, b, strict=True)])
    assert plain(function(Tensor(a), 3)) == pytest.approx([function(x, 3) for x in a])
    assert hasattr(Tensor, name)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_an_operator_is_reflected_and_in_place(name: str) -> None:
    """3 op tensor, and tensor op= 3 for what keeps the dtype, are the same elements."""
    function, a = OPERATORS[name], [7, 2, 5]
    assert plain(function(3, Tensor(a))) == pytest.approx([function(3, x) for x in a])
    assert hasattr(Tensor, name.replace("__", "__r", 1))
    if name == "__truediv__":
        a = [7.0, 2.0, 5.0]  # type: ignore[list-item]
    t = Tensor(a)
    same_tensor = t
    t = getattr(operator, name.replace("__", "__i", 1))(t, 3)
    assert t is same_tensor
    assert plain(t) == pytest.approx([function(x, 3) for x in a])


def test_the_operators_of_one_operand_and_of_matrices() -> None:
    """-t, ~t and t @ t, its reflection and in place."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (plain(-t), plain(~Tensor([1, 0]))) == ([[-1.0, -2.0], [-3.0, -4.0]], [-2, -1])
    assert plain(t @ t) == plain(t.__rmatmul__(t)) == [[7.0, 10.0], [15.0, 22.0]]
    t @= t
    assert plain(t) == [[7.0, 10.0], [15.0, 22.0]]
    assert hasattr(Tensor, "__imod__")
