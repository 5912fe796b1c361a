"""Elementwise operations in the file: functions of floats, integers of all widths, bools, casts, broadcasting."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_exports import compared, rand, whole
from tinygraft import Tensor

FUNCTIONS = [
    "silu", "selu", "mish", "hardswish", "hardsigmoid", "hardtanh", "relu6", "celu", "softsign", "quick_gelu",
    "logsigmoid", "erf", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "asinh", "sign", "trunc",
    "round", "neg", "square", "isinf", "isfinite", "reciprocal",
]  # fmt: skip
POSITIVE = ["log", "log2", "log1p", "sqrt", "rsqrt", "asin", "acos", "atanh"]


def test_functions_of_floats() -> None:
    """Equal in ONNX Runtime and here, for any batch."""
    compared(
        lambda x: tuple(getattr(x, name)() for name in FUNCTIONS), rand(3, 5),
        dynamic={"x": {0: "batch"}}, other=[rand(2, 5)],
    )  # fmt: skip


def test_functions_of_positive_floats() -> None:
    """Those that others have no value for; acosh of those above 1."""
    compared(lambda x: ((x + 1).acosh(), *(getattr(x, name)() for name in POSITIVE)), rand(3, 5).sigmoid())


def test_small_numbers_keep_their_digits() -> None:
    """expm1 and log1p near 0, where the plain formulas have none left."""
    import numpy as np

    from tinygraft import onnx

    runtime = pytest.importorskip("onnxruntime", reason="what an exported model is run in")
    x = np.array([1e-6, -3e-5, 1e-3, 0.0, 5.0, np.inf], np.float32)
    model = onnx.export(lambda x: (x.expm1(), x.log1p()), Tensor(x))
    found = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found[0], np.expm1(x.astype(np.float64)), rtol=3e-7)
    np.testing.assert_allclose(found[1], np.log1p(x.astype(np.float64)), rtol=3e-7)


def many(a: Tensor, b: Tensor) -> Any:
    """Every operation that integers have."""
    return (
        a + b, a * b, a // b, a % b, a - b, a & b, a | b, a ^ b, ~a, a.maximum(b), a.minimum(b), a < b, a == b, a != b,
        a << 3, a >> 2, (a > b).where(a, b), a.sum(), a.max(), a.min(), a[2:5], a.flip(0), a.pad((1, 1)), a.cat(b),
        a.float(), a.reshape(5, 6).T, a.cumsum(0), a.bool(), a[Tensor([3, 0, 29, -1])], a.clip(2, 9),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_all_widths(dtype: str) -> None:
    """Also where ONNX Runtime has no operator for the width: wrapped as the width does."""
    low = 0 if dtype.startswith("u") else -120
    compared(many, whole(low, 120, 30, dtype=dtype), whole(1, 15, 30, dtype=dtype))


def test_divisions_of_integers_round_down() -> None:
    """By negative numbers too; by 0 they give 0, and end no process."""
    a, b = whole(-20, 20, 30), Tensor([*range(-15, 0), *range(1, 16)])
    compared(lambda a, b: (a // b, a % b, a // 7, a % -7, a // -3, a / b, a.abs(), -a), a, b)
    compared(lambda a, b: (a // b, a % b), a, a - a)


def test_bools() -> None:
    """Logic, sums, choices, comparisons."""

    def logic(a: Tensor, b: Tensor) -> Any:
        return a & b, a | b, a ^ b, ~a, a + b, a * b, a.any(), a.all(), a.sum(), a.where(b, ~b), a == b, a != b, a.max()

    compared(logic, whole(0, 2, 9).bool(), whole(0, 2, 9).bool())


def test_casts() -> None:
    """Within the range of both dtypes."""

    def casts(x: Tensor) -> Any:
        narrow = (x.int(), x.cast("int64"), x.bool(), x.half(), x.cast("float64"), (x * 10).cast("int8"))
        return *narrow, x.cast("bfloat16").float(), x.int().float(), x.abs().cast("uint8")

    compared(casts, rand(4, 8))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 5e-3), ("float64", 1e-12)])
def test_floats_of_other_widths(dtype: str, tolerance: float) -> None:
    """Products, norms, activations."""

    def some(x: Tensor) -> Any:
        return x @ x.T, x.softmax(-1), x.sum(), x * 2, x.layernorm(), x.relu(), x.exp(), x.tanh(), x.mean(0)

    compared(some, rand(4, 8).cast(dtype), tolerance=tolerance)


def test_remainders_and_powers_of_floats() -> None:
    """With the sign of the divisor, or of the dividend."""
    compared(lambda x: (x // 0.3, x % 0.7, x.fmod(0.7)), rand(4, 8))
    compared(lambda x: (x.abs() ** 1.7, x**2, x**3, 2**x), rand(4, 8))


def test_broadcasting_is_left_to_onnx() -> None:
    """Rows, columns, numbers and sizes: no Expand but where no operand has the shape."""
    assert compared(lambda x, row, column: x * row + column, rand(4, 8), rand(8), rand(4, 1)) == ["Mul", "Add"]
    assert compared(lambda a: a[:, None] * a, rand(4)) == ["Unsqueeze", "Mul"]
    compared(lambda x: (x * x.shape[0], x.sum() / x.shape[0]), rand(4, 8), dynamic={"x": {0: "n"}}, other=[rand(2, 8)])
    compared(lambda x: (x > 0).where(x, -1), rand(4, 8))
    compared(lambda x: x.masked_fill(x > 0, float("-inf")), rand(4, 8))
