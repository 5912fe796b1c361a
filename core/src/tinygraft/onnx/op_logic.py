"""Operators of ONNX: comparisons, logic, and choices between values."""

from __future__ import annotations

from typing import Any

from tinygraft.onnx.op_math import old_operand
from tinygraft.onnx.operator_table import operator
from tinygraft.tensor.tensor import Tensor


def _compared(name: str, method: str) -> None:
    """Enter an operator of two operands that is a method of Tensor."""

    def compare(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Any:
        return getattr(a, method)(old_operand(a, b, axis))

    operator(name)(compare)


for _name, _method in {
    "Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
}.items():  # fmt: skip
    _compared(_name, _method)


@operator("Not")
def logical_not(x: Tensor) -> Tensor:
    """Whether x is false."""
    return x.logical_not()


@operator("IsNaN")
def is_nan(x: Tensor) -> Tensor:
    """Where x is NaN."""
    return x.isnan()


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Where x is infinite."""
    return x.isinf(detect_positive=bool(detect_positive), detect_negative=bool(detect_negative))


@operator("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where the condition holds, y elsewhere."""
    return condition.where(x, y)
