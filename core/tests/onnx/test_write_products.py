"""Matrix products in the file: which operator, and every arrangement of axes."""

from __future__ import annotations

import pytest

from onnx_exports import compared, rand
from tinygraft import Tensor, nn


def test_a_linear_layer_is_a_gemm() -> None:
    """Of two axes; of three a MatMul and an Add."""
    assert compared(nn.Linear(8, 3), rand(4, 8), dynamic={"x": {0: "batch"}}, other=[rand(2, 8)]) == ["Gemm"]
    assert compared(nn.Linear(8, 3), rand(2, 4, 8)) == ["Transpose", "MatMul", "Add"]
    assert compared(lambda x, w: x @ w, rand(4, 8), rand(8, 2)) == ["MatMul"]
    assert compared(lambda x, w: x @ w.T, rand(4, 8), rand(2, 8)) == ["Gemm"]


@pytest.mark.parametrize(
    "formula",
    ["bij,bkj->bik", "bij,bkj->ikb", "bij,bij->b", "bij,ckj->bcik", "bij,bkj->kj", "bij,bkj->", "bij,bkj->ijk"],
)
def test_einsum(formula: str) -> None:
    """Batches, several rows, results in any order, and what is no matrix product."""
    compared(lambda a, b: Tensor.einsum(formula, a, b), rand(2, 3, 4), rand(2, 3, 4))


def test_batches_are_broadcast() -> None:
    """A batch of one side, of both, and of none; vectors."""
    compared(lambda a, b: (a @ b, a @ b[0], a[0] @ b, a[0, 0] @ b[0], a[0] @ b[0, :, 0]), rand(2, 3, 4), rand(2, 4, 5))
    sizes = {"a": {0: "n"}}
    compared(
        lambda a, b: a @ b, rand(2, 1, 3, 4), rand(5, 4, 6), dynamic=sizes, other=[rand(3, 1, 3, 4), rand(5, 4, 6)]
    )


def test_other_sums_stay_sums() -> None:
    """Squares, and a dot product."""
    assert compared(lambda a, b: a.dot(b), rand(4), rand(4)) == ["Mul", "ReduceSum"]
    assert compared(lambda a: (a * a).sum(1), rand(4, 3)) == ["Mul", "ReduceSum"]


def test_half_products_are_summed_in_float32() -> None:
    """As in the graph: casts around the product."""
    found = compared(lambda x: (x.cast("bfloat16") @ x.cast("bfloat16").T).float(), rand(4, 8), tolerance=2e-2)
    assert found.count("Cast") == 5 and found.count("MatMul") + found.count("Gemm") == 1
